//! The DSL from outside: tracing, validation, printing, the interpreter's operations, schedules.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod build;
mod interp;
mod reference;
mod schedule_text;
mod scrambled;
mod trace_errors;
mod validation;

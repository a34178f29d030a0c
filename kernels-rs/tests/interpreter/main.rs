//! Kernels against formulas: every kernel runs in the interpreter and meets a plain f64 reference of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod attention;
mod gated_mlp;
mod gemm;
mod goldens;
mod row_softmax;
mod support;
mod windowed;

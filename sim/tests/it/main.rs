//! Integration tests of the simulator: whole kernels by expected result, and planted faults.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod attention;
mod barriers;
mod copies;
mod faults;
mod foreign;
mod kernel;
mod matmul;
mod parts;
mod planted;
mod scalar;
mod text;
mod time;

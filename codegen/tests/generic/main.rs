//! Kernels that no pass was written for: traced, compiled, simulated, and compared with the interpreter of the tile IR.
//!
//! The kernels are those of `testkit`, at most 40 lines each. The simulator reads the PTX text; the interpreter reads the traced kernel: what they
//! share is the kernel, and nothing of the code generator.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod carried;
mod examples;
mod harness;
mod knobs;
mod random;
mod readers;
mod regressions;

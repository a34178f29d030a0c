//! What is true: typed problems, input families, f64 references, the error gate, FLOP counts and signatures.
//!
//! This crate depends on nothing else of the project and is built from the base commit, so that a candidate (a
//! schedule or an edited kernel) cannot move the goal posts. It does no I/O and is deterministic: the same arguments
//! give the same bytes on every machine and with any number of threads (transcendental functions come from `libm`,
//! not from the platform; every sum has a fixed order).
//!
//! The order of use: parse a [`problem::Problem`], generate [`inputs::Inputs`], run the kernel under test, compute the
//! f64 [`mod@reference`] and the plain algorithm on the same rows, and let [`norms::judge`] decide.

pub mod dtype;
pub mod flops;
pub mod inputs;
pub mod norms;
pub mod problem;
pub mod reference;
pub mod signature;

pub use dtype::Dtype;
pub use problem::{AttentionForward, Gemm, Mask, MatLayout, Problem, RowSoftmax};

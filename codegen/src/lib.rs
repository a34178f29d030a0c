//! From tile maths and a schedule to PTX: rewrites, lowering, checks, and the PTX tree.
//!
//! No I/O, deterministic: the same input gives the same bytes. [`compile::compile`] lists the stages.

pub mod ampere;
pub mod check;
pub mod compile;
pub mod emit;
pub mod error;
mod index;
pub mod launch;
pub mod lower;
pub mod plan;
pub mod ptx;
pub mod rewrite;
pub mod role;
pub mod target;

pub use compile::{Compiled, Options, compile, compile_with};
pub use emit::stamps::Instrument;
pub use error::{CompileError, Refusal};

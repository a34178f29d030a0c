//! Tile maths, apart from hardware: the kernel IR, its tracing builder, and the schedule.
//!
//! A kernel is traced by running a Rust function once ([`Trace`]); the result is a [`Kernel`]: values of a tile type,
//! named loads, dots and folds, no warps and no barriers. [`schedule::Schedule`] carries every hardware decision, as
//! data; `codegen::plan` binds the two.

pub mod dtype;
pub mod index;
pub mod interp;
pub mod ir;
pub mod print;
pub mod trace;
pub mod validate;

pub use dtype::DType;
pub use index::{Ix, IxBin};
pub use ir::{Kernel, ValueId};
pub use print::print;
pub use trace::{FoldScope, FoldTotals, Tile, Trace, TraceErrors};
pub use validate::{ValidKernel, ValidationErrors, validate};
pub mod schedule;

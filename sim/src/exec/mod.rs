//! Execution: warps in lock step, interleaved by a seeded scheduler.

pub(crate) mod access;
mod across;
pub(crate) mod atomic;
mod convert;
pub(crate) mod float;
mod groups;
pub(crate) mod half;
mod integer;
mod load_store;
pub(crate) mod machine;
mod matrix;
mod resident;
pub(crate) mod rng;
mod schedule;
pub(crate) mod step;
pub(crate) mod warp;

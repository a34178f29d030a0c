//! Kernels written in the DSL. Tile maths only: no warp, no barrier, no byte address.
//!
//! This is the tree an author (or a search) edits; [`schedules`] holds the schedules shipped for it.

pub mod attention;
pub mod gemm;
pub mod row_softmax;
pub mod schedules;

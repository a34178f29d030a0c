//! The second target family, `sm_80`: tiles copied by `cp.async`, dots by `ldmatrix` and `mma.sync`.
//!
//! There are no warp roles: every warpgroup of 128 threads copies, computes and stores. A fold runs a ring of slots; all
//! tiles of one trip are one `cp.async` group, and one CTA barrier per trip both publishes the slot that has landed and
//! frees the slot read a trip ago. Warpgroup `w` owns `rows_per_consumer` rows of the row tile, in slabs of 64; warp `i`
//! of it owns rows `16 i .. 16 i + 16` of every slab and all columns. Register tiles then lie over the threads exactly as
//! in the role program ([`crate::role::Layout`]: the `m16n8` accumulator of a warp is its share of the `m64` one), so
//! calculations are lowered and emitted by the same code.
//!
//! What it takes: folds whose carries are plain sums of dots of loaded tiles, calculations after them, and stores. Tiles
//! are read and written where rows lie 16-byte aligned: tensor addresses on 16 bytes, every stride but the last a
//! multiple of 8 elements. Extents may be ragged. Points (dimensions without a span) lie inside the tensor.

mod copy;
mod dot;
mod emit;
mod fold;
mod lower;
mod refuse;
mod store;

use dsl::DType;

use crate::launch::{self, LaunchFacts};
use crate::role::{Expr, RegTileId, RoleProgram, SmemTile, Stmt, VarId};

pub use emit::emit;
pub use lower::lower;
pub use refuse::kernel as check_kernel;

/// A program without roles: one block of the grid per CTA.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    /// Names, tensors, pointers, grid, variables and register tiles; its rings, maps and roles are empty.
    pub shell: RoleProgram,
    pub shared_bytes: u32,
    pub steps: Vec<Step>,
}

impl Program {
    /// Threads of a CTA.
    #[must_use]
    pub fn threads(&self) -> u32 {
        128 * self.shell.consumers
    }

    /// How to launch it.
    #[must_use]
    pub fn facts(&self, target: &str) -> LaunchFacts {
        let facts = launch::facts(&self.shell, target);
        LaunchFacts {
            block: [self.threads(), 1, 1],
            shared_bytes: self.shared_bytes,
            ..facts
        }
    }
}

/// One step of a block.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// A calculation or a vector access, as in the role program.
    Plain(Stmt),
    Fold(Fold),
    Store(Store),
}

/// A loop over a ring of slots; the carries are initialised before it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fold {
    pub name: String,
    pub trips: Expr,
    /// The trip whose tiles are being copied.
    pub ahead: VarId,
    /// Walks the trips from the last to the first.
    pub descending: bool,
    /// Slots of the ring, at least 2.
    pub stages: u32,
    pub copies: Vec<Copy>,
    /// In program order.
    pub dots: Vec<Dot>,
}

/// A tile of a tensor: which dimensions it spans and where it starts.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix {
    /// Index into [`RoleProgram::pointers`].
    pub pointer: u32,
    /// Dimension and index of everything that is not spanned.
    pub points: Vec<(u32, Expr)>,
    pub row_dim: u32,
    /// First row and the size of its dimension, in elements.
    pub row: (Expr, Expr),
    /// First column and the size of its dimension, which is contiguous.
    pub col: (Expr, Expr),
}

/// A tile copied to shared memory, 128-byte swizzled: 16-byte chunk `c` of row `r` of a 64-column box lies at `c ^ (r & 7)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Copy {
    pub name: String,
    pub from: Matrix,
    pub tile: SmemTile,
    /// Of slot 0; slots follow each other.
    pub offset: u32,
    /// Bytes that the L2 fetches at a time: 0 leaves it to the hardware.
    pub l2_prefetch: u32,
}

/// A dot operand: position in [`Fold::copies`], and whether its contiguous dimension is not the contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand {
    pub copy: usize,
    pub mn_major: bool,
}

/// A synchronous dot added to an accumulator.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    pub name: String,
    pub acc: RegTileId,
    pub a: Operand,
    pub b: Operand,
    /// Rows of one warpgroup, a multiple of 64.
    pub rows: u32,
    /// A multiple of 16.
    pub cols: u32,
    /// A multiple of 16.
    pub depth: u32,
    pub dtype: DType,
}

/// Writes a register tile straight to memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Store {
    pub name: String,
    pub src: RegTileId,
    pub to: Matrix,
}

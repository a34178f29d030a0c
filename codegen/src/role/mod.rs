//! The role program: warp roles, rings, tensor-core groups, barriers and register tiles, all explicit.
//!
//! A program runs once per CTA. Its producer warp fills ring slots by TMA; its consumer warpgroups drain them. Both walk
//! the same blocks of the grid. Statements are structured (loops, no jumps), so a checker can follow them.

pub mod print;

use dsl::DType;
use dsl::ir::{BinaryOp, CmpOp, ReduceOp, UnaryOp};

/// A uniform `i32` variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);
/// A tile held in registers by one warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RegTileId(pub u32);
/// A ring of shared-memory slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RingId(pub u32);
/// A tensor map parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MapId(pub u32);
/// A slot held between acquire and release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HandleId(pub u32);

/// A uniform integer expression.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    Const(i64),
    /// A runtime size, by position in [`RoleProgram::runtime`].
    Runtime(u32),
    Var(VarId),
    Bin(dsl::IxBin, Box<(Expr, Expr)>),
}

impl Expr {
    /// `self op rhs`, with constants folded.
    #[must_use]
    pub fn bin(op: dsl::IxBin, a: Expr, b: Expr) -> Expr {
        use dsl::IxBin as B;
        match (op, &a, &b) {
            (_, Expr::Const(_), Expr::Const(_)) => {
                let (Expr::Const(x), Expr::Const(y)) = (&a, &b) else {
                    return a;
                };
                match dsl::Ix::bin(op, dsl::Ix::Const(*x), dsl::Ix::Const(*y)) {
                    dsl::Ix::Const(v) => Expr::Const(v),
                    _ => Expr::Bin(op, Box::new((a, b))),
                }
            }
            (B::Add | B::Sub, _, Expr::Const(0)) | (B::Mul | B::FloorDiv | B::CeilDiv, _, Expr::Const(1)) => a,
            (B::Add, Expr::Const(0), _) | (B::Mul, Expr::Const(1), _) => b,
            _ => Expr::Bin(op, Box::new((a, b))),
        }
    }
}

/// How the elements of a register tile lie over the threads of a warpgroup (PTX ISA 9.7.15.5.1, accumulator layout).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// f32 `[64 * slabs, cols]`: `slabs * cols / 2` registers.
    Acc { slabs: u32, cols: u32 },
    /// Pairs of 16-bit values in the same places: `slabs * cols / 4` registers; also the A-operand layout.
    Packed { slabs: u32, cols: u32, dtype: DType },
    /// One f32 per row, equal in the four lanes of a quad: `2 * slabs` registers.
    Row { slabs: u32 },
    /// One f32 per row and lane, to be summed over the quad: `2 * slabs` registers.
    RowPartial { slabs: u32 },
    /// One f32 per column: `cols / 4` registers.
    Col { cols: u32 },
    /// One f32 for the tile.
    Scalar,
}

impl Layout {
    /// Registers per thread.
    #[must_use]
    pub fn registers(self) -> u32 {
        match self {
            Self::Acc { slabs, cols } => slabs * cols / 2,
            Self::Packed { slabs, cols, .. } => slabs * cols / 4,
            Self::Row { slabs } | Self::RowPartial { slabs } => 2 * slabs,
            Self::Col { cols } => cols / 4,
            Self::Scalar => 1,
        }
    }
}

/// A register tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegTile {
    pub name: String,
    pub layout: Layout,
}

/// An f32 operand of a calculation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Src {
    Tile(RegTileId),
    Const(f32),
    /// A scalar parameter, by position in [`RoleProgram::scalars`].
    Param(u32),
}

/// One term of a mask, over absolute tile coordinates: kept when `row_coef * row + col_coef * col + base >= 0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub row_coef: i64,
    pub col_coef: i64,
    pub base: Expr,
}

/// A calculation on register tiles.
#[derive(Clone, Debug, PartialEq)]
pub enum Calc {
    Copy(Src),
    Unary(UnaryOp, Src),
    /// `exp2` where every n-th element is a polynomial on the FMA pipe.
    Exp2Mixed {
        src: Src,
        every: u32,
    },
    Binary(BinaryOp, Src, Src),
    Fma(Src, Src, Src),
    /// Rounds to 16 bits and packs.
    Pack(RegTileId),
    /// Widens packed values.
    Unpack(RegTileId),
    Mask {
        src: RegTileId,
        terms: Vec<Term>,
        fill: f32,
    },
    Select {
        cmp: CmpOp,
        lhs: Src,
        rhs: Src,
        then: Src,
        otherwise: Src,
    },
    /// Over the columns a thread holds; `quad` also over the four lanes that share a row.
    Reduce {
        op: ReduceOp,
        src: RegTileId,
        quad: bool,
    },
    /// Over the four lanes that share a row.
    QuadSum(RegTileId),
    /// Multiplies rows by factors; skipped by a warp whose factors are all one.
    ScaleUnlessOne {
        factor: RegTileId,
    },
}

/// How a matrix lies in shared memory: boxes of 64 columns (128 bytes, 128-byte swizzle) one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmemTile {
    pub rows: u32,
    pub cols: u32,
}

impl SmemTile {
    /// Bytes of one 64-column box.
    #[must_use]
    pub fn box_bytes(self) -> u32 {
        self.rows * 128
    }
    /// Number of boxes.
    #[must_use]
    pub fn boxes(self) -> u32 {
        self.cols.div_ceil(64)
    }
    /// Bytes of the whole tile.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.box_bytes() * self.boxes()
    }
}

/// A place in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The slot behind a handle.
    Slot(HandleId),
    /// A fixed offset in bytes.
    Fixed(u32),
}

/// A dot operand in shared memory; `transposed` when its contiguous dimension is not the contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmemOperand {
    pub place: Place,
    pub tile: SmemTile,
    pub mn_major: bool,
}

/// The left operand of a dot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandA {
    /// This warpgroup's rows of a tile; `row_step` rows lie between warpgroups.
    Shared(SmemOperand),
    Regs(RegTileId),
}

/// One asynchronous dot: a group of wgmma instructions closed by a commit.
#[derive(Clone, Debug, PartialEq)]
pub struct Dot {
    pub name: String,
    pub acc: RegTileId,
    pub a: OperandA,
    pub b: SmemOperand,
    /// Rows of one warpgroup, a multiple of 64.
    pub rows: u32,
    pub cols: u32,
    pub depth: u32,
    pub dtype: DType,
    /// Adds to the accumulator instead of replacing it.
    pub accumulate: bool,
    /// Where a warpgroup may leave columns out; such a dot is alone in flight.
    pub narrow: Option<Box<Narrow>>,
}

/// A warpgroup computes the first `cols` columns only, and zeros for the others, when some term is negative for all of its
/// rows from column `cols` on (column coefficients are negative).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Narrow {
    pub cols: u32,
    pub terms: Vec<Term>,
}

/// One statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// A note that survives into the PTX.
    Note(String),
    Set {
        var: VarId,
        value: Expr,
    },
    /// Runs `body` `count` times (not at all when `count <= 0`).
    Loop {
        name: String,
        count: Expr,
        unroll: u32,
        body: Vec<Stmt>,
    },
    /// Producer: waits for a free slot and fills it.
    Fill {
        ring: RingId,
        load: Load,
    },
    /// Consumer: waits for the next full slot.
    Acquire {
        ring: RingId,
        handle: HandleId,
        load: Load,
    },
    /// Consumer: one arrival per warp hands the slot back.
    Release {
        ring: RingId,
        handle: HandleId,
    },
    Fence,
    Issue(Box<Dot>),
    Wait {
        pending: u32,
    },
    Calc {
        dst: RegTileId,
        calc: Calc,
    },
    /// A warp whose partial sums are not all at most `limit` runs `body`; no tensor-core group is in flight.
    Repair {
        check: RegTileId,
        limit: f32,
        body: Vec<Stmt>,
    },
    /// A dot of each warp for itself, synchronous (`mma.sync`), both operands K-major in shared memory.
    WarpDot {
        acc: RegTileId,
        a: SmemOperand,
        b: SmemOperand,
        rows: u32,
        cols: u32,
        depth: u32,
        dtype: DType,
    },
    /// Reads a slot into the accumulator layout.
    ReadShared {
        dst: RegTileId,
        handle: HandleId,
        tile: SmemTile,
    },
    /// Reads one f32 per row or column of a tensor; zero outside.
    ReadGlobal {
        dst: RegTileId,
        at: GlobalAt,
    },
    /// Waits until earlier stores of this warpgroup have read their staging buffer.
    StagingFree,
    /// Writes this warpgroup's rows of a packed tile to shared memory.
    Stage {
        src: RegTileId,
        place: Place,
        tile: SmemTile,
    },
    /// Makes staged data visible to the tensor core: a proxy fence, then a barrier of the warpgroup.
    StagedVisible,
    /// All consumer warpgroups meet: before a slot that they all read is written over.
    ConsumersMeet,
    /// Makes staged data visible to the copy engine and stores it.
    StoreStaged {
        map: MapId,
        place: Place,
        tile: SmemTile,
        coords: Vec<Coord>,
        name: String,
    },
    /// Writes one f32 per row.
    WriteGlobal {
        src: RegTileId,
        at: GlobalAt,
    },
    /// Waits for this warpgroup's turn on the tensor core.
    TurnWait,
    /// Hands the turn to the next warpgroup.
    TurnPass,
}

/// One coordinate of a copy, in tensor dimension order (outermost first).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Coord {
    Point(Expr),
    /// First index of the row span.
    Rows(Expr),
    /// First index of the column span; boxes step by 64.
    Cols(Expr),
}

/// A vector access to a tensor: base pointer and strides are parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GlobalAt {
    /// Index into [`RoleProgram::pointers`].
    pub pointer: u32,
    pub coords: Vec<Coord>,
    /// Size of the spanned dimension: indices below zero, at it or past it are not accessed.
    pub bound: Expr,
    /// Index and size of every point that may lie outside its dimension: nothing is accessed then.
    pub points: Vec<(Expr, Expr)>,
}

/// A TMA load of a tile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    pub name: String,
    pub map: MapId,
    pub tile: SmemTile,
    pub coords: Vec<Coord>,
    pub cache: dsl::schedule::Cache,
}

/// A ring of slots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ring {
    pub name: String,
    pub stages: u32,
    pub slot_bytes: u32,
    /// Of slot 0.
    pub offset: u32,
    /// Of the first full barrier; 8 bytes each.
    pub full: u32,
    /// Of the first empty barrier.
    pub empty: u32,
}

/// A tensor map parameter: what the host encodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    pub name: String,
    /// Position in [`RoleProgram::tensors`].
    pub tensor: u32,
    /// Elements per dimension, outermost first.
    pub boxes: Vec<u32>,
    pub l2_promotion: u32,
}

/// A pointer parameter with its strides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    pub tensor: u32,
}

/// How blocks are numbered and handed out.
#[derive(Clone, Debug, PartialEq)]
pub struct GridPlan {
    pub persistence: dsl::schedule::Persistence,
    /// Name, count, and the variable that receives the coordinate.
    pub axes: Vec<GridAxis>,
    /// Position of the inner axis in `axes`.
    pub inner: usize,
    pub section: Option<u32>,
}

/// One grid axis.
#[derive(Clone, Debug, PartialEq)]
pub struct GridAxis {
    pub name: String,
    pub count: Expr,
    pub var: VarId,
    pub descending: bool,
}

/// Mailbox of a dynamic grid: a word and two mbarriers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mailbox {
    pub word: u32,
    pub full: u32,
    pub empty: u32,
}

/// A tensor parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorParam {
    pub name: String,
    pub dtype: DType,
    /// Outermost first: literal or runtime.
    pub dims: Vec<Expr>,
    pub written: bool,
    /// Base and strides, except the last, are multiples of this where warps copy pieces of rows themselves.
    pub piece_bytes: u32,
}

/// A whole program.
#[derive(Clone, Debug, PartialEq)]
pub struct RoleProgram {
    pub name: String,
    pub consumers: u32,
    pub rows_per_consumer: u32,
    /// Warps that fill slots: ring `r` is filled by warp `r % producer_warps`, each walking the whole program.
    pub producer_warps: u32,
    pub producer_registers: u32,
    pub consumer_registers: u32,
    pub runtime: Vec<String>,
    pub scalars: Vec<(String, bool)>,
    pub tensors: Vec<TensorParam>,
    pub maps: Vec<TensorMap>,
    pub pointers: Vec<Pointer>,
    pub rings: Vec<Ring>,
    /// Staging buffers: name, offset, bytes.
    pub buffers: Vec<(String, u32, u32)>,
    pub mailbox: Option<Mailbox>,
    pub shared_bytes: u32,
    pub grid: GridPlan,
    pub vars: Vec<String>,
    pub tiles: Vec<RegTile>,
    pub handles: Vec<(String, RingId)>,
    /// The Rust line behind each name of the program.
    pub sites: std::collections::BTreeMap<String, dsl::ir::Site>,
    pub ping_pong: bool,
    /// One block of the producer.
    pub producer: Vec<Stmt>,
    /// One block of a consumer warpgroup.
    pub consumer: Vec<Stmt>,
}

impl RoleProgram {
    /// The Rust line of a named value; a part of it (`NAME.part`) has its line.
    #[must_use]
    pub fn source(&self, name: &str) -> Option<&dsl::ir::Site> {
        let mut name = name;
        while !self.sites.contains_key(name) {
            name = name.rsplit_once('.')?.0;
        }
        self.sites.get(name)
    }

    /// Threads of a CTA: one producer warpgroup and the consumers.
    #[must_use]
    pub fn threads(&self) -> u32 {
        128 * (self.consumers + 1)
    }
}

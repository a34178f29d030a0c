//! The tile IR: what a traced kernel is.
//!
//! Values live in one arena ([`Kernel::values`]); blocks are lists of ids in program order. Pure expressions and effects
//! (stores) share the arena, so a rewrite appends values and edits lists, never renumbers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::dtype::DType;
use crate::index::{IterId, Ix, RuntimeId, TileId};

/// A value of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ValueId(pub u32);
/// A tensor parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TensorId(pub u32);
/// A scalar `f32` parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ScalarId(pub u32);

/// One extent of a tile: literal, or a tile size that the schedule binds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Extent {
    Lit(u32),
    Tile(TileId),
}

impl From<u32> for Extent {
    fn from(x: u32) -> Self {
        Self::Lit(x)
    }
}
impl From<TileId> for Extent {
    fn from(x: TileId) -> Self {
        Self::Tile(x)
    }
}
impl From<Extent> for Ix {
    fn from(e: Extent) -> Ix {
        match e {
            Extent::Lit(v) => Ix::from(v),
            Extent::Tile(t) => Ix::Tile(t),
        }
    }
}

/// The shape of a tile value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Shape {
    /// One number for the whole tile.
    Scalar,
    /// One number per row, `[rows]`.
    Row(Extent),
    /// One number per column, `[cols]`.
    Col(Extent),
    /// `[rows, cols]`.
    Mat(Extent, Extent),
}

/// Shape and element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TileType {
    pub shape: Shape,
    pub dtype: DType,
}

/// Where the kernel reads or writes a tensor: one entry per tensor dimension, outermost first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum At {
    /// One index.
    Point(Ix),
    /// `len` indices from `start`. Out-of-range elements read as zero and are not written.
    Span { start: Ix, len: Extent },
}

impl<T: Into<Ix>> From<T> for At {
    fn from(x: T) -> Self {
        Self::Point(x.into())
    }
}

/// `len` indices from `start`.
pub fn span(start: impl Into<Ix>, len: impl Into<Extent>) -> At {
    At::Span {
        start: start.into(),
        len: len.into(),
    }
}

/// How a tensor parameter is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Access {
    Read,
    Write,
}

/// One dimension of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dim {
    Lit(u32),
    Runtime(RuntimeId),
}

/// A tensor parameter; strides are runtime, the last dimension is contiguous.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    pub dims: Vec<Dim>,
    pub access: Access,
}

/// An `f32` kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scalar {
    pub name: String,
    /// The launcher refuses values that are not greater than zero; rewrites may then move it through a maximum.
    pub positive: bool,
}

/// One grid axis: a named number of independent blocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Axis {
    pub name: String,
    pub count: Ix,
}

/// A tile size left to the schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TileParam {
    pub name: String,
}

/// An element position inside a tile: `row_coef * row + col_coef * col + base`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Position {
    pub row_coef: i64,
    pub col_coef: i64,
    pub base: Ix,
}

/// A conjunction of terms; an element is kept when every term is `>= 0`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mask {
    pub terms: Vec<Position>,
}

/// Element-wise functions of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum UnaryOp {
    Neg,
    Exp2,
    Log2,
    Recip,
    Tanh,
    Abs,
    Sqrt,
}

/// Element-wise functions of two arguments, broadcasting rows, columns and scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

/// Comparisons of two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CmpOp {
    Eq,
    Lt,
    Le,
    Gt,
    Ge,
}

/// Reductions over the columns of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ReduceOp {
    Sum,
    Max,
}

/// A dot operand: a matrix, used as it lies or transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Operand {
    pub value: ValueId,
    pub transposed: bool,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Op {
    /// Elements of a tensor, zero outside it.
    Load {
        tensor: TensorId,
        at: Vec<At>,
    },
    /// A constant, broadcast.
    Const(f32),
    /// A kernel parameter, broadcast.
    Param(ScalarId),
    Unary(UnaryOp, ValueId),
    Binary(BinaryOp, ValueId, ValueId),
    /// `a * b + c`, rounded once; made by rewrites.
    Fma(ValueId, ValueId, ValueId),
    Cast(ValueId),
    /// Keeps elements where the mask holds, `fill` elsewhere.
    Mask {
        src: ValueId,
        mask: Mask,
        fill: f32,
    },
    /// `if lhs cmp rhs { then } else { otherwise }`, element by element.
    Select {
        cmp: CmpOp,
        lhs: ValueId,
        rhs: ValueId,
        then: ValueId,
        otherwise: ValueId,
    },
    /// Reduces the columns: `[rows, cols] -> [rows]`.
    Reduce(ReduceOp, ValueId),
    /// Matrix product with f32 accumulation.
    Dot {
        a: Operand,
        b: Operand,
    },
    /// `exp2(scores - reference)`, where the fold's reference is first raised to cover `scores`.
    Rebase {
        scores: ValueId,
    },
    /// Loop with carried state.
    Fold(Box<Fold>),
    /// The current value of a carry, inside the fold.
    FoldArg {
        carry: u32,
    },
    /// The final value of a carry, after the fold.
    FoldOut {
        fold: ValueId,
        carry: u32,
    },
    /// Writes a tile; elements outside the tensor are dropped.
    Store {
        tensor: TensorId,
        at: Vec<At>,
        src: ValueId,
    },
}

/// How a carry moves from one trip to the next.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CarryKind {
    /// `next = carry (* rescale) + contribution`.
    Sum { contribution: ValueId, rescaled: bool },
    /// `next` is any value of the body.
    Next(ValueId),
    /// The running reference of a rescaled fold: one number per row, never decreasing.
    Reference,
}

/// One carried value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Carry {
    pub name: String,
    pub ty: TileType,
    /// Every element starts here.
    pub init: f32,
    /// The value standing for the carry inside the body.
    pub arg: ValueId,
    pub kind: CarryKind,
}

impl Carry {
    /// The step by which the carry moves on, as the events of a fold's order name it: `NAME.sum`, or `NAME.next`.
    #[must_use]
    pub fn step(&self) -> String {
        match self.kind {
            CarryKind::Sum { .. } => format!("{}.sum", self.name),
            CarryKind::Next(_) | CarryKind::Reference => format!("{}.next", self.name),
        }
    }
}

/// A loop `for iter in 0..trips` with carried state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fold {
    pub name: String,
    pub iter: IterId,
    /// At least one trip at run time: the author clamps it.
    pub trips: Ix,
    pub carries: Vec<Carry>,
    pub body: Vec<ValueId>,
}

impl Fold {
    /// The carry that holds the running reference, when this is a rescaled fold.
    #[must_use]
    pub fn reference(&self) -> Option<usize> {
        self.carries.iter().position(|c| c.kind == CarryKind::Reference)
    }
}

impl Fold {
    /// The steps by which sums follow the reference, as schedules name them: `SUM.rescale`.
    #[must_use]
    pub fn rescales(&self) -> Vec<String> {
        let rescaled = self
            .carries
            .iter()
            .filter(|c| matches!(c.kind, CarryKind::Sum { rescaled: true, .. }));
        rescaled.map(|c| format!("{}.rescale", c.name)).collect()
    }
}

/// The Rust call that made a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    pub file: String,
    pub line: u32,
    pub column: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}

/// One value: what it is, its type, its name and its place in the Rust source.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Value {
    pub op: Op,
    pub ty: TileType,
    pub name: Option<String>,
    pub site: Site,
}

/// A traced kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    pub name: String,
    pub runtime: Vec<String>,
    pub tiles: Vec<TileParam>,
    pub scalars: Vec<Scalar>,
    pub tensors: Vec<Tensor>,
    pub grid: Vec<Axis>,
    pub values: Vec<Value>,
    pub body: Vec<ValueId>,
}

impl Kernel {
    /// The value behind an id of this kernel.
    ///
    /// Ids come from the kernel itself, so the index is in range for every traced or rewritten kernel.
    #[must_use]
    pub fn value(&self, id: ValueId) -> &Value {
        &self.values[id.0 as usize]
    }

    /// The operation behind an id.
    #[must_use]
    pub fn op(&self, id: ValueId) -> &Op {
        &self.value(id).op
    }

    /// Appends a value and returns its id; the caller puts it into a block.
    pub fn push(&mut self, op: Op, ty: TileType, site: Site) -> ValueId {
        let id = ValueId(u32::try_from(self.values.len()).unwrap_or(u32::MAX));
        self.values.push(Value {
            op,
            ty,
            name: None,
            site,
        });
        id
    }

    /// The fold behind an id, if it is one.
    #[must_use]
    pub fn fold(&self, id: ValueId) -> Option<&Fold> {
        match self.op(id) {
            Op::Fold(f) => Some(f),
            _ => None,
        }
    }

    /// The tensor behind an id.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> &Tensor {
        &self.tensors[id.0 as usize]
    }

    /// A name for messages and for the emitted code: the author's, or `%id`.
    #[must_use]
    pub fn label(&self, id: ValueId) -> String {
        self.value(id).name.clone().unwrap_or_else(|| format!("%{}", id.0))
    }
}

impl Op {
    /// The values this operation reads directly (a fold reads none; its body does).
    #[must_use]
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            Op::Load { .. } | Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } | Op::Fold(_) => vec![],
            Op::Unary(_, a) | Op::Cast(a) | Op::Reduce(_, a) => vec![*a],
            Op::Mask { src, .. } | Op::Store { src, .. } => vec![*src],
            Op::Rebase { scores } => vec![*scores],
            Op::Binary(_, a, b) => vec![*a, *b],
            Op::Fma(a, b, c) => vec![*a, *b, *c],
            Op::Select {
                lhs,
                rhs,
                then,
                otherwise,
                ..
            } => vec![*lhs, *rhs, *then, *otherwise],
            Op::Dot { a, b } => vec![a.value, b.value],
            Op::FoldOut { fold, .. } => vec![*fold],
        }
    }
}

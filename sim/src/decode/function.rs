//! Functions and options that a decoded instruction selects.

/// Integer binary functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntBin {
    Add,
    Sub,
    MulLo,
    MulHi,
    Div,
    Rem,
    Min,
    Max,
    And,
    Or,
    Xor,
    Shl,
    Shr,
}

/// Unary functions on bits and integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntUn {
    Mov,
    Not,
    Neg,
    Abs,
    Popc,
    Clz,
    Brev,
}

/// Ternary functions on bits and integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IntTri {
    MadLo,
    MadHi,
    Bfe,
    /// Three-input logic with its table.
    Lop3(u8),
    Prmt,
    /// Funnel shift; `left`, `wrap`.
    Shf(bool, bool),
}

/// Unary f32 functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatUn {
    Neg,
    Abs,
    Ex2,
    Lg2,
    Rcp,
    Sqrt,
    Rsqrt,
    Tanh,
    Sin,
    Cos,
}

/// Binary float functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloatBin {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

/// Rounding of float arithmetic and conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// None given.
    Default,
    Nearest,
    Zero,
    Down,
    Up,
    /// To an integer, then the same four.
    IntNearest,
    IntZero,
    IntDown,
    IntUp,
    NearestAway,
}

/// Options of f32 arithmetic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FloatMode {
    pub ftz: bool,
    pub sat: bool,
    pub nan: bool,
    pub relu: bool,
}

/// Comparison of `setp` (PTX ISA 9.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    Num,
    Nan,
}

/// Predicate logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PredOp {
    And,
    Or,
    Xor,
}

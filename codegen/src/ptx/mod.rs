//! PTX as a typed tree, and its writer.
//!
//! The tree decides everything; the writer only prints. Section numbers refer to the PTX ISA, version 9.0.

mod write;

use std::fmt;

pub use write::write;

/// A register class (PTX ISA 5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    Pred,
    B32,
    B64,
    F32,
}

/// A virtual register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Reg {
    pub class: Class,
    pub number: u32,
}

/// A special register (PTX ISA 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Special {
    TidX,
    CtaidX,
    NctaidX,
    Clock64,
    GlobalTimer,
    SmId,
}

/// An instruction operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Opd {
    Reg(Reg),
    Int(i64),
    Float(f32),
    Special(Special),
    /// The base of dynamic shared memory.
    Smem,
}

impl From<Reg> for Opd {
    fn from(r: Reg) -> Self {
        Self::Reg(r)
    }
}
impl From<i64> for Opd {
    fn from(v: i64) -> Self {
        Self::Int(v)
    }
}
impl From<u32> for Opd {
    fn from(v: u32) -> Self {
        Self::Int(i64::from(v))
    }
}
impl From<f32> for Opd {
    fn from(v: f32) -> Self {
        Self::Float(v)
    }
}

/// A jump target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label(pub u32);

/// Two-operand integer arithmetic on 32 or 64 bits (PTX ISA 9.7.1, 9.7.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IntOp {
    Add,
    Sub,
    MulLo,
    DivS,
    RemS,
    MinS,
    MaxS,
    And,
    Or,
    Xor,
    Shl,
    ShrU,
    ShrS,
}

/// Two-operand f32 arithmetic (PTX ISA 9.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
    Max,
    Min,
}

/// One-operand f32 functions, flushing subnormals (PTX ISA 9.7.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatFn {
    Ex2,
    Lg2,
    Rcp,
    Neg,
    Abs,
    Sqrt,
    Tanh,
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cmp {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// Unordered or not equal; floats only.
    Neu,
    /// Unordered or greater; floats only.
    Gtu,
}

/// 16-bit float formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    F16,
    Bf16,
}

/// `[register + bytes]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Addr {
    pub base: Opd,
    pub offset: i64,
}

/// A wgmma left operand (PTX ISA 9.7.15).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WgmmaA {
    Shared {
        descriptor: Reg,
        transposed: bool,
    },
    /// Four packed registers.
    Regs([Reg; 4]),
}

/// Where an `mbarrier` wait or arrival speaks.
pub type Mbar = Addr;

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    Comment(String),
    /// The source line of what follows (PTX ISA 11.5.1, `.loc`); `file` counts [`Module::files`] from 1.
    Loc {
        file: u32,
        line: u32,
        column: u32,
    },
    Label(Label),
    Bra(Label),
    Ret,
    Mov {
        dst: Reg,
        src: Opd,
    },
    /// `{lo, hi} -> 64`.
    Pack64 {
        dst: Reg,
        lo: Opd,
        hi: Opd,
    },
    /// Widens a signed 32-bit value.
    Widen {
        dst: Reg,
        src: Reg,
    },
    Int {
        op: IntOp,
        wide: bool,
        dst: Reg,
        a: Opd,
        b: Opd,
    },
    MadLo {
        dst: Reg,
        a: Opd,
        b: Opd,
        c: Opd,
    },
    Float {
        op: FloatOp,
        dst: Reg,
        a: Opd,
        b: Opd,
    },
    Fma {
        dst: Reg,
        a: Opd,
        b: Opd,
        c: Opd,
    },
    FloatFn {
        f: FloatFn,
        dst: Reg,
        a: Opd,
    },
    SetpI {
        cmp: Cmp,
        dst: Reg,
        a: Opd,
        b: Opd,
    },
    /// Unsigned: an index below zero is past every size.
    SetpU {
        cmp: Cmp,
        dst: Reg,
        a: Opd,
        b: Opd,
    },
    SetpF {
        cmp: Cmp,
        dst: Reg,
        a: Opd,
        b: Opd,
    },
    PredAnd {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    PredOr {
        dst: Reg,
        a: Reg,
        b: Reg,
    },
    SelpF {
        dst: Reg,
        a: Opd,
        b: Opd,
        pred: Reg,
    },
    SelpI {
        dst: Reg,
        a: Opd,
        b: Opd,
        pred: Reg,
    },
    /// Packs two f32 into a pair of halves, `lo` in the low bits.
    PackHalf {
        half: Half,
        dst: Reg,
        lo: Opd,
        hi: Opd,
    },
    /// Splits a pair of halves into two f32.
    UnpackHalf {
        half: Half,
        lo: Reg,
        hi: Reg,
        src: Reg,
    },
    /// Exchanges with the lane whose id differs in `mask`.
    ShflBfly {
        dst: Reg,
        src: Reg,
        mask: u32,
    },
    /// Broadcasts lane 0.
    ShflFirst {
        dst: Reg,
        src: Reg,
    },
    VoteAny {
        dst: Reg,
        src: Reg,
    },
    Elect {
        dst: Reg,
    },
    /// Barrier of the whole CTA, all warps converged.
    CtaSync,
    /// Barrier of the lanes of a warp, which orders their memory accesses.
    WarpSync,
    BarSync {
        id: Opd,
        threads: u32,
    },
    BarArrive {
        id: Opd,
        threads: u32,
    },
    MbarInit {
        at: Mbar,
        count: u32,
    },
    MbarInitFence,
    MbarArrive {
        at: Mbar,
    },
    MbarExpect {
        at: Mbar,
        bytes: u32,
    },
    MbarTryWait {
        done: Reg,
        at: Mbar,
        parity: Opd,
    },
    FenceProxyAsync,
    SetMaxNReg {
        increase: bool,
        count: u32,
    },
    PrefetchMap {
        map: Reg,
    },
    TmaLoad {
        dst: Reg,
        map: Reg,
        coords: Vec<Opd>,
        bar: Reg,
        cache: Option<Reg>,
    },
    TmaStore {
        map: Reg,
        coords: Vec<Opd>,
        src: Reg,
    },
    BulkCommit,
    /// Waits until at most `pending` stores still read shared memory.
    BulkWaitRead {
        pending: u32,
    },
    /// Waits until at most `pending` stores are incomplete.
    BulkWait {
        pending: u32,
    },
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        pending: u32,
    },
    Wgmma {
        n: u32,
        half: Half,
        acc: Vec<Reg>,
        a: WgmmaA,
        b: Reg,
        b_transposed: bool,
        accumulate: Opd,
    },
    StMatrix {
        at: Addr,
        regs: [Reg; 4],
    },
    LdMatrix {
        dst: [Reg; 4],
        at: Addr,
    },
    /// Each 8 x 8 matrix transposed.
    LdMatrixTrans {
        dst: [Reg; 4],
        at: Addr,
    },
    /// Copies 16 bytes to shared memory; with `bytes` (0 to 16) only so many, and zeros after them (PTX ISA 9.7.9.25.3.1).
    CpAsync16 {
        dst: Addr,
        src: Addr,
        bytes: Option<Opd>,
        l2_prefetch: u32,
    },
    CpAsyncCommit,
    /// Waits until at most `pending` groups of this thread's copies are incomplete.
    CpAsyncWait {
        pending: u32,
    },
    /// `m16n8k16`, f32 accumulation in place (PTX ISA 9.7.14.5).
    MmaSync {
        half: Half,
        acc: [Reg; 4],
        a: [Reg; 4],
        b: [Reg; 2],
    },
    LdShared32 {
        dst: Reg,
        at: Addr,
    },
    StShared32 {
        at: Addr,
        src: Reg,
    },
    LdGlobalF32 {
        dst: Reg,
        at: Addr,
    },
    StGlobalF32 {
        at: Addr,
        src: Opd,
    },
    /// The low half of `src`.
    StGlobal16 {
        at: Addr,
        src: Reg,
    },
    StGlobal32 {
        at: Addr,
        src: Opd,
    },
    StGlobal64 {
        at: Addr,
        src: Opd,
    },
    AtomAdd {
        dst: Reg,
        at: Addr,
        value: Opd,
    },
    FenceGlobal,
    LdParam {
        dst: Reg,
        param: String,
    },
    /// Generic address of a `.param` byte array.
    ParamAddr {
        dst: Reg,
        param: String,
    },
    ToGlobal {
        dst: Reg,
        src: Reg,
    },
    Nanosleep(u32),
}

/// A guarded instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Inst {
    /// Predicate and whether it must be true.
    pub guard: Option<(Reg, bool)>,
    pub kind: Kind,
}

/// A kernel parameter (PTX ISA 5.4.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamKind {
    TensorMap,
    U64,
    S32,
    F32,
}

/// A whole module with one entry.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// Provenance lines at the top.
    pub header: Vec<String>,
    pub target: &'static str,
    pub entry: String,
    pub params: Vec<(String, ParamKind)>,
    pub threads: u32,
    pub registers: Vec<(Class, u32)>,
    /// Source files that `.loc` names.
    pub files: Vec<String>,
    pub body: Vec<Inst>,
}

/// PTX text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx(pub String);

impl fmt::Display for Ptx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

//! The decoded instruction: registers are slots, labels are indices, modifiers are enums.

pub(crate) use super::function::{Cmp, FloatBin, FloatMode, FloatUn, IntBin, IntTri, IntUn, PredOp, Round};
pub(crate) use super::operand::{Addr, AddrBase, Dst, P, PSrc, R, Space, Special, Src};
use super::ty::Ty;

/// `setp`.
#[derive(Clone, Debug)]
pub(crate) struct Setp {
    pub cmp: Cmp,
    pub ty: Ty,
    pub ftz: bool,
    pub d: Option<P>,
    pub d2: Option<P>,
    pub a: Src,
    pub b: Src,
    pub with: Option<(PredOp, PSrc)>,
}

/// `cvt` of one value.
#[derive(Clone, Debug)]
pub(crate) struct Cvt {
    pub to: Ty,
    pub from: Ty,
    pub round: Round,
    pub mode: FloatMode,
    pub d: Dst,
    pub a: Src,
}

/// `ld` and `st`.
#[derive(Clone, Debug)]
pub(crate) struct Mem {
    pub space: Space,
    pub ty: Ty,
    pub addr: Addr,
    /// Destinations of a load; `None` is `_`.
    pub regs: Vec<Option<Dst>>,
    /// Sources of a store.
    pub srcs: Vec<Src>,
    pub acquire: bool,
    pub release: bool,
}

/// Read-modify-write functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomOp {
    Add,
    Min,
    Max,
    And,
    Or,
    Xor,
    Exch,
    Cas,
    Inc,
    Dec,
}

/// `atom` and `red`.
#[derive(Clone, Debug)]
pub(crate) struct Atom {
    pub space: Space,
    pub op: AtomOp,
    pub ty: Ty,
    pub addr: Addr,
    pub d: Option<Dst>,
    pub b: Vec<Src>,
    pub c: Option<Src>,
    pub acquire: bool,
    pub release: bool,
}

/// `shfl.sync` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShflMode {
    Up,
    Down,
    Bfly,
    Idx,
}

/// `vote.sync` modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VoteMode {
    All,
    Any,
    Uni,
    Ballot,
}

/// `mbarrier` arrivals.
#[derive(Clone, Debug)]
pub(crate) struct Arrive {
    pub space: Space,
    pub addr: Addr,
    /// Where the state goes.
    pub d: Option<R>,
    pub count: Src,
    /// Bytes of `arrive.expect_tx`.
    pub expect_tx: Option<Src>,
    pub release: bool,
    pub drop: bool,
}

/// `mbarrier.try_wait` and `test_wait`.
#[derive(Clone, Debug)]
pub(crate) struct MbarWait {
    pub addr: Addr,
    pub d: P,
    /// A parity when `parity`, else a state.
    pub value: Src,
    pub parity: bool,
    pub suspends: bool,
    pub acquire: bool,
}

/// Where a bulk copy goes and comes from.
#[derive(Clone, Debug)]
pub(crate) enum BulkKind {
    /// Tensor, global to shared, completes on an mbarrier.
    TensorLoad {
        map: Addr,
        coords: Vec<Src>,
        dst: Addr,
        mbar: Addr,
        multicast: Option<Src>,
    },
    /// Tensor, shared to global, in a bulk group; with a reduction for `cp.reduce`.
    TensorStore {
        map: Addr,
        coords: Vec<Src>,
        src: Addr,
        reduce: Option<AtomOp>,
    },
    /// Plain bytes, global to shared.
    Load {
        src: Addr,
        dst: Addr,
        bytes: Src,
        mbar: Addr,
        multicast: Option<Src>,
    },
    /// Plain bytes, shared to global.
    Store {
        src: Addr,
        dst: Addr,
        bytes: Src,
        reduce: Option<(AtomOp, Ty)>,
    },
    /// Shared to the shared memory of another CTA of the cluster.
    Peer {
        src: Addr,
        dst: Addr,
        bytes: Src,
        mbar: Addr,
    },
}

/// Non-bulk `cp.async`.
#[derive(Clone, Debug)]
pub(crate) struct CpAsync {
    pub dst: Addr,
    pub src: Addr,
    pub bytes: u32,
    /// Bytes that are read; the rest of `bytes` becomes 0.
    pub src_bytes: Option<Src>,
}

/// Named barrier instructions.
#[derive(Clone, Debug)]
pub(crate) struct Barrier {
    pub id: Src,
    pub count: Option<Src>,
    pub waits: bool,
}

/// Fences that matter to the checker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fence {
    /// `fence.proxy.async`
    ProxyAsync,
    /// `fence.mbarrier_init.release.cluster`
    MbarrierInit,
    /// Memory fences and proxy fences of other kinds: no effect in the simulator.
    Other,
}

/// The A operand of `wgmma`.
#[derive(Clone, Debug)]
pub(crate) enum WgmmaA {
    Desc(Src),
    Regs([R; 4]),
}

/// `wgmma.mma_async` m64nNk16 with f32 accumulators.
#[derive(Clone, Debug)]
pub(crate) struct Wgmma {
    pub n: u32,
    pub bf16: bool,
    pub d: Vec<R>,
    pub a: WgmmaA,
    pub b: Src,
    pub scale_d: PSrc,
    pub negate_a: bool,
    pub negate_b: bool,
    pub mn_major_a: bool,
    pub mn_major_b: bool,
}

/// `ldmatrix` and `stmatrix`: one register per 8x8 matrix.
#[derive(Clone, Debug)]
pub(crate) struct MatrixMove {
    pub regs: Vec<R>,
    pub addr: Addr,
    pub trans: bool,
}

/// `mma.sync` m16n8k16 / m16n8k8 with f32 accumulators.
#[derive(Clone, Debug)]
pub(crate) struct Mma {
    pub bf16: bool,
    /// A registers: 4 for k16, 2 for k8.
    pub a: Vec<R>,
    pub b: Vec<R>,
    pub c: Vec<Src>,
    pub d: [R; 4],
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Nop,
    Exit,
    Trap,
    Bra(u32),
    IntUn {
        f: IntUn,
        bits: u32,
        d: Dst,
        a: Src,
    },
    IntBin {
        f: IntBin,
        ty: Ty,
        d: R,
        a: Src,
        b: Src,
    },
    IntTri {
        f: IntTri,
        ty: Ty,
        d: R,
        a: Src,
        b: Src,
        c: Src,
    },
    /// `mul.wide` / `mad.wide` when `c` is given.
    Wide {
        ty: Ty,
        d: R,
        a: Src,
        b: Src,
        c: Option<Src>,
    },
    F32Un {
        f: FloatUn,
        mode: FloatMode,
        d: R,
        a: Src,
    },
    F32Bin {
        f: FloatBin,
        mode: FloatMode,
        d: R,
        a: Src,
        b: Src,
    },
    F32Fma {
        mode: FloatMode,
        d: R,
        a: Src,
        b: Src,
        c: Src,
    },
    F64Un {
        f: FloatUn,
        d: R,
        a: Src,
    },
    F64Bin {
        f: FloatBin,
        d: R,
        a: Src,
        b: Src,
    },
    F64Fma {
        d: R,
        a: Src,
        b: Src,
        c: Src,
    },
    HalfUn {
        f: FloatUn,
        ty: Ty,
        d: R,
        a: Src,
    },
    HalfBin {
        f: FloatBin,
        ty: Ty,
        mode: FloatMode,
        d: R,
        a: Src,
        b: Src,
    },
    HalfFma {
        ty: Ty,
        mode: FloatMode,
        d: R,
        a: Src,
        b: Src,
        c: Src,
    },
    MovPred {
        d: P,
        a: PSrc,
    },
    PredBin {
        f: PredOp,
        d: P,
        a: PSrc,
        b: PSrc,
    },
    /// `mov.b64 d, {a, b}`: parts joined, low first.
    Pack {
        d: Dst,
        part_bits: u32,
        parts: Vec<Src>,
    },
    /// `mov.b64 {a, b}, d`.
    Unpack {
        a: Src,
        part_bits: u32,
        parts: Vec<Option<R>>,
    },
    Setp(Box<Setp>),
    Selp {
        bits: u32,
        d: R,
        a: Src,
        b: Src,
        p: PSrc,
    },
    Cvt(Box<Cvt>),
    /// `cvt.rn.bf16x2.f32 d, hi, lo`.
    CvtPack {
        ty: Ty,
        mode: FloatMode,
        zero_round: bool,
        d: R,
        hi: Src,
        lo: Src,
    },
    /// Adds (or subtracts) a window base.
    Cvta {
        space: Space,
        to_space: bool,
        d: R,
        a: Src,
    },
    Mapa {
        space_in: Space,
        d: Dst,
        a: Src,
        rank: Src,
    },
    Ld(Box<Mem>),
    St(Box<Mem>),
    Atom(Box<Atom>),
    Shfl {
        mode: ShflMode,
        d: R,
        p: Option<P>,
        a: Src,
        b: Src,
        c: Src,
    },
    Vote {
        mode: VoteMode,
        d: u32,
        a: PSrc,
        members: Src,
    },
    Match {
        all: bool,
        bits: u32,
        d: R,
        p: Option<P>,
        a: Src,
    },
    Elect {
        d: Option<R>,
        p: P,
        members: Src,
    },
    Redux {
        f: IntBin,
        ty: Ty,
        d: R,
        a: Src,
    },
    ActiveMask {
        d: R,
    },
    WarpSync,
    Barrier(Box<Barrier>),
    ClusterArrive {
        release: bool,
    },
    ClusterWait,
    Fence(Fence),
    MbarInit {
        addr: Addr,
        count: Src,
    },
    MbarInval {
        addr: Addr,
    },
    MbarExpectTx {
        space: Space,
        addr: Addr,
        bytes: Src,
    },
    MbarArrive(Box<Arrive>),
    MbarWait(Box<MbarWait>),
    Bulk(Box<BulkKind>),
    BulkCommit,
    /// With and without `.read`: a copy reads and writes in one simulated step.
    BulkWait {
        keep: u32,
    },
    CpAsync(Box<CpAsync>),
    CpAsyncWaitAll,
    CpAsyncCommit,
    CpAsyncWait {
        keep: u32,
    },
    CpAsyncMbarArrive {
        addr: Addr,
        noinc: bool,
    },
    Ldmatrix(Box<MatrixMove>),
    Stmatrix(Box<MatrixMove>),
    Mma(Box<Mma>),
    WgmmaFence,
    WgmmaCommit,
    WgmmaWait {
        keep: u32,
    },
    Wgmma(Box<Wgmma>),
    SetMaxNreg {
        inc: bool,
        regs: u32,
    },
    Nanosleep,
}

/// Which lanes must execute an instruction together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Together {
    /// Each lane on its own.
    Free,
    /// All live lanes of the warp (`.aligned`).
    Aligned,
    /// The lanes of a member mask.
    Members(Src),
}

/// A decoded instruction.
#[derive(Clone, Debug)]
pub(crate) struct Inst {
    pub op: Op,
    pub guard: Option<(P, bool)>,
    pub together: Together,
    pub line: u32,
}

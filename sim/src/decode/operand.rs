//! Operands of decoded instructions.

/// A 32-bit register slot of a warp; wider registers take consecutive slots, low word first.
pub(crate) type R = u32;
/// A predicate slot.
pub(crate) type P = u32;

/// Special registers (PTX ISA 10).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Tid(u8),
    Ntid(u8),
    CtaId(u8),
    NctaId(u8),
    ClusterId(u8),
    NclusterId(u8),
    ClusterCtaId(u8),
    ClusterNctaId(u8),
    ClusterCtaRank,
    ClusterNctaRank,
    LaneId,
    WarpId,
    NwarpId,
    SmId,
    NsmId,
    GridId,
    LanemaskEq,
    LanemaskLe,
    LanemaskLt,
    LanemaskGe,
    LanemaskGt,
    Clock,
    Clock64,
    GlobalTimer,
    GlobalTimerLo,
    DynamicSmemBytes,
    TotalSmemBytes,
}

/// A source operand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Src {
    Reg(R),
    Imm(u64),
    Special(Special),
    /// A shared variable: its address in the executing CTA's window.
    Shared(u32),
}

/// A predicate source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum PSrc {
    Reg { slot: P, negated: bool },
    Const(bool),
}

/// A register destination or store source with its own width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Dst {
    pub slot: R,
    pub bits: u32,
}

/// State space of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    SharedCta,
    SharedCluster,
    Param,
}

/// `[base + offset]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Addr {
    pub base: AddrBase,
    pub offset: i64,
}

/// The register part of an address.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AddrBase {
    None,
    /// The window of the executing CTA.
    Shared,
    Reg32(R),
    Reg64(R),
}

//! What each instruction costs: the unit that it occupies, for how long, and when its result can be used.

use super::params::Params;
use super::regs::Regs;
use crate::decode::op::{FloatBin, FloatUn, Inst, IntUn, Mem, Op, Space, Src};

/// A unit that instructions of a warp occupy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Unit {
    /// Costs nothing: the assembler removes it, or another model charges it.
    None,
    Fma,
    Alu,
    Int,
    Mufu,
    /// `mma.sync` on the tensor core of the sub-partition.
    Mma,
    /// Shuffles and shared-memory accesses; one port of the SM.
    Smem,
}

/// The cost of one instruction.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub unit: Unit,
    /// Cycles that the unit is occupied.
    pub cycles: u64,
    /// Cycles until the result can be used.
    pub latency: u64,
    /// Whether it takes an issue slot.
    pub issues: bool,
    /// Waits for all earlier instructions of its warp, and acts at exactly its time.
    pub ordered: bool,
    pub regs: Regs,
    /// Bytes of shared memory that it moves.
    pub smem_bytes: u64,
}

/// Costs of every instruction of a kernel.
pub(crate) fn table(code: &[Inst], slots: u32, params: &Params) -> Vec<Cost> {
    code.iter().map(|inst| cost(inst, slots, params)).collect()
}

/// Lanes of a warp.
const LANES: u64 = 32;

fn cost(inst: &Inst, slots: u32, p: &Params) -> Cost {
    let (unit, latency, smem_bytes) = unit(inst, p);
    let cycles = match unit {
        Unit::None => 0.0,
        Unit::Fma => p.fma_cycles,
        Unit::Alu => p.alu_cycles,
        Unit::Int => p.int_cycles,
        Unit::Mufu => p.mufu_cycles,
        Unit::Mma => p.mma_sync_cycles,
        Unit::Smem => (smem_bytes as f64 / p.smem_bytes_per_cycle).max(1.0),
    };
    Cost {
        unit,
        cycles: cycles as u64,
        latency: latency as u64,
        issues: unit != Unit::None || ordered(&inst.op) || touches_engine(&inst.op),
        ordered: ordered(&inst.op),
        regs: Regs::of(inst, slots),
        smem_bytes,
    }
}

/// Instructions that end straight-line code, or that others can see.
fn ordered(op: &Op) -> bool {
    matches!(
        op,
        Op::Bra(_)
            | Op::Exit
            | Op::Trap
            | Op::Barrier(_)
            | Op::ClusterArrive { .. }
            | Op::ClusterWait
            | Op::MbarInit { .. }
            | Op::MbarInval { .. }
            | Op::MbarExpectTx { .. }
            | Op::MbarArrive(_)
            | Op::MbarWait(_)
            | Op::Bulk(_)
            | Op::BulkWait { .. }
            | Op::CpAsyncWaitAll
            | Op::CpAsyncWait { .. }
            | Op::CpAsyncMbarArrive { .. }
            | Op::Wgmma(_)
            | Op::WgmmaWait { .. }
            | Op::SetMaxNreg { .. }
            | Op::Atom(_)
    )
}

fn touches_engine(op: &Op) -> bool {
    matches!(
        op,
        Op::WgmmaFence
            | Op::WgmmaCommit
            | Op::BulkCommit
            | Op::CpAsync(_)
            | Op::CpAsyncCommit
            | Op::WarpSync
            | Op::Fence(_)
    )
}

/// Unit, latency and shared bytes.
fn unit(inst: &Inst, p: &Params) -> (Unit, f64, u64) {
    let arithmetic = p.arithmetic_latency;
    match &inst.op {
        // Copies are coalesced away by the assembler, unless a predicate makes them a select.
        Op::IntUn { f: IntUn::Mov, a, .. } => match a {
            Src::Special(_) => (Unit::Int, p.constant_latency, 0),
            _ if inst.guard.is_some() => (Unit::Int, arithmetic, 0),
            _ => (Unit::None, 0.0, 0),
        },
        Op::MovPred { .. } | Op::Pack { .. } | Op::Unpack { .. } | Op::Cvta { .. } => (Unit::None, 0.0, 0),
        Op::IntUn { .. }
        | Op::IntBin { .. }
        | Op::IntTri { .. }
        | Op::Wide { .. }
        | Op::PredBin { .. }
        | Op::Mapa { .. }
        | Op::Elect { .. }
        | Op::Vote { .. }
        | Op::ActiveMask { .. } => (Unit::Int, arithmetic, 0),
        Op::Setp(setp) if setp.ty.is_float() => (Unit::Alu, arithmetic, 0),
        Op::Setp(_) => (Unit::Int, arithmetic, 0),
        Op::Selp { .. } | Op::CvtPack { .. } => (Unit::Alu, arithmetic, 0),
        // A sign is free: it folds into the operand of what follows.
        Op::F32Un {
            f: FloatUn::Neg | FloatUn::Abs,
            ..
        } => (Unit::None, 0.0, 0),
        Op::F32Un { .. } | Op::F64Un { .. } | Op::HalfUn { .. } | Op::Cvt(_) => (Unit::Mufu, p.mufu_latency, 0),
        Op::F32Bin {
            f: FloatBin::Min | FloatBin::Max,
            ..
        } => (Unit::Alu, arithmetic, 0),
        Op::F32Bin { f: FloatBin::Div, .. } => (Unit::Mufu, p.mufu_latency, 0),
        Op::F32Bin { .. } | Op::F32Fma { .. } | Op::HalfBin { .. } | Op::HalfFma { .. } => (Unit::Fma, arithmetic, 0),
        Op::F64Bin { .. } | Op::F64Fma { .. } => (Unit::Mufu, p.mufu_latency, 0),
        Op::Shfl { .. } | Op::Match { .. } | Op::Redux { .. } => (Unit::Smem, p.shuffle_latency, 4 * LANES),
        Op::Ldmatrix(m) | Op::Stmatrix(m) => (Unit::Smem, p.shuffle_latency, 128 * m.regs.len() as u64),
        Op::Mma(_) => (Unit::Mma, p.shuffle_latency, 0),
        Op::Ld(mem) => access(mem, mem.regs.len(), p),
        Op::St(mem) => access(mem, mem.srcs.len(), p),
        Op::Atom(_) => (Unit::Int, p.global_latency, 0),
        Op::MbarWait(_) => (Unit::None, p.try_wait_latency, 0),
        _ => (Unit::None, 0.0, 0),
    }
}

fn access(mem: &Mem, count: usize, p: &Params) -> (Unit, f64, u64) {
    let bytes = u64::from(mem.ty.bytes()) * count as u64 * LANES;
    match mem.space {
        Space::Param => (Unit::Int, p.constant_latency, 0),
        Space::SharedCta | Space::SharedCluster => (Unit::Smem, p.shuffle_latency, bytes),
        Space::Global | Space::Generic => (Unit::Smem, p.global_latency, bytes),
    }
}

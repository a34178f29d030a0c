//! A warp: registers as lane vectors, predicates as masks, divergent groups of lanes.

use std::collections::VecDeque;

use crate::decode::op::{Dst, P, PSrc, R, Special, Src};
use crate::hb::Clocks;
use crate::memory::RANK_SHIFT;

/// One 32-bit register of all lanes.
pub(crate) type Lanes = [u32; 32];
/// One 64-bit register of all lanes.
pub(crate) type Lanes64 = [u64; 32];

/// Most notes kept of one instruction.
const MAX_NOTES: usize = 8;

/// What the checker knows of a register slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegMeta {
    /// Lanes that were written.
    pub init: u32,
    /// `fence_epoch` of the last ordinary write; 0 for none.
    pub epoch: u32,
    /// `fence_epoch` of the last ordinary read of an accumulator; 0 for none.
    pub read_epoch: u32,
    /// Number of the last wgmma of this warp that uses the register.
    pub flight: u32,
    /// That wgmma's line.
    pub flight_line: u32,
    /// The wgmma writes it (accumulator) rather than only reads it (A operand).
    pub accumulator: bool,
}

/// Why a group of lanes does not run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    Ready,
    /// At an instruction that needs other lanes too.
    Together,
    /// Passed a named barrier's instruction; waits for other lanes of its warp to come there.
    BarrierPart {
        id: u32,
        waits: bool,
    },
    Named {
        id: u32,
    },
    Mbarrier {
        cta: usize,
        index: usize,
        phase: u64,
    },
    Cluster {
        generation: u64,
    },
    /// Other warps of the warpgroup must issue their part of a wgmma.
    Warpgroup,
    Pool,
}

/// Lanes of a warp with one program counter.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub pc: u32,
    pub mask: u32,
    pub blocked: Blocked,
    /// The suspended wait shall give up at its next try.
    pub timed_out: bool,
}

/// Values of special registers that do not change.
#[derive(Clone, Debug, Default)]
pub(crate) struct Env {
    pub ntid: [u32; 3],
    pub cta_id: [u32; 3],
    pub grid: [u32; 3],
    pub cluster_id: [u32; 3],
    pub n_clusters: [u32; 3],
    pub cluster_cta: [u32; 3],
    pub cluster_dim: [u32; 3],
    pub rank: u32,
    pub warp: u32,
    pub sm: u32,
    pub n_sms: u32,
    pub dynamic_smem_bytes: u32,
    pub total_smem_bytes: u32,
}

/// Bulk groups of one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BulkLane {
    pub lane: u32,
    pub actor: u32,
    /// Committed groups.
    pub committed: u32,
    /// Operations in the open group.
    pub open: u32,
    /// Groups whose end was waited for.
    pub done: u32,
}

/// The state of a warp.
#[derive(Debug, Default)]
pub(crate) struct Warp {
    pub regs: Vec<Lanes>,
    pub meta: Vec<RegMeta>,
    pub preds: Vec<u32>,
    pub pred_init: Vec<u32>,
    pub groups: Vec<Group>,
    /// Lanes that execute the current instruction.
    pub exec: u32,
    /// Lanes that have not exited.
    pub live: u32,
    /// Lanes that the CTA started.
    pub started: u32,
    pub cta: usize,
    pub env: Env,
    pub clocks: Clocks,
    pub actor: u32,
    pub wgmma_actor: u32,
    /// Counts `wgmma.fence`, from 1.
    pub fence_epoch: u32,
    /// wgmma issued, and of these the number whose end was waited for.
    pub wgmma_issued: u32,
    pub wgmma_done: u32,
    /// Last wgmma of each committed group that may be pending.
    pub wgmma_groups: VecDeque<u32>,
    pub wgmma_committed: u32,
    pub bulk: Vec<BulkLane>,
    pub cp_actor: Option<u32>,
    pub cp_open: u32,
    pub cp_committed: u32,
    /// Lanes that wrote shared memory since the last proxy fence or barrier of the warp.
    pub unfenced_lanes: u32,
    pub max_regs: u32,
    pub cluster_arrived: u32,
    pub cluster_generation: u64,
    pub executed: u64,
    /// The clock of a timed run.
    pub cycles: Option<u64>,
    /// What the current instruction did wrong with registers; the machine puts names in.
    pub reg_notes: Vec<RegNote>,
}

/// A register misuse, before its name is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegNote {
    Uninit(R),
    UninitPred(P),
    ReadInFlight(R, u32),
    WriteInFlight(R, u32),
    Unfenced(R),
    UnfencedRead(R),
}

impl Warp {
    /// Own epoch.
    pub fn epoch(&self) -> u32 {
        self.clocks.seen.get(self.actor)
    }

    /// Later accesses are no longer covered by what was released.
    pub fn tick(&mut self) {
        let next = self.epoch() + 1;
        self.clocks.seen.raise(self.actor, next);
    }

    fn note_reg(&mut self, note: RegNote) {
        if self.reg_notes.len() < MAX_NOTES && !self.reg_notes.contains(&note) {
            self.reg_notes.push(note);
        }
    }

    /// Checks a read by ordinary code.
    pub fn check_read(&mut self, slot: R, exec: u32) {
        let epoch = self.fence_epoch;
        let meta = &mut self.meta[slot as usize];
        if meta.accumulator {
            meta.read_epoch = epoch;
        }
        if meta.init & exec != exec {
            self.note_reg(RegNote::Uninit(slot));
        } else if meta.accumulator && meta.flight > self.wgmma_done {
            let line = meta.flight_line;
            self.note_reg(RegNote::ReadInFlight(slot, line));
        }
    }

    /// Checks and records a write by ordinary code.
    fn check_write(&mut self, slot: R, exec: u32) {
        let meta = &mut self.meta[slot as usize];
        meta.init |= exec;
        meta.epoch = self.fence_epoch;
        if meta.flight > self.wgmma_done {
            let line = meta.flight_line;
            self.note_reg(RegNote::WriteInFlight(slot, line));
        }
    }

    /// The checks of an accumulator: those of an operand, and no ordinary read without a fence before the product writes it.
    pub fn check_accumulator(&mut self, slot: R, reads: bool) {
        if self.meta[slot as usize].read_epoch == self.fence_epoch {
            self.note_reg(RegNote::UnfencedRead(slot));
        }
        self.check_wgmma_reg(slot, reads);
    }

    /// The checks of a wgmma operand: fence rule, and for reads initialisation.
    pub fn check_wgmma_reg(&mut self, slot: R, reads: bool) {
        let meta = &self.meta[slot as usize];
        if reads && meta.init != u32::MAX {
            self.note_reg(RegNote::Uninit(slot));
        } else if meta.epoch == self.fence_epoch {
            self.note_reg(RegNote::Unfenced(slot));
        }
    }

    /// Marks a register as used by the wgmma with number `flight`.
    pub fn mark_flight(&mut self, slot: R, flight: u32, line: u32, accumulator: bool) {
        let done = self.wgmma_done;
        let meta = &mut self.meta[slot as usize];
        meta.accumulator = accumulator || (meta.accumulator && meta.flight > done);
        meta.flight = flight;
        meta.flight_line = line;
        if accumulator {
            meta.init = u32::MAX;
        }
    }

    /// A 32-bit (or narrower) source.
    pub fn get(&mut self, src: Src, exec: u32) -> Lanes {
        match src {
            Src::Reg(slot) => {
                self.check_read(slot, exec);
                self.regs[slot as usize]
            }
            Src::Imm(value) => [value as u32; 32],
            Src::Shared(address) => [self.shared_address(address); 32],
            Src::Special(special) => std::array::from_fn(|lane| self.special(special, lane as u32) as u32),
        }
    }

    /// A 64-bit source.
    pub fn get64(&mut self, src: Src, exec: u32) -> Lanes64 {
        match src {
            Src::Reg(slot) => self.reg64(slot, exec),
            Src::Imm(value) => [value; 32],
            Src::Shared(address) => [u64::from(self.shared_address(address)); 32],
            Src::Special(special) => std::array::from_fn(|lane| self.special(special, lane as u32)),
        }
    }

    /// A source of `bits` bits, zero-extended.
    pub fn get_bits(&mut self, src: Src, bits: u32, exec: u32) -> Lanes64 {
        match bits {
            64 => self.get64(src, exec),
            32 => self.get(src, exec).map(u64::from),
            _ => self.get(src, exec).map(|v| u64::from(v) & ((1 << bits) - 1)),
        }
    }

    pub fn reg64(&mut self, slot: R, exec: u32) -> Lanes64 {
        self.check_read(slot, exec);
        let (lo, hi) = (&self.regs[slot as usize], &self.regs[slot as usize + 1]);
        std::array::from_fn(|lane| u64::from(lo[lane]) | u64::from(hi[lane]) << 32)
    }

    /// Writes the lanes of `exec`.
    pub fn put(&mut self, slot: R, exec: u32, value: &Lanes) {
        self.check_write(slot, exec);
        self.put_raw(slot, exec, value);
    }

    fn put_raw(&mut self, slot: R, exec: u32, value: &Lanes) {
        let reg = &mut self.regs[slot as usize];
        if exec == u32::MAX {
            *reg = *value;
        } else {
            for lane in 0..32 {
                if exec >> lane & 1 != 0 {
                    reg[lane] = value[lane];
                }
            }
        }
    }

    pub fn put64(&mut self, slot: R, exec: u32, value: &Lanes64) {
        self.check_write(slot, exec);
        self.put_raw(slot, exec, &value.map(|v| v as u32));
        self.put_raw(slot + 1, exec, &value.map(|v| (v >> 32) as u32));
    }

    /// Writes a destination of its own width, extending the value with zeros.
    pub fn put_dst(&mut self, d: Dst, exec: u32, value: &Lanes64) {
        if d.bits == 64 {
            self.put64(d.slot, exec, value);
        } else {
            self.put(d.slot, exec, &value.map(|v| v as u32));
        }
    }

    /// A predicate's lanes of `exec`.
    pub fn pred(&mut self, src: PSrc, exec: u32) -> u32 {
        match src {
            PSrc::Const(value) => {
                if value {
                    exec
                } else {
                    0
                }
            }
            PSrc::Reg { slot, negated } => self.pred_reg(slot, negated, exec),
        }
    }

    pub fn pred_reg(&mut self, slot: P, negated: bool, exec: u32) -> u32 {
        if self.pred_init[slot as usize] & exec != exec {
            self.note_reg(RegNote::UninitPred(slot));
        }
        let value = self.preds[slot as usize];
        (if negated { !value } else { value }) & exec
    }

    pub fn put_pred(&mut self, slot: P, exec: u32, value: u32) {
        let reg = &mut self.preds[slot as usize];
        *reg = (*reg & !exec) | (value & exec);
        self.pred_init[slot as usize] |= exec;
    }

    /// A shared variable's address as this CTA sees it.
    pub fn shared_address(&self, address: u32) -> u32 {
        address | self.env.rank << RANK_SHIFT
    }

    fn special(&self, special: Special, lane: u32) -> u64 {
        let env = &self.env;
        let axis = |v: [u32; 3], a: u8| u64::from(v[usize::from(a.min(2))]);
        let bit = 1u64 << lane;
        match special {
            Special::Tid(a) => axis(thread_id(env, lane), a),
            Special::Ntid(a) => axis(env.ntid, a),
            Special::CtaId(a) => axis(env.cta_id, a),
            Special::NctaId(a) => axis(env.grid, a),
            Special::ClusterId(a) => axis(env.cluster_id, a),
            Special::NclusterId(a) => axis(env.n_clusters, a),
            Special::ClusterCtaId(a) => axis(env.cluster_cta, a),
            Special::ClusterNctaId(a) => axis(env.cluster_dim, a),
            Special::ClusterCtaRank => u64::from(env.rank),
            Special::ClusterNctaRank => env.cluster_dim.iter().map(|d| u64::from(*d)).product(),
            Special::LaneId => u64::from(lane),
            Special::WarpId => u64::from(env.warp),
            Special::NwarpId => 64,
            Special::SmId => u64::from(env.sm),
            Special::NsmId => u64::from(env.n_sms),
            Special::GridId => 1,
            Special::LanemaskEq => bit,
            Special::LanemaskLe => (bit << 1) - 1,
            Special::LanemaskLt => bit - 1,
            Special::LanemaskGe => u64::from(u32::MAX) & !(bit - 1),
            Special::LanemaskGt => u64::from(u32::MAX) & !((bit << 1) - 1),
            // Without a timed run, a clock that only says how many instructions this warp has executed.
            Special::Clock | Special::Clock64 => self.cycles.unwrap_or(self.executed),
            Special::GlobalTimer | Special::GlobalTimerLo => self.cycles.unwrap_or(self.executed),
            Special::DynamicSmemBytes => u64::from(env.dynamic_smem_bytes),
            Special::TotalSmemBytes => u64::from(env.total_smem_bytes),
        }
    }
}

fn thread_id(env: &Env, lane: u32) -> [u32; 3] {
    let linear = env.warp * 32 + lane;
    let [nx, ny, _] = env.ntid;
    [linear % nx, linear / nx % ny, linear / (nx * ny)]
}

/// Lane numbers of a mask.
pub(crate) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 != 0)
}

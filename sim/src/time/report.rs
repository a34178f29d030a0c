//! What a timed run says.

use std::collections::BTreeMap;

use super::cost::Unit;
use super::state::{PARTS, Time};

/// Why a warp stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WaitKind {
    /// A phase of an mbarrier: a copy to arrive, or a slot to be freed.
    Mbarrier,
    /// A named barrier.
    Barrier,
    /// A product on the tensor core.
    Tensor,
    /// Registers of the pool.
    Registers,
    /// A copy that must have read or written its memory.
    Drain,
}

/// A row of a timeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// A warp, by its number over all CTAs.
    Warp(u32),
    /// The tensor core of a CTA's SM.
    Tensor(u32),
    /// The copy engine of a CTA's SM.
    Copies(u32),
}

/// What a span shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SpanKind {
    /// Execution of a named region.
    Region,
    /// Standing still.
    Wait(WaitKind),
    /// Products of a warpgroup.
    Product(u32),
    /// A copy of this many bytes.
    Copy(u64),
}

/// Something with a begin and an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Its row.
    pub lane: Lane,
    /// Index into [`TimeReport::labels`].
    pub label: u32,
    /// First cycle.
    pub start: u64,
    /// First cycle after it.
    pub end: u64,
    /// What it shows.
    pub kind: SpanKind,
}

/// How much work was done: what energy is computed from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Activity {
    /// Issued warp instructions.
    pub issued: u64,
    /// Cycles of the FMA pipes of all sub-partitions.
    pub fma_cycles: u64,
    /// Cycles of the ALU pipes.
    pub alu_cycles: u64,
    /// Cycles of integer work.
    pub int_cycles: u64,
    /// Cycles of the MUFUs.
    pub mufu_cycles: u64,
    /// Cycles of `mma.sync`.
    pub mma_sync_cycles: u64,
    /// Cycles in which the tensor core had a wgmma.
    pub tensor_cycles: u64,
    /// Operations of wgmma.
    pub mma_flops: u64,
    /// Bytes through the shared-memory port.
    pub smem_bytes: u64,
    /// Bytes between L2 and the SM by bulk copies.
    pub l2_bytes: u64,
}

impl Activity {
    pub(crate) fn count(&mut self, unit: Unit, cycles: u64) {
        self.issued += 1;
        match unit {
            Unit::Fma => self.fma_cycles += cycles,
            Unit::Alu => self.alu_cycles += cycles,
            Unit::Int => self.int_cycles += cycles,
            Unit::Mufu => self.mufu_cycles += cycles,
            Unit::Mma => self.mma_sync_cycles += cycles,
            Unit::None | Unit::Smem => {}
        }
    }

    /// The amounts as a vector, with names: for sums, differences and fits.
    #[must_use]
    pub fn amounts(&self) -> [(&'static str, f64); 10] {
        [
            ("issued", self.issued as f64),
            ("fma_cycles", self.fma_cycles as f64),
            ("alu_cycles", self.alu_cycles as f64),
            ("int_cycles", self.int_cycles as f64),
            ("mufu_cycles", self.mufu_cycles as f64),
            ("mma_sync_cycles", self.mma_sync_cycles as f64),
            ("tensor_cycles", self.tensor_cycles as f64),
            ("mma_flops", self.mma_flops as f64),
            ("smem_bytes", self.smem_bytes as f64),
            ("l2_bytes", self.l2_bytes as f64),
        ]
    }
}

/// Time that warps stood still for one reason at one place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waited {
    /// The warp, by its number over all CTAs.
    pub warp: u32,
    /// The reason.
    pub kind: WaitKind,
    /// Index into [`TimeReport::labels`].
    pub label: u32,
    /// Cycles in all.
    pub cycles: u64,
    /// How often.
    pub times: u64,
}

/// The end of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpEnd {
    /// Cycle of its last instruction.
    pub end: u64,
    /// Instructions that it executed.
    pub instructions: u64,
}

/// A timed run. Simulated: no device has seen it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimeReport {
    /// Cycles from the first to the last instruction.
    pub cycles: u64,
    /// SMs that took part.
    pub sms: u64,
    /// Work done.
    pub activity: Activity,
    /// Waits, longest first.
    pub waits: Vec<Waited>,
    /// By number over all CTAs.
    pub warps: Vec<WarpEnd>,
    /// Names of regions.
    pub labels: Vec<String>,
    /// For a timeline; empty unless asked for.
    pub spans: Vec<Span>,
}

impl Time {
    pub(crate) fn report(self) -> TimeReport {
        let mut waits: Vec<Waited> = self
            .waits
            .iter()
            .map(|((warp, kind, label), (cycles, times))| Waited {
                warp: *warp,
                kind: *kind,
                label: *label,
                cycles: *cycles,
                times: *times,
            })
            .collect();
        waits.sort_by_key(|w| std::cmp::Reverse(w.cycles));
        let warps = self.warps.iter().map(|w| WarpEnd {
            end: w.end,
            instructions: w.instructions,
        });
        let warps: Vec<WarpEnd> = warps.collect();
        TimeReport {
            cycles: warps.iter().map(|w| w.end).max().unwrap_or(0),
            sms: self.tensor.len() as u64,
            activity: self.activity,
            waits,
            warps,
            labels: self.labels.names,
            spans: self.spans.unwrap_or_default(),
        }
    }
}

impl TimeReport {
    /// The share of its capacity that each unit was used, from 0 to 1.
    #[must_use]
    pub fn occupancy(&self, smem_bytes_per_cycle: f64) -> BTreeMap<&'static str, f64> {
        let cycles = (self.cycles.max(1) * self.sms.max(1)) as f64;
        let parts = cycles * PARTS as f64;
        let a = &self.activity;
        BTreeMap::from([
            ("tensor core", a.tensor_cycles as f64 / cycles),
            ("MUFU", a.mufu_cycles as f64 / parts),
            ("FMA", a.fma_cycles as f64 / parts),
            ("ALU", a.alu_cycles as f64 / parts),
            ("issue", a.issued as f64 / parts),
            ("shared memory", a.smem_bytes as f64 / smem_bytes_per_cycle / cycles),
        ])
    }

    /// What the warps `from..to` waited for, longest first: (kind, region, share of all their cycles).
    #[must_use]
    pub fn waited(&self, from: u32, to: u32) -> Vec<(WaitKind, &str, f64)> {
        let total = (self.cycles.max(1) * u64::from(to.saturating_sub(from).max(1))) as f64;
        let mut by: BTreeMap<(WaitKind, u32), u64> = BTreeMap::new();
        for wait in self.waits.iter().filter(|w| (from..to).contains(&w.warp)) {
            *by.entry((wait.kind, wait.label)).or_default() += wait.cycles;
        }
        let mut out: Vec<_> = by
            .into_iter()
            .map(|((kind, label), cycles)| {
                let name = self.labels.get(label as usize).map_or("", String::as_str);
                (kind, name, cycles as f64 / total)
            })
            .collect();
        out.sort_by(|a, b| b.2.total_cmp(&a.2));
        out
    }
}

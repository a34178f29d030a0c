//! Clocks of warps, queues of units, and events to come.

use std::collections::{BTreeMap, VecDeque};

use super::TimeOptions;
use super::copies::CopyEngine;
use super::cost::{Cost, Unit, table};
use super::labels::Labels;
use super::params::Params;
use super::report::{Activity, Lane, Span, SpanKind, WaitKind};
use super::rises::Heights;
use super::tensor::TensorCore;
use crate::decode::Kernel;
use crate::tma::pending::Pending;

/// Sub-partitions of an SM; warp `w` of a CTA runs on number `w % 4`.
pub(crate) const PARTS: usize = 4;

/// Something that happens at a time.
#[derive(Debug)]
pub(crate) enum Event {
    /// A copy is complete.
    Land(Box<Pending>),
    /// The tensor core of a CTA looks for work.
    TensorTry(usize),
    /// The running product leaves the tensor core.
    TensorFree(usize),
    /// A product's result can be waited for: CTA, warpgroup.
    TensorDone(usize, usize),
}

/// Why a warp stands still.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stall {
    pub since: u64,
    pub kind: WaitKind,
    pub label: u32,
    pub latency: u64,
}

/// One warp under the clock.
#[derive(Debug, Default)]
pub(crate) struct WarpTime {
    pub clock: u64,
    /// Order of the last issue: ties go to the warp that waited longest.
    pub turn: u64,
    pub stall: Option<Stall>,
    /// When each register can be used.
    pub ready: Vec<u64>,
    /// Start times of the last instructions.
    starts: VecDeque<u64>,
    pub last_start: u64,
    /// (lane, group, end) of copies that complete by group.
    pub groups: Vec<(u32, u32, u64)>,
    /// Label that is being executed, and since when.
    region: Option<(u32, u64)>,
    pub end: u64,
    pub instructions: u64,
    /// When the next instruction of this warp can start beside a running product.
    serial_free: f64,
    /// Whether the issue slot at its clock is kept for its next instruction.
    holds_slot: bool,
}

/// Queues of one sub-partition: when each unit has room.
#[derive(Clone, Debug, Default)]
pub(crate) struct Part {
    pub issue_free: u64,
    unit_free: BTreeMap<Unit, f64>,
    /// Cycles by which arithmetic has delayed the tensor core since the last product began.
    pub delay: f64,
}

impl Part {
    /// Takes a unit for some cycles from `from` on; gives when.
    fn take(&mut self, unit: Unit, from: f64, cycles: f64, p: &Params) -> f64 {
        let mut start = from.max(self.free(unit));
        if unit == Unit::Alu {
            start = start.max(self.free(Unit::Fma));
            self.unit_free.insert(Unit::Fma, start + p.alu_on_fma);
        }
        self.unit_free.insert(unit, start + cycles);
        start
    }

    fn free(&self, unit: Unit) -> f64 {
        self.unit_free.get(&unit).copied().unwrap_or(0.0)
    }
}

/// Everything under the clock.
#[derive(Debug)]
pub(crate) struct Time {
    pub params: Params,
    pub costs: Vec<Cost>,
    /// Label of each instruction.
    pub labels: Labels,
    pub warps: Vec<WarpTime>,
    /// Four a CTA.
    pub parts: Vec<Part>,
    pub tensor: Vec<TensorCore>,
    pub copies: Vec<CopyEngine>,
    pub smem_free: Vec<u64>,
    events: BTreeMap<(u64, u64), Event>,
    seq: u64,
    turns: u64,
    pub now: u64,
    /// `Machine::progress` at the last look.
    pub seen_progress: u64,
    /// `Machine::progress` when waits last timed out.
    pub timeout_progress: u64,
    pub activity: Activity,
    pub waits: BTreeMap<(u32, WaitKind, u32), (u64, u64)>,
    pub spans: Option<Vec<Span>>,
    /// Values of products, and the share of them that rise.
    pub heights: Heights,
    pub rise_share: f64,
}

impl Time {
    pub fn new(kernel: &Kernel, labels: Labels, options: &TimeOptions) -> Self {
        Self {
            params: options.params.clone(),
            costs: table(&kernel.code, kernel.reg_names.len() as u32, &options.params),
            labels,
            warps: Vec::new(),
            parts: Vec::new(),
            tensor: Vec::new(),
            copies: Vec::new(),
            smem_free: Vec::new(),
            events: BTreeMap::new(),
            seq: 0,
            turns: 0,
            now: 0,
            seen_progress: 0,
            timeout_progress: u64::MAX,
            activity: Activity::default(),
            waits: BTreeMap::new(),
            spans: options.trace.then(Vec::new),
            heights: Heights::default(),
            rise_share: options.rise_share,
        }
    }

    /// Room for the device's CTAs and warps.
    pub fn fit(&mut self, ctas: usize, warps: usize, slots: usize) {
        self.warps = (0..warps)
            .map(|_| WarpTime {
                ready: vec![0; slots],
                ..WarpTime::default()
            })
            .collect();
        self.parts = vec![Part::default(); ctas * PARTS];
        self.tensor = (0..ctas).map(|_| TensorCore::default()).collect();
        self.copies = vec![CopyEngine::default(); ctas];
        self.smem_free = vec![0; ctas];
    }

    pub fn at(&mut self, time: u64, event: Event) {
        self.seq += 1;
        self.events.insert((time.max(self.now), self.seq), event);
    }

    pub fn tensor_free(&mut self, cta: usize) {
        self.tensor[cta].running = false;
        self.tensor_try(cta);
    }

    /// Warp `w` has the turn.
    pub fn take_turn(&mut self, w: usize) {
        self.turns += 1;
        self.warps[w].turn = self.turns;
    }

    pub fn next_event(&self) -> Option<u64> {
        self.events.first_key_value().map(|((at, _), _)| *at)
    }

    pub fn pop_event(&mut self) -> Option<Event> {
        let ((at, _), event) = self.events.pop_first()?;
        self.now = self.now.max(at);
        Some(event)
    }

    /// Takes `bytes` of the shared-memory port from `from` on; gives when they are through.
    pub fn smem(&mut self, cta: usize, from: u64, bytes: u64) -> u64 {
        let cycles = (bytes as f64 / self.params.smem_bytes_per_cycle).ceil() as u64;
        let free = &mut self.smem_free[cta];
        *free = (*free).max(from) + cycles;
        self.activity.smem_bytes += bytes;
        *free
    }

    /// When the operands of an instruction are there.
    pub fn operands(&self, w: usize, pc: u32) -> u64 {
        let ready = &self.warps[w].ready;
        let reads = &self.costs[pc as usize].regs.reads;
        reads.iter().map(|r| ready[*r as usize]).max().unwrap_or(0)
    }

    /// Charges one instruction of warp `w` of `cta` that goes at its clock.
    pub fn charge(&mut self, w: usize, cta: usize, pc: u32) {
        let operands = self.operands(w, pc);
        let cost = &self.costs[pc as usize];
        let (unit, cycles, latency, bytes) = (cost.unit, cost.cycles, cost.latency, cost.smem_bytes);
        let warp = &mut self.warps[w];
        warp.instructions += 1;
        if !cost.issues {
            // What costs nothing hands its operands' times on.
            for d in &cost.regs.writes {
                warp.ready[*d as usize] = operands;
            }
            return;
        }
        let part = &mut self.parts[cta * PARTS + w % PARTS];
        let mut issue = if std::mem::take(&mut warp.holds_slot) {
            warp.clock
        } else {
            warp.clock.max(part.issue_free)
        };
        if warp.starts.len() >= self.params.reorder_window as usize {
            issue = issue.max(warp.starts.pop_front().unwrap_or(0));
        }
        part.issue_free = part.issue_free.max(issue + 1);
        let from = issue as f64;
        let room = match unit {
            Unit::None => from,
            Unit::Smem => {
                let free = &mut self.smem_free[cta];
                *free = (*free).max(issue) + cycles;
                self.activity.smem_bytes += bytes;
                (*free - cycles) as f64
            }
            _ if self.tensor[cta].running => {
                let p = &self.params;
                let start = part.take(unit, from.max(warp.serial_free), cycles as f64, p);
                warp.serial_free = start + cycles as f64 * p.serial_beside_wgmma;
                if unit == Unit::Fma {
                    part.delay += p.fma_delays_wgmma;
                }
                start
            }
            _ => part.take(unit, from, cycles as f64, &self.params),
        };
        let start = (room as u64).max(operands);
        warp.clock = issue + 1;
        warp.starts.push_back(start);
        warp.last_start = warp.last_start.max(start);
        for d in &cost.regs.writes {
            warp.ready[*d as usize] = start + latency;
        }
        self.activity.count(unit, cycles);
    }

    /// The time at which an ordered instruction can go, issue slots aside.
    pub fn ordered_at(&self, w: usize, pc: u32) -> u64 {
        let warp = &self.warps[w];
        let earlier = if warp.starts.is_empty() { 0 } else { warp.last_start + 1 };
        warp.clock.max(self.operands(w, pc)).max(earlier)
    }

    /// Keeps the next issue slot of its sub-partition for warp `w`; others would take it time and again before its turn
    /// comes. Gives whether that slot is later than its clock.
    pub fn hold_slot(&mut self, w: usize, cta: usize) -> bool {
        let part = &mut self.parts[cta * PARTS + w % PARTS];
        let warp = &mut self.warps[w];
        if warp.holds_slot || part.issue_free <= warp.clock {
            return false;
        }
        warp.holds_slot = true;
        warp.clock = part.issue_free;
        part.issue_free += 1;
        true
    }

    /// After an ordered instruction nothing older is in the window.
    pub fn drain(&mut self, w: usize) {
        self.warps[w].starts.clear();
    }

    /// A warp goes on after standing still.
    pub fn wake(&mut self, w: usize) {
        let now = self.now;
        let warp = &mut self.warps[w];
        let Some(stall) = warp.stall.take() else { return };
        warp.clock = warp.clock.max(now + stall.latency);
        let until = warp.clock;
        self.waited(w, stall, until);
    }

    pub fn waited(&mut self, w: usize, stall: Stall, until: u64) {
        if until <= stall.since {
            return;
        }
        let entry = self.waits.entry((w as u32, stall.kind, stall.label)).or_default();
        entry.0 += until - stall.since;
        entry.1 += 1;
        self.span(
            Lane::Warp(w as u32),
            stall.label,
            (stall.since, until),
            SpanKind::Wait(stall.kind),
        );
    }

    pub fn span(&mut self, lane: Lane, label: u32, (start, end): (u64, u64), kind: SpanKind) {
        let Some(spans) = &mut self.spans else { return };
        spans.push(Span {
            lane,
            label,
            start,
            end,
            kind,
        });
    }

    /// Notes that warp `w` executes code of `label` now.
    pub fn region(&mut self, w: usize, label: u32) {
        if self.spans.is_none() {
            return;
        }
        let at = self.warps[w].clock;
        match self.warps[w].region {
            Some((open, _)) if open == label => {}
            before => {
                self.warps[w].region = Some((label, at));
                if let Some((open, since)) = before {
                    self.span(Lane::Warp(w as u32), open, (since, at), SpanKind::Region);
                }
            }
        }
    }

    /// Closes the region of a warp that is gone.
    pub fn close(&mut self, w: usize) {
        let at = self.warps[w].clock;
        self.warps[w].end = at;
        if let Some((open, since)) = self.warps[w].region.take() {
            self.span(Lane::Warp(w as u32), open, (since, at), SpanKind::Region);
        }
    }
}

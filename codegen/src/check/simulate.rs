//! The protocol between producer and consumer warps, by happens-before.
//!
//! The producer warps and two warps of every consumer warpgroup (the one that issues bulk stores, and one for the others)
//! run over blocks of several trip counts. Every barrier carries a vector clock: a wait that passes joins it. A read of
//! shared memory that does not precede the next write of the same bytes is reported although this run happened to order
//! them. Synchronisation in a role program does not depend on data, so one interleaving shows every such pair.
//!
//! Barriers are those of the emitter. mbarriers keep their phase and are waited for by parity: a full barrier counts the
//! producer, an empty barrier every consumer warp. `staging free`, `staged visible` and a store contain a barrier of the
//! warpgroup; a turn is a named barrier of the warpgroup and its predecessor; the last consumer hands out the first one.
//! A dot reads its right operand whole, and of a K-major left operand each warp its own rows: a warp may write over its
//! own rows after its own wait (as published kernels do). Ring `r` is filled by producer warp `r % warps`.

use dsl::schedule::Persistence;

use crate::role::{OperandA, Place, RoleProgram, SmemOperand, Stmt};

use super::flat::small;
use super::trace::{BACK_EDGE, Case, Trace, next};
use super::violation::{At, Rule, Sink};

/// Up to four producer warps, and two warps of up to three consumers; two spare.
const ACTORS: usize = 12;
/// Warps of a warpgroup that are run.
const WARPS: usize = 2;
/// Blocks of the long run.
const BLOCKS: usize = 300;

type Clock = [u32; ACTORS];

fn join(into: &mut Clock, from: &Clock) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

/// A place: the slot behind a handle, or a buffer by region.
#[derive(Clone, Copy)]
enum Spot {
    Slot(usize),
    Region(usize),
}

/// What part of a tile is read: the rows of one warp, or all.
const OWN: usize = 0;
const WHOLE: usize = 1;

/// A statement as far as it matters here.
#[derive(Clone, Copy)]
enum Op {
    Skip,
    Fill(usize),
    Acquire(usize, usize),
    Release(usize, usize),
    Issue([Option<(Spot, usize)>; 2]),
    Wait(usize),
    /// At once: of a slot by `ReadShared`, of two places by a dot of one warp.
    Read([Option<(Spot, usize)>; 2]),
    Free,
    Visible,
    Meet,
    Stage(Spot),
    Store(Spot),
    TurnWait,
    TurnPass,
}

/// A barrier that counts arrivals.
#[derive(Clone, Default)]
struct Gate {
    arrived: u32,
    clock: Clock,
    /// Of the phases that are complete.
    done: Clock,
    phase: u32,
}

impl Gate {
    fn complete(&mut self) {
        let clock = self.clock;
        join(&mut self.done, &clock);
        self.arrived = 0;
        self.phase += 1;
    }
}

/// The bytes of one slot or buffer.
#[derive(Clone, Default)]
struct Region {
    /// Stamp and actor of the last fill.
    filled: u32,
    by: usize,
    /// Dots in flight that read, by part and actor.
    pending: [[u32; ACTORS]; 2],
    /// Stamps of the last reads' ends, by part and actor.
    ends: [Clock; 2],
    /// Stamps of writes by actors since the last fill.
    staged: Clock,
    /// Stamps of the fences that made those writes visible to the tensor core.
    visible: Clock,
    /// A buffer, which is only ever staged into.
    buffer: bool,
    /// Bulk stores that read, by warpgroup: in flight, and the stamp of the end.
    storing: [bool; 3],
    stored: [u32; 3],
}

struct Actor {
    block: usize,
    at: usize,
    clock: Clock,
    /// Slot and parity to wait for, by ring.
    rings: Vec<(usize, u32)>,
    /// Region behind each handle.
    handles: Vec<Option<usize>>,
    groups: Vec<[Option<(usize, usize)>; 2]>,
    /// Phase of the named barrier that this actor waits for.
    ticket: Option<u32>,
}

/// The parts that do not change between runs.
struct Setup<'p> {
    p: &'p RoleProgram,
    ops: Vec<Op>,
    producer: Vec<Vec<u32>>,
    consumer: Vec<Vec<u32>>,
    /// First region of each ring.
    bases: Vec<usize>,
    /// Slots; the buffers' regions follow.
    slots: usize,
    turns: bool,
    /// Producer warps: actors below this number.
    producers: usize,
}

pub(super) fn check(sink: &mut Sink<'_, '_>, cases: &[Case]) {
    let setup = Setup::new(sink, cases);
    for case in 0..cases.len() {
        Run::new(&setup, &[case]).go(sink);
    }
    if setup.p.grid.persistence != Persistence::None {
        Run::new(&setup, &blocks(cases.len())).go(sink);
    }
}

/// A walk over the cases in which every one follows every other, or a fixed sample of such pairs.
fn blocks(cases: usize) -> Vec<usize> {
    let mut out = vec![];
    if cases * (cases + 1) <= BLOCKS {
        for i in 0..cases {
            out.push(i);
            (i..cases).for_each(|j| out.extend([i, j]));
        }
        return out;
    }
    let mut state = 2;
    let bound = u64::try_from(cases).unwrap_or(1);
    out.extend((0..BLOCKS).map(|_| usize::try_from(next(&mut state) % bound).unwrap_or(0)));
    out
}

impl<'p> Setup<'p> {
    fn new(sink: &Sink<'_, 'p>, cases: &[Case]) -> Self {
        let p = sink.flat.program;
        let mut bases = vec![];
        let mut regions = 0;
        for r in &p.rings {
            bases.push(regions);
            regions += r.stages as usize;
        }
        let ops = sink.flat.all().map(|(_, s)| op(p, regions, s)).collect();
        let (turns, producers) = (p.ping_pong && p.consumers > 1, p.producer_warps as usize);
        let mut setup = Setup { p, ops, producer: vec![], consumer: vec![], bases, slots: regions, turns, producers };
        let keep = |t: &Trace| t.events.iter().copied().filter(|e| *e != BACK_EDGE && !matches!(setup.ops[*e as usize], Op::Skip)).collect();
        let (producer, consumer) = cases.iter().map(|c| (keep(&c.producer), keep(&c.consumer))).unzip();
        setup.producer = producer;
        setup.consumer = consumer;
        setup
    }
}

fn op(p: &RoleProgram, buffers: usize, stmt: &Stmt) -> Op {
    let spot = |place: Place| match place {
        Place::Slot(h) => Some(Spot::Slot(h.0 as usize)),
        Place::Fixed(at) => p.buffers.iter().position(|b| b.1 == at).map(|i| Spot::Region(buffers + i)),
    };
    let operand = |o: &SmemOperand, part: usize| spot(o.place).map(|s| (s, part));
    match stmt {
        Stmt::Fill { ring, .. } => Op::Fill(ring.0 as usize),
        Stmt::Acquire { ring, handle, .. } => Op::Acquire(ring.0 as usize, handle.0 as usize),
        Stmt::Release { ring, handle } => Op::Release(ring.0 as usize, handle.0 as usize),
        Stmt::Issue(d) => {
            let left = if let OperandA::Shared(o) = &d.a { operand(o, if o.mn_major { WHOLE } else { OWN }) } else { None };
            Op::Issue([left, operand(&d.b, WHOLE)])
        }
        Stmt::Wait { pending } => Op::Wait(*pending as usize),
        Stmt::ReadShared { handle, .. } => Op::Read([Some((Spot::Slot(handle.0 as usize), OWN)), None]),
        Stmt::WarpDot { a, b, .. } => Op::Read([operand(a, OWN), operand(b, WHOLE)]),
        Stmt::StagingFree => Op::Free,
        Stmt::StagedVisible => Op::Visible,
        Stmt::ConsumersMeet => Op::Meet,
        Stmt::Stage { place, .. } => spot(*place).map_or(Op::Skip, Op::Stage),
        Stmt::StoreStaged { place, .. } => spot(*place).map_or(Op::Skip, Op::Store),
        Stmt::TurnWait => Op::TurnWait,
        Stmt::TurnPass => Op::TurnPass,
        _ => Op::Skip,
    }
}

struct Run<'s, 'p> {
    setup: &'s Setup<'p>,
    blocks: &'s [usize],
    actors: Vec<Actor>,
    full: Vec<Gate>,
    empty: Vec<Gate>,
    groups: [Gate; 3],
    turns: [Gate; 3],
    meeting: Gate,
    regions: Vec<Region>,
}

impl<'s, 'p> Run<'s, 'p> {
    fn new(setup: &'s Setup<'p>, blocks: &'s [usize]) -> Self {
        let count = setup.producers + WARPS * setup.p.consumers as usize;
        let actors = (0..count).map(|a| Actor {
            block: 0,
            at: 0,
            clock: [0; ACTORS],
            // A producer starts one phase ahead, since every slot is free.
            rings: vec![(0, u32::from(a < setup.producers)); setup.p.rings.len()],
            handles: vec![None; setup.p.handles.len()],
            groups: vec![],
            ticket: None,
        }).collect();
        let mut turns: [Gate; 3] = std::array::from_fn(|_| Gate::default());
        turns[0].arrived = 0b1100;
        let gates = vec![Gate::default(); setup.slots];
        let mut regions = vec![Region::default(); setup.slots + setup.p.buffers.len()];
        regions[setup.slots..].iter_mut().for_each(|r| r.buffer = true);
        let groups = std::array::from_fn(|_| Gate::default());
        Self { setup, blocks, actors, full: gates.clone(), empty: gates, groups, turns, meeting: Gate::default(), regions }
    }

    /// Warpgroup and warp of a consumer's actor.
    fn seat(&self, actor: usize) -> (usize, usize) {
        ((actor - self.setup.producers) / WARPS, (actor - self.setup.producers) % WARPS)
    }

    /// The actor that issues the bulk stores of a warpgroup.
    fn storer(&self, group: usize) -> usize {
        self.setup.producers + group * WARPS
    }

    fn consumers(&self) -> std::ops::Range<usize> {
        self.setup.producers..self.actors.len()
    }

    fn go(mut self, sink: &mut Sink<'_, '_>) {
        loop {
            let mut moved = false;
            for a in 0..self.actors.len() {
                while let Some(site) = self.next(a) {
                    if !self.step(sink, a, site) {
                        break;
                    }
                    self.actors[a].at += 1;
                    moved = true;
                }
            }
            if !moved {
                break;
            }
        }
        for a in 0..self.actors.len() {
            if let Some(site) = self.next(a) {
                self.stuck(sink, a, site);
            }
        }
    }

    /// The next statement of an actor; moves on to its next block.
    fn next(&mut self, a: usize) -> Option<u32> {
        let streams = if a < self.setup.producers { &self.setup.producer } else { &self.setup.consumer };
        let actor = &mut self.actors[a];
        loop {
            let stream = &streams[*self.blocks.get(actor.block)?];
            if let Some(site) = stream.get(actor.at) {
                return Some(*site);
            }
            actor.block += 1;
            actor.at = 0;
        }
    }

    fn stuck(&self, sink: &mut Sink<'_, '_>, a: usize, site: u32) {
        let p = self.setup.p;
        let who = if a < self.setup.producers { "the producer".to_owned() } else { format!("a warp of consumer {}", self.seat(a).0) };
        let what = match self.setup.ops[site as usize] {
            Op::Fill(r) => format!("slot {} of ring `{}` to be released", self.actors[a].rings[r].0, p.rings[r].name),
            Op::Acquire(r, _) => format!("slot {} of ring `{}` to be filled", self.actors[a].rings[r].0, p.rings[r].name),
            Op::TurnWait => "its turn".to_owned(),
            Op::Meet => "the other consumers".to_owned(),
            _ => "the other warps of its warpgroup".to_owned(),
        };
        sink.fail(Rule::Deadlock, At::Site(site), "everybody gets to the end", format!("{who} waits for {what} for ever"));
    }

    /// Runs one statement; `false` when it has to wait.
    fn step(&mut self, sink: &mut Sink<'_, '_>, a: usize, site: u32) -> bool {
        let op = self.setup.ops[site as usize];
        let passed = match op {
            Op::Fill(ring) => ring % self.setup.producers != a || self.fill(sink, a, ring, site),
            Op::Acquire(ring, handle) => self.acquire(a, ring, handle),
            Op::Free => {
                if self.actors[a].ticket.is_none() {
                    self.stores_end(a);
                }
                self.group_barrier(a)
            }
            Op::Visible => {
                self.make_visible(a);
                self.group_barrier(a)
            }
            Op::Meet => self.meet(a),
            Op::Store(spot) => self.store(a, spot),
            Op::TurnWait => !self.setup.turns || self.turn_wait(a),
            _ => {
                self.tick(a);
                match op {
                    Op::Release(ring, handle) => self.release(a, ring, handle),
                    Op::Issue(reads) => self.issue(sink, a, reads, site),
                    Op::Wait(pending) => self.wait(a, pending),
                    Op::Read(reads) => self.read(sink, a, reads, site),
                    Op::Stage(spot) => self.stage(sink, a, spot, site),
                    Op::TurnPass if self.setup.turns => self.turn_pass(sink, a, site),
                    _ => {}
                }
                true
            }
        };
        passed
    }

    fn tick(&mut self, a: usize) -> u32 {
        let own = &mut self.actors[a].clock[a];
        *own += 1;
        *own
    }

    fn region(&self, a: usize, spot: Spot) -> Option<usize> {
        match spot {
            Spot::Slot(h) => self.actors[a].handles[h],
            Spot::Region(r) => Some(r),
        }
    }

    /// Waits for a barrier's parity, as `mbarrier.try_wait.parity` does, and moves the ring on.
    fn pass(&mut self, a: usize, ring: usize, full: bool) -> Option<usize> {
        let (slot, parity) = self.actors[a].rings[ring];
        let region = self.setup.bases[ring] + slot;
        let gate = if full { &self.full[region] } else { &self.empty[region] };
        if gate.phase & 1 == parity {
            return None;
        }
        let done = gate.done;
        join(&mut self.actors[a].clock, &done);
        let last = slot + 1 == self.setup.p.rings[ring].stages as usize;
        self.actors[a].rings[ring] = if last { (0, parity ^ 1) } else { (slot + 1, parity) };
        Some(region)
    }

    fn fill(&mut self, sink: &mut Sink<'_, '_>, producer: usize, ring: usize, site: u32) -> bool {
        let Some(at) = self.pass(producer, ring, false) else { return false };
        let stamp = self.tick(producer);
        let clock = self.actors[producer].clock;
        for a in self.consumers() {
            let ((group, _), region) = (self.seat(a), &self.regions[at]);
            let reading = (0..2).any(|k| region.pending[k][a] > 0 || region.ends[k][a] > clock[a]);
            let storing = a == self.storer(group) && (region.storing[group] || region.stored[group] > clock[a]);
            if reading || storing || region.staged[a] > clock[a] {
                let what = if reading { "read it" } else { "store from it" };
                sink.fail(Rule::SlotOverwritten, At::Site(site), "a slot that everybody is done with", format!("consumer {group} may still {what}"));
            }
        }
        let region = &mut self.regions[at];
        region.filled = stamp;
        region.by = producer;
        region.staged = [0; ACTORS];
        let full = &mut self.full[at];
        join(&mut full.clock, &clock);
        full.complete();
        true
    }

    fn acquire(&mut self, a: usize, ring: usize, handle: usize) -> bool {
        let Some(region) = self.pass(a, ring, true) else { return false };
        self.tick(a);
        self.actors[a].handles[handle] = Some(region);
        true
    }

    fn release(&mut self, a: usize, ring: usize, handle: usize) {
        let Some(region) = self.actors[a].handles[handle] else { return };
        // A handle of another ring is reported elsewhere.
        if region < self.setup.bases[ring] || region >= self.setup.slots {
            return;
        }
        let (clock, all) = (self.actors[a].clock, small(self.consumers().len()));
        let gate = &mut self.empty[region];
        join(&mut gate.clock, &clock);
        gate.arrived += 1;
        if gate.arrived == all {
            gate.complete();
        }
    }

    /// A read must follow the fill, and nobody may have staged over what it reads.
    fn reads(&mut self, sink: &mut Sink<'_, '_>, a: usize, at: usize, part: usize, site: u32) {
        let (clock, region) = (&self.actors[a].clock, &self.regions[at]);
        if region.filled > clock[region.by] {
            sink.fail(Rule::SlotOverwritten, At::Site(site), "a read of the tile that was acquired", "the slot may be refilled before it");
        }
        let mut writers = self.consumers().filter(|b| part == WHOLE || *b == a);
        if region.buffer {
            // Every row that is read was staged, made visible, and that before.
            if let Some(b) = writers.find(|b| region.visible[*b] == 0 || region.visible[*b] > clock[*b]) {
                let found = format!("rows of consumer {} may be staged later", self.seat(b).0);
                sink.fail(Rule::StagedNotVisible, At::Site(site), "a tile that was made visible before", found);
            }
        } else if let Some(b) = writers.find(|b| region.staged[*b] > 0) {
            sink.fail(Rule::ReadAfterStage, At::Site(site), "the tile that was loaded", format!("consumer {} staged over it", self.seat(b).0));
        }
    }

    fn issue(&mut self, sink: &mut Sink<'_, '_>, a: usize, reads: [Option<(Spot, usize)>; 2], site: u32) {
        let group = reads.map(|r| r.and_then(|(spot, part)| self.region(a, spot).map(|at| (at, part))));
        for (at, part) in group.into_iter().flatten() {
            self.reads(sink, a, at, part, site);
            self.regions[at].pending[part][a] += 1;
        }
        self.actors[a].groups.push(group);
    }

    fn wait(&mut self, a: usize, pending: usize) {
        let actor = &mut self.actors[a];
        let retired = actor.groups.len().saturating_sub(pending);
        for (at, part) in actor.groups.drain(..retired).flatten().flatten() {
            let region = &mut self.regions[at];
            region.pending[part][a] -= 1;
            region.ends[part][a] = actor.clock[a];
        }
    }

    fn read(&mut self, sink: &mut Sink<'_, '_>, a: usize, reads: [Option<(Spot, usize)>; 2], site: u32) {
        for (spot, part) in reads.into_iter().flatten() {
            let Some(at) = self.region(a, spot) else { continue };
            self.reads(sink, a, at, part, site);
            self.regions[at].ends[part][a] = self.actors[a].clock[a];
        }
    }

    fn stage(&mut self, sink: &mut Sink<'_, '_>, a: usize, spot: Spot, site: u32) {
        let Some(at) = self.region(a, spot) else { return };
        let (clock, region, (group, _)) = (self.actors[a].clock, &self.regions[at], self.seat(a));
        if region.filled > clock[region.by] {
            sink.fail(Rule::SlotOverwritten, At::Site(site), "a slot that is still held", "the slot may be refilled meanwhile");
        }
        let reader = self.consumers().find(|b| *b != a && (region.pending[WHOLE][*b] > 0 || region.ends[WHOLE][*b] > clock[*b]));
        if let Some(b) = reader {
            sink.fail(Rule::StageWhileRead, At::Site(site), "rows that no other warp reads", format!("consumer {} may still read the whole tile", self.seat(b).0));
        }
        if region.storing[group] || region.stored[group] > clock[self.storer(group)] {
            sink.fail(Rule::StagingBusy, At::Site(site), "`staging free` after the store before", "a store that may still read the buffer");
        }
        let region = &mut self.regions[at];
        region.staged[a] = clock[a];
        region.visible[a] = 0;
    }

    /// `staged visible`: the proxy fence of one warp.
    fn make_visible(&mut self, a: usize) {
        if self.actors[a].ticket.is_some() {
            return;
        }
        let stamp = self.tick(a);
        for region in self.regions.iter_mut().filter(|r| r.staged[a] > 0) {
            region.visible[a] = stamp;
        }
    }

    /// `staging free`: the storing warp waits until its stores have read.
    fn stores_end(&mut self, a: usize) {
        let (group, warp) = self.seat(a);
        if warp != 0 {
            return;
        }
        let stamp = self.tick(a);
        for region in &mut self.regions {
            if std::mem::take(&mut region.storing[group]) {
                region.stored[group] = stamp;
            }
        }
    }

    fn store(&mut self, a: usize, spot: Spot) -> bool {
        if !self.group_barrier(a) {
            return false;
        }
        let (group, warp) = self.seat(a);
        if warp == 0
            && let Some(at) = self.region(a, spot)
        {
            self.regions[at].storing[group] = true;
        }
        true
    }

    fn group_barrier(&mut self, a: usize) -> bool {
        let (group, warp) = self.seat(a);
        named(&mut self.groups[group], &mut self.actors[a], a, 1 << warp, 0b11)
    }

    fn turn_wait(&mut self, a: usize) -> bool {
        let (group, warp) = self.seat(a);
        named(&mut self.turns[group], &mut self.actors[a], a, 1 << warp, 0b1111)
    }

    fn meet(&mut self, a: usize) -> bool {
        let all = (1 << self.consumers().len()) - 1;
        named(&mut self.meeting, &mut self.actors[a], a, 1 << (a - self.setup.producers), all)
    }

    fn turn_pass(&mut self, sink: &mut Sink<'_, '_>, a: usize, site: u32) {
        let (group, warp) = self.seat(a);
        let gate = &mut self.turns[(group + 1) % self.setup.p.consumers as usize];
        let bit = 0b100 << warp;
        if gate.arrived & bit != 0 {
            sink.fail(Rule::TurnBalance, At::Site(site), "one turn at a time", "the next warpgroup has not taken the turn before");
        }
        join(&mut gate.clock, &self.actors[a].clock);
        gate.arrived |= bit;
        if gate.arrived == 0b1111 {
            gate.complete();
        }
    }
}

/// Arrives at a named barrier and waits for its phase.
fn named(gate: &mut Gate, actor: &mut Actor, a: usize, bit: u32, all: u32) -> bool {
    if actor.ticket.is_none() {
        actor.clock[a] += 1;
        join(&mut gate.clock, &actor.clock);
        gate.arrived |= bit;
        actor.ticket = Some(gate.phase);
        if gate.arrived == all {
            gate.complete();
        }
    }
    if actor.ticket == Some(gate.phase) {
        return false;
    }
    actor.ticket = None;
    join(&mut actor.clock, &gate.done);
    true
}

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

mod bytes;
mod setup;
mod state;

use super::flat::small;
use super::trace::{Case, next};
use super::violation::{At, Rule, Sink};

use setup::{Op, Setup, Spot};
use state::{ACTORS, Actor, Gate, Region, WARPS, join, named};

/// Blocks of the long run.
const BLOCKS: usize = 128;

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
        let actors = (0..count)
            .map(|a| Actor {
                block: 0,
                at: 0,
                clock: [0; ACTORS],
                // A producer starts one phase ahead, since every slot is free.
                rings: vec![(0, u32::from(a < setup.producers)); setup.p.rings.len()],
                handles: vec![None; setup.p.handles.len()],
                groups: vec![],
                ticket: None,
            })
            .collect();
        let mut turns: [Gate; 3] = std::array::from_fn(|_| Gate::default());
        turns[0].arrived = 0b1100;
        let gates = vec![Gate::default(); setup.slots];
        let mut regions = vec![Region::default(); setup.slots + setup.p.buffers.len()];
        regions[setup.slots..].iter_mut().for_each(|r| r.buffer = true);
        let groups = std::array::from_fn(|_| Gate::default());
        Self {
            setup,
            blocks,
            actors,
            full: gates.clone(),
            empty: gates,
            groups,
            turns,
            meeting: Gate::default(),
            regions,
        }
    }

    /// Warpgroup and warp of a consumer's actor.
    fn seat(&self, actor: usize) -> (usize, usize) {
        (
            (actor - self.setup.producers) / WARPS,
            (actor - self.setup.producers) % WARPS,
        )
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
        let streams = if a < self.setup.producers {
            &self.setup.producer
        } else {
            &self.setup.consumer
        };
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
        let who = if a < self.setup.producers {
            "the producer".to_owned()
        } else {
            format!("a warp of consumer {}", self.seat(a).0)
        };
        let what = match self.setup.ops[site as usize] {
            Op::Fill(r) => format!(
                "slot {} of ring `{}` to be released",
                self.actors[a].rings[r].0, p.rings[r].name
            ),
            Op::Acquire(r, _) => format!(
                "slot {} of ring `{}` to be filled",
                self.actors[a].rings[r].0, p.rings[r].name
            ),
            Op::TurnWait => "its turn".to_owned(),
            Op::Meet => "the other consumers".to_owned(),
            _ => "the other warps of its warpgroup".to_owned(),
        };
        sink.fail(
            Rule::Deadlock,
            At::Site(site),
            "everybody gets to the end",
            format!("{who} waits for {what} for ever"),
        );
    }

    /// Runs one statement; `false` when it has to wait.
    fn step(&mut self, sink: &mut Sink<'_, '_>, a: usize, site: u32) -> bool {
        let op = self.setup.ops[site as usize];
        match op {
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
                    Op::Stage(spot, reshaped) => self.stage(sink, a, (spot, reshaped), site),
                    Op::TurnPass if self.setup.turns => self.turn_pass(sink, a, site),
                    _ => {}
                }
                true
            }
        }
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
        let Some(at) = self.pass(producer, ring, false) else {
            return false;
        };
        let stamp = self.tick(producer);
        let clock = self.actors[producer].clock;
        for a in self.consumers() {
            let ((group, _), region) = (self.seat(a), &self.regions[at]);
            let reading = (0..2).any(|k| region.pending[k][a] > 0 || region.ends[k][a] > clock[a]);
            let storing = a == self.storer(group) && (region.storing[group] || region.stored[group] > clock[a]);
            if reading || storing || region.staged[a] > clock[a] {
                let what = if reading { "read it" } else { "store from it" };
                sink.fail(
                    Rule::SlotOverwritten,
                    At::Site(site),
                    "a slot that everybody is done with",
                    format!("consumer {group} may still {what}"),
                );
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
        let Some(region) = self.pass(a, ring, true) else {
            return false;
        };
        self.tick(a);
        self.actors[a].handles[handle] = Some(region);
        true
    }

    fn release(&mut self, a: usize, ring: usize, handle: usize) {
        let Some(region) = self.actors[a].handles[handle] else {
            return;
        };
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
        named(
            &mut self.meeting,
            &mut self.actors[a],
            a,
            1 << (a - self.setup.producers),
            all,
        )
    }

    fn turn_pass(&mut self, sink: &mut Sink<'_, '_>, a: usize, site: u32) {
        let (group, warp) = self.seat(a);
        let gate = &mut self.turns[(group + 1) % self.setup.p.consumers as usize];
        let bit = 0b100 << warp;
        if gate.arrived & bit != 0 {
            sink.fail(
                Rule::TurnBalance,
                At::Site(site),
                "one turn at a time",
                "the next warpgroup has not taken the turn before",
            );
        }
        join(&mut gate.clock, &self.actors[a].clock);
        gate.arrived |= bit;
        if gate.arrived == 0b1111 {
            gate.complete();
        }
    }
}

//! The state of a run: vector clocks, barriers, bytes of shared memory, warps.

/// Up to four producer warps, and two warps of up to three consumers; two spare.
pub(super) const ACTORS: usize = 12;
/// Warps of a warpgroup that are run.
pub(super) const WARPS: usize = 2;
pub(super) type Clock = [u32; ACTORS];

pub(super) fn join(into: &mut Clock, from: &Clock) {
    for (a, b) in into.iter_mut().zip(from) {
        *a = (*a).max(*b);
    }
}

/// A barrier that counts arrivals.
#[derive(Clone, Default)]
pub(super) struct Gate {
    pub arrived: u32,
    pub clock: Clock,
    /// Of the phases that are complete.
    pub done: Clock,
    pub phase: u32,
}

impl Gate {
    pub fn complete(&mut self) {
        let clock = self.clock;
        join(&mut self.done, &clock);
        self.arrived = 0;
        self.phase += 1;
    }
}

/// The bytes of one slot or buffer.
#[derive(Clone, Default)]
pub(super) struct Region {
    /// Stamp and actor of the last fill.
    pub filled: u32,
    pub by: usize,
    /// Dots in flight that read, by part and actor.
    pub pending: [[u32; ACTORS]; 2],
    /// Stamps of the last reads' ends, by part and actor.
    pub ends: [Clock; 2],
    /// Stamps of writes by actors since the last fill.
    pub staged: Clock,
    /// Stamps of the fences that made those writes visible to the tensor core.
    pub visible: Clock,
    /// A buffer, which is only ever staged into.
    pub buffer: bool,
    /// Bulk stores that read, by warpgroup: in flight, and the stamp of the end.
    pub storing: [bool; 3],
    pub stored: [u32; 3],
}

pub(super) struct Actor {
    pub block: usize,
    pub at: usize,
    pub clock: Clock,
    /// Slot and parity to wait for, by ring.
    pub rings: Vec<(usize, u32)>,
    /// Region behind each handle.
    pub handles: Vec<Option<usize>>,
    pub groups: Vec<[Option<(usize, usize)>; 2]>,
    /// Phase of the named barrier that this actor waits for.
    pub ticket: Option<u32>,
}

/// Arrives at a named barrier and waits for its phase.
pub(super) fn named(gate: &mut Gate, actor: &mut Actor, a: usize, bit: u32, all: u32) -> bool {
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

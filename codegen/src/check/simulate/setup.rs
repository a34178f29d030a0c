//! The program as far as the simulation cares: one small operation per statement, streams of sites per role.

use crate::role::{OperandA, Place, RoleProgram, SmemOperand, Stmt};

use super::super::flat::Flat;
use super::super::trace::{BACK_EDGE, Case, Trace};
use super::super::violation::Sink;

/// A place: the slot behind a handle, or a buffer by region.
#[derive(Clone, Copy)]
pub(super) enum Spot {
    Slot(usize),
    Region(usize),
}

/// What part of a tile is read: the rows of one warp, or all.
pub(super) const OWN: usize = 0;
pub(super) const WHOLE: usize = 1;

/// A statement as far as it matters here.
#[derive(Clone, Copy)]
pub(super) enum Op {
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
    /// The flag: its rows are not those of the tile that was loaded there, so that nobody else may still read any of it.
    Stage(Spot, bool),
    Store(Spot),
    TurnWait,
    TurnPass,
}

/// The parts that do not change between runs.
pub(super) struct Setup<'p> {
    pub p: &'p RoleProgram,
    pub ops: Vec<Op>,
    pub producer: Vec<Vec<u32>>,
    pub consumer: Vec<Vec<u32>>,
    /// First region of each ring.
    pub bases: Vec<usize>,
    /// Slots; the buffers' regions follow.
    pub slots: usize,
    pub turns: bool,
    /// Producer warps: actors below this number.
    pub producers: usize,
}

impl<'p> Setup<'p> {
    pub fn new(sink: &Sink<'_, 'p>, cases: &[Case]) -> Self {
        let p = sink.flat.program;
        let mut bases = vec![];
        let mut regions = 0;
        for r in &p.rings {
            bases.push(regions);
            regions += r.stages as usize;
        }
        let ops = sink.flat.all().map(|(_, s)| op(sink.flat, regions, s)).collect();
        let (turns, producers) = (p.ping_pong && p.consumers > 1, p.producer_warps as usize);
        let mut setup = Setup {
            p,
            ops,
            producer: vec![],
            consumer: vec![],
            bases,
            slots: regions,
            turns,
            producers,
        };
        let keep = |t: &Trace| {
            t.events
                .iter()
                .copied()
                .filter(|e| *e != BACK_EDGE && !matches!(setup.ops[*e as usize], Op::Skip))
                .collect()
        };
        let (producer, consumer) = cases.iter().map(|c| (keep(&c.producer), keep(&c.consumer))).unzip();
        setup.producer = producer;
        setup.consumer = consumer;
        setup
    }
}

pub(super) fn op(flat: &Flat<'_>, buffers: usize, stmt: &Stmt) -> Op {
    let p = flat.program;
    let spot = |place: Place| match place {
        Place::Slot(h) => Some(Spot::Slot(h.0 as usize)),
        Place::Fixed(at) => p
            .buffers
            .iter()
            .position(|b| b.1 == at)
            .map(|i| Spot::Region(buffers + i)),
    };
    let operand = |o: &SmemOperand, part: usize| spot(o.place).map(|s| (s, part));
    match stmt {
        Stmt::Fill { ring, .. } => Op::Fill(ring.0 as usize),
        Stmt::Acquire { ring, handle, .. } => Op::Acquire(ring.0 as usize, handle.0 as usize),
        Stmt::Release { ring, handle } => Op::Release(ring.0 as usize, handle.0 as usize),
        Stmt::Issue(d) => {
            let left = if let OperandA::Shared(o) = &d.a {
                operand(o, if o.mn_major { WHOLE } else { OWN })
            } else {
                None
            };
            Op::Issue([left, operand(&d.b, WHOLE)])
        }
        Stmt::Wait { pending } => Op::Wait(*pending as usize),
        Stmt::ReadShared { handle, .. } => Op::Read([Some((Spot::Slot(handle.0 as usize), OWN)), None]),
        Stmt::WarpDot { a, b, .. } => Op::Read([operand(a, OWN), operand(b, WHOLE)]),
        Stmt::StagingFree => Op::Free,
        Stmt::StagedVisible => Op::Visible,
        Stmt::ConsumersMeet => Op::Meet,
        Stmt::Stage { place, tile, .. } => {
            let other = |s: &Stmt| matches!(s, Stmt::Acquire { handle, load, .. } if *place == Place::Slot(*handle) && load.tile != *tile);
            let reshaped = flat.all().any(|(_, s)| other(s));
            spot(*place).map_or(Op::Skip, |at| Op::Stage(at, reshaped))
        }
        Stmt::StoreStaged { place, .. } => spot(*place).map_or(Op::Skip, Op::Store),
        Stmt::TurnWait => Op::TurnWait,
        Stmt::TurnPass => Op::TurnPass,
        _ => Op::Skip,
    }
}

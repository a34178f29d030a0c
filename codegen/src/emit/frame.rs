//! The frame of a kernel: start-up, roles, and the walk over the grid.

use dsl::schedule::Persistence;

use crate::ptx::{Class, Cmp, IntOp, Kind, Label, Opd, ParamKind, Reg, Special};
use crate::role::{Mailbox, Stmt};

use super::stamps::{Edge, Instrument};
use super::{Emitter, RingState, Thread, params};

/// Named barriers (PTX ISA 9.7.13.1), one meaning each.
#[derive(Clone, Copy)]
pub(crate) enum Barrier {
    /// The whole CTA, once.
    Start,
    /// One consumer warpgroup; its index is added.
    Group,
    /// A warpgroup's turn on the tensor core; its index is added.
    Turn,
    /// All consumer warpgroups.
    Consumers,
}

impl Barrier {
    pub fn id(self) -> i64 {
        match self {
            Self::Start => 0,
            Self::Group => 1,
            Self::Turn => 4,
            Self::Consumers => 7,
        }
    }
}

/// Emits the whole kernel body.
pub fn kernel(e: &mut Emitter<'_>) {
    thread(e);
    load_params(e);
    e.stamps_begin();
    barriers(e);
    let (consumer, done) = (e.label(), e.label());
    let total = total(e);
    let p = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Ne,
        dst: p,
        a: e.at.group.into(),
        b: Opd::Int(0),
    });
    e.push_if(p, true, Kind::Bra(consumer));
    producer(e, total, done);
    e.push(Kind::Label(consumer));
    self::consumer(e, total);
    e.push(Kind::Label(done));
    e.push(Kind::Ret);
}

fn thread(e: &mut Emitter<'_>) {
    e.note("threads, warps, roles");
    let tid = e.mov(Class::B32, Opd::Special(Special::TidX));
    let smem = e.mov(Class::B32, Opd::Smem);
    // Broadcast from lane 0: the assembler then knows that the indices are uniform.
    let uniform = |e: &mut Emitter<'_>, r: Reg| {
        let dst = e.reg(Class::B32);
        e.push(Kind::ShflFirst { dst, src: r });
        dst
    };
    let group = e.int(IntOp::ShrU, tid, 7u32);
    let group = uniform(e, group);
    let consumer = e.int(IntOp::Sub, group, 1u32);
    let warp = e.int(IntOp::ShrU, tid, 5u32);
    let warp = e.int(IntOp::And, warp, 3u32);
    let warp = uniform(e, warp);
    let lane = e.int(IntOp::And, tid, 31u32);
    let lane_zero = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Eq,
        dst: lane_zero,
        a: lane.into(),
        b: Opd::Int(0),
    });
    let quad = e.int(IntOp::ShrU, lane, 2u32);
    let row = e.mad(warp, 16u32, quad);
    let row = e.mad(consumer, e.p.rows_per_consumer, row);
    let col = e.int(IntOp::And, lane, 3u32);
    let col = e.int(IntOp::Shl, col, 1u32);
    let leader = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Eq,
        dst: leader,
        a: tid.into(),
        b: Opd::Int(0),
    });
    e.at = Thread {
        smem,
        group,
        consumer,
        warp,
        lane,
        lane_zero,
        row,
        col,
        leader,
    };
}

pub(crate) fn load_params(e: &mut Emitter<'_>) {
    let mut sizes = e.p.runtime.len();
    for (name, kind) in params(e.p) {
        match kind {
            ParamKind::TensorMap => {
                let dst = e.reg(Class::B64);
                e.push(Kind::ParamAddr { dst, param: name });
                let leader = e.at.leader;
                e.push_if(leader, true, Kind::PrefetchMap { map: dst });
                e.maps.push(dst);
            }
            ParamKind::S32 if sizes > 0 => {
                sizes -= 1;
                let dst = e.reg(Class::B32);
                e.push(Kind::LdParam { dst, param: name });
                e.runtime.push(dst);
            }
            ParamKind::F32 => {
                let dst = e.reg(Class::F32);
                e.push(Kind::LdParam { dst, param: name });
                e.scalars.push(dst);
            }
            ParamKind::S32 | ParamKind::U64 => {}
        }
    }
    e.vars = (0..e.p.vars.len()).map(|_| e.reg(Class::B32)).collect();
}

fn barriers(e: &mut Emitter<'_>) {
    e.note("mbarriers: full slots count the producer, empty slots one arrival per consumer warp");
    let skip = e.label();
    let leader = e.at.leader;
    e.push_if(leader, false, Kind::Bra(skip));
    let warps = 4 * e.p.consumers;
    for ring in &e.p.rings {
        for stage in 0..ring.stages {
            init(e, ring.full + 8 * stage, 1);
            init(e, ring.empty + 8 * stage, warps);
        }
    }
    if let Some(m) = e.p.mailbox {
        init(e, m.full, 1);
        init(e, m.empty, warps + e.p.producer_warps - 1);
    }
    e.push(Kind::MbarInitFence);
    e.push(Kind::Label(skip));
    e.push(Kind::BarSync {
        id: Opd::Int(Barrier::Start.id()),
        threads: e.p.threads(),
    });
}

fn init(e: &mut Emitter<'_>, offset: u32, count: u32) {
    let at = e.smem_at(offset);
    e.push(Kind::MbarInit { at, count });
}

/// Number of blocks of the grid.
pub(crate) fn total(e: &mut Emitter<'_>) -> Opd {
    e.note("blocks of the grid");
    let mut total = Opd::Int(1);
    for axis in &e.p.grid.axes {
        let count = e.expr(&axis.count);
        total = if total == Opd::Int(1) {
            count
        } else {
            e.int(IntOp::MulLo, count, total).into()
        };
    }
    total
}

/// Ring states of a role: a producer starts one phase ahead, since every slot is free.
fn rings(e: &mut Emitter<'_>, phase: i64) {
    let stages: Vec<u32> = e.p.rings.iter().map(|r| r.stages).collect();
    e.rings = stages
        .iter()
        .map(|s| {
            let slot = (*s > 1).then(|| e.mov(Class::B32, Opd::Int(0)));
            RingState {
                slot,
                phase: e.mov(Class::B32, Opd::Int(phase)),
            }
        })
        .collect();
}

fn producer(e: &mut Emitter<'_>, total: Opd, done: Label) {
    e.note("producer");
    e.push(Kind::SetMaxNReg {
        increase: false,
        count: e.p.producer_registers,
    });
    let p = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Ge,
        dst: p,
        a: e.at.warp.into(),
        b: e.p.producer_warps.into(),
    });
    e.push_if(p, true, Kind::Bra(done));
    let elected = e.reg(Class::Pred);
    e.push(Kind::Elect { dst: elected });
    e.push_if(elected, false, Kind::Bra(done));
    for warp in (1..e.p.producer_warps).rev() {
        let other = e.label();
        let p = e.reg(Class::Pred);
        e.push(Kind::SetpI {
            cmp: Cmp::Ne,
            dst: p,
            a: e.at.warp.into(),
            b: warp.into(),
        });
        e.push_if(p, true, Kind::Bra(other));
        // Only the leading warp's blocks are stamped.
        let stamps = e.stamps.take();
        following_warp(e, warp, total, done);
        e.stamps = stamps;
        e.push(Kind::Label(other));
    }
    leading_warp(e, total, done);
}

/// A further producer warp: it is told the blocks like a consumer.
fn following_warp(e: &mut Emitter<'_>, warp: u32, total: Opd, done: Label) {
    e.note(format!("producer warp {warp}"));
    e.filling = warp;
    rings(e, 1);
    let body = e.p.producer.clone();
    let mail = e.p.mailbox.map(|m| (m, e.mov(Class::B32, Opd::Int(0))));
    walk(
        e,
        (total, done),
        &body,
        |_, _, _| None::<()>,
        |e, tile, _| match mail {
            Some((m, phase)) => receive_alone(e, m, phase, tile),
            None => stride(e, tile),
        },
    );
    e.push(Kind::Bra(done));
}

/// The producer warp that draws blocks.
fn leading_warp(e: &mut Emitter<'_>, total: Opd, done: Label) {
    e.filling = 0;
    rings(e, 1);
    let body = e.p.producer.clone();
    let mail = e.p.mailbox.map(|m| (m, e.mov(Class::B32, Opd::Int(1))));
    // Without stamps there is nothing to do at the end.
    let stamped = e.instrument != Instrument::Off;
    let end = if stamped { e.label() } else { done };
    walk(
        e,
        (total, end),
        &body,
        |e, tile, total| {
            let (mailbox, phase) = mail?;
            let next = draw(e, tile, total);
            Some((mailbox, phase, next))
        },
        |e, tile, drawn| {
            if let Some((mailbox, phase, next)) = drawn {
                post(e, mailbox, phase, next);
                e.push(Kind::Mov {
                    dst: tile,
                    src: next.into(),
                });
            } else {
                stride(e, tile);
            }
        },
    );
    if stamped {
        e.push(Kind::Label(end));
        e.stamps_end();
    }
    e.push(Kind::Bra(done));
}

/// Draws the next block from the counter; whoever draws last resets it for the next launch.
fn draw(e: &mut Emitter<'_>, _tile: Reg, total: Opd) -> Reg {
    let at = e.reg(Class::B64);
    e.push(Kind::LdParam {
        dst: at,
        param: "scratch".into(),
    });
    let global = e.reg(Class::B64);
    e.push(Kind::ToGlobal { dst: global, src: at });
    let addr = crate::ptx::Addr {
        base: global.into(),
        offset: 0,
    };
    let old = e.reg(Class::B32);
    e.push(Kind::AtomAdd {
        dst: old,
        at: addr,
        value: Opd::Int(1),
    });
    // Every block draws once, so the last draw of a launch sees `total - 1`.
    let next = e.int(IntOp::Add, old, 1u32);
    let last = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Eq,
        dst: last,
        a: next.into(),
        b: total,
    });
    e.push_if(
        last,
        true,
        Kind::StGlobal32 {
            at: addr,
            src: Opd::Int(0),
        },
    );
    let ctas = e.mov(Class::B32, Opd::Special(Special::NctaidX));
    e.int(IntOp::Add, old, ctas)
}

/// Hands a block number to the consumers.
fn post(e: &mut Emitter<'_>, m: Mailbox, phase: Reg, next: Reg) {
    e.note("post the next block");
    let empty = e.smem_at(m.empty);
    e.wait_mbar(empty, phase.into());
    e.push(Kind::Int {
        op: IntOp::Xor,
        wide: false,
        dst: phase,
        a: phase.into(),
        b: Opd::Int(1),
    });
    let (word, full) = (e.smem_at(m.word), e.smem_at(m.full));
    e.push(Kind::StShared32 { at: word, src: next });
    e.push(Kind::MbarArrive { at: full });
}

fn consumer(e: &mut Emitter<'_>, total: Opd) {
    e.note("consumers");
    e.push(Kind::SetMaxNReg {
        increase: true,
        count: e.p.consumer_registers,
    });
    e.tiles = vec![None; e.p.tiles.len()];
    rings(e, 0);
    if e.p.ping_pong {
        first_turn(e);
    }
    let body = e.p.consumer.clone();
    let mail = e.p.mailbox.map(|m| (m, e.mov(Class::B32, Opd::Int(0))));
    let end = e.label();
    walk(
        e,
        (total, end),
        &body,
        |_, _, _| None::<()>,
        |e, tile, _| match mail {
            Some((mailbox, phase)) => receive(e, mailbox, phase, tile),
            None => stride(e, tile),
        },
    );
    e.push(Kind::Label(end));
    e.push(Kind::BulkWait { pending: 0 });
    e.stamps_end();
}

/// The last consumer hands the first turn to consumer 0.
fn first_turn(e: &mut Emitter<'_>) {
    let p = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Eq,
        dst: p,
        a: e.at.group.into(),
        b: Opd::Int(i64::from(e.p.consumers)),
    });
    e.push_if(
        p,
        true,
        Kind::BarArrive {
            id: Opd::Int(Barrier::Turn.id()),
            threads: 256,
        },
    );
}

/// As [`receive`], for a role of one lane.
fn receive_alone(e: &mut Emitter<'_>, m: Mailbox, phase: Reg, tile: Reg) {
    let (full, word, empty) = (e.smem_at(m.full), e.smem_at(m.word), e.smem_at(m.empty));
    e.wait_mbar(full, phase.into());
    e.push(Kind::Int {
        op: IntOp::Xor,
        wide: false,
        dst: phase,
        a: phase.into(),
        b: Opd::Int(1),
    });
    e.push(Kind::LdShared32 { dst: tile, at: word });
    e.push(Kind::MbarArrive { at: empty });
}

fn receive(e: &mut Emitter<'_>, m: Mailbox, phase: Reg, tile: Reg) {
    e.note("receive the next block");
    let (full, word, empty) = (e.smem_at(m.full), e.smem_at(m.word), e.smem_at(m.empty));
    e.wait_mbar(full, phase.into());
    e.push(Kind::Int {
        op: IntOp::Xor,
        wide: false,
        dst: phase,
        a: phase.into(),
        b: Opd::Int(1),
    });
    let raw = e.reg(Class::B32);
    e.push(Kind::LdShared32 { dst: raw, at: word });
    e.push(Kind::ShflFirst { dst: tile, src: raw });
    let zero = e.at.lane_zero;
    e.push_if(zero, true, Kind::MbarArrive { at: empty });
}

fn stride(e: &mut Emitter<'_>, tile: Reg) {
    let ctas = e.mov(Class::B32, Opd::Special(Special::NctaidX));
    e.push(Kind::Int {
        op: IntOp::Add,
        wide: false,
        dst: tile,
        a: tile.into(),
        b: ctas.into(),
    });
}

/// `for block in ...`: decode, run, move on.
fn walk<T>(
    e: &mut Emitter<'_>,
    (total, end): (Opd, Label),
    body: &[Stmt],
    begin: impl FnOnce(&mut Emitter<'_>, Reg, Opd) -> Option<T>,
    next: impl FnOnce(&mut Emitter<'_>, Reg, Option<T>),
) {
    let tile = e.mov(Class::B32, Opd::Special(Special::CtaidX));
    let top = e.label();
    e.push(Kind::Label(top));
    let p = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Ge,
        dst: p,
        a: tile.into(),
        b: total,
    });
    e.push_if(p, true, Kind::Bra(end));
    let drawn = begin(e, tile, total);
    e.stamp_block(Edge::Begin);
    decode(e, tile);
    e.stmts(body);
    e.stamp_block(Edge::End);
    if e.p.grid.persistence == Persistence::None {
        e.push(Kind::Bra(end));
        return;
    }
    next(e, tile, drawn);
    e.push(Kind::Bra(top));
}

/// Block number to grid coordinates.
pub(crate) fn decode(e: &mut Emitter<'_>, tile: Reg) {
    e.note("coordinates of the block");
    let plan = e.p.grid.clone();
    let counts: Vec<Opd> = plan.axes.iter().map(|a| e.expr(&a.count)).collect();
    let Some(inner_count) = counts.get(plan.inner).copied() else {
        return;
    };
    let (inner, mut outer) = match plan.section {
        None => {
            let (outer, inner) = div_rem(e, tile, inner_count);
            (inner, outer)
        }
        Some(section) => sectioned(e, tile, &counts, plan.inner, section),
    };
    assign(e, plan.inner, inner, counts[plan.inner]);
    let others: Vec<usize> = (0..plan.axes.len()).filter(|i| *i != plan.inner).collect();
    for (k, axis) in others.iter().enumerate() {
        if k + 1 == others.len() {
            assign(e, *axis, outer, counts[*axis]);
            break;
        }
        let (up, own) = div_rem(e, outer, counts[*axis]);
        assign(e, *axis, own, counts[*axis]);
        outer = up;
    }
}

/// `a / b` and `a % b` of numbers that are not negative.
fn div_rem(e: &mut Emitter<'_>, a: Reg, b: impl Into<Opd>) -> (Reg, Reg) {
    let b = b.into();
    let quotient = e.int(IntOp::DivS, a, b);
    let whole = e.int(IntOp::MulLo, quotient, b);
    (quotient, e.int(IntOp::Sub, a, whole))
}

/// A section holds `section` blocks of the outer axes times the whole inner axis; the last one may be narrower.
fn sectioned(e: &mut Emitter<'_>, tile: Reg, counts: &[Opd], inner: usize, section: u32) -> (Reg, Reg) {
    let inner_count = counts[inner];
    let mut outer_count = Opd::Int(1);
    for (i, c) in counts.iter().enumerate() {
        if i != inner {
            outer_count = if outer_count == Opd::Int(1) {
                *c
            } else {
                e.int(IntOp::MulLo, outer_count, *c).into()
            };
        }
    }
    let outer_count = e.mov(Class::B32, outer_count);
    // Never wider than there is, so that its product with the inner axis is at most the number of blocks.
    let width = e.int(IntOp::MinS, outer_count, section);
    let per = e.int(IntOp::MulLo, width, inner_count);
    let (index, within) = div_rem(e, tile, per);
    let first = e.int(IntOp::MulLo, index, width);
    let left = e.int(IntOp::Sub, outer_count, first);
    let here = e.int(IntOp::MinS, width, left);
    let (inner, rest) = div_rem(e, within, here);
    (inner, e.int(IntOp::Add, first, rest))
}

fn assign(e: &mut Emitter<'_>, axis: usize, value: Reg, count: Opd) {
    let plan = &e.p.grid.axes[axis];
    let (var, descending) = (e.vars[plan.var.0 as usize], plan.descending);
    if descending {
        let last = e.mov(Class::B32, count);
        let last = e.int(IntOp::Sub, last, 1u32);
        e.push(Kind::Int {
            op: IntOp::Sub,
            wide: false,
            dst: var,
            a: last.into(),
            b: value.into(),
        });
    } else {
        e.push(Kind::Mov {
            dst: var,
            src: value.into(),
        });
    }
}

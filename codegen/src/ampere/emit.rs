//! Instruction selection: the frame of a kernel, its steps, and the ring of a fold.

use crate::emit::{Emitter, frame, params};
use crate::ptx::{Class, Cmp, IntOp, Kind, Label, Module, Opd, Reg, Special};

use super::copy::Copier;
use super::dot::Lanes;
use super::{Fold, Program, Step};

/// Selects instructions for a program.
#[must_use]
pub fn emit(program: &Program, header: Vec<String>, target: &'static str) -> Module {
    let mut e = Emitter::new(&program.shell);
    let done = e.label();
    thread(&mut e);
    frame::load_params(&mut e);
    block(&mut e, done);
    let tid = e.mov(Class::B32, Opd::Special(Special::TidX));
    let mut folds = 0;
    for step in &program.steps {
        match step {
            Step::Plain(stmt) => e.stmts(std::slice::from_ref(stmt)),
            Step::Store(store) => e.store_matrix(store),
            Step::Fold(f) => {
                if folds > 0 {
                    // The last slots of the fold before are still being read.
                    e.push(Kind::CtaSync);
                }
                folds += 1;
                Ring {
                    fold: f,
                    tid,
                    threads: program.threads(),
                }
                .emit(&mut e);
            }
        }
    }
    e.push(Kind::Label(done));
    e.push(Kind::Ret);
    let shell = &program.shell;
    let registers = [Class::Pred, Class::B32, Class::B64, Class::F32]
        .iter()
        .map(|c| (*c, e.counts[*c as usize].max(1)))
        .collect();
    Module {
        header,
        target,
        entry: shell.name.clone(),
        params: params(shell),
        threads: program.threads(),
        registers,
        files: e.files,
        body: e.body,
    }
}

/// Where a thread stands; warp and warpgroup are broadcast so that the assembler knows them to be uniform.
fn thread(e: &mut Emitter<'_>) {
    e.note("threads and warps");
    let tid = e.mov(Class::B32, Opd::Special(Special::TidX));
    let smem = e.mov(Class::B32, Opd::Smem);
    let uniform = |e: &mut Emitter<'_>, shift: u32, mask: u32| {
        let own = e.int(IntOp::ShrU, tid, shift);
        let own = e.int(IntOp::And, own, mask);
        let dst = e.reg(Class::B32);
        e.push(Kind::ShflFirst { dst, src: own });
        dst
    };
    let (consumer, warp) = (uniform(e, 7, 7), uniform(e, 5, 3));
    let lane = e.int(IntOp::And, tid, 31u32);
    let quad = e.int(IntOp::ShrU, lane, 2u32);
    let row = e.mad(warp, 16u32, quad);
    let row = e.mad(consumer, e.p.rows_per_consumer, row);
    let col = e.int(IntOp::And, lane, 3u32);
    let col = e.int(IntOp::Shl, col, 1u32);
    let at = &mut e.at;
    (at.smem, at.group, at.consumer, at.warp, at.lane, at.row, at.col) =
        (smem, consumer, consumer, warp, lane, row, col);
}

/// This CTA's block; spare CTAs leave.
fn block(e: &mut Emitter<'_>, done: Label) {
    let total = frame::total(e);
    let tile = e.mov(Class::B32, Opd::Special(Special::CtaidX));
    let p = e.reg(Class::Pred);
    e.push(Kind::SetpI {
        cmp: Cmp::Ge,
        dst: p,
        a: tile.into(),
        b: total,
    });
    e.push_if(p, true, Kind::Bra(done));
    frame::decode(e, tile);
}

/// One fold being emitted.
struct Ring<'f> {
    fold: &'f Fold,
    tid: Reg,
    threads: u32,
}

/// Run-time state of the ring.
struct State {
    trips: Reg,
    /// Trips whose copies have been issued.
    issued: Reg,
    /// Slot that the next copies go to.
    fill: Reg,
}

impl Ring<'_> {
    fn emit(&self, e: &mut Emitter<'_>) {
        let f = self.fold;
        e.locate_name(&f.name);
        e.note(format!("loop {}", f.name));
        let trips = e.expr(&f.trips);
        let trips = e.mov(Class::B32, trips);
        let copiers: Vec<Copier> = f.copies.iter().map(|c| e.copier(c, self.tid, self.threads)).collect();
        let lanes: Vec<Lanes> = f.dots.iter().map(|d| e.dot_lanes(d, &f.copies)).collect();
        let s = State {
            trips,
            issued: e.mov(Class::B32, Opd::Int(0)),
            fill: e.mov(Class::B32, Opd::Int(0)),
        };
        for _ in 1..f.stages {
            self.issue(e, &s, &copiers);
        }
        let (read, ran) = (e.mov(Class::B32, Opd::Int(0)), e.mov(Class::B32, Opd::Int(0)));
        let (top, end) = (e.label(), e.label());
        let none = e.reg(Class::Pred);
        e.push(Kind::SetpI {
            cmp: Cmp::Le,
            dst: none,
            a: trips.into(),
            b: Opd::Int(0),
        });
        e.push_if(none, true, Kind::Bra(end));
        e.push(Kind::Label(top));
        e.note("this trip's tiles have landed for every thread, and the slot of the trip before is free");
        e.push(Kind::CpAsyncWait { pending: f.stages - 2 });
        e.push(Kind::CtaSync);
        self.issue(e, &s, &copiers);
        for (dot, lanes) in f.dots.iter().zip(&lanes) {
            e.dot_sync(dot, lanes, &f.copies, read);
        }
        self.advance(e, read);
        e.push(Kind::Int {
            op: IntOp::Add,
            wide: false,
            dst: ran,
            a: ran.into(),
            b: Opd::Int(1),
        });
        let more = e.reg(Class::Pred);
        e.push(Kind::SetpI {
            cmp: Cmp::Lt,
            dst: more,
            a: ran.into(),
            b: trips.into(),
        });
        e.push_if(more, true, Kind::Bra(top));
        e.push(Kind::Label(end));
        e.push(Kind::CpAsyncWait { pending: 0 });
        e.note(format!("end {}", f.name));
    }

    /// Copies the next trip's tiles, if there is one; the group is closed either way, so that waits can count.
    fn issue(&self, e: &mut Emitter<'_>, s: &State, copiers: &[Copier]) {
        let (skip, over) = (e.label(), e.reg(Class::Pred));
        e.push(Kind::SetpI {
            cmp: Cmp::Ge,
            dst: over,
            a: s.issued.into(),
            b: s.trips.into(),
        });
        e.push_if(over, true, Kind::Bra(skip));
        let ahead = e.vars[self.fold.ahead.0 as usize];
        if self.fold.descending {
            let last = e.int(IntOp::Sub, s.trips, 1u32);
            e.push(Kind::Int {
                op: IntOp::Sub,
                wide: false,
                dst: ahead,
                a: last.into(),
                b: s.issued.into(),
            });
        } else {
            e.push(Kind::Mov {
                dst: ahead,
                src: s.issued.into(),
            });
        }
        for (copy, copier) in self.fold.copies.iter().zip(copiers) {
            e.copy_tile(copy, copier, s.fill);
        }
        e.push(Kind::Label(skip));
        e.push(Kind::CpAsyncCommit);
        e.push(Kind::Int {
            op: IntOp::Add,
            wide: false,
            dst: s.issued,
            a: s.issued.into(),
            b: Opd::Int(1),
        });
        self.advance(e, s.fill);
    }

    fn advance(&self, e: &mut Emitter<'_>, slot: Reg) {
        e.push(Kind::Int {
            op: IntOp::Add,
            wide: false,
            dst: slot,
            a: slot.into(),
            b: Opd::Int(1),
        });
        let wrap = e.reg(Class::Pred);
        e.push(Kind::SetpI {
            cmp: Cmp::Eq,
            dst: wrap,
            a: slot.into(),
            b: self.fold.stages.into(),
        });
        e.push_if(
            wrap,
            true,
            Kind::Mov {
                dst: slot,
                src: Opd::Int(0),
            },
        );
    }
}

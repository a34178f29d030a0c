//! Statements of a role: one arm each.

use crate::ptx::{Addr, Class, Cmp, IntOp, Kind, Opd, Reg};
use crate::role::{Expr, HandleId, RingId, Stmt};

use super::Emitter;
use super::frame::Barrier;

impl Emitter<'_> {
    pub fn stmts(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            self.stmt(s);
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        self.locate(s);
        match s {
            Stmt::Note(text) => self.note(text.clone()),
            Stmt::Set { var, value } => {
                let src = self.expr(value);
                let dst = self.vars[var.0 as usize];
                self.push(Kind::Mov { dst, src });
            }
            Stmt::Loop {
                name,
                count,
                unroll,
                body,
            } => self.repeat(name, count, *unroll, body),
            Stmt::Fill { ring, load } => self.fill(*ring, load),
            Stmt::Acquire { ring, handle, .. } => self.acquire(*ring, *handle),
            Stmt::Release { ring, handle } => self.release(*ring, *handle),
            Stmt::Fence => self.push(Kind::WgmmaFence),
            Stmt::Issue(dot) => self.issue(dot),
            Stmt::Wait { pending } => self.push(Kind::WgmmaWait { pending: *pending }),
            Stmt::Calc { dst, calc } => self.calc(*dst, calc),
            Stmt::Repair { check, limit, body } => self.repair(*check, *limit, body),
            Stmt::WarpDot {
                acc,
                a,
                b,
                rows,
                cols,
                depth,
                dtype,
            } => self.warp_dot(*acc, (a, b), [*rows, *cols, *depth], *dtype),
            Stmt::ReadShared { dst, handle, tile } => self.read_shared(*dst, *handle, *tile),
            Stmt::ReadGlobal { dst, at } => self.read_global(*dst, at),
            Stmt::WriteGlobal { src, at } => self.write_global(*src, at),
            Stmt::StagingFree => self.staging_free(),
            Stmt::Stage { src, place, tile } => self.stage(*src, *place, *tile),
            Stmt::StagedVisible => {
                self.push(Kind::FenceProxyAsync);
                self.group_barrier();
            }
            Stmt::ConsumersMeet => {
                let id = Opd::Int(Barrier::Consumers.id());
                self.push(Kind::BarSync {
                    id,
                    threads: 128 * self.p.consumers,
                });
            }
            Stmt::StoreStaged {
                map,
                place,
                tile,
                coords,
                name,
            } => {
                self.note(format!("store {name}"));
                self.store_staged(*map, *place, *tile, coords);
            }
            Stmt::TurnWait => {
                let id = self.int(IntOp::Add, self.at.consumer, Barrier::Turn.id());
                self.push(Kind::BarSync {
                    id: id.into(),
                    threads: 256,
                });
            }
            Stmt::TurnPass => self.turn_pass(),
        }
    }

    /// A vote sends the whole warp, so that its synchronous dot is converged.
    fn repair(&mut self, check: crate::role::RegTileId, limit: f32, body: &[Stmt]) {
        let (first, rows) = (self.tile(check), self.p.tiles[check.0 as usize].layout.registers());
        let above: Vec<Reg> = (0..rows)
            .map(|r| {
                let p = self.reg(Class::Pred);
                self.push(Kind::SetpF {
                    cmp: Cmp::Gtu,
                    dst: p,
                    a: super::nth(first, r).into(),
                    b: Opd::Float(limit),
                });
                p
            })
            .collect();
        let skip = self.label();
        let any = self.vote_any(&above);
        self.push_if(any, false, Kind::Bra(skip));
        self.note("repair");
        self.stmts(body);
        self.push(Kind::Label(skip));
    }

    /// Whether any predicate holds in any lane of the warp.
    pub fn vote_any(&mut self, preds: &[Reg]) -> Reg {
        let mut all = None;
        for p in preds {
            all = Some(match all {
                None => *p,
                Some(q) => {
                    let either = self.reg(Class::Pred);
                    self.push(Kind::PredOr {
                        dst: either,
                        a: *p,
                        b: q,
                    });
                    either
                }
            });
        }
        let any = self.reg(Class::Pred);
        if let Some(src) = all {
            self.push(Kind::VoteAny { dst: any, src });
        }
        any
    }

    fn turn_pass(&mut self) {
        let next = self.int(IntOp::Add, self.at.consumer, 1u32);
        let wrap = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Eq,
            dst: wrap,
            a: next.into(),
            b: Opd::Int(i64::from(self.p.consumers)),
        });
        self.push_if(
            wrap,
            true,
            Kind::Mov {
                dst: next,
                src: Opd::Int(0),
            },
        );
        let id = self.int(IntOp::Add, next, Barrier::Turn.id());
        self.push(Kind::BarArrive {
            id: id.into(),
            threads: 256,
        });
    }

    fn repeat(&mut self, name: &str, count: &Expr, unroll: u32, body: &[Stmt]) {
        self.note(format!("loop {name}"));
        let count = self.expr(count);
        let left = self.mov(Class::B32, count);
        if unroll > 1 {
            self.counted(left, unroll, body);
        }
        self.counted(left, 1, body);
        self.note(format!("end {name}"));
    }

    /// `while left >= step { body x step; left -= step }`, tested at the bottom.
    fn counted(&mut self, left: Reg, step: u32, body: &[Stmt]) {
        let (top, end) = (self.label(), self.label());
        let p = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Lt,
            dst: p,
            a: left.into(),
            b: step.into(),
        });
        self.push_if(p, true, Kind::Bra(end));
        self.push(Kind::Label(top));
        for _ in 0..step {
            self.stmts(body);
        }
        self.push(Kind::Int {
            op: IntOp::Sub,
            wide: false,
            dst: left,
            a: left.into(),
            b: step.into(),
        });
        let p = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Ge,
            dst: p,
            a: left.into(),
            b: step.into(),
        });
        self.push_if(p, true, Kind::Bra(top));
        self.push(Kind::Label(end));
    }

    /// A shared-memory address at a constant offset.
    pub fn smem_at(&self, offset: u32) -> Addr {
        Addr {
            base: self.at.smem.into(),
            offset: i64::from(offset),
        }
    }

    /// Spins until the phase of a barrier has passed.
    pub fn wait_mbar(&mut self, at: Addr, parity: Opd) {
        let (top, done) = (self.label(), self.reg(Class::Pred));
        self.push(Kind::Label(top));
        self.push(Kind::MbarTryWait { done, at, parity });
        self.push_if(done, false, Kind::Bra(top));
    }

    /// Address of the barrier at `offset` for the slot in `slot`.
    pub fn slot_bar(&mut self, slot: Option<Reg>, offset: u32) -> Addr {
        match slot {
            None => self.smem_at(offset),
            Some(slot) => {
                let base = self.mad(slot, 8u32, self.at.smem);
                Addr {
                    base: base.into(),
                    offset: i64::from(offset),
                }
            }
        }
    }

    /// Moves a ring on by one slot.
    pub fn advance(&mut self, ring: RingId) {
        let state = self.rings[ring.0 as usize];
        let flip = Kind::Int {
            op: IntOp::Xor,
            wide: false,
            dst: state.phase,
            a: state.phase.into(),
            b: Opd::Int(1),
        };
        let Some(slot) = state.slot else {
            self.push(flip);
            return;
        };
        let stages = self.p.rings[ring.0 as usize].stages;
        self.push(Kind::Int {
            op: IntOp::Add,
            wide: false,
            dst: slot,
            a: slot.into(),
            b: Opd::Int(1),
        });
        let wrap = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Eq,
            dst: wrap,
            a: slot.into(),
            b: stages.into(),
        });
        self.push_if(
            wrap,
            true,
            Kind::Mov {
                dst: slot,
                src: Opd::Int(0),
            },
        );
        self.push_if(wrap, true, flip);
    }

    fn acquire(&mut self, ring: RingId, handle: crate::role::HandleId) {
        let state = self.rings[ring.0 as usize];
        let full = self.p.rings[ring.0 as usize].full;
        let name = &self.p.handles[handle.0 as usize].0;
        self.body.push(crate::ptx::Inst {
            guard: None,
            kind: Kind::Comment(format!("acquire {name}")),
        });
        let bar = self.slot_bar(state.slot, full);
        self.wait_mbar(bar, state.phase.into());
        if let Some(slot) = state.slot {
            let held = self.handles[handle.0 as usize].unwrap_or_else(|| {
                let n = &mut self.counts[Class::B32 as usize];
                *n += 1;
                Reg {
                    class: Class::B32,
                    number: *n - 1,
                }
            });
            self.handles[handle.0 as usize] = Some(held);
            self.push(Kind::Mov {
                dst: held,
                src: slot.into(),
            });
        }
        self.advance(ring);
    }

    fn release(&mut self, ring: RingId, handle: crate::role::HandleId) {
        let name = self.p.handles[handle.0 as usize].0.clone();
        self.note(format!("release {name}"));
        let empty = self.p.rings[ring.0 as usize].empty;
        let bar = self.slot_bar(self.handles[handle.0 as usize], empty);
        if reads_by_lane(&self.p.consumer, handle) {
            // One lane arrives for all: their reads come before it only across a barrier of the warp.
            self.push(Kind::WarpSync);
        }
        let zero = self.at.lane_zero;
        self.push_if(zero, true, Kind::MbarArrive { at: bar });
    }
}

/// Whether the lanes of a consumer warp read the slot of a handle one by one; reads by tensor-core products are the warp's.
fn reads_by_lane(stmts: &[Stmt], handle: HandleId) -> bool {
    stmts.iter().any(|s| match s {
        Stmt::ReadShared { handle: read, .. } => *read == handle,
        Stmt::Loop { body, .. } | Stmt::Repair { body, .. } => reads_by_lane(body, handle),
        _ => false,
    })
}

//! Folds: pipelined trips, split by mask, over both directions.
//!
//! With a value at stage 1 the emitted trips are: one with stage 0 alone, loops of both stages (stage 1 belongs to the trip
//! before), and one with stage 1 alone. Every loop leaves no tensor-core group in flight at its back edge.

use std::collections::BTreeMap;

use dsl::index::Ix;
use dsl::ir::{CarryKind, Fold, Op, ValueId};
use dsl::schedule::{Direction, Placement, Release, Split};

use crate::error::{CompileError, Refusal};
use crate::plan::{FoldChoice, Staging};
use crate::role::{Calc, Expr, Layout, Src, Stmt, VarId};

use super::trip_plan::{Trip, TripPlan};
use super::{Lower, Sink, calc, mask, stays_partial};

/// A fold being walked: its choices, variables and the two forms of its trips.
struct Walk<'w> {
    f: &'w Fold,
    choice: &'w FoldChoice,
    vars: &'w Vars,
    /// Masked trips, and the first one.
    guarded: &'w TripPlan,
    unmasked: &'w TripPlan,
    /// Whether the first trip is emitted apart.
    peeled: bool,
}

/// One loop of a fold.
struct Part {
    name: &'static str,
    count: Expr,
    masked: bool,
}

/// The variables of one fold.
struct Vars {
    trips: VarId,
    now: VarId,
    before: VarId,
    ahead: VarId,
    middle: VarId,
}

impl Lower<'_> {
    pub(super) fn fold(&mut self, id: ValueId, f: &Fold, sink: &mut Sink) -> Result<(), CompileError> {
        let choice = self.scheduled.choices.folds[&id].clone();
        self.carries(f, &mut sink.now)?;
        let plan = TripPlan::new(self, id, f, &choice, None)?;
        let fixed = self.scheduled.fixed.get(&id).copied();
        let fast = fixed
            .map(|x| TripPlan::new(self, id, f, &choice, Some(x)))
            .transpose()?;
        if let Some(fast) = &fast {
            plan.agree(fast, self.kernel, f)?;
        }
        self.persist(&plan)?;
        let vars = self.fold_vars(f);
        self.acquire_outer(f, &mut sink.now);
        self.start(f, &choice, &vars, &mut sink.now);
        let pipelined = plan.pipelined();
        // A fixed reference needs a first trip that sets it.
        let peeled = pipelined || fast.is_some() || choice.peel;
        if choice.narrow && !(peeled && self.narrows(&plan)) {
            return Err(Self::narrow_refusal(&f.name, peeled).into());
        }
        if peeled {
            sink.now.push(Stmt::Note(format!("{}: first trip", f.name)));
            self.trip(
                &plan,
                Trip {
                    stages: [true, !pipelined],
                    masked: true,
                    turns: false,
                    last: false,
                    narrow: choice.narrow,
                },
                sink,
            )?;
            step(&choice, &vars, &mut sink.now);
        }
        let unmasked = fast.as_ref().unwrap_or(&plan);
        let walk = Walk {
            f,
            choice: &choice,
            vars: &vars,
            guarded: &plan,
            unmasked,
            peeled,
        };
        self.loops(&walk, sink)?;
        self.release_outer(id, &walk, true, sink);
        if pipelined {
            sink.now.push(Stmt::Note(format!("{}: last trip, stage 1", f.name)));
            self.trip(
                &plan,
                Trip {
                    stages: [false, true],
                    masked: true,
                    turns: false,
                    last: true,
                    narrow: false,
                },
                sink,
            )?;
        }
        self.release_outer(id, &walk, false, sink);
        Ok(())
    }

    /// Registers of the carried values, at their initial values.
    fn carries(&mut self, f: &Fold, out: &mut Vec<Stmt>) -> Result<(), CompileError> {
        for c in &f.carries {
            if let Some(contribution) = stays_partial(self, f, &c.kind) {
                self.partial.insert(contribution);
                self.partial.insert(c.arg);
            }
            let layout = self.layout_of(c.arg)?;
            let reg = self.reg(&c.name, layout);
            self.regs.insert(c.arg, reg);
            calc(out, reg, Calc::Copy(Src::Const(c.init)));
        }
        Ok(())
    }

    /// Registers of the values that cross from one trip to the next.
    fn persist(&mut self, plan: &TripPlan) -> Result<(), CompileError> {
        for id in plan.crossing() {
            if self.operand_buffers.contains_key(&id) {
                continue;
            }
            let layout = self.layout_of(id)?;
            let reg = self.reg(&self.kernel.label(id), layout);
            self.regs.insert(id, reg);
        }
        Ok(())
    }

    fn fold_vars(&mut self, f: &Fold) -> Vars {
        let mut var = |what: &str| self.var(&format!("{}_{what}", f.name));
        let vars = Vars {
            trips: var("trips"),
            now: var("now"),
            before: var("before"),
            ahead: var("ahead"),
            middle: var("middle"),
        };
        self.iters.insert((f.iter, 0), vars.now);
        self.iters.insert((f.iter, 1), vars.before);
        vars
    }

    /// Trip count, first trip, and how many trips each loop has.
    fn start(&mut self, f: &Fold, choice: &FoldChoice, vars: &Vars, out: &mut Vec<Stmt>) {
        let trips = self.expr(&f.trips, 0);
        out.push(Stmt::Set {
            var: vars.trips,
            value: trips,
        });
        let first = match choice.direction {
            Direction::Ascending => Expr::Const(0),
            Direction::Descending => sub(Expr::Var(vars.trips), Expr::Const(1)),
        };
        out.push(Stmt::Set {
            var: vars.now,
            value: first,
        });
        out.push(Stmt::Set {
            var: vars.before,
            value: Expr::Var(vars.now),
        });
    }

    /// The loops after the first trip, split by where the masks are vacuous.
    fn loops(&mut self, w: &Walk<'_>, sink: &mut Sink) -> Result<(), CompileError> {
        let interval = if w.choice.split == Split::ByMask {
            mask::vacuous(self.kernel, w.f)
        } else {
            None
        };
        let Some(interval) = interval.filter(|i| i.low.is_some() || i.high.is_some()) else {
            let masked = w.f.body.iter().any(|v| matches!(self.kernel.op(*v), Op::Mask { .. }));
            if masked && w.unmasked.fixed.is_some() {
                return Err(never_fixed(&w.f.name).into());
            }
            let count = sub(Expr::Var(w.vars.trips), Expr::Const(i64::from(w.peeled)));
            return self.one_loop(
                w,
                Part {
                    name: "",
                    count,
                    masked,
                },
                sink,
            );
        };
        let has_low = interval.low.is_some();
        let rest = self.split(w, interval, &mut sink.now);
        self.one_loop(
            w,
            Part {
                name: "masked",
                count: Expr::Var(w.vars.ahead),
                masked: true,
            },
            sink,
        )?;
        self.one_loop(
            w,
            Part {
                name: "unmasked",
                count: Expr::Var(w.vars.middle),
                masked: false,
            },
            sink,
        )?;
        if has_low || w.choice.direction == Direction::Ascending {
            self.one_loop(
                w,
                Part {
                    name: "masked_rest",
                    count: rest,
                    masked: true,
                },
                sink,
            )?;
        }
        Ok(())
    }

    /// Trip counts of the masked loop ahead and the unmasked one; returns what is left for the last.
    fn split(&mut self, w: &Walk<'_>, interval: mask::Vacuous, out: &mut Vec<Stmt>) -> Expr {
        let (n, peeled) = (Expr::Var(w.vars.trips), Expr::Const(i64::from(w.peeled)));
        let left = sub(n.clone(), peeled.clone());
        let high = interval.high.map_or(n.clone(), |h| min(self.expr(&h, 0), n.clone()));
        let high = max(high, Expr::Const(0));
        let low = max(self.expr(&interval.low.unwrap_or(Ix::from(0)), 0), Expr::Const(0));
        // Masked trips before the vacuous interval, in walking order; the peeled trip is one of them, if there are any.
        let before = match w.choice.direction {
            Direction::Descending => sub(n, high.clone()),
            Direction::Ascending => min(low.clone(), n),
        };
        let from_middle = max(sub(peeled.clone(), before.clone()), Expr::Const(0));
        let (ahead, middle) = (Expr::Var(w.vars.ahead), Expr::Var(w.vars.middle));
        out.push(Stmt::Set {
            var: w.vars.ahead,
            value: max(sub(before, peeled), Expr::Const(0)),
        });
        let inside = max(sub(sub(high, low), from_middle), Expr::Const(0));
        out.push(Stmt::Set {
            var: w.vars.middle,
            value: min(inside, sub(left.clone(), ahead.clone())),
        });
        sub(sub(left, ahead), middle)
    }

    fn one_loop(&mut self, w: &Walk<'_>, part: Part, sink: &mut Sink) -> Result<(), CompileError> {
        let form = if part.masked { w.guarded } else { w.unmasked };
        let mut inner = Sink {
            now: vec![],
            late: std::mem::take(&mut sink.late),
        };
        let trip = Trip {
            stages: [true, true],
            masked: part.masked,
            turns: self.program.ping_pong,
            last: false,
            narrow: false,
        };
        self.trip(form, trip, &mut inner)?;
        step(w.choice, w.vars, &mut inner.now);
        sink.late = inner.late;
        let name = if part.name.is_empty() {
            w.f.name.clone()
        } else {
            format!("{}.{}", w.f.name, part.name)
        };
        sink.now.push(Stmt::Loop {
            name,
            count: part.count,
            unroll: w.choice.unroll,
            body: inner.now,
        });
        Ok(())
    }

    /// Loads outside the fold that its body reads: waited for before the first trip.
    fn acquire_outer(&mut self, f: &Fold, out: &mut Vec<Stmt>) {
        for load in self.outer(f) {
            let already = out
                .iter()
                .any(|s| matches!(s, Stmt::Acquire { handle, .. } if *handle == self.handles[&load]));
            if !already {
                out.push(self.acquire(load, 0));
                self.read_into_registers(load, out);
            }
        }
    }

    /// An outer left operand that the schedule puts into registers is read once, and its slot handed back.
    fn read_into_registers(&mut self, load: ValueId, out: &mut Vec<Stmt>) {
        if self.scheduled.choices.operands.get(&load) != Some(&Placement::Registers) {
            return;
        }
        let tile = self.loads[&load].tile;
        let layout = Layout::Packed {
            slabs: self.slabs(),
            cols: tile.cols,
            dtype: self.kernel.value(load).ty.dtype,
        };
        let (dst, handle) = (
            self.reg(&format!("{}.registers", self.kernel.label(load)), layout),
            self.handles[&load],
        );
        self.regs.insert(load, dst);
        out.push(Stmt::ReadShared { dst, handle, tile });
    }

    fn outer(&self, f: &Fold) -> Vec<ValueId> {
        let mut out = vec![];
        for id in &f.body {
            for operand in self.kernel.op(*id).operands() {
                if self.loads.contains_key(&operand) && !f.body.contains(&operand) && !out.contains(&operand) {
                    out.push(operand);
                }
            }
        }
        out
    }

    /// Hands outer loads back once their last reader is done; `early` is the point before the last stage-1 trip.
    fn release_outer(&mut self, id: ValueId, w: &Walk<'_>, early: bool, sink: &mut Sink) {
        for load in self.outer(w.f) {
            let last = self.last_reader(load);
            if last != Some(id) {
                continue;
            }
            let stage_one = w.guarded.read_at_stage_one(self.kernel, load);
            if early == stage_one {
                continue;
            }
            let staged_over = self
                .scheduled
                .choices
                .stores
                .values()
                .any(|s| *s == Staging::Over(load));
            let held = staged_over || self.scheduled.choices.loads[&load].release == Release::Late;
            let handle = self.handles[&load];
            let release = Stmt::Release {
                ring: self.program.handles[handle.0 as usize].1,
                handle,
            };
            if held {
                sink.late.push(release)
            } else {
                sink.now.push(release)
            }
        }
    }

    /// The last value of the kernel's body (a fold counts as one) that reads `load`.
    pub(super) fn last_reader(&self, load: ValueId) -> Option<ValueId> {
        let reads = |id: &ValueId| match self.kernel.op(*id) {
            Op::Fold(f) => f.body.iter().any(|v| self.kernel.op(*v).operands().contains(&load)),
            op => op.operands().contains(&load),
        };
        self.kernel.body.iter().rev().find(|id| reads(id)).copied()
    }

    /// The acquire of a load, with coordinates of the trip at `stage`.
    pub(super) fn acquire(&self, load: ValueId, stage: u32) -> Stmt {
        let mut l = self.loads[&load].clone();
        if let Op::Load { at, .. } = self.kernel.op(load) {
            l.coords = self.coords(at, stage);
        }
        let handle = self.handles[&load];
        Stmt::Acquire {
            ring: self.program.handles[handle.0 as usize].1,
            handle,
            load: l,
        }
    }

    /// The factor by which a sum follows the reference.
    pub(super) fn factor_of(&self, fold: ValueId, kind: &CarryKind) -> Option<ValueId> {
        match kind {
            CarryKind::Sum { rescaled: true, .. } => self.scheduled.factors.get(&fold).copied(),
            _ => None,
        }
    }
}

fn never_fixed(fold: &str) -> Refusal {
    let key = format!("folds.{fold}.rescale");
    let fact = "every trip applies masks here, and those take the reference of lazy";
    Refusal::new(
        key,
        "fixed",
        fact,
        "exact, lazy, or split = \"by-mask\" where it is possible",
    )
}

fn min(a: Expr, b: Expr) -> Expr {
    Expr::bin(dsl::IxBin::Min, a, b)
}

fn max(a: Expr, b: Expr) -> Expr {
    Expr::bin(dsl::IxBin::Max, a, b)
}

fn sub(a: Expr, b: Expr) -> Expr {
    Expr::bin(dsl::IxBin::Sub, a, b)
}

/// Moves on to the next trip.
fn step(choice: &FoldChoice, vars: &Vars, out: &mut Vec<Stmt>) {
    out.push(Stmt::Set {
        var: vars.before,
        value: Expr::Var(vars.now),
    });
    let op = match choice.direction {
        Direction::Ascending => dsl::IxBin::Add,
        Direction::Descending => dsl::IxBin::Sub,
    };
    out.push(Stmt::Set {
        var: vars.now,
        value: Expr::bin(op, Expr::Var(vars.now), Expr::Const(1)),
    });
}

/// The registers a trip has computed so far.
pub type Local = BTreeMap<ValueId, crate::role::RegTileId>;

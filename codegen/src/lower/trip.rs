//! One trip of a fold: a list scheduler over dots, calculations and carries.
//!
//! Dots are issued as soon as their operands are there (earlier stages first), or where the schedule's order says;
//! calculations follow as soon as nothing in flight stands in their way; waits appear where a dependence needs them.

use std::collections::BTreeSet;

use dsl::Kernel;
use dsl::ir::{BinaryOp, Op, Shape, ValueId};
use dsl::schedule::Release;

use crate::error::{CompileError, Refusal};
use crate::plan::Staging;
use crate::plan::about::told;
use crate::role::{Calc, Place, Src, Stmt};

use super::fold::Local;
use super::store::StoreOf;
use super::trip_plan::{Event, Node, Trip, TripPlan, Work};
use super::{Form, Lower, Sink, calc, to_u32};

/// The state of one trip while it is emitted.
pub(super) struct State<'p> {
    pub(super) plan: &'p TripPlan,
    pub(super) trip: Trip,
    done: BTreeSet<usize>,
    retired: BTreeSet<usize>,
    pub(super) in_flight: Vec<usize>,
    pub(super) held: Vec<ValueId>,
    pub(super) local: Local,
    pub(super) turn: Turn,
    pub(super) out: Vec<Stmt>,
    /// Releases that wait for the end of the block.
    late: Vec<Stmt>,
}

#[derive(PartialEq)]
pub(super) enum Turn {
    NotYet,
    Mine,
    Passed,
}

impl Lower<'_> {
    /// Emits one trip.
    pub(super) fn trip(&mut self, plan: &TripPlan, trip: Trip, sink: &mut Sink) -> Result<(), CompileError> {
        let mut s = State {
            plan,
            trip,
            done: BTreeSet::new(),
            retired: BTreeSet::new(),
            in_flight: vec![],
            held: vec![],
            local: Local::new(),
            turn: Turn::NotYet,
            out: vec![],
            late: vec![],
        };
        for event in &plan.order {
            match event {
                Event::Run(n) if s.active(*n) => self.force(&mut s, *n, 0)?,
                Event::Wait(n) if s.in_flight.contains(n) => self.wait_for(&mut s, *n),
                _ => {}
            }
            while let Some(n) = s.free(true, |n| self.lent(&s, n).is_none()) {
                self.run(&mut s, n)?;
            }
        }
        loop {
            while let Some(n) = s.free(false, |n| self.lent(&s, n).is_none()) {
                self.run(&mut s, n)?;
            }
            let Some(oldest) = s.in_flight.first().copied() else {
                break;
            };
            if s.pending().next().is_none() && s.in_flight.len() > 1 {
                let last = s.in_flight[s.in_flight.len() - 1];
                self.wait_for(&mut s, last);
            } else {
                self.wait_for(&mut s, oldest);
            }
        }
        if let Some(stuck) = s.pending().next() {
            let why = [
                "its dependences form a cycle within a trip",
                "stages in which readers follow writers",
            ];
            return Err(self.cycle(plan, stuck, "stages", why).into());
        }
        if s.turn == Turn::Mine {
            s.out.push(Stmt::TurnPass);
        }
        self.release_held(&mut s, true);
        sink.late.append(&mut s.late);
        sink.now.append(&mut s.out);
        Ok(())
    }

    /// Runs a node now, whatever must come first.
    fn force(&mut self, s: &mut State<'_>, n: usize, depth: u32) -> Result<(), CompileError> {
        if s.done.contains(&n) {
            return Ok(());
        }
        if depth > 10_000 {
            let why = ["its dependences form a cycle within a trip", "another order"];
            return Err(self.cycle(s.plan, n, "order", why).into());
        }
        for before in s.plan.nodes[n].after.clone() {
            if s.active(before) {
                self.force(s, before, depth + 1)?;
                if s.in_flight.contains(&before) {
                    self.wait_for(s, before);
                }
            }
        }
        if let Some(reader) = self.lent(s, n) {
            self.wait_for(s, reader);
        }
        self.run(s, n)
    }

    /// The last dot in flight whose left operand lies in registers that node `n` reads: they are the tensor core's until
    /// it is done, for reading too (PTX ISA 9.7.15.5).
    fn lent(&self, s: &State<'_>, n: usize) -> Option<usize> {
        let node = &s.plan.nodes[n];
        if matches!(node.work, Work::Dot { .. }) {
            return None;
        }
        let reads = s.plan.reads(self.kernel, node);
        let in_registers = |v: &ValueId| !self.loads.contains_key(v) && !self.operand_buffers.contains_key(v);
        let holds = |dot: &usize| match self.kernel.op(s.plan.nodes[*dot].id) {
            Op::Dot { a, .. } => reads.contains(&a.value) && in_registers(&a.value),
            _ => false,
        };
        s.in_flight.iter().rev().copied().find(|dot| holds(dot))
    }

    fn cycle(&self, plan: &TripPlan, n: usize, key: &str, why: [&str; 2]) -> Refusal {
        let (node, fold) = (&plan.nodes[n], self.kernel.fold(plan.fold));
        let fold = fold.map_or("", |f| f.name.as_str());
        let asked = if node.name.starts_with('%') {
            format!("{} where it stands", told(self.kernel, node.id))
        } else {
            format!("`{}` where it stands", node.name)
        };
        self.scheduled
            .refuse(node.id, format!("folds.{fold}.{key}"), asked, why)
    }

    pub(super) fn wait_for(&mut self, s: &mut State<'_>, n: usize) {
        let Some(at) = s.in_flight.iter().position(|x| *x == n) else {
            return;
        };
        s.out.push(Stmt::Wait {
            pending: to_u32(s.in_flight.len() - at - 1),
        });
        s.retired.extend(s.in_flight.drain(..=at));
        self.release_held(s, false);
    }

    /// Hands back the slots whose readers are all retired.
    fn release_held(&self, s: &mut State<'_>, end: bool) {
        let mut kept = vec![];
        for load in std::mem::take(&mut s.held) {
            let open = s.plan.nodes.iter().enumerate().any(|(i, n)| {
                s.active(i)
                    && self.kernel.op(n.id).operands().contains(&load)
                    && matches!(n.work, Work::Dot { .. })
                    && !s.retired.contains(&i)
            });
            let open = open || s.repair_reads(self.kernel, load);
            let early = self.scheduled.choices.loads[&load].release == Release::Early;
            if !open && (early || end) {
                let handle = self.handles[&load];
                let release = Stmt::Release {
                    ring: self.program.handles[handle.0 as usize].1,
                    handle,
                };
                let over = s.trip.last
                    && self
                        .scheduled
                        .choices
                        .stores
                        .values()
                        .any(|x| *x == Staging::Over(load));
                if over {
                    s.late.push(release)
                } else {
                    s.out.push(release)
                }
            } else {
                kept.push(load);
            }
        }
        s.held = kept;
    }

    fn run(&mut self, s: &mut State<'_>, n: usize) -> Result<(), CompileError> {
        let node = s.plan.nodes[n].clone();
        match node.work {
            Work::Dot { acc } => self.issue(s, n, acc)?,
            Work::Calc => self.calc_node(s, &node)?,
            Work::ReadShared => self.read_shared(s, &node)?,
            Work::Store => {
                if let Op::Store { tensor, at, src } = self.kernel.op(node.id).clone() {
                    let mut sink = Sink {
                        now: std::mem::take(&mut s.out),
                        late: std::mem::take(&mut s.late),
                    };
                    let result = self.store(
                        &StoreOf {
                            id: node.id,
                            tensor,
                            at: &at,
                            src,
                            stage: node.stage,
                        },
                        &s.local,
                        &mut sink,
                    );
                    (s.out, s.late) = (sink.now, sink.late);
                    result?;
                }
            }
            Work::Rescale { carry, factor } => {
                let (dst, factor) = (
                    self.tile(s.plan.carries[carry].0, &s.local)?,
                    self.tile(factor, &s.local)?,
                );
                calc(&mut s.out, dst, Calc::ScaleUnlessOne { factor });
            }
            Work::Sum { carry, factor } => self.sum(s, &node, carry, factor)?,
            Work::Repair => self.repair(s, node.stage)?,
            Work::Update { carry } => {
                let (dst, src) = (
                    self.tile(s.plan.carries[carry].0, &s.local)?,
                    self.src(node.id, &s.local)?,
                );
                calc(&mut s.out, dst, Calc::Copy(src));
            }
        }
        s.done.insert(n);
        Ok(())
    }

    fn sum(
        &mut self,
        s: &mut State<'_>,
        node: &Node,
        carry: usize,
        factor: Option<ValueId>,
    ) -> Result<(), CompileError> {
        let dst = self.tile(s.plan.carries[carry].0, &s.local)?;
        let contribution = self.src(node.id, &s.local)?;
        let what = match factor {
            Some(f) => Calc::Fma(Src::Tile(dst), self.src(f, &s.local)?, contribution),
            None => Calc::Binary(BinaryOp::Add, Src::Tile(dst), contribution),
        };
        calc(&mut s.out, dst, what);
        Ok(())
    }

    fn calc_node(&mut self, s: &mut State<'_>, node: &Node) -> Result<(), CompileError> {
        let (mut local, mut out) = (std::mem::take(&mut s.local), std::mem::take(&mut s.out));
        let every = s.plan.exp2_every;
        if let Some(fixed) = s.plan.fixed.filter(|f| f.fast == node.id) {
            let dst = self.destination(fixed.weights, &mut local);
            local.insert(node.id, dst?);
        }
        let exp2 = matches!(self.kernel.op(node.id), Op::Unary(dsl::ir::UnaryOp::Exp2, _))
            && matches!(self.kernel.value(node.id).ty.shape, Shape::Mat(..));
        let result = if exp2 && every > 0 {
            self.exp2_mixed(node.id, every, &mut local, &mut out)
        } else {
            self.calc(
                node.id,
                Form {
                    masked: s.trip.masked,
                    stage: node.stage,
                },
                &mut local,
                &mut out,
            )
        };
        (s.local, s.out) = (local, out);
        result?;
        self.stage_operand(s, node.id)
    }

    /// A computed operand that lives in shared memory is written there as soon as it is computed.
    fn stage_operand(&mut self, s: &mut State<'_>, id: ValueId) -> Result<(), CompileError> {
        let Some((index, tile)) = self.operand_buffers.get(&id).copied() else {
            return Ok(());
        };
        let src = self.tile(id, &s.local)?;
        // Every warp of the warpgroup has retired its reads of the buffer before any writes it again.
        s.out.push(Stmt::StagingFree);
        s.out.push(Stmt::Stage {
            src,
            place: Place::Fixed(index),
            tile,
        });
        s.out.push(Stmt::StagedVisible);
        Ok(())
    }

    fn exp2_mixed(
        &mut self,
        id: ValueId,
        every: u32,
        local: &mut Local,
        out: &mut Vec<Stmt>,
    ) -> Result<(), CompileError> {
        let Op::Unary(_, a) = *self.kernel.op(id) else {
            return Ok(());
        };
        let src = self.src(a, local)?;
        let dst = self.destination(id, local)?;
        calc(out, dst, Calc::Exp2Mixed { src, every });
        Ok(())
    }

    fn read_shared(&mut self, s: &mut State<'_>, node: &Node) -> Result<(), CompileError> {
        s.out.push(self.acquire(node.id, node.stage));
        let mut local = std::mem::take(&mut s.local);
        let dst = self.destination(node.id, &mut local)?;
        s.local = local;
        let handle = self.handles[&node.id];
        s.out.push(Stmt::ReadShared {
            dst,
            handle,
            tile: self.loads[&node.id].tile,
        });
        s.out.push(Stmt::Release {
            ring: self.program.handles[handle.0 as usize].1,
            handle,
        });
        Ok(())
    }
}

impl State<'_> {
    fn active(&self, n: usize) -> bool {
        self.trip.stages[self.plan.nodes[n].stage.min(1) as usize]
    }

    /// Whether the repair still to come reads `load` again.
    fn repair_reads(&self, kernel: &Kernel, load: ValueId) -> bool {
        let Some(dot) = self.plan.repaired_dot(kernel) else {
            return false;
        };
        let waiting = self.pending().any(|n| self.plan.nodes[n].work == Work::Repair);
        waiting && kernel.op(dot).operands().contains(&load)
    }

    pub(super) fn pending(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.plan.nodes.len()).filter(|n| self.active(*n) && !self.done.contains(n))
    }

    /// Everything that must come first is done, and retired where it was asynchronous.
    fn ready(&self, n: usize) -> bool {
        self.plan.nodes[n]
            .after
            .iter()
            .all(|b| !self.active(*b) || self.done.contains(b) && !self.in_flight.contains(b))
    }

    /// The next node that can run without a wait: dots first, by stage; then calculations in program order.
    fn free(&self, anchored: bool, unlent: impl Fn(usize) -> bool) -> Option<usize> {
        let named: BTreeSet<usize> = self
            .plan
            .order
            .iter()
            .filter_map(|e| if let Event::Run(n) = e { Some(*n) } else { None })
            .collect();
        let can = |n: &usize| self.ready(*n) && unlent(*n) && !(anchored && named.contains(n));
        let is_dot = |n: &usize| matches!(self.plan.nodes[*n].work, Work::Dot { .. });
        let dot = self
            .pending()
            .filter(|n| is_dot(n) && can(n))
            .min_by_key(|n| self.plan.nodes[*n].stage);
        dot.or_else(|| self.pending().filter(|n| !is_dot(n)).find(can))
    }
}

//! One trip of a fold: a list scheduler over dots, calculations and carries.
//!
//! Dots are issued as soon as their operands are there (earlier stages first), or where the schedule's order says;
//! calculations follow as soon as nothing in flight stands in their way; waits appear where a dependence needs them.

use std::collections::{BTreeMap, BTreeSet};

use dsl::Kernel;
use dsl::ir::{BinaryOp, CarryKind, Fold, Op, Operand, Shape, ValueId};
use dsl::schedule::Release;

use crate::error::{CompileError, Refusal};
use crate::plan::{FixedReference, FoldChoice, mat};
use crate::role::{Calc, Dot, OperandA, Place, RegTileId, SmemOperand, Src, Stmt};

use super::fold::Local;
use super::{Lower, calc, to_u32};

/// What one node of a trip does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Work {
    Dot { acc: Option<usize> },
    Calc,
    ReadShared,
    Store,
    /// Scales a sum by the factor of the fold.
    Rescale { carry: usize, factor: ValueId },
    /// Adds a contribution to a sum.
    Sum { carry: usize, factor: Option<ValueId> },
    /// Moves a carried value on.
    Update { carry: usize },
    /// Computes the trip again in the guarded form, where a warp's weights left the safe range.
    Repair,
}

#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) id: ValueId,
    pub(super) stage: u32,
    pub(super) work: Work,
    /// Nodes of the same trip that come first.
    pub(super) after: Vec<usize>,
}

/// An event of the schedule's order.
#[derive(Clone, Debug, PartialEq)]
enum Event {
    Run(usize),
    Wait(usize),
}

/// Nodes and dependences of a fold, shared by all its trips.
pub struct TripPlan {
    pub(super) fold: ValueId,
    pub(super) carries: Vec<(ValueId, CarryKind)>,
    pub(super) nodes: Vec<Node>,
    order: Vec<Event>,
    crossing: BTreeSet<ValueId>,
    exp2_every: u32,
    /// Set for the form of the trips that take the reference as it is.
    pub(super) fixed: Option<FixedReference>,
    /// Body values that this form computes.
    live: BTreeSet<ValueId>,
}

/// Which part of the pipeline one emitted trip runs.
#[derive(Clone, Copy, Debug)]
pub struct Trip {
    pub stages: [bool; 2],
    pub masked: bool,
    pub turns: bool,
}

impl TripPlan {
    pub fn new(l: &Lower<'_>, id: ValueId, f: &Fold, choice: &FoldChoice, fixed: Option<FixedReference>) -> Result<Self, CompileError> {
        let carries: Vec<_> = f.carries.iter().map(|c| (c.arg, c.kind.clone())).collect();
        let live = live(l.kernel, f, fixed);
        let mut plan = TripPlan {
            fold: id,
            carries,
            nodes: vec![],
            order: vec![],
            crossing: BTreeSet::new(),
            exp2_every: choice.exp2_polynomial_every,
            fixed,
            live,
        };
        plan.add_values(l, f, choice);
        plan.add_carries(l, f, choice);
        plan.add_repair(l.kernel, f)?;
        plan.link(l.kernel, f)?;
        plan.read_order(f, choice)?;
        Ok(plan)
    }

    /// Whether any node runs a trip late.
    pub fn pipelined(&self) -> bool {
        self.nodes.iter().any(|n| n.stage == 1)
    }

    /// Values read one trip after they are computed.
    pub fn crossing(&self) -> Vec<ValueId> {
        self.crossing.iter().copied().collect()
    }

    /// Whether a node at stage 1 reads `load`.
    pub fn read_at_stage_one(&self, kernel: &Kernel, load: ValueId) -> bool {
        self.nodes.iter().any(|n| n.stage == 1 && kernel.op(n.id).operands().contains(&load))
    }

    fn stage_of(&self, kernel: &Kernel, id: ValueId, choice: &FoldChoice, known: &BTreeMap<ValueId, u32>) -> u32 {
        let explicit = choice.stages.get(&kernel.label(id)).copied();
        let inherited = kernel.op(id).operands().iter().filter_map(|o| known.get(o)).max().copied();
        explicit.unwrap_or(inherited.unwrap_or(0))
    }

    fn add_values(&mut self, l: &Lower<'_>, f: &Fold, choice: &FoldChoice) {
        let mut stages = BTreeMap::new();
        for id in f.body.iter().filter(|v| self.live.contains(v)) {
            let kernel = l.kernel;
            let feeds_dots = l.users.get(id).is_some_and(|u| u.iter().all(|v| matches!(kernel.op(*v), Op::Dot { .. })));
            let work = match kernel.op(*id) {
                Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } => continue,
                Op::Load { .. } if l.loads.contains_key(id) && feeds_dots => continue,
                Op::Load { .. } if l.loads.contains_key(id) => Work::ReadShared,
                Op::Store { .. } => Work::Store,
                Op::Dot { .. } => Work::Dot { acc: self.accumulator(l, *id) },
                _ => Work::Calc,
            };
            let stage = self.stage_of(kernel, *id, choice, &stages);
            stages.insert(*id, stage);
            stages.insert(self.made(*id), stage);
            self.nodes.push(Node { name: kernel.label(*id), id: *id, stage, work, after: vec![] });
        }
    }

    /// The carry a dot adds to directly: it is that sum's contribution and nothing else reads it.
    fn accumulator(&self, l: &Lower<'_>, dot: ValueId) -> Option<usize> {
        let unread = l.users.get(&dot).is_none_or(Vec::is_empty) && matches!(l.kernel.op(dot), Op::Dot { .. });
        let carry = self.carries.iter().position(|(_, k)| matches!(k, CarryKind::Sum { contribution, .. } if *contribution == dot));
        carry.filter(|_| unread)
    }

    fn node_stage(&self, id: ValueId) -> Option<u32> {
        self.nodes.iter().find(|n| n.id == id && matches!(n.work, Work::Dot { .. } | Work::Calc | Work::ReadShared)).map(|n| n.stage)
    }

    fn add_carries(&mut self, l: &Lower<'_>, f: &Fold, choice: &FoldChoice) {
        for (carry, c) in f.carries.iter().enumerate() {
            let factor = if self.fixed.is_some() { None } else { l.factor_of(self.fold, &c.kind) };
            match c.kind {
                CarryKind::Sum { contribution, .. } if self.accumulator(l, contribution).is_some() => {
                    let Some(factor) = factor else { continue };
                    let name = format!("{}.rescale", c.name);
                    let stage = choice.stages.get(&name).copied().or(self.node_stage(factor)).unwrap_or(0);
                    self.nodes.push(Node { name, id: factor, stage, work: Work::Rescale { carry, factor }, after: vec![] });
                }
                CarryKind::Sum { contribution, .. } => {
                    let stage = self.node_stage(contribution).max(factor.and_then(|v| self.node_stage(v))).unwrap_or(0);
                    self.nodes.push(Node { name: format!("{}.sum", c.name), id: contribution, stage, work: Work::Sum { carry, factor }, after: vec![] });
                }
                CarryKind::Next(next) if self.fixed.is_some_and(|x| x.next == next) => {}
                CarryKind::Next(next) => {
                    let stage = self.node_stage(next).unwrap_or(0);
                    self.nodes.push(Node { name: format!("{}.next", c.name), id: next, stage, work: Work::Update { carry }, after: vec![] });
                }
                CarryKind::Reference => {}
            }
        }
    }

    /// The values a node reads.
    fn reads(&self, kernel: &Kernel, node: &Node) -> Vec<ValueId> {
        match &node.work {
            Work::Rescale { factor, .. } => vec![*factor],
            Work::Sum { factor, .. } => factor.iter().copied().chain([node.id]).collect(),
            Work::Update { .. } => vec![node.id],
            Work::Repair => vec![],
            _ => kernel.op(node.id).operands(),
        }
    }

    fn carry_of(&self, node: &Node) -> Option<usize> {
        match node.work {
            Work::Rescale { carry, .. } | Work::Sum { carry, .. } | Work::Update { carry } => Some(carry),
            Work::Dot { acc } => acc,
            _ => None,
        }
    }

    fn link(&mut self, kernel: &Kernel, f: &Fold) -> Result<(), Refusal> {
        let producer: BTreeMap<ValueId, usize> =
            self.nodes.iter().enumerate().filter(|(_, n)| matches!(n.work, Work::Dot { .. } | Work::Calc | Work::ReadShared)).map(|(i, n)| (self.made(n.id), i)).collect();
        let mut edges = self.repair_edges(kernel);
        for (i, node) in self.nodes.iter().enumerate() {
            for v in self.reads(kernel, node) {
                if let Some(carry) = self.carries.iter().position(|(arg, _)| *arg == v) {
                    edges.extend(self.carry_edge(i, node.stage, carry));
                }
                let Some(&p) = producer.get(&v) else { continue };
                let made = self.nodes[p].stage;
                if node.stage < made {
                    let fact = format!("it reads `{}`, which is at stage {made}", self.nodes[p].name);
                    return Err(Refusal::new(format!("folds.{}.stages.{}", f.name, node.name), node.stage.to_string(), fact, format!("{made} or later")));
                }
                if node.stage == made {
                    edges.push((p, i));
                } else {
                    edges.push((i, p));
                    self.crossing.insert(v);
                }
            }
        }
        edges.extend(self.sum_chains(f)?);
        self.one_stage_per_load(kernel, f)?;
        for (before, then) in edges {
            if !self.nodes[then].after.contains(&before) {
                self.nodes[then].after.push(before);
            }
        }
        Ok(())
    }

    /// A slot is held within one trip: its readers share a stage.
    fn one_stage_per_load(&self, kernel: &Kernel, f: &Fold) -> Result<(), Refusal> {
        for load in f.body.iter().filter(|v| matches!(kernel.op(**v), Op::Load { .. })) {
            let mut readers = self.nodes.iter().filter(|n| matches!(n.work, Work::Dot { .. }) && kernel.op(n.id).operands().contains(load));
            let Some(first) = readers.next() else { continue };
            if let Some(other) = readers.find(|n| n.stage != first.stage) {
                let fact = format!("`{}` is read by `{}` at stage {} too", kernel.label(*load), first.name, first.stage);
                return Err(Refusal::new(format!("folds.{}.stages.{}", f.name, other.name), other.stage.to_string(), fact, "one stage for all readers of a load"));
            }
        }
        Ok(())
    }

    /// The value a node stands for: the fast weights are the weights.
    fn made(&self, id: ValueId) -> ValueId {
        self.fixed.filter(|x| x.fast == id).map_or(id, |x| x.weights)
    }

    /// A reader of a carried value comes before the node that moves it on.
    fn carry_edge(&self, reader: usize, stage: u32, carry: usize) -> Option<(usize, usize)> {
        let update = self.nodes.iter().position(|n| n.work == Work::Update { carry })?;
        if update == reader {
            return None;
        }
        if stage == self.nodes[update].stage { Some((reader, update)) } else { Some((update, reader)) }
    }

    /// Rescale and dot of one sum alternate: the older trip's first.
    fn sum_chains(&self, f: &Fold) -> Result<Vec<(usize, usize)>, Refusal> {
        let mut out = vec![];
        for (carry, c) in f.carries.iter().enumerate() {
            let rescale = self.nodes.iter().position(|n| matches!(n.work, Work::Rescale { carry: k, .. } if k == carry));
            let dot = self.nodes.iter().position(|n| n.work == Work::Dot { acc: Some(carry) });
            let (Some(r), Some(d)) = (rescale, dot) else { continue };
            let (sr, sd) = (self.nodes[r].stage, self.nodes[d].stage);
            if sr > sd {
                let fact = format!("the dot it prepares for is at stage {sd}");
                return Err(Refusal::new(format!("folds.{}.stages.{}.rescale", f.name, c.name), sr.to_string(), fact, format!("0 to {sd}")));
            }
            out.push(if sr == sd { (r, d) } else { (d, r) });
        }
        Ok(out)
    }

    fn read_order(&mut self, f: &Fold, choice: &FoldChoice) -> Result<(), Refusal> {
        for event in &choice.order {
            let (wait, name) = match event.strip_prefix("wait ") {
                Some(n) => (true, n),
                None => (false, event.strip_prefix("issue ").unwrap_or(event)),
            };
            let Some(node) = self.nodes.iter().position(|n| n.name == name) else {
                let names: Vec<_> = self.nodes.iter().map(|n| n.name.as_str()).filter(|n| !n.starts_with('%')).collect();
                return Err(Refusal::new(format!("folds.{}.order", f.name), format!("`{event}`"), "no such event in this fold", names.join(", ")));
            };
            if wait && !matches!(self.nodes[node].work, Work::Dot { .. }) {
                return Err(Refusal::new(format!("folds.{}.order", f.name), format!("`{event}`"), "only dots are waited for", "wait NAME of a dot"));
            }
            self.order.push(if wait { Event::Wait(node) } else { Event::Run(node) });
        }
        Ok(())
    }
}

/// The values of a body that one form of its trips needs.
fn live(kernel: &Kernel, f: &Fold, fixed: Option<FixedReference>) -> BTreeSet<ValueId> {
    let mut live = BTreeSet::new();
    for c in &f.carries {
        match c.kind {
            CarryKind::Sum { contribution, .. } => drop(live.insert(contribution)),
            CarryKind::Next(next) if fixed.is_none_or(|x| x.next != next) => drop(live.insert(next)),
            _ => {}
        }
    }
    if let Some(factor) = guarded_factor(kernel, f).filter(|_| fixed.is_none()) {
        live.insert(factor);
    }
    for id in f.body.iter().rev() {
        let stores = matches!(kernel.op(*id), Op::Store { .. });
        let weights = fixed.filter(|x| x.weights == *id && live.contains(id));
        if let Some(x) = weights {
            live.remove(id);
            live.insert(x.fast);
        } else if live.contains(id) || stores {
            live.insert(*id);
            live.extend(kernel.op(*id).operands());
        }
    }
    live
}

/// The factor of the fold's sums, found among its body's values.
fn guarded_factor(kernel: &Kernel, f: &Fold) -> Option<ValueId> {
    f.body.iter().copied().find(|v| kernel.value(*v).name.as_deref().is_some_and(|n| n.starts_with('%') && n.ends_with(".factor")))
}

/// The state of one trip while it is emitted.
pub(super) struct State<'p> {
    pub(super) plan: &'p TripPlan,
    trip: Trip,
    done: BTreeSet<usize>,
    retired: BTreeSet<usize>,
    in_flight: Vec<usize>,
    held: Vec<ValueId>,
    pub(super) local: Local,
    turn: Turn,
    pub(super) out: Vec<Stmt>,
}

#[derive(PartialEq)]
enum Turn {
    NotYet,
    Mine,
    Passed,
}

impl Lower<'_> {
    /// Emits one trip.
    pub(super) fn trip(&mut self, plan: &TripPlan, trip: Trip, out: &mut Vec<Stmt>, late: &mut Vec<Stmt>) -> Result<(), CompileError> {
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
        };
        for event in &plan.order {
            match event {
                Event::Run(n) if s.active(*n) => self.force(&mut s, *n, late, 0)?,
                Event::Wait(n) if s.in_flight.contains(n) => self.wait_for(&mut s, *n),
                _ => {}
            }
            while let Some(n) = s.free(true) {
                self.run(&mut s, n, late)?;
            }
        }
        loop {
            while let Some(n) = s.free(false) {
                self.run(&mut s, n, late)?;
            }
            let Some(oldest) = s.in_flight.first().copied() else { break };
            if s.pending().next().is_none() && s.in_flight.len() > 1 {
                let last = s.in_flight[s.in_flight.len() - 1];
                self.wait_for(&mut s, last);
            } else {
                self.wait_for(&mut s, oldest);
            }
        }
        if let Some(stuck) = s.pending().next() {
            let name = &plan.nodes[stuck].name;
            return Err(Refusal::new("folds.order", format!("`{name}` where it stands"), "its dependences form a cycle within a trip", "stages in which readers follow writers").into());
        }
        if s.turn == Turn::Mine {
            s.out.push(Stmt::TurnPass);
        }
        self.release_held(&mut s, true);
        out.append(&mut s.out);
        Ok(())
    }

    /// Runs a node now, whatever must come first.
    fn force(&mut self, s: &mut State<'_>, n: usize, late: &mut Vec<Stmt>, depth: u32) -> Result<(), CompileError> {
        if s.done.contains(&n) {
            return Ok(());
        }
        if depth > 10_000 {
            return Err(Refusal::new("folds.order", format!("`{}` at this place", s.plan.nodes[n].name), "its dependences form a cycle within a trip", "another order").into());
        }
        for before in s.plan.nodes[n].after.clone() {
            if s.active(before) {
                self.force(s, before, late, depth + 1)?;
                if s.in_flight.contains(&before) {
                    self.wait_for(s, before);
                }
            }
        }
        self.run(s, n, late)
    }

    fn wait_for(&mut self, s: &mut State<'_>, n: usize) {
        let Some(at) = s.in_flight.iter().position(|x| *x == n) else { return };
        s.out.push(Stmt::Wait { pending: to_u32(s.in_flight.len() - at - 1) });
        s.retired.extend(s.in_flight.drain(..=at));
        self.release_held(s, false);
    }

    /// Hands back the slots whose readers are all retired.
    fn release_held(&self, s: &mut State<'_>, end: bool) {
        let mut kept = vec![];
        for load in std::mem::take(&mut s.held) {
            let open = s.plan.nodes.iter().enumerate().any(|(i, n)| s.active(i) && self.kernel.op(n.id).operands().contains(&load) && matches!(n.work, Work::Dot { .. }) && !s.retired.contains(&i));
            let open = open || s.repair_reads(self.kernel, load);
            let early = self.scheduled.choices.loads[&load].release == Release::Early;
            if !open && (early || end) {
                let handle = self.handles[&load];
                s.out.push(Stmt::Release { ring: self.program.handles[handle.0 as usize].1, handle });
            } else {
                kept.push(load);
            }
        }
        s.held = kept;
    }

    fn run(&mut self, s: &mut State<'_>, n: usize, late: &mut Vec<Stmt>) -> Result<(), CompileError> {
        let node = s.plan.nodes[n].clone();
        match node.work {
            Work::Dot { acc } => self.issue(s, n, acc)?,
            Work::Calc => self.calc_node(s, &node)?,
            Work::ReadShared => self.read_shared(s, &node)?,
            Work::Store => {
                if let Op::Store { tensor, at, src } = self.kernel.op(node.id).clone() {
                    let (local, mut out) = (s.local.clone(), std::mem::take(&mut s.out));
                    self.store(tensor, &at, src, &local, &mut out, late)?;
                    s.out = out;
                }
            }
            Work::Rescale { carry, factor } => {
                let (dst, factor) = (self.tile(s.plan.carries[carry].0, &s.local)?, self.tile(factor, &s.local)?);
                calc(&mut s.out, dst, Calc::ScaleUnlessOne { factor });
            }
            Work::Sum { carry, factor } => self.sum(s, &node, carry, factor)?,
            Work::Repair => self.repair(s, late)?,
            Work::Update { carry } => {
                let (dst, src) = (self.tile(s.plan.carries[carry].0, &s.local)?, self.src(node.id, &s.local)?);
                calc(&mut s.out, dst, Calc::Copy(src));
            }
        }
        s.done.insert(n);
        Ok(())
    }

    fn sum(&mut self, s: &mut State<'_>, node: &Node, carry: usize, factor: Option<ValueId>) -> Result<(), CompileError> {
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
        let exp2 = matches!(self.kernel.op(node.id), Op::Unary(dsl::ir::UnaryOp::Exp2, _)) && matches!(self.kernel.value(node.id).ty.shape, Shape::Mat(..));
        let result = if exp2 && every > 0 { self.exp2_mixed(node.id, every, &mut local, &mut out) } else { self.calc(node.id, s.trip.masked, node.stage, &mut local, &mut out) };
        (s.local, s.out) = (local, out);
        result?;
        self.stage_operand(s, node.id)
    }

    /// A computed operand that lives in shared memory is written there as soon as it is computed.
    fn stage_operand(&mut self, s: &mut State<'_>, id: ValueId) -> Result<(), CompileError> {
        let Some((index, tile)) = self.operand_buffers.get(&id).copied() else { return Ok(()) };
        let src = self.tile(id, &s.local)?;
        s.out.push(Stmt::Stage { src, place: Place::Fixed(index), tile });
        s.out.push(Stmt::StagedVisible);
        Ok(())
    }

    fn exp2_mixed(&mut self, id: ValueId, every: u32, local: &mut Local, out: &mut Vec<Stmt>) -> Result<(), CompileError> {
        let Op::Unary(_, a) = *self.kernel.op(id) else { return Ok(()) };
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
        s.out.push(Stmt::ReadShared { dst, handle, tile: self.loads[&node.id].tile });
        s.out.push(Stmt::Release { ring: self.program.handles[handle.0 as usize].1, handle });
        Ok(())
    }

    fn issue(&mut self, s: &mut State<'_>, n: usize, acc: Option<usize>) -> Result<(), CompileError> {
        let node = s.plan.nodes[n].clone();
        let Op::Dot { a, b } = *self.kernel.op(node.id) else { return Ok(()) };
        let outer = |l: &Self, v: ValueId| l.loads.contains_key(&v) && !l.in_fold(v);
        for operand in [a.value, b.value] {
            if self.loads.contains_key(&operand) && !s.held.contains(&operand) && !outer(self, operand) {
                s.out.push(self.acquire(operand, node.stage));
                s.held.push(operand);
            }
        }
        if s.trip.turns && s.turn == Turn::NotYet {
            s.out.push(Stmt::TurnWait);
            s.turn = Turn::Mine;
        }
        let dot = self.dot(s, &node, a, b, acc)?;
        s.out.push(Stmt::Fence);
        s.out.push(Stmt::Issue(Box::new(dot)));
        s.in_flight.push(n);
        let more = s.pending().any(|x| x != n && matches!(s.plan.nodes[x].work, Work::Dot { .. }));
        if s.turn == Turn::Mine && !more {
            s.out.push(Stmt::TurnPass);
            s.turn = Turn::Passed;
        }
        Ok(())
    }

    fn dot(&mut self, s: &mut State<'_>, node: &Node, a: Operand, b: Operand, acc: Option<usize>) -> Result<Dot, CompileError> {
        let (rows, cols) = mat(self.kernel, node.id);
        let (ar, ac) = mat(self.kernel, a.value);
        let depth = if a.transposed { ar } else { ac };
        self.dot_limits(&node.name, cols, depth)?;
        debug_assert_eq!(rows, self.program.rows_per_consumer * self.program.consumers);
        let left = if self.loads.contains_key(&a.value) && !self.regs.contains_key(&a.value) {
            OperandA::Shared(self.shared_operand(a, a.transposed))
        } else if let Some(buffer) = self.operand_buffers.get(&a.value) {
            OperandA::Shared(SmemOperand { place: Place::Fixed(buffer.0), tile: buffer.1, mn_major: false })
        } else if a.transposed {
            return Err(Refusal::new(&node.name, "a transposed left operand in registers", "registers hold the operand as it was computed", "transpose the product, or load the operand").into());
        } else {
            OperandA::Regs(self.tile(a.value, &s.local)?)
        };
        if !self.loads.contains_key(&b.value) {
            return Err(Refusal::new(&node.name, "a computed right operand", "wgmma reads its right operand from shared memory", "a loaded right operand, or the transposed product").into());
        }
        // Right operands lie [n, k] for the tensor core; stored [k, n] they are read N-major.
        let right = self.shared_operand(b, !b.transposed);
        let accumulator = match acc {
            Some(carry) => self.tile(s.plan.carries[carry].0, &s.local)?,
            None => {
                let mut local = std::mem::take(&mut s.local);
                let dst = self.destination(node.id, &mut local);
                s.local = local;
                dst?
            }
        };
        Ok(Dot {
            name: node.name.clone(),
            acc: accumulator,
            a: left,
            b: right,
            rows: self.program.rows_per_consumer,
            cols,
            depth,
            dtype: self.kernel.value(a.value).ty.dtype,
            accumulate: acc.is_some(),
        })
    }

    fn dot_limits(&self, name: &str, cols: u32, depth: u32) -> Result<(), Refusal> {
        let n = self.target.mma_n;
        if cols == 0 || !cols.is_multiple_of(8) || cols > n || depth == 0 || !depth.is_multiple_of(16) {
            return Err(Refusal::new(name, format!("{cols} columns over a depth of {depth}"), format!("wgmma takes N in steps of 8 up to {n} and K in steps of 16 (PTX ISA 9.7.15.2)"), "tile sizes that give such N and K"));
        }
        Ok(())
    }

    pub(super) fn shared_operand(&self, o: Operand, mn_major: bool) -> SmemOperand {
        SmemOperand { place: Place::Slot(self.handles[&o.value]), tile: self.loads[&o.value].tile, mn_major }
    }

    /// The register tile a value is computed into.
    pub(super) fn destination(&mut self, id: ValueId, local: &mut Local) -> Result<RegTileId, CompileError> {
        if let Some(reg) = self.regs.get(&id).or(local.get(&id)) {
            return Ok(*reg);
        }
        let layout = self.layout_of(id)?;
        let reg = self.reg(&self.kernel.label(id), layout);
        local.insert(id, reg);
        Ok(reg)
    }

    /// Emits one calculation.
    pub(crate) fn calc(&mut self, id: ValueId, masked: bool, stage: u32, local: &mut Local, out: &mut Vec<Stmt>) -> Result<(), CompileError> {
        let op = self.kernel.op(id).clone();
        let crossing = self.regs.contains_key(&id);
        if let Op::Mask { src, .. } = &op
            && !masked
            && !crossing
        {
            let same = self.tile(*src, local)?;
            local.insert(id, same);
            return Ok(());
        }
        let what = match op {
            Op::Load { tensor, at } => {
                let at = self.global_at(tensor, &at, stage);
                let dst = self.destination(id, local)?;
                out.push(Stmt::ReadGlobal { dst, at });
                return Ok(());
            }
            Op::Unary(f, a) => Calc::Unary(f, self.src(a, local)?),
            Op::Binary(f, a, b) => Calc::Binary(f, self.src(a, local)?, self.src(b, local)?),
            Op::Fma(a, b, c) => Calc::Fma(self.src(a, local)?, self.src(b, local)?, self.src(c, local)?),
            Op::Select { cmp, lhs, rhs, then, otherwise } => Calc::Select {
                cmp,
                lhs: self.src(lhs, local)?,
                rhs: self.src(rhs, local)?,
                then: self.src(then, local)?,
                otherwise: self.src(otherwise, local)?,
            },
            Op::Cast(a) => self.cast(id, a, local)?,
            Op::Mask { src, mask, fill } if masked => {
                let terms = mask.terms.iter().map(|t| crate::role::Term { row_coef: t.row_coef, col_coef: t.col_coef, base: self.expr(&t.base, stage) }).collect();
                Calc::Mask { src: self.tile(src, local)?, terms, fill }
            }
            Op::Mask { src, .. } => Calc::Copy(self.src(src, local)?),
            Op::Reduce(op, a) => Calc::Reduce { op, src: self.tile(a, local)?, quad: !self.partial.contains(&id) },
            _ => return Err(Refusal::new(self.kernel.label(id), "this operation here", "it has no place among register calculations", "loads, dots, stores and folds at their own places").into()),
        };
        let dst = self.destination(id, local)?;
        calc(out, dst, what);
        Ok(())
    }

    fn cast(&self, id: ValueId, from: ValueId, local: &Local) -> Result<Calc, Refusal> {
        let (to, have) = (self.kernel.value(id).ty.dtype, self.kernel.value(from).ty.dtype);
        match (have.is_16_bit(), to.is_16_bit()) {
            (false, true) => Ok(Calc::Pack(self.tile(from, local)?)),
            (true, false) => Ok(Calc::Unpack(self.tile(from, local)?)),
            (false, false) => Ok(Calc::Copy(self.src(from, local)?)),
            (true, true) => Err(Refusal::new(self.kernel.label(id), format!("a cast from {have} to {to}"), "16-bit values are converted through f32", "cast to f32 first")),
        }
    }
}

impl State<'_> {
    fn active(&self, n: usize) -> bool {
        self.trip.stages[self.plan.nodes[n].stage.min(1) as usize]
    }

    /// Whether the repair still to come reads `load` again.
    fn repair_reads(&self, kernel: &Kernel, load: ValueId) -> bool {
        let Some(dot) = self.plan.repaired_dot(kernel) else { return false };
        let waiting = self.pending().any(|n| self.plan.nodes[n].work == Work::Repair);
        waiting && kernel.op(dot).operands().contains(&load)
    }

    fn pending(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.plan.nodes.len()).filter(|n| self.active(*n) && !self.done.contains(n))
    }

    /// Everything that must come first is done, and retired where it was asynchronous.
    fn ready(&self, n: usize) -> bool {
        self.plan.nodes[n].after.iter().all(|b| !self.active(*b) || self.done.contains(b) && !self.in_flight.contains(b))
    }

    /// The next node that can run without a wait: dots first, by stage; then calculations in program order.
    fn free(&self, anchored: bool) -> Option<usize> {
        let named: BTreeSet<usize> = self.plan.order.iter().filter_map(|e| if let Event::Run(n) = e { Some(*n) } else { None }).collect();
        let can = |n: &usize| self.ready(*n) && !(anchored && named.contains(n));
        let is_dot = |n: &usize| matches!(self.plan.nodes[*n].work, Work::Dot { .. });
        let dot = self.pending().filter(|n| is_dot(n) && can(n)).min_by_key(|n| self.plan.nodes[*n].stage);
        dot.or_else(|| self.pending().filter(|n| !is_dot(n)).find(can))
    }
}


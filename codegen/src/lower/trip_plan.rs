//! What a fold's trips consist of: nodes, the stage of each, and what must come before what.

use std::collections::{BTreeMap, BTreeSet};

use dsl::Kernel;
use dsl::ir::{CarryKind, Fold, Op, ValueId};

use crate::error::{CompileError, Refusal};
use crate::plan::about::told;
use crate::plan::{FixedReference, FoldChoice};

use super::Lower;

/// What one node of a trip does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Work {
    Dot {
        acc: Option<usize>,
    },
    Calc,
    ReadShared,
    Store,
    /// Scales a sum by the factor of the fold.
    Rescale {
        carry: usize,
        factor: ValueId,
    },
    /// Adds a contribution to a sum.
    Sum {
        carry: usize,
        factor: Option<ValueId>,
    },
    /// Moves a carried value on.
    Update {
        carry: usize,
    },
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
pub(super) enum Event {
    Run(usize),
    Wait(usize),
}

/// Nodes and dependences of a fold, shared by all its trips.
pub struct TripPlan {
    pub(super) fold: ValueId,
    pub(super) carries: Vec<(ValueId, CarryKind)>,
    pub(super) nodes: Vec<Node>,
    pub(super) order: Vec<Event>,
    crossing: BTreeSet<ValueId>,
    pub(super) exp2_every: u32,
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
    /// The last trip of the fold: slots that a store is staged over stay held.
    pub last: bool,
    /// Dots that a mask follows may leave columns out.
    pub narrow: bool,
}

impl TripPlan {
    pub fn new(
        l: &Lower<'_>,
        id: ValueId,
        f: &Fold,
        choice: &FoldChoice,
        fixed: Option<FixedReference>,
    ) -> Result<Self, CompileError> {
        let carries: Vec<_> = f.carries.iter().map(|c| (c.arg, c.kind.clone())).collect();
        let live = live(l.kernel, f, l.scheduled.factors.get(&id).copied(), fixed);
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
        plan.late_updates(l.kernel);
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
        self.nodes
            .iter()
            .any(|n| n.stage == 1 && kernel.op(n.id).operands().contains(&load))
    }

    fn stage_of(&self, kernel: &Kernel, id: ValueId, choice: &FoldChoice, known: &BTreeMap<ValueId, u32>) -> u32 {
        let explicit = choice.stages.get(&kernel.label(self.made(id))).copied();
        let inherited = kernel
            .op(id)
            .operands()
            .iter()
            .filter_map(|o| known.get(o))
            .max()
            .copied();
        explicit.unwrap_or(inherited.unwrap_or(0))
    }

    fn add_values(&mut self, l: &Lower<'_>, f: &Fold, choice: &FoldChoice) {
        let mut stages = BTreeMap::new();
        for id in f.body.iter().filter(|v| self.live.contains(v)) {
            let kernel = l.kernel;
            let feeds_dots = l
                .users
                .get(id)
                .is_some_and(|u| u.iter().all(|v| matches!(kernel.op(*v), Op::Dot { .. })));
            let work = match kernel.op(*id) {
                Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } => continue,
                Op::Load { .. } if l.loads.contains_key(id) && feeds_dots => continue,
                Op::Load { .. } if l.loads.contains_key(id) => Work::ReadShared,
                Op::Store { .. } => Work::Store,
                Op::Dot { .. } => Work::Dot {
                    acc: self.accumulator(l, *id),
                },
                _ => Work::Calc,
            };
            let stage = self.stage_of(kernel, *id, choice, &stages);
            stages.insert(*id, stage);
            stages.insert(self.made(*id), stage);
            self.nodes.push(Node {
                name: kernel.label(self.made(*id)),
                id: *id,
                stage,
                work,
                after: vec![],
            });
        }
    }

    /// The carry a dot adds to directly: it is that sum's contribution and nothing else reads it.
    fn accumulator(&self, l: &Lower<'_>, dot: ValueId) -> Option<usize> {
        let unread = l.users.get(&dot).is_none_or(|u| u.len() <= 1) && matches!(l.kernel.op(dot), Op::Dot { .. });
        let carry = self
            .carries
            .iter()
            .position(|(_, k)| matches!(k, CarryKind::Sum { contribution, .. } if *contribution == dot));
        carry.filter(|_| unread)
    }

    fn node_stage(&self, id: ValueId) -> Option<u32> {
        self.nodes
            .iter()
            .find(|n| n.id == id && matches!(n.work, Work::Dot { .. } | Work::Calc | Work::ReadShared))
            .map(|n| n.stage)
    }

    fn add_carries(&mut self, l: &Lower<'_>, f: &Fold, choice: &FoldChoice) {
        for (carry, c) in f.carries.iter().enumerate() {
            let factor = if self.fixed.is_some() {
                None
            } else {
                l.factor_of(self.fold, &c.kind)
            };
            match c.kind {
                CarryKind::Sum { contribution, .. } if self.accumulator(l, contribution).is_some() => {
                    let Some(factor) = factor else { continue };
                    let name = format!("{}.rescale", c.name);
                    let stage = choice
                        .stages
                        .get(&name)
                        .copied()
                        .or(self.node_stage(factor))
                        .unwrap_or(0);
                    self.nodes.push(Node {
                        name,
                        id: factor,
                        stage,
                        work: Work::Rescale { carry, factor },
                        after: vec![],
                    });
                }
                CarryKind::Sum { contribution, .. } => {
                    let stage = self
                        .node_stage(contribution)
                        .max(factor.and_then(|v| self.node_stage(v)))
                        .unwrap_or(0);
                    self.nodes.push(Node {
                        name: format!("{}.sum", c.name),
                        id: contribution,
                        stage,
                        work: Work::Sum { carry, factor },
                        after: vec![],
                    });
                }
                CarryKind::Next(next) if self.fixed.is_some_and(|x| x.next == next) => {}
                CarryKind::Next(next) => {
                    let stage = self.node_stage(next).unwrap_or(0);
                    self.nodes.push(Node {
                        name: format!("{}.next", c.name),
                        id: next,
                        stage,
                        work: Work::Update { carry },
                        after: vec![],
                    });
                }
                CarryKind::Reference => {}
            }
        }
    }

    /// A carry moves on at the stage of its last reader: earlier, that one would find the value of the trip ahead.
    fn late_updates(&mut self, kernel: &Kernel) {
        let latest = |plan: &Self, carry: usize| {
            let arg = plan.carries[carry].0;
            let readers = plan.nodes.iter().filter(|n| plan.reads(kernel, n).contains(&arg));
            readers.map(|n| n.stage).max().unwrap_or(0)
        };
        // One update may read the carry of another.
        for _ in 0..=self.carries.len() {
            for i in 0..self.nodes.len() {
                if let Work::Update { carry } = self.nodes[i].work {
                    self.nodes[i].stage = self.nodes[i].stage.max(latest(self, carry));
                }
            }
        }
    }

    /// The values a node reads.
    pub(super) fn reads(&self, kernel: &Kernel, node: &Node) -> Vec<ValueId> {
        match &node.work {
            Work::Rescale { factor, .. } => vec![*factor],
            Work::Sum { factor, .. } => factor.iter().copied().chain([node.id]).collect(),
            Work::Update { .. } => vec![node.id],
            Work::Repair => vec![],
            _ => kernel.op(node.id).operands(),
        }
    }

    fn link(&mut self, kernel: &Kernel, f: &Fold) -> Result<(), Refusal> {
        let producer: BTreeMap<ValueId, usize> = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, n)| matches!(n.work, Work::Dot { .. } | Work::Calc | Work::ReadShared))
            .map(|(i, n)| (self.made(n.id), i))
            .collect();
        let mut edges = self.repair_edges(kernel);
        for (i, node) in self.nodes.iter().enumerate() {
            for v in self.reads(kernel, node) {
                if let Some(carry) = self.carries.iter().position(|(arg, _)| *arg == v) {
                    edges.extend(self.carry_edge(i, node.stage, carry));
                }
                let Some(&p) = producer.get(&v) else { continue };
                let made = self.nodes[p].stage;
                if node.stage < made {
                    let fact = format!("it reads {}, which is at stage {made}", told(kernel, v));
                    return Err(Refusal::new(
                        format!("folds.{}.stages.{}", f.name, node.name),
                        node.stage.to_string(),
                        fact,
                        format!("{made} or later"),
                    ));
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
            let mut readers = self
                .nodes
                .iter()
                .filter(|n| matches!(n.work, Work::Dot { .. }) && kernel.op(n.id).operands().contains(load));
            let Some(first) = readers.next() else { continue };
            if let Some(other) = readers.find(|n| n.stage != first.stage) {
                let fact = format!(
                    "{} is read by {} at stage {} too",
                    told(kernel, *load),
                    told(kernel, first.id),
                    first.stage
                );
                return Err(Refusal::new(
                    format!("folds.{}.stages.{}", f.name, other.name),
                    other.stage.to_string(),
                    fact,
                    "one stage for all readers of a load",
                ));
            }
        }
        Ok(())
    }

    /// The value a node stands for: the fast weights are the weights.
    pub(super) fn made(&self, id: ValueId) -> ValueId {
        self.fixed.filter(|x| x.fast == id).map_or(id, |x| x.weights)
    }

    /// A reader of a carried value comes before the node that moves it on.
    fn carry_edge(&self, reader: usize, stage: u32, carry: usize) -> Option<(usize, usize)> {
        let update = self.nodes.iter().position(|n| n.work == Work::Update { carry })?;
        if update == reader {
            return None;
        }
        if stage == self.nodes[update].stage {
            Some((reader, update))
        } else {
            Some((update, reader))
        }
    }

    /// Rescale and dot of one sum alternate: the older trip's first.
    fn sum_chains(&self, f: &Fold) -> Result<Vec<(usize, usize)>, Refusal> {
        let mut out = vec![];
        for (carry, c) in f.carries.iter().enumerate() {
            let rescale = self
                .nodes
                .iter()
                .position(|n| matches!(n.work, Work::Rescale { carry: k, .. } if k == carry));
            let dot = self.nodes.iter().position(|n| n.work == Work::Dot { acc: Some(carry) });
            let (Some(r), Some(d)) = (rescale, dot) else { continue };
            let (sr, sd) = (self.nodes[r].stage, self.nodes[d].stage);
            if sr > sd {
                let fact = format!("the dot it prepares for is at stage {sd}");
                return Err(Refusal::new(
                    format!("folds.{}.stages.{}.rescale", f.name, c.name),
                    sr.to_string(),
                    fact,
                    format!("0 to {sd}"),
                ));
            }
            out.push(if sr == sd { (r, d) } else { (d, r) });
        }
        Ok(out)
    }
}

/// The values of a body that one form of its trips needs.
fn live(kernel: &Kernel, f: &Fold, factor: Option<ValueId>, fixed: Option<FixedReference>) -> BTreeSet<ValueId> {
    let mut live = BTreeSet::new();
    for c in &f.carries {
        match c.kind {
            CarryKind::Sum { contribution, .. } => drop(live.insert(contribution)),
            CarryKind::Next(next) if fixed.is_none_or(|x| x.next != next) => drop(live.insert(next)),
            _ => {}
        }
    }
    if let Some(factor) = factor.filter(|_| fixed.is_none()) {
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

//! The repair of a fixed-reference trip: what a warp runs when its weights left the safe range.
//!
//! The scores were overwritten by the weights, so the warp computes its own rows of the dot again with `mma.sync` from
//! the slots it still holds, then runs the guarded form of the rebase and moves every sum to the new reference.

use std::collections::BTreeSet;

use dsl::Kernel;
use dsl::ir::{BinaryOp, CarryKind, Fold, Op, ReduceOp, ValueId};

use crate::error::{CompileError, Refusal};
use crate::plan::about::told;
use crate::plan::mat;
use crate::role::{Calc, Layout, Src, Stmt};

use super::trip::State;
use super::trip_plan::{Node, TripPlan, Work};
use super::{Form, Lower, calc};

impl TripPlan {
    /// The dot that the scores of a fixed-reference fold come from.
    pub(super) fn repaired_dot(&self, kernel: &Kernel) -> Option<ValueId> {
        let fixed = self.fixed?;
        upstream(kernel, fixed.weights)
            .into_iter()
            .find(|v| matches!(kernel.op(*v), Op::Dot { .. }))
    }

    pub(super) fn add_repair(&mut self, kernel: &Kernel, f: &Fold) -> Result<(), Refusal> {
        let Some(fixed) = self.fixed else { return Ok(()) };
        let dots = upstream(kernel, fixed.weights)
            .into_iter()
            .filter(|v| matches!(kernel.op(*v), Op::Dot { .. }))
            .count();
        if dots != 1 {
            return Err(Refusal::new(
                format!("folds.{}.rescale", f.name),
                "fixed",
                format!("the scores come from {dots} dots"),
                "exact, lazy (fixed repairs one dot)",
            ));
        }
        let stage_of = |id: ValueId| self.nodes.iter().find(|n| n.id == id).map_or(0, |n| n.stage);
        let stage = stage_of(fixed.fast);
        let scores = self.repaired_dot(kernel).map_or(stage, stage_of);
        if scores != stage || stage_of(fixed.check) != stage {
            return Err(Refusal::new(
                format!("folds.{}.rescale", f.name),
                "fixed",
                format!(
                    "the scores are at stage {scores} and the weights at {stage}; a repair computes both in one trip"
                ),
                "exact, lazy, or one stage for the scores, the weights and their sum",
            ));
        }
        self.nodes.push(Node {
            name: "repair".into(),
            id: fixed.check,
            stage,
            work: Work::Repair,
            after: vec![],
        });
        Ok(())
    }

    /// The repair follows the check and every tensor-core group that does not need its result; readers of what it
    /// rewrites follow the repair.
    pub(super) fn repair_edges(&self, kernel: &Kernel) -> Vec<(usize, usize)> {
        let Some(fixed) = self.fixed else { return vec![] };
        let Some(repair) = self.nodes.iter().position(|n| n.work == Work::Repair) else {
            return vec![];
        };
        let stage = self.nodes[repair].stage;
        let mut out = vec![];
        for (i, n) in self.nodes.iter().enumerate() {
            let needs = n.id != fixed.check
                && n.stage == stage
                && i != repair
                && upstream(kernel, n.id).contains(&fixed.weights);
            match n.work {
                Work::Calc if n.id == fixed.fast || n.id == fixed.check => out.push((i, repair)),
                Work::Dot { .. } if !needs => out.push((i, repair)),
                Work::Sum { .. } if n.id == fixed.check => out.push((repair, i)),
                Work::Calc | Work::Dot { .. } | Work::Sum { .. } if needs => out.push((repair, i)),
                _ => {}
            }
        }
        out
    }
}

/// Everything a value is computed from, itself included.
fn upstream(kernel: &Kernel, id: ValueId) -> BTreeSet<ValueId> {
    let mut seen = BTreeSet::new();
    let mut open = vec![id];
    while let Some(v) = open.pop() {
        if seen.insert(v) {
            open.extend(kernel.op(v).operands());
        }
    }
    seen
}

impl Lower<'_> {
    pub(super) fn repair(&mut self, s: &mut State<'_>, stage: u32) -> Result<(), CompileError> {
        let (Some(fixed), Some(dot)) = (s.plan.fixed, s.plan.repaired_dot(self.kernel)) else {
            return Ok(());
        };
        let f = self.kernel.fold(s.plan.fold).cloned();
        let Some(f) = f else { return Ok(()) };
        let (weights, check) = (self.tile(fixed.weights, &s.local)?, self.tile(fixed.check, &s.local)?);
        let mut body = vec![];
        let mut local = s.local.clone();
        local.remove(&fixed.weights);
        let cols = mat(self.kernel, dot).1;
        let scores = self.reg(
            "repair.scores",
            Layout::Acc {
                slabs: self.slabs(),
                cols,
            },
        );
        body.push(self.warp_dot(&f.name, dot, scores)?);
        local.insert(dot, scores);
        let needed: BTreeSet<ValueId> = [fixed.weights, fixed.next, fixed.factor]
            .iter()
            .flat_map(|v| upstream(self.kernel, *v))
            .collect();
        let given = upstream(self.kernel, dot);
        // What the trip has loaded is in registers still.
        let calculated = |v: &&ValueId| {
            let op = self.kernel.op(**v);
            !matches!(op, Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } | Op::Load { .. })
        };
        let body_ids: Vec<ValueId> = f
            .body
            .iter()
            .filter(|v| needed.contains(v) && !given.contains(v))
            .filter(calculated)
            .copied()
            .collect();
        for id in &body_ids {
            local.remove(id);
            self.calc(*id, Form { masked: false, stage }, &mut local, &mut body)?;
        }
        let fresh = self.tile(fixed.weights, &local)?;
        calc(&mut body, weights, Calc::Copy(Src::Tile(fresh)));
        let quad = matches!(self.program.tiles[check.0 as usize].layout, Layout::Row { .. });
        calc(
            &mut body,
            check,
            Calc::Reduce {
                op: ReduceOp::Sum,
                src: weights,
                quad,
            },
        );
        self.move_sums(&f, fixed.factor, &local, &mut body)?;
        let reference = f.carries.iter().find(|c| c.kind == CarryKind::Next(fixed.next));
        if let Some(c) = reference {
            let (dst, src) = (self.tile(c.arg, &local)?, self.src(fixed.next, &local)?);
            calc(&mut body, dst, Calc::Copy(src));
        }
        s.out.push(Stmt::Repair {
            check,
            limit: fixed.limit,
            body,
        });
        Ok(())
    }

    /// Every sum follows the reference.
    fn move_sums(
        &mut self,
        f: &Fold,
        factor: ValueId,
        local: &super::fold::Local,
        body: &mut Vec<Stmt>,
    ) -> Result<(), CompileError> {
        let factor = self.tile(factor, local)?;
        for c in &f.carries {
            if matches!(c.kind, CarryKind::Sum { rescaled: true, .. }) {
                let dst = self.tile(c.arg, local)?;
                calc(
                    body,
                    dst,
                    Calc::Binary(BinaryOp::Mul, Src::Tile(dst), Src::Tile(factor)),
                );
            }
        }
        Ok(())
    }

    fn warp_dot(&self, fold: &str, dot: ValueId, acc: crate::role::RegTileId) -> Result<Stmt, Refusal> {
        let key = format!("folds.{fold}.rescale");
        let Op::Dot { a, b } = *self.kernel.op(dot) else {
            let why = ["the scores are no dot", "exact, lazy"];
            return Err(self.scheduled.refuse(dot, key, "fixed", why));
        };
        let (in_shared, k_major) = (
            self.loads.contains_key(&a.value) && self.loads.contains_key(&b.value),
            !a.transposed && b.transposed,
        );
        let cols = mat(self.kernel, dot).1;
        if !in_shared || !k_major || !cols.is_multiple_of(16) {
            let what = told(self.kernel, dot);
            let why = if in_shared && k_major {
                let fact = format!("{what} has {cols} columns, and a repair computes 16 at a time");
                [
                    fact,
                    "exact, lazy, or a column tile that is a multiple of 16".to_owned(),
                ]
            } else {
                let fact =
                    format!("a repair reads operands as they were loaded, contiguous along the contraction of {what}");
                [fact, "exact, lazy".to_owned()]
            };
            let why = [why[0].as_str(), why[1].as_str()];
            return Err(self.scheduled.refuse(dot, key, "fixed", why));
        }
        let depth = mat(self.kernel, a.value).1;
        let dtype = self.kernel.value(a.value).ty.dtype;
        Ok(Stmt::WarpDot {
            acc,
            a: self.shared_operand(a, false),
            b: self.shared_operand(b, false),
            rows: self.program.rows_per_consumer,
            cols,
            depth,
            dtype,
        })
    }
}

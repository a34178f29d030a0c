//! The narrower diagonal step: dots of the first trip that a warpgroup may run over half of their columns.
//!
//! A dot may leave columns out when nothing but a mask sees them: its value goes through calculations of one element at a
//! time to masks, each of which overwrites what it drops.

use dsl::ir::{Op, ValueId};

use crate::error::Refusal;
use crate::plan::mat;
use crate::role::{Narrow, Term};

use super::Lower;
use super::trip_plan::{TripPlan, Work};

impl Lower<'_> {
    /// The narrow form of a dot, when the masks behind it allow one.
    pub(super) fn narrow_form(&self, dot: ValueId, stage: u32) -> Option<Narrow> {
        let full = mat(self.kernel, dot).1;
        let cols = full.div_ceil(2).next_multiple_of(8);
        // An N-major operand is cut between its boxes of 64 columns.
        let n_major = matches!(self.kernel.op(dot), Op::Dot { b, .. } if !b.transposed);
        if cols >= full || n_major && !cols.is_multiple_of(64) {
            return None;
        }
        let mut masks = vec![];
        if !self.only_masks(dot, &mut masks) {
            return None;
        }
        // Every mask must drop the columns; terms that one of several masks has say nothing about the others.
        let [mask] = masks.as_slice() else { return None };
        let Op::Mask { mask, .. } = self.kernel.op(*mask) else {
            return None;
        };
        let terms: Vec<Term> = mask
            .terms
            .iter()
            .filter(|t| t.col_coef < 0)
            .map(|t| Term {
                row_coef: t.row_coef,
                col_coef: t.col_coef,
                base: self.expr(&t.base, stage),
            })
            .collect();
        (!terms.is_empty()).then_some(Narrow { cols, terms })
    }

    /// Whether any dot of the first trip has a narrow form.
    pub(super) fn narrows(&self, plan: &TripPlan) -> bool {
        plan.nodes
            .iter()
            .any(|n| n.work == Work::Dot { acc: None } && n.stage == 0 && self.narrow_form(n.id, 0).is_some())
    }

    /// Whether every path from `id` reaches a mask through element-wise calculations; collects the masks.
    fn only_masks(&self, id: ValueId, masks: &mut Vec<ValueId>) -> bool {
        let users = self.users.get(&id).map_or(&[][..], Vec::as_slice);
        !users.is_empty()
            && users.iter().all(|user| match self.kernel.op(*user) {
                Op::Mask { .. } => {
                    if !masks.contains(user) {
                        masks.push(*user);
                    }
                    true
                }
                Op::Unary(..) | Op::Binary(..) | Op::Fma(..) | Op::Select { .. } => self.only_masks(*user, masks),
                _ => false,
            })
    }

    /// A fold that is asked to narrow must have a first trip of its own and a dot that a mask follows.
    pub(super) fn narrow_refusal(fold: &str, peeled: bool) -> Refusal {
        let key = format!("folds.{fold}.narrow");
        if peeled {
            Refusal::new(
                key,
                "true",
                "no dot of this fold at stage 0 goes to one mask alone that drops columns on the right, or they are too few to cut",
                "false, or a kernel that masks its scores",
            )
        } else {
            Refusal::new(
                key,
                "true",
                "the first trip is not emitted apart",
                format!("false, or folds.{fold}.peel = true"),
            )
        }
    }
}

//! Scopes: a value is used after it is computed, and inside the fold that computes it.

use super::error::{Invalid, Report};
use super::structure::Placed;
use crate::ir::{CarryKind, Fold, Op, ValueId};

pub(super) fn check(report: &mut Report<'_>) {
    let mut scopes = Scopes {
        computed: vec![None; report.kernel.values.len()],
    };
    scopes.block(report, &report.kernel.body, None);
}

struct Scopes {
    /// Where each value was computed, once it was: at the top (`Some(None)`) or in a fold.
    computed: Vec<Option<Option<ValueId>>>,
}

impl Scopes {
    fn block(&mut self, report: &mut Report<'_>, ids: &[ValueId], fold: Option<ValueId>) {
        for &id in ids {
            let (placed, op) = (Placed { id, fold }, &report.kernel.value(id).op);
            match op {
                Op::FoldOut { fold, carry } => self.total(report, placed, *fold, *carry),
                Op::FoldArg { .. } => {
                    let value = report.label(id);
                    report.at(id, Invalid::StrayArgument { value });
                }
                _ => op.operands().into_iter().for_each(|o| self.operand(report, placed, o)),
            }
            self.computed[id.0 as usize] = Some(fold);
            if let Op::Fold(inner) = op {
                self.arguments(report, id, inner);
                self.block(report, &inner.body, Some(id));
                self.carries(report, id, inner);
            }
        }
    }

    fn operand(&self, report: &mut Report<'_>, user: Placed, value: ValueId) {
        let what = match &report.kernel.value(value).op {
            Op::Store { .. } => Some("store"),
            Op::Fold(_) => Some("fold"),
            _ => None,
        };
        let (label, user_label) = (report.label(value), report.label(user.id));
        if let Some(what) = what {
            report.at(
                user.id,
                Invalid::NotATile {
                    value: label,
                    user: user_label,
                    what,
                },
            );
            return;
        }
        match self.computed[value.0 as usize] {
            None => report.at(
                user.id,
                Invalid::NotYetComputed {
                    value: label,
                    user: user_label,
                },
            ),
            Some(Some(fold)) if user.fold != Some(fold) => {
                let fold = report.label(fold);
                report.at(
                    user.id,
                    Invalid::OutsideFold {
                        value: label,
                        fold,
                        user: user_label,
                    },
                );
            }
            Some(_) => {}
        }
    }

    fn total(&self, report: &mut Report<'_>, user: Placed, fold: ValueId, carry: u32) {
        let (value, of) = (report.label(user.id), report.label(fold));
        // A total read inside its own fold would see an unfinished loop.
        let done = self.computed[fold.0 as usize].is_some() && user.fold != Some(fold);
        match report.kernel.fold(fold) {
            Some(f) if done => {
                let count = f.carries.len();
                if carry as usize >= count {
                    report.at(
                        user.id,
                        Invalid::TotalOfNoCarry {
                            value,
                            fold: of,
                            carry,
                            count,
                        },
                    );
                }
            }
            _ => report.at(user.id, Invalid::TotalOfNoFold { value, of }),
        }
    }

    fn arguments(&mut self, report: &mut Report<'_>, id: ValueId, fold: &Fold) {
        for (i, carry) in fold.carries.iter().enumerate() {
            let op = &report.kernel.value(carry.arg).op;
            let right = matches!(op, Op::FoldArg { carry } if *carry as usize == i);
            let slot = &mut self.computed[carry.arg.0 as usize];
            if !right || slot.is_some() {
                let value = report.label(carry.arg);
                report.at(
                    id,
                    Invalid::CarryArgument {
                        fold: fold.name.clone(),
                        carry: carry.name.clone(),
                        value,
                    },
                );
            } else {
                *slot = Some(Some(id));
            }
        }
    }

    fn carries(&self, report: &mut Report<'_>, id: ValueId, fold: &Fold) {
        for carry in &fold.carries {
            if let CarryKind::Sum { contribution: next, .. } | CarryKind::Next(next) = carry.kind {
                self.operand(report, Placed { id, fold: Some(id) }, next);
            }
        }
    }
}

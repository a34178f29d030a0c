//! Rewrites of the tile IR, each with its numerical class. One file each; this list is the whole pipeline.

pub mod contract;
pub mod dead;
pub mod rebase;
pub mod scale_through_max;

use dsl::Kernel;
use dsl::ir::ValueId;

use crate::plan::Scheduled;

/// How far a rewrite may move a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// The same bits.
    Bitwise,
    /// Other roundings of the same f32 operations.
    Reassociated,
    /// Another reference of a rescaled fold: relative error of the 16-bit weights is unchanged.
    Rescaled,
    /// `exp2` within 5e-6 relative; a score that is no number counts as minus infinity.
    ApproxExp2,
}

/// Runs every rewrite on the bound kernel.
#[must_use]
pub fn run(mut scheduled: Scheduled) -> Scheduled {
    let folds: Vec<ValueId> = scheduled.choices.folds.keys().copied().collect();
    for fold in folds {
        let choice = &scheduled.choices.folds[&fold];
        let mut also = vec![];
        if let Some(expanded) = rebase::expand(&mut scheduled.kernel, fold, choice) {
            scheduled.factors.insert(fold, expanded.factor);
            scheduled.fixed.extend(expanded.fixed.map(|f| (fold, f)));
            also.push(expanded.factor);
            also.extend(expanded.fixed.map(|f| f.fast));
        }
        scale_through_max::run(&mut scheduled.kernel, fold);
        contract::run(&mut scheduled.kernel, fold);
        dead::run(&mut scheduled.kernel, fold, also);
    }
    scheduled
}

/// Replaces the body of a fold.
pub(crate) fn set_body(kernel: &mut Kernel, fold: ValueId, body: Vec<ValueId>) {
    if let dsl::ir::Op::Fold(f) = &mut kernel.values[fold.0 as usize].op {
        f.body = body;
    }
}

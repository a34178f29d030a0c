//! Index expressions: which symbols may stand where, and masks that the lowering can reason about.

use super::error::{Invalid, Report};
use super::structure::Placed;
use crate::index::{IterId, Ix};
use crate::ir::{At, Mask, Op, ValueId};

pub(super) fn check(report: &mut Report<'_>, program: &[Placed]) {
    let kernel = report.kernel;
    for axis in &kernel.grid {
        // The grid is fixed before any block runs.
        let allowed = "literals, runtime sizes and tile sizes";
        for symbol in symbols(&axis.count, |leaf| matches!(leaf, Ix::Axis(_) | Ix::Iter(_))) {
            let place = format!("the count of grid axis `{}`", axis.name);
            let (ix, symbol) = (report.names.ix(&axis.count), report.names.ix(&symbol));
            report.general(Invalid::IndexSymbol {
                place,
                ix,
                symbol,
                allowed,
            });
        }
    }
    for placed in program {
        let iter = placed.fold.and_then(|f| kernel.fold(f)).map(|f| f.iter);
        match kernel.op(placed.id) {
            Op::Load { at, .. } | Op::Store { at, .. } => at.iter().for_each(|entry| {
                let (At::Point(ix) | At::Span { start: ix, .. }) = entry;
                in_reach(report, placed.id, ix, iter);
            }),
            Op::Mask { mask, .. } => mask_terms(report, placed.id, mask, iter),
            Op::Fold(fold) => trips(report, placed.id, &fold.trips),
            _ => {}
        }
    }
}

/// Only the counter of the fold around it may be used.
fn in_reach(report: &mut Report<'_>, id: ValueId, ix: &Ix, iter: Option<IterId>) {
    let allowed = "literals, runtime sizes, tile sizes, grid axes, and the counter of the fold around it";
    for symbol in symbols(ix, |leaf| matches!(leaf, Ix::Iter(i) if Some(*i) != iter)) {
        let place = format!("an index of `{}`", report.label(id));
        let (ix, symbol) = (report.names.ix(ix), report.names.ix(&symbol));
        report.at(
            id,
            Invalid::IndexSymbol {
                place,
                ix,
                symbol,
                allowed,
            },
        );
    }
}

fn trips(report: &mut Report<'_>, id: ValueId, ix: &Ix) {
    let allowed = "literals, runtime sizes, tile sizes and grid axes";
    for symbol in symbols(ix, |leaf| matches!(leaf, Ix::Iter(_))) {
        let place = format!("the number of trips of fold `{}`", report.label(id));
        let (ix, symbol) = (report.names.ix(ix), report.names.ix(&symbol));
        report.at(
            id,
            Invalid::IndexSymbol {
                place,
                ix,
                symbol,
                allowed,
            },
        );
    }
}

fn mask_terms(report: &mut Report<'_>, id: ValueId, mask: &Mask, iter: Option<IterId>) {
    if mask.terms.is_empty() {
        let value = report.label(id);
        report.at(id, Invalid::MaskEmpty { value });
    }
    for term in &mask.terms {
        in_reach(report, id, &term.base, iter);
        // Splitting a fold by its masks solves each term for the counter. By then tile sizes are numbers; any number
        // stands for them here.
        let Some(counter) = iter.map(Ix::Iter) else { continue };
        let bound = term
            .base
            .substitute(&mut |leaf| matches!(leaf, Ix::Tile(_)).then_some(Ix::Const(64)));
        if bound.affine_in(&counter).is_none() {
            let (value, names) = (report.label(id), &report.names);
            let (term, iter) = (names.position(term), names.ix(&counter));
            report.at(id, Invalid::MaskNotAffine { value, term, iter });
        }
    }
}

fn symbols(ix: &Ix, wrong: impl Fn(&Ix) -> bool) -> Vec<Ix> {
    let mut found = vec![];
    ix.leaves(&mut |leaf| {
        if wrong(leaf) && !found.contains(leaf) {
            found.push(leaf.clone());
        }
    });
    found
}

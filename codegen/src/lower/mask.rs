//! Splitting a fold by what its masks can prove.
//!
//! A term `r * row + c * col + a * j + b >= 0` holds for a whole tile when it holds at its worst corner. With `a < 0` that
//! is true below some trip, with `a > 0` from some trip on; together the masks of a body are vacuous on one interval.

use dsl::Kernel;
use dsl::index::Ix;
use dsl::ir::{Fold, Op};

use crate::plan::mat;

/// The interval of trips `[low, high)` on which every mask of the body holds everywhere.
pub struct Vacuous {
    pub low: Option<Ix>,
    pub high: Option<Ix>,
}

/// Computes the interval; `None` when a mask is not affine in the trip.
#[must_use]
pub fn vacuous(kernel: &Kernel, fold: &Fold) -> Option<Vacuous> {
    let mut out = Vacuous { low: None, high: None };
    for id in &fold.body {
        let Op::Mask { src, mask, .. } = kernel.op(*id) else {
            continue;
        };
        let (rows, cols) = mat(kernel, *src);
        for term in &mask.terms {
            let corner = |coef: i64, extent: u32| (coef * (i64::from(extent) - 1)).min(0);
            let worst = corner(term.row_coef, rows) + corner(term.col_coef, cols);
            let (a, b) = term.base.affine_in(&Ix::Iter(fold.iter))?;
            let b = b + Ix::from(worst);
            if a < 0 {
                let bound = b.floor_div(-a) + 1;
                out.high = Some(out.high.map_or(bound.clone(), |h| h.min(bound)));
            } else if a > 0 {
                let bound = (Ix::from(0) - b).ceil_div(a);
                out.low = Some(out.low.map_or(bound.clone(), |l| l.max(bound)));
            } else {
                // The same for every trip: all of them when it holds, none when it does not.
                let all = (b + 1).min(1).max(0) * fold.trips.clone();
                out.high = Some(out.high.map_or(all.clone(), |h| h.min(all)));
            }
        }
    }
    Some(out)
}

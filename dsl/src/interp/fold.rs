//! Folds, and the exact meaning of a running reference.
//!
//! With `m` the reference before a trip and `m'` after it:
//! - `m' = max(m, row_max(scores))`, ignoring scores that are not numbers;
//! - a rebase gives `exp2(scores - m')`, where an `m'` of -inf counts as 0, so that a row of nothing but -inf gives 0;
//! - a rescaled sum becomes `sum * exp2(m - m') + contribution`, and the factor is 0 while `m` is -inf, since such a sum
//!   is still zero.

use super::error::InterpError;
use super::machine::Machine;
use super::tile::TileData;
use crate::ir::{BinaryOp, Carry, CarryKind, Fold, ReduceOp, UnaryOp, ValueId};

/// What a rebase did to the reference in this trip.
pub(super) struct FoldState {
    /// The reference after the trip, `[rows]`.
    reference: TileData,
    /// By row: what earlier sums are multiplied with.
    factor: TileData,
}

impl Machine<'_> {
    pub fn fold(&mut self, id: ValueId, fold: &Fold) -> Result<(), InterpError> {
        let (label, site) = (self.kernel.label(id), &self.kernel.value(id).site);
        let trips = self.sizes.eval_at(self.kernel, &fold.trips, &self.at, (&label, site))?;
        if trips < 1 {
            return Err(InterpError::NoTrips {
                fold: label,
                trips,
                site: site.clone(),
            });
        }
        for carry in &fold.carries {
            let start = TileData::filled(self.sizes.shape(carry.ty.shape), f64::from(carry.init));
            self.env[carry.arg.0 as usize] = Some(start);
        }
        for trip in 0..trips {
            self.at.iter = Some((fold.iter, trip));
            self.moved = None;
            self.block(&fold.body)?;
            // All carries move at once: a next value may be another carry's current one.
            let next: Vec<TileData> = fold
                .carries
                .iter()
                .map(|c| self.next(id, c))
                .collect::<Result<_, _>>()?;
            for (carry, tile) in fold.carries.iter().zip(next) {
                self.env[carry.arg.0 as usize] = Some(tile);
            }
        }
        self.at.iter = None;
        Ok(())
    }

    fn next(&self, fold: ValueId, carry: &Carry) -> Result<TileData, InterpError> {
        let current = self.get(fold, carry.arg)?;
        match &carry.kind {
            CarryKind::Next(next) => self.get(fold, *next).cloned(),
            CarryKind::Reference => Ok(self.moved.as_ref().map_or(current, |m| &m.reference).clone()),
            CarryKind::Sum { contribution, rescaled } => {
                let (shape, arith) = ((current.rows, current.cols), self.arith);
                let added = self.get(fold, *contribution)?;
                let sum = |carried: &TileData| {
                    TileData::map(shape, [carried, added], |[x, y]| arith.binary(BinaryOp::Add, x, y))
                };
                let Some(moved) = self.moved.as_ref().filter(|_| *rescaled) else {
                    return Ok(sum(current));
                };
                let scale = |[x, factor]: [f64; 2]| arith.binary(BinaryOp::Mul, x, factor);
                Ok(sum(&TileData::map(shape, [current, &moved.factor], scale)))
            }
        }
    }

    pub fn rebase(&mut self, id: ValueId, scores: ValueId) -> Result<TileData, InterpError> {
        let (arith, scores) = (self.arith, self.get(id, scores)?);
        let old = self.get(id, self.reference_of(id).unwrap_or(id))?;
        let rows = (scores.rows, 1);
        let peak = arith.reduce(ReduceOp::Max, scores);
        let reference = TileData::map(rows, [old, &peak], |[m, s]| arith.binary(BinaryOp::Max, m, s));
        let exp2_of_difference = |x: f64, y: f64| arith.unary(UnaryOp::Exp2, arith.binary(BinaryOp::Sub, x, y));
        let factor = TileData::map(rows, [old, &reference], |[m, new]| {
            if m == f64::NEG_INFINITY {
                0.0
            } else {
                exp2_of_difference(m, new)
            }
        });
        let out = TileData::map((scores.rows, scores.cols), [scores, &reference], |[x, m]| {
            exp2_of_difference(x, if m == f64::NEG_INFINITY { 0.0 } else { m })
        });
        self.moved = Some(FoldState { reference, factor });
        Ok(out)
    }

    /// The carry argument of the reference of the fold around a rebase.
    fn reference_of(&self, rebase: ValueId) -> Option<ValueId> {
        let (iter, _) = self.at.iter?;
        let mut folds = self.kernel.body.iter().filter_map(|id| self.kernel.fold(*id));
        let fold = folds.find(|f| f.iter == iter && f.body.contains(&rebase))?;
        fold.carries
            .iter()
            .find(|c| c.kind == CarryKind::Reference)
            .map(|c| c.arg)
    }
}

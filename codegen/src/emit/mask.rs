//! Masks: compare-time constants against one limit per row.

use crate::ptx::{Class, Cmp, IntOp, Kind, Opd, Reg};
use crate::role::{Layout, RegTileId, Term};

use super::{Emitter, nth};

impl Emitter<'_> {
    /// `dst = keep ? src : fill`, where every term must be at least zero.
    ///
    /// Terms with one column coefficient fold into one limit per row: `min(term at column 0)`.
    pub fn mask(&mut self, dst: RegTileId, src: RegTileId, terms: &[Term], fill: f32) {
        let Layout::Acc { slabs, cols } = self.p.tiles[dst.0 as usize].layout else {
            return;
        };
        let (dst, src) = (self.tile(dst), self.tile(src));
        let mut coefs: Vec<i64> = terms.iter().map(|t| t.col_coef).collect();
        coefs.sort_unstable();
        coefs.dedup();
        let limits: Vec<(i64, Vec<Reg>)> = coefs
            .iter()
            .map(|c| {
                let group: Vec<Term> = terms.iter().filter(|t| t.col_coef == *c).cloned().collect();
                (*c, self.limits(&group, slabs))
            })
            .collect();
        for e in 0..slabs * cols / 2 {
            let i = e % (cols / 2);
            let row = e / (cols / 2) * 2 + (i >> 1 & 1);
            let col = i64::from(i >> 2) * 8 + i64::from(i & 1);
            let mut drop: Option<Reg> = None;
            for (coef, limits) in &limits {
                let p = self.reg(Class::Pred);
                self.push(Kind::SetpI {
                    cmp: Cmp::Lt,
                    dst: p,
                    a: limits[row as usize].into(),
                    b: Opd::Int(-coef * col),
                });
                drop = Some(match drop {
                    None => p,
                    Some(q) => {
                        let either = self.reg(Class::Pred);
                        self.push(Kind::PredOr {
                            dst: either,
                            a: p,
                            b: q,
                        });
                        either
                    }
                });
            }
            if let Some(pred) = drop {
                self.push(Kind::SelpF {
                    dst: nth(dst, e),
                    a: Opd::Float(fill),
                    b: nth(src, e).into(),
                    pred,
                });
            }
        }
    }

    /// One limit per row: the smallest term at this thread's first column.
    fn limits(&mut self, terms: &[Term], slabs: u32) -> Vec<Reg> {
        let firsts: Vec<(i64, Reg)> = terms
            .iter()
            .map(|t| {
                let base = self.expr(&t.base);
                let base = self.mov(Class::B32, base);
                let with_col = if t.col_coef == 0 {
                    base
                } else {
                    self.mad(self.at.col, Opd::Int(t.col_coef), base)
                };
                let first = if t.row_coef == 0 {
                    with_col
                } else {
                    self.mad(self.at.row, Opd::Int(t.row_coef), with_col)
                };
                (t.row_coef, first)
            })
            .collect();
        (0..2 * slabs)
            .map(|r| {
                let down = i64::from(r / 2 * 64 + r % 2 * 8);
                let mut limit: Option<Reg> = None;
                for (coef, first) in &firsts {
                    let here = if *coef == 0 || down == 0 {
                        *first
                    } else {
                        self.int(IntOp::Add, *first, Opd::Int(coef * down))
                    };
                    limit = Some(match limit {
                        None => here,
                        Some(l) => self.int(IntOp::MinS, l, here),
                    });
                }
                limit.unwrap_or(self.at.row)
            })
            .collect()
    }
}

//! Dots that a warpgroup may narrow: a group over the left columns, then one over the others behind a uniform branch.
//!
//! Two forms of one group in the two arms of a branch make the assembler serialise the function (C7511); one group that is
//! there or not, with an accumulator of its own, does not.

use crate::ptx::{Class, Cmp, Kind, Opd, Reg};
use crate::role::{Dot, Narrow, Term};

use super::dot::Operands;
use super::{Emitter, nth};

impl Emitter<'_> {
    /// Issues the left columns, then the others unless this warpgroup leaves them out.
    pub(super) fn issue_narrow(&mut self, dot: &Dot, narrow: &Narrow, operands: &Operands) {
        let join = self.label();
        let drops: Vec<Reg> = narrow.terms.iter().map(|t| self.drops(dot, narrow.cols, t)).collect();
        self.zeros(dot, narrow.cols);
        // The zeros are ordinary writes to registers that the second group adds to (PTX ISA 9.7.15.7.1).
        self.push(Kind::WgmmaFence);
        self.group(dot, 0..narrow.cols, operands);
        for p in drops {
            self.push_if(p, true, Kind::Bra(join));
        }
        self.note(format!("{}: columns from {}", dot.name, narrow.cols));
        self.group(dot, narrow.cols..dot.cols, operands);
        self.push(Kind::Label(join));
    }

    /// Whether a term is negative for every row of this warpgroup from column `cols` on.
    fn drops(&mut self, dot: &Dot, cols: u32, term: &Term) -> Reg {
        let base = self.expr(&term.base);
        let mut worst = self.mov(Class::B32, base);
        // The row that keeps most: the last one where rows raise the term, else the first.
        let last = if term.row_coef > 0 { dot.rows - 1 } else { 0 };
        let fixed = term.row_coef * i64::from(last) + term.col_coef * i64::from(cols);
        if term.row_coef != 0 {
            let step = term.row_coef * i64::from(dot.rows);
            worst = self.mad(self.at.consumer, Opd::Int(step), worst);
        }
        let p = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Lt,
            dst: p,
            a: worst.into(),
            b: Opd::Int(-fixed),
        });
        p
    }

    /// Zeros for the accumulator's columns from `cols` on.
    fn zeros(&mut self, dot: &Dot, cols: u32) {
        let (acc, per_slab) = (self.tile(dot.acc), dot.cols / 2);
        for slab in 0..dot.rows / 64 {
            for i in cols / 2..per_slab {
                self.push(Kind::Mov {
                    dst: nth(acc, slab * per_slab + i),
                    src: Opd::Float(0.0),
                });
            }
        }
    }
}

//! Uniform integer expressions.

use dsl::IxBin;

use crate::ptx::{Class, Cmp, IntOp, Kind, Opd};
use crate::role::Expr;

use super::Emitter;

impl Emitter<'_> {
    /// Evaluates an expression.
    pub fn expr(&mut self, e: &Expr) -> Opd {
        match e {
            Expr::Const(v) => Opd::Int(*v),
            Expr::Runtime(i) => self.runtime[*i as usize].into(),
            Expr::Var(v) => self.vars[v.0 as usize].into(),
            Expr::Bin(op, ab) => {
                let (a, b) = (self.expr(&ab.0), self.expr(&ab.1));
                self.bin(*op, a, b)
            }
        }
    }

    fn bin(&mut self, op: IxBin, a: Opd, b: Opd) -> Opd {
        let simple = match op {
            IxBin::Add => IntOp::Add,
            IxBin::Sub => IntOp::Sub,
            IxBin::Mul => IntOp::MulLo,
            IxBin::Min => IntOp::MinS,
            IxBin::Max => IntOp::MaxS,
            IxBin::FloorDiv => return self.floor_div(a, b),
            IxBin::CeilDiv => {
                let up = self.int(IntOp::Add, a, b);
                let up = self.int(IntOp::Sub, up, 1u32);
                return self.floor_div(up.into(), b);
            }
            IxBin::Rem => {
                let q = self.floor_div(a, b);
                let whole = self.int(IntOp::MulLo, q, b);
                return self.int(IntOp::Sub, a, whole).into();
            }
        };
        // PTX takes an immediate on the right only.
        match (a, b, simple) {
            (Opd::Int(_), Opd::Reg(_), IntOp::Sub) => {
                let a = self.mov(Class::B32, a);
                self.int(simple, a, b).into()
            }
            (Opd::Int(_), Opd::Reg(_), _) => self.int(simple, b, a).into(),
            _ => self.int(simple, a, b).into(),
        }
    }

    /// Division that rounds down; a shift where it can be one.
    fn floor_div(&mut self, a: Opd, b: Opd) -> Opd {
        if let Opd::Int(v) = b
            && v > 0
            && v & (v - 1) == 0
        {
            return self.int(IntOp::ShrS, a, i64::from(v.trailing_zeros())).into();
        }
        let q = self.int(IntOp::DivS, a, b);
        let back = self.int(IntOp::MulLo, q, b);
        let r = self.int(IntOp::Sub, a, back);
        let p = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Lt,
            dst: p,
            a: r.into(),
            b: Opd::Int(0),
        });
        self.push_if(
            p,
            true,
            Kind::Int {
                op: IntOp::Sub,
                wide: false,
                dst: q,
                a: q.into(),
                b: Opd::Int(1),
            },
        );
        q.into()
    }
}

//! The right-hand side of each value.

use super::Names;
use crate::ir::{At, BinaryOp, CmpOp, Mask, Op, Operand, ReduceOp, UnaryOp, ValueId};

impl Names<'_> {
    /// What a value is, without its name and type.
    #[must_use]
    pub fn op(&self, op: &Op) -> String {
        match op {
            Op::Load { tensor, at } => format!("load {}{}", self.tensor(*tensor), self.place(at)),
            Op::Const(v) => format!("const {v:?}"),
            Op::Param(p) => format!("param {}", self.scalar(*p)),
            Op::Unary(op, a) => format!("{} {}", unary(*op), self.value(*a)),
            Op::Binary(op, a, b) => format!("{} {}", binary(*op), self.list(&[*a, *b])),
            Op::Fma(a, b, c) => format!("fma {}", self.list(&[*a, *b, *c])),
            Op::Cast(a) => format!("cast {}", self.value(*a)),
            Op::Mask { src, mask, fill } => self.mask(*src, mask, *fill),
            Op::Select {
                cmp,
                lhs,
                rhs,
                then,
                otherwise,
            } => {
                let [l, r, t, o] = [lhs, rhs, then, otherwise].map(|v| self.value(*v));
                format!("select {l} {} {r} then {t} else {o}", comparison(*cmp))
            }
            Op::Reduce(op, a) => format!("{} {}", reduction(*op), self.value(*a)),
            Op::Dot { a, b } => format!("dot {}, {}", self.operand(*a), self.operand(*b)),
            Op::Rebase { scores } => format!("rebase {}", self.value(*scores)),
            Op::Fold(fold) => format!("fold {}", fold.name),
            Op::FoldArg { carry } => format!("carry #{carry}"),
            Op::FoldOut { fold, carry } => self.total(*fold, *carry),
            Op::Store { tensor, at, src } => {
                format!(
                    "store {}{} = {}",
                    self.tensor(*tensor),
                    self.place(at),
                    self.value(*src)
                )
            }
        }
    }

    /// The indices of a load or store, in brackets.
    #[must_use]
    pub fn place(&self, at: &[At]) -> String {
        let entries = at.iter().map(|entry| match entry {
            At::Point(ix) => self.ix(ix),
            At::Span { start, len } => format!("{} ..+ {}", self.ix(start), self.extent(*len)),
        });
        format!("[{}]", entries.collect::<Vec<_>>().join(", "))
    }

    fn list(&self, ids: &[ValueId]) -> String {
        ids.iter().map(|id| self.value(*id)).collect::<Vec<_>>().join(", ")
    }

    fn operand(&self, operand: Operand) -> String {
        let suffix = if operand.transposed { "^T" } else { "" };
        format!("{}{suffix}", self.value(operand.value))
    }

    fn mask(&self, src: ValueId, mask: &Mask, fill: f32) -> String {
        let terms: Vec<_> = mask
            .terms
            .iter()
            .map(|t| format!("{} >= 0", self.position(t)))
            .collect();
        format!("mask {} where {} else {fill:?}", self.value(src), terms.join(" and "))
    }

    fn total(&self, fold: ValueId, carry: u32) -> String {
        let name = self.fold_carry(fold, carry).unwrap_or_else(|| format!("?{carry}"));
        format!("total {}.{name}", self.value(fold))
    }
}

fn unary(op: UnaryOp) -> &'static str {
    match op {
        UnaryOp::Neg => "neg",
        UnaryOp::Exp2 => "exp2",
        UnaryOp::Log2 => "log2",
        UnaryOp::Recip => "recip",
        UnaryOp::Tanh => "tanh",
        UnaryOp::Abs => "abs",
        UnaryOp::Sqrt => "sqrt",
    }
}

fn binary(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => "add",
        BinaryOp::Sub => "sub",
        BinaryOp::Mul => "mul",
        BinaryOp::Div => "div",
        BinaryOp::Max => "max",
        BinaryOp::Min => "min",
    }
}

fn reduction(op: ReduceOp) -> &'static str {
    match op {
        ReduceOp::Sum => "row_sum",
        ReduceOp::Max => "row_max",
    }
}

fn comparison(op: CmpOp) -> &'static str {
    match op {
        CmpOp::Eq => "==",
        CmpOp::Lt => "<",
        CmpOp::Le => "<=",
        CmpOp::Gt => ">",
        CmpOp::Ge => ">=",
    }
}

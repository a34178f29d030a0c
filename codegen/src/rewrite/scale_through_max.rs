//! `row_max(x * s)` becomes `row_max(x) * s` for a scalar `s > 0`.
//!
//! Rounding is monotone, so the maximum of rounded products is the rounded product of the maximum. Class: `Bitwise`.

use dsl::Kernel;
use dsl::ir::{BinaryOp, Op, ReduceOp, ValueId};

/// Runs over one fold body.
pub fn run(kernel: &mut Kernel, fold: ValueId) {
    let Some(f) = kernel.fold(fold).cloned() else { return };
    let mut out = vec![];
    for id in f.body {
        if let Op::Reduce(ReduceOp::Max, src) = *kernel.op(id)
            && let Op::Binary(BinaryOp::Mul, x, s) = *kernel.op(src)
            && positive(kernel, s)
        {
            let (ty, site) = (kernel.value(id).ty, kernel.value(id).site.clone());
            let max = kernel.push(Op::Reduce(ReduceOp::Max, x), ty, site);
            kernel.values[id.0 as usize].op = Op::Binary(BinaryOp::Mul, max, s);
            out.push(max);
        }
        out.push(id);
    }
    super::set_body(kernel, fold, out);
}

fn positive(kernel: &Kernel, id: ValueId) -> bool {
    match kernel.op(id) {
        Op::Param(p) => kernel.scalars.get(p.0 as usize).is_some_and(|s| s.positive),
        Op::Const(v) => *v > 0.0 && v.is_finite(),
        _ => false,
    }
}

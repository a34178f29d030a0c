//! `a * b - c` and `a * b + c` become one fused multiply-add; a subtracted row is negated once per row.
//!
//! One rounding instead of two. Class: `Reassociated`.

use dsl::Kernel;
use dsl::ir::{BinaryOp, Op, Shape, UnaryOp, ValueId};

/// Runs over one fold body.
pub fn run(kernel: &mut Kernel, fold: ValueId) {
    let Some(f) = kernel.fold(fold).cloned() else { return };
    let mut out = vec![];
    for id in f.body {
        let matrix = matches!(kernel.value(id).ty.shape, Shape::Mat(..));
        if let Op::Binary(op @ (BinaryOp::Sub | BinaryOp::Add), x, c) = *kernel.op(id)
            && let Op::Binary(BinaryOp::Mul, a, b) = *kernel.op(x)
            && matrix
            && !matches!(kernel.value(c).ty.shape, Shape::Mat(..))
        {
            let addend = if op == BinaryOp::Sub {
                let (ty, site) = (kernel.value(c).ty, kernel.value(c).site.clone());
                let neg = kernel.push(Op::Unary(UnaryOp::Neg, c), ty, site);
                out.push(neg);
                neg
            } else {
                c
            };
            kernel.values[id.0 as usize].op = Op::Fma(a, b, addend);
        }
        out.push(id);
    }
    super::set_body(kernel, fold, out);
}

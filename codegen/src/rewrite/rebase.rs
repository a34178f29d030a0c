//! `rebase(x)` becomes the operations of the chosen policy.
//!
//! Before: `p = rebase(x)`, sums that follow the reference.
//! After (exact): `new = max(ref, row_max(x))`, `f = exp2(ref - new)`, `p = exp2(x - new)`, sums scaled by `f`.
//! After (lazy, threshold t): `new = ref` for the rows where `max(ref, row_max(x)) <= ref + t`.
//! A row that saw nothing keeps a reference of -inf; its exponents are taken against 0, so that no NaN appears.
//! After (fixed): lazy where the fold is masked and on its first trip; elsewhere `p = exp2(x - ref)` with `ref` as it
//! stands. A row whose sum of weights then leaves the safe range (or whose reference is still -inf: the exponent is
//! +inf, the sum no number) is computed again in the lazy form, so the result is that of the lazy form for any input.
//! Class: `Bitwise` for exact (it is the definition), `Rescaled` for lazy and fixed.

use dsl::ir::{BinaryOp, CarryKind, CmpOp, Op, ReduceOp, Shape, Site, TileType, UnaryOp, ValueId};
use dsl::schedule::Rescale;
use dsl::{DType, Kernel};

use crate::plan::{FixedReference, FoldChoice};

use super::set_body;

struct Builder<'a> {
    kernel: &'a mut Kernel,
    out: Vec<ValueId>,
    row: TileType,
    site: Site,
}

impl Builder<'_> {
    fn push(&mut self, op: Op, ty: TileType) -> ValueId {
        let id = self.kernel.push(op, ty, self.site.clone());
        self.out.push(id);
        id
    }

    fn row(&mut self, op: Op) -> ValueId {
        self.push(op, self.row)
    }

    fn constant(&mut self, v: f32) -> ValueId {
        self.push(
            Op::Const(v),
            TileType {
                shape: Shape::Scalar,
                dtype: DType::F32,
            },
        )
    }
}

/// What became of a rebase.
pub struct Expanded {
    /// The per-row factor by which the sums follow the reference.
    pub factor: ValueId,
    /// The fast form, when the policy is fixed.
    pub fixed: Option<FixedReference>,
}

/// Expands the rebase of `fold`, if it has one.
pub fn expand(kernel: &mut Kernel, fold: ValueId, choice: &FoldChoice) -> Option<Expanded> {
    let f = kernel.fold(fold).cloned()?;
    let reference = f.reference()?;
    let mut expanded = None;
    let mut out = vec![];
    for id in &f.body {
        let Op::Rebase { scores } = *kernel.op(*id) else {
            out.push(*id);
            continue;
        };
        let carry = &f.carries[reference];
        let site = kernel.value(*id).site.clone();
        let mut b = Builder {
            kernel,
            out,
            row: carry.ty,
            site,
        };
        let (next, factor, safe) = policy(&mut b, scores, carry.arg, choice);
        let ty = b.kernel.value(*id).ty;
        let mut fixed = None;
        if choice.rescale == Rescale::Fixed {
            let shifted = b.push(Op::Binary(BinaryOp::Sub, scores, carry.arg), ty);
            let fast = b.push(Op::Unary(UnaryOp::Exp2, shifted), ty);
            fixed = watch(b.kernel, &f.body, *id).map(|check| FixedReference {
                weights: *id,
                fast,
                check,
                limit: SAFE_SUM,
                next,
                factor,
            });
        }
        let shifted = b.push(Op::Binary(BinaryOp::Sub, scores, safe), ty);
        out = b.out;
        kernel.values[id.0 as usize].op = Op::Unary(UnaryOp::Exp2, shifted);
        out.push(*id);
        kernel.values[factor.0 as usize].name = Some(format!("%{}.factor", fold.0));
        set_reference(kernel, fold, reference, next);
        expanded = Some(Expanded { factor, fixed });
    }
    set_body(kernel, fold, out);
    expanded
}

/// The largest partial sum of weights that a fixed reference leaves as it is: f16 ends at 65504, and values summed with such
/// weights in f32 may be as large as 2^100.
const SAFE_SUM: f32 = 16_384.0;

/// The row sum that watches the weights: a weight is at most its sum.
#[must_use]
pub fn watch(kernel: &Kernel, body: &[ValueId], weights: ValueId) -> Option<ValueId> {
    let mut sums = body.iter().copied();
    sums.find(|v| *kernel.op(*v) == Op::Reduce(ReduceOp::Sum, weights))
}

/// The reference carry becomes an ordinary one.
fn set_reference(kernel: &mut Kernel, fold: ValueId, reference: usize, next: ValueId) {
    if let Op::Fold(f) = &mut kernel.values[fold.0 as usize].op {
        f.carries[reference].kind = CarryKind::Next(next);
    }
}

/// New reference, factor for the sums, and the reference to take exponents against.
fn policy(
    b: &mut Builder<'_>,
    scores: ValueId,
    reference: ValueId,
    choice: &FoldChoice,
) -> (ValueId, ValueId, ValueId) {
    let top = b.row(Op::Reduce(ReduceOp::Max, scores));
    let raised = b.row(Op::Binary(BinaryOp::Max, reference, top));
    let next = match choice.rescale {
        Rescale::Exact => raised,
        Rescale::Lazy | Rescale::Fixed => {
            let t = b.constant(choice.lazy_threshold);
            let limit = b.row(Op::Binary(BinaryOp::Add, reference, t));
            b.row(Op::Select {
                cmp: CmpOp::Gt,
                lhs: raised,
                rhs: limit,
                then: raised,
                otherwise: reference,
            })
        }
    };
    let (nothing, zero) = (b.constant(f32::NEG_INFINITY), b.constant(0.0));
    let safe = b.row(Op::Select {
        cmp: CmpOp::Eq,
        lhs: next,
        rhs: nothing,
        then: zero,
        otherwise: next,
    });
    let moved = b.row(Op::Binary(BinaryOp::Sub, reference, safe));
    let factor = b.row(Op::Unary(UnaryOp::Exp2, moved));
    (next, factor, safe)
}

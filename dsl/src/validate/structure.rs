//! First check: ids lead somewhere and every value stands once, so that the other checks can walk the program.

use super::error::{Invalid, Report};
use crate::index::Ix;
use crate::ir::{At, CarryKind, Dim, Extent, Fold, Kernel, Op, Shape, TensorId, TileType, ValueId};

/// A live value and the fold whose body holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Placed {
    pub id: ValueId,
    pub fold: Option<ValueId>,
}

/// Lists the live values in program order: a fold before its body.
pub(super) fn check(report: &mut Report<'_>) -> Vec<Placed> {
    let kernel = report.kernel;
    let mut walk = Walk {
        seen: vec![false; kernel.values.len()],
        program: vec![],
    };
    walk.block(report, &kernel.body, None);
    for placed in &walk.program {
        ids_of(report, kernel, placed.id);
    }
    for tensor in &kernel.tensors {
        for dim in &tensor.dims {
            if let Dim::Runtime(r) = dim {
                let bad = unknown("runtime size", r.0, kernel.runtime.len());
                bad.into_iter().for_each(|e| report.general(e));
            }
        }
    }
    for axis in &kernel.grid {
        let mut errors = vec![];
        ix_ids(kernel, &axis.count, &mut errors);
        errors.into_iter().for_each(|e| report.general(e));
    }
    walk.program
}

struct Walk {
    seen: Vec<bool>,
    program: Vec<Placed>,
}

impl Walk {
    fn block(&mut self, report: &mut Report<'_>, ids: &[ValueId], fold: Option<ValueId>) {
        let kernel = report.kernel;
        for &id in ids {
            match self.seen.get_mut(id.0 as usize) {
                None => {
                    report.at(
                        fold.unwrap_or(id),
                        Invalid::UnknownId {
                            what: "value",
                            id: id.0,
                            count: kernel.values.len(),
                        },
                    );
                    continue;
                }
                Some(seen) if *seen => {
                    let value = report.label(id);
                    report.at(id, Invalid::ListedTwice { value });
                    continue;
                }
                Some(seen) => *seen = true,
            }
            self.program.push(Placed { id, fold });
            match (&kernel.value(id).op, fold) {
                (Op::Fold(inner), None) => self.block(report, &inner.body, Some(id)),
                (Op::Fold(inner), Some(outer)) => {
                    let (fold, outer) = (inner.name.clone(), report.label(outer));
                    report.at(id, Invalid::NestedFold { fold, outer });
                }
                _ => {}
            }
        }
    }
}

/// Ids that one value mentions.
fn ids_of(report: &mut Report<'_>, kernel: &Kernel, id: ValueId) {
    let mut errors = vec![];
    let value = kernel.value(id);
    type_ids(kernel, value.ty, &mut errors);
    for operand in value.op.operands() {
        errors.extend(value_id(kernel, operand));
    }
    match &value.op {
        Op::Load { tensor, at } | Op::Store { tensor, at, .. } => {
            errors.extend(tensor_id(kernel, *tensor));
            at.iter().for_each(|entry| at_ids(kernel, entry, &mut errors));
        }
        Op::Param(p) => errors.extend(unknown("scalar", p.0, kernel.scalars.len())),
        Op::Mask { mask, .. } => mask.terms.iter().for_each(|t| ix_ids(kernel, &t.base, &mut errors)),
        Op::Fold(fold) => fold_ids(kernel, fold, &mut errors),
        _ => {}
    }
    errors.into_iter().for_each(|e| report.at(id, e));
}

fn fold_ids(kernel: &Kernel, fold: &Fold, errors: &mut Vec<Invalid>) {
    ix_ids(kernel, &fold.trips, errors);
    for carry in &fold.carries {
        type_ids(kernel, carry.ty, errors);
        errors.extend(value_id(kernel, carry.arg));
        if let Some(arg) = kernel.values.get(carry.arg.0 as usize) {
            type_ids(kernel, arg.ty, errors);
        }
        if let CarryKind::Sum { contribution: next, .. } | CarryKind::Next(next) = carry.kind {
            errors.extend(value_id(kernel, next));
        }
    }
}

fn at_ids(kernel: &Kernel, at: &At, errors: &mut Vec<Invalid>) {
    match at {
        At::Point(ix) => ix_ids(kernel, ix, errors),
        At::Span { start, len } => {
            ix_ids(kernel, start, errors);
            extent_ids(kernel, *len, errors);
        }
    }
}

fn type_ids(kernel: &Kernel, ty: TileType, errors: &mut Vec<Invalid>) {
    for extent in extents(ty.shape) {
        extent_ids(kernel, extent, errors);
    }
}

fn extent_ids(kernel: &Kernel, extent: Extent, errors: &mut Vec<Invalid>) {
    if let Extent::Tile(t) = extent {
        errors.extend(unknown("tile size", t.0, kernel.tiles.len()));
    }
}

fn ix_ids(kernel: &Kernel, ix: &Ix, errors: &mut Vec<Invalid>) {
    ix.leaves(&mut |leaf| {
        errors.extend(match leaf {
            Ix::Runtime(r) => unknown("runtime size", r.0, kernel.runtime.len()),
            Ix::Tile(t) => unknown("tile size", t.0, kernel.tiles.len()),
            Ix::Axis(a) => unknown("grid axis", a.0, kernel.grid.len()),
            // Whether a loop counter is in reach is checked with the other index rules.
            Ix::Iter(_) | Ix::Const(_) | Ix::Bin(..) => None,
        });
    });
}

fn value_id(kernel: &Kernel, id: ValueId) -> Option<Invalid> {
    unknown("value", id.0, kernel.values.len())
}

fn tensor_id(kernel: &Kernel, id: TensorId) -> Option<Invalid> {
    unknown("tensor", id.0, kernel.tensors.len())
}

fn unknown(what: &'static str, id: u32, count: usize) -> Option<Invalid> {
    (id as usize >= count).then_some(Invalid::UnknownId { what, id, count })
}

/// The extents of a shape, rows first.
pub(super) fn extents(shape: Shape) -> Vec<Extent> {
    match shape {
        Shape::Scalar => vec![],
        Shape::Row(e) | Shape::Col(e) => vec![e],
        Shape::Mat(r, c) => vec![r, c],
    }
}

//! Types: what each operation makes of its operands, against what the value declares.

use super::error::{Invalid, Report};
use super::structure::{Placed, extents};
use crate::dtype::DType;
use crate::ir::{At, Carry, CarryKind, Extent, Fold, Kernel, Op, Operand, Shape, TensorId, TileType, ValueId};
use crate::print::Names;
use crate::trace::join;

pub(super) fn check(report: &mut Report<'_>, program: &[Placed]) {
    for placed in program {
        value(report, placed.id);
        if let Some(fold) = report.kernel.fold(placed.id) {
            carries(report, placed.id, fold);
        }
        if matches!(report.kernel.op(placed.id), Op::Rebase { .. }) && placed.fold.is_none() {
            let value = report.label(placed.id);
            report.at(placed.id, Invalid::RebaseOutsideFold { value });
        }
    }
}

fn value(report: &mut Report<'_>, id: ValueId) {
    let declared = report.kernel.value(id).ty;
    if extents(declared.shape).contains(&Extent::Lit(0)) {
        let value = report.label(id);
        report.at(id, Invalid::EmptyExtent { value });
    }
    let derived = Types {
        kernel: report.kernel,
        names: &report.names,
    }
    .derive(id);
    match derived {
        Ok(derived) if derived == declared => {}
        Ok(derived) => {
            let (value, names) = (report.label(id), &report.names);
            let kind = Invalid::TypeMismatch {
                value,
                declared: names.ty(declared),
                derived: names.ty(derived),
            };
            report.at(id, kind);
        }
        Err(kind) => report.at(id, kind),
    }
}

struct Types<'k, 'n> {
    kernel: &'k Kernel,
    names: &'n Names<'k>,
}

impl Types<'_, '_> {
    fn derive(&self, id: ValueId) -> Result<TileType, Invalid> {
        let value = self.kernel.value(id);
        match &value.op {
            Op::Load { tensor, at } => self.load(*tensor, at, value.ty),
            Op::Const(_) | Op::Param(_) => Ok(f32_of(Shape::Scalar)),
            Op::Unary(_, a) => self.elementwise("element-wise arithmetic", &[*a]),
            Op::Binary(_, a, b) => self.elementwise("element-wise arithmetic", &[*a, *b]),
            Op::Fma(a, b, c) => self.elementwise("fma", &[*a, *b, *c]),
            Op::Cast(a) => Ok(TileType {
                shape: self.ty(*a).shape,
                dtype: value.ty.dtype,
            }),
            Op::Mask { src, .. } => self.matrix("mask", *src).map(|_| self.ty(*src)),
            Op::Select {
                lhs,
                rhs,
                then,
                otherwise,
                ..
            } => self.select([*lhs, *rhs, *then, *otherwise]),
            Op::Reduce(_, a) => self.reduce(*a),
            Op::Dot { a, b } => self.dot(*a, *b),
            Op::Rebase { scores } => {
                self.elementwise("rebase", &[*scores])?;
                self.matrix("rebase", *scores).map(|(r, c)| f32_of(Shape::Mat(r, c)))
            }
            Op::Fold(_) => Ok(f32_of(Shape::Scalar)),
            // Both take their carry's type, which the fold checks.
            Op::FoldArg { .. } => Ok(value.ty),
            Op::FoldOut { fold, carry } => Ok(self.carry(*fold, *carry).map_or(value.ty, |c| c.ty)),
            Op::Store { tensor, at, src } => self.store(*tensor, at, *src),
        }
    }

    fn ty(&self, id: ValueId) -> TileType {
        self.kernel.value(id).ty
    }

    fn show(&self, id: ValueId) -> String {
        self.names.ty(self.ty(id))
    }

    fn carry(&self, fold: ValueId, carry: u32) -> Option<&Carry> {
        self.kernel.fold(fold)?.carries.get(carry as usize)
    }

    fn matrix(&self, op: &'static str, id: ValueId) -> Result<(Extent, Extent), Invalid> {
        match self.ty(id).shape {
            Shape::Mat(r, c) => Ok((r, c)),
            _ => Err(Invalid::NotMatrix { op, ty: self.show(id) }),
        }
    }

    fn broadcast(&self, op: &'static str, args: &[ValueId]) -> Result<Shape, Invalid> {
        let joined = args
            .iter()
            .try_fold(Shape::Scalar, |shape, id| join(shape, self.ty(*id).shape));
        joined.ok_or_else(|| {
            let types: Vec<_> = args.iter().map(|id| self.show(*id)).collect();
            Invalid::Broadcast {
                op,
                types: types.join(" and "),
            }
        })
    }

    fn elementwise(&self, op: &'static str, args: &[ValueId]) -> Result<TileType, Invalid> {
        if let Some(other) = args.iter().find(|id| self.ty(**id).dtype != DType::F32) {
            return Err(Invalid::NotF32 {
                op,
                ty: self.show(*other),
            });
        }
        self.broadcast(op, args).map(f32_of)
    }

    fn select(&self, [lhs, rhs, then, otherwise]: [ValueId; 4]) -> Result<TileType, Invalid> {
        self.elementwise("comparison", &[lhs, rhs])?;
        let (dtype, other) = (self.ty(then).dtype, self.ty(otherwise).dtype);
        if dtype != other {
            return Err(Invalid::SelectTypes {
                then: self.show(then),
                otherwise: self.show(otherwise),
            });
        }
        let shape = self.broadcast("select", &[lhs, rhs, then, otherwise])?;
        Ok(TileType { shape, dtype })
    }

    fn reduce(&self, a: ValueId) -> Result<TileType, Invalid> {
        self.elementwise("row reduction", &[a])?;
        self.matrix("row reduction", a).map(|(r, _)| f32_of(Shape::Row(r)))
    }

    fn dot(&self, a: Operand, b: Operand) -> Result<TileType, Invalid> {
        let (types_a, types_b) = (self.ty(a.value), self.ty(b.value));
        let (m, inner_a) = turned(self.matrix("dot", a.value)?, a.transposed);
        let (inner_b, n) = turned(self.matrix("dot", b.value)?, b.transposed);
        let (show_a, show_b) = (self.show_operand(a), self.show_operand(b));
        if inner_a != inner_b {
            let (inner_a, inner_b) = (self.names.extent(inner_a), self.names.extent(inner_b));
            return Err(Invalid::DotInner {
                a: show_a,
                b: show_b,
                inner_a,
                inner_b,
            });
        }
        if types_a.dtype != types_b.dtype || !types_a.dtype.is_16_bit() {
            return Err(Invalid::DotTypes { a: show_a, b: show_b });
        }
        Ok(f32_of(Shape::Mat(m, n)))
    }

    fn show_operand(&self, operand: Operand) -> String {
        let suffix = if operand.transposed { "^T" } else { "" };
        format!("{}{suffix}", self.show(operand.value))
    }

    fn load(&self, tensor: TensorId, at: &[At], declared: TileType) -> Result<TileType, Invalid> {
        self.place("load", tensor, at, declared.shape)?;
        Ok(TileType {
            shape: declared.shape,
            dtype: self.kernel.tensor(tensor).dtype,
        })
    }

    fn store(&self, tensor: TensorId, at: &[At], src: ValueId) -> Result<TileType, Invalid> {
        let ty = self.ty(src);
        self.place("store", tensor, at, ty.shape)?;
        let held = self.kernel.tensor(tensor).dtype;
        if ty.dtype != held {
            let (tensor, src) = (self.names.tensor(tensor), self.names.ty(ty));
            return Err(Invalid::StoreType {
                tensor,
                src,
                dtype: held.to_string(),
            });
        }
        Ok(ty)
    }

    /// Whether the indices fit the tensor and span the tile.
    fn place(&self, op: &'static str, tensor: TensorId, at: &[At], shape: Shape) -> Result<(), Invalid> {
        let (name, rank) = (self.names.tensor(tensor), self.kernel.tensor(tensor).dims.len());
        if at.len() != rank {
            return Err(Invalid::Rank {
                op,
                tensor: name,
                found: at.len(),
                rank,
            });
        }
        let spans: Vec<Extent> = at.iter().filter_map(span_of).collect();
        let wanted = extents(shape);
        // A column vector can be read, but not written: its columns are spread over all rows of a tile.
        let vector = matches!(shape, Shape::Row(_)) || (op == "load" && matches!(shape, Shape::Col(_)));
        let legal = vector || matches!(shape, Shape::Mat(..));
        if !legal || spans != wanted {
            let spans: Vec<_> = spans.into_iter().map(|e| self.names.extent(e)).collect();
            let ty = format!("of shape {}", self.names.shape(shape));
            return Err(Invalid::Spans {
                op,
                tensor: name,
                spans: format!("[{}]", spans.join(", ")),
                ty,
            });
        }
        if matches!(shape, Shape::Mat(..)) && at.last().is_none_or(|last| span_of(last).is_none()) {
            return Err(Invalid::LastDimension { op, tensor: name });
        }
        Ok(())
    }
}

fn carries(report: &mut Report<'_>, id: ValueId, fold: &Fold) {
    let kernel = report.kernel;
    let rebases: Vec<ValueId> = fold
        .body
        .iter()
        .copied()
        .filter(|v| matches!(kernel.op(*v), Op::Rebase { .. }))
        .collect();
    let references = fold.carries.iter().filter(|c| c.kind == CarryKind::Reference).count();
    if references > 1 || references != rebases.len() {
        report.at(
            id,
            Invalid::References {
                fold: fold.name.clone(),
                references,
                rebases: rebases.len(),
            },
        );
    }
    for carry in &fold.carries {
        let checked = match &carry.kind {
            CarryKind::Sum { contribution, rescaled } => {
                next_type(report, fold, carry, *contribution);
                if *rescaled {
                    rescaled_sum(report, fold, carry)
                } else {
                    Ok(())
                }
            }
            CarryKind::Next(next) => {
                next_type(report, fold, carry, *next);
                Ok(())
            }
            CarryKind::Reference => reference(report, fold, carry, &rebases),
        };
        if kernel.value(carry.arg).ty != carry.ty {
            next_type(report, fold, carry, carry.arg);
        }
        if let Err(kind) = checked {
            report.at(carry.arg, kind);
        }
    }
}

fn next_type(report: &mut Report<'_>, fold: &Fold, carry: &Carry, next: ValueId) {
    if report.kernel.value(next).ty == carry.ty {
        return;
    }
    let kind = Invalid::CarryType {
        fold: fold.name.clone(),
        carry: carry.name.clone(),
        declared: report.names.ty(carry.ty),
        next: report.label(next),
        found: report.ty(next),
    };
    report.at(next, kind);
}

fn rescaled_sum(report: &Report<'_>, fold: &Fold, carry: &Carry) -> Result<(), Invalid> {
    let reference = fold.carries.iter().find(|c| c.kind == CarryKind::Reference);
    let rows = rows_of(carry.ty.shape);
    if rows.is_some() && reference.is_some_and(|r| rows_of(r.ty.shape) == rows) {
        return Ok(());
    }
    let reference = reference.map_or_else(|| "of none".to_owned(), |r| report.names.ty(r.ty));
    let (fold, ty) = (fold.name.clone(), report.names.ty(carry.ty));
    Err(Invalid::RescaledSum {
        fold,
        carry: carry.name.clone(),
        ty,
        reference,
    })
}

fn reference(report: &Report<'_>, fold: &Fold, carry: &Carry, rebases: &[ValueId]) -> Result<(), Invalid> {
    let rows = rebases
        .first()
        .and_then(|id| rows_of(report.kernel.value(*id).ty.shape));
    let wanted = rows.map_or(carry.ty, |r| f32_of(Shape::Row(r)));
    let is_row = matches!(
        carry.ty,
        TileType {
            shape: Shape::Row(_),
            dtype: DType::F32
        }
    );
    if is_row && carry.ty == wanted && carry.init == f32::NEG_INFINITY {
        return Ok(());
    }
    let names = &report.names;
    let (ty, init) = (names.ty(carry.ty), format!("{:?}", carry.init));
    let wanted = if is_row {
        names.ty(wanted)
    } else {
        "one f32 per row".to_owned()
    };
    Err(Invalid::ReferenceType {
        fold: fold.name.clone(),
        ty,
        init,
        wanted,
    })
}

/// The row extent of a shape that has rows.
pub(super) fn rows_of(shape: Shape) -> Option<Extent> {
    match shape {
        Shape::Row(r) | Shape::Mat(r, _) => Some(r),
        Shape::Scalar | Shape::Col(_) => None,
    }
}

fn span_of(at: &At) -> Option<Extent> {
    match at {
        At::Span { len, .. } => Some(*len),
        At::Point(_) => None,
    }
}

fn turned((rows, cols): (Extent, Extent), transposed: bool) -> (Extent, Extent) {
    if transposed { (cols, rows) } else { (rows, cols) }
}

fn f32_of(shape: Shape) -> TileType {
    TileType {
        shape,
        dtype: DType::F32,
    }
}

//! The text form of a kernel: one value per line, deterministic, for goldens and for reading.
//!
//! Types are written `f32[rows, cols]`; a row vector (one number per row) is `[rows, 1]`, a column vector `[1, cols]`, a
//! scalar has no brackets. Values go by their names, or `%id`. In index expressions a bare word is a runtime size or a
//! tile size, `grid.x` is the block's position on axis `x`, and `iter.f` is the counter of fold `f`. `a ..+ n` is the
//! `n` indices from `a`. Rust lines are left out on purpose: a moved line is not another kernel.

mod names;
mod ops;

use std::fmt::Write;

use crate::ir::{Access, Carry, CarryKind, Dim, Fold, Kernel, Op, ValueId};

pub use names::Names;

/// Writes down the whole kernel.
#[must_use]
pub fn print(kernel: &Kernel) -> String {
    let mut printer = Printer {
        names: Names::new(kernel),
        kernel,
        out: String::new(),
    };
    printer.header();
    printer.block(&kernel.body, 1);
    printer.out
}

/// Folds nested deeper than this are not written out.
const MAX_DEPTH: usize = 4;

struct Printer<'k> {
    kernel: &'k Kernel,
    names: Names<'k>,
    out: String,
}

impl Printer<'_> {
    fn line(&mut self, depth: usize, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.out, "{:indent$}{text}", "", indent = depth * 2);
    }

    fn header(&mut self) {
        let kernel = self.kernel;
        self.line(0, &format!("kernel {}", kernel.name));
        if !kernel.runtime.is_empty() {
            self.line(1, &format!("runtime {}", kernel.runtime.join(", ")));
        }
        if !kernel.tiles.is_empty() {
            let tiles: Vec<_> = kernel.tiles.iter().map(|t| t.name.as_str()).collect();
            self.line(1, &format!("tiles {}", tiles.join(", ")));
        }
        for scalar in &kernel.scalars {
            let bound = if scalar.positive { " > 0" } else { "" };
            self.line(1, &format!("scalar {}{bound}", scalar.name));
        }
        for tensor in &kernel.tensors {
            let way = match tensor.access {
                Access::Read => "input",
                Access::Write => "output",
            };
            let dims: Vec<_> = tensor.dims.iter().map(|d| self.dim(d)).collect();
            let text = format!("{way} {}: {}[{}]", tensor.name, tensor.dtype, dims.join(", "));
            self.line(1, &text);
        }
        for axis in &kernel.grid {
            let text = format!("grid {} in 0..{}", axis.name, self.names.ix(&axis.count));
            self.line(1, &text);
        }
        self.out.push('\n');
    }

    fn dim(&self, dim: &Dim) -> String {
        match dim {
            Dim::Lit(v) => v.to_string(),
            Dim::Runtime(r) => self.names.runtime(*r),
        }
    }

    fn block(&mut self, ids: &[ValueId], depth: usize) {
        for &id in ids {
            let Some(value) = self.kernel.values.get(id.0 as usize) else {
                self.line(depth, &format!("%{} is not a value of this kernel", id.0));
                continue;
            };
            match &value.op {
                Op::Fold(fold) => self.fold(fold, depth),
                Op::Store { .. } => {
                    let text = self.names.op(&value.op);
                    self.line(depth, &text);
                }
                op => {
                    let (label, ty) = (self.names.value(id), self.names.ty(value.ty));
                    let text = format!("{label}: {ty} = {}", self.names.op(op));
                    self.line(depth, &text);
                }
            }
        }
    }

    fn fold(&mut self, fold: &Fold, depth: usize) {
        let trips = self.names.ix(&fold.trips);
        self.line(depth, &format!("fold {} in 0..{trips}", fold.name));
        for carry in &fold.carries {
            let text = self.carry(carry);
            self.line(depth + 1, &text);
        }
        self.line(depth + 1, "do");
        // A valid kernel does not nest folds at all; a broken one may hold itself.
        if depth > MAX_DEPTH {
            self.line(depth + 2, "...");
        } else {
            self.block(&fold.body, depth + 2);
        }
    }

    fn carry(&self, carry: &Carry) -> String {
        let next = match &carry.kind {
            CarryKind::Sum { contribution, rescaled } => {
                let how = if *rescaled { "rescaled sum" } else { "sum" };
                format!("{how} of {}", self.names.value(*contribution))
            }
            CarryKind::Next(next) => format!("next is {}", self.names.value(*next)),
            CarryKind::Reference => "running reference".to_owned(),
        };
        let (ty, arg) = (self.names.ty(carry.ty), self.names.value(carry.arg));
        format!("carry {} ({arg}): {ty} from {:?}, {next}", carry.name, carry.init)
    }
}

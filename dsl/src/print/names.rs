//! Symbols and types with the kernel's own names.

use std::collections::BTreeMap;

use crate::index::{AxisId, IterId, Ix, IxBin, RuntimeId, TileId};
use crate::ir::{Extent, Kernel, Op, Position, ScalarId, Shape, TensorId, TileType, ValueId};

/// Prints symbols, types and index expressions with the names of one kernel.
///
/// Ids that the kernel does not have print as `?id`, so that messages about broken kernels can be written too.
pub struct Names<'k> {
    kernel: &'k Kernel,
    iters: BTreeMap<IterId, &'k str>,
}

impl<'k> Names<'k> {
    /// Collects the names.
    #[must_use]
    pub fn new(kernel: &'k Kernel) -> Self {
        let folds = kernel.values.iter().filter_map(|v| match &v.op {
            Op::Fold(f) => Some((f.iter, f.name.as_str())),
            _ => None,
        });
        Self {
            kernel,
            iters: folds.collect(),
        }
    }

    /// A runtime size.
    #[must_use]
    pub fn runtime(&self, id: RuntimeId) -> String {
        or_id(self.kernel.runtime.get(id.0 as usize), id.0)
    }

    /// A tile size.
    #[must_use]
    pub fn tile(&self, id: TileId) -> String {
        or_id(self.kernel.tiles.get(id.0 as usize).map(|t| &t.name), id.0)
    }

    /// A tensor.
    #[must_use]
    pub fn tensor(&self, id: TensorId) -> String {
        or_id(self.kernel.tensors.get(id.0 as usize).map(|t| &t.name), id.0)
    }

    /// A scalar parameter.
    #[must_use]
    pub fn scalar(&self, id: ScalarId) -> String {
        or_id(self.kernel.scalars.get(id.0 as usize).map(|s| &s.name), id.0)
    }

    /// A grid axis, without the `grid.` in front.
    #[must_use]
    pub fn axis(&self, id: AxisId) -> String {
        or_id(self.kernel.grid.get(id.0 as usize).map(|a| &a.name), id.0)
    }

    /// A value: the author's name, or `%id`.
    #[must_use]
    pub fn value(&self, id: ValueId) -> String {
        let named = self.kernel.values.get(id.0 as usize).and_then(|v| v.name.clone());
        named.unwrap_or_else(|| format!("%{}", id.0))
    }

    /// The name of a carry of the fold behind `fold`.
    pub(super) fn fold_carry(&self, fold: ValueId, carry: u32) -> Option<String> {
        match &self.kernel.values.get(fold.0 as usize)?.op {
            Op::Fold(f) => f.carries.get(carry as usize).map(|c| c.name.clone()),
            _ => None,
        }
    }

    /// One extent of a tile.
    #[must_use]
    pub fn extent(&self, extent: Extent) -> String {
        match extent {
            Extent::Lit(v) => v.to_string(),
            Extent::Tile(t) => self.tile(t),
        }
    }

    /// A shape, in brackets; empty for a scalar.
    #[must_use]
    pub fn shape(&self, shape: Shape) -> String {
        match shape {
            Shape::Scalar => String::new(),
            Shape::Row(r) => format!("[{}, 1]", self.extent(r)),
            Shape::Col(c) => format!("[1, {}]", self.extent(c)),
            Shape::Mat(r, c) => format!("[{}, {}]", self.extent(r), self.extent(c)),
        }
    }

    /// A tile type, such as `f32[q_tile, 64]`.
    #[must_use]
    pub fn ty(&self, ty: TileType) -> String {
        format!("{}{}", ty.dtype, self.shape(ty.shape))
    }

    /// An index expression, infix, with no more brackets than it needs.
    #[must_use]
    pub fn ix(&self, ix: &Ix) -> String {
        self.ix_at(ix, Level::Sum)
    }

    /// The left side of a mask term's `>= 0`.
    #[must_use]
    pub fn position(&self, position: &Position) -> String {
        let mut text = String::new();
        for (coef, what) in [(position.row_coef, "row"), (position.col_coef, "col")] {
            let size = coef.unsigned_abs();
            if coef == 0 {
                continue;
            }
            text += match (text.is_empty(), coef < 0) {
                (true, true) => "-",
                (true, false) => "",
                (false, true) => " - ",
                (false, false) => " + ",
            };
            if size != 1 {
                text += &format!("{size} * ");
            }
            text += what;
        }
        match (&position.base, text.is_empty()) {
            (base, true) => self.ix(base),
            (Ix::Const(0), false) => text,
            (base, false) => format!("{text} + {}", self.ix_at(base, Level::Sum)),
        }
    }

    fn ix_at(&self, ix: &Ix, level: Level) -> String {
        let (op, ab) = match ix {
            Ix::Const(v) if *v < 0 && level != Level::Sum => return format!("({v})"),
            Ix::Const(v) => return v.to_string(),
            Ix::Runtime(r) => return self.runtime(*r),
            Ix::Tile(t) => return self.tile(*t),
            Ix::Axis(a) => return format!("grid.{}", self.axis(*a)),
            Ix::Iter(i) => {
                return self
                    .iters
                    .get(i)
                    .map_or_else(|| format!("iter.?{}", i.0), |n| format!("iter.{n}"));
            }
            Ix::Bin(op, ab) => (*op, ab),
        };
        // The right side sits one level tighter, since every infix operation associates to the left.
        let (own, right) = match op {
            IxBin::Add | IxBin::Sub => (Level::Sum, Level::Product),
            IxBin::Mul | IxBin::FloorDiv | IxBin::Rem => (Level::Product, Level::Atom),
            IxBin::CeilDiv | IxBin::Min | IxBin::Max => {
                return format!("{op}({}, {})", self.ix(&ab.0), self.ix(&ab.1));
            }
        };
        let text = format!("{} {op} {}", self.ix_at(&ab.0, own), self.ix_at(&ab.1, right));
        if own < level { format!("({text})") } else { text }
    }
}

/// How tightly the surroundings of an expression bind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Sum,
    Product,
    Atom,
}

fn or_id(name: Option<&String>, id: u32) -> String {
    name.cloned().unwrap_or_else(|| format!("?{id}"))
}

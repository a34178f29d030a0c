//! What a refusal names: the schedule key to change, and the Rust line of the value it is about.

use dsl::Kernel;
use dsl::ir::{Extent, Shape, ValueId};

use super::Scheduled;
use crate::error::Refusal;

/// One side of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Rows,
    Cols,
}

/// Shapes of the values before tile sizes were bound, and the names of the sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbols {
    shapes: Vec<Shape>,
    tiles: Vec<String>,
}

impl Symbols {
    /// Those of a traced kernel.
    #[must_use]
    pub fn of(traced: &Kernel) -> Self {
        Self {
            shapes: traced.values.iter().map(|v| v.ty.shape).collect(),
            tiles: traced.tiles.iter().map(|t| t.name.clone()).collect(),
        }
    }

    /// The schedule key of one extent of a value; `kernel` when the kernel itself says the number.
    #[must_use]
    pub fn key(&self, id: ValueId, side: Side) -> String {
        let extent = match (self.shapes.get(id.0 as usize), side) {
            (Some(Shape::Mat(r, _) | Shape::Row(r)), Side::Rows) => Some(*r),
            (Some(Shape::Mat(_, c) | Shape::Col(c)), Side::Cols) => Some(*c),
            _ => None,
        };
        let name = match extent {
            Some(Extent::Tile(t)) => self.tiles.get(t.0 as usize),
            _ => None,
        };
        name.map_or_else(|| "kernel".to_owned(), |n| format!("tiles.{n}"))
    }
}

/// A value for a message: by its name, or by its place when it has none.
#[must_use]
pub fn told(kernel: &Kernel, id: ValueId) -> String {
    let value = kernel.value(id);
    match &value.name {
        Some(name) => format!("`{name}`"),
        None => format!("the value of {}", value.site),
    }
}

impl Scheduled {
    /// A refusal of a value of the kernel, under the key that decides about it.
    pub fn refuse(
        &self,
        id: ValueId,
        key: impl Into<String>,
        asked: impl Into<String>,
        [fact, allowed]: [&str; 2],
    ) -> Refusal {
        Refusal::new(key, asked, fact, allowed).at(&self.kernel.value(id).site)
    }

    /// The key of a value's place in the pipeline: the stages of its fold, or the kernel outside of folds.
    #[must_use]
    pub fn stage_key(&self, id: ValueId) -> String {
        let holds = |v: &&dsl::ir::Fold| v.body.contains(&id) || v.carries.iter().any(|c| c.arg == id);
        let folds = (0u32..).zip(&self.kernel.values).map(|(i, _)| ValueId(i));
        let fold = folds.filter_map(|v| self.kernel.fold(v)).find(holds);
        fold.map_or_else(|| "kernel".to_owned(), |f| format!("folds.{}.stages", f.name))
    }
}

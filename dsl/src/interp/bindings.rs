//! What a launch decides: tile sizes, runtime sizes, scalars; and the position inside the grid.

use std::collections::BTreeMap;

use super::error::InterpError;
use crate::index::{AxisId, IterId, Ix, RuntimeId};
use crate::ir::{Dim, Extent, Kernel, Scalar, Shape, Site, Tensor};
use crate::print::Names;

/// Values for every open name of a kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bindings {
    /// Tile sizes, in elements.
    pub tiles: BTreeMap<String, u32>,
    pub runtime: BTreeMap<String, i64>,
    pub scalars: BTreeMap<String, f64>,
}

impl Bindings {
    /// Nothing bound.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Binds a tile size.
    #[must_use]
    pub fn tile(mut self, name: &str, elems: u32) -> Self {
        self.tiles.insert(name.to_owned(), elems);
        self
    }

    /// Binds a runtime size.
    #[must_use]
    pub fn runtime(mut self, name: &str, value: i64) -> Self {
        self.runtime.insert(name.to_owned(), value);
        self
    }

    /// Binds a scalar parameter.
    #[must_use]
    pub fn scalar(mut self, name: &str, value: f64) -> Self {
        self.scalars.insert(name.to_owned(), value);
        self
    }
}

/// Bindings in the order of the kernel's ids.
pub(super) struct Sizes {
    runtime: Vec<i64>,
    tiles: Vec<u32>,
    pub scalars: Vec<f64>,
}

impl Sizes {
    pub fn new(kernel: &Kernel, bindings: &Bindings) -> Result<Self, InterpError> {
        let tile_names: Vec<&str> = kernel.tiles.iter().map(|t| t.name.as_str()).collect();
        let runtime_names: Vec<&str> = kernel.runtime.iter().map(String::as_str).collect();
        let scalar_names: Vec<&str> = kernel.scalars.iter().map(|s| s.name.as_str()).collect();
        let sizes = Self {
            tiles: by_id("tile size", &tile_names, &bindings.tiles)?,
            runtime: by_id("runtime size", &runtime_names, &bindings.runtime)?,
            scalars: by_id("scalar", &scalar_names, &bindings.scalars)?,
        };
        sizes.check_ranges(kernel)?;
        Ok(sizes)
    }

    fn check_ranges(&self, kernel: &Kernel) -> Result<(), InterpError> {
        let refused = |what, name: &str, value: String, allowed| {
            Err(InterpError::OutOfRange {
                what,
                name: name.to_owned(),
                value,
                allowed,
            })
        };
        for (tile, size) in kernel.tiles.iter().zip(&self.tiles) {
            if *size == 0 {
                return refused("tile size", &tile.name, size.to_string(), "at least 1");
            }
        }
        for (name, value) in kernel.runtime.iter().zip(&self.runtime) {
            if i32::try_from(*value).is_err() {
                return refused(
                    "runtime size",
                    name,
                    value.to_string(),
                    "a number that fits 32 bits, signed",
                );
            }
        }
        for (Scalar { name, positive }, value) in kernel.scalars.iter().zip(&self.scalars) {
            if *positive && (value.is_nan() || *value <= 0.0) {
                return refused("scalar", name, value.to_string(), "greater than zero");
            }
        }
        Ok(())
    }

    /// The size of a tile extent.
    pub fn extent(&self, extent: Extent) -> usize {
        match extent {
            Extent::Lit(v) => v as usize,
            Extent::Tile(t) => self.tiles.get(t.0 as usize).map_or(0, |v| *v as usize),
        }
    }

    /// Rows and columns of a shape; a dimension that is not there counts as one.
    pub fn shape(&self, shape: Shape) -> (usize, usize) {
        match shape {
            Shape::Scalar => (1, 1),
            Shape::Row(r) => (self.extent(r), 1),
            Shape::Col(c) => (1, self.extent(c)),
            Shape::Mat(r, c) => (self.extent(r), self.extent(c)),
        }
    }

    /// The extents of a tensor.
    pub fn dims(&self, kernel: &Kernel, tensor: &Tensor) -> Result<Vec<usize>, InterpError> {
        let size = |dim: &Dim| match dim {
            Dim::Lit(v) => Ok(*v as usize),
            Dim::Runtime(RuntimeId(r)) => {
                let value = self.runtime.get(*r as usize).copied().unwrap_or(0);
                usize::try_from(value).map_err(|_| InterpError::OutOfRange {
                    what: "runtime size",
                    name: kernel.runtime.get(*r as usize).cloned().unwrap_or_default(),
                    value: value.to_string(),
                    allowed: "at least 0, since it is the dimension of a tensor",
                })
            }
        };
        tensor.dims.iter().map(size).collect()
    }

    /// Evaluates an index expression; `None` when a step overflows or divides by a number that is not positive.
    pub fn eval(&self, ix: &Ix, at: &Position) -> Option<i64> {
        ix.eval(&mut |leaf| match leaf {
            Ix::Const(v) => Some(*v),
            Ix::Runtime(r) => self.runtime.get(r.0 as usize).copied(),
            Ix::Tile(t) => self.tiles.get(t.0 as usize).map(|v| i64::from(*v)),
            Ix::Axis(AxisId(a)) => at.axes.get(*a as usize).copied(),
            Ix::Iter(i) => at.iter.filter(|(own, _)| own == i).map(|(_, trip)| trip),
            Ix::Bin(..) => None,
        })
    }

    /// Evaluates an index expression of a value.
    pub fn eval_at(&self, kernel: &Kernel, ix: &Ix, at: &Position, of: (&str, &Site)) -> Result<i64, InterpError> {
        self.eval(ix, at).ok_or_else(|| InterpError::Arithmetic {
            ix: Names::new(kernel).ix(ix),
            value: of.0.to_owned(),
            site: of.1.clone(),
        })
    }
}

/// Where the program is: the block, and the trip of the fold it is in.
#[derive(Clone, Debug, Default)]
pub(super) struct Position {
    pub axes: Vec<i64>,
    pub iter: Option<(IterId, i64)>,
}

fn by_id<T: Copy>(what: &'static str, needed: &[&str], bound: &BTreeMap<String, T>) -> Result<Vec<T>, InterpError> {
    if let Some(name) = bound.keys().find(|name| !needed.contains(&name.as_str())) {
        return Err(InterpError::Unknown {
            what,
            name: name.clone(),
            known: needed.join(", "),
        });
    }
    let one = |name: &&str| {
        bound.get(*name).copied().ok_or_else(|| InterpError::Unbound {
            what,
            name: (*name).to_owned(),
            needed: needed.join(", "),
        })
    };
    needed.iter().map(one).collect()
}

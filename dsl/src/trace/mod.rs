//! Tracing: running a Rust function once writes down the kernel.
//!
//! Handles ([`Tile`], [`TensorRef`], index expressions) stand for values. A call that cannot be right is written down
//! with the Rust line that made it and tracing goes on, so that [`Trace::finish`] reports every error at once.

mod fold;
mod tile;

use std::cell::RefCell;
use std::fmt;
use std::panic::Location;
use std::rc::Rc;

pub use fold::{FoldScope, FoldTotals};
pub(crate) use tile::join;
pub use tile::{Condition, Tile, View, cols, rows};

use crate::dtype::DType;
use crate::index::{AxisId, Ix, RuntimeId, TileId};
use crate::ir::{
    Access, At, Axis, Dim, Extent, Kernel, Op, Scalar, ScalarId, Shape, Site, Tensor, TensorId, TileParam, TileType,
    Value, ValueId,
};

/// One mistake in a kernel, with the Rust call that made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceError {
    pub site: Site,
    pub message: String,
}

/// Every mistake of one kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct TraceErrors {
    pub kernel: String,
    pub errors: Vec<TraceError>,
}

impl fmt::Display for TraceErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel `{}` cannot be traced ({} error(s))",
            self.kernel,
            self.errors.len()
        )?;
        self.errors
            .iter()
            .try_for_each(|e| write!(f, "\n  {}: {}", e.site, e.message))
    }
}

pub(crate) struct Graph {
    pub kernel: Kernel,
    pub blocks: Vec<Vec<ValueId>>,
    pub errors: Vec<TraceError>,
    pub iters: u32,
}

impl Graph {
    pub fn emit(&mut self, op: Op, ty: TileType, site: Site) -> ValueId {
        let id = self.kernel.push(op, ty, site);
        if let Some(block) = self.blocks.last_mut() {
            block.push(id);
        }
        id
    }

    fn unique(&mut self, what: &str, name: &str, taken: bool, site: Site) {
        if taken {
            self.error(site, format!("two {what} are called `{name}`; names are unique"));
        }
    }

    pub fn error(&mut self, site: Site, message: impl Into<String>) {
        self.errors.push(TraceError {
            site,
            message: message.into(),
        });
    }
}

pub(crate) type Shared = Rc<RefCell<Graph>>;

/// The part of a source path that is the same on every machine.
///
/// The compiler gives paths of the workspace's own crates relative to it; those of a crate that depends on the kernels
/// are absolute, and are cut to what follows the folder that holds the crate.
fn tail(path: &str) -> &str {
    if !path.starts_with('/') {
        return path;
    }
    let file = path.rfind('/').map_or(0, |at| at + 1);
    let inside = ["/src/", "/tests/", "/examples/", "/benches/"];
    let folder = inside.iter().filter_map(|f| path.rfind(f)).max();
    let crate_name = folder.map_or(file, |at| path[..at].rfind('/').map_or(0, |slash| slash + 1));
    path[crate_name..].trim_start_matches('/')
}

#[track_caller]
pub(crate) fn here() -> Site {
    let at = Location::caller();
    Site {
        file: tail(at.file()).to_owned(),
        line: at.line(),
        column: at.column(),
    }
}

/// A tensor parameter of the kernel being traced.
#[derive(Clone)]
pub struct TensorRef {
    graph: Shared,
    id: TensorId,
}

/// A kernel being traced.
#[derive(Clone)]
pub struct Trace {
    pub(crate) graph: Shared,
}

impl Trace {
    /// Starts a kernel called `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let kernel = Kernel {
            name: name.to_owned(),
            runtime: vec![],
            tiles: vec![],
            scalars: vec![],
            tensors: vec![],
            grid: vec![],
            values: vec![],
            body: vec![],
        };
        Self {
            graph: Rc::new(RefCell::new(Graph {
                kernel,
                blocks: vec![vec![]],
                errors: vec![],
                iters: 0,
            })),
        }
    }

    /// A size known only at launch: one cubin serves every value.
    #[must_use]
    #[track_caller]
    pub fn runtime(&self, name: &str) -> Ix {
        let mut g = self.graph.borrow_mut();
        let taken = g.kernel.runtime.iter().any(|r| r == name);
        g.unique("runtime sizes", name, taken, here());
        g.kernel.runtime.push(name.to_owned());
        Ix::Runtime(RuntimeId(len(&g.kernel.runtime) - 1))
    }

    /// A tile size that the schedule binds.
    #[must_use]
    #[track_caller]
    pub fn tile(&self, name: &str) -> Extent {
        let mut g = self.graph.borrow_mut();
        let taken = g.kernel.tiles.iter().any(|t| t.name == name);
        g.unique("tile sizes", name, taken, here());
        g.kernel.tiles.push(TileParam { name: name.to_owned() });
        Extent::Tile(TileId(len(&g.kernel.tiles) - 1))
    }

    /// An `f32` parameter.
    #[must_use]
    #[track_caller]
    pub fn scalar(&self, name: &str) -> Tile {
        self.scalar_param(name, false)
    }

    /// An `f32` parameter that must be greater than zero at launch.
    #[must_use]
    #[track_caller]
    pub fn positive_scalar(&self, name: &str) -> Tile {
        self.scalar_param(name, true)
    }

    #[track_caller]
    fn scalar_param(&self, name: &str, positive: bool) -> Tile {
        let site = here();
        let mut g = self.graph.borrow_mut();
        let taken = g.kernel.scalars.iter().any(|s| s.name == name);
        g.unique("scalars", name, taken, site.clone());
        g.kernel.scalars.push(Scalar {
            name: name.to_owned(),
            positive,
        });
        let id = ScalarId(len(&g.kernel.scalars) - 1);
        let value = g.emit(
            Op::Param(id),
            TileType {
                shape: Shape::Scalar,
                dtype: DType::F32,
            },
            site,
        );
        drop(g);
        Tile {
            graph: self.graph.clone(),
            id: value,
        }
    }

    /// A constant, broadcast where it is used.
    #[must_use]
    #[track_caller]
    pub fn constant(&self, value: f32) -> Tile {
        let id = self.graph.borrow_mut().emit(
            Op::Const(value),
            TileType {
                shape: Shape::Scalar,
                dtype: DType::F32,
            },
            here(),
        );
        Tile {
            graph: self.graph.clone(),
            id,
        }
    }

    /// A tensor that the kernel reads; `dims` outermost first, the last one contiguous.
    #[track_caller]
    pub fn input<const R: usize>(&self, name: &str, dtype: DType, dims: [Ix; R]) -> TensorRef {
        self.tensor(name, dtype, &dims, Access::Read)
    }

    /// A tensor that the kernel writes.
    #[track_caller]
    pub fn output<const R: usize>(&self, name: &str, dtype: DType, dims: [Ix; R]) -> TensorRef {
        self.tensor(name, dtype, &dims, Access::Write)
    }

    #[track_caller]
    fn tensor(&self, name: &str, dtype: DType, dims: &[Ix], access: Access) -> TensorRef {
        let site = here();
        let mut g = self.graph.borrow_mut();
        let mut out = vec![];
        for dim in dims {
            match dim {
                Ix::Const(v) => out.push(Dim::Lit(u32::try_from(*v).ok().filter(|v| *v > 0).unwrap_or_else(
                    || {
                        g.error(
                            site.clone(),
                            format!("tensor `{name}` has the dimension {v}; a literal dimension is in 1..2^32"),
                        );
                        1
                    },
                ))),
                Ix::Runtime(r) => out.push(Dim::Runtime(*r)),
                other => g.error(
                    site.clone(),
                    format!("tensor `{name}` has the dimension {other:?}; a dimension is a literal or a runtime size"),
                ),
            }
        }
        let taken = g.kernel.tensors.iter().any(|t| t.name == name);
        g.unique("tensors", name, taken, site);
        g.kernel.tensors.push(Tensor {
            name: name.to_owned(),
            dtype,
            dims: out,
            access,
        });
        TensorRef {
            graph: self.graph.clone(),
            id: TensorId(len(&g.kernel.tensors) - 1),
        }
    }

    /// A grid axis of `count` independent blocks; axes are declared fastest first.
    #[must_use]
    #[track_caller]
    pub fn grid(&self, name: &str, count: Ix) -> Ix {
        let mut g = self.graph.borrow_mut();
        let taken = g.kernel.grid.iter().any(|a| a.name == name);
        g.unique("grid axes", name, taken, here());
        g.kernel.grid.push(Axis {
            name: name.to_owned(),
            count,
        });
        Ix::Axis(AxisId(len(&g.kernel.grid) - 1))
    }

    /// Loads a tile: the entries of `at` that are spans give its rows and columns, in that order.
    #[track_caller]
    pub fn load<const R: usize>(&self, tensor: &TensorRef, at: [At; R]) -> Tile {
        self.load_shaped(tensor, at.to_vec(), false)
    }

    /// Loads one span as a column vector `[cols]`.
    #[track_caller]
    pub fn load_col<const R: usize>(&self, tensor: &TensorRef, at: [At; R]) -> Tile {
        self.load_shaped(tensor, at.to_vec(), true)
    }

    #[track_caller]
    fn load_shaped(&self, tensor: &TensorRef, at: Vec<At>, col: bool) -> Tile {
        let site = here();
        let Tensor {
            name,
            dtype,
            dims,
            access,
        } = self.held(tensor, &site);
        let mut g = self.graph.borrow_mut();
        if access != Access::Read {
            g.error(
                site.clone(),
                format!("load of `{name}`, which is an output; outputs are only written"),
            );
        }
        if at.len() != dims.len() {
            g.error(
                site.clone(),
                format!(
                    "load of `{name}` gives {} indices; the tensor has {} dimensions",
                    at.len(),
                    dims.len()
                ),
            );
        }
        let spans = spans(&at);
        let shape = match (spans.as_slice(), col) {
            ([r], false) => Shape::Row(*r),
            ([c], true) => Shape::Col(*c),
            ([r, c], false) => Shape::Mat(*r, *c),
            _ => {
                g.error(
                    site.clone(),
                    format!(
                        "load of `{name}` spans {} dimensions; allowed: two (a matrix) or one (a row or column vector)",
                        spans.len()
                    ),
                );
                Shape::Scalar
            }
        };
        if spans.len() == 2 && !matches!(at.last(), Some(At::Span { .. })) {
            g.error(site.clone(), format!("load of `{name}` takes one index of the last, contiguous dimension; its columns must be a span of it"));
        }
        let id = g.emit(Op::Load { tensor: tensor.id, at }, TileType { shape, dtype }, site);
        drop(g);
        Tile {
            graph: self.graph.clone(),
            id,
        }
    }

    /// Writes a tile.
    #[track_caller]
    pub fn store<const R: usize>(&self, tensor: &TensorRef, at: [At; R], src: &Tile) {
        let site = here();
        let (
            Tensor {
                name,
                dtype,
                dims,
                access,
            },
            ty,
        ) = (self.held(tensor, &site), src.ty());
        let mut g = self.graph.borrow_mut();
        if !Rc::ptr_eq(&self.graph, &src.graph) {
            g.error(
                site.clone(),
                format!("store to `{name}` writes a value of another kernel; trace each kernel with its own values"),
            );
        }
        if access != Access::Write {
            g.error(
                site.clone(),
                format!("store to `{name}`, which is an input; inputs are only read"),
            );
        }
        let spans = spans(&at);
        let fits = match ty.shape {
            Shape::Row(r) => spans == [r],
            Shape::Mat(r, c) => spans == [r, c],
            Shape::Scalar | Shape::Col(_) => false,
        };
        if !fits || at.len() != dims.len() {
            g.error(
                site.clone(),
                format!(
                    "store to `{name}` writes {:?} at {} indices spanning {spans:?}; spans must match the tile",
                    ty.shape,
                    at.len()
                ),
            );
        }
        if ty.dtype != dtype {
            g.error(
                site.clone(),
                format!(
                    "store to `{name}` writes {}; the tensor holds {dtype}: cast it",
                    ty.dtype
                ),
            );
        }
        g.emit(
            Op::Store {
                tensor: tensor.id,
                at: at.to_vec(),
                src: src.id,
            },
            ty,
            site,
        );
    }

    /// The declaration behind a tensor; one of another kernel is an error, but has a declaration too.
    fn held(&self, tensor: &TensorRef, site: &Site) -> Tensor {
        if !Rc::ptr_eq(&self.graph, &tensor.graph) {
            let message = "a tensor of another kernel is used here; declare it in this kernel";
            self.graph.borrow_mut().error(site.clone(), message);
        }
        tensor.graph.borrow().kernel.tensor(tensor.id).clone()
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// Every mistake that was made while tracing.
    pub fn finish(self) -> Result<Kernel, TraceErrors> {
        let mut g = self.graph.borrow_mut();
        let body = g.blocks.pop().unwrap_or_default();
        g.kernel.body = body;
        let kernel = g.kernel.clone();
        if g.errors.is_empty() {
            return Ok(kernel);
        }
        Err(TraceErrors {
            kernel: kernel.name,
            errors: g.errors.clone(),
        })
    }
}

fn spans(at: &[At]) -> Vec<Extent> {
    at.iter()
        .filter_map(|a| if let At::Span { len, .. } = a { Some(*len) } else { None })
        .collect()
}

fn len<T>(v: &[T]) -> u32 {
    u32::try_from(v.len()).unwrap_or(u32::MAX)
}

impl Graph {
    pub(crate) fn value(&self, id: ValueId) -> &Value {
        self.kernel.value(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sites_hold_no_path_of_this_machine() {
        for (path, wanted) in [
            ("mine/src/k.rs", "mine/src/k.rs"),
            ("/a/b/mine/src/deep/k.rs", "mine/src/deep/k.rs"),
            ("/src/k.rs", "src/k.rs"),
            ("/a/src/mine/tests/k.rs", "mine/tests/k.rs"),
            ("/a/b/k.rs", "k.rs"),
            ("k.rs", "k.rs"),
        ] {
            assert_eq!(tail(path), wanted);
        }
        assert_eq!(here().file, file!());
    }
}

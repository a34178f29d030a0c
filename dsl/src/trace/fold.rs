//! Folds: loops with carried state, plain and rescaled.

use std::ops::Deref;
use std::rc::Rc;

use super::{Shared, Tile, Trace, here};
use crate::dtype::DType;
use crate::index::{IterId, Ix};
use crate::ir::{Carry, CarryKind, Extent, Fold, Op, Shape, Site, TileType, ValueId};

/// The inside of a fold; dereferences to the trace for loads and constants.
pub struct FoldScope {
    trace: Trace,
    rescaled: bool,
    carries: Vec<Carry>,
}

impl Deref for FoldScope {
    type Target = Trace;
    fn deref(&self) -> &Trace {
        &self.trace
    }
}

/// What a fold leaves behind.
pub struct FoldTotals {
    graph: Shared,
    fold: ValueId,
    carries: Vec<(String, TileType)>,
    site: Site,
}

/// What stands before the body of a fold.
struct Head<'a> {
    name: &'a str,
    trips: Ix,
    rescaled: bool,
    site: Site,
}

/// A carry about to be declared.
struct Slot<'a> {
    name: &'a str,
    ty: TileType,
    init: f32,
    site: &'a Site,
}

impl Trace {
    /// `for iter in 0..trips`, with sums and carried values declared inside. `trips` must be at least one at run time.
    #[track_caller]
    pub fn fold(&self, name: &str, trips: Ix, body: impl FnOnce(&mut FoldScope, Ix)) -> FoldTotals {
        self.run_fold(
            Head {
                name,
                trips,
                rescaled: false,
                site: here(),
            },
            body,
        )
    }

    /// A fold with a running reference per row: [`FoldScope::rebase`] raises it, and every sum is kept relative to it.
    ///
    /// The result is the same wherever the reference stands, whatever the policy by which the schedule lets it move and
    /// in whatever order the trips run. So that this holds, sums after the rebase take values proportional to the weights,
    /// carried values and stores inside the fold do not read them, and what is stored afterwards is free of the reference:
    /// a quotient of two sums, or [`FoldTotals::reference`] plus the `log2` of a sum. Validation refuses anything else.
    #[track_caller]
    pub fn rescaled_fold(&self, name: &str, trips: Ix, body: impl FnOnce(&mut FoldScope, Ix)) -> FoldTotals {
        self.run_fold(
            Head {
                name,
                trips,
                rescaled: true,
                site: here(),
            },
            body,
        )
    }

    fn run_fold(&self, head: Head<'_>, body: impl FnOnce(&mut FoldScope, Ix)) -> FoldTotals {
        let Head {
            name,
            trips,
            rescaled,
            site,
        } = head;
        let iter = {
            let mut g = self.graph.borrow_mut();
            g.blocks.push(vec![]);
            g.iters += 1;
            IterId(g.iters - 1)
        };
        let mut scope = FoldScope {
            trace: self.clone(),
            rescaled,
            carries: vec![],
        };
        body(&mut scope, Ix::Iter(iter));
        let carries = scope.carries;
        let mut g = self.graph.borrow_mut();
        let body = g.blocks.pop().unwrap_or_default();
        if rescaled && !carries.iter().any(|c| c.kind == CarryKind::Reference) {
            g.error(
                site.clone(),
                format!(
                    "rescaled fold `{name}` never calls rebase, so it has no reference; use fold, or rebase its scores"
                ),
            );
        }
        let summary = carries.iter().map(|c| (c.name.clone(), c.ty)).collect();
        let fold = Fold {
            name: name.to_owned(),
            iter,
            trips,
            carries,
            body,
        };
        let id = g.emit(
            Op::Fold(Box::new(fold)),
            TileType {
                shape: Shape::Scalar,
                dtype: DType::F32,
            },
            site.clone(),
        );
        g.kernel.values[id.0 as usize].name = Some(name.to_owned());
        drop(g);
        FoldTotals {
            graph: self.graph.clone(),
            fold: id,
            carries: summary,
            site,
        }
    }
}

impl FoldScope {
    fn same_kernel(&self, tile: &Tile, site: &Site) {
        if !Rc::ptr_eq(&self.trace.graph, &tile.graph) {
            let message = "a value of another kernel is used here; trace each kernel with its own values";
            self.trace.graph.borrow_mut().error(site.clone(), message);
        }
    }

    fn declare(&mut self, slot: Slot<'_>, kind: impl FnOnce(ValueId) -> CarryKind) -> ValueId {
        let Slot { name, ty, init, site } = slot;
        let mut g = self.trace.graph.borrow_mut();
        if self.carries.iter().any(|c| c.name == name) {
            g.error(site.clone(), format!("the fold already carries `{name}`"));
        }
        let carry = u32::try_from(self.carries.len()).unwrap_or(u32::MAX);
        let arg = g.kernel.push(Op::FoldArg { carry }, ty, site.clone());
        drop(g);
        self.carries.push(Carry {
            name: name.to_owned(),
            ty,
            init,
            arg,
            kind: kind(arg),
        });
        arg
    }

    /// `exp2(scores − reference)`, after raising the reference to cover the row maximum of `scores` (`[rows, cols]`).
    #[track_caller]
    pub fn rebase(&mut self, scores: &Tile) -> Tile {
        let site = here();
        let rows = match scores.shape() {
            Shape::Mat(r, _) => r,
            other => {
                self.trace
                    .graph
                    .borrow_mut()
                    .error(site.clone(), format!("rebase of {other:?}; scores are a matrix"));
                Extent::Lit(0)
            }
        };
        if !self.rescaled || self.carries.iter().any(|c| c.kind == CarryKind::Reference) {
            self.trace
                .graph
                .borrow_mut()
                .error(site.clone(), "rebase is legal once, inside rescaled_fold");
        }
        self.same_kernel(scores, &site);
        let ty = TileType {
            shape: Shape::Row(rows),
            dtype: DType::F32,
        };
        self.declare(
            Slot {
                name: "reference",
                ty,
                init: f32::NEG_INFINITY,
                site: &site,
            },
            |_| CarryKind::Reference,
        );
        let out = TileType {
            shape: scores.shape(),
            dtype: DType::F32,
        };
        let id = self
            .trace
            .graph
            .borrow_mut()
            .emit(Op::Rebase { scores: scores.id }, out, site);
        Tile {
            graph: self.trace.graph.clone(),
            id,
        }
    }

    /// Adds `contribution` to the sum called `name`, which starts at zero; after a rebase the sum follows the reference.
    #[track_caller]
    pub fn accumulate(&mut self, name: &str, contribution: &Tile) {
        let site = here();
        self.same_kernel(contribution, &site);
        let (shape, dtype) = (contribution.shape(), contribution.dtype());
        if dtype != DType::F32 {
            self.trace.graph.borrow_mut().error(
                site.clone(),
                format!("sum `{name}` of a {dtype} tile; sums are f32: cast it first"),
            );
        }
        let ty = TileType {
            shape,
            dtype: DType::F32,
        };
        let rescaled = self.carries.iter().any(|c| c.kind == CarryKind::Reference);
        self.declare(
            Slot {
                name,
                ty,
                init: 0.0,
                site: &site,
            },
            |_| CarryKind::Sum {
                contribution: contribution.id,
                rescaled,
            },
        );
    }

    /// A carried value that starts as `init` everywhere; `next` computes its next value from the current one.
    ///
    /// Where `next` is more than the maximum, minimum or sum of the carry and a value of the trip, or where something else
    /// reads it, the order of the trips shows, and schedules may not reverse it.
    #[track_caller]
    pub fn carry(&mut self, name: &str, like: &Tile, init: f32, next: impl FnOnce(&Tile) -> Tile) -> Tile {
        let site = here();
        let ty = TileType {
            shape: like.shape(),
            dtype: DType::F32,
        };
        let arg = self.declare(
            Slot {
                name,
                ty,
                init,
                site: &site,
            },
            CarryKind::Next,
        );
        let next = next(&Tile {
            graph: self.trace.graph.clone(),
            id: arg,
        });
        self.same_kernel(&next, &site);
        let (shape, dtype) = (next.shape(), next.dtype());
        if (TileType { shape, dtype }) != ty {
            let message = format!(
                "`{name}` is carried as {:?} of {}; the next value is {shape:?} of {dtype}",
                ty.shape, ty.dtype
            );
            self.trace.graph.borrow_mut().error(site, message);
        }
        if let Some(c) = self.carries.last_mut() {
            c.kind = CarryKind::Next(next.id);
        }
        next
    }
}

impl FoldTotals {
    /// The final value of the sum or carry called `name`.
    #[must_use]
    #[track_caller]
    pub fn total(&self, name: &str) -> Tile {
        let found = self.carries.iter().position(|(n, _)| n == name);
        let (index, ty) = match found {
            Some(i) => (i, self.carries[i].1),
            None => {
                let names: Vec<_> = self.carries.iter().map(|(n, _)| n.as_str()).collect();
                self.graph.borrow_mut().error(
                    here(),
                    format!("the fold carries no `{name}`; it carries {}", names.join(", ")),
                );
                (
                    0,
                    TileType {
                        shape: Shape::Scalar,
                        dtype: DType::F32,
                    },
                )
            }
        };
        let carry = u32::try_from(index).unwrap_or(u32::MAX);
        let id = self
            .graph
            .borrow_mut()
            .emit(Op::FoldOut { fold: self.fold, carry }, ty, here());
        Tile {
            graph: self.graph.clone(),
            id,
        }
    }

    /// The final reference of a rescaled fold, `[rows]`.
    #[must_use]
    #[track_caller]
    pub fn reference(&self) -> Tile {
        self.total("reference")
    }

    /// Where the fold was written.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }
}

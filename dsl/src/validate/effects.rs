//! Effects: who reads and writes which tensor, and that every output element has one writer.

use super::error::{Invalid, Report};
use super::structure::{Placed, extents};
use crate::index::{AxisId, Ix};
use crate::ir::{Access, At, Axis, Dim, Extent, Op, TensorId, ValueId};

pub(super) fn check(report: &mut Report<'_>, program: &[Placed]) {
    tensors(report, program);
    tiles(report, program);
    stores(report, program);
    if report.kernel.grid.is_empty() {
        report.general(Invalid::NoGrid);
    }
}

fn tensors(report: &mut Report<'_>, program: &[Placed]) {
    let kernel = report.kernel;
    let mut used = vec![false; kernel.tensors.len()];
    for placed in program {
        let (tensor, op, wanted) = match kernel.op(placed.id) {
            Op::Load { tensor, .. } => (*tensor, "load", Access::Read),
            Op::Store { tensor, .. } => (*tensor, "store", Access::Write),
            _ => continue,
        };
        let held = kernel.tensor(tensor);
        if held.access == wanted {
            used[tensor.0 as usize] = true;
        } else {
            let is = if held.access == Access::Read { "input" } else { "output" };
            report.at(
                placed.id,
                Invalid::Access {
                    op,
                    tensor: held.name.clone(),
                    is,
                },
            );
        }
    }
    for (tensor, used) in kernel.tensors.iter().zip(used) {
        if !used {
            let (what, verb) = match tensor.access {
                Access::Read => ("input", "loaded"),
                Access::Write => ("output", "stored"),
            };
            report.general(Invalid::Unused {
                what,
                name: tensor.name.clone(),
                verb,
            });
        }
        for (index, _) in tensor.dims.iter().enumerate().filter(|(_, d)| **d == Dim::Lit(0)) {
            report.general(Invalid::EmptyDimension {
                tensor: tensor.name.clone(),
                index,
            });
        }
    }
}

/// A tile size that no tile has would be a knob without an effect.
fn tiles(report: &mut Report<'_>, program: &[Placed]) {
    let kernel = report.kernel;
    let mut used = vec![false; kernel.tiles.len()];
    for placed in program {
        for extent in extents(kernel.value(placed.id).ty.shape) {
            if let Extent::Tile(t) = extent {
                used[t.0 as usize] = true;
            }
        }
    }
    for (tile, used) in kernel.tiles.iter().zip(used) {
        if !used {
            report.general(Invalid::Unused {
                what: "tile size",
                name: tile.name.clone(),
                verb: "the extent of a tile",
            });
        }
    }
}

fn stores(report: &mut Report<'_>, program: &[Placed]) {
    let kernel = report.kernel;
    let mut written: Vec<(TensorId, &[At])> = vec![];
    for placed in program {
        let Op::Store { tensor, at, .. } = kernel.op(placed.id) else {
            continue;
        };
        if written.contains(&(*tensor, at.as_slice())) {
            let (tensor, place) = (report.names.tensor(*tensor), report.names.place(at));
            report.at(placed.id, Invalid::StoredTwice { tensor, place });
        }
        written.push((*tensor, at));
        one_writer(report, *placed, *tensor, at);
    }
    if written.is_empty() {
        report.general(Invalid::NoStore);
    }
}

/// Blocks along every axis, and trips of the fold around the store, must write different places.
fn one_writer(report: &mut Report<'_>, placed: Placed, tensor: TensorId, at: &[At]) {
    let kernel = report.kernel;
    let mut apart: Vec<(Ix, &'static str)> = vec![];
    for (i, Axis { count, .. }) in kernel.grid.iter().enumerate() {
        if *count != Ix::Const(1) {
            apart.push((Ix::Axis(AxisId(u32::try_from(i).unwrap_or(u32::MAX))), "its blocks"));
        }
    }
    if let Some(fold) = placed.fold.and_then(|id: ValueId| kernel.fold(id))
        && fold.trips != Ix::Const(1)
    {
        apart.push((Ix::Iter(fold.iter), "its trips"));
    }
    for (symbol, who) in apart {
        if !at.iter().any(|entry| mentions(entry, &symbol)) {
            let (tensor, place) = (report.names.tensor(tensor), report.names.place(at));
            let symbol = report.names.ix(&symbol);
            report.at(
                placed.id,
                Invalid::SamePlace {
                    tensor,
                    place,
                    symbol,
                    who,
                },
            );
        }
    }
}

fn mentions(at: &At, symbol: &Ix) -> bool {
    let (At::Point(ix) | At::Span { start: ix, .. }) = at;
    let mut found = false;
    ix.leaves(&mut |leaf| found |= leaf == symbol);
    found
}

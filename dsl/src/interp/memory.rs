//! Loads and stores: windows of tensors, clipped at the bounds.

use super::error::InterpError;
use super::tensor::{TensorData, dense_strides};
use super::tile::TileData;
use crate::ir::Site;

/// The most elements one tile or output may have: 2 GiB of storage.
pub(super) const MAX_ELEMS: usize = 1 << 28;

/// One entry of an index list, evaluated.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Point(i64),
    Span { start: i64, len: usize },
}

/// One dimension that a tile walks.
#[derive(Clone, Copy, Debug)]
struct Walk {
    /// First and one past the last position of the tile that lie inside the tensor.
    inside: (usize, usize),
    /// Storage offset of tile position 0, which may lie before the tensor.
    start: i64,
    stride: usize,
}

impl Walk {
    const NONE: Walk = Walk {
        inside: (0, 1),
        start: 0,
        stride: 0,
    };

    fn new(start: i64, len: usize, dim: usize, stride: usize) -> Self {
        let (len, dim) = (to_i64(len), to_i64(dim));
        let first = start.saturating_neg().clamp(0, len);
        let end = dim.saturating_sub(start).clamp(0, len);
        Self {
            inside: (to_usize(first), to_usize(end)),
            start,
            stride,
        }
    }

    /// The storage offset of a position inside.
    fn offset(&self, position: usize) -> usize {
        to_usize(self.start.saturating_add(to_i64(position))).saturating_mul(self.stride)
    }
}

/// Calls `visit(tile position, storage offset)` for every element of the window that lies inside the tensor, row by
/// row, until it returns an error.
fn each_inside<E>(
    layout: (&[usize], &[usize]),
    entries: &[Entry],
    tile_cols: usize,
    mut visit: impl FnMut(usize, usize) -> Result<(), E>,
) -> Result<(), E> {
    let mut base = 0usize;
    let mut walks = vec![];
    for (entry, (&dim, &stride)) in entries.iter().zip(layout.0.iter().zip(layout.1)) {
        match *entry {
            Entry::Span { start, len } => walks.push(Walk::new(start, len, dim, stride)),
            Entry::Point(i) => match usize::try_from(i) {
                Ok(i) if i < dim => base = base.saturating_add(i.saturating_mul(stride)),
                // The whole window lies outside.
                _ => return Ok(()),
            },
        }
    }
    // A vector walks one dimension; whether as rows or as columns makes no difference to where its numbers lie.
    let (rows, cols) = match walks[..] {
        [one] => (Walk::NONE, one),
        [rows, cols] => (rows, cols),
        _ => return Ok(()),
    };
    for r in rows.inside.0..rows.inside.1 {
        for c in cols.inside.0..cols.inside.1 {
            visit(r * tile_cols + c, base + rows.offset(r) + cols.offset(c))?;
        }
    }
    Ok(())
}

/// Reads a window; elements outside the tensor are zero.
pub(super) fn load(tensor: &TensorData, entries: &[Entry], shape: (usize, usize)) -> TileData {
    let mut tile = TileData::filled(shape, 0.0);
    let cols = shape.1;
    let done: Result<(), std::convert::Infallible> =
        each_inside((tensor.dims(), tensor.strides()), entries, cols, |at, offset| {
            tile.data[at] = tensor.data()[offset];
            Ok(())
        });
    // Nothing can fail; the match keeps it so.
    match done {
        Ok(()) => tile,
    }
}

/// An output while it is written: elements that nobody wrote are NaN.
pub(super) struct Output {
    pub name: String,
    pub dims: Vec<usize>,
    pub data: Vec<f64>,
    written: Vec<bool>,
}

impl Output {
    pub fn new(name: &str, dims: Vec<usize>) -> Result<Self, InterpError> {
        let elems = dims
            .iter()
            .try_fold(1usize, |n, d| n.checked_mul(*d))
            .filter(|n| *n <= MAX_ELEMS);
        let Some(elems) = elems else {
            let elems = dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(" * ");
            return Err(InterpError::TooLarge {
                what: name.to_owned(),
                elems,
                limit: MAX_ELEMS,
            });
        };
        Ok(Self {
            name: name.to_owned(),
            dims,
            data: vec![f64::NAN; elems],
            written: vec![false; elems],
        })
    }

    /// Writes a window; elements outside the tensor are dropped.
    pub fn store(&mut self, entries: &[Entry], tile: &TileData, site: &Site) -> Result<(), InterpError> {
        let Self {
            name,
            dims,
            data,
            written,
        } = self;
        let strides = dense_strides(dims);
        each_inside((dims, &strides), entries, tile.cols, |at, offset| {
            if std::mem::replace(&mut written[offset], true) {
                let index = index_of(offset, &strides);
                return Err(InterpError::WrittenTwice {
                    tensor: name.clone(),
                    index,
                    site: site.clone(),
                });
            }
            data[offset] = tile.data[at];
            Ok(())
        })
    }
}

fn index_of(mut offset: usize, strides: &[usize]) -> String {
    let mut index = vec![];
    for stride in strides {
        index.push((offset / stride.max(&1)).to_string());
        offset %= stride.max(&1);
    }
    format!("[{}]", index.join(", "))
}

fn to_i64(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

fn to_usize(n: i64) -> usize {
    usize::try_from(n).unwrap_or(0)
}

//! Which bytes a tensor copy moves: rows of a box, in global and in shared memory.

use super::map::TensorMap;

/// One row of a box: `bytes` bytes from linear shared offset `shared` on. The part that lies
/// inside the tensor starts `skip` bytes later and comes from (or goes to) `global`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub shared: usize,
    pub bytes: usize,
    pub skip: usize,
    pub inside_bytes: usize,
    pub global: u64,
}

/// The rows of the box at `coords`, in shared-memory order.
pub(crate) fn rows(map: &TensorMap, coords: &[i64]) -> Vec<Row> {
    let spec = &map.spec;
    let elem = spec.elem.bytes();
    let row_bytes = (u64::from(spec.box_dims[0]) * elem) as usize;
    let count: usize = spec.box_dims[1..].iter().map(|b| *b as usize).product();
    let (low, high) = clip(coords[0], i64::from(spec.box_dims[0]), spec.dims[0]);
    let mut out = Vec::with_capacity(count);
    for index in 0..count {
        let mut rest = index;
        let mut inside = low < high;
        let mut global = spec.address;
        let outer = coords.iter().zip(&spec.box_dims).zip(spec.dims.iter()).skip(1);
        for (((coord, extent), dim), stride) in outer.zip(&spec.strides_bytes) {
            let extent = *extent as usize;
            let at = coord + (rest % extent) as i64;
            rest /= extent;
            if at < 0 || at as u64 >= *dim {
                inside = false;
            } else {
                global = global.wrapping_add(at as u64 * stride);
            }
        }
        let skip = (low - coords[0]) as usize * elem as usize;
        let inside_bytes = if inside {
            ((high - low) as u64 * elem) as usize
        } else {
            0
        };
        let global = global.wrapping_add((low.max(0) as u64) * elem);
        out.push(Row {
            shared: index * row_bytes,
            bytes: row_bytes,
            skip,
            inside_bytes,
            global,
        });
    }
    out
}

/// The part of `start..start + len` inside `0..dim`.
fn clip(start: i64, len: i64, dim: u64) -> (i64, i64) {
    let low = start.max(0);
    let high = (start + len).min(dim as i64);
    if low < high { (low, high) } else { (start, start) }
}

#[cfg(test)]
mod tests {
    use super::super::map::{ElemType, Swizzle, TensorMapSpec};
    use super::*;

    fn map() -> TensorMap {
        TensorMap::new(TensorMapSpec {
            elem: ElemType::F32,
            address: 0x1000,
            dims: vec![10, 3],
            strides_bytes: vec![48],
            box_dims: vec![4, 2],
            swizzle: Swizzle::None,
        })
        .unwrap()
    }

    #[test]
    fn inside_and_overhanging_boxes() {
        let inner = rows(&map(), &[4, 1]);
        assert_eq!(
            inner[1],
            Row {
                shared: 16,
                bytes: 16,
                skip: 0,
                inside_bytes: 16,
                global: 0x1000 + 2 * 48 + 16
            }
        );
        let right = rows(&map(), &[8, 2]);
        assert_eq!((right[0].inside_bytes, right[1].inside_bytes), (8, 0));
        let left = rows(&map(), &[-1, -1]);
        assert_eq!(left[0].inside_bytes, 0);
        assert_eq!(
            left[1],
            Row {
                shared: 16,
                bytes: 16,
                skip: 4,
                inside_bytes: 12,
                global: 0x1000
            }
        );
        assert_eq!(rows(&map(), &[100, 0])[0].inside_bytes, 0);
    }
}

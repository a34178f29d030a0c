//! Where the elements of a tensor lie: extents and strides, and copies between dense and strided order.

use serde::{Deserialize, Serialize};

use super::CaseError;

/// Rows of a strided tensor start at multiples of this, as tensor maps need (CUDA driver API, `cuTensorMapEncodeTiled`).
pub const ROW_ALIGN_BYTES: u64 = 16;

/// Offsets stay below this, so that sums of them cannot wrap.
const MOST_ELEMS: u64 = 1 << 62;

/// Extents and strides in elements, outermost dimension first; the last stride is 1.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Layout {
    pub dims: Vec<u64>,
    pub strides: Vec<u64>,
}

/// How strides follow from extents.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LayoutRule {
    /// No gaps.
    #[default]
    Dense,
    /// Rows start at multiples of 16 bytes: the least that tensor maps allow.
    Aligned,
    /// Aligned, with 16 further bytes after each row and one further row after each outer slice.
    Padded,
    /// Aligned, with the two dimensions before the last in exchanged memory order: `[b, h, s, d]` for `[b, s, h, d]`.
    Permuted,
}

impl LayoutRule {
    pub const ALL: [Self; 4] = [Self::Dense, Self::Aligned, Self::Padded, Self::Permuted];

    /// The word used in records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dense => "dense",
            Self::Aligned => "aligned",
            Self::Padded => "padded",
            Self::Permuted => "permuted",
        }
    }

    /// The layout of a tensor of these extents.
    ///
    /// # Errors
    /// If offsets do not fit.
    pub fn apply(self, dims: &[u64], elem_bytes: u32) -> Result<Layout, CaseError> {
        let rank = dims.len();
        let mut order: Vec<usize> = (0..rank).collect();
        // Two dimensions are no more than rows: exchanging needs one dimension outside the last two.
        if self == Self::Permuted && rank > 2 {
            order.swap(rank - 2, rank - 3);
        }
        let row_elems = ROW_ALIGN_BYTES / u64::from(elem_bytes.max(1));
        let mut strides = vec![1; rank];
        let mut step = 1_u64;
        for (depth, &axis) in order.iter().rev().enumerate() {
            strides[axis] = step;
            let wide = step.checked_mul(dims[axis]).filter(|elems| *elems <= MOST_ELEMS);
            step = wide.ok_or_else(|| CaseError::TooLarge { dims: dims.to_vec() })?;
            step = match (self, depth) {
                (Self::Dense, _) => step,
                (Self::Padded, 0) => step.next_multiple_of(row_elems) + row_elems,
                (Self::Padded, _) => step + strides[order[rank - 2]],
                (_, 0) => step.next_multiple_of(row_elems),
                _ => step,
            };
        }
        Ok(Layout {
            dims: dims.to_vec(),
            strides,
        })
    }
}

impl Layout {
    /// Elements of the tensor.
    #[must_use]
    pub fn elems(&self) -> u64 {
        self.dims.iter().fold(1, |product, dim| product.saturating_mul(*dim))
    }

    /// Elements from the first to the last, gaps included.
    #[must_use]
    pub fn span_elems(&self) -> u64 {
        if self.dims.contains(&0) {
            return 0;
        }
        let last = self
            .dims
            .iter()
            .zip(&self.strides)
            .map(|(dim, stride)| (dim - 1).saturating_mul(*stride));
        last.fold(1, u64::saturating_add)
    }

    /// Whether element `i` in dense order lies at offset `i`.
    #[must_use]
    pub fn is_dense(&self) -> bool {
        self.span_elems() == self.elems() && self.strides.is_sorted_by(|a, b| a >= b)
    }

    /// Offset and length of each row (last dimension) in dense order.
    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        let (outer, width) = match self.dims.split_last() {
            Some((width, outer)) => (outer, *width),
            None => (&[][..], 1),
        };
        let count = outer.iter().product::<u64>();
        (0..count).map(move |row| {
            let mut rest = row;
            let mut offset = 0;
            for (dim, stride) in outer.iter().zip(&self.strides).rev() {
                offset += rest % dim * stride;
                rest /= dim;
            }
            (offset as usize, width as usize)
        })
    }

    /// Copies dense elements to their places; the gaps keep `fill`.
    #[must_use]
    pub fn scatter<T: Copy>(&self, dense: &[T], fill: T) -> Vec<T> {
        if self.is_dense() {
            return dense.to_vec();
        }
        let mut out = vec![fill; self.span_elems() as usize];
        let mut rest = dense;
        for (offset, width) in self.rows() {
            let (row, tail) = rest.split_at(width.min(rest.len()));
            out[offset..offset + row.len()].copy_from_slice(row);
            rest = tail;
        }
        out
    }

    /// Copies the elements out of their places, and counts gap elements for which `changed` holds.
    #[must_use]
    pub fn gather<T: Copy>(&self, strided: &[T], changed: impl Fn(T) -> bool) -> (Vec<T>, u64) {
        if self.is_dense() {
            return (strided.to_vec(), 0);
        }
        let mut dense = Vec::with_capacity(self.elems() as usize);
        for (offset, width) in self.rows() {
            dense.extend_from_slice(&strided[offset..offset + width]);
        }
        let count = |part: &[T]| part.iter().filter(|x| changed(**x)).count() as u64;
        let gaps = count(strided).saturating_sub(count(&dense));
        (dense, gaps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(rule: LayoutRule, dims: &[u64]) -> Layout {
        rule.apply(dims, 2).unwrap()
    }

    #[test]
    fn rules_give_the_strides_they_promise() {
        assert_eq!(layout(LayoutRule::Dense, &[2, 3, 4, 5]).strides, [60, 20, 5, 1]);
        assert_eq!(layout(LayoutRule::Aligned, &[2, 3, 4, 5]).strides, [96, 32, 8, 1]);
        assert_eq!(layout(LayoutRule::Padded, &[2, 3, 4, 5]).strides, [256, 80, 16, 1]);
        assert_eq!(layout(LayoutRule::Permuted, &[2, 3, 4, 8]).strides, [96, 8, 24, 1]);
        assert_eq!(layout(LayoutRule::Permuted, &[7, 8]).strides, [8, 1]);
        assert!(LayoutRule::Dense.apply(&[u64::MAX, 2], 2).is_err());
    }

    proptest! {
        #[test]
        fn scatter_and_gather_are_inverse(
            dims in prop::collection::vec(1_u64..6, 1..5), rule in 0_usize..4,
        ) {
            let layout = layout(LayoutRule::ALL[rule], &dims);
            let dense: Vec<u16> = (0..layout.elems() as u16).collect();
            let strided = layout.scatter(&dense, u16::MAX);
            prop_assert_eq!(strided.len() as u64, layout.span_elems());
            let (back, gaps) = layout.gather(&strided, |x| x != u16::MAX);
            prop_assert_eq!(back, dense);
            prop_assert_eq!(gaps, 0);
        }

        #[test]
        fn a_changed_gap_is_counted(dims in prop::collection::vec(2_u64..6, 2..5)) {
            let layout = layout(LayoutRule::Padded, &dims);
            let mut strided = layout.scatter(&vec![7_u16; layout.elems() as usize], u16::MAX);
            strided[*dims.last().unwrap() as usize] = 1;
            prop_assert_eq!(layout.gather(&strided, |x| x != u16::MAX).1, 1);
        }
    }
}

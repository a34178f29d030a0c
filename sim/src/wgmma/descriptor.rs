//! Shared-memory matrix descriptors and the layouts they select (PTX ISA 9.7.15.5.1).
//!
//! In units of 16-byte chunks, for W chunks per swizzled row:
//!
//! | major | swizzle | (MN, K) to chunk |
//! |---|---|---|
//! | K | none | ((8, n), 2) : ((1, SBO), LBO) |
//! | K | 32, 64, 128 B | ((8, n), 2) : ((W, SBO), 1) |
//! | MN | none | ((1, n), (8, k)) : ((-, SBO), (1, LBO)) |
//! | MN | 32, 64, 128 B | ((W, n), (8, k)) : ((1, LBO), (W, SBO)) |

use crate::decode::SHARED_START;
use crate::tma::map::Swizzle;

/// K extent of one operation, in 16-bit elements.
pub(crate) const K: usize = 16;

/// A decoded descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Descriptor {
    pub start: usize,
    pub leading_bytes: usize,
    pub stride_bytes: usize,
    pub swizzle: Swizzle,
}

impl Descriptor {
    /// Decodes the 64-bit value; says what is not allowed.
    pub fn decode(bits: u64) -> Result<Self, String> {
        let field = |at: u32| ((bits >> at & 0x3fff) << 4) as usize;
        let base_offset = bits >> 49 & 7;
        if base_offset != 0 {
            return Err(format!(
                "matrix descriptor {bits:#018x} has base offset {base_offset}; only 0 is simulated"
            ));
        }
        let swizzle = match bits >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        Ok(Self {
            start: field(0),
            leading_bytes: field(16),
            stride_bytes: field(32),
            swizzle,
        })
    }

    /// Address of the 16-byte chunk that holds element (`mn`, `k`) of a K-major operand (chunk of
    /// 8 elements along K) or of an MN-major one (along MN), after the swizzle.
    pub fn chunk(&self, mn_major: bool, mn: usize, k: usize) -> usize {
        let row = self.swizzle.row_bytes() as usize;
        let per_row = row / 16;
        let (leading, stride) = (self.leading_bytes, self.stride_bytes);
        let linear = match (mn_major, self.swizzle) {
            (false, Swizzle::None) => (mn / 8) * stride + (mn % 8) * 16 + (k / 8) * leading,
            (false, _) => (mn / 8) * stride + (mn % 8) * row + (k / 8) * 16,
            (true, Swizzle::None) => (mn / 8) * stride + (k % 8) * 16 + (k / 8) * leading,
            (true, _) => {
                let chunk = mn / 8;
                (chunk / per_row) * leading + (chunk % per_row) * 16 + (k % 8) * row + (k / 8) * stride
            }
        };
        self.swizzle.apply(self.start + linear)
    }

    /// Offsets of all chunks of an operand of `mn` rows (or columns) in the CTA's shared bytes;
    /// `None` when one lies outside `smem_bytes`.
    pub fn chunks(&self, mn_major: bool, mn: usize, smem_bytes: usize) -> Option<Vec<usize>> {
        let start = SHARED_START as usize;
        let mut out = Vec::with_capacity(mn * 2);
        let mut add = |address: usize| {
            let at = address.checked_sub(start).filter(|at| at + 16 <= smem_bytes)?;
            out.push(at);
            Some(())
        };
        if mn_major {
            for k in 0..K {
                for chunk in 0..mn / 8 {
                    add(self.chunk(true, chunk * 8, k))?;
                }
            }
        } else {
            for row in 0..mn {
                for k in [0, 8] {
                    add(self.chunk(false, row, k))?;
                }
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let d = Descriptor::decode(0x4000_0040_0280_0040).unwrap();
        assert_eq!(d.start, 1024);
        assert_eq!((d.leading_bytes, d.stride_bytes), (10_240, 1024));
        assert_eq!(d.swizzle, Swizzle::B128);
        assert!(Descriptor::decode(1 << 49).is_err());
    }

    #[test]
    fn k_step_inside_a_swizzled_row_is_32_bytes() {
        let d = Descriptor::decode(0x4000_0040_0001_0040).unwrap();
        let next = Descriptor {
            start: d.start + 32,
            ..d
        };
        // Row 3, second k16 step: chunk 2 of the row, 2 ^ 3.
        let exchanged = 1;
        assert_eq!(next.chunk(false, 3, 0), 1024 + 3 * 128 + exchanged * 16);
        assert_eq!(d.chunk(false, 8, 8), 1024 + 1024 + 16);
    }
}

//! Tensor maps: the 128-byte descriptions that TMA instructions read.
//!
//! A [`TensorMapSpec`] is plain data and can be checked anywhere; encoding it needs the driver, since the
//! 128 bytes are opaque. Element strides are 1, there is no interleave, and elements outside the tensor
//! read as zero. The rules are those of `cuTensorMapEncodeTiled` in the CUDA driver API reference.

mod encode;
mod refusal;

pub use encode::TensorMap;
pub use refusal::TensorMapRefusal;

use serde::{Deserialize, Serialize};

const MAX_RANK: usize = 5;
const MAX_DIM: u64 = 1 << 32;
const STRIDE_END_BYTES: u64 = 1 << 40;
const ALIGN_BYTES: u64 = 16;
const MAX_BOX: u32 = 256;

/// Element types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TensorDtype {
    /// 16-bit brain float.
    Bf16,
    /// 16-bit IEEE float.
    F16,
    /// 32-bit IEEE float.
    F32,
}

impl TensorDtype {
    /// Bytes of an element.
    #[must_use]
    pub fn size_bytes(self) -> u32 {
        match self {
            Self::Bf16 | Self::F16 => 2,
            Self::F32 => 4,
        }
    }
}

/// How a box is permuted in shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Swizzle {
    /// Rows one after another.
    None,
    /// 16-byte units permuted within 32 bytes.
    B32,
    /// 16-byte units permuted within 64 bytes.
    B64,
    /// 16-byte units permuted within 128 bytes.
    B128,
}

impl Swizzle {
    /// The most bytes of the box's innermost dimension; none without swizzle.
    #[must_use]
    pub fn span_bytes(self) -> Option<u32> {
        match self {
            Self::None => None,
            Self::B32 => Some(32),
            Self::B64 => Some(64),
            Self::B128 => Some(128),
        }
    }
}

/// The unit in which loads are brought into the level-2 cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum L2Promotion {
    /// No promotion.
    None,
    /// 64 bytes.
    B64,
    /// 128 bytes.
    B128,
    /// 256 bytes.
    B256,
}

/// A tiled view of a tensor in device memory. Dimension 0 is the innermost and has a stride of one element.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorMapSpec {
    /// Device address of element 0.
    pub base: u64,
    /// Element type.
    pub dtype: TensorDtype,
    /// Elements along each dimension, innermost first; 1 to 5 dimensions.
    pub dims_elems: Vec<u64>,
    /// Bytes between neighbours along dimensions 1 and up: one entry less than `dims_elems`.
    pub strides_bytes: Vec<u64>,
    /// Elements of a box along each dimension.
    pub box_elems: Vec<u32>,
    /// Permutation in shared memory.
    pub swizzle: Swizzle,
    /// Level-2 promotion.
    pub l2_promotion: L2Promotion,
}

impl TensorMapSpec {
    /// Checks every documented rule.
    ///
    /// # Errors
    /// [`TensorMapRefusal`] for the first one broken.
    pub fn validate(&self) -> Result<(), TensorMapRefusal> {
        self.validate_lengths()?;
        if !self.base.is_multiple_of(ALIGN_BYTES) {
            return Err(TensorMapRefusal::Base { base: self.base });
        }
        for (axis, &given) in self.dims_elems.iter().enumerate() {
            if given == 0 || given > MAX_DIM {
                return Err(TensorMapRefusal::Dim { axis, given });
            }
        }
        for (i, &given_bytes) in self.strides_bytes.iter().enumerate() {
            let axis = i + 1;
            if !given_bytes.is_multiple_of(ALIGN_BYTES) {
                return Err(TensorMapRefusal::StrideAlign { axis, given_bytes });
            }
            if given_bytes >= STRIDE_END_BYTES {
                return Err(TensorMapRefusal::StrideSize { axis, given_bytes });
            }
        }
        self.validate_box()?;
        self.validate_address_space()
    }

    /// Bytes that one box takes in shared memory, and that one TMA load reports to its barrier.
    #[must_use]
    pub fn box_bytes(&self) -> u64 {
        let elems = self.box_elems.iter().map(|&n| u64::from(n));
        elems.fold(self.dtype.size_bytes().into(), u64::saturating_mul)
    }

    fn validate_lengths(&self) -> Result<(), TensorMapRefusal> {
        let rank = self.dims_elems.len();
        if rank == 0 || rank > MAX_RANK {
            return Err(TensorMapRefusal::Rank { rank });
        }
        let lists = [
            ("the list of strides", self.strides_bytes.len(), rank - 1),
            ("the box", self.box_elems.len(), rank),
        ];
        for (what, given, wanted) in lists {
            if given != wanted {
                return Err(TensorMapRefusal::Length {
                    what,
                    given,
                    rank,
                    wanted,
                });
            }
        }
        Ok(())
    }

    fn validate_box(&self) -> Result<(), TensorMapRefusal> {
        for (axis, &given) in self.box_elems.iter().enumerate() {
            if given == 0 || given > MAX_BOX {
                return Err(TensorMapRefusal::Box { axis, given });
            }
        }
        let width = self.box_elems.first().copied().unwrap_or(0);
        let given_bytes = width * self.dtype.size_bytes();
        if !u64::from(given_bytes).is_multiple_of(ALIGN_BYTES) {
            return Err(TensorMapRefusal::BoxAlign { given_bytes });
        }
        match self.swizzle.span_bytes() {
            Some(most_bytes) if given_bytes > most_bytes => Err(TensorMapRefusal::SwizzleSpan {
                given_bytes,
                most_bytes,
            }),
            _ => Ok(()),
        }
    }

    fn validate_address_space(&self) -> Result<(), TensorMapRefusal> {
        let element_bytes = u64::from(self.dtype.size_bytes());
        let strides = std::iter::once(element_bytes).chain(self.strides_bytes.iter().copied());
        // Below 2^32 * 2^40 per dimension, so that 128 bits hold the sum.
        let last: u128 = strides
            .zip(&self.dims_elems)
            .map(|(stride, dim)| u128::from(stride) * u128::from(dim - 1))
            .sum();
        let end = u128::from(self.base) + last + u128::from(element_bytes);
        if end > 1 << 64 {
            return Err(TensorMapRefusal::AddressSpace { base: self.base });
        }
        Ok(())
    }
}

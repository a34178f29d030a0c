//! Tensor maps (CUDA driver API `cuTensorMapEncodeTiled`).

use thiserror::Error;

/// Bytes of a tensor map parameter.
pub const TENSOR_MAP_BYTES: usize = 128;
/// Marks the first bytes of a map's opaque value.
const MAGIC: u64 = 0x7761_7270_6d61_7001;

/// Element types of tensor maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElemType {
    /// 8-bit unsigned.
    U8,
    /// 16-bit unsigned.
    U16,
    /// 32-bit unsigned.
    U32,
    /// 32-bit signed.
    S32,
    /// 64-bit unsigned.
    U64,
    /// IEEE half.
    F16,
    /// bfloat16.
    Bf16,
    /// IEEE single.
    F32,
}

impl ElemType {
    /// Bytes of an element.
    pub fn bytes(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::S32 | Self::F32 => 4,
            Self::U64 => 8,
        }
    }
}

/// Shared-memory swizzle: 16-byte chunks are exchanged by row (PTX ISA 5.5.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Swizzle {
    /// Rows follow each other plainly.
    #[default]
    None,
    /// Within 32 bytes.
    B32,
    /// Within 64 bytes.
    B64,
    /// Within 128 bytes.
    B128,
}

impl Swizzle {
    /// Bytes of a swizzled row; 16 without a swizzle.
    pub(crate) fn row_bytes(self) -> u64 {
        match self {
            Self::None => 16,
            Self::B32 => 32,
            Self::B64 => 64,
            Self::B128 => 128,
        }
    }

    /// Where the byte of linear address `address` lies: bits 4.. are XORed with bits 7.. .
    pub(crate) fn apply(self, address: usize) -> usize {
        let mask = match self {
            Self::None => 0,
            Self::B32 => 1,
            Self::B64 => 3,
            Self::B128 => 7,
        };
        address ^ ((address >> 7 & mask) << 4)
    }
}

/// What a tensor map says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapSpec {
    /// Element type.
    pub elem: ElemType,
    /// Address of the tensor in global memory.
    pub address: u64,
    /// Extents in elements, innermost first; 1 to 5 of them.
    pub dims: Vec<u64>,
    /// Byte strides of dimensions 1.., one fewer than `dims`.
    pub strides_bytes: Vec<u64>,
    /// Box extents in elements.
    pub box_dims: Vec<u32>,
    /// Element strides of the box; all 1 is the usual case and the only one that is simulated.
    pub swizzle: Swizzle,
}

/// Why a tensor map was refused; the driver returns `CUDA_ERROR_INVALID_VALUE` for the same.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("tensor map refused: {0}")]
pub struct TensorMapError(pub String);

/// A tensor map as the device keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TensorMap {
    pub spec: TensorMapSpec,
}

fn refuse<T>(what: String) -> Result<T, TensorMapError> {
    Err(TensorMapError(what))
}

impl TensorMap {
    /// Checks the driver's rules.
    pub fn new(spec: TensorMapSpec) -> Result<Self, TensorMapError> {
        let rank = spec.dims.len();
        if !(1..=5).contains(&rank) {
            return refuse(format!("{rank} dimensions; 1 to 5 are allowed"));
        }
        if spec.strides_bytes.len() != rank - 1 || spec.box_dims.len() != rank {
            return refuse(format!(
                "{rank} dimensions need {} strides and {rank} box extents; {} and {} are given",
                rank - 1,
                spec.strides_bytes.len(),
                spec.box_dims.len()
            ));
        }
        if !spec.address.is_multiple_of(16) {
            return refuse(format!("address {:#x} is not a multiple of 16", spec.address));
        }
        if let Some(dim) = spec.dims.iter().find(|d| !(1..=1 << 32).contains(*d)) {
            return refuse(format!("extent {dim}; 1 to 2^32 is allowed"));
        }
        if let Some(stride) = spec
            .strides_bytes
            .iter()
            .find(|s| !s.is_multiple_of(16) || **s >= 1 << 40)
        {
            return refuse(format!(
                "stride {stride} bytes; a multiple of 16 below 2^40 is required"
            ));
        }
        if let Some(extent) = spec.box_dims.iter().find(|b| !(1..=256).contains(*b)) {
            return refuse(format!("box extent {extent}; 1 to 256 is allowed"));
        }
        let inner = u64::from(spec.box_dims[0]) * spec.elem.bytes();
        if !inner.is_multiple_of(16) {
            return refuse(format!(
                "the inner box extent is {inner} bytes; a multiple of 16 is required"
            ));
        }
        if spec.swizzle != Swizzle::None && inner > spec.swizzle.row_bytes() {
            return refuse(format!(
                "the inner box extent is {inner} bytes; this swizzle allows at most {}",
                spec.swizzle.row_bytes()
            ));
        }
        Ok(Self { spec })
    }

    /// Bytes that a box moves.
    pub fn box_bytes(&self) -> u64 {
        self.spec.box_dims.iter().map(|b| u64::from(*b)).product::<u64>() * self.spec.elem.bytes()
    }
}

/// The opaque value that a kernel receives.
pub(crate) fn encode(index: usize) -> [u8; TENSOR_MAP_BYTES] {
    let mut out = [0; TENSOR_MAP_BYTES];
    out[..8].copy_from_slice(&MAGIC.to_le_bytes());
    out[8..16].copy_from_slice(&(index as u64).to_le_bytes());
    out
}

/// The index in an opaque value.
pub(crate) fn decode(bytes: &[u8]) -> Option<usize> {
    let word = |at: usize| {
        bytes
            .get(at..at + 8)
            .and_then(|b| b.try_into().ok())
            .map(u64::from_le_bytes)
    };
    if word(0)? != MAGIC {
        return None;
    }
    usize::try_from(word(8)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_exchange_chunks() {
        assert_eq!(Swizzle::B128.apply(128), 128 + 16);
        assert_eq!(Swizzle::B128.apply(7 * 128 + 16), 7 * 128 + 6 * 16);
        assert_eq!(Swizzle::B64.apply(4 * 128), 4 * 128);
        assert_eq!(Swizzle::B64.apply(3 * 128), 3 * 128 + 48);
        assert_eq!(Swizzle::B32.apply(128 + 16), 128);
        assert_eq!(Swizzle::None.apply(999), 999);
    }

    #[test]
    fn encoding_round_trips() {
        assert_eq!(decode(&encode(3)), Some(3));
        assert_eq!(decode(&[0; 128]), None);
    }
}

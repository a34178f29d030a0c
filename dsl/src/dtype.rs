//! Element types of tensors and tiles.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The type of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary16.
    F16,
    /// bfloat16: binary32 with a 7-bit fraction.
    Bf16,
}

impl DType {
    /// Size of one element.
    #[must_use]
    pub const fn bytes(self) -> u32 {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
        }
    }

    /// Whether tensor cores take it as a 16-bit operand.
    #[must_use]
    pub const fn is_16_bit(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::F32 => "f32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
        })
    }
}

//! The two storage types of a problem, as bit patterns, with the constants the error gate needs.

use std::fmt;

use half::slice::{HalfBitsSliceExt, HalfFloatSliceExt};
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

/// Bit pattern a runner writes over every output before a launch: a NaN in both 16-bit types, so that an element the
/// kernel never wrote is seen as unwritten.
pub const POISON_16: u16 = 0xffff;

/// The same for an `f32` output such as LSE.
pub const POISON_32: u32 = 0xffff_ffff;

/// Storage type of every operand and of the output. Accumulation is always f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// bfloat16: 8 significant bits.
    Bf16,
    /// IEEE binary16: 11 significant bits.
    F16,
}

impl Dtype {
    /// Every type, in the order of the grammar's help texts.
    pub const ALL: [Self; 2] = [Self::Bf16, Self::F16];

    /// The word of the problem grammar.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    /// ε: the largest relative error of one rounding to nearest (2^-8 for bf16, 2^-11 for f16).
    #[must_use]
    pub const fn unit_roundoff(self) -> f64 {
        match self {
            Self::Bf16 => 1.0 / 256.0,
            Self::F16 => 1.0 / 2048.0,
        }
    }

    /// One unit in the last place of 1: twice [`Self::unit_roundoff`].
    #[must_use]
    pub const fn ulp(self) -> f64 {
        2.0 * self.unit_roundoff()
    }

    /// Largest finite value.
    #[must_use]
    pub fn max_finite(self) -> f32 {
        match self {
            Self::Bf16 => bf16::MAX.to_f32(),
            Self::F16 => f16::MAX.to_f32(),
        }
    }

    /// Rounds to nearest even and returns the bit pattern.
    #[must_use]
    pub fn encode(self, value: f32) -> u16 {
        match self {
            Self::Bf16 => bf16::from_f32(value).to_bits(),
            Self::F16 => f16::from_f32(value).to_bits(),
        }
    }

    /// Rounds an f64 once (not through f32) and returns the bit pattern.
    #[must_use]
    pub fn encode_f64(self, value: f64) -> u16 {
        match self {
            Self::Bf16 => bf16::from_f64(value).to_bits(),
            Self::F16 => f16::from_f64(value).to_bits(),
        }
    }

    /// The value of a bit pattern; exact.
    #[must_use]
    pub fn decode(self, bits: u16) -> f32 {
        match self {
            Self::Bf16 => bf16::from_bits(bits).to_f32(),
            Self::F16 => f16::from_bits(bits).to_f32(),
        }
    }

    /// Decodes the common prefix of both slices; exact.
    pub(crate) fn decode_into(self, bits: &[u16], out: &mut [f32]) {
        let len = bits.len().min(out.len());
        match self {
            Self::Bf16 => bits[..len]
                .reinterpret_cast::<bf16>()
                .convert_to_f32_slice(&mut out[..len]),
            Self::F16 => bits[..len]
                .reinterpret_cast::<f16>()
                .convert_to_f32_slice(&mut out[..len]),
        }
    }

    /// Rounds through this type and back.
    #[must_use]
    pub fn round(self, value: f32) -> f32 {
        self.decode(self.encode(value))
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

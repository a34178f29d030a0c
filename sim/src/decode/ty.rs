//! PTX types of instructions and registers (PTX ISA 5.2).

/// An instruction type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    Bf16,
    F16x2,
    Bf16x2,
    F32,
    F64,
    Pred,
}

/// Whether bits are read as an integer, a float, or either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Bits,
    Int,
    Float,
    Pred,
}

impl Ty {
    /// Reads a modifier such as `u32`.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "b8" => Self::B8,
            "b16" => Self::B16,
            "b32" => Self::B32,
            "b64" => Self::B64,
            "b128" => Self::B128,
            "u8" => Self::U8,
            "u16" => Self::U16,
            "u32" => Self::U32,
            "u64" => Self::U64,
            "s8" => Self::S8,
            "s16" => Self::S16,
            "s32" => Self::S32,
            "s64" => Self::S64,
            "f16" => Self::F16,
            "bf16" => Self::Bf16,
            "f16x2" => Self::F16x2,
            "bf16x2" => Self::Bf16x2,
            "f32" => Self::F32,
            "f64" => Self::F64,
            "pred" => Self::Pred,
            _ => return None,
        })
    }

    /// The modifier's text.
    pub fn name(self) -> &'static str {
        match self {
            Self::B8 => "b8",
            Self::B16 => "b16",
            Self::B32 => "b32",
            Self::B64 => "b64",
            Self::B128 => "b128",
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::S8 => "s8",
            Self::S16 => "s16",
            Self::S32 => "s32",
            Self::S64 => "s64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F16x2 => "f16x2",
            Self::Bf16x2 => "bf16x2",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::Pred => "pred",
        }
    }

    /// Width; 1 for predicates.
    pub fn bits(self) -> u32 {
        match self {
            Self::Pred => 1,
            Self::B8 | Self::U8 | Self::S8 => 8,
            Self::B16 | Self::U16 | Self::S16 | Self::F16 | Self::Bf16 => 16,
            Self::B32 | Self::U32 | Self::S32 | Self::F32 | Self::F16x2 | Self::Bf16x2 => 32,
            Self::B64 | Self::U64 | Self::S64 | Self::F64 => 64,
            Self::B128 => 128,
        }
    }

    /// Width in bytes of a memory element.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }

    /// Number of 32-bit slots a register of this type takes.
    pub fn slots(self) -> u32 {
        self.bits().div_ceil(32)
    }

    pub fn signed(self) -> bool {
        matches!(self, Self::S8 | Self::S16 | Self::S32 | Self::S64)
    }

    pub fn class(self) -> Class {
        match self {
            Self::Pred => Class::Pred,
            Self::B8 | Self::B16 | Self::B32 | Self::B64 | Self::B128 => Class::Bits,
            Self::F32 | Self::F64 => Class::Float,
            // Packed and 16-bit floats live in .b16, .b32 or float registers alike.
            Self::F16 | Self::Bf16 | Self::F16x2 | Self::Bf16x2 => Class::Bits,
            _ => Class::Int,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(
            self,
            Self::F16 | Self::Bf16 | Self::F16x2 | Self::Bf16x2 | Self::F32 | Self::F64
        )
    }
}

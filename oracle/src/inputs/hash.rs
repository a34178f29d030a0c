//! Counter-based random numbers: the value at an index depends on nothing but (seed, stream, index).

/// What a number is used for; each purpose has its own stream, so that no two are correlated.
#[derive(Clone, Copy)]
#[repr(u64)]
pub(super) enum Purpose {
    Q = 1,
    K,
    V,
    /// Sign patterns shared by Q and K, or by A and B.
    Sign,
    /// Which key, column or inner index a row picks.
    Pick,
    /// Slow factors: per channel, row or column.
    Gain,
    A,
    B,
    X,
}

/// One stream of numbers.
#[derive(Clone, Copy)]
pub(super) struct Stream {
    key: u64,
}

/// 2^64 / golden ratio, the increment of `SplitMix64`.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of `SplitMix64` (Steele, Lea, Flood 2014).
const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Stream {
    pub(super) const fn new(seed: u64, purpose: Purpose) -> Self {
        Self {
            key: mix(mix(seed.wrapping_add(GOLDEN)) ^ (purpose as u64).wrapping_mul(GOLDEN)),
        }
    }

    /// 64 random bits.
    pub(super) const fn bits(self, index: u64) -> u64 {
        mix(self.key.wrapping_add(index.wrapping_mul(GOLDEN)))
    }

    /// Uniform in [0, 1).
    pub(super) const fn uniform(self, index: u64) -> f32 {
        (self.bits(index) >> 40) as f32 * (1.0 / (1 << 24) as f32)
    }

    /// +1 or -1.
    pub(super) const fn sign(self, index: u64) -> f32 {
        if self.bits(index) >> 63 == 0 { 1.0 } else { -1.0 }
    }

    /// Uniform in `0 .. n`, or `None` for 0. The bias of the multiply-shift is below n / 2^64.
    pub(super) const fn below(self, index: u64, n: u32) -> Option<u32> {
        if n == 0 {
            return None;
        }
        Some(((self.bits(index) as u128 * n as u128) >> 64) as u32)
    }
}

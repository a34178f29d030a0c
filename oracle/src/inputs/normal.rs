//! Normal numbers many at a time: the bits of `libm::logf` and `libm::cosf` (both after `FreeBSD`'s msun) without their
//! branches, so that the compiler works on several numbers at once. Generating inputs takes most of the host's time
//! in a verification of long sequences.
//!
//! Only the arguments of Box-Muller occur: 2^24 radii in (0, 1], 2^24 angles in [0, 2π). A test compares all of them.

use std::f64::consts::FRAC_PI_2;

use super::hash::Stream;

/// Numbers computed together.
const LANES: usize = 16;

/// 2^-24: radius and angle have 24 bits.
const UNIT: f32 = 1.0 / (1 << 24) as f32;

impl Stream {
    /// Fills `out` with N(0, 1), never beyond 5.8 in size: element `i` belongs to the index `start + step · i`.
    pub(super) fn normals(self, start: u64, step: u64, out: &mut [f32]) {
        let mut index = start;
        for part in out.chunks_mut(LANES) {
            let (mut radius, mut angle) = ([0.0; LANES], [0.0; LANES]);
            for (r, a) in radius.iter_mut().zip(&mut angle) {
                (*r, *a) = uniforms(self.bits(index));
                index = index.wrapping_add(step);
            }
            let mut both = [0.0; LANES];
            for ((x, r), a) in both.iter_mut().zip(&radius).zip(&angle) {
                *x = (-2.0 * ln(*r)).sqrt() * cos(std::f32::consts::TAU * a);
            }
            part.copy_from_slice(&both[..part.len()]);
        }
    }

    /// One of them.
    pub(super) fn normal(self, index: u64) -> f32 {
        let mut one = [0.0];
        self.normals(index, 0, &mut one);
        one[0]
    }
}

/// The radius in (0, 1] and the angle in [0, 1) of 64 random bits.
fn uniforms(bits: u64) -> (f32, f32) {
    // 24 bits each: they fit i32, whose conversion is one instruction.
    let (radius, angle) = ((bits >> 40) as i32 + 1, (bits >> 8) as i32 & 0xff_ffff);
    (radius as f32 * UNIT, angle as f32 * UNIT)
}

/// `libm::logf` of a normal number above 0.
#[inline]
fn ln(x: f32) -> f32 {
    const SQRT_HALF: u32 = 0x3f35_04f3;
    let shifted = x.to_bits().wrapping_add(0x3f80_0000 - SQRT_HALF);
    let exponent = (shifted >> 23) as i32 - 0x7f;
    let f = f32::from_bits((shifted & 0x007f_ffff) + SQRT_HALF) - 1.0;
    let s = f / (2.0 + f);
    let z = s * s;
    let w = z * z;
    let even = w * (0.400_009_72 + w * 0.242_790_79);
    let odd = z * (0.666_666_6 + w * 0.284_987_87);
    let half_square = 0.5 * f * f;
    let e = exponent as f32;
    s * (half_square + (odd + even)) + e * 9.058_001e-6 - half_square + f + e * 0.693_138_1
}

/// `libm::cosf` of an angle in [0, 2π].
#[inline]
fn cos(x: f32) -> f32 {
    // Odd multiples of π/4, as msun rounds them; past each the next multiple of π/2 is the nearest.
    let [a, b, c, d] = [0x3f49_0fda, 0x4016_cbe3, 0x407b_53d1, 0x40af_eddf].map(|bits| x > f32::from_bits(bits));
    let nearest = match () {
        () if d => 4.0 * FRAC_PI_2,
        () if c => 3.0 * FRAC_PI_2,
        () if b => 2.0 * FRAC_PI_2,
        () if a => FRAC_PI_2,
        () => 0.0,
    };
    let y = f64::from(x) - nearest;
    let (cos, sin) = (cos_near_0(y), sin_near_0(y));
    let value = if a ^ b ^ c ^ d { sin } else { cos };
    if a ^ c { -value } else { value }
}

fn cos_near_0(x: f64) -> f32 {
    let z = x * x;
    let w = z * z;
    let r = -0.001_388_676_377_460_993 + z * 0.000_024_390_448_796_277_41;
    (((1.0 + z * -0.499_999_997_251_031) + w * 0.041_666_623_323_739_06) + (w * z) * r) as f32
}

fn sin_near_0(x: f64) -> f32 {
    let z = x * x;
    let w = z * z;
    let r = -0.000_198_393_348_360_966_32 + z * 0.000_002_718_311_493_989_822;
    let s = z * x;
    ((x + s * (-0.166_666_666_416_265_24 + z * 0.008_333_329_385_889_463)) + s * w * r) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inputs::hash::Purpose;

    /// Every radius and every angle there is: the same bits as `libm`.
    #[test]
    fn logarithm_and_cosine_are_those_of_libm() {
        for i in 0..1_i32 << 24 {
            let (radius, angle) = ((i + 1) as f32 * UNIT, std::f32::consts::TAU * (i as f32 * UNIT));
            assert_eq!(ln(radius).to_bits(), libm::logf(radius).to_bits(), "ln {radius}");
            assert_eq!(cos(angle).to_bits(), libm::cosf(angle).to_bits(), "cos {angle}");
        }
    }

    #[test]
    fn many_are_the_same_as_one_by_one() {
        let stream = Stream::new(7, Purpose::Q);
        let one = |index: u64| {
            let (radius, angle) = uniforms(stream.bits(index));
            (-2.0 * libm::logf(radius)).sqrt() * libm::cosf(std::f32::consts::TAU * angle)
        };
        for (start, step, len) in [(0, 1, 100), (u64::MAX - 3, 1, 17), (5, 1000, 33), (9, 0, 1), (1, 1, 0)] {
            let mut many = vec![0.0; len];
            stream.normals(start, step, &mut many);
            for (i, found) in (0..).zip(many) {
                let index = start.wrapping_add(step * i);
                assert_eq!(found.to_bits(), one(index).to_bits(), "{start} {step} {i}");
            }
        }
    }
}

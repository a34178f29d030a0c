//! 16-bit float arithmetic, one or two per register (PTX ISA 9.7.4). Each operation is computed in
//! f64 and rounded once; f64 holds every product and sum of two 16-bit floats that matters.

use half::{bf16, f16};

use super::float::{function, min_max};
use super::warp::{Lanes, Warp};
use crate::decode::op::{FloatBin, FloatMode, FloatUn, R, Src};
use crate::decode::ty::Ty;

/// Value of a 16-bit float.
pub(crate) fn decode(is_bf16: bool, bits: u16) -> f32 {
    if is_bf16 {
        f32::from_bits(u32::from(bits) << 16)
    } else {
        f16::from_bits(bits).to_f32()
    }
}

/// An f64 to the f32 that rounds to the same 16-bit float: ties and sticky bits are kept by
/// rounding to odd.
fn to_odd_f32(x: f64) -> f32 {
    let near = x as f32;
    if !near.is_finite() || f64::from(near) == x || near.to_bits() & 1 == 1 {
        return near;
    }
    let up = (x > f64::from(near)) == (x > 0.0);
    f32::from_bits(if up {
        near.to_bits() + 1
    } else {
        near.to_bits().wrapping_sub(1)
    })
}

/// Rounds to nearest even.
pub(crate) fn encode(is_bf16: bool, x: f64) -> u16 {
    if x.is_nan() {
        return 0x7fff;
    }
    let x = to_odd_f32(x);
    if is_bf16 {
        bf16::from_f32(x).to_bits()
    } else {
        f16::from_f32(x).to_bits()
    }
}

/// Rounds an f32 to nearest even or to zero.
pub(crate) fn from_f32(is_bf16: bool, x: f32, zero_round: bool) -> u16 {
    if x.is_nan() {
        return 0x7fff;
    }
    if is_bf16 {
        let bits = x.to_bits();
        if zero_round {
            return (bits >> 16) as u16;
        }
        // Adding just below half an ulp, plus one when the result would be odd.
        let bias = 0x7fff + (bits >> 16 & 1);
        return (bits.wrapping_add(bias) >> 16) as u16;
    }
    let near = f16::from_f32(x);
    if !zero_round || x.is_infinite() || near.to_f32().abs() <= x.abs() {
        return near.to_bits();
    }
    // Rounded away from zero: one step back (also from infinity to the largest finite value).
    near.to_bits() - 1
}

fn halves(ty: Ty) -> (bool, u32) {
    (
        matches!(ty, Ty::Bf16 | Ty::Bf16x2),
        if matches!(ty, Ty::F16x2 | Ty::Bf16x2) { 2 } else { 1 },
    )
}

fn map(ty: Ty, operands: &[Lanes], f: impl Fn([f32; 3]) -> f64) -> Lanes {
    let (is_bf16, count) = halves(ty);
    std::array::from_fn(|lane| {
        (0..count).fold(0, |out, part| {
            let mut x = [0f32; 3];
            for (slot, operand) in x.iter_mut().zip(operands) {
                *slot = decode(is_bf16, (operand[lane] >> (16 * part)) as u16);
            }
            out | u32::from(encode(is_bf16, f(x))) << (16 * part)
        })
    })
}

fn finish(mode: FloatMode, x: f64) -> f64 {
    let x = if mode.sat {
        if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) }
    } else {
        x
    };
    if mode.relu && x < 0.0 { 0.0 } else { x }
}

/// One binary operation on decoded values.
pub(crate) fn binary(f: FloatBin, mode: FloatMode, a: f32, b: f32) -> f64 {
    let (x, y) = (f64::from(a), f64::from(b));
    match f {
        FloatBin::Add => x + y,
        FloatBin::Sub => x - y,
        FloatBin::Mul => x * y,
        FloatBin::Div => x / y,
        FloatBin::Min => f64::from(min_max(false, mode.nan, a, b)),
        FloatBin::Max => f64::from(min_max(true, mode.nan, a, b)),
    }
}

impl Warp {
    pub fn half_un(&mut self, f: FloatUn, ty: Ty, d: R, a: Src) {
        let exec = self.exec;
        let x = self.get(a, exec);
        let signs = if halves(ty).1 == 2 { 0x8000_8000u32 } else { 0x8000 };
        let value = match f {
            FloatUn::Neg => x.map(|v| v ^ signs),
            FloatUn::Abs => x.map(|v| v & !signs),
            _ => map(ty, &[x], |[x, ..]| function(f, f64::from(x))),
        };
        self.put(d, exec, &value);
    }

    pub fn half_bin(&mut self, f: FloatBin, ty: Ty, mode: FloatMode, operands: (R, Src, Src)) {
        let exec = self.exec;
        let (d, a, b) = operands;
        let (x, y) = (self.get(a, exec), self.get(b, exec));
        let value = map(ty, &[x, y], |[x, y, _]| finish(mode, binary(f, mode, x, y)));
        self.put(d, exec, &value);
    }

    pub fn half_fma(&mut self, ty: Ty, mode: FloatMode, d: R, operands: [Src; 3]) {
        let exec = self.exec;
        let [a, b, c] = operands;
        let (x, y, z) = (self.get(a, exec), self.get(b, exec), self.get(c, exec));
        let value = map(ty, &[x, y, z], |[x, y, z]| {
            finish(mode, f64::from(x) * f64::from(y) + f64::from(z))
        });
        self.put(d, exec, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bf16_rounding_agrees_with_half() {
        let mut rng = crate::exec::rng::Rng::new(3);
        for _ in 0..100_000 {
            let x = f32::from_bits(rng.next() as u32);
            if x.is_nan() {
                continue;
            }
            assert_eq!(from_f32(true, x, false), bf16::from_f32(x).to_bits(), "{x}");
            let zero = decode(false, from_f32(false, x, true));
            assert!(zero.abs() <= x.abs(), "{x} {zero}");
        }
    }
}

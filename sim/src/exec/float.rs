//! f32 and f64 arithmetic (PTX ISA 9.7.3).
//!
//! Approximate functions are computed in f64 and rounded once to f32, which is within the error
//! that the ISA allows. NaN results are the canonical 0x7fffffff.

use super::warp::{Lanes, Lanes64, Warp};
use crate::decode::op::{FloatBin, FloatMode, FloatUn, R, Src};

/// The NaN that f32 instructions produce.
pub(crate) const NAN32: u32 = 0x7fff_ffff;

/// Subnormals to zero of the same sign.
pub(crate) fn flush(x: f32) -> f32 {
    if x.abs() < f32::MIN_POSITIVE {
        0f32.copysign(x)
    } else {
        x
    }
}

/// Correctly rounded `a * b + c` without a fused instruction: the product is exact in f64, and
/// rounding the sum to odd makes the second rounding, to f32, the only one that counts.
pub(crate) fn fma(a: f32, b: f32, c: f32) -> f32 {
    let product = f64::from(a) * f64::from(b);
    let c = f64::from(c);
    let sum = product + c;
    let back = sum - product;
    let error = (product - (sum - back)) + (c - back);
    let bits = sum.to_bits();
    let inexact = sum.is_finite() & (error != 0.0) & (bits & 1 == 0);
    let step = if (error > 0.0) == (sum > 0.0) { 1 } else { u64::MAX };
    f64::from_bits(bits.wrapping_add(if inexact { step } else { 0 })) as f32
}

/// min or max with PTX's NaN rules; -0 is below +0.
pub(crate) fn min_max(max: bool, nan: bool, a: f32, b: f32) -> f32 {
    if a.is_nan() || b.is_nan() {
        if nan || (a.is_nan() && b.is_nan()) {
            return f32::NAN;
        }
        return if a.is_nan() { b } else { a };
    }
    let a_less = a < b || (a == b && a.is_sign_negative());
    if a_less == max { b } else { a }
}

/// Unary functions in f64.
pub(crate) fn function(f: FloatUn, x: f64) -> f64 {
    match f {
        FloatUn::Neg => -x,
        FloatUn::Abs => x.abs(),
        FloatUn::Ex2 => x.exp2(),
        FloatUn::Lg2 => x.log2(),
        FloatUn::Rcp => 1.0 / x,
        FloatUn::Sqrt => x.sqrt(),
        FloatUn::Rsqrt => 1.0 / x.sqrt(),
        FloatUn::Tanh => x.tanh(),
        FloatUn::Sin => x.sin(),
        FloatUn::Cos => x.cos(),
    }
}

fn finish(mode: FloatMode, x: f32) -> u32 {
    let mut x = if mode.ftz { flush(x) } else { x };
    if mode.sat {
        x = if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) + 0.0 };
    }
    if mode.relu && x < 0.0 {
        x = 0.0;
    }
    if x.is_nan() { NAN32 } else { x.to_bits() }
}

fn input(mode: FloatMode, bits: u32) -> f32 {
    let x = f32::from_bits(bits);
    if mode.ftz { flush(x) } else { x }
}

fn map2(mode: FloatMode, a: &Lanes, b: &Lanes, f: impl Fn(f32, f32) -> f32) -> Lanes {
    if mode == FloatMode::default() {
        return std::array::from_fn(|i| {
            let x = f(f32::from_bits(a[i]), f32::from_bits(b[i]));
            if x.is_nan() { NAN32 } else { x.to_bits() }
        });
    }
    std::array::from_fn(|i| finish(mode, f(input(mode, a[i]), input(mode, b[i]))))
}

impl Warp {
    pub fn f32_un(&mut self, f: FloatUn, mode: FloatMode, d: R, a: Src) {
        let exec = self.exec;
        let x = self.get(a, exec);
        let value = match f {
            FloatUn::Neg if !mode.ftz => x.map(|v| v ^ 0x8000_0000),
            FloatUn::Abs if !mode.ftz => x.map(|v| v & 0x7fff_ffff),
            _ => x.map(|v| finish(mode, function(f, f64::from(input(mode, v))) as f32)),
        };
        self.put(d, exec, &value);
    }

    pub fn f32_bin(&mut self, f: FloatBin, mode: FloatMode, d: R, operands: [Src; 2]) {
        let exec = self.exec;
        let (x, y) = (self.get(operands[0], exec), self.get(operands[1], exec));
        let value = match f {
            FloatBin::Add => map2(mode, &x, &y, |a, b| a + b),
            FloatBin::Sub => map2(mode, &x, &y, |a, b| a - b),
            FloatBin::Mul => map2(mode, &x, &y, |a, b| a * b),
            FloatBin::Div => map2(mode, &x, &y, |a, b| a / b),
            FloatBin::Min => map2(mode, &x, &y, |a, b| min_max(false, mode.nan, a, b)),
            FloatBin::Max => map2(mode, &x, &y, |a, b| min_max(true, mode.nan, a, b)),
        };
        self.put(d, exec, &value);
    }

    pub fn f32_fma(&mut self, mode: FloatMode, d: R, operands: [Src; 3]) {
        let exec = self.exec;
        let [a, b, c] = operands;
        let (x, y, z) = (self.get(a, exec), self.get(b, exec), self.get(c, exec));
        let value: Lanes = if mode == FloatMode::default() {
            std::array::from_fn(|i| {
                let r = fma(f32::from_bits(x[i]), f32::from_bits(y[i]), f32::from_bits(z[i]));
                if r.is_nan() { NAN32 } else { r.to_bits() }
            })
        } else {
            std::array::from_fn(|i| finish(mode, fma(input(mode, x[i]), input(mode, y[i]), input(mode, z[i]))))
        };
        self.put(d, exec, &value);
    }

    pub fn f64_un(&mut self, f: FloatUn, d: R, a: Src) {
        let exec = self.exec;
        let value = self.get64(a, exec).map(|v| function(f, f64::from_bits(v)).to_bits());
        self.put64(d, exec, &value);
    }

    pub fn f64_bin(&mut self, f: FloatBin, d: R, operands: [Src; 2]) {
        let exec = self.exec;
        let (x, y) = (self.get64(operands[0], exec), self.get64(operands[1], exec));
        let value: Lanes64 = std::array::from_fn(|i| {
            let (a, b) = (f64::from_bits(x[i]), f64::from_bits(y[i]));
            let r = match f {
                FloatBin::Add => a + b,
                FloatBin::Sub => a - b,
                FloatBin::Mul => a * b,
                FloatBin::Div => a / b,
                FloatBin::Min => a.min(b),
                FloatBin::Max => a.max(b),
            };
            r.to_bits()
        });
        self.put64(d, exec, &value);
    }

    pub fn f64_fma(&mut self, d: R, operands: [Src; 3]) {
        let exec = self.exec;
        let [a, b, c] = operands;
        let (x, y, z) = (self.get64(a, exec), self.get64(b, exec), self.get64(c, exec));
        let value: Lanes64 = std::array::from_fn(|i| {
            f64::from_bits(x[i])
                .mul_add(f64::from_bits(y[i]), f64::from_bits(z[i]))
                .to_bits()
        });
        self.put64(d, exec, &value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::rng::Rng;

    #[test]
    fn fma_rounds_once() {
        let mut rng = Rng::new(7);
        for _ in 0..200_000 {
            let [a, b, c] = [(); 3].map(|()| f32::from_bits(rng.next() as u32));
            let (mine, theirs) = (fma(a, b, c), a.mul_add(b, c));
            assert!(
                mine.to_bits() == theirs.to_bits() || (mine.is_nan() && theirs.is_nan()),
                "{a} {b} {c}"
            );
        }
        // Cancellation and ties, where two roundings differ from one.
        let (a, b) = (1.0 + f32::EPSILON, 1.0 + f32::EPSILON);
        assert_eq!(fma(a, b, -1.0).to_bits(), a.mul_add(b, -1.0).to_bits());
        for k in 0..64 {
            let c = f32::from_bits(0x3380_0000 + k);
            assert_eq!(fma(a, 1.0, c).to_bits(), a.mul_add(1.0, c).to_bits());
        }
    }

    #[test]
    fn min_max_rules() {
        assert_eq!(min_max(true, false, f32::NAN, 1.0), 1.0);
        assert!(min_max(true, true, f32::NAN, 1.0).is_nan());
        assert!(min_max(false, false, 0.0, -0.0).is_sign_negative());
        assert!(min_max(true, false, -0.0, 0.0).is_sign_positive());
    }
}

//! A and B of the GEMM families, X of the row-softmax families.

use super::hash::{Purpose, Stream};
use super::{Family, Operand, alternate, by_rows, encode_finite};
use crate::dtype::Dtype;
use crate::problem::{Gemm, RowSoftmax};

/// Largest |C| that a GEMM of `near-overflow` may reach: 0.9 of the end of f16, or 2^100.
fn near_overflow_c(dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => 0.9 * 65504.0,
        Dtype::Bf16 => libm::exp2f(100.0),
    }
}

/// Largest |X| of a `near-overflow` softmax: for bf16 2^19, above which the f32 product with log2(e) is too coarse.
const fn near_overflow_x(dtype: Dtype) -> f32 {
    match dtype {
        Dtype::F16 => 60000.0,
        Dtype::Bf16 => 524_288.0,
    }
}

/// Size of A of `tiny`: around the smallest normal number of f16, so that about half are subnormal.
fn tiny_a(dtype: Dtype) -> f32 {
    libm::exp2f(match dtype {
        Dtype::F16 => -14.0,
        Dtype::Bf16 => -110.0,
    })
}

pub(super) struct GemmRows<'a> {
    p: &'a Gemm,
    family: Family,
    a: Stream,
    b: Stream,
    sign: Stream,
    pick: Stream,
    gain: Stream,
}

impl<'a> GemmRows<'a> {
    pub(super) const fn new(p: &'a Gemm, family: Family, seed: u64) -> Self {
        Self {
            p,
            family,
            a: Stream::new(seed, Purpose::A),
            b: Stream::new(seed, Purpose::B),
            sign: Stream::new(seed, Purpose::Sign),
            pick: Stream::new(seed, Purpose::Pick),
            gain: Stream::new(seed, Purpose::Gain),
        }
    }

    /// The caller has checked the range and the operand. Values depend on logical coordinates, so that the four layouts
    /// of one shape hold the same matrices.
    pub(super) fn fill(&self, operand: Operand, start: u64, out: &mut [u16]) {
        let p = self.p;
        let (columns, transposed) = match operand {
            Operand::A if p.layout.a_transposed() => (p.m, true),
            Operand::A => (p.k, false),
            _ if p.layout.b_transposed() => (p.k, true),
            _ => (p.n, false),
        };
        by_rows(columns, start, out, |row, first, part| {
            for (column, bits) in (u64::from(first)..).zip(part) {
                let (i, j) = if transposed { (column, row) } else { (row, column) };
                let value = match operand {
                    Operand::A => self.a_value(i, j),
                    _ => self.b_value(i, j),
                };
                *bits = encode_finite(p.dtype, value);
            }
        });
    }

    /// op(A) at row `i`, inner index `kk`.
    fn a_value(&self, i: u64, kk: u64) -> f32 {
        let k = u64::from(self.p.k);
        let noise = || self.a.normal(i * k + kk);
        match self.family {
            Family::Normal => noise(),
            Family::GrowingMax => noise() * (0.25 + 4.0 * kk as f32 / k as f32),
            Family::LateSpike if kk + 1 == k => 64.0 * self.sign.sign(i),
            Family::LateSpike => noise(),
            Family::ConstantRows => self.row_gain(i),
            Family::OneHot => f32::from(self.pick.below(i, self.p.k).map(u64::from) == Some(kk)),
            Family::Alternating => alternate(kk) * (1.0 + 0.25 * noise()),
            Family::NearOverflow => self.near_overflow() * self.sign.sign(kk) * 0.5 * self.row_gain(i),
            Family::Tiny => tiny_a(self.p.dtype) * (1.0 + 0.25 * noise()),
        }
    }

    /// op(B) at inner index `kk`, column `j`.
    fn b_value(&self, kk: u64, j: u64) -> f32 {
        let k = u64::from(self.p.k);
        let noise = || self.b.normal(kk * u64::from(self.p.n) + j);
        match self.family {
            Family::Normal | Family::GrowingMax | Family::OneHot => noise(),
            Family::LateSpike if kk + 1 == k => 64.0 + noise(),
            Family::LateSpike => noise(),
            // Keeps 4·k·(this) below half the end of f16.
            Family::ConstantRows => self.column_gain(j) * (8192.0 / k as f32).min(1.0),
            Family::Alternating => 1.0 + 0.25 * noise(),
            Family::NearOverflow => self.near_overflow() * self.sign.sign(kk) * 0.5 * self.column_gain(j),
            Family::Tiny => 1.0 + 0.25 * noise(),
        }
    }

    /// Between 1 and 2, by row of C.
    fn row_gain(&self, i: u64) -> f32 {
        1.0 + self.gain.uniform(i)
    }

    /// Between 1 and 2, by column of C; the offset keeps it apart from the row factors.
    fn column_gain(&self, j: u64) -> f32 {
        1.0 + self.gain.uniform(j | (1 << 40))
    }

    fn near_overflow(&self) -> f32 {
        (near_overflow_c(self.p.dtype) / self.p.k as f32).sqrt()
    }
}

pub(super) struct SoftmaxRows<'a> {
    p: &'a RowSoftmax,
    family: Family,
    x: Stream,
    pick: Stream,
    gain: Stream,
}

impl<'a> SoftmaxRows<'a> {
    pub(super) const fn new(p: &'a RowSoftmax, family: Family, seed: u64) -> Self {
        Self {
            p,
            family,
            x: Stream::new(seed, Purpose::X),
            pick: Stream::new(seed, Purpose::Pick),
            gain: Stream::new(seed, Purpose::Gain),
        }
    }

    /// The caller has checked the range.
    pub(super) fn fill(&self, start: u64, out: &mut [u16]) {
        by_rows(self.p.n, start, out, |row, first, part| {
            for (column, bits) in (u64::from(first)..).zip(part) {
                *bits = encode_finite(self.p.dtype, self.value(row, column));
            }
        });
    }

    fn value(&self, i: u64, j: u64) -> f32 {
        let n = u64::from(self.p.n);
        let index = i * n + j;
        let noise = || self.x.normal(index);
        match self.family {
            Family::Normal => 2.0 * noise(),
            Family::GrowingMax => {
                let per_column = (6.0 / 64.0_f32).min(512.0 / n as f32);
                alternate(i) * per_column * (j as f32 - 0.5 * n as f32) + 0.5 * noise()
            }
            Family::LateSpike => {
                noise()
                    + if j == if i.is_multiple_of(2) { n - 1 } else { 0 } {
                        40.0
                    } else {
                        0.0
                    }
            }
            Family::ConstantRows => 4.0 * self.gain.normal(i),
            Family::OneHot => {
                if self.pick.below(i, self.p.n).map(u64::from) == Some(j) {
                    100.0
                } else {
                    noise()
                }
            }
            Family::Alternating => alternate(j) * (4.0 + 0.25 * noise()),
            Family::NearOverflow => near_overflow_x(self.p.dtype) * (2.0 * self.x.uniform(index) - 1.0),
            Family::Tiny => tiny_a(self.p.dtype) * noise(),
        }
    }
}

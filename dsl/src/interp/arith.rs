//! Arithmetic: what each element-wise operation, reduction and dot computes, and how it rounds.

use super::tensor::round;
use super::tile::TileData;
use crate::dtype::DType;
use crate::ir::{BinaryOp, CmpOp, ReduceOp, UnaryOp};

/// The arithmetic that operations are carried out in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precision {
    /// Every operation rounds to f32; a dot accumulates in f32, in the order of its inner index.
    F32,
    /// Operations are those of f64; casts round all the same, unless told otherwise.
    F64,
}

/// How results round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arith {
    pub precision: Precision,
    pub casts_round: bool,
}

impl Arith {
    fn rounded(self, x: f64) -> f64 {
        match self.precision {
            Precision::F32 => f64::from(x as f32),
            Precision::F64 => x,
        }
    }

    pub fn cast(self, x: f64, to: DType) -> f64 {
        match (self.casts_round, to, self.precision) {
            // F64 arithmetic stands in for f32, so widening to f32 is no rounding.
            (true, DType::F32, Precision::F64) | (false, _, _) => x,
            (true, dtype, _) => round(x, dtype),
        }
    }

    pub fn unary(self, op: UnaryOp, x: f64) -> f64 {
        self.rounded(match op {
            UnaryOp::Neg => -x,
            UnaryOp::Exp2 => x.exp2(),
            UnaryOp::Log2 => x.log2(),
            UnaryOp::Recip => 1.0 / x,
            UnaryOp::Tanh => x.tanh(),
            UnaryOp::Abs => x.abs(),
            UnaryOp::Sqrt => x.sqrt(),
        })
    }

    // One operation on two f32 numbers in f64, rounded to f32, is the correctly rounded f32 operation: 53 bits are more
    // than twice 24 plus two.
    pub fn binary(self, op: BinaryOp, a: f64, b: f64) -> f64 {
        self.rounded(match op {
            BinaryOp::Add => a + b,
            BinaryOp::Sub => a - b,
            BinaryOp::Mul => a * b,
            BinaryOp::Div => a / b,
            BinaryOp::Max => max(a, b),
            BinaryOp::Min => -max(-a, -b),
        })
    }

    /// `a * b + c`, rounded once.
    pub fn fma(self, a: f64, b: f64, c: f64) -> f64 {
        match self.precision {
            Precision::F32 => f64::from((a as f32).mul_add(b as f32, c as f32)),
            Precision::F64 => a.mul_add(b, c),
        }
    }

    /// `[rows, cols] -> [rows]`, in the order of the columns.
    pub fn reduce(self, op: ReduceOp, src: &TileData) -> TileData {
        let binary = match op {
            ReduceOp::Sum => BinaryOp::Add,
            ReduceOp::Max => BinaryOp::Max,
        };
        let row = |r: usize| {
            src.row(r)
                .iter()
                .copied()
                .reduce(|a, b| self.binary(binary, a, b))
                .unwrap_or(0.0)
        };
        TileData {
            rows: src.rows,
            cols: 1,
            data: (0..src.rows).map(row).collect(),
        }
    }

    /// `[m, k] · [k, n] -> [m, n]`; each element sums its products in the order of `k`.
    pub fn dot(self, a: &TileData, b: &TileData) -> TileData {
        let data = match self.precision {
            Precision::F64 => product(a, b, 0.0, |x| x, |acc, x, y| acc + x * y),
            // Products of 16-bit numbers are exact in f32, so only the sums round.
            Precision::F32 => product(a, b, 0.0f32, |x| x as f32, |acc, x, y| acc + x * y),
        };
        TileData {
            rows: a.rows,
            cols: b.cols,
            data,
        }
    }
}

fn product<T: Copy + Into<f64>>(
    a: &TileData,
    b: &TileData,
    zero: T,
    narrow: impl Fn(f64) -> T,
    step: impl Fn(T, T, T) -> T,
) -> Vec<f64> {
    let right: Vec<T> = b.data.iter().map(|x| narrow(*x)).collect();
    let mut out = Vec::with_capacity(a.rows * b.cols);
    let mut sums = vec![zero; b.cols];
    for r in 0..a.rows {
        sums.fill(zero);
        for (k, x) in a.row(r).iter().enumerate() {
            let (x, row) = (narrow(*x), &right[k * b.cols..][..b.cols]);
            for (sum, y) in sums.iter_mut().zip(row) {
                *sum = step(*sum, x, *y);
            }
        }
        out.extend(sums.iter().map(|s| (*s).into()));
    }
    out
}

/// The larger number; a side that is not a number loses, and +0 is larger than -0.
fn max(a: f64, b: f64) -> f64 {
    let a_wins = b.is_nan() || a > b || (a == b && a.is_sign_positive());
    if a_wins { a } else { b }
}

/// Whether a comparison holds; none does when a side is not a number.
pub(super) fn holds(cmp: CmpOp, a: f64, b: f64) -> bool {
    match cmp {
        CmpOp::Eq => a == b,
        CmpOp::Lt => a < b,
        CmpOp::Le => a <= b,
        CmpOp::Gt => a > b,
        CmpOp::Ge => a >= b,
    }
}

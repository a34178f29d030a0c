//! `cvt` (PTX ISA 9.7.9.21) and comparisons.

use half::f16;

use super::float::{NAN32, flush, min_max};
use super::half::{decode, encode, from_f32};
use super::warp::{Lanes, Warp};
use crate::decode::op::{Cmp, Cvt, FloatMode, PredOp, R, Round, Setp, Src};
use crate::decode::ty::Ty;

/// A value on its way through a conversion.
#[derive(Clone, Copy)]
enum Value {
    Int(i128),
    Float(f64),
}

fn read(ty: Ty, bits: u64, ftz: bool) -> Value {
    let width = ty.bits();
    match ty {
        Ty::F64 => Value::Float(f64::from_bits(bits)),
        Ty::F32 => {
            let x = f32::from_bits(bits as u32);
            Value::Float(f64::from(if ftz { flush(x) } else { x }))
        }
        Ty::F16 => Value::Float(f64::from(f16::from_bits(bits as u16).to_f32())),
        Ty::Bf16 => Value::Float(f64::from(decode(true, bits as u16))),
        _ if ty.signed() => Value::Int(i128::from(((bits << (64 - width)) as i64) >> (64 - width))),
        _ => Value::Int(i128::from(if width == 64 { bits } else { bits & ((1 << width) - 1) })),
    }
}

fn round_int(round: Round, x: f64) -> f64 {
    match round {
        Round::IntNearest | Round::Nearest => x.round_ties_even(),
        Round::IntDown | Round::Down => x.floor(),
        Round::IntUp | Round::Up => x.ceil(),
        _ => x.trunc(),
    }
}

fn int_range(ty: Ty) -> (i128, i128) {
    let bits = ty.bits();
    if ty.signed() {
        (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    } else {
        (0, (1 << bits) - 1)
    }
}

fn write_int(ty: Ty, value: Value, cvt: &Cvt) -> u64 {
    let (low, high) = int_range(ty);
    let int = match value {
        Value::Int(v) if cvt.mode.sat => v.clamp(low, high),
        Value::Int(v) => v,
        // Floats clamp to the range; NaN gives 0 (PTX ISA 9.7.9.21, "integer rounding").
        Value::Float(x) if x.is_nan() => 0,
        Value::Float(x) => (round_int(cvt.round, x) as i128).clamp(low, high),
    };
    int as u64
}

/// Directed rounding of an f64 to f32.
fn round_f32(round: Round, x: f64) -> f32 {
    let near = x as f32;
    let exact = f64::from(near);
    let too_big = match round {
        Round::Zero => exact.abs() > x.abs(),
        Round::Down => exact > x,
        Round::Up => exact < x,
        _ => false,
    };
    if !too_big || x.is_nan() {
        return near;
    }
    match round {
        Round::Zero => f32::from_bits(near.to_bits() - 1),
        Round::Down => near.next_down(),
        _ => near.next_up(),
    }
}

fn write_float(cvt: &Cvt, value: Value) -> u64 {
    let mut x = match value {
        // A 64-bit integer needs its one rounding to be the last.
        Value::Int(v) if cvt.to == Ty::F32 && matches!(cvt.round, Round::Nearest) => f64::from(v as f32),
        Value::Int(v) => v as f64,
        Value::Float(x) => x,
    };
    if matches!(
        cvt.round,
        Round::IntNearest | Round::IntZero | Round::IntDown | Round::IntUp
    ) {
        x = round_int(cvt.round, x);
    }
    if cvt.mode.sat {
        x = if x.is_nan() { 0.0 } else { x.clamp(0.0, 1.0) };
    }
    if cvt.mode.relu {
        x = if x.is_nan() { x } else { x.max(0.0) };
    }
    match cvt.to {
        Ty::F64 => x.to_bits(),
        Ty::F32 => {
            let y = round_f32(cvt.round, x);
            let y = if cvt.mode.ftz { flush(y) } else { y };
            u64::from(if y.is_nan() { NAN32 } else { y.to_bits() })
        }
        _ if cvt.round == Round::Zero => u64::from(from_f32(cvt.to == Ty::Bf16, round_f32(Round::Zero, x), true)),
        _ => u64::from(encode(cvt.to == Ty::Bf16, x)),
    }
}

fn compare<T: PartialOrd>(cmp: Cmp, a: T, b: T, unordered: bool) -> bool {
    match cmp {
        Cmp::Eq => a == b,
        Cmp::Ne => a != b && !unordered,
        Cmp::Lt => a < b,
        Cmp::Le => a <= b,
        Cmp::Gt => a > b,
        Cmp::Ge => a >= b,
        Cmp::Equ => unordered || a == b,
        Cmp::Neu => unordered || a != b,
        Cmp::Ltu => unordered || a < b,
        Cmp::Leu => unordered || a <= b,
        Cmp::Gtu => unordered || a > b,
        Cmp::Geu => unordered || a >= b,
        Cmp::Num => !unordered,
        Cmp::Nan => unordered,
    }
}

fn mask(f: impl Fn(usize) -> bool) -> u32 {
    (0..32).fold(0, |out, lane| out | u32::from(f(lane)) << lane)
}

impl Warp {
    pub fn cvt(&mut self, cvt: &Cvt) {
        let exec = self.exec;
        let a = self.get_bits(cvt.a, cvt.from.bits(), exec);
        let sign_extends = cvt.to.signed();
        let width = cvt.to.bits();
        let value = a.map(|bits| {
            let value = read(cvt.from, bits, cvt.mode.ftz);
            if cvt.to.is_float() {
                return write_float(cvt, value);
            }
            let int = write_int(cvt.to, value, cvt);
            if sign_extends {
                // A wider register gets the sign-extended value.
                ((int << (64 - width)) as i64 >> (64 - width)) as u64
            } else if width == 64 {
                int
            } else {
                int & ((1 << width) - 1)
            }
        });
        self.put_dst(cvt.d, exec, &value);
    }

    /// `cvt.rn.bf16x2.f32 d, hi, lo`.
    pub fn cvt_pack(&mut self, ty: Ty, mode: FloatMode, zero_round: bool, operands: (R, Src, Src)) {
        let exec = self.exec;
        let (d, hi, lo) = operands;
        let is_bf16 = ty == Ty::Bf16x2;
        let convert = |bits: u32| {
            let x = f32::from_bits(bits);
            let x = if mode.relu && !x.is_nan() {
                min_max(true, false, x, 0.0)
            } else {
                x
            };
            u32::from(from_f32(is_bf16, x, zero_round))
        };
        let (h, l) = (self.get(hi, exec), self.get(lo, exec));
        let value: Lanes = std::array::from_fn(|i| convert(h[i]) << 16 | convert(l[i]));
        self.put(d, exec, &value);
    }

    pub fn setp(&mut self, s: &Setp) {
        let exec = self.exec;
        let result = match s.ty {
            Ty::F32 => {
                let get = |v: u32| {
                    if s.ftz {
                        flush(f32::from_bits(v))
                    } else {
                        f32::from_bits(v)
                    }
                };
                let (a, b) = (self.get(s.a, exec).map(get), self.get(s.b, exec).map(get));
                mask(|i| compare(s.cmp, a[i], b[i], a[i].is_nan() || b[i].is_nan()))
            }
            Ty::F64 => {
                let (a, b) = (
                    self.get64(s.a, exec).map(f64::from_bits),
                    self.get64(s.b, exec).map(f64::from_bits),
                );
                mask(|i| compare(s.cmp, a[i], b[i], a[i].is_nan() || b[i].is_nan()))
            }
            Ty::F16 | Ty::Bf16 => {
                let is_bf16 = s.ty == Ty::Bf16;
                let (a, b) = (self.get(s.a, exec), self.get(s.b, exec));
                let (a, b) = (
                    a.map(|v| decode(is_bf16, v as u16)),
                    b.map(|v| decode(is_bf16, v as u16)),
                );
                mask(|i| compare(s.cmp, a[i], b[i], a[i].is_nan() || b[i].is_nan()))
            }
            ty => self.compare_ints(s, ty),
        };
        let (with, d2) = match s.with {
            None => (result, !result),
            Some((f, c)) => {
                let c = self.pred(c, exec);
                (logic(f, result, c), logic(f, !result, c))
            }
        };
        if let Some(d) = s.d {
            self.put_pred(d, exec, with);
        }
        if let Some(d) = s.d2 {
            self.put_pred(d, exec, d2);
        }
    }

    fn compare_ints(&mut self, s: &Setp, ty: Ty) -> u32 {
        let exec = self.exec;
        let bits = ty.bits();
        if bits == 32 {
            let (a, b) = (self.get(s.a, exec), self.get(s.b, exec));
            if ty.signed() {
                return mask(|i| compare(s.cmp, a[i] as i32, b[i] as i32, false));
            }
            return mask(|i| compare(s.cmp, a[i], b[i], false));
        }
        let (a, b) = (self.get_bits(s.a, bits, exec), self.get_bits(s.b, bits, exec));
        let extend = |v: u64| ((v << (64 - bits)) as i64) >> (64 - bits);
        if ty.signed() {
            return mask(|i| compare(s.cmp, extend(a[i]), extend(b[i]), false));
        }
        mask(|i| compare(s.cmp, a[i], b[i], false))
    }
}

/// Predicate logic on masks.
pub(crate) fn logic(f: PredOp, a: u32, b: u32) -> u32 {
    match f {
        PredOp::And => a & b,
        PredOp::Or => a | b,
        PredOp::Xor => a ^ b,
    }
}

//! Integer and bit instructions (PTX ISA 9.7.1, 9.7.8).

use super::warp::{Lanes, Lanes64, Warp};
use crate::decode::op::{Dst, IntBin, IntTri, IntUn, R, Src};
use crate::decode::ty::Ty;

fn zip(a: &Lanes, b: &Lanes, f: impl Fn(u32, u32) -> u32) -> Lanes {
    std::array::from_fn(|i| f(a[i], b[i]))
}

fn zip64(a: &Lanes64, b: &Lanes64, f: impl Fn(u64, u64) -> u64) -> Lanes64 {
    std::array::from_fn(|i| f(a[i], b[i]))
}

/// Sign-extends 16-bit values, so that 32-bit arithmetic serves both widths.
fn widen(ty: Ty, v: Lanes) -> Lanes {
    match ty {
        Ty::S16 => v.map(|x| x as u16 as i16 as i32 as u32),
        Ty::U16 | Ty::B16 => v.map(|x| x & 0xffff),
        _ => v,
    }
}

fn binary32(f: IntBin, signed: bool, bits: u32, a: &Lanes, b: &Lanes) -> Lanes {
    let s = |f: fn(i32, i32) -> i32| zip(a, b, move |x, y| f(x as i32, y as i32) as u32);
    match (f, signed) {
        (IntBin::Add, _) => zip(a, b, u32::wrapping_add),
        (IntBin::Sub, _) => zip(a, b, u32::wrapping_sub),
        (IntBin::MulLo, _) => zip(a, b, u32::wrapping_mul),
        (IntBin::MulHi, false) => zip(a, b, move |x, y| ((u64::from(x) * u64::from(y)) >> bits) as u32),
        (IntBin::MulHi, true) => zip(a, b, move |x, y| {
            ((i64::from(x as i32) * i64::from(y as i32)) >> bits) as u32
        }),
        // Division by zero gives an unspecified value (PTX ISA 9.7.1.6); all ones here.
        (IntBin::Div, false) => zip(a, b, |x, y| x.checked_div(y).unwrap_or(u32::MAX)),
        (IntBin::Rem, false) => zip(a, b, |x, y| x.checked_rem(y).unwrap_or(x)),
        (IntBin::Div, true) => s(|x, y| if y == 0 { -1 } else { x.wrapping_div(y) }),
        (IntBin::Rem, true) => s(|x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
        (IntBin::Min, false) => zip(a, b, u32::min),
        (IntBin::Max, false) => zip(a, b, u32::max),
        (IntBin::Min, true) => s(i32::min),
        (IntBin::Max, true) => s(i32::max),
        (IntBin::And, _) => zip(a, b, |x, y| x & y),
        (IntBin::Or, _) => zip(a, b, |x, y| x | y),
        (IntBin::Xor, _) => zip(a, b, |x, y| x ^ y),
        // Shift amounts are clamped to the width (PTX ISA 9.7.8.9).
        (IntBin::Shl, _) => zip(a, b, move |x, y| if y >= bits { 0 } else { x << y }),
        (IntBin::Shr, false) => zip(a, b, move |x, y| if y >= bits { 0 } else { x >> y }),
        (IntBin::Shr, true) => zip(a, b, move |x, y| ((x as i32) >> y.min(31)) as u32),
    }
}

fn binary64(f: IntBin, signed: bool, a: &Lanes64, b: &Lanes64) -> Lanes64 {
    let s = |f: fn(i64, i64) -> i64| zip64(a, b, move |x, y| f(x as i64, y as i64) as u64);
    match (f, signed) {
        (IntBin::Add, _) => zip64(a, b, u64::wrapping_add),
        (IntBin::Sub, _) => zip64(a, b, u64::wrapping_sub),
        (IntBin::MulLo, _) => zip64(a, b, u64::wrapping_mul),
        (IntBin::MulHi, false) => zip64(a, b, |x, y| ((u128::from(x) * u128::from(y)) >> 64) as u64),
        (IntBin::MulHi, true) => s(|x, y| ((i128::from(x) * i128::from(y)) >> 64) as i64),
        (IntBin::Div, false) => zip64(a, b, |x, y| x.checked_div(y).unwrap_or(u64::MAX)),
        (IntBin::Rem, false) => zip64(a, b, |x, y| x.checked_rem(y).unwrap_or(x)),
        (IntBin::Div, true) => s(|x, y| if y == 0 { -1 } else { x.wrapping_div(y) }),
        (IntBin::Rem, true) => s(|x, y| if y == 0 { x } else { x.wrapping_rem(y) }),
        (IntBin::Min, false) => zip64(a, b, u64::min),
        (IntBin::Max, false) => zip64(a, b, u64::max),
        (IntBin::Min, true) => s(i64::min),
        (IntBin::Max, true) => s(i64::max),
        (IntBin::And, _) => zip64(a, b, |x, y| x & y),
        (IntBin::Or, _) => zip64(a, b, |x, y| x | y),
        (IntBin::Xor, _) => zip64(a, b, |x, y| x ^ y),
        (IntBin::Shl, _) => zip64(a, b, |x, y| if y >= 64 { 0 } else { x << y }),
        (IntBin::Shr, false) => zip64(a, b, |x, y| if y >= 64 { 0 } else { x >> y }),
        (IntBin::Shr, true) => zip64(a, b, |x, y| ((x as i64) >> y.min(63)) as u64),
    }
}

/// Reduction step of `redux.sync`.
pub(crate) fn reduce(f: IntBin, ty: Ty, a: u32, b: u32) -> u32 {
    binary32(f, ty.signed(), 32, &[a; 32], &[b; 32])[0]
}

fn unary(f: IntUn, bits: u32, v: u64) -> u64 {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let signed = ((v << (64 - bits)) as i64) >> (64 - bits);
    match f {
        IntUn::Mov => v,
        IntUn::Not => !v & mask,
        IntUn::Neg => (signed.wrapping_neg() as u64) & mask,
        IntUn::Abs => (signed.wrapping_abs() as u64) & mask,
        IntUn::Popc => u64::from(v.count_ones()),
        IntUn::Clz => u64::from(v.leading_zeros() - (64 - bits)),
        IntUn::Brev => v.reverse_bits() >> (64 - bits),
    }
}

fn bfe(ty: Ty, a: u64, pos: u32, len: u32) -> u64 {
    let bits = ty.bits();
    let (pos, len) = (pos & 0xff, (len & 0xff).min(bits));
    let sign_at = (pos + len).saturating_sub(1).min(bits - 1);
    let sign = if ty.signed() && len > 0 { a >> sign_at & 1 } else { 0 };
    let mut out = 0u64;
    for i in 0..bits {
        let bit = if i < len && pos + i < bits {
            a >> (pos + i) & 1
        } else {
            sign
        };
        out |= bit << i;
    }
    out
}

fn lop3(table: u8, a: u32, b: u32, c: u32) -> u32 {
    (0..8u32).filter(|i| table >> i & 1 != 0).fold(0, |out, i| {
        let pick = |v: u32, bit: u32| if i >> bit & 1 != 0 { v } else { !v };
        out | (pick(a, 2) & pick(b, 1) & pick(c, 0))
    })
}

fn prmt(a: u32, b: u32, select: u32) -> u32 {
    let bytes = u64::from(a) | u64::from(b) << 32;
    (0..4).fold(0, |out, i| {
        let s = select >> (4 * i) & 0xf;
        let byte = (bytes >> (8 * (s & 7))) as u8;
        let byte = if s & 8 == 0 {
            byte
        } else if byte & 0x80 == 0 {
            0
        } else {
            0xff
        };
        out | u32::from(byte) << (8 * i)
    })
}

fn shf(left: bool, wrap: bool, lo: u32, hi: u32, amount: u32) -> u32 {
    let n = if wrap { amount & 31 } else { amount.min(32) };
    let both = u64::from(lo) | u64::from(hi) << 32;
    if left {
        ((both << n) >> 32) as u32
    } else {
        (both >> n) as u32
    }
}

impl Warp {
    pub fn int_un(&mut self, f: IntUn, bits: u32, d: Dst, a: Src) {
        let exec = self.exec;
        if f == IntUn::Mov && bits <= 32 {
            let value = self.get(a, exec);
            return self.put(d.slot, exec, &value);
        }
        let value = self.get_bits(a, bits, exec).map(|v| unary(f, bits, v));
        self.put_dst(d, exec, &value);
    }

    pub fn int_bin(&mut self, f: IntBin, ty: Ty, d: R, operands: [Src; 2]) {
        let exec = self.exec;
        let [a, b] = operands;
        let bits = ty.bits();
        let is_shift = matches!(f, IntBin::Shl | IntBin::Shr);
        if bits == 64 {
            let x = self.get64(a, exec);
            let y = if is_shift {
                self.get(b, exec).map(u64::from)
            } else {
                self.get64(b, exec)
            };
            let value = binary64(f, ty.signed(), &x, &y);
            return self.put64(d, exec, &value);
        }
        let x = widen(ty, self.get(a, exec));
        let y = self.get(b, exec);
        let y = if is_shift { y } else { widen(ty, y) };
        let mut value = binary32(f, ty.signed(), bits, &x, &y);
        if bits == 16 {
            value = value.map(|v| v & 0xffff);
        }
        self.put(d, exec, &value);
    }

    pub fn int_tri(&mut self, f: IntTri, ty: Ty, d: R, operands: [Src; 3]) {
        let exec = self.exec;
        let [a, b, c] = operands;
        if matches!(f, IntTri::MadLo | IntTri::MadHi) {
            return self.mad(f == IntTri::MadHi, ty, d, operands);
        }
        if ty.bits() == 64 {
            let (x, pos, len) = (self.get64(a, exec), self.get(b, exec), self.get(c, exec));
            let value = std::array::from_fn(|i| bfe(ty, x[i], pos[i], len[i]));
            return self.put64(d, exec, &value);
        }
        let (x, y, z) = (self.get(a, exec), self.get(b, exec), self.get(c, exec));
        let value = std::array::from_fn(|i| match f {
            IntTri::Bfe => bfe(ty, u64::from(x[i]), y[i], z[i]) as u32,
            IntTri::Lop3(table) => lop3(table, x[i], y[i], z[i]),
            IntTri::Prmt => prmt(x[i], y[i], z[i]),
            IntTri::Shf(left, wrap) => shf(left, wrap, x[i], y[i], z[i]),
            IntTri::MadLo | IntTri::MadHi => 0,
        });
        self.put(d, exec, &value);
    }

    fn mad(&mut self, hi: bool, ty: Ty, d: R, operands: [Src; 3]) {
        let exec = self.exec;
        let [a, b, c] = operands;
        let part = if hi { IntBin::MulHi } else { IntBin::MulLo };
        if ty.bits() == 64 {
            let (x, y, z) = (self.get64(a, exec), self.get64(b, exec), self.get64(c, exec));
            let value = zip64(&binary64(part, ty.signed(), &x, &y), &z, u64::wrapping_add);
            return self.put64(d, exec, &value);
        }
        let (x, y, z) = (
            widen(ty, self.get(a, exec)),
            widen(ty, self.get(b, exec)),
            self.get(c, exec),
        );
        let mut value = zip(&binary32(part, ty.signed(), ty.bits(), &x, &y), &z, u32::wrapping_add);
        if ty.bits() == 16 {
            value = value.map(|v| v & 0xffff);
        }
        self.put(d, exec, &value);
    }

    /// `mul.wide` and `mad.wide`.
    pub fn wide(&mut self, ty: Ty, d: R, operands: [Src; 2], c: Option<Src>) {
        let exec = self.exec;
        let x = widen(ty, self.get(operands[0], exec));
        let y = widen(ty, self.get(operands[1], exec));
        let signed = ty.signed();
        let product: Lanes64 = std::array::from_fn(|i| {
            if signed {
                (i64::from(x[i] as i32) * i64::from(y[i] as i32)) as u64
            } else {
                u64::from(x[i]) * u64::from(y[i])
            }
        });
        if ty.bits() == 32 {
            let value = match c {
                Some(c) => zip64(&product, &self.get64(c, exec), u64::wrapping_add),
                None => product,
            };
            return self.put64(d, exec, &value);
        }
        let product = product.map(|v| v as u32);
        let value = match c {
            Some(c) => zip(&product, &self.get(c, exec), u32::wrapping_add),
            None => product,
        };
        self.put(d, exec, &value);
    }

    pub fn pack(&mut self, d: Dst, part_bits: u32, parts: &[Src]) {
        let exec = self.exec;
        let mut value = [0u64; 32];
        for (index, part) in parts.iter().enumerate() {
            let lanes = self.get_bits(*part, part_bits, exec);
            for lane in 0..32 {
                value[lane] |= lanes[lane] << (index as u32 * part_bits);
            }
        }
        self.put_dst(d, exec, &value);
    }

    pub fn unpack(&mut self, a: Src, part_bits: u32, parts: &[Option<R>]) {
        let exec = self.exec;
        let value = self.get_bits(a, part_bits * parts.len() as u32, exec);
        let mask = if part_bits == 32 { u32::MAX } else { 0xffff };
        for (index, slot) in parts.iter().enumerate() {
            if let Some(slot) = slot {
                let part = value.map(|v| (v >> (index as u32 * part_bits)) as u32 & mask);
                self.put(*slot, exec, &part);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_functions() {
        assert_eq!(bfe(Ty::U32, 0xabcd_1234, 8, 8), 0x12);
        assert_eq!(bfe(Ty::S32, 0x0000_8000, 8, 8) as u32, 0xffff_ff80);
        assert_eq!(lop3(0xc0, 0xff00, 0xf0f0, 0), 0xf000);
        assert_eq!(prmt(0x3322_1100, 0x7766_5544, 0x7531), 0x7755_3311);
        assert_eq!(shf(true, true, 0x8000_0000, 1, 1), 3);
        assert_eq!(unary(IntUn::Clz, 32, 1), 31);
        assert_eq!(unary(IntUn::Neg, 16, 1), 0xffff);
    }

    #[test]
    fn shifts_clamp() {
        let b = [32; 32];
        assert_eq!(binary32(IntBin::Shl, false, 32, &[1; 32], &b)[0], 0);
        assert_eq!(binary32(IntBin::Shr, true, 32, &[0x8000_0000; 32], &b)[0], u32::MAX);
    }
}

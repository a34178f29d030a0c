//! Calculations on register tiles, unrolled over the registers of a thread.

use dsl::ir::{BinaryOp, CmpOp, ReduceOp, UnaryOp};

use crate::ptx::{Class, Cmp, FloatFn, FloatOp, IntOp, Kind, Opd, Reg};
use crate::role::{Calc, Layout, RegTileId, Src};

use super::dot::half;
use super::{Emitter, nth};

impl Emitter<'_> {
    /// The operand for element `e` of a destination with layout `to`.
    fn element_of(&mut self, src: Src, to: Layout, e: u32) -> Opd {
        match src {
            Src::Const(v) => Opd::Float(v),
            Src::Param(i) => self.scalars[i as usize].into(),
            Src::Tile(id) => {
                let have = self.p.tiles[id.0 as usize].layout;
                let first = self.tile(id);
                nth(first, place(have, to, e)).into()
            }
        }
    }

    pub fn calc(&mut self, dst: RegTileId, calc: &Calc) {
        let to = self.p.tiles[dst.0 as usize].layout;
        match calc {
            Calc::Mask { src, terms, fill } => self.mask(dst, *src, terms, *fill),
            Calc::Pack(src) => self.pack(dst, *src),
            Calc::Unpack(src) => self.unpack(dst, *src),
            Calc::Reduce { op, src, quad } => self.reduce(dst, *op, *src, *quad),
            Calc::QuadSum(src) => self.quad_sum(dst, *src),
            Calc::ScaleUnlessOne { factor } => self.scale(dst, *factor),
            _ => {
                let first = self.tile(dst);
                for e in 0..to.registers() {
                    self.one(nth(first, e), calc, to, e);
                }
            }
        }
    }

    fn one(&mut self, dst: Reg, calc: &Calc, to: Layout, e: u32) {
        match *calc {
            Calc::Copy(a) => {
                let src = self.element_of(a, to, e);
                self.push(Kind::Mov { dst, src });
            }
            Calc::Unary(UnaryOp::Tanh, a) => {
                let a = self.element_of(a, to, e);
                self.tanh(dst, a);
            }
            Calc::Unary(op, a) => {
                let a = self.element_of(a, to, e);
                self.push(Kind::FloatFn {
                    f: float_fn(op),
                    dst,
                    a,
                });
            }
            Calc::Exp2Mixed { src, every } => {
                let a = self.element_of(src, to, e);
                if e % every + 1 == every {
                    self.exp2_polynomial(dst, a)
                } else {
                    self.push(Kind::FloatFn {
                        f: FloatFn::Ex2,
                        dst,
                        a,
                    })
                }
            }
            Calc::Binary(op, a, b) => {
                let (a, b) = (self.element_of(a, to, e), self.element_of(b, to, e));
                self.push(Kind::Float {
                    op: float_op(op),
                    dst,
                    a,
                    b,
                });
            }
            Calc::Fma(a, b, c) => {
                let (a, b, c) = (
                    self.element_of(a, to, e),
                    self.element_of(b, to, e),
                    self.element_of(c, to, e),
                );
                self.push(Kind::Fma { dst, a, b, c });
            }
            Calc::Select {
                cmp,
                lhs,
                rhs,
                then,
                otherwise,
            } => {
                let (l, r) = (self.element_of(lhs, to, e), self.element_of(rhs, to, e));
                let (t, o) = (self.element_of(then, to, e), self.element_of(otherwise, to, e));
                let pred = self.reg(Class::Pred);
                self.push(Kind::SetpF {
                    cmp: compare(cmp),
                    dst: pred,
                    a: l,
                    b: r,
                });
                self.push(Kind::SelpF { dst, a: t, b: o, pred });
            }
            _ => {}
        }
    }

    /// `1 - 2 / (2^(2 x log2 e) + 1)`: absolute error near 1e-7, where `tanh.approx` has 5e-4 relative.
    fn tanh(&mut self, dst: Reg, x: Opd) {
        let doubled = self.float(FloatOp::Mul, x, 2.0 * std::f32::consts::LOG2_E);
        let power = self.float_fn(FloatFn::Ex2, doubled);
        let below = self.float(FloatOp::Add, power, 1.0f32);
        let part = self.float_fn(FloatFn::Rcp, below);
        self.push(Kind::Fma {
            dst,
            a: part.into(),
            b: Opd::Float(-2.0),
            c: Opd::Float(1.0),
        });
    }

    /// `2^x` by a polynomial on the fraction and an exponent add; relative error below 5e-6 for `-126 <= x <= 128`, where it
    /// saturates on both sides: the exponent of a larger argument would wrap into the sign and pass for a small weight.
    fn exp2_polynomial(&mut self, dst: Reg, x: Opd) {
        /// Adding it rounds to an integer held in the low bits.
        const ROUND: f32 = 12_582_912.0;
        let x = self.float(FloatOp::Max, x, -126.0f32);
        let x = self.float(FloatOp::Min, x, 128.0f32);
        let shifted = self.float(FloatOp::Add, x, ROUND);
        let whole = self.float(FloatOp::Sub, shifted, ROUND);
        let f = self.float(FloatOp::Sub, x, whole);
        // Relative minimax of degree 4 on [-1/2, 1/2] (Remez): 2.6e-6 before rounding.
        let mut p = self.mov(Class::F32, 0.009_570_102f32);
        for c in [0.055_917_86f32, 0.240_247_44, 0.693_121_8, 0.999_999_3] {
            let next = self.reg(Class::F32);
            self.push(Kind::Fma {
                dst: next,
                a: p.into(),
                b: f.into(),
                c: Opd::Float(c),
            });
            p = next;
        }
        let bits = self.mov(Class::B32, shifted);
        let exponent = self.int(IntOp::Shl, bits, 23u32);
        let mantissa = self.mov(Class::B32, p);
        let sum = self.int(IntOp::Add, mantissa, exponent);
        self.push(Kind::Mov { dst, src: sum.into() });
    }

    fn pack(&mut self, dst: RegTileId, src: RegTileId) {
        let Layout::Packed { dtype, .. } = self.p.tiles[dst.0 as usize].layout else {
            return;
        };
        let registers = self.p.tiles[dst.0 as usize].layout.registers();
        let (dst, src) = (self.tile(dst), self.tile(src));
        for e in 0..registers {
            self.push(Kind::PackHalf {
                half: half(dtype),
                dst: nth(dst, e),
                lo: nth(src, 2 * e).into(),
                hi: nth(src, 2 * e + 1).into(),
            });
        }
    }

    fn unpack(&mut self, dst: RegTileId, src: RegTileId) {
        let Layout::Packed { dtype, .. } = self.p.tiles[src.0 as usize].layout else {
            return;
        };
        let registers = self.p.tiles[src.0 as usize].layout.registers();
        let (dst, src) = (self.tile(dst), self.tile(src));
        for e in 0..registers {
            self.push(Kind::UnpackHalf {
                half: half(dtype),
                lo: nth(dst, 2 * e),
                hi: nth(dst, 2 * e + 1),
                src: nth(src, e),
            });
        }
    }

    /// Two chains per row, then the quad.
    fn reduce(&mut self, dst: RegTileId, op: ReduceOp, src: RegTileId, quad: bool) {
        let Layout::Acc { slabs, cols } = self.p.tiles[src.0 as usize].layout else {
            return;
        };
        let (dst, src) = (self.tile(dst), self.tile(src));
        let f = if op == ReduceOp::Max {
            FloatOp::Max
        } else {
            FloatOp::Add
        };
        for row in 0..2 * slabs {
            let first = row / 2 * (cols / 2) + row % 2 * 2;
            let mut chains = [nth(src, first), nth(src, first + 1)];
            for group in 1..cols / 8 {
                for (lane, chain) in (0u32..).zip(chains.iter_mut()) {
                    *chain = self.float(f, *chain, nth(src, first + 4 * group + lane));
                }
            }
            let mut total = self.float(f, chains[0], chains[1]);
            if quad {
                total = self.over_quad(f, total);
            }
            self.push(Kind::Mov {
                dst: nth(dst, row),
                src: total.into(),
            });
        }
    }

    fn over_quad(&mut self, f: FloatOp, mut value: Reg) -> Reg {
        for mask in [1, 2] {
            let other = self.reg(Class::F32);
            let (bits, moved) = (self.mov(Class::B32, value), self.reg(Class::B32));
            self.push(Kind::ShflBfly {
                dst: moved,
                src: bits,
                mask,
            });
            self.push(Kind::Mov {
                dst: other,
                src: moved.into(),
            });
            value = self.float(f, value, other);
        }
        value
    }

    fn quad_sum(&mut self, dst: RegTileId, src: RegTileId) {
        let registers = self.p.tiles[dst.0 as usize].layout.registers();
        let (dst, src) = (self.tile(dst), self.tile(src));
        for e in 0..registers {
            let total = self.over_quad(FloatOp::Add, nth(src, e));
            self.push(Kind::Mov {
                dst: nth(dst, e),
                src: total.into(),
            });
        }
    }

    /// Multiplies rows by factors; a warp whose factors are all one jumps over it.
    fn scale(&mut self, dst: RegTileId, factor: RegTileId) {
        let to = self.p.tiles[dst.0 as usize].layout;
        let rows = self.p.tiles[factor.0 as usize].layout.registers();
        let (first, factor_reg) = (self.tile(dst), self.tile(factor));
        let moved: Vec<Reg> = (0..rows)
            .map(|r| {
                let p = self.reg(Class::Pred);
                self.push(Kind::SetpF {
                    cmp: Cmp::Neu,
                    dst: p,
                    a: nth(factor_reg, r).into(),
                    b: Opd::Float(1.0),
                });
                p
            })
            .collect();
        let (any, skip) = (self.vote_any(&moved), self.label());
        self.push_if(any, false, Kind::Bra(skip));
        for e in 0..to.registers() {
            let f = self.element_of(Src::Tile(factor), to, e);
            self.push(Kind::Float {
                op: FloatOp::Mul,
                dst: nth(first, e),
                a: nth(first, e).into(),
                b: f,
            });
        }
        self.push(Kind::Label(skip));
    }
}

/// Which register of a tile with layout `have` meets element `e` of layout `to`.
fn place(have: Layout, to: Layout, e: u32) -> u32 {
    match (have, to) {
        (Layout::Scalar, _) => 0,
        (Layout::Row { .. } | Layout::RowPartial { .. }, Layout::Acc { cols, .. }) => {
            let per_slab = cols / 2;
            e / per_slab * 2 + ((e % per_slab) >> 1 & 1)
        }
        (Layout::Col { .. }, Layout::Acc { cols, .. }) => {
            let i = e % (cols / 2);
            (i >> 2) * 2 + (i & 1)
        }
        _ => e,
    }
}

fn float_fn(op: UnaryOp) -> FloatFn {
    match op {
        UnaryOp::Neg => FloatFn::Neg,
        UnaryOp::Exp2 => FloatFn::Ex2,
        UnaryOp::Log2 => FloatFn::Lg2,
        UnaryOp::Recip => FloatFn::Rcp,
        // Tanh is composed above.
        UnaryOp::Tanh => FloatFn::Tanh,
        UnaryOp::Abs => FloatFn::Abs,
        UnaryOp::Sqrt => FloatFn::Sqrt,
    }
}

fn float_op(op: BinaryOp) -> FloatOp {
    match op {
        BinaryOp::Add => FloatOp::Add,
        BinaryOp::Sub => FloatOp::Sub,
        BinaryOp::Mul => FloatOp::Mul,
        BinaryOp::Div => FloatOp::Div,
        BinaryOp::Max => FloatOp::Max,
        BinaryOp::Min => FloatOp::Min,
    }
}

fn compare(op: CmpOp) -> Cmp {
    match op {
        CmpOp::Eq => Cmp::Eq,
        CmpOp::Lt => Cmp::Lt,
        CmpOp::Le => Cmp::Le,
        CmpOp::Gt => Cmp::Gt,
        CmpOp::Ge => Cmp::Ge,
    }
}

//! Moves and integer arithmetic (PTX ISA 9.7.1, 9.7.8).

use super::cx::Cx;
use super::op::{Dst, IntBin, IntTri, IntUn, Op, PredOp};
use super::ty::Ty;
use crate::parse::ast::OperandKind;
use crate::parse::error::{PtxError, PtxResult};

const INTS: &[Ty] = &[Ty::U16, Ty::S16, Ty::U32, Ty::S32, Ty::U64, Ty::S64];
const BITS: &[Ty] = &[Ty::Pred, Ty::B16, Ty::B32, Ty::B64];

pub(super) fn mov(cx: &mut Cx) -> PtxResult<Op> {
    let ty = cx.ty(&[
        Ty::Pred,
        Ty::B16,
        Ty::U16,
        Ty::S16,
        Ty::F16,
        Ty::Bf16,
        Ty::B32,
        Ty::U32,
        Ty::S32,
        Ty::F32,
        Ty::B64,
        Ty::U64,
        Ty::S64,
        Ty::F64,
    ])?;
    cx.finish(2..=2)?;
    if let OperandKind::Vector(_) = cx.operand(0)?.kind {
        return unpack(cx, ty);
    }
    if let OperandKind::Vector(items) = &cx.operand(1)?.kind {
        let part = part_ty(cx, ty, items.len())?;
        let parts = items
            .iter()
            .map(|item| cx.src_of(item, part))
            .collect::<PtxResult<_>>()?;
        let d = Dst {
            slot: cx.dst(0, ty)?,
            bits: ty.bits(),
        };
        return Ok(Op::Pack {
            d,
            part_bits: part.bits(),
            parts,
        });
    }
    if ty == Ty::Pred {
        return Ok(Op::MovPred {
            d: cx.dst_pred(0)?,
            a: cx.pred(1)?,
        });
    }
    Ok(Op::IntUn {
        f: IntUn::Mov,
        bits: ty.bits(),
        d: Dst {
            slot: cx.dst(0, ty)?,
            bits: ty.bits(),
        },
        a: cx.src(1, ty)?,
    })
}

fn unpack(cx: &Cx, ty: Ty) -> PtxResult<Op> {
    let items = cx.elements(0)?;
    let part = part_ty(cx, ty, items.len())?;
    let mut parts = Vec::new();
    for item in items {
        match &item.kind {
            OperandKind::Name { name, .. } if name == "_" => parts.push(None),
            _ => match cx.wide_dst(item, part)? {
                Some(dst) if dst.bits.max(32) == part.bits().max(32) => parts.push(Some(dst.slot)),
                _ => {
                    return Err(PtxError::new(
                        item.pos,
                        format!("a .{} register is wanted", part.name()),
                    ));
                }
            },
        }
    }
    Ok(Op::Unpack {
        a: cx.src(1, ty)?,
        part_bits: part.bits(),
        parts,
    })
}

fn part_ty(cx: &Cx, ty: Ty, parts: usize) -> PtxResult<Ty> {
    match (ty.bits(), parts) {
        (32, 2) | (64, 4) => Ok(Ty::B16),
        (64, 2) => Ok(Ty::B32),
        (bits, _) => Err(cx.error(format!("{bits} bits are not split into {parts} parts here"))),
    }
}

pub(super) fn binary(cx: &mut Cx) -> PtxResult<Op> {
    let (f, allowed) = match cx.inst.opcode.as_str() {
        "add" => (IntBin::Add, INTS),
        "sub" => (IntBin::Sub, INTS),
        "min" => (IntBin::Min, INTS),
        "max" => (IntBin::Max, INTS),
        "div" => (IntBin::Div, INTS),
        "rem" => (IntBin::Rem, INTS),
        "and" => (IntBin::And, BITS),
        "or" => (IntBin::Or, BITS),
        "xor" => (IntBin::Xor, BITS),
        "shl" => (IntBin::Shl, &BITS[1..]),
        _ => (
            IntBin::Shr,
            &[
                Ty::B16,
                Ty::B32,
                Ty::B64,
                Ty::U16,
                Ty::S16,
                Ty::U32,
                Ty::S32,
                Ty::U64,
                Ty::S64,
            ][..],
        ),
    };
    let ty = cx.ty(allowed)?;
    cx.finish(3..=3)?;
    if ty == Ty::Pred {
        let f = match f {
            IntBin::And => PredOp::And,
            IntBin::Or => PredOp::Or,
            _ => PredOp::Xor,
        };
        return Ok(Op::PredBin {
            f,
            d: cx.dst_pred(0)?,
            a: cx.pred(1)?,
            b: cx.pred(2)?,
        });
    }
    // Shift amounts are always 32 bits (PTX ISA 9.7.8.9).
    let b_ty = if matches!(f, IntBin::Shl | IntBin::Shr) {
        Ty::B32
    } else {
        ty
    };
    Ok(Op::IntBin {
        f,
        ty,
        d: cx.dst(0, ty)?,
        a: cx.src(1, ty)?,
        b: cx.src(2, b_ty)?,
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Lo,
    Hi,
    Wide,
}

pub(super) fn multiply(cx: &mut Cx) -> PtxResult<Op> {
    let part = cx.need("a part", &[("lo", Part::Lo), ("hi", Part::Hi), ("wide", Part::Wide)])?;
    let ty = cx.ty(INTS)?;
    let has_c = cx.inst.opcode == "mad";
    let operands = if has_c { 4 } else { 3 };
    cx.finish(operands..=operands)?;
    if part == Part::Wide {
        let wide = match ty {
            Ty::U16 => Ty::U32,
            Ty::S16 => Ty::S32,
            Ty::U32 => Ty::U64,
            Ty::S32 => Ty::S64,
            _ => return Err(cx.error("`.wide` takes 16- and 32-bit types")),
        };
        let c = if has_c { Some(cx.src(3, wide)?) } else { None };
        return Ok(Op::Wide {
            ty,
            d: cx.dst(0, wide)?,
            a: cx.src(1, ty)?,
            b: cx.src(2, ty)?,
            c,
        });
    }
    let (d, a, b) = (cx.dst(0, ty)?, cx.src(1, ty)?, cx.src(2, ty)?);
    if has_c {
        let f = if part == Part::Lo { IntTri::MadLo } else { IntTri::MadHi };
        return Ok(Op::IntTri {
            f,
            ty,
            d,
            a,
            b,
            c: cx.src(3, ty)?,
        });
    }
    let f = if part == Part::Lo { IntBin::MulLo } else { IntBin::MulHi };
    Ok(Op::IntBin { f, ty, d, a, b })
}

pub(super) fn unary(cx: &mut Cx) -> PtxResult<Op> {
    let (f, allowed): (IntUn, &[Ty]) = match cx.inst.opcode.as_str() {
        "not" => (IntUn::Not, BITS),
        "neg" => (IntUn::Neg, &[Ty::S16, Ty::S32, Ty::S64]),
        "abs" => (IntUn::Abs, &[Ty::S16, Ty::S32, Ty::S64]),
        "popc" => (IntUn::Popc, &[Ty::B32, Ty::B64]),
        "clz" => (IntUn::Clz, &[Ty::B32, Ty::B64]),
        _ => (IntUn::Brev, &[Ty::B32, Ty::B64]),
    };
    let ty = cx.ty(allowed)?;
    cx.finish(2..=2)?;
    if ty == Ty::Pred {
        let a = match cx.pred(1)? {
            super::op::PSrc::Reg { slot, negated } => super::op::PSrc::Reg {
                slot,
                negated: !negated,
            },
            super::op::PSrc::Const(value) => super::op::PSrc::Const(!value),
        };
        return Ok(Op::MovPred { d: cx.dst_pred(0)?, a });
    }
    // Counts are always 32 bits.
    let d_ty = if matches!(f, IntUn::Popc | IntUn::Clz) {
        Ty::B32
    } else {
        ty
    };
    let d = Dst {
        slot: cx.dst(0, d_ty)?,
        bits: d_ty.bits(),
    };
    Ok(Op::IntUn {
        f,
        bits: ty.bits(),
        d,
        a: cx.src(1, ty)?,
    })
}

pub(super) fn ternary(cx: &mut Cx) -> PtxResult<Op> {
    match cx.inst.opcode.as_str() {
        "bfe" => {
            let ty = cx.ty(&[Ty::U32, Ty::S32, Ty::U64, Ty::S64])?;
            cx.finish(4..=4)?;
            let (b, c) = (cx.src(2, Ty::B32)?, cx.src(3, Ty::B32)?);
            Ok(Op::IntTri {
                f: IntTri::Bfe,
                ty,
                d: cx.dst(0, ty)?,
                a: cx.src(1, ty)?,
                b,
                c,
            })
        }
        "lop3" => {
            let ty = cx.ty(&[Ty::B32])?;
            cx.finish(5..=5)?;
            let table = cx.literal(4, "the table of lop3")?;
            let f = IntTri::Lop3(u8::try_from(table).map_err(|_| cx.error("the table of lop3 has 8 bits"))?);
            Ok(Op::IntTri {
                f,
                ty,
                d: cx.dst(0, ty)?,
                a: cx.src(1, ty)?,
                b: cx.src(2, ty)?,
                c: cx.src(3, ty)?,
            })
        }
        "prmt" => {
            let ty = cx.ty(&[Ty::B32])?;
            cx.finish(4..=4)?;
            let f = IntTri::Prmt;
            Ok(Op::IntTri {
                f,
                ty,
                d: cx.dst(0, ty)?,
                a: cx.src(1, ty)?,
                b: cx.src(2, ty)?,
                c: cx.src(3, ty)?,
            })
        }
        _ => {
            let left = cx.need("a direction", &[("l", true), ("r", false)])?;
            let wrap = cx.need("a mode", &[("wrap", true), ("clamp", false)])?;
            let ty = cx.ty(&[Ty::B32])?;
            cx.finish(4..=4)?;
            let f = IntTri::Shf(left, wrap);
            Ok(Op::IntTri {
                f,
                ty,
                d: cx.dst(0, ty)?,
                a: cx.src(1, ty)?,
                b: cx.src(2, ty)?,
                c: cx.src(3, ty)?,
            })
        }
    }
}

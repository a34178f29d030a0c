//! Comparison, selection and control flow (PTX ISA 9.7.6, 9.7.13).

use super::cx::Cx;
use super::op::{Cmp, Op, PredOp, Setp};
use super::ty::Ty;
use crate::parse::ast::OperandKind;
use crate::parse::error::{PtxError, PtxResult};

const CMPS: &[(&str, Cmp)] = &[
    ("eq", Cmp::Eq),
    ("ne", Cmp::Ne),
    ("lt", Cmp::Lt),
    ("le", Cmp::Le),
    ("gt", Cmp::Gt),
    ("ge", Cmp::Ge),
    // Unsigned spellings compare as the type says.
    ("lo", Cmp::Lt),
    ("ls", Cmp::Le),
    ("hi", Cmp::Gt),
    ("hs", Cmp::Ge),
    ("equ", Cmp::Equ),
    ("neu", Cmp::Neu),
    ("ltu", Cmp::Ltu),
    ("leu", Cmp::Leu),
    ("gtu", Cmp::Gtu),
    ("geu", Cmp::Geu),
    ("num", Cmp::Num),
    ("nan", Cmp::Nan),
];

pub(super) fn setp(cx: &mut Cx) -> PtxResult<Op> {
    let cmp = cx.need("a comparison", CMPS)?;
    let logic = cx.choice(&[("and", PredOp::And), ("or", PredOp::Or), ("xor", PredOp::Xor)]);
    let ftz = cx.flag("ftz");
    let ty = cx.ty(&[
        Ty::B16,
        Ty::B32,
        Ty::B64,
        Ty::U16,
        Ty::U32,
        Ty::U64,
        Ty::S16,
        Ty::S32,
        Ty::S64,
        Ty::F32,
        Ty::F64,
        Ty::F16,
        Ty::Bf16,
    ])?;
    let operands = if logic.is_some() { 4 } else { 3 };
    cx.finish(operands..=operands)?;
    let operand = cx.operand(0)?;
    let (d, d2) = match &operand.kind {
        OperandKind::Pair(p, q) => (cx.pred_dst(p, operand.pos)?, cx.pred_dst(q, operand.pos)?),
        _ => (Some(cx.dst_pred(0)?), None),
    };
    let with = match logic {
        Some(f) => Some((f, cx.pred(3)?)),
        None => None,
    };
    Ok(Op::Setp(Box::new(Setp {
        cmp,
        ty,
        ftz,
        d,
        d2,
        a: cx.src(1, ty)?,
        b: cx.src(2, ty)?,
        with,
    })))
}

pub(super) fn selp(cx: &mut Cx) -> PtxResult<Op> {
    let ty = cx.ty(&[
        Ty::B16,
        Ty::B32,
        Ty::B64,
        Ty::U16,
        Ty::U32,
        Ty::U64,
        Ty::S16,
        Ty::S32,
        Ty::S64,
        Ty::F32,
        Ty::F64,
    ])?;
    cx.finish(4..=4)?;
    Ok(Op::Selp {
        bits: ty.bits(),
        d: cx.dst(0, ty)?,
        a: cx.src(1, ty)?,
        b: cx.src(2, ty)?,
        p: cx.pred(3)?,
    })
}

pub(super) fn bra(cx: &mut Cx) -> PtxResult<Op> {
    cx.ignore(&["uni"]);
    cx.finish(1..=1)?;
    let operand = cx.operand(0)?;
    let OperandKind::Name { name, offset: 0 } = &operand.kind else {
        return Err(PtxError::new(operand.pos, "a label is wanted"));
    };
    cx.scopes.label(name).map(Op::Bra).ok_or_else(|| {
        PtxError::new(
            operand.pos,
            format!("label `{name}` is not defined in an enclosing scope"),
        )
    })
}

pub(super) fn exit(cx: &mut Cx) -> PtxResult<Op> {
    cx.ignore(&["uni"]);
    cx.finish(0..=0)?;
    Ok(Op::Exit)
}

//! Instructions across the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.6-12).

use super::cx::Cx;
use super::op::{IntBin, Op, ShflMode, Together, VoteMode};
use super::ty::Ty;
use crate::parse::ast::OperandKind;
use crate::parse::error::PtxResult;

type Decoded = PtxResult<(Op, Together)>;

fn need_sync(cx: &mut Cx) -> PtxResult<()> {
    if cx.flag("sync") {
        Ok(())
    } else {
        Err(cx.error(format!("`{}` without `.sync` is not simulated", cx.inst.opcode)))
    }
}

pub(super) fn shfl(cx: &mut Cx) -> Decoded {
    need_sync(cx)?;
    let mode = cx.need(
        "a mode",
        &[
            ("up", ShflMode::Up),
            ("down", ShflMode::Down),
            ("bfly", ShflMode::Bfly),
            ("idx", ShflMode::Idx),
        ],
    )?;
    let ty = cx.ty(&[Ty::B32])?;
    cx.finish(5..=5)?;
    let operand = cx.operand(0)?;
    let (d, p) = match &operand.kind {
        OperandKind::Pair(d, p) => {
            let pair = crate::parse::ast::Operand {
                kind: OperandKind::Name {
                    name: d.clone(),
                    offset: 0,
                },
                pos: operand.pos,
            };
            let d = cx
                .wide_dst(&pair, ty)?
                .ok_or_else(|| cx.error("shfl needs a destination"))?;
            (d.slot, cx.pred_dst(p, operand.pos)?)
        }
        _ => (cx.dst(0, ty)?, None),
    };
    let members = cx.src(4, Ty::B32)?;
    let (a, b, c) = (cx.src(1, ty)?, cx.src(2, ty)?, cx.src(3, ty)?);
    Ok((Op::Shfl { mode, d, p, a, b, c }, Together::Members(members)))
}

pub(super) fn vote(cx: &mut Cx) -> Decoded {
    need_sync(cx)?;
    let mode = cx.need(
        "a mode",
        &[
            ("all", VoteMode::All),
            ("any", VoteMode::Any),
            ("uni", VoteMode::Uni),
            ("ballot", VoteMode::Ballot),
        ],
    )?;
    let ty = if mode == VoteMode::Ballot {
        cx.ty(&[Ty::B32])?
    } else {
        cx.ty(&[Ty::Pred])?
    };
    cx.finish(3..=3)?;
    let d = cx.dst(0, ty)?;
    let members = cx.src(2, Ty::B32)?;
    Ok((
        Op::Vote {
            mode,
            d,
            a: cx.pred(1)?,
            members,
        },
        Together::Members(members),
    ))
}

pub(super) fn matching(cx: &mut Cx) -> Decoded {
    let all = cx.need("a mode", &[("all", true), ("any", false)])?;
    need_sync(cx)?;
    let ty = cx.ty(&[Ty::B32, Ty::B64])?;
    cx.finish(3..=3)?;
    let operand = cx.operand(0)?;
    let (d, p) = match &operand.kind {
        OperandKind::Pair(d, p) => {
            let pair = crate::parse::ast::Operand {
                kind: OperandKind::Name {
                    name: d.clone(),
                    offset: 0,
                },
                pos: operand.pos,
            };
            let d = cx
                .wide_dst(&pair, Ty::B32)?
                .ok_or_else(|| cx.error("match needs a destination"))?;
            (d.slot, cx.pred_dst(p, operand.pos)?)
        }
        _ => (cx.dst(0, Ty::B32)?, None),
    };
    let members = cx.src(2, Ty::B32)?;
    Ok((
        Op::Match {
            all,
            bits: ty.bits(),
            d,
            p,
            a: cx.src(1, ty)?,
        },
        Together::Members(members),
    ))
}

pub(super) fn elect(cx: &mut Cx) -> Decoded {
    need_sync(cx)?;
    cx.finish(2..=2)?;
    let operand = cx.operand(0)?;
    let OperandKind::Pair(d, p) = &operand.kind else {
        return Err(cx.error("elect.sync writes `d|p`"));
    };
    let pair = crate::parse::ast::Operand {
        kind: OperandKind::Name {
            name: d.clone(),
            offset: 0,
        },
        pos: operand.pos,
    };
    let d = cx.wide_dst(&pair, Ty::B32)?.map(|d| d.slot);
    let p = cx
        .pred_dst(p, operand.pos)?
        .ok_or_else(|| cx.error("elect.sync needs a predicate"))?;
    let members = cx.src(1, Ty::B32)?;
    Ok((Op::Elect { d, p, members }, Together::Members(members)))
}

pub(super) fn redux(cx: &mut Cx) -> Decoded {
    need_sync(cx)?;
    let f = cx.need(
        "an operation",
        &[
            ("add", IntBin::Add),
            ("min", IntBin::Min),
            ("max", IntBin::Max),
            ("and", IntBin::And),
            ("or", IntBin::Or),
            ("xor", IntBin::Xor),
        ],
    )?;
    let ty = cx.ty(&[Ty::U32, Ty::S32, Ty::B32])?;
    cx.finish(3..=3)?;
    let members = cx.src(2, Ty::B32)?;
    Ok((
        Op::Redux {
            f,
            ty,
            d: cx.dst(0, ty)?,
            a: cx.src(1, ty)?,
        },
        Together::Members(members),
    ))
}

pub(super) fn activemask(cx: &mut Cx) -> PtxResult<Op> {
    let ty = cx.ty(&[Ty::B32])?;
    cx.finish(1..=1)?;
    Ok(Op::ActiveMask { d: cx.dst(0, ty)? })
}

/// `bar.warp.sync mask`.
pub(super) fn warp_sync(cx: &mut Cx) -> Decoded {
    need_sync(cx)?;
    cx.finish(1..=1)?;
    let members = cx.src(0, Ty::B32)?;
    Ok((Op::WarpSync, Together::Members(members)))
}

//! Conversions of values and addresses (PTX ISA 9.7.9.20-24).

use super::cx::Cx;
use super::op::{Cvt, Dst, FloatMode, Op, Round, Space};
use super::ty::Ty;
use crate::parse::error::PtxResult;

const ROUNDS: &[(&str, Round)] = &[
    ("rn", Round::Nearest),
    ("rz", Round::Zero),
    ("rm", Round::Down),
    ("rp", Round::Up),
    ("rni", Round::IntNearest),
    ("rzi", Round::IntZero),
    ("rmi", Round::IntDown),
    ("rpi", Round::IntUp),
    ("rna", Round::NearestAway),
];

const ANY: &[Ty] = &[
    Ty::U8,
    Ty::S8,
    Ty::U16,
    Ty::S16,
    Ty::U32,
    Ty::S32,
    Ty::U64,
    Ty::S64,
    Ty::F16,
    Ty::Bf16,
    Ty::F32,
    Ty::F64,
    Ty::F16x2,
    Ty::Bf16x2,
];

pub(super) fn cvt(cx: &mut Cx) -> PtxResult<Op> {
    let round = cx.choice(ROUNDS).unwrap_or(Round::Default);
    let mode = FloatMode {
        ftz: cx.flag("ftz"),
        sat: cx.flag("sat"),
        relu: cx.flag("relu"),
        nan: false,
    };
    let to = cx.ty(ANY)?;
    let from = cx.ty(ANY)?;
    if matches!(to, Ty::F16x2 | Ty::Bf16x2) {
        cx.finish(3..=3)?;
        if from != Ty::F32 || !matches!(round, Round::Nearest | Round::Zero) {
            return Err(cx.error("packed conversions are `cvt.rn` or `cvt.rz` from .f32"));
        }
        let zero_round = round == Round::Zero;
        let (hi, lo) = (cx.src(1, Ty::F32)?, cx.src(2, Ty::F32)?);
        return Ok(Op::CvtPack {
            ty: to,
            mode,
            zero_round,
            d: cx.dst(0, to)?,
            hi,
            lo,
        });
    }
    cx.finish(2..=2)?;
    if matches!(from, Ty::F16x2 | Ty::Bf16x2) || round == Round::NearestAway {
        return Err(cx.error(format!("cvt to .{} from .{} is not simulated", to.name(), from.name())));
    }
    let d = cx
        .wide_dst(cx.operand(0)?, to)?
        .ok_or_else(|| cx.error("`_` is not a destination of cvt"))?;
    let a = cx.wide_src(cx.operand(1)?, from)?;
    Ok(Op::Cvt(Box::new(Cvt {
        to,
        from,
        round,
        mode,
        d,
        a,
    })))
}

pub(super) fn cvta(cx: &mut Cx) -> PtxResult<Op> {
    let to_space = cx.flag("to");
    let space = cx.need(
        "a state space",
        &[
            ("global", Space::Global),
            ("shared::cta", Space::SharedCta),
            ("shared", Space::SharedCta),
            ("shared::cluster", Space::SharedCluster),
            ("param", Space::Param),
            ("const", Space::Global),
        ],
    )?;
    let ty = cx.ty(&[Ty::U64])?;
    cx.finish(2..=2)?;
    Ok(Op::Cvta {
        space,
        to_space,
        d: cx.dst(0, ty)?,
        a: cx.src(1, ty)?,
    })
}

pub(super) fn mapa(cx: &mut Cx) -> PtxResult<Op> {
    let space_in = if cx.flag("shared::cluster") {
        Space::SharedCluster
    } else {
        Space::Generic
    };
    let ty = cx.ty(&[Ty::U32, Ty::U64])?;
    cx.finish(3..=3)?;
    let d = Dst {
        slot: cx.dst(0, ty)?,
        bits: ty.bits(),
    };
    Ok(Op::Mapa {
        space_in,
        d,
        a: cx.src(1, ty)?,
        rank: cx.src(2, Ty::U32)?,
    })
}

//! Floating-point arithmetic and approximate functions (PTX ISA 9.7.3, 9.7.4).

use super::cx::Cx;
use super::op::{FloatBin, FloatMode, FloatUn, Op};
use super::ty::Ty;
use crate::parse::error::PtxResult;

const HALVES: &[Ty] = &[Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2];
const ALL: &[Ty] = &[Ty::F32, Ty::F64, Ty::F16, Ty::F16x2, Ty::Bf16, Ty::Bf16x2];

fn mode(cx: &mut Cx) -> FloatMode {
    FloatMode {
        ftz: cx.flag("ftz"),
        sat: cx.flag("sat"),
        nan: cx.flag("NaN"),
        relu: cx.flag("relu"),
    }
}

/// Only round-to-nearest arithmetic is simulated.
fn nearest(cx: &mut Cx) -> PtxResult<()> {
    cx.flag("rn");
    match cx.choice(&[("rz", ()), ("rm", ()), ("rp", ())]) {
        None => Ok(()),
        Some(()) => Err(cx.error(format!("`{}` is simulated with `.rn` only", cx.inst.opcode))),
    }
}

pub(super) fn arithmetic(cx: &mut Cx) -> PtxResult<Op> {
    nearest(cx)?;
    let mode = mode(cx);
    let opcode = cx.inst.opcode.as_str();
    if opcode == "div" {
        cx.ignore(&["full", "approx"]);
    }
    let ty = cx.ty(ALL)?;
    match opcode {
        "neg" | "abs" => {
            cx.finish(2..=2)?;
            let f = if opcode == "neg" { FloatUn::Neg } else { FloatUn::Abs };
            unary(cx, f, ty, mode)
        }
        "fma" | "mad" => {
            cx.finish(4..=4)?;
            let (d, a, b, c) = (cx.dst(0, ty)?, cx.src(1, ty)?, cx.src(2, ty)?, cx.src(3, ty)?);
            Ok(match ty {
                Ty::F32 => Op::F32Fma { mode, d, a, b, c },
                Ty::F64 => Op::F64Fma { d, a, b, c },
                _ => Op::HalfFma { ty, mode, d, a, b, c },
            })
        }
        _ => {
            cx.finish(3..=3)?;
            let f = match opcode {
                "add" => FloatBin::Add,
                "sub" => FloatBin::Sub,
                "mul" => FloatBin::Mul,
                "div" => FloatBin::Div,
                "min" => FloatBin::Min,
                _ => FloatBin::Max,
            };
            let (d, a, b) = (cx.dst(0, ty)?, cx.src(1, ty)?, cx.src(2, ty)?);
            Ok(match ty {
                Ty::F32 => Op::F32Bin { f, mode, d, a, b },
                Ty::F64 => Op::F64Bin { f, d, a, b },
                _ if f == FloatBin::Div => return Err(cx.error("`div` is not simulated for 16-bit floats")),
                _ => Op::HalfBin { f, ty, mode, d, a, b },
            })
        }
    }
}

pub(super) fn function(cx: &mut Cx) -> PtxResult<Op> {
    let f = match cx.inst.opcode.as_str() {
        "ex2" => FloatUn::Ex2,
        "lg2" => FloatUn::Lg2,
        "rcp" => FloatUn::Rcp,
        "sqrt" => FloatUn::Sqrt,
        "rsqrt" => FloatUn::Rsqrt,
        "tanh" => FloatUn::Tanh,
        "sin" => FloatUn::Sin,
        _ => FloatUn::Cos,
    };
    cx.ignore(&["approx", "rn"]);
    let mode = mode(cx);
    let mut allowed = vec![Ty::F32];
    if matches!(f, FloatUn::Ex2 | FloatUn::Tanh) {
        allowed.extend(HALVES);
    }
    if matches!(f, FloatUn::Rcp | FloatUn::Sqrt | FloatUn::Rsqrt) {
        allowed.push(Ty::F64);
    }
    let ty = cx.ty(&allowed)?;
    cx.finish(2..=2)?;
    unary(cx, f, ty, mode)
}

fn unary(cx: &Cx, f: FloatUn, ty: Ty, mode: FloatMode) -> PtxResult<Op> {
    let (d, a) = (cx.dst(0, ty)?, cx.src(1, ty)?);
    Ok(match ty {
        Ty::F32 => Op::F32Un { f, mode, d, a },
        Ty::F64 => Op::F64Un { f, d, a },
        _ => Op::HalfUn { f, ty, d, a },
    })
}

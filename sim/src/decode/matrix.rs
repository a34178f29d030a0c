//! Matrix instructions (PTX ISA 9.7.14, 9.7.15).

use super::cx::Cx;
use super::op::{MatrixMove, Mma, Op, R, Space, Src, Together, Wgmma, WgmmaA};
use super::ty::Ty;
use crate::parse::ast::OperandKind;
use crate::parse::error::{PtxError, PtxResult};

type Decoded = PtxResult<(Op, Together)>;

fn sync_aligned(cx: &mut Cx) -> PtxResult<()> {
    if cx.flag("sync") && cx.flag("aligned") {
        Ok(())
    } else {
        Err(cx.error(format!("`{}` is `.sync.aligned`", cx.inst.opcode)))
    }
}

pub(super) fn ldst_matrix(cx: &mut Cx) -> Decoded {
    sync_aligned(cx)?;
    cx.need("a shape", &[("m8n8", ())])?;
    let count = cx.need("a count", &[("x1", 1usize), ("x2", 2), ("x4", 4)])?;
    let trans = cx.flag("trans");
    let space = if cx.choice(&[("shared", ()), ("shared::cta", ())]).is_some() {
        Space::SharedCta
    } else {
        Space::Generic
    };
    cx.ty(&[Ty::B16])?;
    cx.finish(2..=2)?;
    let op = if cx.inst.opcode == "ldmatrix" {
        Op::Ldmatrix(Box::new(MatrixMove {
            regs: cx.regs(0, count, Ty::B32)?,
            addr: cx.addr(1, space)?,
            trans,
        }))
    } else {
        Op::Stmatrix(Box::new(MatrixMove {
            regs: cx.regs(1, count, Ty::B32)?,
            addr: cx.addr(0, space)?,
            trans,
        }))
    };
    Ok((op, Together::Aligned))
}

pub(super) fn mma(cx: &mut Cx) -> Decoded {
    sync_aligned(cx)?;
    let k16 = cx.need("a shape", &[("m16n8k16", true), ("m16n8k8", false)])?;
    cx.need("layouts", &[("row", ())])?;
    cx.need("layouts", &[("col", ())])?;
    cx.ty(&[Ty::F32])?;
    let a_ty = cx.ty(&[Ty::F16, Ty::Bf16])?;
    let b_ty = cx.ty(&[Ty::F16, Ty::Bf16])?;
    cx.ty(&[Ty::F32])?;
    cx.finish(4..=4)?;
    if a_ty != b_ty {
        return Err(cx.error("A and B have one type"));
    }
    let (a_regs, b_regs) = if k16 { (4, 2) } else { (2, 1) };
    let d = array4(cx, cx.regs(0, 4, Ty::F32)?)?;
    let c = cx.elements(3)?;
    if c.len() != 4 {
        return Err(cx.error("C has 4 registers"));
    }
    let c: Vec<Src> = c
        .iter()
        .map(|item| cx.src_of(item, Ty::F32))
        .collect::<PtxResult<_>>()?;
    let mma = Mma {
        bf16: a_ty == Ty::Bf16,
        a: cx.regs(1, a_regs, Ty::B32)?,
        b: cx.regs(2, b_regs, Ty::B32)?,
        c,
        d,
    };
    Ok((Op::Mma(Box::new(mma)), Together::Aligned))
}

fn array4(cx: &Cx, regs: Vec<R>) -> PtxResult<[R; 4]> {
    regs.try_into().map_err(|_| cx.error("4 registers are wanted"))
}

pub(super) fn wgmma(cx: &mut Cx) -> Decoded {
    #[derive(Clone, Copy)]
    enum Kind {
        Fence,
        Commit,
        Wait,
        Mma,
    }
    let kind = cx.need(
        "an operation",
        &[
            ("fence", Kind::Fence),
            ("commit_group", Kind::Commit),
            ("wait_group", Kind::Wait),
            ("mma_async", Kind::Mma),
        ],
    )?;
    sync_aligned(cx)?;
    let op = match kind {
        Kind::Fence => {
            cx.finish(0..=0)?;
            Op::WgmmaFence
        }
        Kind::Commit => {
            cx.finish(0..=0)?;
            Op::WgmmaCommit
        }
        Kind::Wait => {
            cx.finish(1..=1)?;
            let keep = cx.literal(0, "the group count")?;
            if keep > 7 {
                return Err(cx.error(format!("wgmma.wait_group {keep}: 0 to 7 are allowed")));
            }
            Op::WgmmaWait { keep: keep as u32 }
        }
        Kind::Mma => Op::Wgmma(Box::new(mma_async(cx)?)),
    };
    Ok((op, Together::Aligned))
}

/// N of `m64nNk16`.
fn shape_n(text: &str) -> Option<u32> {
    text.strip_prefix("m64n")?.strip_suffix("k16")?.parse().ok()
}

fn mma_async(cx: &mut Cx) -> PtxResult<Wgmma> {
    let n = cx
        .parse_mod(shape_n)
        .filter(|n| (8..=256).contains(n) && n % 8 == 0)
        .ok_or_else(|| cx.error("wgmma needs a shape `.m64nNk16` with N a multiple of 8 from 8 to 256"))?;
    cx.ty(&[Ty::F32])?;
    let a_ty = cx.ty(&[Ty::F16, Ty::Bf16])?;
    let b_ty = cx.ty(&[Ty::F16, Ty::Bf16])?;
    if a_ty != b_ty {
        return Err(cx.error("A and B have one type"));
    }
    let from_regs = matches!(cx.operand(1)?.kind, OperandKind::Vector(_));
    let operands = if from_regs { 7 } else { 8 };
    cx.finish(operands..=operands)?;
    let a = if from_regs {
        WgmmaA::Regs(array4(cx, cx.regs(1, 4, Ty::B32)?)?)
    } else {
        WgmmaA::Desc(cx.src(1, Ty::B64)?)
    };
    let d = cx.regs(0, n as usize / 2, Ty::F32)?;
    let mut sorted = d.clone();
    sorted.sort_unstable();
    if sorted.windows(2).any(|w| w[0] == w[1]) {
        return Err(cx.error("an accumulator register is named twice"));
    }
    let mn_major_a = !from_regs && transpose(cx, 6)?;
    let mn_major_b = transpose(cx, operands - 1)?;
    Ok(Wgmma {
        n,
        bf16: a_ty == Ty::Bf16,
        d,
        a,
        b: cx.src(2, Ty::B64)?,
        scale_d: cx.pred(3)?,
        negate_a: negated(cx, 4)?,
        negate_b: negated(cx, 5)?,
        mn_major_a,
        mn_major_b,
    })
}

fn negated(cx: &Cx, index: usize) -> PtxResult<bool> {
    match cx.literal(index, "imm-scale")? as i64 {
        1 => Ok(false),
        -1 => Ok(true),
        other => Err(PtxError::new(
            cx.operand(index)?.pos,
            format!("imm-scale {other}: 1 or -1 is allowed"),
        )),
    }
}

fn transpose(cx: &Cx, index: usize) -> PtxResult<bool> {
    match cx.literal(index, "imm-trans")? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(PtxError::new(
            cx.operand(index)?.pos,
            format!("imm-trans {other}: 0 or 1 is allowed"),
        )),
    }
}

//! Loads, stores and atomics (PTX ISA 9.7.9, 9.7.13.5).

use super::cx::Cx;
use super::op::{Atom, AtomOp, Dst, IntUn, Mem, Op, Space, Src};
use super::ty::Ty;
use crate::parse::error::PtxResult;

const SPACES: &[(&str, Space)] = &[
    ("global", Space::Global),
    ("shared::cta", Space::SharedCta),
    ("shared", Space::SharedCta),
    ("shared::cluster", Space::SharedCluster),
    ("param", Space::Param),
    ("param::entry", Space::Param),
];

const TYPES: &[Ty] = &[
    Ty::B8,
    Ty::B16,
    Ty::B32,
    Ty::B64,
    Ty::U8,
    Ty::U16,
    Ty::U32,
    Ty::U64,
    Ty::S8,
    Ty::S16,
    Ty::S32,
    Ty::S64,
    Ty::F32,
    Ty::F64,
];

/// Scopes and cache hints: no effect on what a simulated access does.
const HINTS: &[&str] = &[
    "cta",
    "cluster",
    "gpu",
    "sys",
    "ca",
    "cg",
    "cs",
    "lu",
    "cv",
    "wb",
    "wt",
    "nc",
    "L1::evict_normal",
    "L1::evict_unchanged",
    "L1::evict_first",
    "L1::evict_last",
    "L1::no_allocate",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "L2::evict_first",
    "L2::evict_last",
    "L2::evict_normal",
];

const ATOMS: &[(&str, AtomOp)] = &[
    ("add", AtomOp::Add),
    ("min", AtomOp::Min),
    ("max", AtomOp::Max),
    ("and", AtomOp::And),
    ("or", AtomOp::Or),
    ("xor", AtomOp::Xor),
    ("exch", AtomOp::Exch),
    ("cas", AtomOp::Cas),
    ("inc", AtomOp::Inc),
    ("dec", AtomOp::Dec),
];

struct Order {
    acquire: bool,
    release: bool,
}

fn order(cx: &mut Cx) -> Order {
    let acq_rel = cx.flag("acq_rel");
    let order = Order {
        acquire: cx.flag("acquire") || acq_rel,
        release: cx.flag("release") || acq_rel,
    };
    cx.ignore(&["weak", "volatile", "relaxed", "mmio"]);
    cx.ignore(HINTS);
    order
}

fn vector_len(cx: &mut Cx) -> usize {
    cx.choice(&[("v2", 2), ("v4", 4), ("v8", 8)]).unwrap_or(1)
}

/// Checks a trailing cache policy, which has no effect.
fn policy(cx: &mut Cx, operands: usize) -> PtxResult<()> {
    if cx.flag("L2::cache_hint") {
        cx.finish(operands + 1..=operands + 1)?;
        cx.src(operands, Ty::B64)?;
        return Ok(());
    }
    cx.finish(operands..=operands)
}

pub(super) fn load(cx: &mut Cx) -> PtxResult<Op> {
    let Order { acquire, release } = order(cx);
    let space = cx.choice(SPACES).unwrap_or(Space::Generic);
    let count = vector_len(cx);
    let ty = cx.ty(TYPES)?;
    policy(cx, 2)?;
    let items = cx.elements(0)?;
    check_count(cx, items.len(), count, ty)?;
    let regs = items
        .iter()
        .map(|item| cx.wide_dst(item, ty))
        .collect::<PtxResult<_>>()?;
    let addr = cx.addr(1, space)?;
    Ok(Op::Ld(Box::new(Mem {
        space,
        ty,
        addr,
        regs,
        srcs: Vec::new(),
        acquire,
        release,
    })))
}

pub(super) fn store(cx: &mut Cx) -> PtxResult<Op> {
    let Order { acquire, release } = order(cx);
    let space = cx.choice(SPACES).unwrap_or(Space::Generic);
    let count = vector_len(cx);
    let ty = cx.ty(TYPES)?;
    policy(cx, 2)?;
    if space == Space::Param {
        return Err(cx.error("kernels cannot store to .param"));
    }
    let items = cx.elements(1)?;
    check_count(cx, items.len(), count, ty)?;
    let srcs = items
        .iter()
        .map(|item| cx.wide_src(item, ty))
        .collect::<PtxResult<_>>()?;
    let addr = cx.addr(0, space)?;
    Ok(Op::St(Box::new(Mem {
        space,
        ty,
        addr,
        regs: Vec::new(),
        srcs,
        acquire,
        release,
    })))
}

fn check_count(cx: &Cx, found: usize, wanted: usize, ty: Ty) -> PtxResult<()> {
    if found != wanted {
        return Err(cx.error(format!("{found} registers are given; {wanted} are wanted")));
    }
    if wanted * ty.bytes() as usize > 32 {
        return Err(cx.error("a vector access moves at most 32 bytes"));
    }
    Ok(())
}

pub(super) fn atom(cx: &mut Cx) -> PtxResult<Op> {
    let is_red = cx.inst.opcode == "red";
    if is_red && cx.flag("async") {
        return Err(cx.error("`red.async` is not simulated"));
    }
    let Order { acquire, release } = order(cx);
    let space = cx.choice(SPACES).unwrap_or(Space::Generic);
    let op = cx.need("an operation", ATOMS)?;
    cx.ignore(&["noftz"]);
    let count = vector_len(cx);
    let ty = cx.ty(&[
        Ty::B32,
        Ty::B64,
        Ty::U32,
        Ty::U64,
        Ty::S32,
        Ty::S64,
        Ty::F32,
        Ty::F64,
        Ty::F16x2,
        Ty::Bf16x2,
        Ty::F16,
        Ty::Bf16,
    ])?;
    let first = usize::from(!is_red);
    policy(cx, first + 2 + usize::from(op == AtomOp::Cas))?;
    if ty.is_float() && !matches!(op, AtomOp::Add | AtomOp::Min | AtomOp::Max) {
        return Err(cx.error("float atomics are add, min and max"));
    }
    let d = if is_red || count > 1 {
        None
    } else {
        cx.wide_dst(cx.operand(0)?, ty)?.map(|d| Dst {
            slot: d.slot,
            bits: ty.bits(),
        })
    };
    if count > 1 && !is_red {
        return Err(cx.error("vector `atom` is not simulated; vector `red` is"));
    }
    let items = cx.elements(first + 1)?;
    check_count(cx, items.len(), count, ty)?;
    let b = items.iter().map(|item| cx.src_of(item, ty)).collect::<PtxResult<_>>()?;
    let c = if op == AtomOp::Cas {
        Some(cx.src(first + 2, ty)?)
    } else {
        None
    };
    Ok(Op::Atom(Box::new(Atom {
        space,
        op,
        ty,
        addr: cx.addr(first, space)?,
        d,
        b,
        c,
        acquire,
        release,
    })))
}

/// Prefetches only bring data nearer.
pub(super) fn prefetch(cx: &mut Cx) -> PtxResult<Op> {
    cx.ignore(&["tensormap", "L1", "L2"]);
    cx.ignore(HINTS);
    let space = cx.choice(SPACES).unwrap_or(Space::Generic);
    cx.finish(1..=2)?;
    cx.addr(0, space)?;
    Ok(Op::Nop)
}

/// A cache policy is an opaque value; 0 serves, as hints have no effect.
pub(super) fn create_policy(cx: &mut Cx) -> PtxResult<Op> {
    cx.need("a kind", &[("fractional", ()), ("range", ())])?;
    cx.ignore(HINTS);
    cx.ignore(&["L2::evict_unchanged", "global"]);
    let ty = cx.ty(&[Ty::B64])?;
    cx.finish(1..=5)?;
    let d = Dst {
        slot: cx.dst(0, ty)?,
        bits: ty.bits(),
    };
    Ok(Op::IntUn {
        f: IntUn::Mov,
        bits: ty.bits(),
        d,
        a: Src::Imm(0),
    })
}

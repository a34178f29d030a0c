//! Barriers, fences, mbarriers and register pools (PTX ISA 9.7.13, 9.7.19).

use super::cx::Cx;
use super::op::{Arrive, Barrier, Fence, MbarWait, Op, Space, Src, Together};
use super::ty::Ty;
use crate::parse::ast::OperandKind;
use crate::parse::error::PtxResult;

type Decoded = PtxResult<(Op, Together)>;

fn aligned(yes: bool) -> Together {
    if yes { Together::Aligned } else { Together::Free }
}

pub(super) fn barrier(cx: &mut Cx) -> Decoded {
    if cx.flag("cluster") {
        return cluster(cx);
    }
    if cx.flag("warp") {
        return super::warp::warp_sync(cx);
    }
    // `bar` is `barrier.cta.aligned` (PTX ISA 9.7.13.1).
    let is_aligned = cx.flag("aligned") || cx.inst.opcode == "bar";
    cx.ignore(&["cta"]);
    if cx.flag("red") {
        return Err(cx.error("`barrier.red` is not simulated"));
    }
    let waits = cx.need("a kind", &[("sync", true), ("arrive", false)])?;
    cx.finish(1..=2)?;
    let id = cx.src(0, Ty::U32)?;
    let count = if cx.count() > 1 {
        Some(cx.src(1, Ty::U32)?)
    } else {
        None
    };
    if !waits && count.is_none() {
        return Err(cx.error("`barrier.arrive` needs a thread count"));
    }
    Ok((Op::Barrier(Box::new(Barrier { id, count, waits })), aligned(is_aligned)))
}

fn cluster(cx: &mut Cx) -> Decoded {
    let arrives = cx.need("a kind", &[("arrive", true), ("wait", false)])?;
    let relaxed = cx.flag("relaxed");
    cx.ignore(&["release", "acquire"]);
    let is_aligned = cx.flag("aligned");
    cx.finish(0..=0)?;
    let op = if arrives {
        Op::ClusterArrive { release: !relaxed }
    } else {
        Op::ClusterWait
    };
    Ok((op, aligned(is_aligned)))
}

pub(super) fn fence(cx: &mut Cx) -> PtxResult<Op> {
    let kind = if cx.flag("mbarrier_init") {
        Fence::MbarrierInit
    } else if cx.flag("proxy") {
        if cx.choice(&[("async", ()), ("async::generic", ())]).is_some() {
            Fence::ProxyAsync
        } else {
            Fence::Other
        }
    } else {
        Fence::Other
    };
    cx.ignore(&[
        "shared::cta",
        "shared::cluster",
        "global",
        "sc",
        "acq_rel",
        "acquire",
        "release",
        "cta",
        "cluster",
        "gpu",
        "sys",
        "gl",
        "alias",
        "tensormap::generic",
        "sync_restrict::shared::cta",
        "sync_restrict::shared::cluster",
    ]);
    cx.finish(0..=2)?;
    Ok(Op::Fence(kind))
}

fn mbar_space(cx: &mut Cx) -> Space {
    cx.choice(&[
        ("shared::cta", Space::SharedCta),
        ("shared", Space::SharedCta),
        ("shared::cluster", Space::SharedCluster),
    ])
    .unwrap_or(Space::Generic)
}

pub(super) fn mbarrier(cx: &mut Cx) -> PtxResult<Op> {
    #[derive(Clone, Copy)]
    enum Kind {
        Init,
        Inval,
        Arrive,
        ArriveDrop,
        ExpectTx,
        Wait(bool),
    }
    let kind = cx.need(
        "an operation",
        &[
            ("init", Kind::Init),
            ("inval", Kind::Inval),
            ("arrive", Kind::Arrive),
            ("arrive_drop", Kind::ArriveDrop),
            ("try_wait", Kind::Wait(true)),
            ("test_wait", Kind::Wait(false)),
            ("expect_tx", Kind::ExpectTx),
        ],
    )?;
    match kind {
        Kind::Init => {
            let space = local_space(cx)?;
            finish_b64(cx, 2..=2)?;
            Ok(Op::MbarInit {
                addr: cx.addr(0, space)?,
                count: cx.src(1, Ty::U32)?,
            })
        }
        Kind::Inval => {
            let space = local_space(cx)?;
            finish_b64(cx, 1..=1)?;
            Ok(Op::MbarInval {
                addr: cx.addr(0, space)?,
            })
        }
        Kind::ExpectTx => {
            cx.ignore(&["relaxed", "cta", "cluster"]);
            let space = mbar_space(cx);
            finish_b64(cx, 2..=2)?;
            Ok(Op::MbarExpectTx {
                space,
                addr: cx.addr(0, space)?,
                bytes: cx.src(1, Ty::U32)?,
            })
        }
        Kind::Arrive => arrive(cx, false),
        Kind::ArriveDrop => arrive(cx, true),
        Kind::Wait(suspends) => wait(cx, suspends),
    }
}

fn local_space(cx: &mut Cx) -> PtxResult<Space> {
    match mbar_space(cx) {
        Space::SharedCluster => Err(cx.error("this mbarrier operation works on .shared::cta only")),
        space => Ok(space),
    }
}

fn finish_b64(cx: &mut Cx, operands: std::ops::RangeInclusive<usize>) -> PtxResult<()> {
    cx.ty(&[Ty::B64])?;
    cx.finish(operands)
}

fn arrive(cx: &mut Cx, drop: bool) -> PtxResult<Op> {
    let expects = cx.flag("expect_tx");
    if cx.flag("noComplete") {
        return Err(cx.error("`mbarrier.arrive.noComplete` is not simulated"));
    }
    let relaxed = cx.flag("relaxed");
    cx.ignore(&["release", "cta", "cluster"]);
    let space = mbar_space(cx);
    finish_b64(cx, 1..=3)?;
    // The state operand may be left out for remote barriers: `[addr]` comes first then.
    let has_state = !matches!(cx.operand(0)?.kind, OperandKind::Address { .. });
    let at = usize::from(has_state);
    let d = match &cx.operand(0)?.kind {
        OperandKind::Name { name, .. } if name == "_" => None,
        _ if has_state => Some(cx.dst(0, Ty::B64)?),
        _ => None,
    };
    if d.is_some() && space == Space::SharedCluster {
        return Err(cx.error("a remote arrive returns no state: write `_`"));
    }
    let extra = if cx.count() > at + 1 {
        Some(cx.src(at + 1, Ty::U32)?)
    } else {
        None
    };
    if expects && extra.is_none() {
        return Err(cx.error("`arrive.expect_tx` needs a byte count"));
    }
    let (count, expect_tx) = if expects {
        (Src::Imm(1), extra)
    } else {
        (extra.unwrap_or(Src::Imm(1)), None)
    };
    Ok(Op::MbarArrive(Box::new(Arrive {
        space,
        addr: cx.addr(at, space)?,
        d,
        count,
        expect_tx,
        release: !relaxed,
        drop,
    })))
}

fn wait(cx: &mut Cx, suspends: bool) -> PtxResult<Op> {
    let parity = cx.flag("parity");
    let relaxed = cx.flag("relaxed");
    cx.ignore(&["acquire", "cta", "cluster"]);
    let space = local_space(cx)?;
    finish_b64(cx, 3..=4)?;
    if cx.count() == 4 {
        cx.src(3, Ty::U32)?;
    }
    let value = cx.src(2, if parity { Ty::U32 } else { Ty::B64 })?;
    let wait = MbarWait {
        addr: cx.addr(1, space)?,
        d: cx.dst_pred(0)?,
        value,
        parity,
        suspends,
        acquire: !relaxed,
    };
    Ok(Op::MbarWait(Box::new(wait)))
}

pub(super) fn setmaxnreg(cx: &mut Cx) -> Decoded {
    let inc = cx.need("a direction", &[("inc", true), ("dec", false)])?;
    if !cx.flag("sync") || !cx.flag("aligned") {
        return Err(cx.error("`setmaxnreg` is `.sync.aligned`"));
    }
    cx.ty(&[Ty::U32])?;
    cx.finish(1..=1)?;
    let regs = cx.literal(0, "the register count")?;
    if !(24..=256).contains(&regs) || regs % 8 != 0 {
        return Err(cx.error(format!("setmaxnreg {regs}: a multiple of 8 from 24 to 256 is allowed")));
    }
    Ok((Op::SetMaxNreg { inc, regs: regs as u32 }, Together::Aligned))
}

pub(super) fn griddepcontrol(cx: &mut Cx) -> PtxResult<Op> {
    cx.need("a kind", &[("launch_dependents", ()), ("wait", ())])?;
    cx.finish(0..=0)?;
    Ok(Op::Nop)
}

pub(super) fn nanosleep(cx: &mut Cx) -> PtxResult<Op> {
    cx.ty(&[Ty::U32])?;
    cx.finish(1..=1)?;
    cx.src(0, Ty::U32)?;
    Ok(Op::Nanosleep)
}

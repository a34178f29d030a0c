//! Asynchronous copies (PTX ISA 9.7.9.25-27).

use super::cx::Cx;
use super::op::{AtomOp, BulkKind, CpAsync, Op, Space};
use super::ty::Ty;
use crate::parse::error::PtxResult;

const REDUCE: &[(&str, AtomOp)] = &[
    ("add", AtomOp::Add),
    ("min", AtomOp::Min),
    ("max", AtomOp::Max),
    ("and", AtomOp::And),
    ("or", AtomOp::Or),
    ("xor", AtomOp::Xor),
    ("inc", AtomOp::Inc),
    ("dec", AtomOp::Dec),
];

pub(super) fn copy(cx: &mut Cx) -> PtxResult<Op> {
    let reduce = cx.flag("reduce");
    if !cx.flag("async") {
        return Err(cx.error("`cp` without `.async` is unknown"));
    }
    if cx.flag("bulk") {
        return bulk(cx, reduce);
    }
    if cx.flag("commit_group") {
        cx.finish(0..=0)?;
        return Ok(Op::CpAsyncCommit);
    }
    if cx.flag("wait_all") {
        cx.finish(0..=0)?;
        return Ok(Op::CpAsyncWaitAll);
    }
    if cx.flag("wait_group") {
        cx.finish(1..=1)?;
        return Ok(Op::CpAsyncWait { keep: wait_count(cx)? });
    }
    if cx.flag("mbarrier") {
        cx.need("a kind", &[("arrive", ())])?;
        let noinc = cx.flag("noinc");
        let space = if cx.choice(&[("shared::cta", ()), ("shared", ())]).is_some() {
            Space::SharedCta
        } else {
            Space::Generic
        };
        cx.ty(&[Ty::B64])?;
        cx.finish(1..=1)?;
        return Ok(Op::CpAsyncMbarArrive {
            addr: cx.addr(0, space)?,
            noinc,
        });
    }
    cp_async(cx)
}

fn wait_count(cx: &Cx) -> PtxResult<u32> {
    u32::try_from(cx.literal(0, "the group count")?).map_err(|_| cx.error("the group count does not fit 32 bits"))
}

fn cp_async(cx: &mut Cx) -> PtxResult<Op> {
    cx.need("a cache operator", &[("ca", ()), ("cg", ())])?;
    cx.need("a destination space", &[("shared", ()), ("shared::cta", ())])?;
    cx.need("a source space", &[("global", ())])?;
    cx.ignore(&["L2::64B", "L2::128B", "L2::256B"]);
    let hint = usize::from(cx.flag("L2::cache_hint"));
    cx.finish(3..=4 + hint)?;
    let bytes = cx.literal(2, "the copy size")?;
    if !matches!(bytes, 4 | 8 | 16) {
        return Err(cx.error(format!("cp.async copies 4, 8 or 16 bytes, not {bytes}")));
    }
    let src_bytes = if cx.count() > 3 + hint {
        Some(cx.src(3, Ty::U32)?)
    } else {
        None
    };
    Ok(Op::CpAsync(Box::new(CpAsync {
        dst: cx.addr(0, Space::SharedCta)?,
        src: cx.addr(1, Space::Global)?,
        bytes: bytes as u32,
        src_bytes,
    })))
}

fn bulk(cx: &mut Cx, reduce: bool) -> PtxResult<Op> {
    if cx.flag("commit_group") {
        cx.finish(0..=0)?;
        return Ok(Op::BulkCommit);
    }
    if cx.flag("wait_group") {
        cx.ignore(&["read"]);
        cx.finish(1..=1)?;
        return Ok(Op::BulkWait { keep: wait_count(cx)? });
    }
    if cx.flag("prefetch") {
        return prefetch(cx);
    }
    if cx.flag("tensor") {
        return tensor(cx, reduce);
    }
    plain(cx, reduce)
}

fn rank(cx: &mut Cx) -> PtxResult<usize> {
    cx.need("a rank", &[("1d", 1), ("2d", 2), ("3d", 3), ("4d", 4), ("5d", 5)])
}

/// Prefetches to L2 change no memory.
fn prefetch(cx: &mut Cx) -> PtxResult<Op> {
    let is_tensor = cx.flag("tensor");
    cx.ignore(&["L2", "global", "tile", "L2::cache_hint"]);
    if is_tensor {
        let rank = rank(cx)?;
        cx.finish(1..=2)?;
        cx.tensor(0, rank)?;
    } else {
        cx.finish(2..=3)?;
        cx.addr(0, Space::Global)?;
    }
    Ok(Op::Nop)
}

/// Spaces in text order: destination, then source.
fn direction(cx: &mut Cx) -> PtxResult<(Space, Space)> {
    let table = &[
        ("shared::cluster", Space::SharedCluster),
        ("shared::cta", Space::SharedCta),
        ("global", Space::Global),
    ];
    let dst = cx.need("a destination space", table)?;
    let src = cx.need("a source space", table)?;
    Ok((dst, src))
}

fn tensor(cx: &mut Cx, reduce: bool) -> PtxResult<Op> {
    let rank = rank(cx)?;
    let (dst_space, src_space) = direction(cx)?;
    if cx
        .choice(&[
            ("im2col", ()),
            ("im2col_no_offs", ()),
            ("tile::gather4", ()),
            ("tile::scatter4", ()),
        ])
        .is_some()
    {
        return Err(cx.error("only `.tile` tensor copies are simulated"));
    }
    cx.ignore(&["tile"]);
    let hint = usize::from(cx.flag("L2::cache_hint"));
    let kind = if src_space == Space::Global {
        cx.need("a completion", &[("mbarrier::complete_tx::bytes", ())])?;
        let multicast = usize::from(cx.flag("multicast::cluster"));
        let operands = 3 + multicast + hint;
        cx.finish(operands..=operands)?;
        let (map, coords) = cx.tensor(1, rank)?;
        let mask = if multicast == 1 {
            Some(cx.src(3, Ty::U16)?)
        } else {
            None
        };
        BulkKind::TensorLoad {
            map,
            coords,
            dst: cx.addr(0, dst_space)?,
            mbar: cx.addr(2, dst_space)?,
            multicast: mask,
        }
    } else {
        if dst_space != Space::Global || src_space != Space::SharedCta {
            return Err(cx.error("a tensor store goes from .shared::cta to .global"));
        }
        cx.need("a completion", &[("bulk_group", ())])?;
        let reduce = if reduce {
            Some(cx.need("an operation", REDUCE)?)
        } else {
            None
        };
        cx.finish(2 + hint..=2 + hint)?;
        let (map, coords) = cx.tensor(0, rank)?;
        BulkKind::TensorStore {
            map,
            coords,
            src: cx.addr(1, Space::SharedCta)?,
            reduce,
        }
    };
    Ok(Op::Bulk(Box::new(kind)))
}

fn plain(cx: &mut Cx, reduce: bool) -> PtxResult<Op> {
    let (dst_space, src_space) = direction(cx)?;
    let hint = usize::from(cx.flag("L2::cache_hint"));
    let kind = match (dst_space, src_space) {
        (Space::SharedCluster | Space::SharedCta, Space::Global) if !reduce => {
            cx.need("a completion", &[("mbarrier::complete_tx::bytes", ())])?;
            let multicast = usize::from(cx.flag("multicast::cluster"));
            let operands = 4 + multicast + hint;
            cx.finish(operands..=operands)?;
            let mask = if multicast == 1 {
                Some(cx.src(4, Ty::U16)?)
            } else {
                None
            };
            BulkKind::Load {
                dst: cx.addr(0, dst_space)?,
                src: cx.addr(1, Space::Global)?,
                bytes: cx.src(2, Ty::U32)?,
                mbar: cx.addr(3, dst_space)?,
                multicast: mask,
            }
        }
        (Space::Global, Space::SharedCta) => {
            cx.need("a completion", &[("bulk_group", ())])?;
            let reduce = if reduce {
                let op = cx.need("an operation", REDUCE)?;
                cx.ignore(&["noftz"]);
                Some((
                    op,
                    cx.ty(&[
                        Ty::F16,
                        Ty::Bf16,
                        Ty::B32,
                        Ty::U32,
                        Ty::S32,
                        Ty::B64,
                        Ty::U64,
                        Ty::S64,
                        Ty::F32,
                        Ty::F64,
                    ])?,
                ))
            } else {
                None
            };
            cx.finish(3 + hint..=3 + hint)?;
            BulkKind::Store {
                dst: cx.addr(0, Space::Global)?,
                src: cx.addr(1, Space::SharedCta)?,
                bytes: cx.src(2, Ty::U32)?,
                reduce,
            }
        }
        (Space::SharedCluster, Space::SharedCta) if !reduce => {
            cx.need("a completion", &[("mbarrier::complete_tx::bytes", ())])?;
            cx.finish(4..=4)?;
            BulkKind::Peer {
                dst: cx.addr(0, Space::SharedCluster)?,
                src: cx.addr(1, Space::SharedCta)?,
                bytes: cx.src(2, Ty::U32)?,
                mbar: cx.addr(3, Space::SharedCluster)?,
            }
        }
        _ => return Err(cx.error("this direction of cp.async.bulk is not simulated")),
    };
    Ok(Op::Bulk(Box::new(kind)))
}

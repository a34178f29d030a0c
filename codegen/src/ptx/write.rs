//! The writer: one arm per instruction, no decisions.

use std::fmt::Write as _;

use super::{
    Addr, Class, Cmp, FloatFn, FloatOp, Half, Inst, IntOp, Kind, Module, Opd, ParamKind, Ptx, Reg, Special, WgmmaA,
};

/// Prints a module.
#[must_use]
pub fn write(module: &Module) -> Ptx {
    let mut out = String::new();
    for line in &module.header {
        push(&mut out, &format!("// {line}"));
    }
    push(
        &mut out,
        &format!(".version 8.7\n.target {}\n.address_size 64\n", module.target),
    );
    for (i, file) in module.files.iter().enumerate() {
        push(&mut out, &format!(".file {} \"{}\"", i + 1, escaped(file)));
    }
    push(&mut out, ".extern .shared .align 1024 .b8 smem[];\n");
    let params: Vec<_> = module.params.iter().map(param).collect();
    push(
        &mut out,
        &format!(".visible .entry {}(\n{}\n)", module.entry, params.join(",\n")),
    );
    push(
        &mut out,
        &format!(".maxntid {}, 1, 1\n.minnctapersm 1\n{{", module.threads),
    );
    for (class, count) in &module.registers {
        push(
            &mut out,
            &format!("  .reg {} {}<{count}>;", class_type(*class), class_prefix(*class)),
        );
    }
    for inst in &module.body {
        push(&mut out, &line(inst));
    }
    push(&mut out, "}");
    Ptx(out)
}

fn push(out: &mut String, text: &str) {
    out.push_str(text);
    out.push('\n');
}

/// A file name inside double quotes.
fn escaped(name: &str) -> String {
    name.replace('\\', "/").replace('"', "_")
}

fn param((name, kind): &(String, ParamKind)) -> String {
    match kind {
        ParamKind::TensorMap => format!("  .param .align 64 .b8 {name}[128]"),
        ParamKind::U64 => format!("  .param .u64 {name}"),
        ParamKind::S32 => format!("  .param .s32 {name}"),
        ParamKind::F32 => format!("  .param .f32 {name}"),
    }
}

fn class_type(class: Class) -> &'static str {
    match class {
        Class::Pred => ".pred",
        Class::B32 => ".b32",
        Class::B64 => ".b64",
        Class::F32 => ".f32",
    }
}

fn class_prefix(class: Class) -> &'static str {
    match class {
        Class::Pred => "%p",
        Class::B32 => "%r",
        Class::B64 => "%d",
        Class::F32 => "%f",
    }
}

fn line(inst: &Inst) -> String {
    match &inst.kind {
        Kind::Comment(text) => return format!("  // {text}"),
        Kind::Loc { file, line, column } => return format!("  .loc {file} {line} {column}"),
        Kind::Label(l) => return format!("L{}:", l.0),
        _ => {}
    }
    let guard = match inst.guard {
        Some((p, true)) => format!("@{} ", r(p)),
        Some((p, false)) => format!("@!{} ", r(p)),
        None => String::new(),
    };
    let text = text(&inst.kind);
    // A block closes itself.
    let end = if text.starts_with('{') { "" } else { ";" };
    format!("  {guard}{text}{end}")
}

fn r(reg: Reg) -> String {
    format!("{}{}", class_prefix(reg.class), reg.number)
}

fn o(opd: Opd) -> String {
    match opd {
        Opd::Reg(reg) => r(reg),
        Opd::Int(v) => v.to_string(),
        Opd::Float(v) => format!("0f{:08X}", v.to_bits()),
        Opd::Special(s) => special(s).to_owned(),
        Opd::Smem => "smem".to_owned(),
    }
}

fn special(s: Special) -> &'static str {
    match s {
        Special::TidX => "%tid.x",
        Special::CtaidX => "%ctaid.x",
        Special::NctaidX => "%nctaid.x",
        Special::Clock64 => "%clock64",
        Special::GlobalTimer => "%globaltimer",
        Special::SmId => "%smid",
    }
}

fn addr(a: Addr) -> String {
    match a.offset {
        0 => format!("[{}]", o(a.base)),
        n => format!("[{}+{n}]", o(a.base)),
    }
}

fn list<T: Copy>(items: &[T], f: impl Fn(T) -> String) -> String {
    let mut out = String::new();
    for (i, item) in items.iter().enumerate() {
        let _ = write!(out, "{}{}", if i == 0 { "" } else { ", " }, f(*item));
    }
    out
}

fn text(kind: &Kind) -> String {
    match kind {
        Kind::Comment(_) | Kind::Loc { .. } | Kind::Label(_) => String::new(),
        Kind::Bra(l) => format!("bra L{}", l.0),
        Kind::Ret => "ret".into(),
        Kind::Nanosleep(ns) => format!("nanosleep.u32 {ns}"),
        Kind::Mov { .. } | Kind::Pack64 { .. } | Kind::Widen { .. } | Kind::Int { .. } | Kind::MadLo { .. } => {
            integer(kind)
        }
        Kind::Float { .. }
        | Kind::Fma { .. }
        | Kind::FloatFn { .. }
        | Kind::PackHalf { .. }
        | Kind::UnpackHalf { .. } => float(kind),
        Kind::SetpI { .. }
        | Kind::SetpU { .. }
        | Kind::SetpF { .. }
        | Kind::PredAnd { .. }
        | Kind::PredOr { .. }
        | Kind::SelpF { .. }
        | Kind::SelpI { .. } => predicate(kind),
        Kind::ShflBfly { .. } | Kind::ShflFirst { .. } | Kind::VoteAny { .. } | Kind::Elect { .. } => warp(kind),
        Kind::CtaSync
        | Kind::WarpSync
        | Kind::BarSync { .. }
        | Kind::BarArrive { .. }
        | Kind::SetMaxNReg { .. }
        | Kind::FenceProxyAsync
        | Kind::FenceGlobal => sync(kind),
        Kind::MbarInit { .. }
        | Kind::MbarInitFence
        | Kind::MbarArrive { .. }
        | Kind::MbarExpect { .. }
        | Kind::MbarTryWait { .. } => mbarrier(kind),
        Kind::PrefetchMap { .. }
        | Kind::TmaLoad { .. }
        | Kind::TmaStore { .. }
        | Kind::BulkCommit
        | Kind::BulkWaitRead { .. }
        | Kind::BulkWait { .. } => bulk(kind),
        Kind::WgmmaFence | Kind::WgmmaCommit | Kind::WgmmaWait { .. } | Kind::Wgmma { .. } => wgmma(kind),
        _ => memory(kind),
    }
}

fn integer(kind: &Kind) -> String {
    match kind {
        Kind::Mov { dst, src } => {
            let ty = match dst.class {
                Class::Pred => "pred",
                Class::B32 => "b32",
                Class::B64 => "b64",
                Class::F32 => "f32",
            };
            format!("mov.{ty} {}, {}", r(*dst), o(*src))
        }
        Kind::Pack64 { dst, lo, hi } => format!("mov.b64 {}, {{{}, {}}}", r(*dst), o(*lo), o(*hi)),
        Kind::Widen { dst, src } => format!("cvt.s64.s32 {}, {}", r(*dst), r(*src)),
        Kind::Int { op, wide, dst, a, b } => format!("{} {}, {}, {}", int_op(*op, *wide), r(*dst), o(*a), o(*b)),
        Kind::MadLo { dst, a, b, c } => format!("mad.lo.s32 {}, {}, {}, {}", r(*dst), o(*a), o(*b), o(*c)),
        _ => String::new(),
    }
}

fn int_op(op: IntOp, wide: bool) -> String {
    let bits = if wide { 64 } else { 32 };
    match op {
        IntOp::Add => format!("add.s{bits}"),
        IntOp::Sub => format!("sub.s{bits}"),
        IntOp::MulLo => format!("mul.lo.s{bits}"),
        IntOp::DivS => format!("div.s{bits}"),
        IntOp::RemS => format!("rem.s{bits}"),
        IntOp::MinS => format!("min.s{bits}"),
        IntOp::MaxS => format!("max.s{bits}"),
        IntOp::And => format!("and.b{bits}"),
        IntOp::Or => format!("or.b{bits}"),
        IntOp::Xor => format!("xor.b{bits}"),
        IntOp::Shl => format!("shl.b{bits}"),
        IntOp::ShrU => format!("shr.u{bits}"),
        IntOp::ShrS => format!("shr.s{bits}"),
    }
}

fn float(kind: &Kind) -> String {
    match kind {
        Kind::Float { op, dst, a, b } => {
            let name = match op {
                FloatOp::Add => "add.rn.ftz.f32",
                FloatOp::Sub => "sub.rn.ftz.f32",
                FloatOp::Mul => "mul.rn.ftz.f32",
                FloatOp::Div => "div.approx.ftz.f32",
                FloatOp::Max => "max.ftz.f32",
                FloatOp::Min => "min.ftz.f32",
            };
            format!("{name} {}, {}, {}", r(*dst), o(*a), o(*b))
        }
        Kind::Fma { dst, a, b, c } => format!("fma.rn.ftz.f32 {}, {}, {}, {}", r(*dst), o(*a), o(*b), o(*c)),
        Kind::FloatFn { f, dst, a } => {
            let name = match f {
                FloatFn::Ex2 => "ex2.approx.ftz.f32",
                FloatFn::Lg2 => "lg2.approx.ftz.f32",
                FloatFn::Rcp => "rcp.approx.ftz.f32",
                FloatFn::Neg => "neg.ftz.f32",
                FloatFn::Abs => "abs.ftz.f32",
                FloatFn::Sqrt => "sqrt.approx.ftz.f32",
                FloatFn::Tanh => "tanh.approx.f32",
            };
            format!("{name} {}, {}", r(*dst), o(*a))
        }
        Kind::PackHalf { half, dst, lo, hi } => {
            format!("cvt.rn.{}x2.f32 {}, {}, {}", half_name(*half), r(*dst), o(*hi), o(*lo))
        }
        Kind::UnpackHalf {
            half: Half::Bf16,
            lo,
            hi,
            src,
        } => {
            // A bf16 is the high half of an f32.
            format!(
                "{{ .reg .b32 t; shl.b32 t, {src}, 16; mov.b32 {}, t; and.b32 t, {src}, 0xffff0000; mov.b32 {}, t; }}",
                r(*lo),
                r(*hi),
                src = r(*src)
            )
        }
        Kind::UnpackHalf {
            half: Half::F16,
            lo,
            hi,
            src,
        } => {
            format!(
                "{{ .reg .b16 a, b; mov.b32 {{a, b}}, {}; cvt.f32.f16 {}, a; cvt.f32.f16 {}, b; }}",
                r(*src),
                r(*lo),
                r(*hi)
            )
        }
        _ => String::new(),
    }
}

fn half_name(half: Half) -> &'static str {
    match half {
        Half::F16 => "f16",
        Half::Bf16 => "bf16",
    }
}

fn cmp(c: Cmp) -> &'static str {
    match c {
        Cmp::Eq => "eq",
        Cmp::Ne => "ne",
        Cmp::Lt => "lt",
        Cmp::Le => "le",
        Cmp::Gt => "gt",
        Cmp::Ge => "ge",
        Cmp::Neu => "neu",
        Cmp::Gtu => "gtu",
    }
}

fn predicate(kind: &Kind) -> String {
    match kind {
        Kind::SetpI { cmp: c, dst, a, b } => format!("setp.{}.s32 {}, {}, {}", cmp(*c), r(*dst), o(*a), o(*b)),
        Kind::SetpU { cmp: c, dst, a, b } => format!("setp.{}.u32 {}, {}, {}", cmp(*c), r(*dst), o(*a), o(*b)),
        Kind::SetpF { cmp: c, dst, a, b } => format!("setp.{}.ftz.f32 {}, {}, {}", cmp(*c), r(*dst), o(*a), o(*b)),
        Kind::PredAnd { dst, a, b } => format!("and.pred {}, {}, {}", r(*dst), r(*a), r(*b)),
        Kind::PredOr { dst, a, b } => format!("or.pred {}, {}, {}", r(*dst), r(*a), r(*b)),
        Kind::SelpF { dst, a, b, pred } => format!("selp.f32 {}, {}, {}, {}", r(*dst), o(*a), o(*b), r(*pred)),
        Kind::SelpI { dst, a, b, pred } => format!("selp.b32 {}, {}, {}, {}", r(*dst), o(*a), o(*b), r(*pred)),
        _ => String::new(),
    }
}

fn warp(kind: &Kind) -> String {
    match kind {
        Kind::ShflBfly { dst, src, mask } => {
            format!("shfl.sync.bfly.b32 {}, {}, {mask}, 31, 0xffffffff", r(*dst), r(*src))
        }
        Kind::ShflFirst { dst, src } => format!("shfl.sync.idx.b32 {}, {}, 0, 31, 0xffffffff", r(*dst), r(*src)),
        Kind::VoteAny { dst, src } => format!("vote.sync.any.pred {}, {}, 0xffffffff", r(*dst), r(*src)),
        Kind::Elect { dst } => format!("elect.sync _|{}, 0xffffffff", r(*dst)),
        _ => String::new(),
    }
}

fn sync(kind: &Kind) -> String {
    match kind {
        Kind::CtaSync => "bar.sync 0".into(),
        Kind::WarpSync => "bar.warp.sync -1".into(),
        Kind::BarSync { id, threads } => format!("barrier.sync {}, {threads}", o(*id)),
        Kind::BarArrive { id, threads } => format!("barrier.arrive {}, {threads}", o(*id)),
        Kind::SetMaxNReg { increase, count } => format!(
            "setmaxnreg.{}.sync.aligned.u32 {count}",
            if *increase { "inc" } else { "dec" }
        ),
        Kind::FenceProxyAsync => "fence.proxy.async.shared::cta".into(),
        Kind::FenceGlobal => "fence.acq_rel.gpu".into(),
        _ => String::new(),
    }
}

fn mbarrier(kind: &Kind) -> String {
    match kind {
        Kind::MbarInit { at, count } => format!("mbarrier.init.shared::cta.b64 {}, {count}", addr(*at)),
        Kind::MbarInitFence => "fence.mbarrier_init.release.cluster".into(),
        Kind::MbarArrive { at } => format!("mbarrier.arrive.shared::cta.b64 _, {}", addr(*at)),
        Kind::MbarExpect { at, bytes } => {
            format!("mbarrier.arrive.expect_tx.shared::cta.b64 _, {}, {bytes}", addr(*at))
        }
        Kind::MbarTryWait { done, at, parity } => format!(
            "mbarrier.try_wait.parity.shared::cta.b64 {}, {}, {}",
            r(*done),
            addr(*at),
            o(*parity)
        ),
        _ => String::new(),
    }
}

fn bulk(kind: &Kind) -> String {
    match kind {
        Kind::PrefetchMap { map } => format!("prefetch.tensormap [{}]", r(*map)),
        Kind::TmaLoad {
            dst,
            map,
            coords,
            bar,
            cache,
        } => {
            let (hint, policy) = match cache {
                Some(p) => (".L2::cache_hint", format!(", {}", r(*p))),
                None => ("", String::new()),
            };
            let form = format!(
                "cp.async.bulk.tensor.{}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{hint}",
                coords.len()
            );
            format!(
                "{form} [{}], [{}, {{{}}}], [{}]{policy}",
                r(*dst),
                r(*map),
                list(coords, o),
                r(*bar)
            )
        }
        Kind::TmaStore { map, coords, src } => {
            format!(
                "cp.async.bulk.tensor.{}d.global.shared::cta.tile.bulk_group [{}, {{{}}}], [{}]",
                coords.len(),
                r(*map),
                list(coords, o),
                r(*src)
            )
        }
        Kind::BulkCommit => "cp.async.bulk.commit_group".into(),
        Kind::BulkWaitRead { pending } => format!("cp.async.bulk.wait_group.read {pending}"),
        Kind::BulkWait { pending } => format!("cp.async.bulk.wait_group {pending}"),
        _ => String::new(),
    }
}

fn wgmma(kind: &Kind) -> String {
    match kind {
        Kind::WgmmaFence => "wgmma.fence.sync.aligned".into(),
        Kind::WgmmaCommit => "wgmma.commit_group.sync.aligned".into(),
        Kind::WgmmaWait { pending } => format!("wgmma.wait_group.sync.aligned {pending}"),
        Kind::Wgmma {
            n,
            half,
            acc,
            a,
            b,
            b_transposed,
            accumulate,
        } => {
            let h = half_name(*half);
            let (lhs, trans) = match a {
                WgmmaA::Shared { descriptor, transposed } => (
                    r(*descriptor),
                    format!("{}, {}", i32::from(*transposed), i32::from(*b_transposed)),
                ),
                WgmmaA::Regs(regs) => (format!("{{{}}}", list(regs, r)), i32::from(*b_transposed).to_string()),
            };
            let scale = o(*accumulate);
            let form = format!("wgmma.mma_async.sync.aligned.m64n{n}k16.f32.{h}.{h}");
            format!(
                "{{ .reg .pred z; setp.ne.b32 z, {scale}, 0; {form} {{{}}}, {lhs}, {}, z, 1, 1, {trans}; }}",
                list(acc, r),
                r(*b)
            )
        }
        _ => String::new(),
    }
}

fn cp_async(kind: &Kind) -> String {
    match kind {
        Kind::CpAsync16 {
            dst,
            src,
            bytes,
            l2_prefetch,
        } => {
            let prefetch = if *l2_prefetch == 0 {
                String::new()
            } else {
                format!(".L2::{l2_prefetch}B")
            };
            let size = bytes.map_or_else(String::new, |b| format!(", {}", o(b)));
            format!(
                "cp.async.cg.shared.global{prefetch} {}, {}, 16{size}",
                addr(*dst),
                addr(*src)
            )
        }
        Kind::CpAsyncCommit => "cp.async.commit_group".into(),
        Kind::CpAsyncWait { pending } => format!("cp.async.wait_group {pending}"),
        _ => String::new(),
    }
}

fn memory(kind: &Kind) -> String {
    match kind {
        Kind::StMatrix { at, regs } => format!(
            "stmatrix.sync.aligned.m8n8.x4.shared.b16 {}, {{{}}}",
            addr(*at),
            list(regs, r)
        ),
        Kind::LdMatrix { dst, at } => format!(
            "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{}}}, {}",
            list(dst, r),
            addr(*at)
        ),
        Kind::MmaSync { half, acc, a, b } => {
            let (h, c) = (half_name(*half), list(acc, r));
            format!(
                "mma.sync.aligned.m16n8k16.row.col.f32.{h}.{h}.f32 {{{c}}}, {{{}}}, {{{}}}, {{{c}}}",
                list(a, r),
                list(b, r)
            )
        }
        Kind::LdMatrixTrans { dst, at } => format!(
            "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {{{}}}, {}",
            list(dst, r),
            addr(*at)
        ),
        Kind::CpAsync16 { .. } | Kind::CpAsyncCommit | Kind::CpAsyncWait { .. } => cp_async(kind),
        Kind::LdShared32 { dst, at } => format!("ld.shared.b32 {}, {}", r(*dst), addr(*at)),
        Kind::StShared32 { at, src } => format!("st.shared.b32 {}, {}", addr(*at), r(*src)),
        Kind::LdGlobalF32 { dst, at } => format!("ld.global.f32 {}, {}", r(*dst), addr(*at)),
        Kind::StGlobalF32 { at, src } => format!("st.global.f32 {}, {}", addr(*at), o(*src)),
        Kind::StGlobal16 { at, src } => format!("st.global.b16 {}, {}", addr(*at), r(*src)),
        Kind::StGlobal32 { at, src } => format!("st.global.u32 {}, {}", addr(*at), o(*src)),
        Kind::StGlobal64 { at, src } => format!("st.global.u64 {}, {}", addr(*at), o(*src)),
        Kind::AtomAdd { dst, at, value } => format!("atom.global.add.u32 {}, {}, {}", r(*dst), addr(*at), o(*value)),
        Kind::LdParam { dst, param } => {
            let ty = match dst.class {
                Class::B64 => "u64",
                Class::F32 => "f32",
                _ => "s32",
            };
            format!("ld.param.{ty} {}, [{param}]", r(*dst))
        }
        Kind::ParamAddr { dst, param } => format!("mov.b64 {d}, {param}; cvta.param.u64 {d}, {d}", d = r(*dst)),
        Kind::ToGlobal { dst, src } => format!("cvta.to.global.u64 {}, {}", r(*dst), r(*src)),
        _ => String::new(),
    }
}

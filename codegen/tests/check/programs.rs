//! Programs that must pass.

use std::sync::OnceLock;

use dsl::schedule::{Direction, Handoff, Persistence, Placement, Release, Schedule, Split};
use dsl::{DType, Kernel};
use kernels::{attention, gemm, row_softmax};
use warpwright_codegen::role::RoleProgram;
use warpwright_codegen::target::SM_90A;
use warpwright_codegen::{lower, plan, rewrite};

fn program(kernel: &Kernel, schedule: &Schedule) -> RoleProgram {
    let scheduled = plan::apply(kernel, schedule, &SM_90A).unwrap_or_else(|e| panic!("{e}"));
    lower::lower(&rewrite::run(scheduled), &SM_90A).unwrap_or_else(|e| panic!("{e}"))
}

fn forward(head_dim: u32, causal: bool) -> Kernel {
    attention::forward(attention::Spec {
        dtype: DType::Bf16,
        head_dim,
        causal,
    })
    .unwrap_or_else(|e| panic!("{e}"))
}

fn tiles(q: u32, kv: u32) -> Schedule {
    Schedule::default().tile("q_tile", q).tile("kv_tile", kv)
}

fn dynamic(s: Schedule) -> Schedule {
    s.persistence(Persistence::Dynamic)
        .inner("q_block")
        .descending("q_block")
        .section(8)
}

fn folds() -> Vec<(&'static str, RoleProgram)> {
    let full = |s: Schedule| program(&forward(128, false), &s);
    let causal = |s: Schedule| program(&forward(128, true), &s);
    let over = |s: Schedule| s.store("o", |o| o.over("q"));
    vec![
        ("attention 128 full", full(over(tiles(128, 128)))),
        ("attention 128 causal", causal(over(tiles(128, 128)))),
        ("attention 128 own", full(tiles(128, 96).store("o", |s| s.own()))),
        (
            "attention 128 exact",
            full(over(tiles(128, 128)).fold("kv", |f| f.exact())),
        ),
        (
            "attention 128 fixed",
            full(over(tiles(128, 128)).fold("kv", |f| f.fixed())),
        ),
        (
            "attention 128 fixed causal",
            causal(dynamic(over(tiles(128, 128))).fold("kv", |f| f.fixed())),
        ),
        (
            "attention 128 narrow",
            causal(dynamic(over(tiles(128, 128))).fold("kv", |f| f.fixed().narrow())),
        ),
        (
            "attention 128 ping-pong",
            causal(over(tiles(128, 128)).fold("kv", |f| f.handoff(Handoff::PingPong))),
        ),
        (
            "attention 128 ping-pong 3",
            full(over(tiles(192, 64)).fold("kv", |f| f.handoff(Handoff::PingPong))),
        ),
        (
            "attention 128 not pipelined",
            causal(over(tiles(128, 128)).fold("kv", |f| f.stage("o", 0))),
        ),
        (
            "attention 128 unsplit",
            causal(over(tiles(128, 128)).fold("kv", |f| f.split(Split::Never))),
        ),
        (
            "attention 128 ascending",
            causal(over(tiles(128, 128)).fold("kv", |f| f.direction(Direction::Ascending))),
        ),
        (
            "attention 128 one ring",
            full(
                over(tiles(128, 128))
                    .load("k", |l| l.ring("kv").stages(4))
                    .load("v", |l| l.ring("kv").stages(4)),
            ),
        ),
    ]
}

fn resources() -> Vec<(&'static str, RoleProgram)> {
    let full = |s: Schedule| program(&forward(128, false), &s);
    let causal = |s: Schedule| program(&forward(128, true), &s);
    let over = |s: Schedule| s.store("o", |o| o.over("q"));
    vec![
        (
            "attention 128 late",
            full(
                over(tiles(128, 128))
                    .load("k", |l| l.release(Release::Late))
                    .load("v", |l| l.release(Release::Late)),
            ),
        ),
        (
            "attention 128 not persistent",
            causal(over(tiles(128, 128)).persistence(Persistence::None)),
        ),
        (
            "attention 128 unrolled",
            full(over(tiles(128, 128)).fold("kv", |f| f.unroll(2).exp2_polynomial_every(8))),
        ),
        (
            "attention 128 two producers",
            full({
                let mut s = over(tiles(128, 128));
                s.roles.producer_warps = Some(2);
                s
            }),
        ),
    ]
}

fn sizes() -> Vec<(&'static str, RoleProgram)> {
    let full = |s: Schedule| program(&forward(128, false), &s);
    let causal = |s: Schedule| program(&forward(128, true), &s);
    let over = |s: Schedule| s.store("o", |o| o.over("q"));
    vec![
        ("attention 192x80 dynamic", causal(dynamic(over(tiles(192, 80))))),
        ("attention 192x80", full(over(tiles(192, 80)))),
        (
            "attention 64 full",
            program(&forward(64, false), &over(tiles(192, 128))),
        ),
        (
            "attention 64 causal",
            program(&forward(64, true), &dynamic(over(tiles(192, 128)))),
        ),
        (
            "attention 64 over v",
            program(&forward(64, false), &tiles(128, 192).store("o", |o| o.over("v"))),
        ),
        (
            "attention 64 one consumer",
            program(&forward(64, true), &over(tiles(64, 64))),
        ),
        (
            "attention 64 p in shared",
            program(
                &forward(64, false),
                &over(tiles(128, 128)).operand("p16", Placement::Shared),
            ),
        ),
        (
            "attention 64 q in registers",
            program(
                &forward(64, false),
                &tiles(128, 128)
                    .operand("q", Placement::Registers)
                    .store("o", |s| s.own()),
            ),
        ),
        (
            "attention 256 full",
            program(&forward(256, false), &over(tiles(128, 64))),
        ),
        (
            "attention 256 causal",
            program(&forward(256, true), &over(tiles(128, 80))),
        ),
    ]
}

fn products() -> Vec<(&'static str, RoleProgram)> {
    let of = |a_transposed: bool, b_transposed: bool, s: &Schedule| {
        let kernel = gemm::gemm(gemm::Spec {
            dtype: DType::F16,
            a_transposed,
            b_transposed,
        })
        .unwrap_or_else(|e| panic!("{e}"));
        program(&kernel, s)
    };
    let square = Schedule::default()
        .tile("m_tile", 128)
        .tile("n_tile", 128)
        .tile("k_tile", 64);
    let wide = Schedule::default()
        .tile("m_tile", 256)
        .tile("n_tile", 128)
        .tile("k_tile", 64)
        .consumers(2)
        .load("a", |l| l.stages(3))
        .load("b", |l| l.stages(3));
    vec![
        ("gemm nn", of(false, false, &square)),
        ("gemm nt", of(false, true, &square)),
        ("gemm tn", of(true, false, &square)),
        ("gemm tt", of(true, true, &square)),
        ("gemm nn wide", of(false, false, &wide)),
        ("gemm tn wide", of(true, false, &wide)),
    ]
}

fn rows() -> Vec<(&'static str, RoleProgram)> {
    let kernel = row_softmax::row_softmax(DType::Bf16).unwrap_or_else(|e| panic!("{e}"));
    let s = Schedule::default().tile("m_tile", 128).tile("n_tile", 128);
    vec![
        ("row softmax", program(&kernel, &s)),
        (
            "row softmax 64",
            program(&kernel, &s.tile("m_tile", 64).persistence(Persistence::None)),
        ),
    ]
}

/// One slot for two tiles, under turns: a warpgroup that waits for its turn holds the slot that the other needs.
pub fn one_slot_under_turns() -> Option<RoleProgram> {
    let schedule = tiles(128, 64)
        .load("k", |l| l.ring("kv").stages(1))
        .load("v", |l| l.ring("kv").stages(1))
        .fold("kv", |f| {
            f.handoff(Handoff::PingPong)
                .then("issue s")
                .then("wait s")
                .then("issue o")
        });
    let scheduled = plan::apply(&forward(64, false), &schedule, &SM_90A).ok()?;
    lower::lower(&rewrite::run(scheduled), &SM_90A).ok()
}

/// Every program with its name.
pub fn all() -> &'static [(&'static str, RoleProgram)] {
    static ALL: OnceLock<Vec<(&str, RoleProgram)>> = OnceLock::new();
    ALL.get_or_init(|| {
        let parts = [folds(), resources(), sizes(), products(), rows()];
        parts.into_iter().flatten().collect()
    })
}

/// One program.
pub fn named(name: &str) -> RoleProgram {
    all()
        .iter()
        .find(|p| p.0 == name)
        .unwrap_or_else(|| panic!("no program `{name}`"))
        .1
        .clone()
}

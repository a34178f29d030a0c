//! What this target refuses, and with which reason.

use dsl::schedule::{Handoff, Persistence, Release, Schedule};
use dsl::{DType, Kernel};
use warpwright_codegen::{CompileError, Refusal, compile, target};

use crate::{kernels_of_ours, product, schedule};

fn refused(kernel: &Kernel, s: &Schedule) -> Vec<Refusal> {
    match compile(kernel, s, &target::SM_80) {
        Err(CompileError::Refused(reasons)) => reasons,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("not refused: {s:?}"),
    }
}

fn gemm() -> Kernel {
    product(DType::Bf16, false, false)
}

fn base() -> Schedule {
    schedule([128, 128, 64], 1, 3)
}

/// The one refusal speaks of `key` and states `fact`.
fn one(kernel: &Kernel, s: &Schedule, key: &str, fact: &str) {
    let reasons = refused(kernel, s);
    let found: Vec<String> = reasons.iter().map(ToString::to_string).collect();
    assert!(
        reasons.len() == 1 && reasons[0].key == key && reasons[0].fact.contains(fact),
        "{key}, {fact}: {found:?}"
    );
}

/// One refusal, whatever the schedule says: no schedule makes a product of another kernel.
#[test]
fn kernels_that_are_no_products_are_refused_once() {
    let spec = kernels::attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal: true,
    };
    let attention = kernels::attention::forward(spec).unwrap();
    let softmax = kernels::row_softmax::row_softmax(DType::Bf16).unwrap();
    let sums = kernels_of_ours::row_sums(DType::F16);
    for (kernel, has) in [
        (&attention, "sums of fold `kv` rescaled between its dots"),
        (&attention, "a tile loaded outside of folds"),
        (&softmax, "a store in fold `write`"),
        (&sums, "a sum of fold `over` that is not of dots"),
    ] {
        let of_another_target = Schedule::default().registers(24, 240).producer_warps(1);
        for s in [Schedule::default(), of_another_target] {
            one(kernel, &s, "target", has);
            let reason = &refused(kernel, &s)[0];
            assert!(
                reason.asked == format!("kernel `{}` for sm_80", kernel.name),
                "{reason}"
            );
            assert!(reason.allowed.contains("sm_90a"), "{reason}");
            assert!(reason.site.is_some(), "{reason}");
        }
    }
}

#[test]
fn more_shared_memory_than_there_is() {
    one(
        &gemm(),
        &schedule([128, 128, 64], 1, 6),
        "tiles",
        "sm_80 may take 166912 B",
    );
    // The same fits the larger target's table.
    const { assert!(6 * 2 * 128 * 64 * 2 <= target::SM_90A.shared_bytes) };
}

#[test]
fn more_registers_than_there_are() {
    one(
        &gemm(),
        &schedule([128, 256, 64], 1, 2),
        "tiles",
        "a thread has 255 registers",
    );
    one(
        &gemm(),
        &schedule([192, 192, 64], 3, 2),
        "tiles",
        "a thread has 168 registers",
    );
}

#[test]
fn tile_sizes_that_do_not_fit_the_swizzle_or_the_fragments() {
    one(&gemm(), &schedule([128, 128, 32], 1, 2), "tiles.k_tile", "64 columns");
    one(&gemm(), &schedule([128, 96, 64], 1, 2), "tiles.n_tile", "64 columns");
    one(
        &product(DType::Bf16, false, true),
        &schedule([128, 24, 64], 1, 2),
        "tiles.n_tile",
        "16 by 16",
    );
    one(
        &gemm(),
        &schedule([96, 128, 64], 1, 2),
        "tiles.m_tile",
        "row tile is 96",
    );
}

#[test]
fn rings_that_cannot_turn() {
    one(
        &gemm(),
        &schedule([128, 128, 64], 1, 1),
        "loads.a.stages",
        "filled while another is read",
    );
    one(
        &gemm(),
        &base().load("b", |l| l.stages(2)),
        "loads.b.stages",
        "`a` has 3",
    );
}

#[test]
fn keys_of_other_targets() {
    let cases: [(Schedule, &str, &str); 9] = [
        (base().persistence(Persistence::Static), "grid.persistence", "one block"),
        (base().registers(24, 240), "roles.producer_registers", "setmaxnreg"),
        (base().producer_warps(1), "roles.producer_warps", "no producer"),
        (base().load("a", |l| l.ring("shared")), "loads.a.ring", "own slots"),
        (
            base().load("a", |l| l.release(Release::Late)),
            "loads.a.release",
            "one barrier",
        ),
        (base().store("c", |s| s.own()), "stores.c.buffer", "without a buffer"),
        (
            base().fold("k", |f| f.stage("ab", 1)),
            "folds.k.stages.ab",
            "synchronous",
        ),
        (
            base().fold("k", |f| f.handoff(Handoff::PingPong)),
            "folds.k.handoff",
            "hardware",
        ),
        (base().fold("k", |f| f.unroll(2)), "folds.k.unroll", "run time"),
    ];
    for (s, key, fact) in cases {
        let reasons = refused(&gemm(), &s);
        assert!(
            reasons.iter().any(|r| r.key == key && r.fact.contains(fact)),
            "{key}: {reasons:?}"
        );
    }
}

#[test]
fn every_reason_at_once() {
    let s = base()
        .persistence(Persistence::Dynamic)
        .producer_warps(1)
        .fold("k", |f| f.unroll(4));
    assert_eq!(refused(&gemm(), &s).len(), 3);
}

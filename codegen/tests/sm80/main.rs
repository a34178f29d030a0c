//! The second target: what it emits, what it computes on the simulated device, what it refuses.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a helper that fails is a test that fails"
)]

mod device;
mod kernels_of_ours;
mod refusals;
mod results;

use dsl::schedule::Schedule;
use dsl::{DType, Kernel};
use tools::AssembleRequest;
use warpwright_codegen::{Compiled, compile, target};

/// The product with `a` and `b` stored as they are or transposed.
pub fn product(dtype: DType, a_transposed: bool, b_transposed: bool) -> Kernel {
    kernels::gemm::gemm(kernels::gemm::Spec {
        dtype,
        a_transposed,
        b_transposed,
    })
    .unwrap()
}

/// A schedule of the product.
pub fn schedule(tiles: [u32; 3], consumers: u32, stages: u32) -> Schedule {
    let [m, n, k] = tiles;
    let s = Schedule::for_kernel("gemm")
        .tile("m_tile", m)
        .tile("n_tile", n)
        .tile("k_tile", k)
        .consumers(consumers);
    s.load("a", |l| l.stages(stages)).load("b", |l| l.stages(stages))
}

pub fn compiled(kernel: &Kernel, schedule: &Schedule) -> Compiled {
    compile(kernel, schedule, &target::SM_80).unwrap_or_else(|e| panic!("{e}"))
}

/// Every way to store the operands, in both types.
pub fn all_products() -> impl Iterator<Item = (DType, bool, bool)> {
    let layouts = [(false, false), (false, true), (true, false), (true, true)];
    [DType::Bf16, DType::F16]
        .into_iter()
        .flat_map(move |d| layouts.map(|(a, b)| (d, a, b)))
}

#[test]
fn the_text_holds_this_targets_instructions_only() {
    for (dtype, a, b) in all_products() {
        let text = compiled(&product(dtype, a, b), &schedule([128, 128, 64], 1, 3))
            .ptx
            .to_string();
        for wanted in [
            ".target sm_80",
            "mma.sync.aligned.m16n8k16",
            "cp.async.cg.shared.global",
            "ldmatrix.sync.aligned.m8n8.x4",
            "cp.async.wait_group 1",
        ] {
            assert!(text.contains(wanted), "{dtype} {a} {b}: no {wanted}");
        }
        for foreign in [
            "wgmma",
            "cp.async.bulk",
            "mbarrier",
            "setmaxnreg",
            "tensormap",
            "stmatrix",
            "elect.sync",
            "fence.proxy",
        ] {
            assert!(!text.contains(foreign), "{dtype} {a} {b}: {foreign}");
        }
        assert_eq!(
            text.contains(".trans."),
            a || !b,
            "stored with rows along the contraction, an operand needs no transposition"
        );
    }
}

#[test]
fn an_empty_schedule_means_one_that_fits() {
    for (dtype, a, b) in all_products() {
        let c = compiled(&product(dtype, a, b), &Schedule::default());
        assert!(c.launch.shared_bytes <= target::SM_80.shared_bytes);
    }
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let one = || compiled(&product(DType::Bf16, true, false), &schedule([128, 128, 64], 2, 3));
    assert_eq!(one().ptx, one().ptx);
    assert_eq!(one().launch, one().launch);
}

#[test]
fn launch_facts_name_pointers_strides_and_sizes_only() {
    let facts = compiled(&product(DType::Bf16, false, false), &schedule([128, 192, 64], 2, 3)).launch;
    let json = serde_json::to_value(&facts).unwrap();
    let kinds: std::collections::BTreeSet<&str> = json["params"]
        .as_array()
        .unwrap()
        .iter()
        .map(|p| p["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["pointer", "size", "stride"]);
    assert_eq!(
        (facts.block, facts.grid.kind.as_str(), facts.target.as_str()),
        ([256, 1, 1], "blocks", "sm_80")
    );
    assert_eq!(facts.grid.blocks, ["ceil_div(m, 128)", "ceil_div(n, 192)"]);
    assert_eq!(facts.shared_bytes, 3 * (128 * 64 + 64 * 192) * 2);
}

#[test]
fn assembles_without_spills_for_its_own_target_and_for_sm_90() {
    let Some(tools) =
        tools::testing::tools_or_skip("assembles_without_spills_for_its_own_target_and_for_sm_90").unwrap()
    else {
        return;
    };
    let schedules = [
        schedule([128, 128, 64], 1, 3),
        schedule([256, 128, 64], 2, 3),
        schedule([64, 256, 64], 1, 2),
    ];
    // The most sums per thread that are accepted, alone and with three warpgroups; such widths need b stored [n, k].
    let largest = [schedule([128, 160, 64], 1, 2), schedule([192, 160, 64], 3, 2)];
    for (dtype, a, b) in all_products() {
        for s in schedules.iter().chain(largest.iter().filter(|_| b)) {
            let text = compiled(&product(dtype, a, b), s).ptx.to_string();
            for arch in ["sm_80", "sm_90"] {
                let out = tools
                    .assemble(&AssembleRequest::new(&text, arch))
                    .and_then(tools::Assembled::accept);
                let out = out.unwrap_or_else(|e| panic!("{dtype} {a} {b}, {:?}, {arch}: {e}", s.tiles));
                assert!(
                    !out.resources.spills(),
                    "{dtype} {a} {b}, {:?}, {arch}: {:?}",
                    s.tiles,
                    out.resources
                );
            }
        }
    }
}

//! One test per finding of hostile schedules.

use dsl::index::Ix;
use dsl::ir::span;
use dsl::trace::cols;
use dsl::{DType, Trace};
use kernels::{attention, gemm, row_softmax};

use crate::harness::{Case, schedule};

#[test]
fn schedules_that_gave_wrong_results_are_refused() {
    let spec = attention::Spec {
        dtype: DType::F16,
        head_dim: 64,
        causal: true,
    };
    let kernel = attention::forward(spec).unwrap();
    for (text, key) in [
        ("[folds.kv.stages]\ns = 1\n", "folds.kv.split"),
        ("[folds.kv]\nstages = { o = 0 }\nnarrow = true\n", "folds.kv.narrow"),
        // Trips of the two forms of a fixed reference alternate: what crosses between them must be the same.
        (
            "[folds.kv]\nrescale = \"fixed\"\nsplit = \"never\"\nstages = { p = 1 }\n",
            "folds.kv",
        ),
        (
            "[folds.kv]\nrescale = \"fixed\"\nstages = { o = 1, \"acc.rescale\" = 1 }\n",
            "folds.kv.stages",
        ),
        // Slots come back in order: one that is kept blocks those that a loop takes behind it.
        (
            "loads = { q = { ring = \"x\", stages = 4 }, k = { ring = \"x\", stages = 4 }, v = { ring = \"x\", stages = 4 } }\n",
            "loads.q.ring",
        ),
        ("[grid]\nsection = 0\n", "grid.section"),
        (
            "[grid]\ndescending = [\"head\", \"q_block\", \"head\"]\n",
            "grid.descending",
        ),
        ("[grid]\nsection = 4294967295\n", "grid.section"),
        ("[folds.kv]\nlazy_threshold = 18.0\n", "folds.kv.lazy_threshold"),
        (
            "[roles]\nproducer_registers = 256\nconsumers = 1\n",
            "roles.consumer_registers",
        ),
    ] {
        let text = format!("tiles = {{ q_tile = 64, kv_tile = 64 }}\n{text}");
        let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
        assert!(refused.as_ref().is_some_and(|m| m.contains(key)), "{text}: {refused:?}");
    }
}

#[test]
fn a_store_at_stage_one_writes_where_its_trip_says() {
    let kernel = row_softmax::row_softmax(DType::Bf16).unwrap();
    let schedule = schedule("tiles = { m_tile = 64, n_tile = 64 }\n[folds.write.stages]\nx_write = 1\n");
    let case = Case::new(&kernel, &schedule).runtime("m", 70).runtime("n", 200);
    let case = case.input("x", &[70, 200], 3.0).output("y", &[70, 200]);
    case.check("late store", 4e-3);
}

/// Consumers read whole columns of a transposed left operand: all of them are done before one writes over it.
#[test]
fn a_tile_staged_over_a_transposed_left_operand_waits_for_its_readers() {
    let spec = gemm::Spec {
        dtype: DType::Bf16,
        a_transposed: true,
        b_transposed: false,
    };
    let kernel = gemm::gemm(spec).unwrap();
    let text =
        "tiles = { m_tile = 128, n_tile = 128, k_tile = 128 }\nfolds.k.stages = { ab = 1 }\nstores.c.buffer = \"a\"\n";
    let case = Case::new(&kernel, &schedule(text));
    let case = case.runtime("m", 200).runtime("n", 264).runtime("k", 200);
    let case = case.input("a", &[200, 200], 1.0).input("b", &[200, 264], 1.0);
    case.output("c", &[200, 264])
        .check("staged over a transposed operand", 4e-3);
}

#[test]
fn a_section_wider_than_the_grid_is_the_grid() {
    let spec = gemm::Spec {
        dtype: DType::Bf16,
        a_transposed: false,
        b_transposed: false,
    };
    let kernel = gemm::gemm(spec).unwrap();
    let schedule = schedule("tiles = { m_tile = 64, n_tile = 64, k_tile = 64 }\n[grid]\nsection = 2147483647\n");
    let case = Case::new(&kernel, &schedule);
    let case = case.runtime("m", 200).runtime("n", 264).runtime("k", 200);
    let case = case.input("a", &[200, 200], 1.0).input("b", &[200, 264], 1.0);
    case.output("c", &[200, 264]).check("wide section", 4e-3);
}

/// Attention with logits of about ±60 binary units, so that maxima rise by 20 to 60 of them from block to block.
fn steep(text: &str, value_size: f64) -> Case {
    let spec = attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal: false,
    };
    let kernel = attention::forward(spec).unwrap();
    let case = Case::new(&kernel, &schedule(text));
    let sizes = [
        ("batch", 1),
        ("q_len", 64),
        ("kv_len", 210),
        ("heads", 2),
        ("kv_heads", 1),
        ("group", 2),
    ];
    let case = sizes.iter().fold(case, |c, (n, v)| c.runtime(n, *v));
    let case = case.scalar("scale_log2", 0.18).input("q", &[1, 64, 2, 64], 40.0);
    let case = case
        .input("k", &[1, 210, 1, 64], 1.0)
        .input("v", &[1, 210, 1, 64], value_size);
    case.output("o", &[1, 64, 2, 64]).output("lse", &[1, 2, 64])
}

/// Weights of 2^60 would take sums of such values past the end of f32, and a later factor of zero makes that no number.
#[test]
fn large_values_outlive_a_reference_that_lags() {
    for policy in ["rescale = \"fixed\"", "rescale = \"lazy\"\nlazy_threshold = 16"] {
        let text = format!("tiles = {{ q_tile = 64, kv_tile = 64 }}\n[folds.kv]\n{policy}\n");
        steep(&text, 2.0_f64.powi(100)).check(policy, 6e-3);
    }
}

#[test]
fn knobs_that_nothing_listens_to_are_refused() {
    let spec = gemm::Spec {
        dtype: DType::Bf16,
        a_transposed: false,
        b_transposed: false,
    };
    let gemm = gemm::gemm(spec).unwrap();
    let spec = attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal: false,
    };
    let attention = attention::forward(spec).unwrap();
    for (kernel, text, key) in [
        (&gemm, "folds.k.rescale = \"fixed\"", "folds.k.rescale"),
        (&gemm, "folds.k.lazy_threshold = 4.0", "folds.k.lazy_threshold"),
        (
            &gemm,
            "folds.k.exp2_polynomial_every = 3",
            "folds.k.exp2_polynomial_every",
        ),
        (
            &attention,
            "folds.kv = { rescale = \"exact\", lazy_threshold = 4.0 }",
            "folds.kv.lazy_threshold",
        ),
        (&attention, "folds.kv.lazy_threshold = 17.0", "folds.kv.lazy_threshold"),
        (&attention, "stores.lse.buffer = \"q\"", "stores.lse.buffer"),
        (
            &attention,
            "folds.kv = { rescale = \"fixed\", split = \"never\" }",
            "every trip applies masks here",
        ),
    ] {
        let refused = Case::legal(kernel, &schedule(text)).err().map(|e| e.to_string());
        assert!(refused.as_ref().is_some_and(|m| m.contains(key)), "{text}: {refused:?}");
    }
}

#[test]
fn a_polynomial_weight_past_the_range_of_f32_is_repaired() {
    let text = "tiles = { q_tile = 64, kv_tile = 64 }\n[folds.kv]\nrescale = \"fixed\"\nexp2_polynomial_every = 2\n";
    steep(text, 1.0).check("polynomial past the range", 6e-3);
}

/// The events that refusals offer are events: the steps of carries too.
#[test]
fn steps_of_carries_are_events_of_an_order() {
    for (policy, orders) in [
        (
            "lazy",
            &[
                "\"reference.next\"",
                "\"issue s\", \"l.sum\", \"acc.rescale\", \"issue o\"",
            ][..],
        ),
        ("fixed", &["\"l.sum\"", "\"p16\", \"l.sum\", \"issue o\""][..]),
    ] {
        for order in orders {
            let fold = format!("[folds.kv]\nrescale = \"{policy}\"\norder = [{order}]\n");
            steep(&format!("tiles = {{ q_tile = 64, kv_tile = 64 }}\n{fold}"), 1.0).check(order, 6e-3);
        }
    }
}

#[test]
fn an_event_that_a_fold_has_not_is_refused_with_those_it_has() {
    let spec = attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal: false,
    };
    let kernel = attention::forward(spec).unwrap();
    for event in ["acc.sum", "repair", "k"] {
        let text = format!("[folds.kv]\nrescale = \"fixed\"\norder = [\"{event}\"]\n");
        let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
        let offered = refused.as_ref().and_then(|m| m.rsplit_once("allowed: "));
        let offered: Vec<&str> = offered.map_or(vec![], |(_, names)| names.trim().split(", ").collect());
        assert!(offered.contains(&"l.sum") && !offered.contains(&event), "{refused:?}");
    }
}

/// Refusals name the key that was given, and say what is true.
#[test]
fn rows_per_consumer_are_refused_by_their_own_key() {
    let spec = attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal: false,
    };
    let kernel = attention::forward(spec).unwrap();
    for (tile, roles, wanted) in [
        (
            64,
            "rows_per_consumer = 128",
            "asked for 128; the row tile is 64, and 1, 2 or 3 consumer(s) share it",
        ),
        (
            256,
            "rows_per_consumer = 64",
            "asked for 64; the row tile is 256, and 1, 2 or 3 consumer(s) share it",
        ),
        (
            192,
            "consumers = 2\nrows_per_consumer = 64",
            "asked for 64; the row tile is 192, and 2 consumer(s) share it",
        ),
    ] {
        let text = format!("[tiles]\nq_tile = {tile}\nkv_tile = 64\n[roles]\n{roles}\n");
        let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
        let named = |m: &String| m.contains("roles.rows_per_consumer") && m.contains(wanted);
        assert!(refused.as_ref().is_some_and(named), "{refused:?}");
    }
}

/// Softmax-weighted rows of `v`, whose scores meet what is loaded on every trip: a bias by column.
fn biased() -> Result<dsl::Kernel, dsl::TraceErrors> {
    let kernel = dsl::Trace::new("biased");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), 64.into()]);
    let v = kernel.input("v", DType::Bf16, [n.clone(), 64.into()]);
    let bias = kernel.input("bias", DType::F32, [n.clone()]);
    let y = kernel.output("y", DType::Bf16, [m.clone(), 64.into()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let sums = kernel.rescaled_fold("f", n.clone().ceil_div(n_tile).max(1), |fold, j| {
        let col = j * n_tile;
        let [k, v] = ["k", "v"].map(|name| fold.load(&v, [span(&col, n_tile), span(0, 64)]).named(name));
        let scores = left.dot(k.t()).named("s") + fold.load_col(&bias, [span(&col, n_tile)]);
        let p = fold.rebase(&scores.mask(&cols(&col).lt(&n), f32::NEG_INFINITY));
        fold.accumulate("l", &p.row_sum());
        fold.accumulate("acc", &p.cast(DType::Bf16).dot(&v).named("o"));
    });
    let mean = sums.total("acc") / sums.total("l");
    kernel.store(&y, [span(row, m_tile), span(0, 64)], &mean.cast(DType::Bf16));
    kernel.finish()
}

/// A repair computes the scores again, and takes what was loaded for them as it is.
#[test]
fn a_repair_loads_nothing_again() {
    let kernel = biased().unwrap();
    for extra in ["", "stages = { o = 1 }\n", "direction = \"ascending\"\n"] {
        let text = format!("tiles = {{ m_tile = 64, n_tile = 64 }}\n[folds.f]\nrescale = \"fixed\"\n{extra}");
        let case = Case::new(&kernel, &schedule(&text)).runtime("m", 72).runtime("n", 330);
        let case = case.input("x", &[72, 64], 3.0).input("v", &[330, 64], 1.0);
        case.input("bias", &[330], 30.0)
            .output("y", &[72, 64])
            .check(extra, 6e-3);
    }
}

#[test]
fn a_tile_stored_from_below_zero_is_refused_with_its_line() {
    let kernel = |early: i64| {
        let kernel = Trace::new("early");
        let n = kernel.runtime("n");
        let tile = kernel.tile("n_tile");
        let x = kernel.input("x", DType::Bf16, [n.clone(), 64.into()]);
        let y = kernel.output("y", DType::Bf16, [n.clone(), 64.into()]);
        let at = kernel.grid("block", n.clone().ceil_div(tile)) * tile - early;
        let at = if early == 0 { at.max(0) } else { at };
        let sums = kernel.output("sums", DType::F32, [n.clone()]);
        let done = kernel.fold("once", Ix::from(1), |fold, _| {
            let values = fold.load(&x, [span(&at, tile), span(0, 64)]).cast(DType::F32);
            fold.accumulate("sum", &values.row_sum());
            fold.store(&y, [span(&at, tile), span(0, 64)], &values.cast(DType::Bf16));
        });
        kernel.store(&sums, [span(&at, tile)], &done.total("sum"));
        kernel.finish().unwrap()
    };
    let schedule = schedule("tiles = { n_tile = 64 }\n");
    let refused = Case::legal(&kernel(5), &schedule).err().map(|e| e.to_string()).unwrap();
    for part in [
        "`y` stored from an index of dimension 0",
        "may be below zero",
        "`.max(0)`",
        "regressions.rs",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    let case = Case::new(&kernel(0), &schedule).runtime("n", 150);
    case.input("x", &[150, 64], 1.0)
        .output("y", &[150, 64])
        .output("sums", &[150])
        .check("from zero", 4e-3);
}

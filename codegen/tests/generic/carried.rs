//! What a fold carries limits its schedule: the order of the trips, and how far weights may grow before an f16 ends.

use dsl::ir::span;
use dsl::schedule::Direction;
use dsl::trace::{cols, rows};
use dsl::{DType, FoldScope, Kernel, Tile, Trace, TraceErrors};

use crate::harness::{Case, schedule};

const TILES: &str = "tiles = { m_tile = 64, n_tile = 64 }\n";

/// A row of `x wᵀ` left of the diagonal, told to `carry` trip by trip; the output is what it carries as `c`.
fn carried(carry: impl FnOnce(&mut FoldScope, &Tile)) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("carried");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), 64.into()]);
    let w = kernel.input("w", DType::Bf16, [n.clone(), 64.into()]);
    let y = kernel.output("y", DType::F32, [m.clone()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let totals = kernel.fold("f", n.ceil_div(n_tile).max(1), |fold, j| {
        let col = j * n_tile;
        let right = fold.load(&w, [span(&col, n_tile), span(0, 64)]).named("w");
        let kept = cols(&col).le(rows(&row));
        carry(fold, &left.dot(right.t()).named("s").mask(&kept, 0.0));
    });
    kernel.store(&y, [span(row, m_tile)], &totals.total("c"));
    kernel.finish()
}

fn run(kernel: &Kernel, text: &str) {
    let case = Case::new(kernel, &schedule(text)).runtime("m", 200).runtime("n", 200);
    let case = case.input("x", &[200, 64], 1.0).input("w", &[200, 64], 1.0);
    case.output("y", &[200]).check(text, 1e-5);
}

#[test]
fn a_carry_that_tells_the_order_of_its_trips_keeps_it() {
    let decayed = carried(|fold, s| drop(fold.carry("c", &s.row_max(), 0.0, |old| old * 0.5 + s.row_max())));
    let running = carried(|fold, s| {
        let top = fold.carry("top", &s.row_max(), 0.0, |old| old.max(&s.row_max()));
        fold.accumulate("c", &top);
    });
    for kernel in [decayed.unwrap(), running.unwrap()] {
        run(&kernel, TILES);
        let text = format!("{TILES}folds.f.direction = \"descending\"\n");
        let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
        let named = |m: &String| m.contains("folds.f.direction") && m.contains("ascending");
        assert!(refused.as_ref().is_some_and(named), "{refused:?}");
    }
}

#[test]
fn maxima_and_sums_of_trips_run_backwards_where_a_mask_asks_for_it() {
    let most = carried(|fold, s| drop(fold.carry("c", &s.row_max(), 0.0, |old| s.row_max().max(old))));
    let least = carried(|fold, s| drop(fold.carry("c", &s.row_max(), 9.0, |old| old.min(&s.row_max()))));
    let sum = carried(|fold, s| drop(fold.carry("c", &s.row_max(), 0.0, |old| old + s.row_max())));
    for kernel in [most.unwrap(), least.unwrap(), sum.unwrap()] {
        let case = Case::new(&kernel, &schedule(TILES));
        let mut folds = case.scheduled().choices.folds.values();
        assert!(folds.all(|f| f.direction == Direction::Descending));
        run(&kernel, TILES);
    }
}

/// Softmax-weighted rows of `v` in f16, the weights multiplied by `factor` before they are cast.
fn weighted(factor: f32) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("weighted");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::F16, [m.clone(), 64.into()]);
    let v = kernel.input("v", DType::F16, [n.clone(), 64.into()]);
    let y = kernel.output("y", DType::F16, [m.clone(), 64.into()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let sums = kernel.rescaled_fold("f", n.clone().ceil_div(n_tile).max(1), |fold, j| {
        let col = j * n_tile;
        let right = fold.load(&v, [span(&col, n_tile), span(0, 64)]).named("v");
        let scores = left.dot(right.t()).named("s");
        let p = fold
            .rebase(&scores.mask(&cols(&col).lt(&n), f32::NEG_INFINITY))
            .named("p");
        fold.accumulate("l", &p.row_sum());
        let p = if factor == 1.0 { p } else { p * factor };
        fold.accumulate("acc", &p.cast(DType::F16).named("p16").dot(&right).named("o"));
    });
    let mean = sums.total("acc") / sums.total("l");
    kernel.store(&y, [span(row, m_tile), span(0, 64)], &mean.cast(DType::F16));
    kernel.finish()
}

/// Scores up to about a hundred, so that a reference that lags lets weights grow past f16.
fn run_weighted(kernel: &Kernel, text: &str) {
    let case = Case::new(kernel, &schedule(text)).runtime("m", 72).runtime("n", 330);
    let case = case.input("x", &[72, 64], 2.0).input("v", &[330, 64], 1.0);
    case.output("y", &[72, 64]).check(text, 4e-3);
}

#[test]
fn f16_weights_stay_in_range_under_every_policy() {
    let kernel = weighted(1.0).unwrap();
    for policy in ["exact", "lazy", "fixed"] {
        run_weighted(&kernel, &format!("{TILES}folds.f.rescale = \"{policy}\"\n"));
    }
    run_weighted(&kernel, &format!("{TILES}folds.f.lazy_threshold = 15\n"));
}

#[test]
fn f16_of_more_than_the_weights_takes_only_policies_that_keep_them_at_one() {
    let kernel = weighted(24.0).unwrap();
    run_weighted(&kernel, TILES);
    run_weighted(&kernel, &format!("{TILES}folds.f.rescale = \"exact\"\n"));
    for (line, key) in [
        ("rescale = \"fixed\"", "folds.f.rescale"),
        ("lazy_threshold = 8", "folds.f.lazy_threshold"),
    ] {
        let text = format!("{TILES}folds.f.{line}\n");
        let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
        let named = |m: &String| m.contains(key) && m.contains("p16");
        assert!(refused.as_ref().is_some_and(named), "{refused:?}");
    }
}

/// Weights times the largest score of the trips before, which a carry hands on: `y = Σ old · (tanh(x wᵀ) w)`.
fn told_by_the_past(swap: bool) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("told");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), 64.into()]);
    let w = kernel.input("w", DType::Bf16, [n.clone(), 64.into()]);
    let y = kernel.output("y", DType::F32, [m.clone()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let totals = kernel.fold("f", n.ceil_div(n_tile).max(1), |fold, j| {
        let at = || [span(&j * n_tile, n_tile), span(0, 64)];
        let (keys, values) = (fold.load(&w, at()).named("k"), fold.load(&w, at()).named("v"));
        let s = left.dot(keys.t()).named("s");
        let top = s.row_max();
        let mut before = None;
        fold.carry("top", &top, 0.0, |old| {
            before = Some(old.clone());
            old.max(&top)
        });
        if swap {
            // What the carry held a trip earlier still.
            let held = before.take().unwrap();
            fold.carry("past", &top, 1.0, |old| {
                before = Some(old.clone());
                held
            });
        }
        let o = s.tanh().cast(DType::Bf16).named("p16").dot(&values).named("o");
        fold.accumulate("c", &(o * before.unwrap()).row_sum());
    });
    kernel.store(&y, [span(row, m_tile)], &totals.total("c"));
    kernel.finish()
}

#[test]
fn a_late_reader_of_a_carry_finds_the_value_of_its_own_trip() {
    for swap in [false, true] {
        let kernel = told_by_the_past(swap).unwrap();
        for extra in [
            "",
            "folds.f.stages = { o = 0 }\n",
            "folds.f.stages = { o = 1 }\n",
            "folds.f.stages = { p16 = 1 }\n",
        ] {
            let case = Case::new(&kernel, &schedule(&format!("{TILES}{extra}")));
            let case = case.runtime("m", 72).runtime("n", 200);
            let case = case.input("x", &[72, 64], 0.3).input("w", &[200, 64], 0.3);
            case.output("y", &[72]).check(extra, 4e-3);
        }
    }
}

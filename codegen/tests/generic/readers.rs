//! A value that more than one carry reads, or a carry and another value, is computed once and lost by none of them.

use dsl::ir::span;
use dsl::trace::{cols, rows};
use dsl::{DType, Kernel, Trace, TraceErrors};

use crate::harness::{Case, schedule};

/// `y = x wᵀ`, counted twice: through two sums of one dot, or through one sum and one masked sum.
fn product(masked: bool) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("twice");
    let [m, n, k] = ["m", "n", "k"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile, k_tile] = ["m_tile", "n_tile", "k_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), k.clone()]);
    let w = kernel.input("w", DType::Bf16, [n.clone(), k.clone()]);
    let y = kernel.output("y", DType::Bf16, [m.clone(), n.clone()]);
    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let col = kernel.grid("n_block", n.ceil_div(n_tile)) * n_tile;
    let sums = kernel.fold("depth", k.ceil_div(k_tile).max(1), |fold, step| {
        let depth = step * k_tile;
        let left = fold.load(&x, [span(&row, m_tile), span(&depth, k_tile)]).named("x");
        let right = fold.load(&w, [span(&col, n_tile), span(&depth, k_tile)]).named("w");
        let both = left.dot(right.t()).named("xw");
        fold.accumulate("first", &both);
        if masked {
            fold.accumulate("second", &both.mask(&cols(&col).lt(rows(&row)), 0.0));
        } else {
            fold.accumulate("second", &both);
        }
    });
    let total = sums.total("first") + sums.total("second");
    kernel.store(&y, [span(row, m_tile), span(col, n_tile)], &total.cast(DType::Bf16));
    kernel.finish()
}

const TILES: &str = "tiles = { m_tile = 64, n_tile = 64, k_tile = 64 }\n";

#[test]
fn two_sums_of_one_dot_both_get_it() {
    for masked in [false, true] {
        let kernel = product(masked).unwrap();
        let case = Case::new(&kernel, &schedule(TILES));
        let case = case.runtime("m", 72).runtime("n", 136).runtime("k", 200);
        let case = case.input("x", &[72, 200], 1.0).input("w", &[136, 200], 1.0);
        case.output("y", &[72, 136]).check("two readers", 4e-3);
    }
}

#[test]
fn a_dot_that_a_sum_reads_unmasked_is_not_narrowed() {
    let kernel = product(true).unwrap();
    let text = format!("{TILES}folds.depth.narrow = true\nfolds.depth.peel = true\n");
    let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
    assert!(
        refused.as_ref().is_some_and(|m| m.contains("folds.depth.narrow")),
        "{refused:?}"
    );
}

/// `y = p w` with `p = bf16(x wᵀ)`, whose rows are summed as they were rounded: a calculation reads what the dot reads.
fn rounded() -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("rounded");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), 64.into()]);
    let w = kernel.input("w", DType::Bf16, [n.clone(), 64.into()]);
    let y = kernel.output("y", DType::Bf16, [m.clone(), 64.into()]);
    let sums = kernel.output("sums", DType::F32, [m.clone()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let totals = kernel.fold("f", n.ceil_div(n_tile).max(1), |fold, j| {
        let right = fold.load(&w, [span(j * n_tile, n_tile), span(0, 64)]).named("w");
        let p = left.dot(right.t()).named("s").cast(DType::Bf16).named("p");
        fold.accumulate("y", &p.dot(&right).named("o"));
        fold.accumulate("sum", &p.cast(DType::F32).row_sum());
    });
    kernel.store(
        &y,
        [span(&row, m_tile), span(0, 64)],
        &totals.total("y").cast(DType::Bf16),
    );
    kernel.store(&sums, [span(row, m_tile)], &totals.total("sum"));
    kernel.finish()
}

/// The tensor core holds the registers of a left operand until its dot is done: whoever else reads them waits for that.
#[test]
fn a_left_operand_in_registers_has_other_readers() {
    let kernel = rounded().unwrap();
    for extra in ["", "folds.f.order = [\"issue s\", \"issue o\", \"wait o\"]\n"] {
        let text = format!("tiles = {{ m_tile = 64, n_tile = 64 }}\n{extra}");
        let case = Case::new(&kernel, &schedule(&text)).runtime("m", 72).runtime("n", 200);
        let case = case.input("x", &[72, 64], 0.5).input("w", &[200, 64], 0.5);
        case.output("y", &[72, 64]).output("sums", &[72]).check(extra, 4e-3);
    }
}

/// Two folds over one `x`; what the first sums is stored between them, what the second computes on every trip of it.
fn twice() -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("twice");
    let [m, n, trips] = ["m", "n", "trips"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), 64.into()]);
    let w = kernel.input("w", DType::Bf16, [n.clone(), 64.into()]);
    let y = kernel.output("y", DType::Bf16, [m.clone(), 64.into()]);
    let z = kernel.output("z", DType::Bf16, [trips, m.clone(), 64.into()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let count = n.ceil_div(n_tile).max(1);
    let at = |row: &dsl::Ix, rows| [span(row, rows), span(0, 64)];
    let product = |fold: &mut dsl::FoldScope, j: &dsl::Ix, [k, v, o]: [&str; 3]| {
        let piece = |name| fold.load(&w, at(&(j * n_tile), n_tile)).named(name);
        let (k, v) = (piece(k), piece(v));
        left.dot(k.t()).cast(DType::Bf16).dot(&v).named(o)
    };
    let first = kernel.fold("f", count.clone(), |fold, j| {
        let o = product(fold, &j, ["k", "v", "o"]);
        fold.accumulate("sum", &o);
    });
    kernel.store(&y, at(&row, m_tile), &first.total("sum").cast(DType::Bf16));
    kernel.fold("g", count, |fold, j| {
        let o = product(fold, &j, ["k2", "v2", "o2"]).cast(DType::Bf16);
        fold.store(&z, [j.into(), span(&row, m_tile), span(0, 64)], &o);
    });
    kernel.finish()
}

#[test]
fn a_tile_is_not_staged_over_a_load_that_is_still_read() {
    let kernel = twice().unwrap();
    let tiles =
        "tiles = { m_tile = 64, n_tile = 64 }\nfolds = { f = { stages = { o = 1 } }, g = { stages = { o2 = 1 } } }\n";
    for (output, load) in [("y", "x"), ("y", "v2"), ("z", "x"), ("z", "v"), ("z", "v2")] {
        let text = format!("{tiles}stores.{output}.buffer = \"{load}\"\n");
        let refused = Case::legal(&kernel, &schedule(&text)).err().map(|e| e.to_string());
        let named = |m: &String| m.contains(&format!("stores.{output}.buffer: asked for over `{load}`"));
        assert!(refused.as_ref().is_some_and(named), "{output} over {load}: {refused:?}");
    }
    for over in [
        "stores.y.buffer = \"v\"\n",
        "operands.x = \"registers\"\nstores = { y = { buffer = \"x\" }, z = { buffer = \"x\" } }\n",
    ] {
        let case = Case::new(&kernel, &schedule(&format!("{tiles}{over}")));
        let case = case.runtime("m", 72).runtime("n", 200).runtime("trips", 4);
        let case = case.input("x", &[72, 64], 0.3).input("w", &[200, 64], 0.3);
        case.output("y", &[72, 64]).output("z", &[4, 72, 64]).check(over, 6e-3);
    }
}

/// `y = Σ x wᵀ + trips · Σ x wᵀ`: the second fold adds a row sum that stands outside it, once a trip.
fn outer_sum() -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("outer_sum");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", DType::Bf16, [m.clone(), 64.into()]);
    let w = kernel.input("w", DType::Bf16, [n.clone(), 64.into()]);
    let y = kernel.output("y", DType::F32, [m.clone()]);
    let row = kernel.grid("block", m.ceil_div(m_tile)) * m_tile;
    let left = kernel.load(&x, [span(&row, m_tile), span(0, 64)]).named("x");
    let scores = |fold: &dsl::FoldScope, j: &dsl::Ix| {
        let right = fold.load(&w, [span(j * n_tile, n_tile), span(0, 64)]);
        left.dot(right.t())
    };
    let count = n.ceil_div(n_tile).max(1);
    let first = kernel.fold("f", count.clone(), |fold, j| {
        let s = scores(fold, &j);
        fold.accumulate("s", &s);
    });
    let outside = first.total("s").row_sum();
    let second = kernel.fold("g", count, |fold, j| {
        let s = scores(fold, &j);
        fold.accumulate("inside", &s.row_sum());
        fold.accumulate("outside", &outside);
    });
    kernel.store(
        &y,
        [span(row, m_tile)],
        &(second.total("inside") + second.total("outside")),
    );
    kernel.finish()
}

#[test]
fn a_row_sum_from_outside_a_fold_is_whole_already() {
    let case = Case::new(
        &outer_sum().unwrap(),
        &schedule("tiles = { m_tile = 64, n_tile = 64 }\n"),
    );
    let case = case.runtime("m", 72).runtime("n", 200);
    let case = case.input("x", &[72, 64], 1.0).input("w", &[200, 64], 1.0);
    case.output("y", &[72]).check("outer sum", 1e-5);
}

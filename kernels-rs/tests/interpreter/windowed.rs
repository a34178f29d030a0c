//! A variant written in the test: sliding-window attention with soft-capped scores and a chosen first trip.

use dsl::index::Ix;
use dsl::interp::{Bindings, Interpreter, Precision};
use dsl::ir::span;
use dsl::trace::{cols, rows};
use dsl::{DType, Kernel, Trace, TraceErrors};

use crate::support::{Problem, assert_close, attention, dense, tensors};

/// Query `i` sees keys `i - window < j <= i`; scores are capped to `cap * tanh(score / cap)`. Shapes `[len, heads, dim]`.
fn windowed(head_dim: u32) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("windowed");
    let [len, heads, window] = ["len", "heads", "window"].map(|n| kernel.runtime(n));
    let (q_tile, kv_tile) = (kernel.tile("q_tile"), kernel.tile("kv_tile"));
    let dims = [len.clone(), heads.clone(), Ix::from(head_dim)];
    let [q, k, v] = ["q", "k", "v"].map(|name| kernel.input(name, DType::Bf16, dims.clone()));
    let o = kernel.output("o", DType::Bf16, dims);
    let (scale_over_cap, cap_log2) = (kernel.scalar("scale_over_cap"), kernel.positive_scalar("cap_log2"));

    let block = kernel.grid("q_block", len.clone().ceil_div(q_tile));
    let head = kernel.grid("head", heads);
    let at = |start: &Ix, len| [span(start, len), (&head).into(), span(0, head_dim)];

    let first_row = block * q_tile;
    let first_trip = (&first_row - &window + 1).max(0).floor_div(kv_tile);
    let end = (&first_row + q_tile).min(&len);
    let queries = kernel.load(&q, at(&first_row, q_tile)).named("q");

    let sums = kernel.rescaled_fold("kv", (end.ceil_div(kv_tile) - &first_trip).max(1), |fold, j| {
        let first_col = (j + &first_trip) * kv_tile;
        let scores = queries.dot(fold.load(&k, at(&first_col, kv_tile)).t());
        let capped = (scores * &scale_over_cap).tanh() * &cap_log2;

        let (row, col) = (rows(&first_row), cols(&first_col));
        let seen = col.clone().lt(&len) & col.clone().le(row.clone()) & col.ge(row - &window + Ix::from(1));
        let weights = fold.rebase(&capped.mask(&seen, f32::NEG_INFINITY));
        fold.accumulate("l", &weights.row_sum());
        fold.accumulate(
            "acc",
            &weights.cast(DType::Bf16).dot(fold.load(&v, at(&first_col, kv_tile))),
        );
    });
    kernel.store(
        &o,
        at(&first_row, q_tile),
        &(sums.total("acc") / sums.total("l")).cast(DType::Bf16),
    );
    kernel.finish()
}

#[test]
fn matches_the_formula() {
    let (len, heads, head_dim, scale, cap) = (70, 2, 16, 2.0, 5.0);
    let kernel = windowed(16).unwrap();
    let [q, k, v] = [1, 2, 3].map(|seed| dense(DType::Bf16, &[1, len, heads, head_dim], seed));
    let flat = |t: &dsl::interp::TensorData| {
        dsl::interp::TensorData::dense(DType::Bf16, &[len, heads, head_dim], t.data().to_vec()).unwrap()
    };
    let inputs = tensors([("q", flat(&q)), ("k", flat(&k)), ("v", flat(&v))]);
    for window in [1usize, 7, 24, 500] {
        let problem = Problem {
            batch: 1,
            q_len: len,
            kv_len: len,
            heads,
            kv_heads: heads,
            head_dim,
            scale,
        };
        let score = |i: usize, j: usize, s: f64| {
            if j <= i && j + window > i {
                cap * (s / cap).tanh()
            } else {
                f64::NEG_INFINITY
            }
        };
        let (wanted, _) = attention(problem, &q, &k, &v, score);
        let bindings = Bindings::new()
            .runtime("len", len as i64)
            .runtime("heads", heads as i64)
            .runtime("window", window as i64);
        let bindings = bindings
            .tile("q_tile", 16)
            .tile("kv_tile", 8)
            .scalar("scale_over_cap", scale / cap)
            .scalar("cap_log2", cap * std::f64::consts::LOG2_E);
        let out = Interpreter::new(Precision::F32)
            .run(&kernel, &bindings, &inputs)
            .unwrap();
        assert_close(&format!("window {window}"), out["o"].data(), &wanted, 3.0 / 256.0);
    }
}

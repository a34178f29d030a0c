//! Sliding-window attention with soft-capped scores: masks on both sides, and a first trip that depends on the block.

use dsl::index::Ix;
use dsl::ir::span;
use dsl::trace::{cols, rows};
use dsl::{DType, Kernel, Trace, TraceErrors};

/// Query `i` sees keys `i - window < j <= i`; scores are capped to `cap * tanh(score / cap)`. Shapes `[len, heads, dim]`.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn windowed(head_dim: u32) -> Result<Kernel, TraceErrors> {
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
    let queries = kernel.load(&q, at(&first_row, q_tile)).named("queries");
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
    let out = (sums.total("acc") / sums.total("l")).cast(DType::Bf16);
    kernel.store(&o, at(&first_row, q_tile), &out);
    kernel.finish()
}

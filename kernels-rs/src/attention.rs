//! Attention forward, after Dao et al., "FlashAttention-2" (2023): one pass over the keys with a rescaled fold.
//!
//! Shapes: q `[batch, q_len, heads, head_dim]`, k and v `[batch, kv_len, kv_heads, head_dim]`, o like q,
//! lse `[batch, heads, q_len]` (natural logarithm). Query head `h` reads key head `h / group`. A causal mask is aligned
//! to the bottom right: query `i` sees keys `0..=i + kv_len - q_len`. A row that sees no key gives 0 and -inf.

use dsl::index::Ix;
use dsl::ir::span;
use dsl::trace::{cols, rows};
use dsl::{DType, Kernel, Trace, TraceErrors};

/// What is fixed when the kernel is traced; everything else is decided at launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub dtype: DType,
    pub head_dim: u32,
    pub causal: bool,
}

/// Traces the forward kernel.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn forward(spec: Spec) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("attention_forward");
    let [batch, q_len, kv_len, heads, kv_heads, group] =
        ["batch", "q_len", "kv_len", "heads", "kv_heads", "group"].map(|n| kernel.runtime(n));
    let (q_tile, kv_tile) = (kernel.tile("q_tile"), kernel.tile("kv_tile"));
    let (dim, head_dim) = (Ix::from(spec.head_dim), spec.head_dim);

    let q = kernel.input(
        "q",
        spec.dtype,
        [batch.clone(), q_len.clone(), heads.clone(), dim.clone()],
    );
    let k = kernel.input(
        "k",
        spec.dtype,
        [batch.clone(), kv_len.clone(), kv_heads.clone(), dim.clone()],
    );
    let v = kernel.input("v", spec.dtype, [batch.clone(), kv_len.clone(), kv_heads, dim.clone()]);
    let o = kernel.output("o", spec.dtype, [batch.clone(), q_len.clone(), heads.clone(), dim]);
    let lse = kernel.output("lse", DType::F32, [batch.clone(), heads.clone(), q_len.clone()]);
    let scale_log2 = kernel.positive_scalar("scale_log2");

    let block = kernel.grid("q_block", q_len.clone().ceil_div(q_tile));
    let head = kernel.grid("head", heads);
    let batch = kernel.grid("batch", batch);

    let first_row = block * q_tile;
    let shift = &kv_len - &q_len;
    let kv_head = head.clone().floor_div(group);
    let in_head = |start: Ix, len| [(&batch).into(), span(start, len), (&head).into(), span(0, head_dim)];
    let in_kv_head = |start: Ix, len| [(&batch).into(), span(start, len), (&kv_head).into(), span(0, head_dim)];

    let visible = if spec.causal {
        (&first_row + q_tile + &shift).min(&kv_len)
    } else {
        kv_len.clone()
    };
    let queries = kernel.load(&q, in_head(first_row.clone(), q_tile)).named("q");

    let sums = kernel.rescaled_fold("kv", visible.ceil_div(kv_tile).max(1), |fold, j| {
        let first_col = j * kv_tile;
        let keys = fold.load(&k, in_kv_head(first_col.clone(), kv_tile)).named("k");
        let scores = queries.dot(keys.t()).named("s");

        let (row, col) = (rows(first_row.clone()), cols(first_col.clone()));
        let in_range = col.clone().lt(&kv_len);
        let seen = if spec.causal {
            in_range & col.le(row + &shift)
        } else {
            in_range
        };
        let weights = fold
            .rebase(&(scores.mask(&seen, f32::NEG_INFINITY) * &scale_log2))
            .named("p");
        fold.accumulate("l", &weights.row_sum());

        let values = fold.load(&v, in_kv_head(first_col, kv_tile)).named("v");
        fold.accumulate("acc", &weights.cast(spec.dtype).named("p16").dot(&values).named("o"));
    });

    let total = sums.total("l");
    let zero = kernel.constant(0.0);
    let inverse = total.equals(&zero).select(&zero, &total.recip());
    kernel.store(
        &o,
        in_head(first_row.clone(), q_tile),
        &(sums.total("acc") * inverse).cast(spec.dtype),
    );
    kernel.store(
        &lse,
        [(&batch).into(), (&head).into(), span(first_row, q_tile)],
        &((sums.reference() + total.log2()) * std::f32::consts::LN_2),
    );
    kernel.finish()
}

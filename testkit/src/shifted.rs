//! Windows that begin before a tensor and points outside it: loads and vector stores are clipped.

use dsl::index::Ix;
use dsl::ir::span;
use dsl::{DType, Kernel, Trace, TraceErrors};

/// `y[i + shift, h + 1, :] = x[i, h, :] + bias[h, i]` and `sums[h, i]` their row sums, by a grid that begins one head and `shift`
/// rows early: what lies outside x and bias is zero in y, and left out of the sums.
/// x `[n, heads, 64]`, y `[rows, heads + 1, 64]` with `rows = n + shift` and `early_heads = heads + 1`, bias, sums `[heads, n]`.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn shifted() -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("shifted");
    let [n, heads, shift, rows, early_heads] =
        ["n", "heads", "shift", "rows", "early_heads"].map(|name| kernel.runtime(name));
    let tile = kernel.tile("n_tile");
    let x = kernel.input("x", DType::Bf16, [n.clone(), heads.clone(), 64.into()]);
    let bias = kernel.input("bias", DType::F32, [heads.clone(), n.clone()]);
    let y = kernel.output("y", DType::Bf16, [rows.clone(), early_heads.clone(), 64.into()]);
    let sums = kernel.output("sums", DType::F32, [heads.clone(), n.clone()]);
    let (block, early) = (
        kernel.grid("block", rows.ceil_div(tile)),
        kernel.grid("early_head", early_heads),
    );
    let (first, head) = (&block * tile - &shift, &early - 1);
    let (matrix, vector) = (
        [span(&first, tile), (&head).into(), span(0, 64)],
        [(&head).into(), span(&first, tile)],
    );
    let whole = [span(&block * tile, tile), (&early).into(), span(0, 64)];
    let done = kernel.fold("once", Ix::from(1), |fold, _| {
        let values = fold.load(&x, matrix).cast(DType::F32) + fold.load(&bias, vector.clone());
        fold.accumulate("sum", &values.row_sum());
        fold.store(&y, whole, &values.cast(DType::Bf16));
    });
    kernel.store(&sums, vector.clone(), &done.total("sum"));
    kernel.finish()
}

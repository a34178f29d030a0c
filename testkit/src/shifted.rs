//! Windows that begin before a tensor and points outside it: every access is clipped.

use dsl::index::Ix;
use dsl::ir::span;
use dsl::{DType, Kernel, Trace, TraceErrors};

/// `y[i, h, :] = x[i, h, :] + bias[h, i]`, `sums[h, i] = Σ y[i, h, :]`, by a grid that begins one head and `shift` rows early.
/// x, y `[n, heads, 64]`, bias, sums `[heads, n]`.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn shifted() -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("shifted");
    let [n, heads, shift] = ["n", "heads", "shift"].map(|name| kernel.runtime(name));
    let tile = kernel.tile("n_tile");
    let x = kernel.input("x", DType::Bf16, [n.clone(), heads.clone(), 64.into()]);
    let bias = kernel.input("bias", DType::F32, [heads.clone(), n.clone()]);
    let y = kernel.output("y", DType::Bf16, [n.clone(), heads.clone(), 64.into()]);
    let sums = kernel.output("sums", DType::F32, [heads.clone(), n.clone()]);
    let first = kernel.grid("block", (n + &shift).ceil_div(tile)) * tile - &shift;
    let head = kernel.grid("early_head", heads + 1) - 1;
    let (matrix, vector) = (
        [span(&first, tile), (&head).into(), span(0, 64)],
        [(&head).into(), span(&first, tile)],
    );
    let done = kernel.fold("once", Ix::from(1), |fold, _| {
        let values = fold.load(&x, matrix.clone()).cast(DType::F32) + fold.load(&bias, vector.clone());
        fold.accumulate("sum", &values.row_sum());
        fold.store(&y, matrix, &values.cast(DType::Bf16));
    });
    kernel.store(&sums, vector.clone(), &done.total("sum"));
    kernel.finish()
}

//! Softmax over the rows of a matrix: `y[i, :] = exp(x[i, :]) / Σ exp(x[i, :])`, in two folds over the columns.

use dsl::ir::span;
use dsl::trace::cols;
use dsl::{DType, Kernel, Trace, TraceErrors};

/// Traces the kernel; x and y are `[m, n]` of `dtype`.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn row_softmax(dtype: DType) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("row_softmax");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", dtype, [m.clone(), n.clone()]);
    let y = kernel.output("y", dtype, [m.clone(), n.clone()]);
    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let blocks = n.clone().ceil_div(n_tile).max(1);
    let log2_e = std::f32::consts::LOG2_E;

    let sums = kernel.rescaled_fold("sum", blocks.clone(), |fold, j| {
        let col = j * n_tile;
        let piece = fold
            .load(&x, [span(row.clone(), m_tile), span(col.clone(), n_tile)])
            .named("x_sum");
        let scores = piece.cast(DType::F32).mask(&cols(col).lt(&n), f32::NEG_INFINITY) * log2_e;
        let weights = fold.rebase(&scores);
        fold.accumulate("l", &weights.row_sum());
    });
    let (reference, inverse) = (sums.reference(), sums.total("l").recip());
    kernel.fold("write", blocks, |fold, j| {
        let col = j * n_tile;
        let at = [span(row.clone(), m_tile), span(col, n_tile)];
        let piece = fold.load(&x, at.clone()).named("x_write");
        let weights = (piece.cast(DType::F32) * log2_e - &reference).exp2() * &inverse;
        fold.store(&y, at, &weights.cast(dtype));
    });
    kernel.finish()
}

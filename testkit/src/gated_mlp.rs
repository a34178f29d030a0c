//! A gated layer, `y = (x·w1) * silu(x·w2)`: two dots share their left operand.

use dsl::ir::span;
use dsl::{DType, Kernel, Trace, TraceErrors};

/// x `[m, k]`, w1 and w2 `[k, n]`, y `[m, n]`.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn gated_mlp(dtype: DType) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("gated_mlp");
    let [m, n, k] = ["m", "n", "k"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile, k_tile] = ["m_tile", "n_tile", "k_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", dtype, [m.clone(), k.clone()]);
    let [w1, w2] = ["w1", "w2"].map(|name| kernel.input(name, dtype, [k.clone(), n.clone()]));
    let y = kernel.output("y", dtype, [m.clone(), n.clone()]);
    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let col = kernel.grid("n_block", n.ceil_div(n_tile)) * n_tile;

    let sums = kernel.fold("depth", k.ceil_div(k_tile).max(1), |fold, step| {
        let depth = step * k_tile;
        let left = fold.load(&x, [span(&row, m_tile), span(&depth, k_tile)]).named("left");
        for (name, weights) in [("value", &w1), ("gate", &w2)] {
            let right = fold.load(weights, [span(&depth, k_tile), span(&col, n_tile)]);
            fold.accumulate(name, &left.dot(&right));
        }
    });
    let (value, gate) = (sums.total("value"), sums.total("gate"));
    let silu = &gate * ((-&gate * std::f32::consts::LOG2_E).exp2() + 1.0).recip();
    kernel.store(&y, [span(row, m_tile), span(col, n_tile)], &(value * silu).cast(dtype));
    kernel.finish()
}

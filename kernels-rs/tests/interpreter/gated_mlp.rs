//! A kernel that no pass was written for: a gated layer, `y = (x·w1) * silu(x·w2)`, two dots sharing their left operand.

use dsl::interp::{Bindings, Interpreter, Precision};
use dsl::ir::span;
use dsl::{DType, Kernel, Trace, TraceErrors};

use crate::support::{assert_close, dense, tensors};

/// x `[m, k]`, w1 and w2 `[k, n]`, y `[m, n]`.
fn gated_mlp(dtype: DType) -> Result<Kernel, TraceErrors> {
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
        let left = fold.load(&x, [span(&row, m_tile), span(&depth, k_tile)]).named("x");
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

#[test]
fn matches_the_formula() {
    let [m, n, k] = [21, 13, 40];
    let (x, w1, w2) = (
        dense(DType::F16, &[m, k], 1),
        dense(DType::F16, &[k, n], 2),
        dense(DType::F16, &[k, n], 3),
    );
    let product = |w: &dsl::interp::TensorData, i: usize, j: usize| -> f64 {
        (0..k).map(|l| x.get(&[i, l]).unwrap() * w.get(&[l, j]).unwrap()).sum()
    };
    let mut wanted = vec![];
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let (value, gate) = (product(&w1, i, j), product(&w2, i, j));
        wanted.push(value * gate / (1.0 + (-gate).exp()));
    }
    let bindings = Bindings::new().runtime("m", 21).runtime("n", 13).runtime("k", 40);
    let bindings = bindings.tile("m_tile", 16).tile("n_tile", 8).tile("k_tile", 16);
    let inputs = tensors([("x", x.clone()), ("w1", w1.clone()), ("w2", w2.clone())]);
    let out = Interpreter::new(Precision::F32)
        .run(&gated_mlp(DType::F16).unwrap(), &bindings, &inputs)
        .unwrap();
    assert_close("y", out["y"].data(), &wanted, 1.0 / 1000.0);
}

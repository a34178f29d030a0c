//! A kernel that no pass was written for: a gated layer, `y = (x·w1) * silu(x·w2)`, two dots sharing their left operand.

use dsl::DType;
use dsl::interp::{Bindings, Interpreter, Precision};
use testkit::gated_mlp;

use crate::support::{assert_close, dense, tensors};

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

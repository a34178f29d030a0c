//! Softmax over rows, in two folds.

use dsl::DType;
use dsl::interp::{Bindings, Interpreter, Precision, TensorData};
use warpwright_kernels::row_softmax::row_softmax;

use crate::support::{assert_close, numbers, tensors};

#[test]
fn rows_sum_to_one_and_match_the_formula() {
    for (m, n) in [(8, 32), (5, 33), (9, 1)] {
        let x = TensorData::dense(
            DType::F32,
            &[m, n],
            numbers(4, m * n).iter().map(|x| x * 20.0).collect(),
        )
        .unwrap();
        let mut wanted = vec![];
        for row in x.data().chunks(n) {
            let top = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = row.iter().map(|x| (x - top).exp()).sum();
            wanted.extend(row.iter().map(|x| (x - top).exp() / total));
        }
        let kernel = row_softmax(DType::F32).unwrap();
        let bindings = Bindings::new()
            .runtime("m", m as i64)
            .runtime("n", n as i64)
            .tile("m_tile", 4)
            .tile("n_tile", 16);
        let out = Interpreter::new(Precision::F32)
            .run(&kernel, &bindings, &tensors([("x", x)]))
            .unwrap();
        assert_close("y", out["y"].data(), &wanted, 1e-5);
    }
}

//! A variant written for tests: sliding-window attention with soft-capped scores and a chosen first trip.

use dsl::DType;
use dsl::interp::{Bindings, Interpreter, Precision};
use testkit::windowed;

use crate::support::{Problem, assert_close, attention, dense, tensors};

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

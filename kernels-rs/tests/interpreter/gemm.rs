//! The matrix product with all four layouts and ragged sizes.

use dsl::DType;
use dsl::interp::{Bindings, Interpreter, Precision};
use warpwright_kernels::gemm::{Spec, gemm};

use crate::support::{assert_close, dense, tensors};

fn check(dtype: DType, a_transposed: bool, b_transposed: bool, [m, n, k]: [usize; 3]) {
    let stored = |t: bool, r: usize, c: usize| if t { [c, r] } else { [r, c] };
    let (a, b) = (
        dense(dtype, &stored(a_transposed, m, k), 1),
        dense(dtype, &stored(b_transposed, k, n), 2),
    );
    let mut wanted = vec![0.0; m * n];
    for i in 0..m {
        for j in 0..n {
            let term =
                |l: usize| a.get(&stored(a_transposed, i, l)).unwrap() * b.get(&stored(b_transposed, l, j)).unwrap();
            wanted[i * n + j] = (0..k).map(term).sum();
        }
    }
    let kernel = gemm(Spec {
        dtype,
        a_transposed,
        b_transposed,
    })
    .unwrap();
    let sizes = Bindings::new()
        .runtime("m", m as i64)
        .runtime("n", n as i64)
        .runtime("k", k as i64);
    let bindings = sizes.tile("m_tile", 16).tile("n_tile", 8).tile("k_tile", 32);
    for precision in [Precision::F32, Precision::F64] {
        let out = Interpreter::new(precision)
            .run(&kernel, &bindings, &tensors([("a", a.clone()), ("b", b.clone())]))
            .unwrap();
        assert_close(
            &format!("{a_transposed} {b_transposed} {precision:?}"),
            out["c"].data(),
            &wanted,
            1.0 / 200.0,
        );
    }
}

#[test]
fn all_layouts() {
    for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
        check(DType::F16, a, b, [32, 16, 64]);
        check(DType::Bf16, a, b, [37, 19, 45]);
    }
}

#[test]
fn an_empty_sum_is_zero() {
    check(DType::F16, false, false, [5, 3, 0]);
}

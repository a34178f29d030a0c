//! The text form of every kernel, against the files in `goldens/`; `UPDATE_GOLDENS=1` rewrites them.

use std::path::Path;

use dsl::{DType, Kernel, print, validate};
use warpwright_kernels::{attention, gemm, row_softmax};

fn kernels() -> Vec<(&'static str, Kernel)> {
    let forward = |causal| {
        attention::forward(attention::Spec {
            dtype: DType::Bf16,
            head_dim: 128,
            causal,
        })
        .unwrap()
    };
    let product = gemm::Spec {
        dtype: DType::F16,
        a_transposed: false,
        b_transposed: true,
    };
    vec![
        ("attention_full", forward(false)),
        ("attention_causal", forward(true)),
        ("gemm_nt", gemm::gemm(product).unwrap()),
        ("row_softmax", row_softmax::row_softmax(DType::F32).unwrap()),
    ]
}

#[test]
fn kernels_print_as_recorded() {
    for (name, kernel) in kernels() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/interpreter/goldens")
            .join(format!("{name}.txt"));
        let found = print(&kernel);
        if std::env::var_os("UPDATE_GOLDENS").is_some() {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, &found).unwrap();
        }
        let wanted = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            found == wanted,
            "{name} prints otherwise than recorded; UPDATE_GOLDENS=1 accepts this:\n{found}"
        );
    }
}

#[test]
fn kernels_are_valid() {
    for (name, kernel) in kernels() {
        if let Err(errors) = validate(kernel) {
            panic!("{name}: {errors}");
        }
    }
}

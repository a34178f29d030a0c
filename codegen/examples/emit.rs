//! Prints the PTX of a shipped kernel under a schedule file: `emit KERNEL HEAD_DIM|-- full|causal SCHEDULE`.
use dsl::DType;
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let kernel = match a[1].as_str() {
        "fwd" => kernels::attention::forward(kernels::attention::Spec {
            dtype: DType::Bf16,
            head_dim: a[2].parse().unwrap(),
            causal: a[3] == "causal",
        }),
        "gemm" => kernels::gemm::gemm(kernels::gemm::Spec {
            dtype: DType::Bf16,
            a_transposed: a[2].starts_with('t'),
            b_transposed: a[2].ends_with('t'),
        }),
        _ => kernels::row_softmax::row_softmax(DType::Bf16),
    }
    .unwrap_or_else(|e| panic!("{e}"));
    let schedule = toml::from_str(&std::fs::read_to_string(&a[4]).unwrap()).unwrap_or_else(|e| panic!("{e}"));
    match warpwright_codegen::compile(&kernel, &schedule, &warpwright_codegen::target::SM_90A) {
        Ok(c) => {
            print!("{}", c.ptx);
            if let Some(path) = a.get(5) {
                std::fs::write(path, serde_json::to_string_pretty(&c.launch).unwrap()).unwrap();
            }
        }
        Err(e) => {
            eprintln!("{e}");
            std::process::exit(2)
        }
    }
}

//! Development aid: writes PTX and launch facts of the four products for the second target: `dump_sm80 DIR [SCHEDULE]`.
use dsl::DType;
use dsl::schedule::Schedule;
use warpwright_codegen::{compile, target};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let dir = std::path::PathBuf::from(args.next().ok_or("usage: dump_sm80 DIR [SCHEDULE]")?);
    let schedule = match args.next() {
        Some(path) => toml::from_str(&std::fs::read_to_string(path)?)?,
        None => Schedule::for_kernel("gemm")
            .tile("m_tile", 128)
            .tile("n_tile", 128)
            .tile("k_tile", 64)
            .consumers(1)
            .load("a", |l| l.stages(3))
            .load("b", |l| l.stages(3)),
    };
    std::fs::create_dir_all(&dir)?;
    for (name, dtype) in [("bf16", DType::Bf16), ("f16", DType::F16)] {
        for (a, b) in [(false, false), (false, true), (true, false), (true, true)] {
            let kernel = kernels::gemm::gemm(kernels::gemm::Spec {
                dtype,
                a_transposed: a,
                b_transposed: b,
            })
            .map_err(|e| e.to_string())?;
            let compiled = compile(&kernel, &schedule, &target::SM_80)?;
            let letter = |t: bool| if t { 't' } else { 'n' };
            let stem = format!("gemm_{}{}_{name}", letter(a), letter(b));
            std::fs::write(dir.join(format!("{stem}.ptx")), compiled.ptx.to_string())?;
            std::fs::write(
                dir.join(format!("{stem}.json")),
                serde_json::to_string_pretty(&compiled.launch)?,
            )?;
        }
    }
    Ok(())
}

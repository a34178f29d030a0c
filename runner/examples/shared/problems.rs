//! Problems as examples of their kernels: noise in, sizes and scalars from the problem. The example programs share it.

use oracle::Problem;
use testkit::examples::{Example, Input};
use warpwright_runner::case::trace;
use warpwright_runner::record::schedule_text;
use warpwright_runner::schedules::shipped_for;

type AnyError = Box<dyn std::error::Error>;

/// Problems run with the shipped schedules: every head size, dtype, mask and layout.
const SHIPPED: [&str; 17] = [
    "fwd bf16 b1 s200x330 h4/2 d64 full",
    "fwd bf16 b1 s300x260 h4/1 d64 causal",
    "fwd bf16 b1 s384 h2 d128 full",
    "fwd bf16 b2 s257x400 h4/2 d128 causal",
    "fwd bf16 b1 s129x300 h2/1 d256 full",
    "fwd bf16 b1 s260x260 h2/2 d256 causal",
    "fwd f16 b1 s200x330 h4/2 d64 full",
    "fwd f16 b1 s300x260 h4/1 d64 causal",
    "fwd f16 b1 s384 h2 d128 full",
    "fwd f16 b2 s257x400 h4/2 d128 causal",
    "fwd f16 b1 s129x300 h2/1 d256 full",
    "fwd f16 b1 s260x260 h2/2 d256 causal",
    "gemm bf16 m144 n136 k200 nn",
    "gemm f16 m200 n264 k72 nt",
    "gemm bf16 m136 n520 k328 tn",
    "gemm f16 m328 n144 k136 tt",
    "softmax bf16 m150 n264",
];

/// The problems above with their shipped schedules.
///
/// # Errors
/// A problem that no schedule is shipped for.
pub fn shipped() -> Result<Vec<Example>, AnyError> {
    let one = |text: &&str| {
        let schedule = schedule_text(&shipped_for(&text.parse()?)?);
        example(text, "shipped", schedule, 1.0)
    };
    SHIPPED.iter().map(one).collect()
}

/// A problem as an example: noise in, everything else from the problem; `spread` is that of the first input.
///
/// # Errors
/// A problem that does not parse.
pub fn example(text: &str, which: &str, schedule: String, spread: f64) -> Result<Example, AnyError> {
    let problem: Problem = text.parse()?;
    let dims = |list: &[u32]| list.iter().map(|d| *d as usize).collect::<Vec<_>>();
    let (runtime, scalars, inputs, outputs) = match &problem {
        Problem::Forward(p) => (
            vec![
                ("batch", p.batch),
                ("q_len", p.q_len),
                ("kv_len", p.kv_len),
                ("heads", p.heads),
                ("kv_heads", p.kv_heads),
                ("group", p.group()),
            ],
            vec![("scale_log2", f64::from(p.default_scale_log2()))],
            vec![
                ("q", dims(&[p.batch, p.q_len, p.heads, p.head_dim])),
                ("k", dims(&[p.batch, p.kv_len, p.kv_heads, p.head_dim])),
                ("v", dims(&[p.batch, p.kv_len, p.kv_heads, p.head_dim])),
            ],
            vec![
                ("o", dims(&[p.batch, p.q_len, p.heads, p.head_dim])),
                ("lse", dims(&[p.batch, p.heads, p.q_len])),
            ],
        ),
        Problem::Gemm(p) => {
            let stored = |transposed: bool, rows, cols| dims(&if transposed { [cols, rows] } else { [rows, cols] });
            (
                vec![("m", p.m), ("n", p.n), ("k", p.k)],
                vec![],
                vec![
                    ("a", stored(p.layout.a_transposed(), p.m, p.k)),
                    ("b", stored(p.layout.b_transposed(), p.k, p.n)),
                ],
                vec![("c", dims(&[p.m, p.n]))],
            )
        }
        Problem::Softmax(p) => (
            vec![("m", p.m), ("n", p.n)],
            vec![],
            vec![("x", dims(&[p.m, p.n]))],
            vec![("y", dims(&[p.m, p.n]))],
        ),
    };
    let inputs = inputs.into_iter().enumerate().map(|(n, (name, dims))| Input {
        name,
        dims,
        spread: if n == 0 { spread } else { 1.0 },
    });
    Ok(Example {
        label: format!("{text} ({which})"),
        kernel: trace(&problem)?,
        schedule,
        runtime: runtime.into_iter().map(|(name, v)| (name, i64::from(v))).collect(),
        scalars,
        inputs: inputs.collect(),
        outputs,
        tolerance: 0.0,
    })
}

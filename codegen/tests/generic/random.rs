//! Any legal schedule gives the same result: random schedules of the shipped kernels, simulated and compared.
//!
//! `WARPWRIGHT_RANDOM_SCHEDULES` sets how many legal schedules each kernel gets (default 10); CI keeps it small.

use dsl::schedule::Schedule;
use dsl::{DType, Kernel};
use kernels::{attention, gemm, row_softmax};
use testkit::schedules::{Dice, Drawn};

use crate::harness::Case;

fn wanted() -> usize {
    std::env::var("WARPWRIGHT_RANDOM_SCHEDULES")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(10)
}

/// Draws schedules until enough are legal; every refusal must say why.
fn every_legal_schedule(label: &str, kernel: &Kernel, drawn: Drawn, run: impl Fn(Case, usize)) {
    let (mut dice, mut legal, mut refused) = (Dice::new(0x5eed), 0, 0);
    while legal < wanted() {
        let text = drawn.draw(&mut dice);
        let schedule: Schedule =
            dsl::schedule::text::parse_for(&text, kernel).unwrap_or_else(|e| panic!("{e}\n{text}"));
        match Case::legal(kernel, &schedule) {
            Ok(case) => {
                legal += 1;
                println!("{label} {legal}: {}", text.replace('\n', " "));
                run(case, legal);
            }
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains("allowed"), "{e}");
            }
        }
        assert!(
            refused < 40 * wanted(),
            "{label}: {refused} schedules refused, {legal} legal"
        );
    }
    println!("{label}: {legal} legal schedules agree, {refused} refused");
}

fn attention_agrees(spec: attention::Spec, tolerance: f64) {
    let kernel = attention::forward(spec).unwrap();
    let mask = if spec.causal { "causal" } else { "full" };
    let label = &format!("attention {} d{} {mask}", spec.dtype, spec.head_dim);
    let d = spec.head_dim as usize;
    every_legal_schedule(label, &kernel, Drawn::Attention, |case, number| {
        // Every other case has logits that leave the safe range of a fixed reference.
        let (q, kv) = (150, 210);
        let sizes = [
            ("batch", 1),
            ("q_len", q),
            ("kv_len", kv),
            ("heads", 4),
            ("kv_heads", 2),
            ("group", 2),
        ];
        let mut case = sizes.iter().fold(case, |c, (n, v)| c.runtime(n, *v as i64));
        case = case.scalar("scale_log2", 0.18 * 8.0 / (d as f64).sqrt()).input(
            "q",
            &[1, q, 4, d],
            if number % 2 == 0 { 1.0 } else { 40.0 },
        );
        case = case.input("k", &[1, kv, 2, d], 1.0).input("v", &[1, kv, 2, d], 1.0);
        case.output("o", &[1, q, 4, d])
            .output("lse", &[1, 4, q])
            .check_seeds(label, tolerance, 1);
    });
}

fn attention(dtype: DType, head_dim: u32) {
    let tolerance = if dtype == DType::F16 { 1e-3 } else { 6e-3 };
    for causal in [false, true] {
        let spec = attention::Spec {
            dtype,
            head_dim,
            causal,
        };
        attention_agrees(spec, tolerance);
    }
}

#[test]
fn attention_bf16_d64() {
    attention(DType::Bf16, 64);
}

#[test]
fn attention_f16_d64() {
    attention(DType::F16, 64);
}

#[test]
fn attention_bf16_d128() {
    attention(DType::Bf16, 128);
}

#[test]
fn attention_f16_d128() {
    attention(DType::F16, 128);
}

#[test]
fn attention_bf16_d256() {
    attention(DType::Bf16, 256);
}

#[test]
fn gemm_in_every_layout() {
    for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
        let kernel = gemm::gemm(gemm::Spec {
            dtype: DType::Bf16,
            a_transposed,
            b_transposed,
        })
        .unwrap();
        every_legal_schedule("gemm", &kernel, Drawn::Gemm, |case, _| {
            let (m, n, k) = (144, 136, 200);
            let stored = |t: bool, r: usize, c: usize| if t { [c, r] } else { [r, c] };
            let case = case
                .runtime("m", m as i64)
                .runtime("n", n as i64)
                .runtime("k", k as i64);
            let case = case
                .input("a", &stored(a_transposed, m, k), 1.0)
                .input("b", &stored(b_transposed, k, n), 1.0);
            case.output("c", &[m, n]).check_seeds("gemm", 4e-3, 1);
        });
    }
}

#[test]
fn row_softmax_in_two_folds() {
    let kernel = row_softmax::row_softmax(DType::Bf16).unwrap();
    every_legal_schedule("row_softmax", &kernel, Drawn::RowSoftmax, |case, _| {
        let case = case.runtime("m", 150).runtime("n", 264).input("x", &[150, 264], 3.0);
        case.output("y", &[150, 264]).check_seeds("row_softmax", 4e-3, 1);
    });
}

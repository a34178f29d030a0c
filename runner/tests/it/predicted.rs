//! Predictions: whole launches of real kernels, by what is known of the hardware.

use codegen::target::SM_90A;
use codegen::{Instrument, Options, compile, compile_with};
use dsl::schedule::text;
use warpwright_runner::predict::{Model, Prediction, predict, timeline};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::{Case, SimDevice, SimOptions, stamps};

use crate::cases::problem;

fn predicted(problem_text: &str, schedule: &str) -> Prediction {
    let problem = problem(problem_text);
    let schedule = match schedule {
        "shipped" => shipped_for(&problem).unwrap(),
        text => text::parse(text).unwrap_or_else(|e| panic!("{e}")),
    };
    let case = Case::new(&problem).unwrap();
    let compiled = compile(case.kernel(), &schedule, &SM_90A).unwrap();
    predict(&problem, &compiled, &Model::default()).unwrap()
}

fn attention(q: u32, kv: u32, fold: &str) -> String {
    format!("[tiles]\nq_tile = {q}\nkv_tile = {kv}\n[folds.kv]\n{fold}\n[stores.o]\nbuffer = \"q\"\n")
}

const LONG: &str = "fwd bf16 b1 s16384 h16 d128 full";

/// SM cycles per microsecond over the clock that the monitor reads: median of 288 windows of
/// `benches/results/2026-12-01-cycles-h200.jsonl`.
const TICKS: f64 = 0.90;

/// Kernels, cycles and clock of `benches/results/README.md`: TFLOP/s and MHz, sustained, FLOPs per TFLOP.
const RECORDS: [(&str, f64, f64); 6] = [
    ("fwd bf16 b8 s4096 h16 d128 full", 670.4, 1590.0),
    ("fwd bf16 b2 s16384 h16 d128 full", 739.3, 1568.0),
    ("fwd bf16 b2 s16384 h32 d64 full", 576.8, 1748.0),
    ("fwd bf16 b2 s16384 h32 d64 causal", 543.7, 1732.0),
    ("fwd bf16 b2 s16384 h8 d256 full", 742.3, 1598.0),
    ("gemm bf16 m8192 n8192 k8192 nt", 671.3, 1432.0),
];

#[test]
fn recorded_kernels_take_about_the_predicted_cycles_and_clock() {
    for (text, tflops, monitor_mhz) in RECORDS {
        let mhz = TICKS * monitor_mhz;
        let flops = Case::new(&problem(text)).unwrap().work().flops as f64;
        let measured = flops / (tflops * 1e12) * mhz * 1e6;
        let p = predicted(text, "shipped");
        assert!(p.simulated);
        assert!(
            (p.cycles / measured - 1.0).abs() < 0.08,
            "{text}: {} for {measured}",
            p.cycles
        );
        assert!(
            (p.sustained_mhz / mhz - 1.0).abs() < 0.08,
            "{text}: {} MHz",
            p.sustained_mhz
        );
    }
}

#[test]
fn three_consumers_win_sustained_and_the_square_tile_wins_bursts() {
    let fixed = |q, kv| predicted(LONG, &attention(q, kv, "rescale = \"fixed\""));
    let (wide, square, long) = (fixed(192, 80), fixed(128, 128), fixed(128, 176));
    assert!(wide.sustained_us < square.sustained_us, "{wide:?} {square:?}");
    assert!(wide.sustained_us < long.sustained_us, "{wide:?} {long:?}");
    assert!(square.burst_us < wide.burst_us && square.burst_us < long.burst_us);
    // Why: the square tile reads each key for fewer rows, which costs energy.
    assert!(wide.sustained_mhz > square.sustained_mhz);
    assert!(wide.words.contains("tensor core"), "{}", wide.words);
}

#[test]
fn cheaper_rescaling_is_not_slower() {
    let at = |fold: &str| predicted(LONG, &attention(128, 128, fold)).cycles;
    let (exact, lazy, fixed) = (
        at("rescale = \"exact\""),
        at("rescale = \"lazy\""),
        at("rescale = \"fixed\""),
    );
    assert!(fixed < lazy && lazy < exact, "{fixed} {lazy} {exact}");
}

#[test]
fn small_heads_are_bound_by_exponentials() {
    let p = predicted("fwd bf16 b1 s16384 h32 d64 full", "shipped");
    let of = |name: &str| p.occupancy.iter().find(|(n, _)| n == name).unwrap().1;
    assert!(of("tensor core") < 0.8 && of("MUFU") > 0.5, "{:?}", p.occupancy);
}

#[test]
fn a_prediction_and_its_timeline_repeat() {
    let text = "fwd bf16 b1 s8192 h16 d128 causal";
    assert_eq!(predicted(text, "shipped"), predicted(text, "shipped"));
    let problem = problem(text);
    let case = Case::new(&problem).unwrap();
    let compiled = compile(case.kernel(), &shipped_for(&problem).unwrap(), &SM_90A).unwrap();
    let report = timeline(&problem, &compiled, &Model::default()).unwrap();
    let labels: Vec<&str> = report
        .spans
        .iter()
        .map(|s| report.labels[s.label as usize].as_str())
        .collect();
    for wanted in ["issue s", "issue o", "acquire k", "acquire v"] {
        assert!(labels.iter().any(|l| l.starts_with(wanted)), "{wanted}");
    }
}

#[test]
fn an_instrumented_kernel_stamps_every_role_and_block() {
    let problem = problem("fwd bf16 b1 s300x200 h4/2 d64 causal");
    let case = Case::new(&problem).unwrap();
    let options = Options {
        instrument: Instrument::Blocks,
    };
    let schedule = shipped_for(&problem).unwrap();
    let compiled = compile_with(case.kernel(), &schedule, &SM_90A, options).unwrap();
    let device = SimDevice::new(SimOptions::default());
    let code = warpwright_runner::device::Image {
        ptx: &compiled.ptx.0,
        cubin: None,
    };
    let words = stamps::of_launch(&device, &case, (&code, &compiled.launch)).unwrap();
    let ctas = stamps::parse(&compiled.launch, &words).unwrap();
    assert_eq!(ctas.len(), 4);
    let mut blocks = vec![0; compiled.program.consumers as usize + 1];
    for cta in &ctas {
        for (role, blocks) in cta.roles.iter().zip(&mut blocks) {
            assert!(role.end > cta.start, "{cta:?}");
            let inside = |(begin, end): &(u64, u64)| cta.start <= *begin && begin < end && *end <= role.end;
            assert!(role.blocks.iter().all(inside), "{role:?}");
            *blocks += role.blocks.len();
        }
    }
    // Two blocks of 192 rows for each of 4 heads.
    assert_eq!(blocks, vec![8; 4]);
}

//! How long each stage of one compilation takes, how the whole grows with the tiles and the stages, and two bars: the
//! median of a whole compilation and the peak memory of a process that does nothing else.
//!
//! `cargo bench --bench compile`. The bars are measured in processes of their own, after the stages; the bench fails
//! when one is missed.

#![expect(
    clippy::expect_used,
    reason = "a bench stops at the first input that does not compile"
)]

use std::env;
use std::fmt::Display;
use std::fs;
use std::hint::black_box;
use std::io;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use codegen::target::SM_90A;
use codegen::{check, emit, lower, plan, ptx, rewrite};
use criterion::{BatchSize, BenchmarkId, Criterion};
use dsl::schedule::{Schedule, text};
use dsl::{DType, Kernel};
use kernels::schedules::TABLE;

/// Of the whole compilation of one candidate.
const MEDIAN_BAR_MS: f64 = 20.0;
const PEAK_BAR_MB: f64 = 200.0;
const BAR_RUNS: usize = 31;
/// Names the case that a child process measures.
const BAR_ENV: &str = "WARPWRIGHT_BENCH_BAR";

/// A kernel and how it is scheduled.
struct Case {
    name: &'static str,
    trace: fn() -> Kernel,
    schedule: Schedule,
}

impl Case {
    /// The name with the tile sizes, in the order of the schedule.
    fn label(&self) -> String {
        let tiles: Vec<String> = self
            .schedule
            .tiles
            .iter()
            .map(|(name, size)| format!("{name}={size}"))
            .collect();
        format!("{} {}", self.name, tiles.join(" "))
    }

    /// Tracing, and everything up to PTX and launch facts.
    fn compile(&self) -> codegen::Compiled {
        codegen::compile(&(self.trace)(), &self.schedule, &SM_90A).expect("a shipped schedule compiles")
    }
}

fn attention(head_dim: u32, causal: bool) -> Kernel {
    let spec = kernels::attention::Spec {
        dtype: DType::Bf16,
        head_dim,
        causal,
    };
    kernels::attention::forward(spec).expect("the kernel traces")
}

fn gemm() -> Kernel {
    let spec = kernels::gemm::Spec {
        dtype: DType::Bf16,
        a_transposed: false,
        b_transposed: false,
    };
    kernels::gemm::gemm(spec).expect("the kernel traces")
}

fn shipped(name: &str) -> Schedule {
    let entry = TABLE
        .iter()
        .find(|entry| entry.name == name)
        .expect("a schedule of this name is shipped");
    text::parse(entry.text).expect("a shipped schedule parses")
}

fn cases() -> Vec<Case> {
    vec![
        Case {
            name: "d128 full",
            trace: || attention(128, false),
            schedule: shipped("attention_d128_full"),
        },
        Case {
            name: "d128 causal",
            trace: || attention(128, true),
            schedule: shipped("attention_d128_causal"),
        },
        Case {
            name: "d256 full",
            trace: || attention(256, false),
            schedule: shipped("attention_d256_full"),
        },
        Case {
            name: "d256 causal",
            trace: || attention(256, true),
            schedule: shipped("attention_d256_causal"),
        },
        Case {
            name: "gemm nn",
            trace: gemm,
            schedule: shipped("gemm"),
        },
    ]
}

/// One group per case, one line per stage.
fn stages(criterion: &mut Criterion) {
    for case in cases() {
        let kernel = (case.trace)();
        let scheduled = rewrite::run(plan::apply(&kernel, &case.schedule, &SM_90A).expect("the schedule is legal"));
        let program = lower::lower(&scheduled, &SM_90A).expect("the kernel is lowered");
        let mut group = criterion.benchmark_group(case.label());
        group.bench_function("1 trace", |b| b.iter(|| (case.trace)()));
        group.bench_function("2 validate", |b| {
            b.iter_batched(|| kernel.clone(), dsl::validate, BatchSize::SmallInput)
        });
        group.bench_function("3 plan and rewrite", |b| {
            b.iter(|| plan::apply(black_box(&kernel), &case.schedule, &SM_90A).map(rewrite::run));
        });
        group.bench_function("4 lower", |b| b.iter(|| lower::lower(black_box(&scheduled), &SM_90A)));
        match check::check(&program, &SM_90A) {
            Ok(_) => {
                group.bench_function("5 check", |b| {
                    b.iter(|| check::check(black_box(&program), &SM_90A).is_ok())
                });
            }
            Err(found) => skip(
                &format!("{}: 5 check", case.name),
                &format!("{} violations: {:?}", found.len(), found.first()),
            ),
        }
        if let Ok(checked) = check::check(&program, &SM_90A) {
            group.bench_function("6 emit and write", |b| {
                b.iter(|| ptx::write(&emit::emit(black_box(&checked), vec![], SM_90A.name)))
            });
        }
        group.bench_function("7 whole", |b| b.iter(|| case.compile()));
        group.finish();
    }
}

/// The whole compilation against the number of unrolled columns, and against the slots of the rings.
fn growth(criterion: &mut Criterion) {
    let kernel = attention(128, false);
    let points = (32..=176).step_by(16).map(|kv_tile| (kv_tile, None));
    grow(criterion, "d128 full q_tile=128 by kv_tile", &kernel, points);
    let points = (2..=6).map(|stages| (32, Some(stages)));
    grow(criterion, "d128 full q_tile=128 kv_tile=32 by stages", &kernel, points);
}

fn grow(criterion: &mut Criterion, name: &str, kernel: &Kernel, points: impl Iterator<Item = (u32, Option<u32>)>) {
    let mut group = criterion.benchmark_group(name);
    for (kv_tile, stages) in points {
        let schedule = grown(kv_tile, stages);
        let point = stages.unwrap_or(kv_tile);
        match codegen::compile(kernel, &schedule, &SM_90A) {
            Ok(compiled) => {
                println!(
                    "{name} {point}: {} lines of PTX",
                    compiled.ptx.to_string().lines().count()
                );
                let id = BenchmarkId::from_parameter(format!("{point:03}"));
                group.bench_function(id, |b| {
                    b.iter(|| codegen::compile(black_box(kernel), &schedule, &SM_90A))
                });
            }
            Err(refused) => skip(&format!("{name} {point}"), &refused),
        }
    }
    group.finish();
}

fn grown(kv_tile: u32, stages: Option<u32>) -> Schedule {
    let mut toml = format!(
        "[tiles]\nq_tile = 128\nkv_tile = {kv_tile}\n[folds.kv]\nrescale = \"fixed\"\n[stores.o]\nbuffer = \"q\"\n"
    );
    if let Some(stages) = stages {
        toml += &format!("[loads.k]\nstages = {stages}\n[loads.v]\nstages = {stages}\n");
    }
    text::parse(&toml).expect("the schedule parses")
}

fn skip(what: &str, why: &dyn Display) {
    println!("SKIP {what}: {why}");
}

/// What a child process measured of one case.
struct Bar {
    median_ms: f64,
    peak_mb: f64,
}

/// Compiles one case repeatedly; the answer of a child process.
fn measure(case: &Case) -> io::Result<Bar> {
    let mut times_ms: Vec<f64> = (0..BAR_RUNS)
        .map(|_| {
            let begin = Instant::now();
            black_box(case.compile());
            begin.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    times_ms.sort_by(f64::total_cmp);
    let status = fs::read_to_string("/proc/self/status")?;
    // `VmHWM:     5232 kB`, in units of 1024 bytes.
    let peak = status.lines().find_map(|line| {
        line.strip_prefix("VmHWM:")?
            .trim()
            .strip_suffix(" kB")?
            .parse::<f64>()
            .ok()
    });
    let peak_mb = peak.ok_or_else(|| io::Error::other("no VmHWM"))? * 1024.0 / 1e6;
    Ok(Bar {
        median_ms: times_ms[BAR_RUNS / 2],
        peak_mb,
    })
}

/// Measures one case in a process of its own.
fn measure_apart(case: &Case) -> io::Result<Bar> {
    let output = Command::new(env::current_exe()?).env(BAR_ENV, case.name).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let numbers: Vec<f64> = text.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    match numbers[..] {
        [median_ms, peak_mb] if output.status.success() => Ok(Bar { median_ms, peak_mb }),
        _ => Err(io::Error::other(format!("{}: the child said '{text}'", case.name))),
    }
}

/// Every case against both bars; false when one is missed.
fn bars() -> io::Result<bool> {
    let mut all_met = true;
    for case in cases() {
        let bar = measure_apart(&case)?;
        let is_met = bar.median_ms <= MEDIAN_BAR_MS && bar.peak_mb <= PEAK_BAR_MB;
        let word = if is_met { "met" } else { "MISSED" };
        println!(
            "bar {}: median {:.2} ms (bar {MEDIAN_BAR_MS}), peak {:.1} MB (bar {PEAK_BAR_MB}): {word}",
            case.label(),
            bar.median_ms,
            bar.peak_mb
        );
        all_met &= is_met;
    }
    Ok(all_met)
}

fn main() -> io::Result<ExitCode> {
    if let Ok(name) = env::var(BAR_ENV) {
        let case = cases().into_iter().find(|case| case.name == name);
        let bar = measure(&case.ok_or_else(|| io::Error::other("no such case"))?)?;
        println!("{} {}", bar.median_ms, bar.peak_mb);
        return Ok(ExitCode::SUCCESS);
    }
    let criterion = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(100))
        .measurement_time(Duration::from_millis(500));
    let mut criterion = criterion.configure_from_args();
    stages(&mut criterion);
    growth(&mut criterion);
    criterion.final_summary();
    // Without `--bench`, criterion only tries each function once; an unoptimised build says nothing about the bars.
    if !env::args().any(|arg| arg == "--bench") {
        return Ok(ExitCode::SUCCESS);
    }
    Ok(if bars()? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

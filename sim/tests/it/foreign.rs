//! The two foreign kernels compute attention and break no rule.

use warpwright_sim::{ARows, DeviceConfig, FindingKind};

use super::attention::{CAUSAL, FULL, Problem, Sample, inputs, reference, relative_error, run};

/// The bound that kernels on a GPU meet too.
const MAX_RELATIVE_ERROR: f64 = 4e-3;

fn check(sample: &Sample, p: &Problem, seeds: std::ops::Range<u64>) {
    let wanted = reference(p, &inputs(p));
    for seed in seeds {
        let run = run(
            sample,
            sample.text,
            p,
            DeviceConfig {
                seed,
                a_rows: ARows::OwnWarp,
                ..DeviceConfig::default()
            },
        );
        let report = run
            .result
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}\n{:#?}", fault.all()));
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "seed {seed}:\n{}", findings.join("\n"));
        assert_eq!(run.unwritten, 0, "seed {seed}");
        let error = relative_error(&run.out, &wanted);
        assert!(error < MAX_RELATIVE_ERROR, "seed {seed}: relative error {error}");
    }
}

#[test]
fn full_192x80() {
    check(
        &FULL,
        &Problem {
            batch: 1,
            heads: 2,
            kv_heads: 1,
            q_len: 384,
            k_len: 384,
            causal: false,
        },
        0..3,
    );
}

#[test]
fn full_192x80_ragged() {
    check(
        &FULL,
        &Problem {
            batch: 2,
            heads: 1,
            kv_heads: 1,
            q_len: 200,
            k_len: 100,
            causal: false,
        },
        0..3,
    );
}

#[test]
fn causal_128x128_dynamic() {
    check(
        &CAUSAL,
        &Problem {
            batch: 1,
            heads: 8,
            kv_heads: 8,
            q_len: 256,
            k_len: 256,
            causal: true,
        },
        0..3,
    );
}

/// A find in the first sample: each consumer warp stores its 16 rows of O over Q after its own
/// `wgmma.wait_group`, without a barrier of the warpgroup, while the ISA lets the other three warps
/// still read those rows as part of the A operand. Hardware forgives it because each warp's tensor
/// core reads only its own 16 rows.
#[test]
fn full_192x80_overwrites_q_without_a_warpgroup_barrier() {
    let p = Problem {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        q_len: 192,
        k_len: 160,
        causal: false,
    };
    let run = run(
        &FULL,
        FULL.text,
        &p,
        DeviceConfig {
            seed: 1,
            ..DeviceConfig::default()
        },
    );
    let findings = run.result.unwrap().findings;
    assert!(!findings.is_empty());
    for finding in &findings {
        assert!(matches!(finding.kind, FindingKind::OverwriteInUse { .. }), "{finding}");
        assert!((737..=744).contains(&finding.site.line), "{finding}");
    }
}

/// The speed bar, with a wide margin for debug builds and busy machines; the release build takes a
/// small part of it.
#[test]
fn one_head_of_384_takes_less_than_two_seconds() {
    let p = Problem {
        batch: 1,
        heads: 1,
        kv_heads: 1,
        q_len: 384,
        k_len: 384,
        causal: false,
    };
    let start = std::time::Instant::now();
    let report = run(&FULL, FULL.text, &p, DeviceConfig::default()).result.unwrap();
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "{seconds:.3} s for {} warp instructions and {} wgmma",
        report.warp_instructions, report.wgmma
    );
    assert!(seconds < if cfg!(debug_assertions) { 20.0 } else { 2.0 }, "{seconds} s");
}

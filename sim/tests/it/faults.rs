//! Every planted fault is found, and the good kernels are sound.

use warpwright_sim::{Fault, FindingKind};

use super::attention::{CAUSAL, FULL, run};
use super::planted::{CASES, UNWRITTEN, config, mutate, problem};

/// Seeds per planted fault and per original; fewer where the build is slow.
const FAULT_SEEDS: u64 = if cfg!(debug_assertions) { 1 } else { 3 };
const SOUND_SEEDS: u64 = if cfg!(debug_assertions) { 4 } else { 20 };

#[test]
fn every_planted_fault_is_found_under_every_seed() {
    let mut missed = Vec::new();
    for case in CASES {
        let text = mutate(case);
        for seed in 0..FAULT_SEEDS {
            let run = run(case.sample, &text, &problem(case.sample), config(seed));
            let kinds: Vec<FindingKind> = match &run.result {
                Ok(report) => report.findings.iter().map(|f| f.kind.clone()).collect(),
                Err(Fault::Launch { reason, .. }) => panic!("{}: {reason}", case.name),
                Err(fault) => fault.all().into_iter().map(|f| f.kind.clone()).collect(),
            };
            let found = kinds.iter().any(case.wanted) || (case.name == UNWRITTEN && run.unwritten > 0);
            if !found {
                let found: Vec<String> = kinds.iter().map(ToString::to_string).collect();
                missed.push(format!("{} (seed {seed}): found {found:#?}", case.name));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn originals_are_sound_under_many_seeds() {
    for sample in [&FULL, &CAUSAL] {
        for seed in 0..SOUND_SEEDS {
            let report = run(sample, sample.text, &problem(sample), config(seed)).result.unwrap();
            let found: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
            assert!(found.is_empty(), "seed {seed}: {found:#?}");
        }
    }
}

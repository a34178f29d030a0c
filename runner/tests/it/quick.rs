//! Quick verification: every family on a smaller problem, the timed one on the problem itself, and a record of both.

use codegen::target::SM_90A;
use oracle::inputs::Family;
use oracle::problem::smaller;
use warpwright_runner::Assembler;
use warpwright_runner::device::{Device, SimDevice, SimOptions};
use warpwright_runner::evaluate::{Candidate, build, load};
use warpwright_runner::record::ComparisonRecord;
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::verify::{Checked, QuickTruths, VerifyError, verify_quick};

use crate::cases::problem;
use crate::tamper::{Plant, Tamper};

/// Its smaller problem has 1044 rows.
const LONG: &str = "softmax bf16 m1300 n8";

fn quick<D: Device>(device: &D, text: &str) -> Result<Vec<Checked>, VerifyError> {
    let problem = problem(text);
    let candidate = Candidate::new(problem, shipped_for(&problem).unwrap());
    let build = build(&candidate, &Assembler::default(), &SM_90A, None).unwrap();
    let prepared = load(device, &build).unwrap();
    let verified = verify_quick(device, (&prepared, &build.case), &mut QuickTruths::new())?;
    Ok(verified.checked().to_vec())
}

fn families(checked: &Checked) -> Vec<Family> {
    checked.families.iter().map(|f| f.family).collect()
}

#[test]
fn every_family_passes_on_a_smaller_problem_and_the_timed_one_on_the_problem_itself() {
    let device = SimDevice::new(SimOptions::default());
    let found = quick(&device, LONG).unwrap();
    let problems: Vec<String> = found.iter().map(|c| c.problem.to_string()).collect();
    assert_eq!(problems, ["softmax bf16 m1044 n8", LONG]);
    assert_eq!(families(&found[0]), Family::ALL);
    assert_eq!(families(&found[1]), [Family::Normal]);
    assert_eq!(found[1].families[0].rows_f64, 1300);
    // A problem that is small already is verified on every family itself.
    let small = quick(&device, "softmax bf16 m70 n72").unwrap();
    assert_eq!((small.len(), families(&small[0])), (1, Family::ALL.to_vec()));
}

#[test]
fn a_fault_of_either_size_is_found_and_told_by_its_problem() {
    // The second row exists on the problem itself only.
    for (row, where_found) in [(1040, "softmax bf16 m1044 n8"), (1200, LONG)] {
        let device = Tamper::new(SimDevice::new(SimOptions::default()), Plant::Row(row));
        let Err(VerifyError::Wrong(report)) = quick(&device, LONG) else {
            panic!("row {row}: not found")
        };
        assert_eq!(report.problem.to_string(), where_found);
    }
}

#[test]
fn smaller_problems_are_legal_short_and_keep_their_tails() {
    for (text, short) in [
        (
            "fwd bf16 b8 s32768 h32/8 d128 causal",
            "fwd bf16 b2 s1024 h4/2 d128 causal",
        ),
        ("fwd f16 b1 s1x33001 h8/1 d64 full", "fwd f16 b1 s1x1257 h2/1 d64 full"),
        ("gemm bf16 m8200 n8192 k520 nt", "gemm bf16 m1032 n1024 k520 nt"),
        ("softmax bf16 m70 n72", "softmax bf16 m70 n72"),
    ] {
        let found = smaller(&problem(text));
        assert_eq!(found.to_string(), short);
        assert_eq!((found.check(), smaller(&found)), (Ok(found), found));
    }
}

#[test]
fn records_from_before_verification_was_kept_are_still_read() {
    let lines = include_str!("../../../benches/results/2026-12-01-cli-bench-h200.jsonl");
    for line in lines.lines() {
        let record: ComparisonRecord = serde_json::from_str(line).unwrap();
        assert!(!record.contestants.is_empty());
        assert!(record.contestants.iter().all(|c| c.timing.verified.is_empty()));
        assert_eq!(record.plan.budget.sampled_most, u64::MAX);
    }
}

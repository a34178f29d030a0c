//! The whole path on the simulator: real kernels, real schedules, the oracle's gate.

use codegen::target::SM_90A;
use oracle::inputs::Family;
use warpwright_runner::device::{SimDevice, SimOptions};
use warpwright_runner::evaluate::{self, Bench, Candidate, evaluate_untimed};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::{Assembler, LayoutRule, Outcome, Truths, VerifyPlan};

use crate::cases::problem;

fn simulate(text: &str, layout: LayoutRule) -> Outcome {
    let problem = problem(text);
    let mut candidate = Candidate::new(problem, shipped_for(&problem).unwrap());
    candidate.layout = layout;
    let plan = VerifyPlan {
        families: vec![Family::Normal],
        ..VerifyPlan::default()
    };
    let bench = Bench {
        device: &SimDevice::new(SimOptions::default()),
        assembler: &Assembler::default(),
        target: &SM_90A,
        verify: &plan,
    };
    evaluate_untimed(&bench, &candidate, &mut Truths::new()).outcome
}

#[test]
fn shipped_schedules_are_right_on_the_simulator() {
    for (text, layout) in [
        ("softmax bf16 m70 n200", LayoutRule::Dense),
        ("gemm f16 m130 n264 k72 nt", LayoutRule::Padded),
        ("fwd bf16 b1 s100x90 h2/1 d128 full", LayoutRule::Permuted),
        ("fwd bf16 b1 s130x140 h2/1 d128 causal", LayoutRule::Dense),
    ] {
        let outcome = simulate(text, layout);
        let Outcome::Verified { simulated, .. } = outcome else {
            panic!("{text}: {outcome}")
        };
        assert!(simulated);
    }
}

/// One compiled kernel serves every batch, length, head count and group.
#[test]
fn one_kernel_serves_ten_lengths_and_groups() {
    let device = SimDevice::new(SimOptions::default());
    let schedule = shipped_for(&problem("fwd bf16 b1 s64 h1 d64 causal")).unwrap();
    let build = |text: &str| {
        let candidate = Candidate::new(problem(text), schedule.clone());
        evaluate::build(&candidate, &Assembler::default(), &SM_90A, None).unwrap()
    };
    let first = build("fwd bf16 b1 s64 h1 d64 causal");
    let prepared = evaluate::load(&device, &first).unwrap();
    let plan = VerifyPlan {
        families: vec![Family::Normal],
        ..VerifyPlan::default()
    };
    for text in [
        "fwd bf16 b1 s1 h1 d64 causal",
        "fwd bf16 b3 s17 h2/1 d64 causal",
        "fwd bf16 b1 s127x128 h4/4 d64 causal",
        "fwd bf16 b1 s128 h4/1 d64 causal",
        "fwd bf16 b2 s129x1 h8/2 d64 causal",
        "fwd bf16 b1 s1x300 h8/1 d64 causal",
        "fwd bf16 b1 s257x64 h2/2 d64 causal",
        "fwd bf16 b4 s64x65 h3/1 d64 causal",
        "fwd bf16 b1 s193x385 h6/2 d64 causal",
        "fwd bf16 b1 s320 h1 d64 causal",
    ] {
        let own = build(text);
        assert_eq!(own.compiled.ptx, first.compiled.ptx, "{text}");
        let verified = warpwright_runner::verify(&device, (&prepared, &own.case), &plan, &mut Truths::new());
        assert!(verified.is_ok(), "{text}: {:?}", verified.err());
    }
}

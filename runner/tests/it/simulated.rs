//! The whole path on the simulator: real kernels, real schedules, the oracle's gate.

use codegen::target::SM_90A;
use oracle::inputs::Family;
use warpwright_runner::device::{SimDevice, SimOptions};
use warpwright_runner::evaluate::{Bench, Candidate, evaluate_untimed};
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

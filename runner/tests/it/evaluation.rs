//! Every way an evaluation can end, on a fake device.

use codegen::target::SM_90A;
use oracle::inputs::Family;
use warpwright_runner::evaluate::{Bench, Candidate, evaluate, evaluate_untimed};
use warpwright_runner::record::{Record, append};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::{Assembler, LayoutRule, Outcome, Stage, TimePlan, Truths, VerifyPlan};

use crate::cases::{case, problem};
use crate::fake::{Fake, Mischief};

const SOFTMAX: &str = "softmax bf16 m6 n40";

fn candidate(text: &str, layout: LayoutRule) -> Candidate {
    let problem = problem(text);
    let mut candidate = Candidate::new(problem, shipped_for(&problem).unwrap());
    candidate.layout = layout;
    candidate
}

fn verify_plan() -> VerifyPlan {
    VerifyPlan {
        launches: 3,
        ..VerifyPlan::default()
    }
}

fn end(text: &str, layout: LayoutRule, mischief: Mischief, from_launch: u32) -> Outcome {
    let case = case(text).with_layouts(layout).unwrap();
    let device = Fake::new(&case, mischief, from_launch);
    let bench = Bench {
        device: &device,
        assembler: &Assembler::default(),
        target: &SM_90A,
        verify: &verify_plan(),
    };
    evaluate_untimed(&bench, &candidate(text, layout), &mut Truths::new()).outcome
}

#[test]
fn a_right_kernel_is_verified_on_every_family_and_layout() {
    for layout in LayoutRule::ALL {
        for text in [
            SOFTMAX,
            "fwd bf16 b2 s5x9 h4/2 d64 causal",
            "fwd f16 b1 s9x5 h2 d128 causal",
        ] {
            let Outcome::Verified { report, simulated } = end(text, layout, Mischief::None, 0) else {
                panic!("{text} {layout:?}: {}", end(text, layout, Mischief::None, 0))
            };
            assert!(simulated && report.families.len() == Family::ALL.len());
            assert!(report.families.iter().all(|f| f.repeatable && f.errors.is_some()));
        }
    }
}

#[test]
fn mischief_is_found_at_the_first_launch_and_later() {
    for from_launch in [0, 1, 5] {
        let at = |layout, mischief| end(SOFTMAX, layout, mischief, from_launch);
        let wrong = |mischief, text: &str| {
            let outcome = at(LayoutRule::Padded, mischief);
            assert!(matches!(outcome, Outcome::Wrong { .. }), "{mischief:?}: {outcome}");
            assert!(outcome.to_string().contains(text), "{mischief:?}: {outcome}");
        };
        wrong(Mischief::WrongValue, "above gate");
        wrong(Mischief::WritesNothing, "never written");
        wrong(Mischief::WritesInput, "of the input `x`");
        wrong(Mischief::WritesGap, "between the rows of `y`");
        assert!(matches!(
            at(LayoutRule::Dense, Mischief::OutOfBounds),
            Outcome::Fault(_)
        ));
        assert!(matches!(at(LayoutRule::Dense, Mischief::Fault), Outcome::Fault(_)));
        assert!(matches!(at(LayoutRule::Dense, Mischief::Hang), Outcome::Hang(_)));
        assert!(matches!(at(LayoutRule::Dense, Mischief::Race), Outcome::Race(_)));
    }
    assert!(end(SOFTMAX, LayoutRule::Dense, Mischief::Hang, 0).ends_process());
}

#[test]
fn dirty_scratch_is_a_fault() {
    let text = "fwd bf16 b1 s5 h2 d128 causal";
    let mut candidate = candidate(text, LayoutRule::Dense);
    candidate.schedule.grid.persistence = Some(dsl::schedule::Persistence::Dynamic);
    let device = Fake::new(&case(text), Mischief::DirtyScratch, 0);
    let bench = Bench {
        device: &device,
        assembler: &Assembler::default(),
        target: &SM_90A,
        verify: &verify_plan(),
    };
    let outcome = evaluate_untimed(&bench, &candidate, &mut Truths::new()).outcome;
    assert!(
        matches!(&outcome, Outcome::Fault(e) if e.message.contains("scratch 0 holds")),
        "{outcome}"
    );
}

#[test]
fn early_ends_name_their_stage() {
    let outcome = end(SOFTMAX, LayoutRule::Dense, Mischief::BadImage, 0);
    assert_eq!((outcome.name(), outcome.stage()), ("refused", Stage::Load));
    let outcome = end(SOFTMAX, LayoutRule::Dense, Mischief::OutOfMemory, 0);
    assert_eq!((outcome.name(), outcome.stage()), ("limit", Stage::Verify));
    let mut bad = candidate(SOFTMAX, LayoutRule::Dense);
    bad.schedule.tiles.insert("m_tile".into(), 7);
    let device = Fake::new(&case(SOFTMAX), Mischief::None, 0);
    let plan = verify_plan();
    let bench = Bench {
        device: &device,
        assembler: &Assembler::default(),
        target: &SM_90A,
        verify: &plan,
    };
    let outcome = evaluate_untimed(&bench, &bad, &mut Truths::new()).outcome;
    assert_eq!(
        (outcome.name(), outcome.stage()),
        ("refused", Stage::Compile),
        "{outcome}"
    );
    // 40 columns are rows of 80 bytes; 41 are not a multiple of 16.
    let outcome = end("softmax bf16 m6 n41", LayoutRule::Dense, Mischief::None, 0);
    assert_eq!(
        (outcome.name(), outcome.stage()),
        ("refused", Stage::Verify),
        "{outcome}"
    );
    assert!(outcome.to_string().contains("for example 48"), "{outcome}");
    // A tile store would write past each row's 41 columns, even where the row stride leaves room.
    let outcome = end("softmax bf16 m6 n41", LayoutRule::Aligned, Mischief::None, 0);
    assert!(outcome.to_string().contains("allowed: a multiple of 8"), "{outcome}");
    assert!(end("softmax bf16 m6 n40", LayoutRule::Aligned, Mischief::None, 0).is_right());
    let no_families = VerifyPlan {
        families: vec![],
        ..VerifyPlan::default()
    };
    let bench = Bench {
        verify: &no_families,
        ..bench
    };
    let outcome = evaluate_untimed(&bench, &candidate(SOFTMAX, LayoutRule::Dense), &mut Truths::new()).outcome;
    assert_eq!(outcome.name(), "refused");
}

#[test]
fn a_missing_assembler_is_not_assembled() {
    let candidate = candidate(SOFTMAX, LayoutRule::Dense);
    let built = warpwright_runner::compile_only(&candidate, &Assembler::default(), &SM_90A);
    let outcome = built.unwrap_err();
    assert_eq!((outcome.name(), outcome.stage()), ("not_assembled", Stage::Assemble));
    assert!(outcome.to_string().contains("prepare the folder"), "{outcome}");
}

#[test]
fn a_kernel_that_is_right_in_another_way_each_time_is_right_but_not_repeatable() {
    let Outcome::Verified { report, .. } = end(SOFTMAX, LayoutRule::Dense, Mischief::NotRepeatable, 0) else {
        panic!("{}", end(SOFTMAX, LayoutRule::Dense, Mischief::NotRepeatable, 0))
    };
    assert!(report.families.iter().all(|f| !f.repeatable));
}

#[test]
fn records_are_lines_that_read_back_as_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("records.jsonl");
    let candidate = candidate(SOFTMAX, LayoutRule::Padded);
    let case = case(SOFTMAX).with_layouts(LayoutRule::Padded).unwrap();
    let plan = TimePlan {
        window_us: 1000.0,
        rounds: 2,
        ..TimePlan::burst()
    };
    let mut written = Vec::new();
    for mischief in [Mischief::None, Mischief::WrongValue, Mischief::Hang] {
        let device = Fake::new(&case, mischief, 0);
        let bench = Bench {
            device: &device,
            assembler: &Assembler::default(),
            target: &SM_90A,
            verify: &verify_plan(),
        };
        let evaluation = evaluate(&bench, &candidate, &plan, &mut Truths::new());
        let record = Record::new(warpwright_runner::Device::facts(&device), &candidate, &evaluation);
        append(&path, &record).unwrap();
        written.push(record);
    }
    let names: Vec<_> = written.iter().map(|r| r.outcome.name()).collect();
    assert_eq!(names, ["timed", "wrong", "hang"]);
    let text = std::fs::read_to_string(&path).unwrap();
    let read: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(read, written);
    assert!(text.contains("\"outcome\":\"timed\"") && read[0].schedule.contains("m_tile = 64"));
    assert_eq!(read[0].ptx_blake3.as_ref().map(String::len), Some(64));
}

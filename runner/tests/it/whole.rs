//! The plain reference kernels against f64, and the gate on whole tensors.

use oracle::Problem;
use oracle::inputs::Family;
use oracle::reference::{
    AttentionData, GemmData, RowsReference, SoftmaxData, every_row, forward_f64, gemm_f64, sample_matrix, softmax_f64,
};
use tools::AssembleRequest;
use tools::testing::tools_or_skip;
use warpwright_runner::case::Case;
use warpwright_runner::device::{SimDevice, SimOptions};
use warpwright_runner::evaluate::{Bench, Candidate, evaluate_untimed};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::verify::{
    PLAIN_ARCH, PLAIN_KERNELS, PlainOutput, PlainRun, RowBudget, TensorSet, Truth, WholeRule, Wrong,
};
use warpwright_runner::{Assembler, Device, LayoutRule, Outcome, Truths, VerifyPlan};

use crate::cases::problem;
use crate::tamper::{Plant, Tamper};

/// Every row is judged in f64.
const EVERY_ROW: RowBudget = RowBudget {
    all_below: u64::MAX,
    per_head: 1,
    sampled_most: u64::MAX,
};

/// Rows are sampled at any size.
const FEW_ROWS: RowBudget = RowBudget {
    all_below: 0,
    per_head: 1,
    sampled_most: u64::MAX,
};

/// What the plain kernel makes of a problem's inputs, and the truth.
fn plain_and_truth(problem: &Problem, family: Family, layout: LayoutRule) -> (PlainOutput, RowsReference) {
    let case = Case::new(problem).unwrap().with_layouts(layout).unwrap();
    let device = SimDevice::new(SimOptions::default());
    let truth = Truth::new(problem, family, 3, EVERY_ROW).unwrap();
    let set = TensorSet::alloc(&device, &case).unwrap();
    set.write_inputs(&device, truth.inputs()).unwrap();
    let plain = PlainRun::new(&device, &case, &set).unwrap().run(&device).unwrap();
    let input = |i: usize| truth.inputs()[i].as_slice();
    let reference = match problem {
        Problem::Forward(p) => {
            let data = AttentionData::new(*p, p.default_scale_log2(), [input(0), input(1), input(2)]).unwrap();
            // In the order of the output's memory.
            let mut rows: Vec<_> = every_row(p).collect();
            rows.sort_by_key(|row| (row.batch, row.row, row.head));
            forward_f64(&data, &rows)
        }
        Problem::Gemm(p) => {
            let data = GemmData::new(*p, input(0), input(1)).unwrap();
            gemm_f64(&data, &sample_matrix(p, p.m, p.n, 0))
        }
        Problem::Softmax(p) => {
            let rows: Vec<u32> = (0..p.m).collect();
            softmax_f64(&SoftmaxData::new(*p, input(0)).unwrap(), &rows)
        }
    };
    (plain, reference.unwrap())
}

/// Largest row error by the oracle's definition, and largest scaled LSE error.
fn errors(problem: &Problem, plain: &PlainOutput, truth: &RowsReference) -> (f64, f64) {
    assert_eq!(plain.values.len(), truth.values.len());
    let roundoff = problem.dtype().unit_roundoff();
    let rows = plain.values.chunks(truth.width).zip(truth.values.chunks(truth.width));
    let row = |((found, truth), term): ((&[f32], &[f64]), &f64)| {
        let off: f64 = found.iter().zip(truth).map(|(f, t)| (f64::from(*f) - t).powi(2)).sum();
        let size: f64 = truth.iter().map(|t| t * t).sum();
        assert!(off.is_finite(), "an element is not finite");
        if off == 0.0 {
            0.0
        } else {
            off.sqrt() / size.sqrt().max(roundoff * term)
        }
    };
    let worst = rows.zip(&truth.term_norm).map(row).fold(0.0, f64::max);
    let mut lse_worst = 0.0;
    if let (Problem::Forward(p), Some(lse)) = (problem, &truth.lse) {
        for (row, truth) in truth.rows.iter().zip(lse) {
            let at = (row.batch * p.heads + row.head) * p.q_len + row.row;
            let found = f64::from(plain.lse[at as usize]);
            if found != *truth {
                lse_worst = f64::max(lse_worst, (found - truth).abs() / truth.abs().max(1.0));
            }
        }
    }
    (worst, lse_worst)
}

/// A small problem in every family: the plain kernel is within a small part of the 16-bit gate.
fn close_to_f64(text: &str, layout: LayoutRule) {
    let problem = problem(text);
    for family in Family::ALL {
        let (plain, truth) = plain_and_truth(&problem, family, layout);
        let (error, lse) = errors(&problem, &plain, &truth);
        println!("{text} {family}: error {error:.1e}, lse {lse:.1e}");
        let allowed = 0.05 * problem.dtype().unit_roundoff();
        assert!(
            error <= allowed,
            "{text} {family}: error {error:e}, allowed {allowed:e}"
        );
        assert!(lse <= 2e-6, "{text} {family}: lse {lse:e}");
    }
}

#[test]
fn plain_attention_is_close_to_f64() {
    for (text, layout) in [
        ("fwd bf16 b2 s37x150 h4/2 d64 full", LayoutRule::Dense),
        ("fwd bf16 b1 s70x50 h3/1 d128 causal", LayoutRule::Padded),
        ("fwd f16 b1 s33x65 h2 d256 causal", LayoutRule::Permuted),
        ("fwd f16 b2 s1x1 h1 d64 causal", LayoutRule::Dense),
    ] {
        close_to_f64(text, layout);
    }
}

#[test]
fn rows_that_see_no_key_are_zero() {
    let problem = problem("fwd bf16 b1 s70x50 h2 d128 causal");
    let (plain, _) = plain_and_truth(&problem, Family::Normal, LayoutRule::Dense);
    // 20 rows come before the first key that is seen; rows of two heads alternate.
    assert!(plain.values[..20 * 2 * 128].iter().all(|x| *x == 0.0));
    assert!(plain.lse[..20].iter().all(|x| *x == f32::NEG_INFINITY));
    assert!(plain.lse[20].is_finite() && plain.values[20 * 2 * 128..].iter().any(|x| *x != 0.0));
}

#[test]
fn plain_products_are_close_to_f64_in_every_layout() {
    for (text, layout) in [
        ("gemm bf16 m7 n136 k200 nn", LayoutRule::Dense),
        ("gemm f16 m9 n40 k72 nt", LayoutRule::Padded),
        ("gemm bf16 m16 n130 k65 tn", LayoutRule::Aligned),
        ("gemm f16 m33 n24 k70 tt", LayoutRule::Aligned),
    ] {
        close_to_f64(text, layout);
    }
}

#[test]
fn plain_softmax_is_close_to_f64() {
    close_to_f64("softmax bf16 m6 n200", LayoutRule::Padded);
    close_to_f64("softmax f16 m5 n8", LayoutRule::Dense);
}

fn end<D: Device>(device: &D, text: &str, plan: &VerifyPlan) -> Outcome {
    let problem = problem(text);
    let bench = Bench {
        device,
        assembler: &Assembler::default(),
        target: &codegen::target::SM_90A,
        verify: plan,
    };
    let candidate = Candidate::new(problem, shipped_for(&problem).unwrap());
    evaluate_untimed(&bench, &candidate, &mut Truths::new()).outcome
}

fn plan(budget: RowBudget, whole: WholeRule) -> VerifyPlan {
    VerifyPlan {
        families: vec![Family::Normal, Family::LateSpike],
        launches: 1,
        budget,
        whole,
        ..VerifyPlan::default()
    }
}

const PROBLEMS: [(&str, u64); 3] = [
    ("fwd bf16 b1 s150x130 h2/1 d64 causal", 300),
    ("gemm bf16 m140 n72 k72 nt", 140),
    ("softmax bf16 m300 n72", 300),
];

#[test]
fn sampling_brings_the_whole_check_and_the_report_counts_both() {
    for (text, rows) in PROBLEMS {
        for (budget, whole, wanted) in [
            (FEW_ROWS, WholeRule::WhenSampled, rows),
            (FEW_ROWS, WholeRule::Never, 0),
            (EVERY_ROW, WholeRule::WhenSampled, 0),
            (EVERY_ROW, WholeRule::Always, rows),
        ] {
            let device = SimDevice::new(SimOptions::default());
            let outcome = end(&device, text, &plan(budget, whole));
            let Outcome::Verified { report, .. } = &outcome else {
                panic!("{text}: {outcome}")
            };
            for family in &report.families {
                let (judged, compared) = family.rows_checked();
                assert_eq!(compared, wanted, "{text}");
                assert_eq!(judged < rows, budget == FEW_ROWS, "{text}: {judged} of {rows}");
            }
            let json = serde_json::to_string(&outcome).unwrap();
            assert_eq!(
                json.contains(&format!("\"whole\":{{\"rows\":{rows}")),
                wanted > 0,
                "{json}"
            );
            assert_eq!(serde_json::from_str::<Outcome>(&json).unwrap(), outcome);
        }
    }
}

#[test]
fn one_wrong_row_that_is_not_sampled_fails() {
    for (text, _) in PROBLEMS {
        // Rows that the samples of this seed do not hold.
        let (plants, row) = match problem(text) {
            Problem::Forward(_) => (&[Plant::Row(101), Plant::Lse(101)][..], 101),
            Problem::Gemm(_) => (&[Plant::Row(102)][..], 102),
            Problem::Softmax(_) => (&[Plant::Row(101)][..], 101),
        };
        for &plant in plants {
            let found = |whole| {
                let device = Tamper::new(SimDevice::new(SimOptions::default()), plant);
                end(&device, text, &plan(FEW_ROWS, whole))
            };
            let blind = found(WholeRule::Never);
            assert!(blind.is_right(), "{text} {plant:?}: the row was sampled: {blind}");
            let seen = found(WholeRule::WhenSampled);
            let Outcome::Wrong {
                report: Some(report), ..
            } = &seen
            else {
                panic!("{text} {plant:?}: {seen}")
            };
            let family = report.first_wrong().unwrap();
            assert_eq!(family.wrong, Some(Wrong::WholeTensor));
            let whole = family.whole.as_ref().unwrap();
            let worst = match plant {
                Plant::Row(_) => whole.worst,
                Plant::Lse(_) => whole.lse.unwrap().worst,
            };
            assert_eq!(worst.row, row, "{seen}");
            assert!(seen.to_string().contains("whole tensor FAIL"), "{seen}");
        }
    }
}

#[test]
fn committed_cubins_are_what_the_assembler_makes_of_the_text() {
    let Some(tools) = tools_or_skip("committed_cubins_are_what_the_assembler_makes_of_the_text").unwrap() else {
        return;
    };
    for code in PLAIN_KERNELS {
        let assembled = tools.assemble(&AssembleRequest::new(code.ptx, PLAIN_ARCH)).unwrap();
        let assembled = assembled.accept().unwrap();
        assert!(!assembled.resources.spills(), "{}", code.name);
        if std::env::var_os("WARPWRIGHT_WRITE_CUBINS").is_some() {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/verify/plain");
            std::fs::write(format!("{folder}/{}.{PLAIN_ARCH}.cubin", code.name), &assembled.cubin).unwrap();
        } else if tools.ptxas.version == tools::PtxasVersion::default().as_str() {
            assert!(
                assembled.cubin == code.cubin,
                "{}.ptx was changed: run this test with WARPWRIGHT_WRITE_CUBINS=1",
                code.name
            );
        }
    }
}

#[test]
fn long_sums_do_not_lose_low_bits() {
    // Equal weights and products: a sum in one pass loses bits of each addend, 4e-5 of the product here.
    for text in ["fwd bf16 b1 s2x6000 h1 d64 full", "gemm f16 m2 n8 k6000 nt"] {
        let problem = problem(text);
        let (plain, truth) = plain_and_truth(&problem, Family::ConstantRows, LayoutRule::Dense);
        let (error, lse) = errors(&problem, &plain, &truth);
        println!("{text}: error {error:.1e}, lse {lse:.1e}");
        assert!(error <= 5e-6 && lse <= 1e-6, "{text}: {error:e}, lse {lse:e}");
    }
}

//! The gate itself: degenerate outputs, LSE rules, records, and refusals to judge.

use warpwright_oracle::Dtype;
use warpwright_oracle::inputs::Family;
use warpwright_oracle::norms::{ErrorReport, Failure, GateError, judge, rms_floor};
use warpwright_oracle::reference::{RowId, RowsOutput, RowsReference, every_row, forward_f64, forward_plain};

use crate::candidate::{Case, Fault, Style};

fn one_row(values: &[f64], lse: f64) -> RowsReference {
    RowsReference {
        rows: vec![RowId {
            batch: 0,
            head: 2,
            row: 5,
        }],
        width: values.len(),
        values: values.to_vec(),
        lse: Some(vec![lse]),
        term_norm: vec![1.0],
    }
}

fn output(values: &[f32], lse: f32) -> RowsOutput {
    let bits = values.iter().map(|&x| Dtype::Bf16.encode(x)).collect::<Vec<_>>();
    RowsOutput {
        width: bits.len(),
        values: bits,
        lse: Some(vec![lse]),
    }
}

fn verdict(truth: &RowsReference, plain: &RowsOutput, seen: &RowsOutput) -> ErrorReport {
    judge(Dtype::Bf16, truth, plain, seen).unwrap()
}

#[test]
fn figures_are_relative_to_the_row() {
    let truth = one_row(&[3.0, 4.0], 0.0);
    let report = verdict(&truth, &output(&[3.0, 4.0], 0.0), &output(&[3.0, 4.5], 0.0));
    assert_eq!(report.max.value, 0.1);
    assert_eq!(report.rms.value, 0.1);
    // One row: nothing averages out, so the worst row's gate is the gate.
    assert_eq!(report.rms.gate, 1.0 / 128.0);
    assert_eq!(report.max.gate, 1.0 / 128.0);
    assert_eq!(
        report.worst,
        RowId {
            batch: 0,
            head: 2,
            row: 5
        }
    );
    assert_eq!(report.failures, [Failure::Rms, Failure::Max]);
    // A cancelled row is measured against ε·‖P‖·‖V‖ = 1/256.
    let cancelled = one_row(&[0.0, 0.0], 0.0);
    let report = verdict(
        &cancelled,
        &output(&[0.0, 0.0], 0.0),
        &output(&[0.0, 1.0 / 1024.0], 0.0),
    );
    assert_eq!(report.max.value, 0.25);
}

#[test]
fn a_worse_plain_result_widens_the_gate_by_a_quarter_only() {
    let truth = one_row(&[3.0, 4.0], 0.0);
    let plain = output(&[3.0, 4.25], 0.0);
    assert!(verdict(&truth, &plain, &output(&[3.0, 4.3125], 0.0)).passed());
    assert!(!verdict(&truth, &plain, &output(&[3.0, 4.34375], 0.0)).passed());
}

#[test]
fn lse_must_match_and_minus_infinity_only_itself() {
    let truth = one_row(&[1.0, 2.0], 10.0);
    let good = output(&[1.0, 2.0], 10.0);
    assert!(verdict(&truth, &good, &output(&[1.0, 2.0], 10.0001)).passed());
    for wrong in [10.0003, f32::NEG_INFINITY] {
        assert_eq!(
            verdict(&truth, &good, &output(&[1.0, 2.0], wrong)).failures,
            [Failure::Lse]
        );
    }
    let blind = RowsReference {
        term_norm: vec![0.0],
        ..one_row(&[0.0, 0.0], f64::NEG_INFINITY)
    };
    let zero = output(&[0.0, 0.0], f32::NEG_INFINITY);
    assert!(verdict(&blind, &zero, &zero).passed());
    assert!(verdict(&blind, &zero, &output(&[0.0, -0.0], f32::NEG_INFINITY)).passed());
    assert_eq!(
        verdict(&blind, &zero, &output(&[0.0, 0.0], -1e30)).failures,
        [Failure::Lse]
    );
    assert!(!verdict(&blind, &zero, &output(&[0.0, 1e-30], f32::NEG_INFINITY)).passed());
    let infinite = verdict(&truth, &good, &output(&[1.0, 2.0], f32::INFINITY));
    assert!(infinite.failures.contains(&Failure::NotFinite { elems: 1 }));
}

#[test]
fn poison_and_degenerate_outputs_are_named() {
    let truth = one_row(&[1.0, 2.0], 0.0);
    let good = output(&[1.0, 2.0], 0.0);
    let mut unwritten = good.clone();
    unwritten.values[1] = 0xffff;
    unwritten.lse = Some(vec![f32::from_bits(0xffff_ffff)]);
    let report = verdict(&truth, &good, &unwritten);
    assert!(report.failures.contains(&Failure::Unwritten { elems: 2 }), "{report}");
    assert!(
        verdict(&truth, &good, &output(&[0.0, -0.0], 0.0))
            .failures
            .contains(&Failure::AllZero)
    );
    let constant = verdict(&truth, &good, &output(&[1.5, 1.5], 0.0));
    assert!(constant.failures.contains(&Failure::Constant { value: 1.5 }));
    // Where the truth is constant, a constant is right.
    let flat = one_row(&[1.5, 1.5], 0.0);
    assert!(verdict(&flat, &output(&[1.5, 1.5], 0.0), &output(&[1.5, 1.5], 0.0)).passed());
}

/// A NaN in a row that was not sampled still fails the whole tensor.
#[test]
fn every_element_is_scanned_not_only_sampled_rows() {
    let case = Case::new("fwd bf16 b1 s64 h1 d64 full", Family::Normal, 1);
    let rows = every_row(&case.p).take(3).collect::<Vec<_>>();
    let (truth, plain) = (
        forward_f64(&case.data(), &rows).unwrap(),
        forward_plain(&case.data(), &rows).unwrap(),
    );
    let mut whole = case.run(
        Style {
            block: 64,
            reverse: false,
        },
        Fault::None,
    );
    let judge =
        |o: &[u16], lse: &[f32]| warpwright_oracle::norms::judge_attention(&case.p, &truth, &plain, (o, lse)).unwrap();
    assert!(judge(&whole.o, &whole.lse).passed());
    whole.o[50 * 64] = 0xffff;
    assert_eq!(judge(&whole.o, &whole.lse).failures, [Failure::Unwritten { elems: 1 }]);
    whole.lse[60] = f32::NAN;
    assert!(
        judge(&whole.o, &whole.lse)
            .failures
            .contains(&Failure::NotFinite { elems: 1 })
    );
}

#[test]
fn refuses_to_judge_nothing_or_by_a_broken_measure() {
    let truth = one_row(&[1.0, 2.0], 0.0);
    let good = output(&[1.0, 2.0], 0.0);
    let none = RowsReference {
        rows: vec![],
        width: 2,
        values: vec![],
        lse: Some(vec![]),
        term_norm: vec![],
    };
    let empty = RowsOutput {
        width: 2,
        values: vec![],
        lse: Some(vec![]),
    };
    assert!(matches!(
        judge(Dtype::Bf16, &none, &empty, &empty),
        Err(GateError::Nothing { .. })
    ));
    let short = output(&[1.0], 0.0);
    assert!(matches!(
        judge(Dtype::Bf16, &truth, &good, &short),
        Err(GateError::Shape { .. })
    ));
    let no_lse = RowsOutput {
        lse: None,
        ..good.clone()
    };
    assert!(matches!(
        judge(Dtype::Bf16, &truth, &good, &no_lse),
        Err(GateError::Shape { .. })
    ));
    for broken in [output(&[1.0, f32::NAN], 0.0), output(&[3.0, 2.0], 0.0)] {
        assert!(matches!(
            judge(Dtype::Bf16, &truth, &broken, &good),
            Err(GateError::PlainUnfit { .. })
        ));
    }
}

#[test]
fn reports_survive_json_and_print_on_one_line() {
    let truth = one_row(&[1.0, 2.0], 0.0);
    let good = output(&[1.0, 2.0], 0.0);
    for seen in [
        good.clone(),
        output(&[f32::NAN, f32::INFINITY], f32::NEG_INFINITY),
        output(&[0.0, 0.0], 1.0),
    ] {
        let report = verdict(&truth, &good, &seen);
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(serde_json::from_str::<ErrorReport>(&json).unwrap(), report);
        assert!(!report.to_string().contains('\n'));
        assert_eq!(report.to_string().starts_with("pass"), report.passed());
    }
}

#[test]
fn the_rms_gate_tightens_as_rows_average_out() {
    let floor = |rows| rms_floor(Dtype::Bf16, rows) * 256.0;
    assert_eq!(floor(1), 2.0);
    assert_eq!(floor(4), 1.5);
    assert_eq!(floor(10_000), 1.01);
}

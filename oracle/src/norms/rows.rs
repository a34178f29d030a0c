//! The figures of the gate, row by row, in f64.

use super::{ERROR_CAP, Failure, GateError, LSE_GATE, LseFigure};
use crate::dtype::Dtype;
use crate::reference::{RowsOutput, RowsReference};

/// Error figures of one output over its rows.
pub(super) struct RowErrors {
    pub rms: f64,
    pub max: f64,
    /// Index of the row with the largest error.
    pub worst: usize,
}

pub(super) fn check_shapes(
    reference: &RowsReference,
    plain: &RowsOutput,
    observed: &RowsOutput,
) -> Result<(), GateError> {
    let (rows, width) = (reference.rows.len(), reference.width);
    if rows == 0 || width == 0 {
        return Err(GateError::Nothing { rows, width });
    }
    let elems = rows.saturating_mul(width);
    let lse = reference.lse.as_ref().map_or(0, |_| rows);
    let lens = [
        ("the reference", reference.values.len(), elems),
        ("the reference's term norm", reference.term_norm.len(), rows),
        ("the reference's LSE", reference.lse.as_ref().map_or(0, Vec::len), lse),
        ("the plain output", plain.values.len(), elems),
        ("the observed output", observed.values.len(), elems),
        ("the observed LSE", observed.lse.as_ref().map_or(0, Vec::len), lse),
    ];
    match lens.into_iter().find(|&(_, given, needed)| given != needed) {
        Some((what, given, needed)) => Err(GateError::Shape { what, given, needed }),
        None => Ok(()),
    }
}

pub(super) fn errors(dtype: Dtype, reference: &RowsReference, output: &RowsOutput) -> RowErrors {
    let true_rows = reference.values.chunks_exact(reference.width);
    let rows = true_rows
        .zip(output.values.chunks_exact(reference.width))
        .zip(&reference.term_norm);
    let (mut sum_squares, mut max, mut worst) = (0.0, 0.0, 0);
    for (index, ((r, o), &term_norm)) in rows.enumerate() {
        let error = row_error(dtype, r, o, term_norm);
        sum_squares += error * error;
        if error > max {
            (max, worst) = (error, index);
        }
    }
    RowErrors {
        rms: (sum_squares / reference.rows.len().max(1) as f64).sqrt(),
        max,
        worst,
    }
}

/// `‖o − r‖₂ / max(‖r‖₂, ε · term_norm)`, capped; a NaN or infinity anywhere gives the cap.
fn row_error(dtype: Dtype, r: &[f64], o: &[u16], term_norm: f64) -> f64 {
    let (mut difference, mut size) = (0.0_f64, 0.0_f64);
    for (&r, &bits) in r.iter().zip(o) {
        let d = f64::from(dtype.decode(bits)) - r;
        difference += d * d;
        size += r * r;
    }
    if difference == 0.0 {
        return 0.0;
    }
    let error = difference.sqrt() / size.sqrt().max(dtype.unit_roundoff() * term_norm);
    // Also catches a NaN and the division by zero of a row that sees no key.
    if error < ERROR_CAP { error } else { ERROR_CAP }
}

/// Largest LSE error, scaled; `None` where there is no LSE.
pub(super) fn lse_figure(reference: &RowsReference, observed: &RowsOutput) -> Option<LseFigure> {
    let (truth, seen) = (reference.lse.as_ref()?, observed.lse.as_ref()?);
    let mut figure = LseFigure {
        value: 0.0,
        gate: LSE_GATE,
        worst: *reference.rows.first()?,
    };
    for ((&truth, &seen), &row) in truth.iter().zip(seen).zip(&reference.rows) {
        let error = lse_error(truth, f64::from(seen));
        if error > figure.value {
            (figure.value, figure.worst) = (error, row);
        }
    }
    Some(figure)
}

fn lse_error(truth: f64, seen: f64) -> f64 {
    if truth == f64::NEG_INFINITY && seen == f64::NEG_INFINITY {
        return 0.0;
    }
    let error = (seen - truth).abs() / truth.abs().max(1.0);
    // inf / inf and every other comparison with an infinity or NaN ends here.
    if error < ERROR_CAP { error } else { ERROR_CAP }
}

/// All zero, or all one value, where the rounded truth is not.
pub(super) fn degenerate(dtype: Dtype, reference: &RowsReference, observed: &RowsOutput) -> Option<Failure> {
    let rounded = |&x: &f64| dtype.decode(dtype.encode_f64(x));
    let truth_first = reference.values.first().map(rounded)?;
    let truth_constant = reference.values.iter().all(|x| rounded(x) == truth_first);
    // Compared as numbers, so that -0 and 0 are one value.
    let first = dtype.decode(*observed.values.first()?);
    let constant = observed.values.iter().all(|&bits| dtype.decode(bits) == first);
    match (constant, first == 0.0) {
        (true, true) if !(truth_constant && truth_first == 0.0) => Some(Failure::AllZero),
        (true, false) if !truth_constant => Some(Failure::Constant { value: first }),
        _ => None,
    }
}

//! The error gate: is an output as good as the plain algorithm's?
//!
//! For every checked row `o` of an output, with true row `r`:
//!
//! ```text
//! e = ‖o − r‖₂ / max(‖r‖₂, ε · ‖P‖₂ · ‖V‖)
//! ```
//!
//! - ε is the unit roundoff of the dtype: 2^-8 for bf16, 2^-11 for f16.
//! - ‖P‖₂ is the 2-norm of that row's true softmax weights, over the keys it sees.
//! - ‖V‖ is the largest 2-norm of a row of V (`head_dim` elements) among the keys that the row sees. The product is the
//!   size of the rounding noise of one summand-wise rounding with independent errors, divided by ε; it keeps e meaningful
//!   where O cancels to almost nothing.
//! - For a GEMM, P is the row of op(A) and V is op(B) over the checked columns, so ‖V‖ is the largest 2-norm of a row of
//!   op(B). For a row softmax the second term is 0: nothing cancels.
//! - A row that sees no key has r = 0 and a zero denominator: e is 0 if the output is 0, and [`ERROR_CAP`] otherwise.
//!
//! The **RMS** of e over n rows must be at most `max(1.25 × the plain algorithm's RMS on the same rows, ε · (1 + 1/√n))`: half an
//! output ulp, and what few rows do not average out; the **maximum** at most `max(1.25 × the plain algorithm's maximum, 2 ε)`,
//! one output ulp. With one row the two are the same.
//!
//! The worst row gets a whole ulp since an output is rounded twice on its way: the weights, then the output, each by up
//! to ε. The plain algorithm hides the first where one weight dominates, because its reference makes that weight exactly
//! one; a kernel whose reference lags behind (lazy, as in FlashAttention-4, or fixed) rounds it like any other. Over many
//! rows the two roundings average out, so the RMS keeps the tighter bound.
//!
//! Independent of these figures an output fails if any element is NaN, infinite or unwritten (still
//! [`POISON_16`]); if it is all zero or all one value while the true result, rounded, is not;
//! or if an LSE differs by more than `2e-5 · max(1, |LSE|)`, where -inf equals only -inf.

mod report;
mod rows;

use thiserror::Error;

use crate::dtype::{Dtype, POISON_16, POISON_32};
use crate::problem::{AttentionForward, Gemm, Problem, RowSoftmax};
use crate::reference::{MatrixSample, ReferenceError, RowsOutput, RowsReference, gather_attention, gather_matrix};
pub use report::{ErrorReport, Failure, Figure, LseFigure};

/// How much worse than the plain algorithm a kernel may be.
pub const PLAIN_FACTOR: f64 = 1.25;

/// Largest allowed `|LSE − true| / max(1, |true|)`.
pub const LSE_GATE: f64 = 2e-5;

/// Errors are capped here, so that figures stay finite (JSON has no infinity) and their squares do not overflow.
pub const ERROR_CAP: f64 = 1e30;

/// Largest error figure the plain algorithm may show; beyond it 1.25 times the figure would let anything pass.
pub const PLAIN_MAX: f64 = 0.25;

/// Why no verdict can be given. Never a fault of the kernel under test.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum GateError {
    #[error("asked to judge no elements at all ({rows} rows of {width}), which proves nothing; allowed: at least one")]
    Nothing { rows: usize, width: usize },
    #[error("{what} has {given} elements, the reference {needed}; allowed: the same rows on all sides")]
    Shape {
        what: &'static str,
        given: usize,
        needed: usize,
    },
    #[error(
        "the plain algorithm shows an error of {figure:e}, so it cannot be the measure; allowed: at most {PLAIN_MAX}"
    )]
    PlainUnfit { figure: f64 },
    #[error(transparent)]
    Reference(#[from] ReferenceError),
}

/// Judges gathered rows against the true result and the plain algorithm's result on the same rows.
///
/// # Errors
/// If the three do not have the same shape, are empty, or the plain algorithm itself is unfit.
pub fn judge(
    dtype: Dtype,
    reference: &RowsReference,
    plain: &RowsOutput,
    observed: &RowsOutput,
) -> Result<ErrorReport, GateError> {
    rows::check_shapes(reference, plain, observed)?;
    let plain_errors = rows::errors(dtype, reference, plain);
    if plain_errors.max > PLAIN_MAX {
        return Err(GateError::PlainUnfit {
            figure: plain_errors.max,
        });
    }
    let errors = rows::errors(dtype, reference, observed);
    let figure = |value, plain: f64, least: f64| Figure {
        value,
        plain,
        gate: (PLAIN_FACTOR * plain).max(least),
    };
    let mut report = ErrorReport {
        rows: reference.rows.len() as u64,
        rms: figure(errors.rms, plain_errors.rms, rms_floor(dtype, reference.rows.len())),
        max: figure(errors.max, plain_errors.max, dtype.ulp()),
        worst: reference.rows[errors.worst],
        lse: rows::lse_figure(reference, observed),
        failures: Vec::new(),
    };
    report.add_scan(&scan(dtype, &observed.values, observed.lse.as_deref()));
    report.failures.extend(rows::degenerate(dtype, reference, observed));
    report.apply_gates();
    Ok(report)
}

/// What the RMS of `rows` rows may reach however good the plain algorithm is: the two roundings of one row average out as
/// the square root of their number.
#[must_use]
pub fn rms_floor(dtype: Dtype, rows: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a number of rows")]
    let spread = 1.0 / (rows.max(1) as f64).sqrt();
    dtype.unit_roundoff() * (1.0 + spread)
}

/// Judges whole O `[batch, q_len, heads, head_dim]` and LSE `[batch, heads, q_len]`: the reference's rows by the gate,
/// every element for NaN, infinity and poison.
///
/// # Errors
/// As [`judge`], or if a tensor has the wrong length.
pub fn judge_attention(
    problem: &AttentionForward,
    reference: &RowsReference,
    plain: &RowsOutput,
    (o, lse): (&[u16], &[f32]),
) -> Result<ErrorReport, GateError> {
    let observed = gather_attention(problem, &reference.rows, o, lse)?;
    let mut report = judge(problem.dtype, reference, plain, &observed)?;
    report.add_scan(&scan(problem.dtype, o, Some(lse)));
    Ok(report)
}

/// Judges a whole C `[m, n]` by the sampled rows and columns, and every element for NaN, infinity and poison.
///
/// # Errors
/// As [`judge`], or if C has the wrong length.
pub fn judge_gemm(
    problem: &Gemm,
    sample: &MatrixSample,
    (reference, plain): (&RowsReference, &RowsOutput),
    c: &[u16],
) -> Result<ErrorReport, GateError> {
    let observed = gather_matrix(Problem::Gemm(*problem), &reference.rows, Some(&sample.cols), c)?;
    let mut report = judge(problem.dtype, reference, plain, &observed)?;
    report.add_scan(&scan(problem.dtype, c, None));
    Ok(report)
}

/// Judges a whole Y `[m, n]` by the reference's rows, and every element for NaN, infinity and poison.
///
/// # Errors
/// As [`judge`], or if Y has the wrong length.
pub fn judge_softmax(
    problem: &RowSoftmax,
    reference: &RowsReference,
    plain: &RowsOutput,
    y: &[u16],
) -> Result<ErrorReport, GateError> {
    let observed = gather_matrix(Problem::Softmax(*problem), &reference.rows, None, y)?;
    let mut report = judge(problem.dtype, reference, plain, &observed)?;
    report.add_scan(&scan(problem.dtype, y, None));
    Ok(report)
}

/// Elements that no right output has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scan {
    /// Still the poison pattern.
    pub unwritten: u64,
    /// NaN or infinite otherwise; an LSE of -inf is not counted, the gate compares it.
    pub not_finite: u64,
}

/// Looks at every element of an output and, for attention, of its LSE.
#[must_use]
pub fn scan(dtype: Dtype, values: &[u16], lse: Option<&[f32]>) -> Scan {
    let mut found = Scan::default();
    for &bits in values {
        found.unwritten += u64::from(bits == POISON_16);
        found.not_finite += u64::from(bits != POISON_16 && !dtype.decode(bits).is_finite());
    }
    for &value in lse.into_iter().flatten() {
        let poison = value.to_bits() == POISON_32;
        found.unwritten += u64::from(poison);
        found.not_finite += u64::from(!poison && (value.is_nan() || value == f32::INFINITY));
    }
    found
}

//! The gate on whole tensors: every row against the plain reference kernel.
//!
//! The error of a row is that of [`oracle::norms`], `e = ‖o − r‖₂ / max(‖r‖₂, ε · ‖P‖₂ · ‖V‖)`, with the plain kernel's f32
//! row as `r`. Two things are not as in the oracle's gate, and each gives it room:
//!
//! - The plain algorithm's figures are known on the sampled rows only, and the worst of many rows is worse than the worst of
//!   few: its figures count [`SAMPLE_ROOM`] times.
//! - The plain kernel is not exact. On the sampled rows, where the truth is known, its figures must each be at most
//!   [`PLAIN_SHARE`] of the gate, else it is no measure and that is an error of ours; every bound grows by that share.
//!
//! So `RMS ≤ (1 + share) · max(room · 1.25 · plain RMS, ε)`, `max ≤ (1 + share) · max(room · 1.25 · plain max, 2 ε)`, and
//! `|LSE − plain LSE| ≤ (1 + share) · 2e-5 · max(1, |LSE|)`. A row that was skipped, taken from elsewhere or masked wrongly
//! is off by a tenth or more of its size: any one of them fails.

use oracle::norms::{ERROR_CAP, ErrorReport, LSE_GATE, LseFigure, PLAIN_FACTOR};
use oracle::reference::RowId;
use oracle::{AttentionForward, Dtype, Problem};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::memory::Output;
use super::plain::PlainOutput;
use super::report::VerifyError;
use super::terms::term_norms;
use super::truth::Truth;

/// How often the plain algorithm's figures on the sampled rows count.
pub const SAMPLE_ROOM: f64 = 1.5;

/// The share of the gate that the plain kernel's own error may take.
pub const PLAIN_SHARE: f64 = 0.1;

/// Rows of one parallel piece; fixed, so that sums do not depend on the machine.
const PIECE_ROWS: usize = 1024;

/// When whole tensors are compared with the plain reference kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WholeRule {
    /// Where the f64 reference covers sampled rows only.
    #[default]
    WhenSampled,
    Always,
    Never,
}

/// A figure and the largest value that passes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bounded {
    pub value: f64,
    pub gate: f64,
}

/// The verdict on a whole output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WholeReport {
    /// Rows compared: all.
    pub rows: u64,
    pub rms: Bounded,
    pub max: Bounded,
    /// The row with the largest error.
    pub worst: RowId,
    /// Only for attention.
    pub lse: Option<LseFigure>,
    /// The plain kernel's own largest error on the rows whose truth is known.
    pub reference_max: f64,
}

impl WholeReport {
    /// Whether every figure is within its gate.
    #[must_use]
    pub fn passed(&self) -> bool {
        let within = |value, gate| value <= gate;
        within(self.rms.value, self.rms.gate)
            && within(self.max.value, self.max.gate)
            && self.lse.is_none_or(|lse| within(lse.value, lse.gate))
    }
}

impl std::fmt::Display for WholeReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let verdict = if self.passed() { "pass" } else { "FAIL" };
        write!(f, "whole tensor {verdict} rows {}", self.rows)?;
        for (name, figure) in [("rms", self.rms), ("max", self.max)] {
            write!(f, " {name} {:.2e} (gate {:.2e})", figure.value, figure.gate)?;
        }
        let RowId { batch, head, row } = self.worst;
        write!(f, " worst b{batch} h{head} row {row}")?;
        match self.lse {
            Some(lse) => write!(
                f,
                " lse {:.2e} (gate {:.1e}) worst b{} h{} row {}",
                lse.value, lse.gate, lse.worst.batch, lse.worst.head, lse.worst.row
            ),
            None => Ok(()),
        }
    }
}

/// Figures over rows.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    rows: usize,
    sum_squares: f64,
    max: f64,
    /// Index of the row with the largest error.
    worst: usize,
}

impl Tally {
    fn add(&mut self, index: usize, error: f64) {
        self.rows += 1;
        self.sum_squares += error * error;
        if error > self.max {
            (self.max, self.worst) = (error, index);
        }
    }

    fn and(mut self, later: &Self) -> Self {
        self.rows += later.rows;
        self.sum_squares += later.sum_squares;
        if later.max > self.max {
            (self.max, self.worst) = (later.max, later.worst);
        }
        self
    }

    fn rms(&self) -> f64 {
        (self.sum_squares / self.rows.max(1) as f64).sqrt()
    }
}

/// Judges a whole output by the plain kernel's, after the oracle has judged it on the sampled rows (`errors`).
///
/// # Errors
/// A plain kernel that is no measure on these inputs.
pub(super) fn judge(
    problem: &Problem,
    (truth, plain): (&Truth, &PlainOutput),
    (output, errors): (&Output, &ErrorReport),
) -> Result<WholeReport, VerifyError> {
    let dtype = problem.dtype();
    let width = row_width(problem);
    if plain.values.len() != output.values.len() || plain.lse.len() != output.lse.len() || width == 0 {
        return Err(VerifyError::PlainKernel {
            text: format!(
                "it has {} elements, the output {}",
                plain.values.len(),
                output.values.len()
            ),
        });
    }
    let reference_max = check_reference(problem, truth, plain, errors)?;
    let terms = term_norms(problem, truth.inputs(), plain);
    let tally = all_rows(dtype, (&plain.values, &output.values), &terms);
    let gate = |plain: f64, least: f64| (1.0 + PLAIN_SHARE) * (SAMPLE_ROOM * PLAIN_FACTOR * plain).max(least);
    let rms = gate(errors.rms.plain, oracle::norms::rms_floor(dtype, tally.rows));
    let max = gate(errors.max.plain, dtype.ulp());
    Ok(WholeReport {
        rows: tally.rows as u64,
        rms: Bounded {
            value: tally.rms(),
            gate: rms,
        },
        max: Bounded {
            value: tally.max,
            gate: max,
        },
        worst: row_id(problem, tally.worst),
        lse: lse_figure(problem, &plain.lse, &output.lse),
        reference_max,
    })
}

/// Elements of one row of the output.
fn row_width(problem: &Problem) -> usize {
    match problem {
        Problem::Forward(p) => p.head_dim as usize,
        Problem::Gemm(p) => p.n as usize,
        Problem::Softmax(p) => p.n as usize,
    }
}

/// Row of the output in memory order, `[batch, q_len, heads]` for attention.
fn row_id(problem: &Problem, index: usize) -> RowId {
    // Rows were counted by 32-bit extents.
    let narrow = |index: usize| u32::try_from(index).unwrap_or(u32::MAX);
    let Problem::Forward(p) = problem else {
        return RowId {
            batch: 0,
            head: 0,
            row: narrow(index),
        };
    };
    let (heads, q_len) = (p.heads as usize, p.q_len as usize);
    RowId {
        batch: narrow(index / heads / q_len),
        head: narrow(index % heads),
        row: narrow(index / heads % q_len),
    }
}

fn row_index(problem: &Problem, row: RowId) -> usize {
    match problem {
        Problem::Forward(p) => {
            (row.batch as usize * p.q_len as usize + row.row as usize) * p.heads as usize + row.head as usize
        }
        Problem::Gemm(_) | Problem::Softmax(_) => row.row as usize,
    }
}

/// Index into LSE, `[batch, heads, q_len]`.
fn lse_index(p: &AttentionForward, row: RowId) -> usize {
    (row.batch as usize * p.heads as usize + row.head as usize) * p.q_len as usize + row.row as usize
}

/// Every row's error, in pieces.
fn all_rows(dtype: Dtype, (plain, output): (&[f32], &[u16]), terms: &[f64]) -> Tally {
    let width = plain.len() / terms.len().max(1);
    let piece_elems = PIECE_ROWS * width.max(1);
    let pieces = plain.par_chunks(piece_elems).zip(output.par_chunks(piece_elems));
    let tallies: Vec<Tally> = pieces
        .enumerate()
        .map(|(piece, (plain, output))| {
            let first = piece * PIECE_ROWS;
            let mut tally = Tally::default();
            let rows = plain.chunks_exact(width).zip(output.chunks_exact(width));
            for ((offset, (r, o)), term) in rows.enumerate().zip(&terms[first..]) {
                let pairs = r
                    .iter()
                    .zip(o)
                    .map(|(r, o)| (f64::from(*r), f64::from(dtype.decode(*o))));
                tally.add(first + offset, row_error(dtype, pairs, *term));
            }
            tally
        })
        .collect();
    tallies.iter().fold(Tally::default(), Tally::and)
}

/// `‖o − r‖₂ / max(‖r‖₂, ε · term)` over pairs (r, o), capped; a NaN or infinity anywhere gives the cap.
fn row_error(dtype: Dtype, pairs: impl Iterator<Item = (f64, f64)>, term: f64) -> f64 {
    let (mut difference, mut size) = (0.0_f64, 0.0_f64);
    for (r, o) in pairs {
        difference += (o - r) * (o - r);
        size += r * r;
    }
    if difference == 0.0 {
        return 0.0;
    }
    capped(difference.sqrt() / size.sqrt().max(dtype.unit_roundoff() * term))
}

fn capped(error: f64) -> f64 {
    if error < ERROR_CAP { error } else { ERROR_CAP }
}

/// The plain kernel's largest error on the rows whose truth is known, where it is small enough.
fn check_reference(
    problem: &Problem,
    truth: &Truth,
    plain: &PlainOutput,
    errors: &ErrorReport,
) -> Result<f64, VerifyError> {
    let (reference, dtype) = (truth.reference(), problem.dtype());
    let width = row_width(problem);
    let mut tally = Tally::default();
    let rows = reference
        .rows
        .iter()
        .zip(reference.values.chunks_exact(reference.width));
    for ((index, (row, values)), term) in rows.enumerate().zip(&reference.term_norm) {
        let at = row_index(problem, *row) * width;
        let found = |i: usize| {
            plain
                .values
                .get(at + truth.column(i))
                .map_or(f64::NAN, |x| f64::from(*x))
        };
        let pairs = values.iter().enumerate().map(|(i, r)| (*r, found(i)));
        tally.add(index, row_error(dtype, pairs, *term));
    }
    let mut lse = 0.0;
    if let (Problem::Forward(p), Some(truths)) = (problem, &reference.lse) {
        for (row, truth) in reference.rows.iter().zip(truths) {
            let seen = plain.lse.get(lse_index(p, *row)).copied().unwrap_or(f32::NAN);
            lse = f64::max(lse, lse_error(*truth, f64::from(seen)));
        }
    }
    let within = |value: f64, gate: f64| value <= PLAIN_SHARE * gate;
    if within(tally.rms(), errors.rms.gate) && within(tally.max, errors.max.gate) && within(lse, LSE_GATE) {
        return Ok(tally.max);
    }
    Err(VerifyError::PlainKernel {
        text: format!(
            "against f64 on {} rows it has rms {:.2e}, max {:.2e}, lse {lse:.2e}; allowed: {PLAIN_SHARE} of {:.2e}, \
             {:.2e}, {LSE_GATE:.0e}",
            tally.rows,
            tally.rms(),
            tally.max,
            errors.rms.gate,
            errors.max.gate
        ),
    })
}

/// Scaled difference of two LSEs; -inf equals only -inf.
fn lse_error(truth: f64, seen: f64) -> f64 {
    if truth == f64::NEG_INFINITY && seen == f64::NEG_INFINITY {
        return 0.0;
    }
    capped((seen - truth).abs() / truth.abs().max(1.0))
}

fn lse_figure(problem: &Problem, plain: &[f32], output: &[u32]) -> Option<LseFigure> {
    let Problem::Forward(p) = problem else {
        return None;
    };
    let mut tally = Tally::default();
    for (index, (plain, output)) in plain.iter().zip(output).enumerate() {
        let error = lse_error(f64::from(*plain), f64::from(f32::from_bits(*output)));
        tally.add(index, error);
    }
    let (heads, q_len) = (p.heads as usize, p.q_len as usize);
    // The same row in the order of O, where `row_id` counts.
    let (head, row) = (tally.worst / q_len % heads, tally.worst % q_len);
    let in_o = (tally.worst / q_len / heads * q_len + row) * heads + head;
    Some(LseFigure {
        value: tally.max,
        gate: (1.0 + PLAIN_SHARE) * LSE_GATE,
        worst: row_id(problem, in_o),
    })
}

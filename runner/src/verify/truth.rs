//! Inputs and references of one problem, family and seed, and which rows are judged.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use oracle::inputs::{Family, Inputs, Operand};
use oracle::norms::{ErrorReport, judge_attention, judge_gemm, judge_softmax};
use oracle::reference::{
    AttentionData, GemmData, MatrixSample, RowsOutput, RowsReference, SoftmaxData, every_row, forward_f64,
    forward_plain, gemm_f64, gemm_plain, sample_matrix, sample_rows, softmax_f64, softmax_plain, thinned,
};
use oracle::{AttentionForward, Problem};
use serde::{Deserialize, Serialize};

use super::VerifyError;
use super::memory::Output;
use super::plain::PlainOutput;

/// How many rows are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowBudget {
    /// Every row is judged while the f64 reference takes at most this many multiply-adds.
    pub all_below: u64,
    /// Else this many rows of each head, besides the edges of tiles; rows of a matrix: 64 times as many.
    pub per_head: u32,
    /// Of sampled rows as many as the f64 reference takes this many multiply-adds for, and at least a few.
    #[serde(default = "unbounded")]
    pub sampled_most: u64,
}

/// Of records from before there was a bound.
const fn unbounded() -> u64 {
    u64::MAX
}

/// Sampled rows at least, whatever they cost: each usual tile edge can be among them.
const LEAST_SAMPLED: u32 = 16;

impl RowBudget {
    /// About a second a family on one core.
    pub const QUICK: Self = Self {
        all_below: 1 << 28,
        per_head: 4,
        sampled_most: 1 << 28,
    };

    /// Rows that cost `per_row` multiply-adds each.
    fn most_rows(&self, per_row: u64) -> u32 {
        let most = self.sampled_most / per_row.max(1);
        u32::try_from(most).unwrap_or(u32::MAX).max(LEAST_SAMPLED)
    }
}

impl Default for RowBudget {
    fn default() -> Self {
        Self {
            all_below: 1 << 30,
            per_head: 4,
            sampled_most: u64::MAX,
        }
    }
}

/// Rows (and columns) of a matrix judged per unit of `per_head`.
const MATRIX_ROWS_PER_UNIT: u32 = 64;

/// Inputs with the true and the plain result on the judged rows.
#[derive(Debug)]
pub struct Truth {
    inputs: Vec<Vec<u16>>,
    reference: RowsReference,
    plain: RowsOutput,
    sample: Option<MatrixSample>,
    /// Whether every row is judged.
    complete: bool,
    plain_kernel: OnceLock<PlainOutput>,
}

impl Truth {
    /// Generates inputs and computes the references, on all threads.
    ///
    /// # Errors
    /// A problem the oracle refuses, or not enough memory.
    pub fn new(problem: &Problem, family: Family, seed: u64, budget: RowBudget) -> Result<Self, VerifyError> {
        let generator = Inputs::new(*problem, family, seed)?;
        let operands = Operand::of(problem).iter();
        let inputs = operands
            .map(|operand| generator.generate(*operand))
            .collect::<Result<Vec<_>, _>>()?;
        let (reference, plain, sample) = references(problem, &inputs, seed, budget)?;
        let complete = match (problem, &sample) {
            (Problem::Forward(p), _) => reference.rows.len() as u64 == rows_of(p),
            (Problem::Gemm(p), Some(sample)) => sample.rows.len() == p.m as usize && sample.cols.len() == p.n as usize,
            (Problem::Gemm(_), None) => true,
            (Problem::Softmax(p), _) => reference.rows.len() == p.m as usize,
        };
        Ok(Self {
            inputs,
            reference,
            plain,
            sample,
            complete,
            plain_kernel: OnceLock::new(),
        })
    }

    /// Whether the f64 reference covers every row.
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.complete
    }

    /// The plain reference kernel's whole output, computed once for all candidates.
    pub(super) fn plain_kernel<E>(&self, run: impl FnOnce() -> Result<PlainOutput, E>) -> Result<&PlainOutput, E> {
        if let Some(known) = self.plain_kernel.get() {
            return Ok(known);
        }
        let output = run()?;
        Ok(self.plain_kernel.get_or_init(|| output))
    }

    pub(super) const fn reference(&self) -> &RowsReference {
        &self.reference
    }

    /// The output column that element `i` of a reference row stands for.
    pub(super) fn column(&self, i: usize) -> usize {
        let sampled = self.sample.as_ref().and_then(|sample| sample.cols.get(i));
        sampled.map_or(i, |column| *column as usize)
    }

    /// Dense bit patterns, in the order of the signature.
    #[must_use]
    pub fn inputs(&self) -> &[Vec<u16>] {
        &self.inputs
    }

    /// Judges an output.
    ///
    /// # Errors
    /// An output of another shape, or a plain algorithm that is no measure on these inputs.
    pub fn judge(&self, problem: &Problem, output: &Output) -> Result<ErrorReport, VerifyError> {
        let (reference, plain) = (&self.reference, &self.plain);
        Ok(match (problem, &self.sample) {
            (Problem::Forward(p), _) => {
                let lse: Vec<f32> = output.lse.iter().map(|bits| f32::from_bits(*bits)).collect();
                judge_attention(p, reference, plain, (&output.values, &lse))?
            }
            (Problem::Gemm(p), Some(sample)) => judge_gemm(p, sample, (reference, plain), &output.values)?,
            (Problem::Gemm(p), None) => {
                let sample = sample_matrix(p, p.m, p.n, 0);
                judge_gemm(p, &sample, (reference, plain), &output.values)?
            }
            (Problem::Softmax(p), _) => judge_softmax(p, reference, plain, &output.values)?,
        })
    }
}

fn rows_of(p: &AttentionForward) -> u64 {
    u64::from(p.batch) * u64::from(p.heads) * u64::from(p.q_len)
}

type References = (RowsReference, RowsOutput, Option<MatrixSample>);

fn references(problem: &Problem, inputs: &[Vec<u16>], seed: u64, budget: RowBudget) -> Result<References, VerifyError> {
    let operand = |i: usize| inputs.get(i).map_or(&[][..], Vec::as_slice);
    let units = budget.per_head.saturating_mul(MATRIX_ROWS_PER_UNIT);
    match problem {
        Problem::Forward(p) => {
            let data = AttentionData::new(*p, p.default_scale_log2(), [operand(0), operand(1), operand(2)])?;
            let all = 2 * p.q_elems().saturating_mul(p.kv_len.into()) <= budget.all_below;
            let rows = if all {
                every_row(p).collect()
            } else {
                let per_row = 2 * u64::from(p.kv_len) * u64::from(p.head_dim);
                thinned(sample_rows(p, budget.per_head, seed), budget.most_rows(per_row), seed)
            };
            Ok((forward_f64(&data, &rows)?, forward_plain(&data, &rows)?, None))
        }
        Problem::Gemm(p) => {
            let data = GemmData::new(*p, operand(0), operand(1))?;
            let all = p.c_elems().saturating_mul(p.k.into()) <= budget.all_below;
            // A square of them, each element as deep as the product.
            let side = u64::from(budget.most_rows(p.k.into()))
                .isqrt()
                .max(LEAST_SAMPLED.into());
            let side = units.min(u32::try_from(side).unwrap_or(u32::MAX));
            let (rows, cols) = if all { (p.m, p.n) } else { (side, side) };
            let sample = sample_matrix(p, rows, cols, seed);
            Ok((gemm_f64(&data, &sample)?, gemm_plain(&data, &sample)?, Some(sample)))
        }
        Problem::Softmax(p) => {
            let data = SoftmaxData::new(*p, operand(0))?;
            // The exponentials cost about 16 multiply-adds each.
            let rows = if p.elems().saturating_mul(16) <= budget.all_below {
                p.m
            } else {
                units.min(p.m).min(budget.most_rows(u64::from(p.n).saturating_mul(16)))
            };
            let step = f64::from(p.m) / f64::from(rows.max(1));
            let rows: Vec<u32> = (0..rows).map(|i| ((f64::from(i) + 0.5) * step) as u32).collect();
            Ok((softmax_f64(&data, &rows)?, softmax_plain(&data, &rows)?, None))
        }
    }
}

/// Truths of one problem, kept between its candidates; those of the last problem are dropped with the first of the next.
#[derive(Debug, Default)]
pub struct Truths {
    problem: Option<Problem>,
    kept: BTreeMap<(Family, u64, RowBudget), Arc<Truth>>,
    kept_bytes: usize,
}

/// More than this is not kept.
const MOST_KEPT_BYTES: usize = 8 << 30;

impl Truths {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The truth, from before or computed now.
    ///
    /// # Errors
    /// As [`Truth::new`].
    pub fn get(
        &mut self,
        problem: &Problem,
        family: Family,
        seed: u64,
        budget: RowBudget,
    ) -> Result<Arc<Truth>, VerifyError> {
        if self.problem != Some(*problem) {
            *self = Self {
                problem: Some(*problem),
                ..Self::default()
            };
        }
        if let Some(truth) = self.kept.get(&(family, seed, budget)) {
            return Ok(Arc::clone(truth));
        }
        let truth = Arc::new(Truth::new(problem, family, seed, budget)?);
        let mut bytes = truth.inputs.iter().map(|input| 2 * input.len()).sum::<usize>();
        if !truth.is_complete() {
            // The plain kernel's output will come: f32, as many elements as the first input to within a small factor.
            bytes += truth.inputs.first().map_or(0, |input| 4 * input.len());
        }
        if self.kept_bytes + bytes <= MOST_KEPT_BYTES {
            self.kept_bytes += bytes;
            self.kept.insert((family, seed, budget), Arc::clone(&truth));
        }
        Ok(truth)
    }
}

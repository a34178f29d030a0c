//! Seeded input families. Every element is a pure function of (family, seed, problem, operand, index), so any range can
//! be generated alone, on any thread, on any machine, with the same bits.
//!
//! No family ever yields a NaN or an infinity, and the results of a right kernel stay finite on all of them. Logits
//! below are those of the default scale `1/sqrt(head_dim)`, in natural units.
//!
//! | family | what it is | what it is meant to catch |
//! |---|---|---|
//! | `normal` | independent N(0, 1) | wrong maths of any kind, dropped blocks, a missing mask |
//! | `growing-max` | logits ramp along the keys, upwards for even queries and downwards for odd ones, so that the row maximum moves in every block in either direction of traversal | missing or late rescaling of O or of the row sum; off-by-one masks |
//! | `late-spike` | one key about 4·sqrt(head_dim) above the rest: the last visible one (even queries) or the first (odd ones) | a rescale skipped when few blocks moved the maximum; a lost last key or diagonal |
//! | `constant-rows` | all keys equal, so that every visible key weighs the same, and V about 1 to 2 | low-precision accumulators (they stop growing), wrong counts in the row sum, padding keys that are summed |
//! | `one-hot` | each query matches one hashed key so well that O is a copy of one row of V | transposed or permuted tiles, swizzle and descriptor faults, a wrong key head |
//! | `alternating` | signs alternate along the reduced axis and O nearly cancels | low-precision accumulators, lost or repeated single elements |
//! | `near-overflow` | Q·K up to 0.9 of the end of f16 (bf16: several times that end), V near the end of f16 (bf16: up to 2^100) | scores or accumulators kept in f16, sums not kept below the maximum, -inf from products |
//! | `tiny` | operands down to subnormals | flushed subnormals, absolute tolerances, zeros passed off as results |
//!
//! Families for GEMM use the inner axis `k` in place of the keys; for the row softmax they describe X along `n`.

mod attention;
mod hash;
mod matrix;
mod normal;

use std::fmt;
use std::str::FromStr;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::dtype::Dtype;
use crate::problem::{Problem, ProblemFault};

/// Elements one parallel task generates.
const CHUNK_ELEMS: usize = 1 << 14;

/// An input family; see the module table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    Normal,
    GrowingMax,
    LateSpike,
    ConstantRows,
    OneHot,
    Alternating,
    NearOverflow,
    Tiny,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 8] = [
        Self::Normal,
        Self::GrowingMax,
        Self::LateSpike,
        Self::ConstantRows,
        Self::OneHot,
        Self::Alternating,
        Self::NearOverflow,
        Self::Tiny,
    ];

    /// The name used in texts and records.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::GrowingMax => "growing-max",
            Self::LateSpike => "late-spike",
            Self::ConstantRows => "constant-rows",
            Self::OneHot => "one-hot",
            Self::Alternating => "alternating",
            Self::NearOverflow => "near-overflow",
            Self::Tiny => "tiny",
        }
    }
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Family {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, InputError> {
        let found = Self::ALL.into_iter().find(|family| family.name() == text);
        found.ok_or_else(|| InputError::UnknownFamily {
            asked: text.chars().take(40).collect(),
        })
    }
}

/// An input tensor of some problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operand {
    /// Attention: `[batch, q_len, heads, head_dim]`.
    Q,
    /// Attention: `[batch, kv_len, kv_heads, head_dim]`.
    K,
    /// Attention: `[batch, kv_len, kv_heads, head_dim]`.
    V,
    /// GEMM: `[m, k]` or `[k, m]`, by layout.
    A,
    /// GEMM: `[k, n]` or `[n, k]`, by layout.
    B,
    /// Row softmax: `[m, n]`.
    X,
}

impl Operand {
    /// The operands of a problem, in the order of its kernel's parameters.
    #[must_use]
    pub const fn of(problem: &Problem) -> &'static [Self] {
        match problem {
            Problem::Forward(_) => &[Self::Q, Self::K, Self::V],
            Problem::Gemm(_) => &[Self::A, Self::B],
            Problem::Softmax(_) => &[Self::X],
        }
    }
}

/// Why inputs cannot be generated.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum InputError {
    #[error(transparent)]
    Problem(#[from] ProblemFault),
    #[error(
        "asked for the input family {asked:?}, which is not known; allowed: normal, growing-max, late-spike, \
         constant-rows, one-hot, alternating, near-overflow, tiny"
    )]
    UnknownFamily { asked: String },
    #[error(
        "asked for operand {operand:?}, which `{problem}` does not have; allowed: {:?}",
        Operand::of(problem)
    )]
    NoSuchOperand { operand: Operand, problem: Problem },
    #[error("asked for elements {start}..{end} of {operand:?}, which has {elems}; allowed: ranges within 0..{elems}")]
    OutOfRange {
        operand: Operand,
        start: u64,
        end: u128,
        elems: u64,
    },
    #[error("{operand:?} has {elems} elements, for which no memory could be had; allowed: generate it in ranges")]
    NoMemory { operand: Operand, elems: u64 },
}

/// The inputs of one problem under one family and seed.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    problem: Problem,
    family: Family,
    seed: u64,
}

impl Inputs {
    /// Binds a problem to a family and a seed.
    ///
    /// # Errors
    /// If the problem does not pass its own check.
    pub fn new(problem: impl Into<Problem>, family: Family, seed: u64) -> Result<Self, InputError> {
        Ok(Self {
            problem: problem.into().check()?,
            family,
            seed,
        })
    }

    /// Number of elements of an operand.
    ///
    /// # Errors
    /// If the problem has no such operand.
    pub fn elems(&self, operand: Operand) -> Result<u64, InputError> {
        match (&self.problem, operand) {
            (Problem::Forward(p), Operand::Q) => Ok(p.q_elems()),
            (Problem::Forward(p), Operand::K | Operand::V) => Ok(p.kv_elems()),
            (Problem::Gemm(p), Operand::A) => Ok(p.a_elems()),
            (Problem::Gemm(p), Operand::B) => Ok(p.b_elems()),
            (Problem::Softmax(p), Operand::X) => Ok(p.elems()),
            _ => Err(InputError::NoSuchOperand {
                operand,
                problem: self.problem,
            }),
        }
    }

    /// Generates the elements `start .. start + out.len()` of an operand as bit patterns, on the calling thread.
    ///
    /// # Errors
    /// If the problem has no such operand or the range passes its end.
    pub fn fill(&self, operand: Operand, start: u64, out: &mut [u16]) -> Result<(), InputError> {
        let elems = self.elems(operand)?;
        let end = u128::from(start) + out.len() as u128;
        if end > u128::from(elems) {
            return Err(InputError::OutOfRange {
                operand,
                start,
                end,
                elems,
            });
        }
        match &self.problem {
            Problem::Forward(p) => attention::Rows::new(p, self.family, self.seed).fill(operand, start, out),
            Problem::Gemm(p) => matrix::GemmRows::new(p, self.family, self.seed).fill(operand, start, out),
            Problem::Softmax(p) => matrix::SoftmaxRows::new(p, self.family, self.seed).fill(start, out),
        }
        Ok(())
    }

    /// Generates a whole operand as bit patterns, on all threads.
    ///
    /// # Errors
    /// If the problem has no such operand or memory cannot be had.
    pub fn generate(&self, operand: Operand) -> Result<Vec<u16>, InputError> {
        let elems = self.elems(operand)?;
        let no_memory = InputError::NoMemory { operand, elems };
        let len = usize::try_from(elems).map_err(|_| no_memory.clone())?;
        let mut out = Vec::new();
        out.try_reserve_exact(len).map_err(|_| no_memory)?;
        out.resize(len, 0);
        out.par_chunks_mut(CHUNK_ELEMS)
            .enumerate()
            .try_for_each(|(i, chunk)| self.fill(operand, (i * CHUNK_ELEMS) as u64, chunk))?;
        Ok(out)
    }
}

/// Rounds to `dtype`, never to an infinity: values past the end are held at the largest finite one.
fn encode_finite(dtype: Dtype, value: f32) -> u16 {
    let max = dtype.max_finite();
    // `max` and `min` return the number when the other side is a NaN, so a NaN cannot pass either.
    dtype.encode(value.max(-max).min(max))
}

/// Calls `row(row_index, first_column, part_of_out)` for every row that the flat range touches; `width` is not 0.
fn by_rows(width: u32, start: u64, out: &mut [u16], mut row: impl FnMut(u64, u32, &mut [u16])) {
    let width = u64::from(width.max(1));
    let (mut at, mut rest) = (start, out);
    while !rest.is_empty() {
        let column = at % width;
        let take = usize::try_from(width - column).unwrap_or(usize::MAX).min(rest.len());
        let (part, tail) = rest.split_at_mut(take);
        // `column` is below a u32 width.
        row(at / width, column as u32, part);
        at += take as u64;
        rest = tail;
    }
}

/// `+1` for even numbers, `-1` for odd ones.
const fn alternate(i: u64) -> f32 {
    if i.is_multiple_of(2) { 1.0 } else { -1.0 }
}

//! Reference results in f64, and the *plain algorithm* whose error a kernel is measured against, both for a chosen list
//! of rows, so that big shapes stay affordable.
//!
//! Operands are bit patterns of the problem's dtype. They are exact inputs: a reference sees the same rounded numbers
//! as the kernel. Results come as rows in the order asked for.

mod attention;
mod dense;
mod gather;
mod matrix;
mod sample;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::problem::{AttentionForward, Problem, ProblemFault};

pub use attention::{FLASH_BLOCK_KEYS, forward_f64, forward_plain};
pub use gather::{gather_attention, gather_matrix};
pub use matrix::{GemmData, SoftmaxData, gemm_f64, gemm_plain, softmax_f64, softmax_plain};
pub use sample::{MatrixSample, every_row, sample_matrix, sample_rows, thinned};

/// One row of an output: of O and LSE for attention; for a matrix `batch` and `head` are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RowId {
    pub batch: u32,
    pub head: u32,
    pub row: u32,
}

/// Rows of a true result.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsReference {
    /// Which rows, in the order of `values`.
    pub rows: Vec<RowId>,
    /// Elements per row: `head_dim`, the number of sampled columns, or `n`.
    pub width: usize,
    /// `[rows, width]`.
    pub values: Vec<f64>,
    /// `[rows]`, natural log; -inf for a row that sees no key. Only for attention.
    pub lse: Option<Vec<f64>>,
    /// `[rows]`: ‖P‖₂·‖V‖, the size of the terms that were summed, as defined in [`crate::norms`].
    pub term_norm: Vec<f64>,
}

/// Rows of a rounded result: of the plain algorithm, or gathered from a kernel's output.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsOutput {
    /// Elements per row.
    pub width: usize,
    /// `[rows, width]`, bit patterns.
    pub values: Vec<u16>,
    /// `[rows]`, only for attention.
    pub lse: Option<Vec<f32>>,
}

/// Why a reference cannot be computed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ReferenceError {
    #[error(transparent)]
    Problem(#[from] ProblemFault),
    #[error("{tensor} was given with {given} elements, but `{problem}` has {needed} there; allowed: exactly {needed}")]
    Length {
        tensor: &'static str,
        given: usize,
        needed: u64,
        problem: Problem,
    },
    #[error("asked for scale_log2 {asked}; allowed: finite numbers above 0")]
    Scale { asked: String },
    #[error("asked for {row:?}, which `{problem}` does not have; allowed: indices below its extents")]
    NoSuchRow { row: RowId, problem: Problem },
    #[error("asked for column {column}, which `{problem}` does not have; allowed: below n")]
    NoSuchColumn { column: u32, problem: Problem },
    #[error("asked for matrix rows of `{problem}`, whose output is no matrix; allowed: gemm and softmax problems")]
    NotAMatrix { problem: Problem },
}

/// The checked inputs of an attention problem.
#[derive(Clone, Copy, Debug)]
pub struct AttentionData<'a> {
    problem: AttentionForward,
    scale_log2: f32,
    q: &'a [u16],
    k: &'a [u16],
    v: &'a [u16],
}

impl<'a> AttentionData<'a> {
    /// Binds `[q, k, v]` to a problem. `scale_log2` is the softmax scale times log2(e), the very f32 that the kernel
    /// receives; usually [`AttentionForward::default_scale_log2`].
    ///
    /// # Errors
    /// If the problem is out of range, a tensor has the wrong length, or the scale is not a finite number above 0.
    pub fn new(problem: AttentionForward, scale_log2: f32, [q, k, v]: [&'a [u16]; 3]) -> Result<Self, ReferenceError> {
        let problem = problem.check()?;
        if !(scale_log2.is_finite() && scale_log2 > 0.0) {
            return Err(ReferenceError::Scale {
                asked: scale_log2.to_string(),
            });
        }
        check_len("Q", q.len(), problem.q_elems(), problem)?;
        check_len("K", k.len(), problem.kv_elems(), problem)?;
        check_len("V", v.len(), problem.kv_elems(), problem)?;
        Ok(Self {
            problem,
            scale_log2,
            q,
            k,
            v,
        })
    }

    /// The problem the data belong to.
    #[must_use]
    pub const fn problem(&self) -> &AttentionForward {
        &self.problem
    }
}

fn check_len(tensor: &'static str, given: usize, needed: u64, p: impl Into<Problem>) -> Result<(), ReferenceError> {
    if given as u64 == needed {
        Ok(())
    } else {
        Err(ReferenceError::Length {
            tensor,
            given,
            needed,
            problem: p.into(),
        })
    }
}

fn check_row(p: &AttentionForward, row: RowId) -> Result<(), ReferenceError> {
    if row.batch < p.batch && row.head < p.heads && row.row < p.q_len {
        Ok(())
    } else {
        Err(ReferenceError::NoSuchRow {
            row,
            problem: (*p).into(),
        })
    }
}

/// Which row of `[batch * q_len * heads, head_dim]`.
const fn q_row_index(p: &AttentionForward, row: RowId) -> usize {
    (row.batch as usize * p.q_len as usize + row.row as usize) * p.heads as usize + row.head as usize
}

/// Row `index` of a row-major matrix; the caller has checked the extents.
fn row_slice<T>(data: &[T], index: usize, width: usize) -> &[T] {
    &data[index * width..(index + 1) * width]
}

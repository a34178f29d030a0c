//! GEMM and row softmax: true results in f64 and the plain algorithms, for sampled rows (and columns).

use rayon::prelude::*;

use super::dense::{dot_f32, dot_f64};
use super::{MatrixSample, ReferenceError, RowId, RowsOutput, RowsReference, check_len, row_slice};
use crate::problem::{Gemm, RowSoftmax};

/// The checked inputs of a GEMM.
#[derive(Clone, Copy, Debug)]
pub struct GemmData<'a> {
    problem: Gemm,
    a: &'a [u16],
    b: &'a [u16],
}

impl<'a> GemmData<'a> {
    /// Binds A and B, stored as the layout says, to a problem.
    ///
    /// # Errors
    /// If the problem is out of range or a matrix has the wrong length.
    pub fn new(problem: Gemm, a: &'a [u16], b: &'a [u16]) -> Result<Self, ReferenceError> {
        let problem = problem.check()?;
        check_len("A", a.len(), problem.a_elems(), problem)?;
        check_len("B", b.len(), problem.b_elems(), problem)?;
        Ok(Self { problem, a, b })
    }

    /// Row `i` of op(A): `[k]`.
    fn a_row(&self, i: u32) -> Vec<f32> {
        let p = &self.problem;
        self.line(self.a, i, p.m, p.layout.a_transposed())
    }

    /// Column `j` of op(B): `[k]`.
    fn b_column(&self, j: u32) -> Vec<f32> {
        let p = &self.problem;
        self.line(self.b, j, p.n, !p.layout.b_transposed())
    }

    /// The `k` elements that belong to `index` along the outer axis: contiguous, or strided by the outer extent.
    fn line(&self, data: &[u16], index: u32, outer: u32, strided: bool) -> Vec<f32> {
        let (k, dtype) = (self.problem.k as usize, self.problem.dtype);
        if strided {
            let elements = data.iter().skip(index as usize).step_by(outer as usize);
            return elements.map(|&bits| dtype.decode(bits)).collect();
        }
        let mut line = vec![0.0; k];
        dtype.decode_into(row_slice(data, index as usize, k), &mut line);
        line
    }

    fn check(&self, sample: &MatrixSample) -> Result<(), ReferenceError> {
        let p = self.problem;
        if let Some(&row) = sample.rows.iter().find(|&&row| row >= p.m) {
            return Err(ReferenceError::NoSuchRow {
                row: matrix_row(row),
                problem: p.into(),
            });
        }
        match sample.cols.iter().find(|&&column| column >= p.n) {
            Some(&column) => Err(ReferenceError::NoSuchColumn {
                column,
                problem: p.into(),
            }),
            None => Ok(()),
        }
    }
}

const fn matrix_row(row: u32) -> RowId {
    RowId { batch: 0, head: 0, row }
}

/// The true product at the sampled rows and columns: `[rows, cols]`.
///
/// # Errors
/// If a row or column does not exist.
pub fn gemm_f64(data: &GemmData<'_>, sample: &MatrixSample) -> Result<RowsReference, ReferenceError> {
    data.check(sample)?;
    let columns = sample.cols.par_iter().map(|&j| data.b_column(j)).collect::<Vec<_>>();
    let b_norm = largest_row_norm(&columns, data.problem.k as usize);
    let rows = sample.rows.par_iter().map(|&i| {
        let a = data.a_row(i);
        let values = columns.iter().map(|b| dot_f64(&a, b)).collect::<Vec<_>>();
        (values, dot_f64(&a, &a).sqrt() * b_norm)
    });
    let rows = rows.collect::<Vec<_>>();
    Ok(RowsReference {
        rows: sample.rows.iter().map(|&row| matrix_row(row)).collect(),
        width: sample.cols.len(),
        term_norm: rows.iter().map(|row| row.1).collect(),
        values: rows.into_iter().flat_map(|row| row.0).collect(),
        lse: None,
    })
}

/// The product accumulated in f32 and rounded once, at the sampled rows and columns.
///
/// # Errors
/// If a row or column does not exist.
pub fn gemm_plain(data: &GemmData<'_>, sample: &MatrixSample) -> Result<RowsOutput, ReferenceError> {
    data.check(sample)?;
    let dtype = data.problem.dtype;
    let columns = sample.cols.par_iter().map(|&j| data.b_column(j)).collect::<Vec<_>>();
    let rows = sample.rows.par_iter().map(|&i| {
        let a = data.a_row(i);
        columns.iter().map(|b| dtype.encode(dot_f32(&a, b))).collect::<Vec<_>>()
    });
    let values = rows.collect::<Vec<_>>().concat();
    Ok(RowsOutput {
        width: sample.cols.len(),
        values,
        lse: None,
    })
}

/// Largest 2-norm of a row of op(B), over the sampled columns.
fn largest_row_norm(columns: &[Vec<f32>], k: usize) -> f64 {
    let mut squares = vec![0.0_f64; k];
    for column in columns {
        for (sum, &x) in squares.iter_mut().zip(column) {
            *sum += f64::from(x) * f64::from(x);
        }
    }
    squares.into_iter().fold(0.0, f64::max).sqrt()
}

/// The checked input of a row softmax.
#[derive(Clone, Copy, Debug)]
pub struct SoftmaxData<'a> {
    problem: RowSoftmax,
    x: &'a [u16],
}

impl<'a> SoftmaxData<'a> {
    /// Binds X `[m, n]` to a problem.
    ///
    /// # Errors
    /// If the problem is out of range or X has the wrong length.
    pub fn new(problem: RowSoftmax, x: &'a [u16]) -> Result<Self, ReferenceError> {
        let problem = problem.check()?;
        check_len("X", x.len(), problem.elems(), problem)?;
        Ok(Self { problem, x })
    }

    fn per_row<T: Send>(&self, rows: &[u32], run: impl Fn(&[f32]) -> T + Sync) -> Result<Vec<T>, ReferenceError> {
        let p = self.problem;
        if let Some(&row) = rows.iter().find(|&&row| row >= p.m) {
            return Err(ReferenceError::NoSuchRow {
                row: matrix_row(row),
                problem: p.into(),
            });
        }
        let run_row = |&row: &u32| {
            let mut x = vec![0.0; p.n as usize];
            p.dtype.decode_into(row_slice(self.x, row as usize, x.len()), &mut x);
            run(&x)
        };
        Ok(rows.par_iter().map(run_row).collect())
    }
}

/// The true softmax of the given rows: `[rows, n]`.
///
/// # Errors
/// If a row does not exist.
pub fn softmax_f64(data: &SoftmaxData<'_>, rows: &[u32]) -> Result<RowsReference, ReferenceError> {
    let values = data.per_row(rows, |x| {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = x
            .iter()
            .map(|&x| libm::exp(f64::from(x) - f64::from(max)))
            .collect::<Vec<_>>();
        let sum = weights.iter().sum::<f64>();
        weights.into_iter().map(|w| w / sum).collect::<Vec<_>>()
    })?;
    Ok(RowsReference {
        rows: rows.iter().map(|&row| matrix_row(row)).collect(),
        width: data.problem.n as usize,
        values: values.concat(),
        lse: None,
        // Nothing cancels in a softmax: its own norm is never small beside its terms.
        term_norm: vec![0.0; rows.len()],
    })
}

/// The softmax of the given rows in f32, rounded once.
///
/// # Errors
/// If a row does not exist.
pub fn softmax_plain(data: &SoftmaxData<'_>, rows: &[u32]) -> Result<RowsOutput, ReferenceError> {
    let dtype = data.problem.dtype;
    let values = data.per_row(rows, |x| {
        let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let weights = x.iter().map(|&x| libm::expf(x - max)).collect::<Vec<_>>();
        let sum = weights.iter().sum::<f32>();
        weights.into_iter().map(|w| dtype.encode(w / sum)).collect::<Vec<_>>()
    })?;
    Ok(RowsOutput {
        width: data.problem.n as usize,
        values: values.concat(),
        lse: None,
    })
}

//! Picks the checked rows out of a whole output.

use super::{ReferenceError, RowId, RowsOutput, check_len, check_row, q_row_index, row_slice};
use crate::problem::{AttentionForward, Problem};

/// Gathers rows from a whole O `[batch, q_len, heads, head_dim]` and LSE `[batch, heads, q_len]`.
///
/// # Errors
/// If a tensor has the wrong length or a row does not exist.
pub fn gather_attention(
    problem: &AttentionForward,
    rows: &[RowId],
    o: &[u16],
    lse: &[f32],
) -> Result<RowsOutput, ReferenceError> {
    let p = problem.check()?;
    check_len("O", o.len(), p.q_elems(), p)?;
    check_len("LSE", lse.len(), p.lse_elems(), p)?;
    let width = p.head_dim as usize;
    let mut values = Vec::with_capacity(rows.len() * width);
    let mut row_lse = Vec::with_capacity(rows.len());
    for &row in rows {
        check_row(&p, row)?;
        values.extend_from_slice(row_slice(o, q_row_index(&p, row), width));
        let head = row.batch as usize * p.heads as usize + row.head as usize;
        row_lse.push(lse[head * p.q_len as usize + row.row as usize]);
    }
    Ok(RowsOutput {
        width,
        values,
        lse: Some(row_lse),
    })
}

/// Gathers rows, all columns or those of `cols`, from a whole C or Y `[m, n]`.
///
/// # Errors
/// If the matrix has the wrong length, or a row or column does not exist, or the problem is an attention.
pub fn gather_matrix(
    problem: Problem,
    rows: &[RowId],
    cols: Option<&[u32]>,
    output: &[u16],
) -> Result<RowsOutput, ReferenceError> {
    let (m, n) = match problem.check()? {
        Problem::Gemm(p) => (p.m, p.n),
        Problem::Softmax(p) => (p.m, p.n),
        Problem::Forward(_) => return Err(ReferenceError::NotAMatrix { problem }),
    };
    check_len("the output", output.len(), problem.output_elems(), problem)?;
    if let Some(&row) = rows.iter().find(|row| row.batch != 0 || row.head != 0 || row.row >= m) {
        return Err(ReferenceError::NoSuchRow { row, problem });
    }
    if let Some(&column) = cols.into_iter().flatten().find(|&&column| column >= n) {
        return Err(ReferenceError::NoSuchColumn { column, problem });
    }
    let lines = rows.iter().map(|row| row_slice(output, row.row as usize, n as usize));
    let values = match cols {
        None => lines.flatten().copied().collect(),
        Some(cols) => lines
            .flat_map(|line| cols.iter().map(|&column| line[column as usize]))
            .collect(),
    };
    Ok(RowsOutput {
        width: cols.map_or(n as usize, <[u32]>::len),
        values,
        lse: None,
    })
}

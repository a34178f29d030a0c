//! `‖P‖₂ · ‖V‖` of every row of an output: the size of what was summed, as [`oracle::norms`] defines it.

use oracle::{AttentionForward, Dtype, Gemm, Mask, Problem};
use rayon::prelude::*;

use super::plain::PlainOutput;

/// One number per row, in the memory order of the output's rows. Inputs are dense, in the order of the signature.
pub(super) fn term_norms(problem: &Problem, inputs: &[Vec<u16>], plain: &PlainOutput) -> Vec<f64> {
    let input = |i: usize| inputs.get(i).map_or(&[][..], Vec::as_slice);
    match problem {
        Problem::Forward(p) => attention(p, input(2), &plain.weight_norm),
        Problem::Gemm(p) => gemm(p, input(0), input(1)),
        // Nothing cancels in a softmax.
        Problem::Softmax(p) => vec![0.0; p.m as usize],
    }
}

fn norm(dtype: Dtype, values: impl Iterator<Item = u16>) -> f64 {
    let squares = values.map(|bits| f64::from(dtype.decode(bits)).powi(2));
    squares.sum::<f64>().sqrt()
}

/// v `[batch, kv_len, kv_heads, head_dim]`, weight_norm `[batch, heads, q_len]`; rows `[batch, q_len, heads]`.
fn attention(p: &AttentionForward, v: &[u16], weight_norm: &[f32]) -> Vec<f64> {
    let [q_len, kv_len, heads, kv_heads] = [p.q_len, p.kv_len, p.heads, p.kv_heads].map(|n| n as usize);
    let mut largest: Vec<f64> = v
        .par_chunks(p.head_dim.max(1) as usize)
        .map(|row| norm(p.dtype, row.iter().copied()))
        .collect();
    // Of all keys up to each: keys of one head lie `kv_heads` apart.
    for batch in largest.chunks_mut((kv_len * kv_heads).max(1)) {
        for i in kv_heads..batch.len() {
            batch[i] = batch[i].max(batch[i - kv_heads]);
        }
    }
    let group = p.group().max(1) as usize;
    let row = |index: usize| {
        let (head, row, batch) = (index % heads, index / heads % q_len, index / heads / q_len);
        let seen = match p.mask {
            Mask::Full => kv_len,
            Mask::Causal => (row + kv_len + 1).saturating_sub(q_len).min(kv_len),
        };
        let last = seen.checked_sub(1)?;
        let value = largest.get((batch * kv_len + last) * kv_heads + head / group)?;
        let weights = weight_norm.get((batch * heads + head) * q_len + row)?;
        Some(value * f64::from(*weights))
    };
    let rows = p.batch as usize * q_len * heads;
    // A row that sees no key sums nothing.
    (0..rows)
        .into_par_iter()
        .map(|index| row(index).unwrap_or(0.0))
        .collect()
}

/// Norm of the row of op(A) times the largest norm of a row of op(B).
fn gemm(p: &Gemm, a: &[u16], b: &[u16]) -> Vec<f64> {
    let [m, n, k] = [p.m, p.n, p.k].map(|extent| extent as usize);
    let rows = |stored: &[u16], transposed: bool, (rows, cols): (usize, usize)| -> Vec<f64> {
        let at = |row: usize, col: usize| if transposed { col * rows + row } else { row * cols + col };
        let element = |row, col| stored.get(at(row, col)).copied().unwrap_or(0);
        (0..rows)
            .into_par_iter()
            .map(|row| norm(p.dtype, (0..cols).map(|col| element(row, col))))
            .collect()
    };
    let largest = rows(b, p.layout.b_transposed(), (k, n)).into_iter().fold(0.0, f64::max);
    let mut norms = rows(a, p.layout.a_transposed(), (m, k));
    for norm in &mut norms {
        *norm *= largest;
    }
    norms
}

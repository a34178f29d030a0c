//! Attention forward: the true result in f64, and the plain flash algorithm.
//!
//! Rows are grouped by (batch, key head), so that K and V of a group are decoded once and shared by all its rows.

use rayon::prelude::*;

use super::dense::{axpy_f32, axpy_f64, dot_f32, dot_f64};
use super::{AttentionData, ReferenceError, RowId, RowsOutput, RowsReference, check_row, q_row_index, row_slice};

/// Keys per block of the plain algorithm.
pub const FLASH_BLOCK_KEYS: usize = 64;

/// The true result of the given rows. With no visible key, O = 0 and LSE = -inf.
///
/// Two passes per row: all logits and their maximum, then the weights `exp2(s - max)`; nothing is rounded below f64.
///
/// # Errors
/// If a row does not exist.
pub fn forward_f64(data: &AttentionData<'_>, rows: &[RowId]) -> Result<RowsReference, ReferenceError> {
    let width = data.problem.head_dim as usize;
    let results = per_row(data, rows, |group, q, visible| true_row(data, group, q, visible))?;
    let mut out = RowsReference {
        rows: rows.to_vec(),
        width,
        values: Vec::with_capacity(rows.len() * width),
        lse: None,
        term_norm: Vec::with_capacity(rows.len()),
    };
    let mut lse = Vec::with_capacity(rows.len());
    for row in results {
        out.values.extend(row.o);
        out.term_norm.push(row.term_norm);
        lse.push(row.lse);
    }
    out.lse = Some(lse);
    Ok(out)
}

/// The plain flash algorithm on the given rows: f32 accumulation, blocks of [`FLASH_BLOCK_KEYS`] keys from the first to
/// the last, the exact running maximum (O and the row sum rescaled whenever it moves), the row sum over unrounded
/// weights, weights rounded to the dtype before they meet V, one rounding of O at the end.
///
/// # Errors
/// If a row does not exist.
pub fn forward_plain(data: &AttentionData<'_>, rows: &[RowId]) -> Result<RowsOutput, ReferenceError> {
    let width = data.problem.head_dim as usize;
    let results = per_row(data, rows, |group, q, visible| plain_row(data, group, q, visible))?;
    let mut values = Vec::with_capacity(rows.len() * width);
    let mut lse = Vec::with_capacity(rows.len());
    for (o, row_lse) in results {
        values.extend(o);
        lse.push(row_lse);
    }
    Ok(RowsOutput {
        width,
        values,
        lse: Some(lse),
    })
}

/// K and V of one (batch, key head), decoded up to the last key that any row of the group sees.
struct Group {
    /// `[keys, head_dim]`.
    k: Vec<f32>,
    /// `[keys, head_dim]`.
    v: Vec<f32>,
    /// `[keys]`: the largest 2-norm of the V rows up to and including each key.
    v_norm_so_far: Vec<f64>,
}

impl Group {
    fn new(data: &AttentionData<'_>, batch: u32, kv_head: u32, keys: u32) -> Self {
        let p = &data.problem;
        let width = p.head_dim as usize;
        let mut k = vec![0.0; keys as usize * width];
        let mut v = k.clone();
        let first = batch as usize * p.kv_len as usize * p.kv_heads as usize + kv_head as usize;
        let decoded = k.chunks_exact_mut(width).zip(v.chunks_exact_mut(width));
        for (key, (k_row, v_row)) in decoded.enumerate() {
            let index = first + key * p.kv_heads as usize;
            p.dtype.decode_into(row_slice(data.k, index, width), k_row);
            p.dtype.decode_into(row_slice(data.v, index, width), v_row);
        }
        let mut largest = 0.0_f64;
        let norms = v.chunks_exact(width).map(|row| {
            largest = largest.max(dot_f64(row, row).sqrt());
            largest
        });
        let v_norm_so_far = norms.collect();
        Self { k, v, v_norm_so_far }
    }
}

/// Runs `row` on every row asked for, in parallel, and returns the results in the order asked for.
fn per_row<T: Send>(
    data: &AttentionData<'_>,
    rows: &[RowId],
    row: impl Fn(&Group, &[f32], usize) -> T + Sync,
) -> Result<Vec<T>, ReferenceError> {
    let p = &data.problem;
    rows.iter().try_for_each(|&id| check_row(p, id))?;
    let kv_head = |id: &RowId| id.head / p.group().max(1);
    let mut order = (0..rows.len()).collect::<Vec<_>>();
    order.sort_by_key(|&i| (rows[i].batch, kv_head(&rows[i])));
    let groups = order
        .chunk_by(|&i, &j| (rows[i].batch, kv_head(&rows[i])) == (rows[j].batch, kv_head(&rows[j])))
        .collect::<Vec<_>>();
    let run_group = |members: &&[usize]| {
        let first = rows[members[0]];
        let keys = members.iter().map(|&i| p.visible_kv(rows[i].row)).max().unwrap_or(0);
        let group = Group::new(data, first.batch, kv_head(&first), keys);
        let run_row = |&i: &usize| {
            let mut q = vec![0.0; p.head_dim as usize];
            p.dtype
                .decode_into(row_slice(data.q, q_row_index(p, rows[i]), q.len()), &mut q);
            (i, row(&group, &q, p.visible_kv(rows[i].row) as usize))
        };
        members.par_iter().map(run_row).collect::<Vec<_>>()
    };
    let mut results = groups.par_iter().flat_map_iter(run_group).collect::<Vec<_>>();
    results.sort_by_key(|&(i, _)| i);
    Ok(results.into_iter().map(|(_, result)| result).collect())
}

struct TrueRow {
    o: Vec<f64>,
    lse: f64,
    term_norm: f64,
}

fn true_row(data: &AttentionData<'_>, group: &Group, q: &[f32], visible: usize) -> TrueRow {
    let width = q.len();
    let mut o = vec![0.0; width];
    let Some(&v_norm) = visible.checked_sub(1).and_then(|last| group.v_norm_so_far.get(last)) else {
        return TrueRow {
            o,
            lse: f64::NEG_INFINITY,
            term_norm: 0.0,
        };
    };
    let scale_log2 = f64::from(data.scale_log2);
    let keys = group.k.chunks_exact(width).take(visible);
    let mut weights = keys.map(|k| dot_f64(q, k) * scale_log2).collect::<Vec<_>>();
    let max = weights.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut sum, mut sum_squares) = (0.0, 0.0);
    for (weight, v) in weights.iter_mut().zip(group.v.chunks_exact(width)) {
        *weight = libm::exp2(*weight - max);
        sum += *weight;
        sum_squares += *weight * *weight;
        axpy_f64(&mut o, *weight, v);
    }
    o.iter_mut().for_each(|x| *x /= sum);
    let lse = (max + libm::log2(sum)) * std::f64::consts::LN_2;
    TrueRow {
        o,
        lse,
        term_norm: sum_squares.sqrt() / sum * v_norm,
    }
}

fn plain_row(data: &AttentionData<'_>, group: &Group, q: &[f32], visible: usize) -> (Vec<u16>, f32) {
    let (width, dtype) = (q.len(), data.problem.dtype);
    let mut o = vec![0.0_f32; width];
    let (mut max, mut sum) = (f32::NEG_INFINITY, 0.0_f32);
    let keys = &group.k[..visible * width];
    let values = &group.v[..visible * width];
    let block = FLASH_BLOCK_KEYS * width;
    for (k_block, v_block) in keys.chunks(block).zip(values.chunks(block)) {
        let logits = k_block.chunks_exact(width).map(|k| dot_f32(q, k) * data.scale_log2);
        let logits = logits.collect::<Vec<_>>();
        let new_max = logits.iter().copied().fold(max, f32::max);
        // exp2(-inf) = 0 in the first block, where O and the sum are 0 anyway.
        let rescale = libm::exp2f(max - new_max);
        o.iter_mut().for_each(|x| *x *= rescale);
        sum *= rescale;
        max = new_max;
        for (logit, v) in logits.iter().zip(v_block.chunks_exact(width)) {
            let weight = libm::exp2f(logit - max);
            sum += weight;
            axpy_f32(&mut o, dtype.round(weight), v);
        }
    }
    if visible == 0 {
        return (vec![dtype.encode(0.0); width], f32::NEG_INFINITY);
    }
    let lse = (max + libm::log2f(sum)) * std::f32::consts::LN_2;
    (o.iter().map(|x| dtype.encode(x / sum)).collect(), lse)
}

//! Which rows to check when all are too many: spread over the whole length, differently in every head, and always with
//! the places where kernels go wrong.

use std::collections::BTreeSet;

use super::RowId;
use crate::problem::{AttentionForward, Gemm};

/// Last and first rows of the tile heights in use.
const TILE_EDGES: [u32; 6] = [63, 64, 127, 128, 191, 192];

/// Rows and columns of a matrix; every pair is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatrixSample {
    pub rows: Vec<u32>,
    pub cols: Vec<u32>,
}

/// Every row of the output, by batch, then head, then row.
pub fn every_row(p: &AttentionForward) -> impl Iterator<Item = RowId> {
    let AttentionForward {
        batch, heads, q_len, ..
    } = *p;
    let heads_of = move |batch| (0..heads).map(move |head| (batch, head));
    let rows_of = move |(batch, head)| (0..q_len).map(move |row| RowId { batch, head, row });
    (0..batch).flat_map(heads_of).flat_map(rows_of)
}

/// Rows of every head of every batch: one random row from each of `per_head` equal stretches, and always the first, the
/// last, the last blind and the first seeing row (causal, fewer keys than queries), and the edges of usual tiles.
#[must_use]
pub fn sample_rows(p: &AttentionForward, per_head: u32, seed: u64) -> Vec<RowId> {
    let blind = p.q_len.saturating_sub(p.kv_len);
    let edges = [blind.saturating_sub(1), blind]
        .into_iter()
        .chain(TILE_EDGES)
        .collect::<Vec<_>>();
    let heads = (0..p.batch).flat_map(|batch| (0..p.heads).map(move |head| (batch, head)));
    let sample = heads.flat_map(|(batch, head)| {
        let head_seed = hash(seed, (u64::from(batch) << 32) | u64::from(head));
        spread(p.q_len, per_head, head_seed, &edges)
            .into_iter()
            .map(move |row| RowId { batch, head, row })
    });
    sample.collect()
}

/// At most about `most` of the rows, one from each of as many equal stretches, so that every head keeps its share and the
/// edges that are left differ from head to head; the first and the last row stay.
#[must_use]
pub fn thinned(rows: Vec<RowId>, most: u32, seed: u64) -> Vec<RowId> {
    let Ok(len) = u32::try_from(rows.len()) else {
        return rows;
    };
    let kept = spread(len, most, hash(seed, 3), &[]);
    kept.into_iter().filter_map(|i| rows.get(i as usize).copied()).collect()
}

/// `rows` by `cols` positions of C, spread as in [`sample_rows`]. Ask for `m` and `n` to get every element.
#[must_use]
pub fn sample_matrix(p: &Gemm, rows: u32, cols: u32, seed: u64) -> MatrixSample {
    MatrixSample {
        rows: spread(p.m, rows, hash(seed, 1), &TILE_EDGES),
        cols: spread(p.n, cols, hash(seed, 2), &TILE_EDGES),
    }
}

/// Increasing indices below `len`: one from each of `count` stretches, the two ends, and the `edges` that exist.
fn spread(len: u32, count: u32, seed: u64, edges: &[u32]) -> Vec<u32> {
    let Some(last) = len.checked_sub(1) else {
        return Vec::new();
    };
    if count >= len {
        return (0..len).collect();
    }
    let bound = |i: u32| u64::from(i) * u64::from(len) / u64::from(count);
    let stretches = (0..count).map(|i| {
        let (start, end) = (bound(i), bound(i + 1));
        // Below `len`, so it fits.
        (start + hash(seed, u64::from(i)) % (end - start)) as u32
    });
    let always = edges.iter().copied().filter(|&edge| edge < len).chain([0, last]);
    stretches.chain(always).collect::<BTreeSet<_>>().into_iter().collect()
}

/// The finaliser of `SplitMix64` over both words.
const fn hash(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

//! Numbers, comparisons, and a plain f64 attention.

use dsl::DType;
use dsl::interp::{TensorData, Tensors};

/// Numbers in about [-1, 1), the same for the same seed (a 64-bit linear congruential generator, Knuth's constants).
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

pub fn dense(dtype: DType, dims: &[usize], seed: u64) -> TensorData {
    TensorData::dense(dtype, dims, numbers(seed, dims.iter().product())).unwrap()
}

pub fn tensors<const N: usize>(entries: [(&str, TensorData); N]) -> Tensors {
    entries.into_iter().map(|(name, t)| (name.to_owned(), t)).collect()
}

/// The largest difference, relative to the larger of one and the wanted number; infinities must be equal.
pub fn worst(found: &[f64], wanted: &[f64]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let one = |(f, w): (&f64, &f64)| if f == w { 0.0 } else { (f - w).abs() / w.abs().max(1.0) };
    // A NaN must not get lost in a maximum.
    found
        .iter()
        .zip(wanted)
        .map(one)
        .fold(0.0, |m, x| if x.is_nan() || x > m { x } else { m })
}

pub fn assert_close(what: &str, found: &[f64], wanted: &[f64], bound: f64) {
    let error = worst(found, wanted);
    assert!(error <= bound, "{what}: error {error:e}, allowed {bound:e}");
}

/// What attention is asked to compute.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    pub batch: usize,
    pub q_len: usize,
    pub kv_len: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub head_dim: usize,
    pub scale: f64,
}

/// Attention in f64: o `[batch, q_len, heads, head_dim]`, lse `[batch, heads, q_len]`. `score` turns a scaled score of
/// (query, key) into the one to weigh by; -inf hides the key.
pub fn attention(
    p: Problem,
    q: &TensorData,
    k: &TensorData,
    v: &TensorData,
    score: impl Fn(usize, usize, f64) -> f64,
) -> (Vec<f64>, Vec<f64>) {
    let mut o = vec![0.0; p.batch * p.q_len * p.heads * p.head_dim];
    let mut lse = vec![f64::NEG_INFINITY; p.batch * p.heads * p.q_len];
    for b in 0..p.batch {
        for h in 0..p.heads {
            let kv_head = h / (p.heads / p.kv_heads);
            for i in 0..p.q_len {
                let dot = |j: usize| -> f64 {
                    (0..p.head_dim)
                        .map(|d| q.get(&[b, i, h, d]).unwrap() * k.get(&[b, j, kv_head, d]).unwrap())
                        .sum()
                };
                let scores: Vec<f64> = (0..p.kv_len).map(|j| score(i, j, dot(j) * p.scale)).collect();
                let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                if top == f64::NEG_INFINITY {
                    continue;
                }
                let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
                lse[(b * p.heads + h) * p.q_len + i] = top + total.ln();
                let row = &mut o[((b * p.q_len + i) * p.heads + h) * p.head_dim..][..p.head_dim];
                for (j, s) in scores.iter().enumerate() {
                    let weight = (s - top).exp() / total;
                    row.iter_mut()
                        .enumerate()
                        .for_each(|(d, x)| *x += weight * v.get(&[b, j, kv_head, d]).unwrap());
                }
            }
        }
    }
    (o, lse)
}

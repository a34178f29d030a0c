//! Shape sets that every kernel must pass: ragged tails, and keys longer and shorter than queries.

use super::{AttentionForward, Gemm, Mask, Problem, RowSoftmax};

/// Lengths that fall short of, meet, or just pass the tile sizes in use; each exercises another tail.
pub const RAGGED_LENS: [u32; 7] = [1, 17, 127, 128, 129, 1023, 4097];

/// `base` at every ragged length up to `max_len` with equal lengths, then with keys longer and shorter than queries,
/// under both masks. Batch, heads, head size and dtype are those of `base`.
#[must_use]
pub fn ragged(base: &AttentionForward, max_len: u32) -> Vec<AttentionForward> {
    let lens = RAGGED_LENS
        .iter()
        .copied()
        .filter(|&len| len <= max_len)
        .collect::<Vec<_>>();
    let pairs = lens.iter().enumerate().flat_map(|(i, &len)| {
        let other = lens[(i + 1) % lens.len()];
        [(len, len), (len, other), (other, len)]
    });
    let mut shapes = Vec::new();
    for (q_len, kv_len) in pairs {
        for mask in [Mask::Full, Mask::Causal] {
            let shape = AttentionForward {
                q_len,
                kv_len,
                mask,
                ..*base
            };
            if !shapes.contains(&shape) {
                shapes.push(shape);
            }
        }
    }
    shapes
}

/// A long extent as a short one with the same tail in every tile of up to 256: at least `floor`, itself a multiple of that.
const fn short(len: u32, floor: u32) -> u32 {
    if len < floor + 256 { len } else { floor + len % 256 }
}

/// A problem that one kernel solves as well as `problem` (only runtime sizes differ) and that costs little: short extents with
/// the same tails, few heads. A problem that is small already is returned as it is.
#[must_use]
pub fn smaller(problem: &Problem) -> Problem {
    shortened(problem, 1024, 2)
}

/// As [`smaller`], and small enough for the simulated device to run it in a second or two.
#[must_use]
pub fn smallest(problem: &Problem) -> Problem {
    shortened(problem, 256, 1)
}

fn shortened(problem: &Problem, floor: u32, most: u32) -> Problem {
    match *problem {
        Problem::Forward(p) => {
            let kv_heads = p.kv_heads.min(most);
            Problem::Forward(AttentionForward {
                batch: p.batch.min(most),
                q_len: short(p.q_len, floor),
                kv_len: short(p.kv_len, floor),
                heads: kv_heads * p.group().min(2),
                kv_heads,
                ..p
            })
        }
        Problem::Gemm(p) => Problem::Gemm(Gemm {
            m: short(p.m, floor),
            n: short(p.n, floor),
            k: short(p.k, floor),
            ..p
        }),
        Problem::Softmax(p) => Problem::Softmax(RowSoftmax {
            m: short(p.m, floor),
            n: short(p.n, floor),
            ..p
        }),
    }
}

//! Shape sets that every kernel must pass: ragged tails, and keys longer and shorter than queries.

use super::{AttentionForward, Mask};

/// Lengths that fall short of, or just past, the tile sizes in use; each exercises another tail.
pub const RAGGED_LENS: [u32; 6] = [1, 17, 127, 129, 1023, 4097];

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

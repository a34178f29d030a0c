//! The problems of the table.

use oracle::problem::ragged;
use oracle::{AttentionForward, Dtype, Gemm, Mask, MatLayout, Problem, RowSoftmax};
use warpwright_runner::LayoutRule;

use super::Entry;

const HEAD_DIMS: [u32; 3] = [64, 128, 256];
/// Query and key heads.
const HEADS: [(u32, u32); 4] = [(4, 4), (4, 2), (4, 1), (8, 1)];

/// Shapes to verify: every kernel, dtype, mask and head size; ragged lengths, groups, strides. The simulator gets none
/// above a few hundred rows.
pub fn verified(quick: bool, sim: bool, large: bool) -> Vec<Entry> {
    let longest = if sim {
        129
    } else if quick {
        1023
    } else {
        4097
    };
    let mut entries = Vec::new();
    for dtype in Dtype::ALL {
        for head_dim in HEAD_DIMS {
            let base = AttentionForward {
                dtype,
                batch: 2,
                q_len: 1,
                kv_len: 1,
                heads: 4,
                kv_heads: 2,
                head_dim,
                mask: Mask::Full,
            };
            let shapes = ragged(&base, longest);
            let turn = entries.len();
            entries.extend(shapes.into_iter().enumerate().map(|(i, shape)| {
                // Groups of 1, 2, 4 and 8 in turn; the second term keeps them from going in step with the masks.
                let (heads, kv_heads) = HEADS[(turn + i + i / 4) % HEADS.len()];
                let shape = AttentionForward {
                    heads,
                    kv_heads,
                    ..shape
                };
                dense(shape.into())
            }));
            entries.extend(strided(&base, longest));
        }
        entries.extend(matrices(dtype, longest));
    }
    if large && !quick && !sim {
        entries.extend(timed());
    }
    entries
}

fn dense(problem: Problem) -> Entry {
    let layout = LayoutRule::Dense;
    Entry { problem, layout }
}

/// One attention shape per mask in each other layout.
fn strided(base: &AttentionForward, longest: u32) -> Vec<Entry> {
    let layouts = [LayoutRule::Padded, LayoutRule::Permuted];
    let shape = |mask| AttentionForward {
        q_len: longest.min(300),
        kv_len: longest.min(500),
        mask,
        ..*base
    };
    let both = layouts
        .into_iter()
        .flat_map(|layout| [(layout, Mask::Full), (layout, Mask::Causal)]);
    both.map(|(layout, mask)| Entry {
        problem: shape(mask).into(),
        layout,
    })
    .collect()
}

fn matrices(dtype: Dtype, longest: u32) -> Vec<Entry> {
    let sizes = [(8, 8, 8), (130, 264, 72), (longest - 1, 520, 1000)];
    let gemms = MatLayout::ALL
        .into_iter()
        .flat_map(|layout| sizes.map(|(m, n, k)| Gemm { dtype, m, n, k, layout }.into()));
    let softmaxes = [(1, 8), (70, 1000), (longest, 264)].map(|(m, n)| RowSoftmax { dtype, m, n }.into());
    // Rows of these are no multiple of 16 bytes.
    let odd = [
        Gemm {
            dtype,
            m: 131,
            n: 264,
            k: 73,
            layout: MatLayout::Nt,
        }
        .into(),
        RowSoftmax { dtype, m: 65, n: 328 }.into(),
    ];
    let aligned = odd.into_iter().map(|problem| Entry {
        problem,
        layout: LayoutRule::Aligned,
    });
    // A transposed A has rows of m elements: only multiples of 8 are dense.
    let is_dense = |problem: &Problem| match problem {
        Problem::Gemm(p) => [p.m, p.n, p.k].iter().all(|extent| extent.is_multiple_of(8)),
        _ => true,
    };
    let all = gemms.chain(softmaxes).map(move |problem| Entry {
        problem,
        layout: if is_dense(&problem) {
            LayoutRule::Dense
        } else {
            LayoutRule::Aligned
        },
    });
    all.chain(aligned).collect()
}

/// Shapes to time: 32 k tokens by length, both masks, and large products.
pub fn timed() -> Vec<Entry> {
    let mut problems = Vec::new();
    for mask in [Mask::Full, Mask::Causal] {
        for len in [4096, 8192, 16_384, 32_768] {
            problems.push(Problem::Forward(AttentionForward {
                dtype: Dtype::Bf16,
                batch: 32_768 / len,
                q_len: len,
                kv_len: len,
                heads: 16,
                kv_heads: 16,
                head_dim: 128,
                mask,
            }));
        }
    }
    let product = Gemm {
        dtype: Dtype::Bf16,
        m: 8192,
        n: 8192,
        k: 8192,
        layout: MatLayout::Nt,
    };
    problems.push(product.into());
    problems.into_iter().map(dense).collect()
}

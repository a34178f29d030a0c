//! Operand tiles in f32 and the multiplication.
//!
//! Products of 16-bit floats are exact in f32. They are added in order of k, one rounding each, to
//! the accumulator; hardware adds in a wider, unspecified order (PTX ISA 9.7.15.6.3).

use super::descriptor::K;
use crate::exec::half::decode;
use crate::exec::warp::Lanes;

/// Rows of an accumulator tile.
pub(crate) const M: usize = 64;

/// Reads 8 elements of a chunk.
fn elements(chunk: &[u8], is_bf16: bool) -> [f32; 8] {
    std::array::from_fn(|i| decode(is_bf16, u16::from_le_bytes([chunk[2 * i], chunk[2 * i + 1]])))
}

/// An operand as `[K][mn]`, from chunks in the order of [`super::descriptor::Descriptor::chunks`].
pub(crate) fn tile(smem: &[u8], chunks: &[usize], mn_major: bool, mn: usize, is_bf16: bool) -> Vec<f32> {
    let mut out = vec![0f32; K * mn];
    for (index, at) in chunks.iter().enumerate() {
        let values = elements(&smem[*at..*at + 16], is_bf16);
        if mn_major {
            let (k, first) = (index / (mn / 8), index % (mn / 8) * 8);
            out[k * mn + first..k * mn + first + 8].copy_from_slice(&values);
        } else {
            let (row, first) = (index / 2, index % 2 * 8);
            for (k, value) in values.iter().enumerate() {
                out[(first + k) * mn + row] = *value;
            }
        }
    }
    out
}

/// Row and column of accumulator register `i` of a lane in its warp's 16 rows (PTX ISA figure of
/// the D fragment of wgmma).
pub(crate) fn d_place(i: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + 8 * (i >> 1 & 1), 8 * (i >> 2) + 2 * (lane % 4) + (i & 1))
}

/// The A fragment of one warp as `[16 rows][K]`: register r holds row g + 8 (r & 1), columns
/// 8 (r >> 1) + 2 q and the next.
pub(crate) fn a_fragment(regs: [&Lanes; 4], is_bf16: bool) -> [[f32; K]; 16] {
    let mut out = [[0f32; K]; 16];
    for (r, reg) in regs.iter().enumerate() {
        for (lane, bits) in reg.iter().enumerate() {
            let (row, col) = (lane / 4 + 8 * (r & 1), 8 * (r >> 1) + 2 * (lane % 4));
            out[row][col] = decode(is_bf16, *bits as u16);
            out[row][col + 1] = decode(is_bf16, (*bits >> 16) as u16);
        }
    }
    out
}

/// `acc[n] += sum over k of a[k] * b[k][n]`, in order of k.
pub(crate) fn row_times_tile(acc: &mut [f32], a: &[f32; K], b: &[f32]) {
    let n = acc.len();
    for (k, a) in a.iter().enumerate() {
        for (acc, b) in acc.iter_mut().zip(&b[k * n..(k + 1) * n]) {
            *acc += a * b;
        }
    }
}

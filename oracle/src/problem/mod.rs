//! Problems: what is to be computed, on which shape. One text grammar is used on the command line, in stores and in
//! reports:
//!
//! ```text
//! fwd DTYPE bN sQ[xKV] hQ[/KV] dD full|causal      fwd bf16 b2 s4096x1024 h32/8 d128 causal
//! gemm DTYPE mM nN kK nn|nt|tn|tt                  gemm f16 m4096 n4096 k512 nt
//! softmax DTYPE mM nN                              softmax bf16 m4096 n1000
//! ```
//!
//! Words are separated by white space and come in this order. `Display` prints the canonical text (one space, `xKV` and
//! `/KV` only where they differ), and parsing it gives the same value back.

mod error;
mod parse;
mod sets;
mod text;

use serde::{Deserialize, Serialize};

use crate::dtype::Dtype;
pub use error::{Field, ParseError, ProblemFault, Span};
pub use sets::{RAGGED_LENS, ragged, smaller, smallest};

/// Largest extent of one dimension: 2^30, because kernels compute with signed 32-bit sizes and round them up to tiles.
pub const MAX_DIM: u32 = 1 << 30;

/// Largest number of elements of one tensor: 2^48, far above any memory and far below overflow of 64-bit addresses.
pub const MAX_ELEMS: u64 = 1 << 48;

/// Largest head size that the references take.
pub const MAX_HEAD_DIM: u32 = 512;

/// Head sizes that attention kernels are built for; the references take every multiple of 8 up to [`MAX_HEAD_DIM`].
pub const HEAD_DIMS: [u32; 3] = [64, 128, 256];

/// Which keys a query may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mask {
    /// Every key.
    Full,
    /// Bottom-right aligned: query `i` sees the keys `j <= i + kv_len - q_len`. With `kv_len < q_len` the first
    /// `q_len - kv_len` queries see no key at all.
    Causal,
}

impl Mask {
    /// The word of the grammar.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Causal => "causal",
        }
    }
}

/// Attention forward: `O = softmax(scale · Q Kᵀ + mask) V`, with the natural-log LSE of every row.
///
/// Shapes: Q and O `[batch, q_len, heads, head_dim]`; K and V `[batch, kv_len, kv_heads, head_dim]`;
/// LSE `[batch, heads, q_len]` in f32. Query head `h` reads key head `h / (heads / kv_heads)`.
///
/// The fields are open so that a shape can be written down or varied; whatever takes one calls [`Self::check`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct AttentionForward {
    pub dtype: Dtype,
    pub batch: u32,
    pub q_len: u32,
    pub kv_len: u32,
    pub heads: u32,
    pub kv_heads: u32,
    pub head_dim: u32,
    pub mask: Mask,
}

/// How the two operands of a GEMM are stored: the first letter is A, the second B, `t` means transposed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MatLayout {
    /// A `[m, k]`, B `[k, n]`.
    Nn,
    /// A `[m, k]`, B `[n, k]`.
    Nt,
    /// A `[k, m]`, B `[k, n]`.
    Tn,
    /// A `[k, m]`, B `[n, k]`.
    Tt,
}

impl MatLayout {
    /// Every layout, in the order of the grammar.
    pub const ALL: [Self; 4] = [Self::Nn, Self::Nt, Self::Tn, Self::Tt];

    /// The word of the grammar.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nn => "nn",
            Self::Nt => "nt",
            Self::Tn => "tn",
            Self::Tt => "tt",
        }
    }

    /// Whether A is stored `[k, m]`.
    #[must_use]
    pub const fn a_transposed(self) -> bool {
        matches!(self, Self::Tn | Self::Tt)
    }

    /// Whether B is stored `[n, k]`.
    #[must_use]
    pub const fn b_transposed(self) -> bool {
        matches!(self, Self::Nt | Self::Tt)
    }
}

/// `C[m, n] = op(A) op(B)`, accumulated in f32, C stored row-major in `dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct Gemm {
    pub dtype: Dtype,
    pub m: u32,
    pub n: u32,
    pub k: u32,
    pub layout: MatLayout,
}

/// `Y[m, n] = softmax over n of X[m, n]`, both stored row-major in `dtype`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct RowSoftmax {
    pub dtype: Dtype,
    pub m: u32,
    pub n: u32,
}

/// Any problem of the grammar. Serialised as its canonical text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Problem {
    Forward(AttentionForward),
    Gemm(Gemm),
    Softmax(RowSoftmax),
}

impl AttentionForward {
    /// Refuses shapes outside the limits; returns the problem unchanged otherwise.
    ///
    /// # Errors
    /// The first fault, in the order of the grammar.
    pub fn check(self) -> Result<Self, ProblemFault> {
        dims_in_range(&[
            (Field::Batch, self.batch),
            (Field::QLen, self.q_len),
            (Field::KvLen, self.kv_len),
            (Field::Heads, self.heads),
            (Field::KvHeads, self.kv_heads),
        ])?;
        if !self.heads.is_multiple_of(self.kv_heads) {
            return Err(ProblemFault::HeadsDoNotDivide {
                heads: self.heads,
                kv_heads: self.kv_heads,
            });
        }
        if self.head_dim == 0 || !self.head_dim.is_multiple_of(8) || self.head_dim > MAX_HEAD_DIM {
            return Err(ProblemFault::HeadDim {
                asked: self.head_dim.to_string(),
            });
        }
        elems_in_range("Q", &[self.batch, self.q_len, self.heads, self.head_dim])?;
        elems_in_range("K", &[self.batch, self.kv_len, self.kv_heads, self.head_dim])?;
        Ok(self)
    }

    /// Query heads per key head; 0 only for an unchecked problem.
    #[must_use]
    pub const fn group(&self) -> u32 {
        match self.heads.checked_div(self.kv_heads) {
            Some(group) => group,
            None => 0,
        }
    }

    /// `1 / sqrt(head_dim)`, the scale of the softmax unless the caller says otherwise.
    #[must_use]
    pub fn default_scale(&self) -> f64 {
        1.0 / f64::from(self.head_dim.max(1)).sqrt()
    }

    /// [`Self::default_scale`] times log2(e): the value of the kernel parameter `scale_log2`.
    #[must_use]
    pub fn default_scale_log2(&self) -> f32 {
        (self.default_scale() * std::f64::consts::LOG2_E) as f32
    }

    /// Elements of Q, and of O.
    #[must_use]
    pub const fn q_elems(&self) -> u64 {
        elems(&[self.batch, self.q_len, self.heads, self.head_dim])
    }

    /// Elements of K, and of V.
    #[must_use]
    pub const fn kv_elems(&self) -> u64 {
        elems(&[self.batch, self.kv_len, self.kv_heads, self.head_dim])
    }

    /// Elements of LSE.
    #[must_use]
    pub const fn lse_elems(&self) -> u64 {
        elems(&[self.batch, self.heads, self.q_len])
    }

    /// How many keys the query `row` sees: always the keys `0 .. visible`.
    #[must_use]
    pub fn visible_kv(&self, row: u32) -> u32 {
        match self.mask {
            Mask::Full => self.kv_len,
            Mask::Causal => {
                let last = i64::from(row) + i64::from(self.kv_len) - i64::from(self.q_len);
                (last + 1).clamp(0, i64::from(self.kv_len)) as u32
            }
        }
    }
}

impl Gemm {
    /// Refuses shapes outside the limits; returns the problem unchanged otherwise.
    ///
    /// # Errors
    /// The first fault, in the order of the grammar.
    pub fn check(self) -> Result<Self, ProblemFault> {
        dims_in_range(&[(Field::M, self.m), (Field::N, self.n), (Field::K, self.k)])?;
        elems_in_range("A", &[self.m, self.k])?;
        elems_in_range("B", &[self.k, self.n])?;
        elems_in_range("C", &[self.m, self.n])?;
        Ok(self)
    }

    /// Elements of A.
    #[must_use]
    pub const fn a_elems(&self) -> u64 {
        elems(&[self.m, self.k])
    }

    /// Elements of B.
    #[must_use]
    pub const fn b_elems(&self) -> u64 {
        elems(&[self.k, self.n])
    }

    /// Elements of C.
    #[must_use]
    pub const fn c_elems(&self) -> u64 {
        elems(&[self.m, self.n])
    }
}

impl RowSoftmax {
    /// Refuses shapes outside the limits; returns the problem unchanged otherwise.
    ///
    /// # Errors
    /// The first fault, in the order of the grammar.
    pub fn check(self) -> Result<Self, ProblemFault> {
        dims_in_range(&[(Field::M, self.m), (Field::N, self.n)])?;
        elems_in_range("X", &[self.m, self.n])?;
        Ok(self)
    }

    /// Elements of X, and of Y.
    #[must_use]
    pub const fn elems(&self) -> u64 {
        elems(&[self.m, self.n])
    }
}

impl Problem {
    /// Refuses shapes outside the limits; returns the problem unchanged otherwise.
    ///
    /// # Errors
    /// The first fault, in the order of the grammar.
    pub fn check(self) -> Result<Self, ProblemFault> {
        match self {
            Self::Forward(p) => p.check().map(Self::Forward),
            Self::Gemm(p) => p.check().map(Self::Gemm),
            Self::Softmax(p) => p.check().map(Self::Softmax),
        }
    }

    /// As [`Self::check`], and refuses what no kernel is built for.
    ///
    /// # Errors
    /// The first fault, in the order of the grammar.
    pub fn check_built(self) -> Result<Self, ProblemFault> {
        match self.check()? {
            Self::Forward(p) if !HEAD_DIMS.contains(&p.head_dim) => Err(ProblemFault::HeadDim {
                asked: p.head_dim.to_string(),
            }),
            built => Ok(built),
        }
    }

    /// Storage type of operands and output.
    #[must_use]
    pub const fn dtype(&self) -> Dtype {
        match self {
            Self::Forward(p) => p.dtype,
            Self::Gemm(p) => p.dtype,
            Self::Softmax(p) => p.dtype,
        }
    }

    /// Name of the kernel family that solves it, as in [`crate::signature`].
    #[must_use]
    pub const fn kernel(&self) -> &'static str {
        match self {
            Self::Forward(_) => "attention_forward",
            Self::Gemm(_) => "gemm",
            Self::Softmax(_) => "row_softmax",
        }
    }

    /// Elements of the main output (O, C or Y).
    #[must_use]
    pub const fn output_elems(&self) -> u64 {
        match self {
            Self::Forward(p) => p.q_elems(),
            Self::Gemm(p) => p.c_elems(),
            Self::Softmax(p) => p.elems(),
        }
    }
}

/// Product of the extents; saturates for unchecked problems instead of wrapping.
const fn elems(dims: &[u32]) -> u64 {
    let mut product = 1_u64;
    let mut i = 0;
    while i < dims.len() {
        product = product.saturating_mul(dims[i] as u64);
        i += 1;
    }
    product
}

fn dims_in_range(dims: &[(Field, u32)]) -> Result<(), ProblemFault> {
    for &(field, value) in dims {
        if value == 0 {
            return Err(ProblemFault::Zero { field });
        }
        if value > MAX_DIM {
            return Err(ProblemFault::TooLarge {
                field,
                asked: value.to_string(),
            });
        }
    }
    Ok(())
}

fn elems_in_range(tensor: &'static str, dims: &[u32]) -> Result<(), ProblemFault> {
    // At most four extents of at most 2^30 each: the product stays below 2^121.
    let count = dims.iter().map(|&d| u128::from(d)).product::<u128>();
    if count > u128::from(MAX_ELEMS) {
        return Err(ProblemFault::TooManyElements { tensor, count });
    }
    Ok(())
}

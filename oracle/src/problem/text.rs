//! The canonical text of a problem, and conversions.

use std::fmt;

use super::{AttentionForward, Gemm, ParseError, Problem, RowSoftmax};

impl From<AttentionForward> for Problem {
    fn from(p: AttentionForward) -> Self {
        Self::Forward(p)
    }
}

impl From<Gemm> for Problem {
    fn from(p: Gemm) -> Self {
        Self::Gemm(p)
    }
}

impl From<RowSoftmax> for Problem {
    fn from(p: RowSoftmax) -> Self {
        Self::Softmax(p)
    }
}

impl From<Problem> for String {
    fn from(p: Problem) -> Self {
        p.to_string()
    }
}

impl TryFrom<String> for Problem {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

impl fmt::Display for AttentionForward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fwd {} b{} s{}", self.dtype, self.batch, self.q_len)?;
        if self.kv_len != self.q_len {
            write!(f, "x{}", self.kv_len)?;
        }
        write!(f, " h{}", self.heads)?;
        if self.kv_heads != self.heads {
            write!(f, "/{}", self.kv_heads)?;
        }
        write!(f, " d{} {}", self.head_dim, self.mask.name())
    }
}

impl fmt::Display for Gemm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "gemm {} m{} n{} k{} {}",
            self.dtype,
            self.m,
            self.n,
            self.k,
            self.layout.name()
        )
    }
}

impl fmt::Display for RowSoftmax {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "softmax {} m{} n{}", self.dtype, self.m, self.n)
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Forward(p) => p.fmt(f),
            Self::Gemm(p) => p.fmt(f),
            Self::Softmax(p) => p.fmt(f),
        }
    }
}

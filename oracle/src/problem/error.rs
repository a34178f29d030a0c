//! Why a problem was refused: what was asked, what is true, what would be allowed, and where in the text.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{HEAD_DIMS, MAX_DIM, MAX_ELEMS};

/// A half-open byte range of the problem text; always on character boundaries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// A place of the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    Kernel,
    Dtype,
    Batch,
    QLen,
    KvLen,
    Heads,
    KvHeads,
    HeadDim,
    Mask,
    M,
    N,
    K,
    Layout,
}

impl Field {
    /// The name used in code and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Dtype => "dtype",
            Self::Batch => "batch",
            Self::QLen => "q_len",
            Self::KvLen => "kv_len",
            Self::Heads => "heads",
            Self::KvHeads => "kv_heads",
            Self::HeadDim => "head_dim",
            Self::Mask => "mask",
            Self::M => "m",
            Self::N => "n",
            Self::K => "k",
            Self::Layout => "layout",
        }
    }
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why extents end where they do.
const SIZES: &str = "kernels compute with signed 32-bit sizes, rounded up to tiles";

/// What is wrong with a problem, independent of how it was written down.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum ProblemFault {
    #[error("asked for {field} {asked:?}, which is not known; allowed: {}{}", allowed.join(", "), hint(*suggestion))]
    UnknownWord {
        field: Field,
        asked: String,
        allowed: &'static [&'static str],
        suggestion: Option<&'static str>,
    },
    #[error("the text ends where {form:?} is due; allowed here: for example {example:?}")]
    Missing { form: &'static str, example: &'static str },
    #[error("asked for {asked:?} where {form:?} is due; allowed here: for example {example:?}")]
    BadForm {
        asked: String,
        form: &'static str,
        example: &'static str,
    },
    #[error("{asked:?} follows a problem that is already complete; allowed: nothing more")]
    Trailing { asked: String },
    #[error("asked for {field} 0, but no extent may be empty; allowed: 1 to {MAX_DIM}")]
    Zero { field: Field },
    #[error("asked for {field} {asked}, but {SIZES}; allowed: 1 to {MAX_DIM}")]
    TooLarge { field: Field, asked: String },
    #[error(
        "asked for {heads} query heads over {kv_heads} key heads, which do not divide; allowed kv_heads near it: {}",
        near_divisors(*heads, *kv_heads)
    )]
    HeadsDoNotDivide { heads: u32, kv_heads: u32 },
    #[error(
        "asked for head_dim {asked}, but attention kernels are built for some head sizes only; allowed: {}",
        head_dims()
    )]
    HeadDim { asked: String },
    #[error("the tensor {tensor} would have {count} elements; allowed: at most 2^48 = {MAX_ELEMS}")]
    TooManyElements { tensor: &'static str, count: u128 },
}

impl ProblemFault {
    /// The field to blame, where it is one field.
    #[must_use]
    pub const fn field(&self) -> Option<Field> {
        match self {
            Self::UnknownWord { field, .. } | Self::Zero { field } | Self::TooLarge { field, .. } => Some(*field),
            Self::HeadsDoNotDivide { .. } => Some(Field::KvHeads),
            Self::HeadDim { .. } => Some(Field::HeadDim),
            Self::Missing { .. } | Self::BadForm { .. } | Self::Trailing { .. } | Self::TooManyElements { .. } => None,
        }
    }
}

fn hint(suggestion: Option<&'static str>) -> String {
    suggestion.map_or_else(String::new, |word| format!("; did you mean {word:?}?"))
}

/// The divisors of `heads` next to `kv_heads` on either side.
fn near_divisors(heads: u32, kv_heads: u32) -> String {
    // Divisors come in pairs, so trying up to the square root finds them all: at most 46341 steps.
    let small = (1..=heads.isqrt()).filter(|&d| heads.is_multiple_of(d));
    let divisors = small.flat_map(|d| [d, heads / d]).collect::<Vec<_>>();
    let below = divisors.iter().copied().filter(|&d| d < kv_heads).max();
    let above = divisors.iter().copied().filter(|&d| d > kv_heads).min();
    let near = [below, above]
        .into_iter()
        .flatten()
        .map(|d| d.to_string())
        .collect::<Vec<_>>();
    near.join(" or ")
}

fn head_dims() -> String {
    HEAD_DIMS.map(|d| d.to_string()).join(", ")
}

/// Longest part of a text that a terminal is shown.
const SHOWN_CHARS: usize = 120;

/// A refused problem text, with the place of the fault.
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize)]
#[error("{fault} (bytes {}..{} of {text:?})", span.start, span.end)]
pub struct ParseError {
    /// The text as given.
    pub text: String,
    /// The token, or the part of it, to blame; empty and at the end where something is missing.
    pub span: Span,
    #[source]
    pub fault: ProblemFault,
}

impl ParseError {
    /// Three lines for a terminal: the text, carets under the span, and the fault. Of a long text the part around the span,
    /// of a long span its beginning; control characters as spaces.
    #[must_use]
    pub fn render(&self) -> String {
        let count = |text: Option<&str>| text.map_or(0, |s| s.chars().count());
        let before = count(self.text.get(..self.span.start));
        let under = count(self.text.get(self.span.start..self.span.end)).clamp(1, SHOWN_CHARS / 2);
        let skipped = before.saturating_sub(SHOWN_CHARS / 2);
        let shown = self.text.chars().skip(skipped).take(SHOWN_CHARS);
        let line: String = shown.map(|c| if c.is_control() { ' ' } else { c }).collect();
        format!(
            "{line}\n{}{}\n{}",
            " ".repeat(before - skipped),
            "^".repeat(under),
            self.fault
        )
    }
}

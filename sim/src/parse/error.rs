//! Errors of reading PTX text: always with a line and a column.

use thiserror::Error;

/// A place in the PTX text; both numbers count from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pos {
    /// Line, from 1.
    pub line: u32,
    /// Column in characters, from 1.
    pub col: u32,
}

/// Why PTX text was refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("PTX line {}, column {}: {message}", pos.line, pos.col)]
pub struct PtxError {
    /// Where.
    pub pos: Pos,
    /// What was found, and what would be allowed.
    pub message: String,
}

impl PtxError {
    pub(crate) fn new(pos: Pos, message: impl Into<String>) -> Self {
        Self {
            pos,
            message: message.into(),
        }
    }
}

/// Shorthand of the parser and the decoder.
pub(crate) type PtxResult<T> = Result<T, PtxError>;

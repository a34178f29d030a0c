//! The verdict of the gate, as data and as one line of text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Scan;
use crate::reference::RowId;

/// One error figure beside what it is measured against.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// Of the output under test.
    pub value: f64,
    /// Of the plain algorithm on the same rows.
    pub plain: f64,
    /// Largest value that passes.
    pub gate: f64,
}

/// The largest scaled LSE error.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LseFigure {
    /// `|LSE − true| / max(1, |true|)`.
    pub value: f64,
    /// Largest value that passes.
    pub gate: f64,
    /// Where it is.
    pub worst: RowId,
}

/// One reason to fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "failure", rename_all = "snake_case")]
pub enum Failure {
    /// The RMS over rows is above its gate.
    Rms,
    /// The largest row error is above its gate.
    Max,
    /// An LSE is too far off.
    Lse,
    /// NaN or infinite elements of O or LSE.
    NotFinite { elems: u64 },
    /// Elements of O or LSE that still hold the poison pattern.
    Unwritten { elems: u64 },
    /// Every output is zero, the true ones are not.
    AllZero,
    /// Every output is the same, the true ones are not.
    Constant { value: f32 },
}

/// The verdict on one output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ErrorReport {
    /// How many rows the figures cover.
    pub rows: u64,
    /// Root mean square of e over the rows.
    pub rms: Figure,
    /// Largest e.
    pub max: Figure,
    /// The row with the largest e.
    pub worst: RowId,
    /// Only for attention.
    pub lse: Option<LseFigure>,
    /// Empty for a pass.
    pub failures: Vec<Failure>,
}

impl ErrorReport {
    /// Whether nothing failed.
    #[must_use]
    pub fn passed(&self) -> bool {
        self.failures.is_empty()
    }

    /// Adds what a look at every element found; counts of an earlier, smaller look are replaced.
    pub(super) fn add_scan(&mut self, scan: &Scan) {
        let counted = |f: &Failure| matches!(f, Failure::NotFinite { .. } | Failure::Unwritten { .. });
        self.failures.retain(|f| !counted(f));
        if scan.not_finite > 0 {
            self.failures.push(Failure::NotFinite { elems: scan.not_finite });
        }
        if scan.unwritten > 0 {
            self.failures.push(Failure::Unwritten { elems: scan.unwritten });
        }
    }

    pub(super) fn apply_gates(&mut self) {
        let above = [
            (self.rms.value > self.rms.gate, Failure::Rms),
            (self.max.value > self.max.gate, Failure::Max),
            (self.lse.is_some_and(|lse| lse.value > lse.gate), Failure::Lse),
        ];
        self.failures.extend(
            above
                .into_iter()
                .filter(|(failed, _)| *failed)
                .map(|(_, failure)| failure),
        );
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rms => f.write_str("rms above gate"),
            Self::Max => f.write_str("worst row above gate"),
            Self::Lse => f.write_str("lse above gate"),
            Self::NotFinite { elems } => write!(f, "{elems} elements NaN or infinite"),
            Self::Unwritten { elems } => write!(f, "{elems} elements never written"),
            Self::AllZero => f.write_str("all outputs zero"),
            Self::Constant { value } => write!(f, "all outputs {value}"),
        }
    }
}

impl fmt::Display for ErrorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.passed() { "pass" } else { "FAIL" };
        write!(f, "{verdict} rows {}", self.rows)?;
        for (name, figure) in [("rms", self.rms), ("max", self.max)] {
            write!(
                f,
                " {name} {:.2e} (plain {:.2e}, gate {:.2e})",
                figure.value, figure.plain, figure.gate
            )?;
        }
        let RowId { batch, head, row } = self.worst;
        write!(f, " worst b{batch} h{head} row {row}")?;
        if let Some(lse) = self.lse {
            write!(f, " lse {:.2e} (gate {:.0e})", lse.value, lse.gate)?;
        }
        for (i, failure) in self.failures.iter().enumerate() {
            write!(f, "{} {failure}", if i == 0 { ":" } else { "," })?;
        }
        Ok(())
    }
}

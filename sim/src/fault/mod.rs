//! What can be wrong with a kernel: findings (execution goes on) and faults (it stops).
//!
//! Each text says who did what where, what is true, and what would be right.

mod kind;

pub use kind::{Access, FindingKind, Wait};

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// Where something was found.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Site {
    /// Line of the PTX text, from 1; 0 when no instruction is to blame.
    pub line: u32,
    /// `FILE:LINE` of the source behind it, where the text says so by `.loc`.
    pub source: Option<Arc<str>>,
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Warp within the CTA.
    pub warp: u32,
    /// Lanes that executed the instruction.
    pub lanes: u32,
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        write!(f, "PTX line {}", self.line)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        write!(f, ", CTA ({x}, {y}, {z}), warp {}", self.warp)?;
        if self.lanes != u32::MAX && self.lanes != 0 {
            write!(f, ", lanes {:#010x}", self.lanes)?;
        }
        Ok(())
    }
}

/// One violation of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where.
    pub site: Site,
    /// What.
    pub kind: FindingKind,
    /// How often the same rule was broken by the same instruction.
    pub times: u64,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.site, self.kind)?;
        if self.times > 1 {
            write!(f, " ({} times)", self.times)?;
        }
        Ok(())
    }
}

/// A launch that did not run to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// The launch itself was refused.
    #[error("launch of `{entry}` refused: {reason}")]
    Launch {
        /// The entry asked for.
        entry: String,
        /// What was asked, what is true, what would be allowed.
        reason: String,
    },
    /// The kernel was stopped by `stopped_by`, after the other findings.
    #[error("{stopped_by}")]
    Stopped {
        /// The finding that ended the run.
        stopped_by: Box<Finding>,
        /// Everything found before it.
        findings: Vec<Finding>,
    },
}

impl Fault {
    /// The finding that stopped the kernel, then the earlier ones.
    pub fn all(&self) -> Vec<&Finding> {
        match self {
            Self::Launch { .. } => Vec::new(),
            Self::Stopped { stopped_by, findings } => std::iter::once(stopped_by.as_ref()).chain(findings).collect(),
        }
    }
}

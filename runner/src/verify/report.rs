//! What verification found.

use oracle::inputs::{Family, InputError};
use oracle::norms::{ErrorReport, GateError};
use oracle::reference::ReferenceError;
use serde::{Deserialize, Serialize};

use super::VerifyPlan;
use super::whole::WholeReport;
use crate::case::{Case, CaseError};
use crate::device::DeviceError;
use crate::launch::{BindError, LaunchError};

/// What is wrong with an output.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "wrong", rename_all = "snake_case")]
pub enum Wrong {
    /// The error gate; see the family's `errors`.
    Errors,
    /// The gate on the whole tensor; see the family's `whole`.
    WholeTensor,
    /// An input was written.
    InputChanged { tensor: String, elems: u64 },
    /// Elements between the rows of a strided output were written.
    GapWritten { tensor: String, elems: u64 },
}

/// The verdict on one family.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FamilyReport {
    pub family: Family,
    /// Of the last output judged.
    pub errors: Option<ErrorReport>,
    /// Every row of that output against the plain reference kernel, where the f64 reference covers sampled rows only.
    pub whole: Option<WholeReport>,
    /// Whether all launches gave the same bits.
    pub repeatable: bool,
    pub wrong: Option<Wrong>,
    /// Which launch was wrong, from 0.
    pub wrong_launch: Option<u32>,
}

/// The verdict on a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyReport {
    pub problem: oracle::Problem,
    pub seed: u64,
    pub families: Vec<FamilyReport>,
}

/// Why there is no verified kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum VerifyError {
    #[error("asked to verify on no input family, which proves nothing; allowed: at least one")]
    NoFamilies,
    #[error("{0}")]
    Wrong(Box<VerifyReport>),
    /// A smaller problem that the kernel's signature does not fit: a fault of ours.
    #[error("the smaller problem: {0}")]
    Case(#[from] CaseError),
    #[error(transparent)]
    Bind(BindError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("inputs: {0}")]
    Input(#[from] InputError),
    #[error("reference: {0}")]
    Reference(#[from] ReferenceError),
    #[error("gate: {0}")]
    Gate(#[from] GateError),
    /// A fault of ours.
    #[error("the plain reference kernel is no measure on these inputs: {text}")]
    PlainKernel { text: String },
}

impl From<LaunchError> for VerifyError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Bind(error) => Self::Bind(error),
            LaunchError::Device(error) => Self::Device(error),
        }
    }
}

impl FamilyReport {
    /// Nothing judged yet.
    #[must_use]
    pub const fn new(family: Family) -> Self {
        Self {
            family,
            errors: None,
            whole: None,
            repeatable: true,
            wrong: None,
            wrong_launch: None,
        }
    }

    /// Rows judged against f64, and rows compared with the plain reference kernel.
    #[must_use]
    pub fn rows_checked(&self) -> (u64, u64) {
        let rows_f64 = self.errors.as_ref().map_or(0, |errors| errors.rows);
        (rows_f64, self.whole.as_ref().map_or(0, |whole| whole.rows))
    }

    pub(super) fn failed(mut self, launch: u32, wrong: Wrong) -> Self {
        self.wrong = Some(wrong);
        self.wrong_launch = Some(launch);
        self
    }
}

impl VerifyReport {
    pub(super) fn new(case: &Case, plan: &VerifyPlan) -> Self {
        Self {
            problem: *case.problem(),
            seed: plan.seed,
            families: Vec::new(),
        }
    }

    /// Whether every family passed, and there was one.
    #[must_use]
    pub fn passed(&self) -> bool {
        !self.families.is_empty() && self.families.iter().all(|family| family.wrong.is_none())
    }

    /// The first family that failed.
    #[must_use]
    pub fn first_wrong(&self) -> Option<&FamilyReport> {
        self.families.iter().find(|family| family.wrong.is_some())
    }
}

impl std::fmt::Display for FamilyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: ", self.family)?;
        match &self.wrong {
            Some(Wrong::InputChanged { tensor, elems }) => {
                return write!(
                    f,
                    "{elems} elements of the input `{tensor}` were written; allowed: none"
                );
            }
            Some(Wrong::GapWritten { tensor, elems }) => {
                return write!(
                    f,
                    "{elems} elements between the rows of `{tensor}` were written; allowed: none"
                );
            }
            Some(Wrong::Errors | Wrong::WholeTensor) | None => {}
        }
        match &self.errors {
            Some(errors) => errors.fmt(f)?,
            None => f.write_str("not judged")?,
        }
        if let Some(whole) = &self.whole {
            write!(f, "; {whole}")?;
        }
        if let Some(launch) = self.wrong_launch.filter(|launch| *launch > 0) {
            write!(f, " (launch {launch}, after a right one)")?;
        }
        Ok(())
    }
}

impl std::fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}` seed {}", self.problem, self.seed)?;
        for family in self.families.iter().filter(|family| family.wrong.is_some()) {
            write!(f, "\n  {family}")?;
        }
        Ok(())
    }
}

//! Validation: every rule that later stages rely on, checked once, with all errors collected.
//!
//! [`validate`] is the only way to a [`ValidKernel`], which carries [`Facts`] read off the checked kernel. The rules are
//! about maths and structure; what the hardware can do is the schedule's affair.

mod effects;
mod error;
mod facts;
mod indices;
mod names;
mod reference;
mod scopes;
mod structure;
mod types;

pub use error::{Invalid, ValidationError, ValidationErrors};
pub use facts::{Facts, LoadUses, Role, Side, User};

use crate::ir::Kernel;
use error::Report;

/// A kernel that passed every check, with facts about it.
#[derive(Clone, Debug, PartialEq)]
pub struct ValidKernel {
    kernel: Kernel,
    facts: Facts,
}

impl ValidKernel {
    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// What validation found out.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The kernel, for a rewrite; it has to be validated again.
    #[must_use]
    pub fn into_kernel(self) -> Kernel {
        self.kernel
    }
}

/// Checks a kernel.
///
/// # Errors
/// Every mistake found. When ids point nowhere, values stand twice or folds nest, only those mistakes are reported,
/// since the other checks would then speak of a program that is not there.
pub fn validate(kernel: Kernel) -> Result<ValidKernel, ValidationErrors> {
    let facts = check(&kernel)?;
    Ok(ValidKernel { kernel, facts })
}

fn check(kernel: &Kernel) -> Result<Facts, ValidationErrors> {
    let mut report = Report::new(kernel);
    let program = structure::check(&mut report);
    if !report.errors.is_empty() {
        return Err(failed(report));
    }
    names::check(&mut report, &program);
    scopes::check(&mut report);
    types::check(&mut report, &program);
    indices::check(&mut report, &program);
    effects::check(&mut report, &program);
    reference::check(&mut report, &program);
    let facts = facts::collect(&mut report, &program);
    match facts {
        Some(facts) if report.errors.is_empty() => Ok(facts),
        _ => Err(failed(report)),
    }
}

fn failed(report: Report<'_>) -> ValidationErrors {
    ValidationErrors {
        kernel: report.kernel.name.clone(),
        errors: report.errors,
    }
}

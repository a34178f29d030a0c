//! How a kernel was verified, for the records of its times.

use oracle::Problem;
use oracle::inputs::Family;
use serde::{Deserialize, Serialize};

use super::{RowBudget, VerifyPlan, VerifyReport};

/// A verification that a kernel passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// Where it was launched: the problem itself, or a smaller one for the same code.
    pub problem: Problem,
    pub seed: u64,
    /// Launches per family.
    pub launches: u32,
    pub budget: RowBudget,
    pub families: Vec<CheckedFamily>,
}

/// One family that was passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckedFamily {
    pub family: Family,
    /// Rows judged against f64.
    pub rows_f64: u64,
    /// Rows compared with the plain reference kernel.
    pub rows_whole: u64,
}

impl Checked {
    pub(super) fn of(report: &VerifyReport, plan: &VerifyPlan) -> Self {
        let families = report.families.iter().map(|family| {
            let (rows_f64, rows_whole) = family.rows_checked();
            CheckedFamily {
                family: family.family,
                rows_f64,
                rows_whole,
            }
        });
        Self {
            problem: report.problem,
            seed: plan.seed,
            launches: plan.launches.max(1),
            budget: plan.budget,
            families: families.collect(),
        }
    }
}

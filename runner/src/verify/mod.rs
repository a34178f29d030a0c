//! Is the output right? Seeded inputs of every family, guarded memory, and the oracle's error gate.
//!
//! Each family is launched several times. Before a launch every output byte is poison (a NaN in each type), gaps of
//! strided tensors hold NaNs in inputs too. After it: nothing outside the tensors or in their gaps was written, inputs
//! are unchanged bit for bit, the scratch is as before, and the output passes `oracle::norms` on all rows, or on sampled
//! rows of every head where all are too many. A second launch must pass too; whether it gave the same bits is recorded.

mod memory;
mod report;
mod truth;

use oracle::inputs::Family;
use serde::{Deserialize, Serialize};

pub use memory::TensorSet;
pub use report::{FamilyReport, VerifyError, VerifyReport, Wrong};
pub use truth::{RowBudget, Truth, Truths};

use crate::case::Case;
use crate::device::Device;
use crate::launch::{BindInput, Bound, LaunchError, Prepared};

/// How to verify.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerifyPlan {
    pub families: Vec<Family>,
    pub seed: u64,
    /// Launches per family; at least 1.
    pub launches: u32,
    pub budget: RowBudget,
    /// Whether the first wrong family ends the verification.
    pub stop_on_first: bool,
}

impl Default for VerifyPlan {
    fn default() -> Self {
        Self {
            families: Family::ALL.to_vec(),
            seed: 1,
            launches: 2,
            budget: RowBudget::default(),
            stop_on_first: true,
        }
    }
}

/// A kernel that passed verification on a case; only such a one can be timed.
pub struct Verified<'a, D: Device> {
    prepared: &'a Prepared<D>,
    case: &'a Case,
    report: VerifyReport,
}

impl<'a, D: Device> Verified<'a, D> {
    #[must_use]
    pub const fn prepared(&self) -> &'a Prepared<D> {
        self.prepared
    }

    #[must_use]
    pub const fn case(&self) -> &'a Case {
        self.case
    }

    #[must_use]
    pub const fn report(&self) -> &VerifyReport {
        &self.report
    }
}

/// Verifies a loaded kernel on a case. `truths` keeps references between candidates of one problem.
///
/// # Errors
/// A wrong result with its report, a refusal, a failure of the device, or one of the oracle.
pub fn verify<'a, D: Device>(
    device: &D,
    (prepared, case): (&'a Prepared<D>, &'a Case),
    plan: &VerifyPlan,
    truths: &mut Truths,
) -> Result<Verified<'a, D>, VerifyError> {
    if plan.families.is_empty() {
        return Err(VerifyError::NoFamilies);
    }
    let set = TensorSet::alloc(device, case)?;
    let bound = bind(device, prepared, case, &set)?;
    let mut report = VerifyReport::new(case, plan);
    for &family in &plan.families {
        let truth = truths.get(case.problem(), family, plan.seed, plan.budget)?;
        let family_report = run_family(device, (&bound, &set, case), (family, &truth), plan.launches)?;
        let passed = family_report.wrong.is_none();
        report.families.push(family_report);
        if !passed && plan.stop_on_first {
            break;
        }
    }
    if report.passed() {
        Ok(Verified { prepared, case, report })
    } else {
        Err(VerifyError::Wrong(Box::new(report)))
    }
}

/// Binds a kernel to the tensors of a set.
pub(crate) fn bind<D: Device>(
    device: &D,
    prepared: &Prepared<D>,
    case: &Case,
    set: &TensorSet<D>,
) -> Result<Bound<D>, LaunchError> {
    let input = BindInput {
        sizes: case.sizes(),
        scalars: case.scalars(),
        tensors: set.args(),
    };
    prepared.bind(device, &input)
}

fn run_family<D: Device>(
    device: &D,
    (bound, set, case): (&Bound<D>, &TensorSet<D>, &Case),
    (family, truth): (Family, &Truth),
    launches: u32,
) -> Result<FamilyReport, VerifyError> {
    set.write_inputs(device, truth.inputs())?;
    let mut report = FamilyReport::new(family);
    let mut first = None;
    for launch in 0..launches.max(1) {
        set.poison_outputs(device)?;
        bound.launch(device)?;
        device.synchronize()?;
        set.check_bounds(device)?;
        bound.check_scratch(device)?;
        let wrong = match set.read_outputs(device)? {
            Err(wrong) => Some(wrong),
            Ok(output) if first.as_ref() == Some(&output) => None,
            Ok(output) => {
                report.repeatable &= first.is_none();
                let errors = truth.judge(case.problem(), &output)?;
                let passed = errors.passed();
                report.errors = Some(errors);
                first.get_or_insert(output);
                if passed { None } else { Some(Wrong::Errors) }
            }
        };
        // Inputs are big: they are read back once, at the end. A changed one explains what else is wrong.
        let is_last = launch + 1 >= launches || wrong.is_some();
        let changed = if is_last {
            set.changed_input(device, truth.inputs())?
        } else {
            None
        };
        if let Some(wrong) = changed.or(wrong) {
            return Ok(report.failed(launch, wrong));
        }
    }
    Ok(report)
}

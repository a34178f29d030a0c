//! Is the output right? Seeded inputs of every family, guarded memory, and the oracle's error gate.
//!
//! Each family is launched several times. Before a launch every output byte is poison (a NaN in each type), gaps of
//! strided tensors hold NaNs in inputs too. After it: nothing outside the tensors or in their gaps was written, inputs
//! are unchanged bit for bit, the scratch is as before, and the output passes `oracle::norms` on all rows, or on sampled
//! rows of every head where all are too many; then every row is also compared with a plain reference kernel of our own
//! ([`PLAIN_KERNELS`], [`WholeReport`]), which itself is held against f64 on the sampled rows. A second launch must pass too; whether it gave the same bits is recorded.

mod checked;
mod memory;
mod plain;
mod quick;
mod report;
mod terms;
mod truth;
mod whole;

use oracle::inputs::Family;
use serde::{Deserialize, Serialize};

pub use checked::{Checked, CheckedFamily};
pub use memory::{Output, TensorSet};
pub use plain::{PLAIN_ARCH, PLAIN_KERNELS, PlainCode, PlainOutput, PlainRun};
pub use quick::{QuickTruths, verify_quick};
pub use report::{FamilyReport, VerifyError, VerifyReport, Wrong};
pub use truth::{RowBudget, Truth, Truths};
pub use whole::{Bounded, PLAIN_SHARE, SAMPLE_ROOM, WholeReport, WholeRule};

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
    /// From which size on rows are sampled.
    pub budget: RowBudget,
    /// When whole tensors are compared with the plain reference kernel.
    #[serde(default)]
    pub whole: WholeRule,
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
            whole: WholeRule::default(),
            stop_on_first: true,
        }
    }
}

/// A kernel that passed verification on a case; only such a one can be timed.
pub struct Verified<'a, D: Device> {
    prepared: &'a Prepared<D>,
    case: &'a Case,
    report: VerifyReport,
    checked: Vec<Checked>,
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

    /// How it was verified: on this case, and on others before it.
    #[must_use]
    pub fn checked(&self) -> &[Checked] {
        &self.checked
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
        let family_report = run_family(device, (&bound, &set, case), (family, &truth), plan)?;
        let passed = family_report.wrong.is_none();
        report.families.push(family_report);
        if !passed && plan.stop_on_first {
            break;
        }
    }
    if report.passed() {
        let checked = vec![Checked::of(&report, plan)];
        Ok(Verified {
            prepared,
            case,
            report,
            checked,
        })
    } else {
        Err(VerifyError::Wrong(Box::new(report)))
    }
}

/// Binds a kernel to the tensors of a set.
///
/// # Errors
/// A refusal, or a failure of the device.
pub fn bind<D: Device>(
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

/// The whole right result by the plain kernel, where the rule asks for it. The inputs must be in place, and no kernel under
/// test have run on them.
///
/// # Errors
/// A plain kernel that does not load, or a failure of the device.
pub fn plain_result<'t, D: Device>(
    device: &D,
    (set, case): (&TensorSet<D>, &Case),
    truth: &'t Truth,
    rule: WholeRule,
) -> Result<Option<&'t PlainOutput>, VerifyError> {
    let wanted = match rule {
        WholeRule::WhenSampled => !truth.is_complete(),
        WholeRule::Always => true,
        WholeRule::Never => false,
    };
    if !wanted {
        return Ok(None);
    }
    let run = || -> Result<PlainOutput, LaunchError> {
        // Its outputs are as large as the tensors: they are freed before the kernel under test runs.
        let plain = PlainRun::new(device, case, set).map_err(plain::explain)?;
        Ok(plain.run(device)?)
    };
    Ok(Some(truth.plain_kernel(run)?))
}

fn run_family<D: Device>(
    device: &D,
    (bound, set, case): (&Bound<D>, &TensorSet<D>, &Case),
    (family, truth): (Family, &Truth),
    plan: &VerifyPlan,
) -> Result<FamilyReport, VerifyError> {
    set.write_inputs(device, truth.inputs())?;
    let plain = plain_result(device, (set, case), truth, plan.whole)?;
    let mut report = FamilyReport::new(family);
    let mut first = None;
    for launch in 0..plan.launches.max(1) {
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
                let wrong = judge(case, (truth, plain), &output, &mut report)?;
                first.get_or_insert(output);
                wrong
            }
        };
        // Inputs are big: they are read back once, at the end. A changed one explains what else is wrong.
        let is_last = launch + 1 >= plan.launches || wrong.is_some();
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

/// Judges one output in every way there is, into the report; what is wrong is the result.
///
/// # Errors
/// A reference that is no measure.
pub fn judge(
    case: &Case,
    (truth, plain): (&Truth, Option<&PlainOutput>),
    output: &Output,
    report: &mut FamilyReport,
) -> Result<Option<Wrong>, VerifyError> {
    let errors = truth.judge(case.problem(), output)?;
    let passed = errors.passed();
    report.whole = match plain {
        Some(plain) => Some(whole::judge(case.problem(), (truth, plain), (output, &errors))?),
        None => None,
    };
    report.errors = Some(errors);
    Ok(match &report.whole {
        _ if !passed => Some(Wrong::Errors),
        Some(whole) if !whole.passed() => Some(Wrong::WholeTensor),
        _ => None,
    })
}

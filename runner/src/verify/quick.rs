//! Verification that takes seconds where all families on the problem itself take half a minute.
//!
//! One cubin serves every runtime size. So every family runs on a smaller problem with the same code, and the problem itself
//! on the family that is timed, its rows compared with the plain reference kernel. What it leaves out is named in the record
//! ([`super::Checked`]): the hostile families at full length.

use oracle::inputs::Family;
use oracle::problem::smaller;

use super::{RowBudget, Truths, Verified, VerifyError, VerifyPlan, verify};
use crate::case::Case;
use crate::device::Device;
use crate::launch::Prepared;

/// References of both problems, kept between the candidates of one problem.
#[derive(Debug, Default)]
pub struct QuickTruths {
    small: Truths,
    whole: Truths,
}

impl QuickTruths {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

/// Verifies a loaded kernel on every family at a smaller size, and on the timed family at its own; on dense tensors. A problem
/// that is small already is verified on every family.
///
/// # Errors
/// As [`verify`]; a wrong report names the problem it is about.
pub fn verify_quick<'a, D: Device>(
    device: &D,
    (prepared, case): (&'a Prepared<D>, &'a Case),
    truths: &mut QuickTruths,
) -> Result<Verified<'a, D>, VerifyError> {
    let all = VerifyPlan {
        budget: RowBudget::QUICK,
        ..VerifyPlan::default()
    };
    let small = smaller(case.problem());
    if small == *case.problem() {
        return verify(device, (prepared, case), &all, &mut truths.whole);
    }
    let small = Case::with_kernel(&small, case.kernel().clone())?;
    let before = verify(device, (prepared, &small), &all, &mut truths.small)?.checked;
    let timed = VerifyPlan {
        families: vec![Family::Normal],
        ..all
    };
    let mut verified = verify(device, (prepared, case), &timed, &mut truths.whole)?;
    verified.checked.splice(..0, before);
    Ok(verified)
}

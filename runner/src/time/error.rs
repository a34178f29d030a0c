//! Why there are no times.

use super::Implausible;
use crate::device::DeviceError;
use crate::launch::{BindError, LaunchError};
use crate::verify::{VerifyError, Wrong};

/// A refusal, a failure, or times that are not to be believed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimeError {
    #[error("asked to time nothing; allowed: at least one contestant")]
    NoContestants,
    #[error(
        "`{name}` solves `{given}`, the first contestant `{first}`; allowed: one problem and layout per comparison"
    )]
    OtherProblem { name: String, given: String, first: String },
    #[error(
        "asked for a {what} of {given}; allowed: windows of 1000 us or more, an own load of 0 or more, 1 to 10000 rounds, \
         a cache multiple of 0 to 100"
    )]
    Plan { what: &'static str, given: f64 },
    #[error("`{name}` passed verification and is wrong on the timed inputs (set {set}): {text}")]
    WrongOnTimedInputs { name: String, set: usize, text: String },
    #[error("`{name}` changed memory it must not while it was timed: {wrong:?}")]
    Memory { name: String, wrong: Wrong },
    #[error("`{name}` was right alone and wrong while timed (window {window}, set {set}): {text}")]
    WrongWhileTimed {
        name: String,
        window: usize,
        set: usize,
        text: String,
    },
    #[error("`{name}`: {implausible}")]
    Implausible { name: String, implausible: Implausible },
    #[error(transparent)]
    Verify(#[from] VerifyError),
    #[error(transparent)]
    Bind(BindError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl From<LaunchError> for TimeError {
    fn from(error: LaunchError) -> Self {
        match error {
            LaunchError::Bind(error) => Self::Bind(error),
            LaunchError::Device(error) => Self::Device(error),
        }
    }
}

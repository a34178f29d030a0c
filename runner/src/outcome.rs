//! How an evaluation ended, as data with a text that an agent can act on.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::assemble::AssemblyError;
use crate::case::CaseError;
use crate::device::{DeviceError, FaultClass};
use crate::launch::LaunchError;
use crate::time::{Comparison, TimeError};
use crate::verify::{VerifyError, VerifyReport};

/// Where an evaluation stood when it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    Trace,
    Compile,
    Assemble,
    Load,
    Verify,
    Time,
}

/// A stage and what it said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub stage: Stage,
    /// What was asked, what is true, what would be allowed.
    pub message: String,
}

/// How an evaluation ended. Illegal input, a bug of ours and a device failure are never mixed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum Outcome {
    /// The input is illegal.
    Refused(Ended),
    /// Legal, but too large for this device or host.
    Limit(Ended),
    /// No cubin: the assembler refused the text, ran past its deadline, or is not here.
    NotAssembled(Ended),
    /// Work ran past its deadline.
    Hang(Ended),
    /// Two accesses without order, or another broken rule of the memory model that a simulator saw.
    Race(Ended),
    /// The kernel faulted, wrote outside its tensors, or left its scratch changed.
    Fault(Ended),
    /// The result is wrong.
    Wrong {
        stage: Stage,
        message: String,
        /// The verification that failed; none when it was found while timing.
        report: Option<Box<VerifyReport>>,
    },
    /// Right; not timed, because the device has no times or none were asked for.
    Verified { report: Box<VerifyReport>, simulated: bool },
    /// Right and timed.
    Timed {
        report: Box<VerifyReport>,
        timing: Box<Comparison>,
    },
    /// There is no such device here.
    Unavailable(Ended),
    /// A fault of this program, not of the candidate.
    Bug(Ended),
}

impl Outcome {
    /// The name used in stores and tables.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Refused(_) => "refused",
            Self::Limit(_) => "limit",
            Self::NotAssembled(_) => "not_assembled",
            Self::Hang(_) => "hang",
            Self::Race(_) => "race",
            Self::Fault(_) => "fault",
            Self::Wrong { .. } => "wrong",
            Self::Verified { .. } => "verified",
            Self::Timed { .. } => "timed",
            Self::Unavailable(_) => "unavailable",
            Self::Bug(_) => "bug",
        }
    }

    /// Whether the candidate gave right results.
    #[must_use]
    pub const fn is_right(&self) -> bool {
        matches!(self, Self::Verified { .. } | Self::Timed { .. })
    }

    /// Whether this process can no longer use the device.
    #[must_use]
    pub const fn ends_process(&self) -> bool {
        matches!(self, Self::Hang(_) | Self::Fault(_))
    }

    /// Where it ended.
    #[must_use]
    pub const fn stage(&self) -> Stage {
        match self {
            Self::Refused(ended)
            | Self::Limit(ended)
            | Self::NotAssembled(ended)
            | Self::Hang(ended)
            | Self::Race(ended)
            | Self::Fault(ended)
            | Self::Unavailable(ended)
            | Self::Bug(ended) => ended.stage,
            Self::Wrong { stage, .. } => *stage,
            Self::Verified { .. } => Stage::Verify,
            Self::Timed { .. } => Stage::Time,
        }
    }

    /// From a failure of a device.
    #[must_use]
    pub fn of_device(stage: Stage, error: &DeviceError) -> Self {
        let ended = Ended {
            stage,
            message: error.message.clone(),
        };
        match error.class {
            FaultClass::Unavailable => Self::Unavailable(ended),
            FaultClass::Refused | FaultClass::Load => Self::Refused(ended),
            FaultClass::OutOfMemory => Self::Limit(ended),
            FaultClass::Hang => Self::Hang(ended),
            FaultClass::Race => Self::Race(ended),
            FaultClass::Fault | FaultClass::OutOfBounds | FaultClass::Other => Self::Fault(ended),
        }
    }

    /// From a failure to bind.
    #[must_use]
    pub fn of_launch(stage: Stage, error: &LaunchError) -> Self {
        match error {
            LaunchError::Bind(error) => Self::Refused(ended(stage, error)),
            LaunchError::Device(error) => Self::of_device(stage, error),
        }
    }
}

pub(crate) fn ended(stage: Stage, error: impl fmt::Display) -> Ended {
    Ended {
        stage,
        message: error.to_string(),
    }
}

impl From<CaseError> for Outcome {
    fn from(error: CaseError) -> Self {
        let ended = ended(Stage::Trace, &error);
        match error {
            CaseError::TooLarge { .. } => Self::Limit(ended),
            _ => Self::Refused(ended),
        }
    }
}

impl From<codegen::CompileError> for Outcome {
    fn from(error: codegen::CompileError) -> Self {
        let ended = ended(Stage::Compile, &error);
        match error {
            codegen::CompileError::Refused(_) => Self::Refused(ended),
            // The compiler's own checker found its program unsafe.
            _ => Self::Bug(ended),
        }
    }
}

impl Outcome {
    /// Where the assembler does not take a kernel, its words and then what our own analysis suspects.
    #[must_use]
    pub fn suspects(mut self, compiled: &codegen::Compiled) -> Self {
        if let Self::NotAssembled(ended) = &mut self {
            ended.message += &compiled.look_first();
        }
        self
    }
}

impl From<AssemblyError> for Outcome {
    fn from(error: AssemblyError) -> Self {
        let ended = ended(Stage::Assemble, &error);
        match error {
            AssemblyError::UnknownVersion { .. } | AssemblyError::JitTakesNone { .. } => Self::Refused(ended),
            AssemblyError::Assemble(tools::AssembleError::Option(_)) => Self::Refused(ended),
            AssemblyError::NoAssembler { .. } | AssemblyError::Assemble(_) => Self::NotAssembled(ended),
            AssemblyError::Cache(_) => Self::Bug(ended),
        }
    }
}

impl From<VerifyError> for Outcome {
    fn from(error: VerifyError) -> Self {
        let stage = Stage::Verify;
        match error {
            VerifyError::Wrong(report) => Self::Wrong {
                stage,
                message: report.to_string(),
                report: Some(report),
            },
            VerifyError::Device(error) => Self::of_device(stage, &error),
            VerifyError::Bind(_) | VerifyError::NoFamilies => Self::Refused(ended(stage, error)),
            VerifyError::Input(oracle::inputs::InputError::NoMemory { .. }) => Self::Limit(ended(stage, error)),
            VerifyError::Input(_)
            | VerifyError::Reference(_)
            | VerifyError::Gate(_)
            | VerifyError::Case(_)
            | VerifyError::PlainKernel { .. } => Self::Bug(ended(stage, error)),
        }
    }
}

impl From<TimeError> for Outcome {
    fn from(error: TimeError) -> Self {
        let stage = Stage::Time;
        match error {
            TimeError::Device(error) => Self::of_device(stage, &error),
            TimeError::Verify(error) => match Self::from(error) {
                Self::Limit(ended) => Self::Limit(Ended { stage, ..ended }),
                Self::Bug(ended) => Self::Bug(Ended { stage, ..ended }),
                other => other,
            },
            TimeError::NoContestants | TimeError::OtherProblem { .. } | TimeError::Plan { .. } | TimeError::Bind(_) => {
                Self::Refused(ended(stage, error))
            }
            TimeError::WrongOnTimedInputs { .. }
            | TimeError::Memory { .. }
            | TimeError::WrongWhileTimed { .. }
            | TimeError::Implausible { .. } => Self::Wrong {
                stage,
                message: error.to_string(),
                report: None,
            },
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(ended) => write!(f, "refused: {}", ended.message),
            Self::Limit(ended) => write!(f, "does not fit: {}", ended.message),
            Self::NotAssembled(ended) => write!(f, "not assembled: {}", ended.message),
            Self::Hang(ended) => write!(f, "hang: {}", ended.message),
            Self::Race(ended) => write!(f, "race: {}", ended.message),
            Self::Fault(ended) => write!(f, "fault: {}", ended.message),
            Self::Wrong { message, .. } => write!(f, "wrong: {message}"),
            Self::Unavailable(ended) => write!(f, "no device: {}", ended.message),
            Self::Bug(ended) => write!(f, "a fault of warpwright, not of the candidate: {}", ended.message),
            Self::Verified { report, simulated } => {
                let how = if *simulated { " on the simulator" } else { "" };
                write!(f, "right on {} input families{how}", report.families.len())
            }
            Self::Timed { report, timing } => {
                write!(f, "right on {} input families", report.families.len())?;
                for contestant in &timing.contestants {
                    write!(f, "; {:.2} us, {:.1} TFLOP/s", contestant.median_us, contestant.tflops)?;
                    if contestant.host_bound {
                        f.write_str(" (the host was the limit)")?;
                    }
                }
                Ok(())
            }
        }
    }
}

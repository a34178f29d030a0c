//! PTX text to cubin: one child process with a deadline, everything it said kept.
//!
//! Input and output have fixed names inside a scratch folder that is also the child's working folder, so neither the
//! messages nor the cubin depend on where or how often it ran.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use serde::Serialize;

use crate::child::{ChildError, ChildOutput, ChildRequest, run};
use crate::diagnostics::{self, Diagnostic, DiagnosticClass};
use crate::options::{self, OptionError};
use crate::resolve::Tool;
use crate::resources::Resources;

const INPUT_NAME: &str = "kernel.ptx";
const OUTPUT_NAME: &str = "kernel.cubin";

/// One text to assemble.
#[derive(Debug, Clone)]
pub struct AssembleRequest<'a> {
    /// The PTX module.
    pub ptx: &'a str,
    /// The target, e.g. `sm_90a`; it must fit the module's `.target`.
    pub arch: &'a str,
    /// 0 to 3.
    pub opt_level: u8,
    /// Further options, each one token; see [`options`] for the list of what is allowed.
    pub extra_options: &'a [String],
    /// The time after which the assembler is killed.
    pub deadline: Duration,
}

impl<'a> AssembleRequest<'a> {
    /// The module at full optimisation with no further option and a deadline of one minute.
    #[must_use]
    pub const fn new(ptx: &'a str, arch: &'a str) -> Self {
        Self {
            ptx,
            arch,
            opt_level: 3,
            extra_options: &[],
            deadline: Duration::from_secs(60),
        }
    }
}

/// An accepted text.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Assembled {
    /// The machine code. The same request to the same assembler gives the same bytes.
    #[serde(skip)]
    pub cubin: Vec<u8>,
    /// The version of the assembler that wrote it.
    pub ptxas_version: String,
    /// Everything the assembler said, except how long it took.
    pub diagnostics: Vec<Diagnostic>,
    /// What each function needs.
    pub resources: Resources,
    /// How long the assembler says it took; differs from run to run.
    pub compile_time_ms: Option<f64>,
}

impl Assembled {
    /// The diagnostics because of which the cubin must not be judged any further.
    pub fn refusals(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.class.is_refusal())
    }

    /// The diagnostics that say the assembler put in a missing wait or arrive.
    pub fn remarks(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.class == DiagnosticClass::SyncInjected)
    }

    /// Itself, unless it was assembled into something other than what the text says.
    ///
    /// # Errors
    /// When wgmma instructions were serialised or `setmaxnreg` was ignored.
    pub fn accept(self) -> Result<Self, AssembleError> {
        let diagnostics: Vec<Diagnostic> = self.refusals().cloned().collect();
        if diagnostics.is_empty() {
            return Ok(self);
        }
        Err(AssembleError::NotAsWritten {
            version: self.ptxas_version,
            diagnostics,
        })
    }
}

/// Why there is no cubin.
#[derive(Debug, thiserror::Error)]
pub enum AssembleError {
    /// The target's name is malformed.
    #[error("target '{0}' is malformed; a target is sm_ and a number, with an optional a or f, e.g. sm_90a")]
    Arch(String),
    /// The optimisation level does not exist.
    #[error("optimisation level {0} does not exist; allowed: 0 to 3")]
    OptLevel(u8),
    /// An option is not allowed.
    #[error(transparent)]
    Option(#[from] OptionError),
    /// The assembler refused the text.
    #[error("ptxas {version} refused the text:\n{}", joined(diagnostics))]
    Rejected {
        /// The assembler's version.
        version: String,
        /// What it said; lines are those of the PTX text.
        diagnostics: Vec<Diagnostic>,
    },
    /// The text was assembled, but not as written.
    #[error("ptxas {version} did not assemble the text as written:\n{}", joined(diagnostics))]
    NotAsWritten {
        /// The assembler's version.
        version: String,
        /// The lines that say so.
        diagnostics: Vec<Diagnostic>,
    },
    /// The assembler ended by a signal or without a cubin and without an error of its own.
    #[error("ptxas {version} failed without refusing the text ({how}):\n{output}")]
    Crashed {
        /// The assembler's version.
        version: String,
        /// Its exit code or signal.
        how: String,
        /// Its output.
        output: String,
    },
    /// The assembler did not run or ran past the deadline.
    #[error("ptxas {version}: {source}")]
    Child {
        /// The assembler's version.
        version: String,
        /// What happened.
        source: ChildError,
    },
    /// The scratch folder could not be used.
    #[error("cannot {action} the assembler's scratch folder: {source}")]
    Scratch {
        /// What was tried.
        action: &'static str,
        /// The reason.
        source: io::Error,
    },
}

impl AssembleError {
    /// Whether the assembler was killed at the deadline.
    #[must_use]
    pub const fn is_deadline(&self) -> bool {
        matches!(
            self,
            Self::Child {
                source: ChildError::Deadline { .. },
                ..
            }
        )
    }
}

fn joined(diagnostics: &[Diagnostic]) -> String {
    diagnostics
        .iter()
        .map(|diagnostic| diagnostic.text.as_str())
        .collect::<Vec<_>>()
        .join("\n")
}

/// Assembles one text.
///
/// Serialised wgmma and ignored `setmaxnreg` do not make it fail: the cubin exists and its diagnostics are worth storing.
/// [`Assembled::accept`] refuses it.
///
/// # Errors
/// When the request is illegal, the text is refused, or the assembler fails or runs past the deadline.
pub fn assemble(ptxas: &Tool, request: &AssembleRequest<'_>) -> Result<Assembled, AssembleError> {
    let scratch_error = |action| move |source| AssembleError::Scratch { action, source };
    let mut args = arguments(request)?;
    args.extend([INPUT_NAME, "-o", OUTPUT_NAME].map(OsString::from));
    let scratch = tempfile::tempdir().map_err(scratch_error("make"))?;
    fs::write(scratch.path().join(INPUT_NAME), request.ptx).map_err(scratch_error("write to"))?;
    let child = ChildRequest {
        program: &ptxas.path,
        args,
        env: Vec::new(),
        folder: scratch.path(),
        deadline: request.deadline,
    };
    let version = || ptxas.version.clone();
    let output = run(&child).map_err(|source| AssembleError::Child {
        version: version(),
        source,
    })?;
    let parsed = diagnostics::parse(&output.stderr);
    if !output.status.success() {
        return Err(failure(version(), &output, parsed.diagnostics));
    }
    let cubin = match fs::read(scratch.path().join(OUTPUT_NAME)) {
        Ok(cubin) if !cubin.is_empty() => cubin,
        Ok(_) => return Err(crashed(version(), "it wrote an empty cubin", &output)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(crashed(version(), "it wrote no cubin", &output));
        }
        Err(error) => return Err(scratch_error("read")(error)),
    };
    Ok(Assembled {
        cubin,
        ptxas_version: version(),
        resources: Resources::of(&parsed.diagnostics),
        diagnostics: parsed.diagnostics,
        compile_time_ms: parsed.compile_time_ms,
    })
}

/// The options of a request, checked.
fn arguments(request: &AssembleRequest<'_>) -> Result<Vec<OsString>, AssembleError> {
    if !is_arch(request.arch) {
        return Err(AssembleError::Arch(request.arch.to_owned()));
    }
    if request.opt_level > 3 {
        return Err(AssembleError::OptLevel(request.opt_level));
    }
    for option in request.extra_options {
        options::check(option)?;
    }
    let mut args = vec!["-v".into(), "-arch".into(), request.arch.into()];
    args.push(format!("--opt-level={}", request.opt_level).into());
    args.extend(request.extra_options.iter().map(OsString::from));
    Ok(args)
}

fn is_arch(arch: &str) -> bool {
    let Some(number) = arch.strip_prefix("sm_") else {
        return false;
    };
    let digits = number.strip_suffix(['a', 'f']).unwrap_or(number);
    !digits.is_empty() && digits.len() <= 4 && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn failure(version: String, output: &ChildOutput, diagnostics: Vec<Diagnostic>) -> AssembleError {
    if diagnostics
        .iter()
        .any(|diagnostic| diagnostic.class == DiagnosticClass::Rejection)
    {
        return AssembleError::Rejected { version, diagnostics };
    }
    let how = match (output.status.code(), output.status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "no exit code".to_owned(),
    };
    crashed(version, &how, output)
}

fn crashed(version: String, how: &str, output: &ChildOutput) -> AssembleError {
    AssembleError::Crashed {
        version,
        how: how.to_owned(),
        output: format!("{}{}", output.stdout, output.stderr),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_checked_before_anything_runs() {
        for arch in ["sm_90a", "sm_90", "sm_100f"] {
            assert!(is_arch(arch), "{arch}");
        }
        for arch in ["", "sm_", "sm_a", "compute_90", "sm_90a -o x", "sm_90aa", "sm_99999"] {
            assert!(!is_arch(arch), "{arch}");
        }
    }

    #[test]
    fn illegal_requests_are_refused_with_a_reason() {
        let request = AssembleRequest {
            opt_level: 4,
            ..AssembleRequest::new("", "sm_90a")
        };
        assert!(matches!(arguments(&request), Err(AssembleError::OptLevel(4))));
        let options = ["--output-file=x".to_owned()];
        let request = AssembleRequest {
            extra_options: &options,
            ..AssembleRequest::new("", "sm_90a")
        };
        assert!(matches!(arguments(&request), Err(AssembleError::Option(_))));
    }
}

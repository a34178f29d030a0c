//! Why a command has no answer: what was asked, what is true, what would be allowed, and where.

use std::fmt;

use codegen::{CompileError, Refusal};
use oracle::problem::{HEAD_DIMS, ParseError, ProblemFault};
use runner::outcome::Outcome;
use serde_json::{Value, json};
use tools::{AssembleError, SassError, ToolError};

use crate::answer;
use crate::exit::Exit;

/// One reason of a refusal.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Reason {
    /// The schedule key, the argument, or the value it is about.
    pub key: String,
    pub asked: String,
    /// What is true.
    #[serde(rename = "true")]
    pub fact: String,
    pub allowed: String,
    /// The Rust line of the value it is about: `FILE:LINE:COLUMN`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// A failure of a command.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    exit: Exit,
    message: Box<str>,
    reasons: Vec<Reason>,
    /// The input with the place marked, for reading.
    excerpt: Option<Box<str>>,
    help: Option<Box<str>>,
    /// Further fields of the JSON form.
    detail: serde_json::Map<String, Value>,
}

impl Failure {
    fn new(exit: Exit, message: impl Into<Box<str>>) -> Self {
        Self {
            exit,
            message: message.into(),
            reasons: vec![],
            excerpt: None,
            help: None,
            detail: serde_json::Map::new(),
        }
    }

    /// Input that cannot be accepted.
    pub fn refused(message: impl Into<Box<str>>) -> Self {
        Self::new(Exit::Refused, message)
    }

    /// No cubin.
    pub fn not_assembled(message: impl Into<Box<str>>) -> Self {
        Self::new(Exit::NotAssembled, message)
    }

    /// Nothing to run on.
    pub fn no_device(message: impl Into<Box<str>>) -> Self {
        Self::new(Exit::NoDevice, message)
    }

    /// A bug of ours.
    pub fn bug(message: impl Into<Box<str>>) -> Self {
        let help = "this is a bug of warpwright; please report it with the command line and the schedule file";
        Self::new(Exit::Bug, message).help(help)
    }

    /// An evaluation that did not end well, with the evaluator's own words.
    pub fn of_outcome(outcome: &Outcome) -> Self {
        let exit = exit_of(outcome);
        let failure = if exit == Exit::Bug {
            Self::bug(outcome.to_string())
        } else {
            Self::new(exit, outcome.to_string())
        };
        failure.detail("outcome", outcome)
    }

    /// How the process ends.
    #[cfg(test)]
    pub fn exit(&self) -> Exit {
        self.exit
    }

    /// Adds a reason.
    pub fn reason(
        mut self,
        key: &str,
        asked: impl Into<String>,
        fact: impl Into<String>,
        allowed: impl Into<String>,
    ) -> Self {
        let (asked, fact, allowed) = (asked.into(), fact.into(), allowed.into());
        let key = key.to_owned();
        self.reasons.push(Reason {
            key,
            asked,
            fact,
            allowed,
            source: None,
        });
        self
    }

    /// Shows the place in the input.
    pub fn excerpt(mut self, excerpt: impl Into<Box<str>>) -> Self {
        self.excerpt = Some(excerpt.into());
        self
    }

    /// Says what to do.
    pub fn help(mut self, help: impl Into<Box<str>>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Adds a field to the JSON form.
    pub fn detail(mut self, key: &str, value: impl serde::Serialize) -> Self {
        self.detail
            .insert(key.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    /// What our own analysis suspects where the assembler does not take a kernel: in the text and as `suspects`.
    pub fn suspects(mut self, compiled: &codegen::Compiled) -> Self {
        if !matches!(self.exit, Exit::NotAssembled) || compiled.suspects.is_empty() {
            return self;
        }
        self.message = format!("{}{}", self.message, compiled.look_first()).into();
        self.detail("suspects", &compiled.suspects)
    }

    fn json(&self, command: &str) -> Value {
        let mut error = self.detail.clone();
        error.insert("kind".into(), json!(self.exit));
        error.insert("message".into(), json!(self.message));
        error.insert("reasons".into(), json!(self.reasons));
        if let Some(help) = &self.help {
            error.insert("help".into(), json!(help));
        }
        json!({ "ok": false, "command": command, "exit_code": self.exit.code(), "error": error })
    }

    /// Writes the failure down and says how the process ends: JSON on standard output, text on standard error.
    pub fn deliver(&self, command: &str, as_json: bool) -> Exit {
        if as_json {
            let printed = answer::print(format!("{:#}\n", self.json(command)).as_bytes());
            return printed.map_or_else(|lost| lost.report(self.exit), |()| self.exit);
        }
        answer::note(&format!("error: {self}"));
        self.exit
    }
}

/// How a process ends whose evaluation ended so.
#[must_use]
pub const fn exit_of(outcome: &Outcome) -> Exit {
    match outcome {
        Outcome::Verified { .. } | Outcome::Timed { .. } => Exit::Done,
        Outcome::Refused(_) | Outcome::Limit(_) => Exit::Refused,
        Outcome::NotAssembled(_) => Exit::NotAssembled,
        Outcome::Unavailable(_) => Exit::NoDevice,
        Outcome::Wrong { .. } => Exit::WrongResult,
        Outcome::Hang(_) | Outcome::Race(_) | Outcome::Fault(_) => Exit::DeviceFault,
        Outcome::Bug(_) => Exit::Bug,
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if let Some(excerpt) = &self.excerpt {
            excerpt.lines().try_for_each(|line| write!(f, "\n  {line}"))?;
        }
        for reason in &self.reasons {
            write!(f, "\n  {}\n    asked:   {}", reason.key, reason.asked)?;
            write!(f, "\n    true:    {}\n    allowed: {}", reason.fact, reason.allowed)?;
            if let Some(source) = &reason.source {
                write!(f, "\n    source:  {source}")?;
            }
        }
        match &self.help {
            Some(help) => write!(f, "\nhelp: {help}"),
            None => Ok(()),
        }
    }
}

impl From<&Refusal> for Reason {
    fn from(refusal: &Refusal) -> Self {
        Self {
            key: refusal.key.clone(),
            asked: refusal.asked.clone(),
            fact: refusal.fact.clone(),
            allowed: refusal.allowed.clone(),
            source: refusal.site.as_ref().map(ToString::to_string),
        }
    }
}

impl From<CompileError> for Failure {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Refused(refusals) if refusals.first().is_some_and(|r| r.key == "target") => {
                let mut failure = Self::refused("the kernel was refused for this target");
                failure.reasons = refusals.iter().map(Reason::from).collect();
                // No schedule has this key: it is an option of the command line.
                failure.reasons.iter_mut().for_each(|r| r.key = "--target".to_owned());
                failure.help("`gemm` problems are products; `warpwright list kernels` names the others")
            }
            CompileError::Refused(refusals) => {
                let mut failure = Self::refused("the schedule was refused for this kernel and target");
                failure.reasons = refusals.iter().map(Reason::from).collect();
                failure
            }
            other => Self::bug(other.to_string()),
        }
    }
}

impl From<ParseError> for Failure {
    fn from(error: ParseError) -> Self {
        // The last line of the rendering is the fault itself, which is the message already.
        let rendered = error.render();
        let mut lines: Vec<&str> = rendered.lines().collect();
        lines.pop();
        let failure = Self::refused(format!("the problem was refused: {}", error.fault))
            .excerpt(lines.join("\n"))
            .help("the grammar is `fwd DTYPE bN sQ[xKV] hQ[/KV] dD full|causal`, `gemm DTYPE mM nN kK nn|nt|tn|tt` or `softmax DTYPE mM nN`")
            .detail("text", &error.text)
            .detail("span", error.span)
            .detail("fault", &error.fault);
        let ProblemFault::HeadDim { asked } = &error.fault else {
            return failure;
        };
        let allowed = HEAD_DIMS.map(|d| format!("d{d}")).join(", ");
        let fact = "attention kernels are built for some head sizes only";
        failure.reason("head_dim", format!("d{asked}"), fact, allowed)
    }
}

impl From<ToolError> for Failure {
    fn from(error: ToolError) -> Self {
        Self::not_assembled(error.to_string())
    }
}

impl From<AssembleError> for Failure {
    fn from(error: AssembleError) -> Self {
        let message = error.to_string();
        match error {
            AssembleError::Arch(_) | AssembleError::OptLevel(_) | AssembleError::Option(_) => Self::refused(message),
            AssembleError::Rejected { version, diagnostics } | AssembleError::NotAsWritten { version, diagnostics } => {
                Self::not_assembled(message)
                    .detail("ptxas_version", version)
                    .detail("diagnostics", diagnostics)
            }
            _ => Self::not_assembled(message),
        }
    }
}

impl From<SassError> for Failure {
    fn from(error: SassError) -> Self {
        Self::not_assembled(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use runner::outcome::{Ended, Stage};

    #[test]
    fn every_outcome_has_its_exit_code() {
        let ended = || Ended {
            stage: Stage::Verify,
            message: "why".to_owned(),
        };
        let wrong = Outcome::Wrong {
            stage: Stage::Verify,
            message: "row 3".to_owned(),
            report: None,
        };
        for (outcome, exit) in [
            (Outcome::Refused(ended()), Exit::Refused),
            (Outcome::Limit(ended()), Exit::Refused),
            (Outcome::NotAssembled(ended()), Exit::NotAssembled),
            (Outcome::Unavailable(ended()), Exit::NoDevice),
            (wrong, Exit::WrongResult),
            (Outcome::Hang(ended()), Exit::DeviceFault),
            (Outcome::Race(ended()), Exit::DeviceFault),
            (Outcome::Fault(ended()), Exit::DeviceFault),
            (Outcome::Bug(ended()), Exit::Bug),
        ] {
            let failure = Failure::of_outcome(&outcome);
            assert_eq!(failure.exit(), exit, "{outcome:?}");
            assert_eq!(failure.json("run")["error"]["outcome"]["outcome"], outcome.name());
        }
    }
}

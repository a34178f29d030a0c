//! The arguments that most commands share: a problem, a schedule for it, and a target.

use std::path::{Path, PathBuf};

use codegen::target::{self, Family, Target};
use dsl::Kernel;
use dsl::schedule::Schedule;
use dsl::schedule::text::{self, TextErrors};
use oracle::Problem;
use runner::case::Case;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::{files, problem, shipped};

/// The targets that kernels are lowered to.
pub const TARGETS: [&Target; 2] = [&target::SM_90A, &target::SM_80];

/// What a command is about.
#[derive(clap::Args, Clone, Debug)]
pub struct SubjectArgs {
    /// The problem, e.g. "fwd bf16 b2 s4096x1024 h32/8 d128 causal".
    #[arg(long, value_name = "PROBLEM")]
    pub problem: String,
    /// A schedule file (TOML), or `none` for the empty schedule. Default: the shipped schedule, if there is one.
    #[arg(long, value_name = "FILE")]
    pub schedule: Option<PathBuf>,
    /// The GPU architecture.
    #[arg(long, value_name = "TARGET", default_value = "sm_90a")]
    pub target: String,
}

/// A problem with its kernel, its schedule and its target.
#[derive(Clone, Debug)]
pub struct Subject {
    pub case: Case,
    pub schedule: Schedule,
    /// Where the schedule came from.
    pub source: Source,
    pub target: &'static Target,
}

/// Where a schedule came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    File(PathBuf),
    Shipped(String),
    Empty,
}

impl Source {
    /// A short name, for a row of a table.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path
                .file_stem()
                .unwrap_or(path.as_os_str())
                .to_string_lossy()
                .into_owned(),
            Self::Shipped(name) => name.clone(),
            Self::Empty => "empty".to_owned(),
        }
    }

    /// A phrase for messages.
    pub fn phrase(&self) -> String {
        match self {
            Self::File(path) => format!("schedule {}", path.display()),
            Self::Shipped(name) => format!("the shipped schedule {name}"),
            Self::Empty => "the empty schedule".to_owned(),
        }
    }
}

impl SubjectArgs {
    /// Reads, traces and looks everything up.
    pub fn load(&self) -> Result<Subject, Failure> {
        let target = target(&self.target)?;
        let case = problem::case(&problem::parse(&self.problem)?)?;
        Subject::new(case, self.schedule.as_deref(), target)
    }
}

impl Subject {
    /// Looks the schedule up: the one asked for, the shipped one, or the empty one.
    pub fn new(case: Case, schedule: Option<&Path>, target: &'static Target) -> Result<Self, Failure> {
        let (schedule, source) = self::schedule(schedule, case.problem(), case.kernel())?;
        Ok(Self {
            case,
            schedule,
            source,
            target,
        })
    }

    pub fn problem(&self) -> &Problem {
        self.case.problem()
    }

    pub fn kernel(&self) -> &Kernel {
        self.case.kernel()
    }

    /// Whether the target's kernels have warp roles; a refusal for commands that speak of roles.
    pub fn require_roles(&self, what: &str) -> Result<(), Failure> {
        match self.target.family {
            Family::WarpRoles => Ok(()),
            Family::CpAsync => {
                let fact = "kernels of this target have no warp roles, rings or mbarriers";
                Err(Failure::refused(format!("{what} speaks of warp roles")).reason(
                    "--target",
                    self.target.name,
                    fact,
                    "sm_90a",
                ))
            }
        }
    }

    /// What it is about, for the JSON form.
    pub fn json(&self) -> Value {
        let schedule = match &self.source {
            Source::File(path) => json!({ "file": path.display().to_string() }),
            Source::Shipped(name) => json!({ "shipped": name }),
            Source::Empty => json!("none"),
        };
        json!({ "problem": self.problem().to_string(), "kernel": self.kernel().name, "schedule": schedule, "target": self.target.name })
    }
}

/// Looks a target up by its name.
pub fn target(name: &str) -> Result<&'static Target, Failure> {
    let known = TARGETS.map(|t| t.name).join(", ");
    let found = TARGETS.into_iter().find(|t| t.name == name);
    found.ok_or_else(|| {
        Failure::refused("the target was refused").reason("--target", name, "there is no lowering for it", known)
    })
}

fn schedule(asked: Option<&Path>, problem: &Problem, kernel: &Kernel) -> Result<(Schedule, Source), Failure> {
    match asked {
        Some(path) if path == Path::new("none") => Ok((Schedule::default(), Source::Empty)),
        Some(path) if path != Path::new("shipped") => {
            let text = files::read("--schedule", path)?;
            let schedule = parse(&text, kernel, &path.display().to_string())?;
            Ok((schedule, Source::File(path.to_owned())))
        }
        _ => Ok(match shipped::of(problem, kernel)? {
            Some((name, schedule)) => (schedule, Source::Shipped(name)),
            None => (Schedule::default(), Source::Empty),
        }),
    }
}

/// Parses a schedule text and checks its names against the kernel.
pub fn parse(text: &str, kernel: &Kernel, file: &str) -> Result<Schedule, Failure> {
    text::parse_for(text, kernel).map_err(|errors| refusal(text, &errors, file))
}

/// A refusal that shows each fault under its line.
fn refusal(text: &str, errors: &TextErrors, file: &str) -> Failure {
    let mut excerpt = vec![];
    for error in &errors.errors {
        let line = error.line.and_then(|n| Some((n, text.lines().nth(n.checked_sub(1)?)?)));
        if let Some((number, line)) = line {
            excerpt.push(format!("{number:>4} | {}", shown(line)));
        }
        let path = if error.path.is_empty() {
            String::new()
        } else {
            format!("{}: ", error.path.join("."))
        };
        excerpt.push(format!("     = {path}{}", error.kind));
    }
    let list: Vec<Value> = errors
        .errors
        .iter()
        .map(|e| json!({ "path": e.path, "line": e.line, "message": e.kind.to_string() }))
        .collect();
    Failure::refused(format!(
        "the schedule {file} was refused ({} fault(s))",
        errors.errors.len()
    ))
    .excerpt(excerpt.join("\n"))
    .help("`warpwright list knobs` names every key with its values")
    .detail("file", file)
    .detail("faults", list)
}

/// A line of the user's text, made safe for a terminal and not too long.
fn shown(line: &str) -> String {
    let clean = line.chars().map(|c| if c.is_control() { ' ' } else { c });
    clean.take(120).collect::<String>().trim_end().to_owned()
}

//! The registry of subcommands: one file, one variant, one line of dispatch each.

mod bench;
mod check;
mod compile;
mod doctor;
mod explain;
mod list;
mod run;
mod trace;

use std::path::Path;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::files;

/// Every subcommand.
#[derive(clap::Subcommand, Debug)]
pub enum Command {
    /// Compile one kernel and print one stage of it.
    #[command(after_help = compile::EXAMPLES)]
    Compile(compile::Args),
    /// Check legality and budgets; needs no GPU and no assembler.
    #[command(after_help = check::EXAMPLES)]
    Check(check::Args),
    /// Explain a schedule: shared memory, registers, pipeline, barriers, grid.
    #[command(after_help = explain::EXAMPLES)]
    Explain(explain::Args),
    /// List kernels, shipped schedules and schedule knobs.
    #[command(after_help = list::EXAMPLES)]
    List(list::Args),
    /// Say what this machine has, what is missing, and how to get it.
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::Args),
    /// Run one problem on a device and verify the result.
    #[command(after_help = run::EXAMPLES)]
    Run(run::Args),
    /// Time schedules over problems on a device.
    #[command(after_help = bench::EXAMPLES)]
    Bench(bench::Args),
    /// Simulate one kernel's timeline and say what limits it; needs no GPU.
    #[command(after_help = trace::EXAMPLES)]
    Trace(trace::Args),
}

impl Command {
    /// The words of the command line.
    pub const NAMES: [&str; 8] = ["compile", "check", "explain", "list", "doctor", "run", "bench", "trace"];

    /// The word of this one.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Compile(_) => "compile",
            Self::Check(_) => "check",
            Self::Explain(_) => "explain",
            Self::List(_) => "list",
            Self::Doctor(_) => "doctor",
            Self::Run(_) => "run",
            Self::Bench(_) => "bench",
            Self::Trace(_) => "trace",
        }
    }

    /// The file it writes beside its answer, with its option. `compile` without `--json` writes the file alone.
    fn output(&self, as_json: bool) -> Option<(&'static str, &Path)> {
        let (option, file) = match self {
            Self::Compile(args) if as_json => ("--out", args.out.as_deref()),
            Self::Bench(args) => ("--out", args.out.as_deref()),
            Self::Trace(args) => ("--out", Some(args.out.as_path())),
            Self::Run(args) => ("--record", args.record.as_deref()),
            _ => return None,
        };
        Some((option, file?))
    }

    /// Runs it.
    pub fn run(&self, as_json: bool) -> Result<Answer, Failure> {
        if let Some((option, file)) = self.output(as_json) {
            files::apart_from_answer(option, file, as_json)?;
        }
        match self {
            Self::Compile(args) => compile::run(args),
            Self::Check(args) => check::run(args),
            Self::Explain(args) => explain::run(args),
            Self::List(args) => list::run(args),
            Self::Doctor(args) => doctor::run(args),
            Self::Run(args) => run::run(args),
            Self::Bench(args) => bench::run(args),
            Self::Trace(args) => trace::run(args),
        }
    }
}

//! Checks on a device that a table of single launches cannot make, one JSON record a check:
//!
//! - `graph`: a kernel with a dynamic grid, launched directly, captured into a CUDA graph, replayed on changed inputs, and
//!   launched directly again;
//! - `streams`: the same kernel on two streams at once, each with scratch of its own, on different inputs;
//! - `random`: random legal schedules of attention, the product and the row softmax, against the oracle;
//! - `generic`: the kernels of `testkit` that no pass was written for, launched from their launch facts, against the
//!   interpreter;
//! - `agreement`: shipped, random, generic and foreign kernels on the GPU and on the simulator, output beside output.
//!
//! ```text
//! device_checks --prepare --cubins cubins                 where the assembler is
//! device_checks --cubins cubins --out checks.jsonl        where the GPU is: no assembler, no source tree
//! device_checks --sim --check random --seeds 4 --out sim.jsonl
//! ```
//!
//! As in `verify_table`, worker processes do the work, so that a kernel that hangs costs one check.

mod agreement;
#[path = "../shared/foreign.rs"]
mod foreign;
mod generic;
mod launches;
mod list;
#[path = "../shared/problems.rs"]
mod problems;
mod random;
#[path = "../shared/subject.rs"]
mod subject;
#[path = "../shared/supervise.rs"]
mod supervise;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

/// A kind of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Graph,
    Streams,
    Random,
    Generic,
    Agreement,
}

/// Command line.
#[derive(Clone, Debug, Parser)]
#[command(about = "Graph replay, concurrent streams, random schedules and generic kernels on a device")]
pub struct Args {
    /// Only draw, compile and assemble into the cubin folder; needs no GPU.
    #[arg(long)]
    pub prepare: bool,
    /// Folder of cubins and of the drawn schedules.
    #[arg(long, default_value = "cubins")]
    pub cubins: PathBuf,
    /// JSON lines; appended to.
    #[arg(long, default_value = "checks.jsonl")]
    pub out: PathBuf,
    /// Run on the simulator instead of a GPU: random, generic and agreement (of two seeds) only.
    #[arg(long)]
    pub sim: bool,
    /// Kinds of check, all by default; may be repeated.
    #[arg(long)]
    pub check: Vec<Kind>,
    /// Random legal schedules of each kernel.
    #[arg(long, default_value_t = 200)]
    pub seeds: usize,
    /// Rounds of each graph and stream check, each on other inputs than the last.
    #[arg(long, default_value_t = 24)]
    pub rounds: usize,
    /// Source revision, for the records.
    #[arg(long)]
    pub revision: Option<String>,
    /// Device number.
    #[arg(long, default_value_t = 0)]
    pub device: u32,
    /// Seconds a worker may go without finishing a check.
    #[arg(long, default_value_t = 120)]
    pub deadline_s: u64,
    /// Used by the program itself: do checks from this one on.
    #[arg(long, hide = true)]
    pub worker_from: Option<usize>,
    /// Used by the program itself: where a worker says what it has finished.
    #[arg(long, hide = true)]
    pub progress: Option<PathBuf>,
}

impl Args {
    /// Whether a kind was asked for.
    #[must_use]
    pub fn wants(&self, kind: Kind) -> bool {
        self.check.is_empty() || self.check.contains(&kind)
    }
}

fn run(args: &Args) -> Result<bool, supervise::AnyError> {
    if args.prepare {
        return worker::prepare(args);
    }
    match args.worker_from {
        Some(from) => worker::run(args, from),
        None => match list::checks(args)?.len() {
            0 => Err("no checks to make: graph and streams need a GPU, random needs --seeds above 0".into()),
            entries => supervise::supervise(supervise::Watch {
                entries,
                deadline_s: args.deadline_s,
            }),
        },
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("device_checks: {error}");
            ExitCode::FAILURE
        }
    }
}

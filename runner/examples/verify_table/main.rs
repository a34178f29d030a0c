//! Verifies a table of problems under the shipped schedules on every input family, or times chosen ones, and prints a
//! table last.
//!
//! ```text
//! verify_table --prepare --cubins cubins                     where the assembler is: compile and assemble everything
//! verify_table --cubins cubins --out results.jsonl           where the GPU is: needs no assembler
//! verify_table --cubins cubins --out t.jsonl --time sustained --problem "fwd bf16 b2 s16384 h16 d128 full" \
//!              --schedule a.toml --schedule b.toml           compares schedules, the first is the base
//! verify_table --sim --quick --out sim.jsonl                 on the simulator
//! ```
//!
//! The work is done by worker processes that this program starts from its own binary: a kernel that hangs or faults ends
//! its worker, and the next one goes on with the next problem.

mod shapes;
#[path = "../shared/supervise.rs"]
mod supervise;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use oracle::Problem;
use oracle::inputs::Family;
use warpwright_runner::LayoutRule;

/// Which protocol to time with.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TimeWord {
    Burst,
    Sustained,
}

/// Command line.
#[derive(Clone, Debug, Parser)]
#[command(about = "Verifies or times a table of problems; JSON lines to a file, a table last")]
pub struct Args {
    /// Only compile and assemble into the cubin folder; needs no GPU.
    #[arg(long)]
    pub prepare: bool,
    /// Folder of cubins.
    #[arg(long, default_value = "cubins")]
    pub cubins: PathBuf,
    /// JSON lines; appended to.
    #[arg(long, default_value = "results.jsonl")]
    pub out: PathBuf,
    /// Run on the simulator instead of a GPU.
    #[arg(long)]
    pub sim: bool,
    /// The small shapes only.
    #[arg(long)]
    pub quick: bool,
    /// Without the eight large shapes, which take longer than all others together.
    #[arg(long)]
    pub no_large: bool,
    /// A problem in place of the table; may be repeated.
    #[arg(long)]
    pub problem: Vec<Problem>,
    /// A schedule file in place of the shipped one; may be repeated.
    #[arg(long)]
    pub schedule: Vec<PathBuf>,
    /// Input families, all by default; may be repeated.
    #[arg(long)]
    pub family: Vec<Family>,
    /// Time instead of verifying all families: each problem's schedules are compared with the first.
    #[arg(long)]
    pub time: Option<TimeWord>,
    /// Rounds of a comparison, in place of the protocol's.
    #[arg(long)]
    pub rounds: Option<u32>,
    /// Device number.
    #[arg(long, default_value_t = 0)]
    pub device: u32,
    /// Seconds a worker may go without finishing an entry.
    #[arg(long, default_value_t = 120)]
    pub deadline_s: u64,
    /// Used by the program itself: do entries from this one on.
    #[arg(long, hide = true)]
    pub worker_from: Option<usize>,
    /// Used by the program itself: where a worker says what it has finished.
    #[arg(long, hide = true)]
    pub progress: Option<PathBuf>,
}

/// One line of the table: a problem and how its tensors lie.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub problem: Problem,
    pub layout: LayoutRule,
}

impl Args {
    /// What is to be done.
    #[must_use]
    pub fn entries(&self) -> Vec<Entry> {
        if self.problem.is_empty() {
            return if self.time.is_some() {
                shapes::timed()
            } else {
                shapes::verified(self.quick, self.sim, !self.no_large)
            };
        }
        let layout = LayoutRule::Dense;
        self.problem.iter().map(|&problem| Entry { problem, layout }).collect()
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = match args.worker_from {
        Some(from) => worker::run(&args, from),
        None if args.prepare => worker::prepare(&args),
        None => supervise::supervise(supervise::Watch {
            entries: args.entries().len(),
            deadline_s: args.deadline_s,
        }),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("verify_table: {error}");
            ExitCode::FAILURE
        }
    }
}

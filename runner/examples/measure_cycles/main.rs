//! Cycles of many schedules: draws and assembles them, measures them on a GPU, predicts them, and judges the predictions.
//!
//! ```text
//! measure_cycles --prepare 24 --out DIR                      where the assembler is: draws, compiles and assembles
//! measure_cycles --cubins DIR --out measured.jsonl           where the GPU is: needs no assembler
//! measure_cycles --micro --cubins DIR --out micro.jsonl      micro-benchmarks on the GPU and in the model; without --cubins
//!                                                            in the model alone
//! measure_cycles --predict DIR --out predicted.jsonl         anywhere: SM cycles and sustained times, simulated
//! measure_cycles --fit measured.jsonl DIR                    fits parameters on the half with even numbers
//! measure_cycles --judge measured.jsonl predicted.jsonl      rank correlation on the half that no parameter was fitted on
//! ```
//!
//! A kernel that hangs or faults ends the worker process; the next one goes on with the next schedule.

mod draw;
mod fit;
mod judge;
mod measure;
mod micro;
mod prepare;
mod set;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

/// Any failure: this is a tool for measurements, its reader is a person.
pub type AnyError = Box<dyn std::error::Error>;

/// Command line.
#[derive(Clone, Debug, Parser)]
#[command(about = "Measures, predicts and compares the cycles of many schedules")]
pub struct Args {
    /// Draws this many schedules per head size and mask into the folder of --out.
    #[arg(long, value_name = "N")]
    pub prepare: Option<usize>,
    /// Seed of the draws.
    #[arg(long, default_value_t = 0xc1c1)]
    pub seed: u64,
    /// Measures the schedules of a folder on the GPU.
    #[arg(long, value_name = "DIR")]
    pub cubins: Option<PathBuf>,
    /// Predicts the schedules of a folder.
    #[arg(long, value_name = "DIR")]
    pub predict: Option<PathBuf>,
    /// Compares two files: measured, predicted.
    #[arg(long, num_args = 2, value_names = ["MEASURED", "PREDICTED"])]
    pub judge: Vec<PathBuf>,
    /// Fits parameters: measured file, folder of the schedules.
    #[arg(long, num_args = 2, value_names = ["MEASURED", "DIR"])]
    pub fit: Vec<PathBuf>,
    /// Fits on all schedules, not the even half: for when another measurement judges.
    #[arg(long)]
    pub whole: bool,
    /// Fits energies alone.
    #[arg(long)]
    pub energies: bool,
    /// Runs the micro-benchmarks of the parameter table.
    #[arg(long)]
    pub micro: bool,
    /// Where the result goes; files are appended to.
    #[arg(long, value_name = "PATH", default_value = "cycles.jsonl")]
    pub out: PathBuf,
    /// Device number.
    #[arg(long, default_value_t = 0)]
    pub device: u32,
    /// Rounds over the schedules of one problem; every other one runs backwards.
    #[arg(long, default_value_t = 2)]
    pub rounds: u32,
    /// A parameter of the time model, NAME=VALUE; may be repeated.
    #[arg(long, value_name = "NAME=VALUE")]
    pub set: Vec<String>,
    /// Used by the program itself: measure problems from this one on.
    #[arg(long, hide = true)]
    pub worker: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let done = if let Some(count) = args.prepare {
        prepare::prepare(&args.out, count, args.seed).and_then(|()| micro::prepare(&args.out))
    } else if args.micro {
        micro::run(&args.out, args.cubins.as_deref().map(|folder| (folder, args.device)))
    } else if let Some(folder) = &args.cubins {
        if args.worker {
            measure::worker(&args, folder)
        } else {
            measure::supervise(&args, folder)
        }
    } else if let Some(folder) = &args.predict {
        judge::predict(&args, folder)
    } else if let [measured, predicted] = args.judge.as_slice() {
        judge::judge(measured, predicted)
    } else if let [measured, folder] = args.fit.as_slice() {
        fit::fit(measured, folder, (args.whole, args.energies))
    } else {
        Err("nothing to do; allowed: --prepare, --cubins, --predict, --fit, --judge".into())
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("measure_cycles: {error}");
            ExitCode::FAILURE
        }
    }
}

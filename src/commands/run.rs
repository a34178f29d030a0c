//! `warpwright run`: one problem on a device, verified on every input family.

use std::fmt::Write;
use std::path::PathBuf;

use runner::device::{Device, SimDevice, SimOptions};
use runner::evaluate::{Bench, Candidate, Evaluation, evaluate_untimed};
use runner::outcome::Outcome;
use runner::record::{self, Record};
use runner::verify::{Truths, VerifyPlan};

use crate::answer::Answer;
use crate::device::{self, DeviceName};
use crate::failure::Failure;
use crate::files;
use crate::program::{self, AssemblerArgs};
use crate::subject::{Subject, SubjectArgs};

pub const EXAMPLES: &str = "\
Examples:
  warpwright run --problem \"fwd bf16 b2 s4096x1024 h32/8 d128 causal\"
  warpwright run --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --device cuda:1 --json
  warpwright run --problem \"fwd bf16 b1 s200x130 h2/1 d64 causal\" --device sim

Every input family is launched --launches times; each output must pass the error gate, nothing outside the tensors may
be written. The simulated device also reports races, missing fences and deadlocks; it is slow: give it small shapes.
Exit code 5: the result is wrong. Exit code 6: the kernel hung, raced, or the device reported a fault.";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// The device: cuda:N or sim.
    #[arg(long, value_name = "DEVICE", default_value = "cuda:0")]
    device: DeviceName,
    /// Seed of the inputs, and of the simulator's interleaving.
    #[arg(long, default_value_t = 1, allow_negative_numbers = true)]
    seed: u64,
    /// Launches per input family.
    #[arg(long, default_value_t = 2, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=1000))]
    launches: u32,
    /// Simulated warp instructions after which a launch counts as a hang, at least 1.
    #[arg(long, value_name = "N", default_value_t = SimOptions::default().instruction_budget, allow_negative_numbers = true,
          value_parser = clap::value_parser!(u64).range(1..))]
    sim_instructions: u64,
    /// Append the record of this run to a file, one JSON object a line.
    #[arg(long, value_name = "FILE")]
    pub(super) record: Option<PathBuf>,
    #[command(flatten)]
    assembler: AssemblerArgs,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    // Refusals come before any work on a device.
    program::compile(&subject)?;
    if let Some(path) = &args.record {
        files::appendable("--record", path)?;
    }
    match args.device {
        DeviceName::Cuda(ordinal) => {
            device::require(ordinal)?;
            on(&device::open(ordinal)?, &subject, args)
        }
        DeviceName::Sim => {
            let options = SimOptions {
                seed: args.seed,
                instruction_budget: args.sim_instructions,
                target: subject.target,
                ..SimOptions::default()
            };
            on(&SimDevice::new(options), &subject, args)
        }
    }
}

fn on<D: Device>(device: &D, subject: &Subject, args: &Args) -> Result<Answer, Failure> {
    let assembler = if device.needs_cubin() {
        args.assembler.assembler([&subject.schedule])?
    } else {
        runner::assemble::Assembler::default()
    };
    let plan = VerifyPlan {
        seed: args.seed,
        launches: args.launches,
        ..VerifyPlan::default()
    };
    let bench = Bench {
        device,
        assembler: &assembler,
        target: subject.target,
        verify: &plan,
    };
    let candidate = Candidate::new(*subject.problem(), subject.schedule.clone());
    let evaluation = evaluate_untimed(&bench, &candidate, &mut Truths::new());
    if let Some(path) = &args.record {
        let record = Record::new(device.facts(), &candidate, &evaluation);
        record::append(path, &record).map_err(|e| files::unwritable("--record", path, &e))?;
    }
    answer(&evaluation, device, subject)
}

fn answer<D: Device>(evaluation: &Evaluation, device: &D, subject: &Subject) -> Result<Answer, Failure> {
    let Outcome::Verified { report, simulated } = &evaluation.outcome else {
        return Err(Failure::of_outcome(&evaluation.outcome)
            .detail("device", device.facts())
            .detail("subject", subject.json()));
    };
    let facts = device.facts();
    let mut text = format!(
        "right: {}, {} on {}\n",
        subject.problem(),
        subject.source.phrase(),
        facts.name
    );
    for family in &report.families {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "  {family}{}",
            if family.repeatable {
                ""
            } else {
                " (launches differ in some bits)"
            }
        );
    }
    Ok(Answer::text(text)
        .field("subject", subject.json())
        .field("device", facts)
        .field("simulated", simulated)
        .field("outcome", &evaluation.outcome)
        .field("assembly", &evaluation.assembly)
        .field("ptx_blake3", &evaluation.ptx_blake3))
}

//! `warpwright trace`: a simulated timeline of one kernel, and what limits it.

use std::path::PathBuf;

use runner::device::{CudaDevice, Device, Image};
use runner::outcome::{Outcome, Stage};
use runner::predict::{self, Model};
use runner::stamps;
use sim::time::trace::chrome_json;

use crate::answer::Answer;
use crate::device::{self, DeviceName};
use crate::failure::Failure;
use crate::program::{self, AssemblerArgs};
use crate::subject::{Subject, SubjectArgs};
use crate::{files, predicted};

pub const EXAMPLES: &str = "\
Examples:
  warpwright trace --problem \"fwd bf16 b1 s8192 h16 d128 full\" --out trace.json
  warpwright trace --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --out trace.json --json

Needs no GPU: by default the timeline is simulated, and says so. Open the file in Perfetto (ui.perfetto.dev) or chrome://tracing:
one lane per warp, one for the tensor core, one for the copy engine; one cycle is one microsecond of the viewer's scale.
The file holds two blocks with few trips on one SM; the text predicts the whole launch.
With --device cuda:N an instrumented kernel runs on a GPU, and the file holds the begin and end of the blocks of each role
on each SM as the SM's own clock counted them, in the same format and labelled as not simulated.";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Where the trace JSON goes.
    #[arg(long, value_name = "FILE")]
    pub(super) out: PathBuf,
    /// The device: sim or cuda:N.
    #[arg(long, value_name = "DEVICE", default_value = "sim")]
    device: DeviceName,
    #[command(flatten)]
    assembler: AssemblerArgs,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    let compiled = program::compile(&subject)?;
    if let DeviceName::Cuda(ordinal) = args.device {
        subject.require_roles("`trace`")?;
        device::require(ordinal)?;
        return stamped(args, &subject, &device::open(ordinal)?);
    }
    let prediction = predicted::predict(&subject, &compiled)?;
    let report = timeline(&subject, &compiled)?;
    let json = chrome_json(&report, &|warp| lane(warp, compiled.program.producer_warps));
    files::write("--out", &args.out, json.as_bytes())?;
    let text = format!(
        "{}, {}\n{}",
        subject.problem(),
        subject.source.phrase(),
        predicted::text(&prediction)
    );
    Ok(Answer::text(text)
        .field("subject", subject.json())
        .field("simulated", true)
        .field("prediction", &prediction)
        .field("trace", args.out.display().to_string()))
}

/// The stamps of one launch on a GPU, after one that warms it up.
fn stamped(args: &Args, subject: &Subject, device: &CudaDevice) -> Result<Answer, Failure> {
    let compiled = program::compile_instrumented(subject, codegen::Instrument::Blocks)?;
    let assembled = program::assemble(subject, &compiled, &args.assembler)?;
    let image = Image {
        ptx: &compiled.ptx.0,
        cubin: Some(&assembled.cubin),
    };
    let words = stamps::of_launch(device, &subject.case, (&image, &compiled.launch))
        .map_err(|error| Failure::of_outcome(&Outcome::of_device(Stage::Time, &error)))?;
    let ctas = stamps::parse(&compiled.launch, &words).unwrap_or_default();
    files::write("--out", &args.out, stamps::chrome_json(&ctas, false).as_bytes())?;
    let (most, mean) = stamps::cycles(&ctas);
    let text = format!(
        "{}, {} on {}: {most} SM cycles on the slowest SM, {mean:.0} on average\n",
        subject.problem(),
        subject.source.phrase(),
        device.facts().name
    );
    Ok(Answer::text(text)
        .field("subject", subject.json())
        .field("simulated", false)
        .field("device", device.facts())
        .field("cycles", most)
        .field("cycles_mean", mean)
        .field("trace", args.out.display().to_string()))
}

fn timeline(subject: &Subject, compiled: &codegen::Compiled) -> Result<sim::time::report::TimeReport, Failure> {
    let report = predict::timeline(subject.problem(), compiled, &Model::default());
    report.map_err(|e| predicted::refusal(subject, &e))
}

/// The name of a warp's lane.
fn lane(warp: u32, producers: u32) -> String {
    match (warp / 4, warp % 4) {
        (0, w) if w < producers => format!("producer warp {w}"),
        (0, w) => format!("idle warp {w}"),
        (group, w) => format!("consumer {} warp {w}", group - 1),
    }
}

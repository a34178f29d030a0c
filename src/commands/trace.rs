//! `warpwright trace`: a simulated timeline of one kernel, and what limits it.

use std::path::PathBuf;

use runner::predict::{self, Model};
use sim::time::trace::chrome_json;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::subject::{Subject, SubjectArgs};
use crate::{files, predicted, program};

pub const EXAMPLES: &str = "\
Examples:
  warpwright trace --problem \"fwd bf16 b1 s8192 h16 d128 full\" --out trace.json
  warpwright trace --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --out trace.json --json

Needs no GPU: the timeline is simulated, and says so. Open the file in Perfetto (ui.perfetto.dev) or chrome://tracing:
one lane per warp, one for the tensor core, one for the copy engine; one cycle is one microsecond of the viewer's scale.
The file holds two blocks with few trips on one SM; the text predicts the whole launch.";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Where the trace JSON goes.
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    let compiled = program::compile(&subject)?;
    let prediction = predicted::predict(&subject, &compiled)?;
    let report = timeline(&subject, &compiled)?;
    let json = chrome_json(&report, &|warp| lane(warp, compiled.program.producer_warps));
    files::write(&args.out, json.as_bytes())?;
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

//! Random legal schedules: drawn where the assembler is, written beside the cubins, verified where the GPU is.

use std::fs;
use std::path::PathBuf;

use codegen::target::SM_90A;
use dsl::schedule::text;
use oracle::Problem;
use oracle::inputs::Family;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use testkit::schedules::{Dice, Drawn};
use warpwright_runner::case::trace;
use warpwright_runner::evaluate::{Bench, Candidate, Evaluation, build, evaluate_untimed};
use warpwright_runner::record::schedule_text;
use warpwright_runner::{Assembler, Device, Outcome, Stage, Truths, VerifyPlan};

use super::Args;
use super::supervise::AnyError;

/// Attention with keys unlike queries and grouped heads; products in every layout; the schedules of number `n` are checked
/// on entry `n` of these, counted round.
const ATTENTION: [&str; 8] = [
    "fwd bf16 b1 s150x210 h4/2 d64 full",
    "fwd bf16 b2 s210x150 h6/2 d64 causal",
    "fwd f16 b1 s200x330 h4/1 d128 full",
    "fwd bf16 b1 s130x300 h4/2 d128 causal",
    "fwd f16 b1 s65x257 h3/1 d64 causal",
    "fwd bf16 b1 s300x129 h4/2 d128 full",
    "fwd bf16 b1 s257x190 h2/1 d128 causal",
    "fwd f16 b2 s191x193 h4/2 d64 full",
];
const GEMM: [&str; 4] = [
    "gemm bf16 m144 n136 k200 nn",
    "gemm f16 m200 n264 k72 nt",
    "gemm bf16 m136 n520 k328 tn",
    "gemm f16 m328 n144 k136 tt",
];
const ROW_SOFTMAX: [&str; 2] = ["softmax bf16 m150 n264", "softmax f16 m331 n1000"];

/// Draws that may be illegal in a row.
const MOST_REFUSED: u32 = 2000;

/// A legal schedule and the problem it is checked on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draw {
    pub drawn: Drawn,
    pub number: usize,
    /// In the problem grammar.
    pub problem: String,
    /// As TOML.
    pub schedule: String,
    /// Draws before it that the compiler refused with a reason.
    pub refused: u32,
    /// What the assembler said about draws before it that were legal and did not assemble.
    pub not_assembled: Vec<String>,
}

fn problem_of(drawn: Drawn, number: usize) -> &'static str {
    let list: &[&str] = match drawn {
        Drawn::Attention => &ATTENTION,
        Drawn::Gemm => &GEMM,
        Drawn::RowSoftmax => &ROW_SOFTMAX,
    };
    list[number % list.len()]
}

/// The first legal schedule of a number's own dice that assembles.
fn draw((drawn, number): (Drawn, usize), assembler: &Assembler, cubin: bool) -> Result<Draw, String> {
    let text = problem_of(drawn, number);
    let problem: Problem = text.parse().map_err(|error| format!("{text}: {error}"))?;
    let kernel = trace(&problem).map_err(|error| error.to_string())?;
    // Kernels and numbers get unlike streams.
    let seed = ((drawn as u64) << 32 | number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mut dice = Dice::new(seed);
    let (mut refused, mut not_assembled) = (0, Vec::new());
    while refused < MOST_REFUSED {
        let toml = drawn.draw(&mut dice);
        let schedule = text::parse_for(&toml, &kernel).map_err(|error| format!("{error}\n{toml}"))?;
        let candidate = Candidate::new(problem, schedule);
        match build(&candidate, assembler, &SM_90A, cubin.then_some(SM_90A.name)) {
            Ok(_) => {
                return Ok(Draw {
                    drawn,
                    number,
                    problem: text.to_owned(),
                    schedule: schedule_text(&candidate.schedule),
                    refused,
                    not_assembled,
                });
            }
            Err(Outcome::Refused(ended)) if ended.stage == Stage::Compile => {
                if !ended.message.contains("allowed") {
                    return Err(format!("a refusal without a way out: {}\n{toml}", ended.message));
                }
                refused += 1;
            }
            Err(Outcome::NotAssembled(ended)) => not_assembled.push(ended.message),
            Err(other) => return Err(format!("{other}\n{toml}")),
        }
    }
    Err(format!("{drawn:?} {number}: {MOST_REFUSED} draws refused, none legal"))
}

fn every_draw(args: &Args, assembler: &Assembler, cubin: bool) -> Result<Vec<Draw>, AnyError> {
    let numbers = (0..args.seeds).flat_map(|number| Drawn::ALL.map(|drawn| (drawn, number)));
    let numbers: Vec<_> = numbers.collect();
    let drawn: Result<Vec<_>, _> = numbers
        .into_par_iter()
        .map(|which| draw(which, assembler, cubin))
        .collect();
    Ok(drawn?)
}

fn path(args: &Args) -> PathBuf {
    args.cubins.join("random-schedules.jsonl")
}

/// Draws, compiles and assembles, and writes the list beside the cubins.
///
/// # Errors
/// A draw that ends in anything but a legal schedule, or a file that cannot be written.
pub fn prepare(args: &Args, assembler: &Assembler) -> Result<(), AnyError> {
    let draws = every_draw(args, assembler, true)?;
    let mut lines = String::new();
    for draw in &draws {
        lines += &serde_json::to_string(draw)?;
        lines.push('\n');
        for message in &draw.not_assembled {
            println!("{:?} {}: legal, but not assembled: {message}", draw.drawn, draw.number);
        }
    }
    fs::write(path(args), lines)?;
    let refused: u32 = draws.iter().map(|draw| draw.refused).sum();
    let not_assembled: usize = draws.iter().map(|draw| draw.not_assembled.len()).sum();
    println!(
        "{} random schedules drawn, {refused} refused with a reason, {not_assembled} not assembled",
        draws.len()
    );
    Ok(())
}

/// The draws to check: from the folder for a GPU, drawn now for the simulator.
///
/// # Errors
/// A folder that was not prepared.
pub fn draws(args: &Args) -> Result<Vec<Draw>, AnyError> {
    if args.sim {
        return every_draw(args, &Assembler::default(), false);
    }
    let path = path(args);
    let lines = fs::read_to_string(&path)
        .map_err(|error| format!("{}: {error}; run with --prepare where the assembler is", path.display()))?;
    let draws = lines
        .lines()
        .map(serde_json::from_str)
        .collect::<Result<Vec<Draw>, _>>()?;
    Ok(draws.into_iter().filter(|draw| draw.number < args.seeds).collect())
}

/// Verifies one draw on normal inputs and on one other family.
///
/// # Errors
/// A list that is not ours.
pub fn check<D: Device>(device: &D, assembler: &Assembler, draw: &Draw) -> Result<Evaluation, AnyError> {
    let other = Family::ALL[draw.number % Family::ALL.len()];
    let mut families = vec![Family::Normal];
    families.extend((other != Family::Normal).then_some(other));
    let plan = VerifyPlan {
        families,
        stop_on_first: false,
        ..VerifyPlan::default()
    };
    let bench = Bench {
        device,
        assembler,
        target: &SM_90A,
        verify: &plan,
    };
    let candidate = Candidate::new(draw.problem.parse()?, text::parse(&draw.schedule)?);
    Ok(evaluate_untimed(&bench, &candidate, &mut Truths::new()))
}

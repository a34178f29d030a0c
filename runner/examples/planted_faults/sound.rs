//! Good kernels under many seeds: every finding is a false alarm.

use codegen::target::SM_90A;
use dsl::schedule::text;
use rayon::prelude::*;
use testkit::examples::Example;
use testkit::schedules::{Dice, Drawn};
use warpwright_runner::case::trace;
use warpwright_runner::device::{SimDevice, SimOptions};

use super::problems::{example, shipped};
use super::subject::{RunError, Subject};
use super::{foreign, programs, roles};

type AnyError = Box<dyn std::error::Error>;

/// What was run, and what was said of it.
pub struct Sound {
    pub kernels: usize,
    pub runs: u64,
    pub alarms: Vec<String>,
}

/// Problems of the random schedules.
const DRAWN: [(Drawn, &str); 5] = [
    (Drawn::Attention, "fwd bf16 b1 s150x210 h4/2 d64 causal"),
    (Drawn::Attention, "fwd f16 b1 s130x200 h2/1 d128 full"),
    (Drawn::Attention, "fwd bf16 b1 s200x190 h2 d128 causal"),
    (Drawn::Gemm, "gemm bf16 m144 n136 k200 tn"),
    (Drawn::RowSoftmax, "softmax f16 m150 n264"),
];

/// Runs every good kernel under every seed.
///
/// # Errors
/// A kernel that does not compile.
pub fn alarms(seeds: u64, random: usize) -> Result<Sound, AnyError> {
    let mut examples = testkit::examples::all()?;
    examples.extend(shipped()?);
    for (drawn, problem) in DRAWN {
        examples.extend(legal(drawn, problem, random)?);
    }
    let ours = examples.iter().map(|example| Ok(Subject::of_example(example)?.0));
    let mut subjects = ours.collect::<Result<Vec<_>, AnyError>>()?;
    subjects.extend(foreign::subjects());
    for (name, program) in programs::all() {
        let mut subject = roles::subject(program);
        subject.label = format!("program {name}");
        subjects.push(subject);
    }
    let runs: Vec<(&Subject, u64)> = subjects
        .iter()
        .flat_map(|s| (0..seeds).map(move |seed| (s, seed)))
        .collect();
    let alarms = runs.par_iter().filter_map(|(subject, seed)| alarm(subject, *seed));
    Ok(Sound {
        kernels: subjects.len(),
        alarms: alarms.collect(),
        runs: runs.len() as u64,
    })
}

fn alarm(subject: &Subject, seed: u64) -> Option<String> {
    let device = SimDevice::new(SimOptions {
        seed,
        multiprocessors: 1 + (seed % 3) as u32,
        ..SimOptions::default()
    });
    let error = subject.run(&device, None, 1).err()?;
    let text = match error {
        RunError::Device(error) => error.to_string(),
        RunError::Launch(error) => error.to_string(),
        RunError::Wrong(message) => message,
    };
    Some(format!("{} seed {seed}: {text}", subject.label))
}

/// The first legal schedules of a kernel's dice.
fn legal(drawn: Drawn, problem: &str, wanted: usize) -> Result<Vec<Example>, AnyError> {
    let kernel = trace(&problem.parse()?)?;
    let (mut dice, mut found) = (Dice::new(0xa1a2), Vec::new());
    while found.len() < wanted {
        let toml = drawn.draw(&mut dice);
        let schedule = text::parse_for(&toml, &kernel)?;
        if codegen::compile(&kernel, &schedule, &SM_90A).is_ok() {
            let spread = if found.len() % 2 == 0 { 1.0 } else { 20.0 };
            found.push(example(problem, &format!("random {}", found.len()), toml, spread)?);
        }
    }
    Ok(found)
}

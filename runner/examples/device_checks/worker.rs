//! A worker: makes checks one after another and writes a record and a progress line for each.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use codegen::target::SM_90A;
use driver::DriverError;
use serde::Serialize;
use serde_json::{Value, json};
use tools::{ResolveOptions, ToolSet};
use warpwright_runner::assemble::AssemblyFacts;
use warpwright_runner::device::{DeviceError, DeviceFacts, SimDevice, SimOptions};
use warpwright_runner::evaluate::{self, Build, Candidate};
use warpwright_runner::launch::{LaunchError, Prepared};
use warpwright_runner::outcome::Ended;
use warpwright_runner::record::{RECORD_VERSION, append, program, schedule_text, utc_now};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::verify::VerifyError;
use warpwright_runner::{Assembler, CubinCache, CudaDevice, Device, Outcome, Stage, compile_only};

use super::list::{Check, checks, launched};
use super::subject::{RunError, Subject};
use super::supervise::{AnyError, Progress};
use super::{Args, Kind, agreement, generic, launches, random};

/// A check that did not pass, as the outcome that says why.
pub struct Failed(pub Outcome);

impl Failed {
    /// A wrong result.
    pub fn wrong(message: impl Into<String>) -> Self {
        Self(Outcome::Wrong {
            stage: Stage::Verify,
            message: message.into(),
            report: None,
        })
    }

    /// A fault of this program.
    pub fn bug(message: impl ToString) -> Self {
        Self(Outcome::Bug(Ended {
            stage: Stage::Verify,
            message: message.to_string(),
        }))
    }
}

impl From<DeviceError> for Failed {
    fn from(error: DeviceError) -> Self {
        Self(Outcome::of_device(Stage::Verify, &error))
    }
}

impl From<DriverError> for Failed {
    fn from(error: DriverError) -> Self {
        DeviceError::from(error).into()
    }
}

impl From<LaunchError> for Failed {
    fn from(error: LaunchError) -> Self {
        Self(Outcome::of_launch(Stage::Verify, &error))
    }
}

impl From<VerifyError> for Failed {
    fn from(error: VerifyError) -> Self {
        Self(error.into())
    }
}

impl From<Outcome> for Failed {
    fn from(outcome: Outcome) -> Self {
        Self(outcome)
    }
}

impl From<RunError> for Failed {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Device(error) => error.into(),
            RunError::Launch(error) => error.into(),
            RunError::Wrong(message) => Self::wrong(message),
        }
    }
}

impl From<AnyError> for Failed {
    fn from(error: AnyError) -> Self {
        Self::bug(error)
    }
}

/// One line of the results.
#[derive(Debug, Serialize)]
struct CheckRecord {
    version: u32,
    /// UTC.
    date: String,
    program: String,
    revision: Option<String>,
    device: DeviceFacts,
    check: &'static str,
    subject: String,
    /// As TOML.
    schedule: String,
    ptx_blake3: Option<String>,
    assembly: Option<AssemblyFacts>,
    passed: bool,
    /// Name of the outcome; `verified` for a pass.
    outcome: String,
    text: String,
    figures: Value,
}

/// What a check found, besides passing or not.
#[derive(Default)]
struct Found {
    schedule: String,
    ptx_blake3: Option<String>,
    assembly: Option<AssemblyFacts>,
    figures: Value,
}

/// Compiles and assembles everything into the cubin folder.
///
/// # Errors
/// No assembler, or a kernel that does not compile.
pub fn prepare(args: &Args) -> Result<bool, AnyError> {
    let tools = ToolSet::resolve(&ResolveOptions::default())?;
    let assembler = Assembler::new(vec![tools.ptxas], Some(CubinCache::open(&args.cubins)?));
    if args.wants(Kind::Random) {
        random::prepare(args, &assembler)?;
    }
    let mut made = BTreeSet::new();
    for example in testkit::examples::all()? {
        let (subject, _) = Subject::of_example(&example)?;
        made.insert(subject.assemble(&assembler)?.facts.ptx_blake3);
    }
    if args.wants(Kind::Agreement) {
        for subject in agreement::subjects(args)? {
            made.insert(subject.assemble(&assembler)?.facts.ptx_blake3);
        }
    }
    for problem in launched()? {
        let candidate = Candidate::new(problem, shipped_for(&problem)?);
        let build = compile_only(&candidate, &assembler, &SM_90A).map_err(|outcome| outcome.to_string())?;
        made.extend(build.image.map(|image| image.facts.ptx_blake3));
    }
    println!("{} other kernels prepared in {}", made.len(), args.cubins.display());
    Ok(true)
}

/// Makes the checks from `from` on.
///
/// # Errors
/// No device, or a file that cannot be used.
pub fn run(args: &Args, from: usize) -> Result<bool, AnyError> {
    if args.sim {
        let assembler = Assembler::default();
        return each_check(args, from, |check, found| {
            // A fresh device for each check: simulated memory is not freed.
            let device = SimDevice::new(SimOptions::default());
            (device.facts().clone(), anywhere((&device, &assembler), check, found))
        });
    }
    // Tools are a help where they are; a folder of cubins is enough.
    let offline = ResolveOptions {
        offline: true,
        ..ResolveOptions::default()
    };
    let tools = ToolSet::resolve(&offline).into_iter().map(|set| set.ptxas).collect();
    let assembler = Assembler::new(tools, Some(CubinCache::open(&args.cubins)?));
    let device = CudaDevice::open(args.device, Duration::from_secs(args.deadline_s / 2))?;
    each_check(args, from, |check, found| {
        let done = match check {
            Check::Graph(problem) | Check::Streams(problem) => shipped((&device, &assembler), *problem, found)
                .and_then(|(build, prepared)| match check {
                    Check::Graph(_) => launches::graph(&device, &build, &prepared, args.rounds),
                    _ => launches::streams(&device, &build, &prepared, args.rounds),
                })
                .map(|figures| found.figures = figures),
            _ => anywhere((&device, &assembler), check, found),
        };
        (device.facts().clone(), done)
    })
}

/// The checks that run on any device.
fn anywhere<D: Device>((device, assembler): (&D, &Assembler), check: &Check, found: &mut Found) -> Result<(), Failed> {
    match check {
        Check::Generic(example) => {
            found.schedule.clone_from(&example.schedule);
            let built = Subject::of_example(example)?;
            let cubin = device.needs_cubin().then(|| built.0.assemble(assembler)).transpose()?;
            found.assembly = cubin.as_ref().map(|image| image.facts.clone());
            found.ptx_blake3 = Some(warpwright_runner::assemble::hex(built.0.ptx.as_bytes()));
            found.figures = generic::check(device, example, &built, cubin.as_ref())?;
            Ok(())
        }
        Check::Agreement(subject) => {
            found.schedule.clone_from(&subject.schedule);
            let cubin = device.needs_cubin().then(|| subject.assemble(assembler)).transpose()?;
            found.assembly = cubin.as_ref().map(|image| image.facts.clone());
            found.ptx_blake3 = Some(warpwright_runner::assemble::hex(subject.ptx.as_bytes()));
            found.figures = agreement::check(device, subject, cubin.as_ref())?;
            Ok(())
        }
        Check::Random(draw) => {
            found.schedule.clone_from(&draw.schedule);
            let evaluation = random::check(device, assembler, draw)?;
            found.ptx_blake3 = evaluation.ptx_blake3;
            found.assembly = evaluation.assembly;
            found.figures = json!({ "refused_before": draw.refused });
            match evaluation.outcome {
                Outcome::Verified { report, .. } => {
                    found.figures["families"] = json!(report.families);
                    Ok(())
                }
                other => Err(Failed(other)),
            }
        }
        Check::Graph(_) | Check::Streams(_) => Err(Failed::bug("this check needs a GPU")),
    }
}

/// The shipped kernel of a problem, loaded.
fn shipped(
    (device, assembler): (&CudaDevice, &Assembler),
    problem: oracle::Problem,
    found: &mut Found,
) -> Result<(Build, Prepared<CudaDevice>), Failed> {
    let schedule = shipped_for(&problem).map_err(Failed::bug)?;
    found.schedule = schedule_text(&schedule);
    let build = compile_only(&Candidate::new(problem, schedule), assembler, &SM_90A)?;
    found.assembly = build.image.as_ref().map(|image| image.facts.clone());
    found.ptx_blake3 = found.assembly.as_ref().map(|facts| facts.ptx_blake3.clone());
    let prepared = evaluate::load(device, &build)?;
    Ok((build, prepared))
}

/// Makes each check and ends the process where its device is lost.
fn each_check(
    args: &Args,
    from: usize,
    mut work: impl FnMut(&Check, &mut Found) -> (DeviceFacts, Result<(), Failed>),
) -> Result<bool, AnyError> {
    let progress = args.progress.as_deref().ok_or("a worker needs --progress")?;
    for (index, check) in checks(args)?.iter().enumerate().skip(from) {
        let start = Instant::now();
        let mut found = Found::default();
        let (device, done) = work(check, &mut found);
        let failed = done.err().map(|failed| failed.0);
        let last = failed.as_ref().is_some_and(Outcome::ends_process) && !args.sim;
        let (kind, subject) = check.names();
        let outcome = failed.as_ref().map_or("verified", Outcome::name).to_owned();
        let text = match &failed {
            Some(failed) => failed.to_string(),
            // Figures of many random schedules would drown the table.
            None if kind == "random" => String::new(),
            None => found.figures.to_string(),
        };
        let record = CheckRecord {
            version: RECORD_VERSION,
            date: utc_now(),
            program: program(),
            revision: args.revision.clone(),
            device,
            check: kind,
            subject: subject.clone(),
            schedule: found.schedule,
            ptx_blake3: found.ptx_blake3,
            assembly: found.assembly,
            passed: failed.is_none(),
            outcome: outcome.clone(),
            text: text.clone(),
            figures: found.figures,
        };
        append(&args.out, &record)?;
        let told = Progress {
            index,
            problem: subject,
            layout: kind.to_owned(),
            outcome,
            text,
            wall_s: start.elapsed().as_secs_f64(),
            last,
        };
        append(progress, &told)?;
        if last {
            // A normal exit would wait for the lost kernel.
            std::process::abort();
        }
    }
    Ok(true)
}

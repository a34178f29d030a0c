//! A worker: evaluates entries one after another and writes a record and a progress line for each.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use codegen::target::SM_90A;
use dsl::schedule::{Schedule, text};
use oracle::inputs::Family;
use tools::{ResolveOptions, ToolSet};
use warpwright_runner::evaluate::{Bench, Candidate, Evaluation, build, evaluate_untimed, load};
use warpwright_runner::record::{ComparisonRecord, Origin, Record, append, schedule_text};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::time::{Contestant, TimePlan, compare};
use warpwright_runner::verify::{VerifyPlan, verify};
use warpwright_runner::{
    Assembler, CubinCache, CudaDevice, Device, Outcome, SimDevice, SimOptions, Truths, compile_only,
};

use super::supervise::{AnyError, Progress};
use super::{Args, Entry, TimeWord};

/// A schedule and what to call it.
type Named = (String, Schedule);

/// Compiles and assembles every entry into the cubin folder.
///
/// # Errors
/// No assembler, or a schedule file that cannot be read.
pub fn prepare(args: &Args) -> Result<bool, AnyError> {
    let assembler = Assembler::new(vec![ToolSet::resolve(&ResolveOptions::default())?.ptxas], cache(args)?);
    let (mut made, mut refused) = (0, 0);
    let mut seen = std::collections::BTreeSet::new();
    for entry in args.entries() {
        for (name, schedule) in schedules(args, &entry)? {
            match compile_only(&Candidate::new(entry.problem, schedule), &assembler, &SM_90A) {
                Ok(build) => {
                    let facts = build.image.map(|image| image.facts).unwrap_or_default();
                    let spills = facts.spill_store_bytes + facts.spill_load_bytes;
                    if seen.insert(facts.ptx_blake3) && (spills > 0 || !facts.remarks.is_empty()) {
                        println!(
                            "{name}: `{}`: {spills} bytes spilled, {} remarks",
                            entry.problem,
                            facts.remarks.len()
                        );
                    }
                    made += 1;
                }
                Err(outcome) => {
                    println!("{name}: `{}`: {outcome}", entry.problem);
                    refused += 1;
                }
            }
        }
    }
    println!(
        "{made} prepared as {} cubins in {}, {refused} not",
        seen.len(),
        args.cubins.display()
    );
    Ok(refused == 0)
}

/// Does the entries from `from` on.
///
/// # Errors
/// No device, or a file that cannot be used.
pub fn run(args: &Args, from: usize) -> Result<bool, AnyError> {
    // Tools are a help where they are; a folder of cubins is enough.
    let offline = ResolveOptions {
        offline: true,
        ..ResolveOptions::default()
    };
    let tools = ToolSet::resolve(&offline).into_iter().map(|set| set.ptxas).collect();
    let assembler = Assembler::new(tools, cache(args)?);
    if args.sim {
        // A fresh device for each entry: simulated memory is not freed.
        return each_entry(args, from, |entry, named, truths| {
            let device = SimDevice::new(SimOptions::default());
            Ok(verify_one(args, (&device, &assembler), (entry, named), truths)?)
        });
    }
    let device = CudaDevice::open(args.device, Duration::from_secs(args.deadline_s / 2))?;
    each_entry(args, from, |entry, named, truths| match args.time {
        None => Ok(verify_one(args, (&device, &assembler), (entry, named), truths)?),
        Some(word) => Ok(time_one(args, (&device, &assembler), (entry, named, word), truths)?),
    })
}

/// Calls `work` for each entry and ends the process where its device is lost.
fn each_entry(
    args: &Args,
    from: usize,
    work: impl Fn(&Entry, &[Named], &mut Truths) -> Result<Outcome, AnyError>,
) -> Result<bool, AnyError> {
    let progress = args.progress.as_deref().ok_or("a worker needs --progress")?;
    let mut truths = Truths::new();
    for (index, entry) in args.entries().iter().enumerate().skip(from) {
        let start = Instant::now();
        let outcome = work(entry, &schedules(args, entry)?, &mut truths)?;
        let last = outcome.ends_process() && !args.sim;
        report(progress, &(index, entry, &outcome), (start.elapsed(), last))?;
        if last {
            // A normal exit would wait for the lost kernel.
            std::process::abort();
        }
    }
    Ok(true)
}

fn report(
    path: &Path,
    (index, entry, outcome): &(usize, &Entry, &Outcome),
    (wall, last): (Duration, bool),
) -> std::io::Result<()> {
    let progress = Progress {
        index: *index,
        problem: entry.problem.to_string(),
        layout: entry.layout.name().to_owned(),
        outcome: outcome.name().to_owned(),
        text: outcome.to_string(),
        wall_s: wall.as_secs_f64(),
        last,
    };
    append(path, &progress)
}

fn verify_plan(args: &Args, all: bool) -> VerifyPlan {
    let families = match (args.family.is_empty(), all) {
        (false, _) => args.family.clone(),
        (true, true) => Family::ALL.to_vec(),
        (true, false) => vec![Family::Normal, Family::GrowingMax],
    };
    VerifyPlan {
        families,
        stop_on_first: false,
        ..VerifyPlan::default()
    }
}

/// Verifies an entry under each schedule; the first that is not right decides.
fn verify_one<D: Device>(
    args: &Args,
    (device, assembler): (&D, &Assembler),
    (entry, named): (&Entry, &[Named]),
    truths: &mut Truths,
) -> std::io::Result<Outcome> {
    let plan = verify_plan(args, true);
    let bench = Bench {
        device,
        assembler,
        target: &SM_90A,
        verify: &plan,
    };
    let mut kept = None;
    for (_, schedule) in named {
        let mut candidate = Candidate::new(entry.problem, schedule.clone());
        candidate.layout = entry.layout;
        let evaluation: Evaluation = evaluate_untimed(&bench, &candidate, truths);
        append(&args.out, &Record::new(device.facts(), &candidate, &evaluation))?;
        if kept.as_ref().is_none_or(Outcome::is_right) {
            kept = Some(evaluation.outcome);
        }
        if kept.as_ref().is_some_and(Outcome::ends_process) {
            break;
        }
    }
    Ok(kept.unwrap_or_else(|| Outcome::Refused(nothing())))
}

fn nothing() -> warpwright_runner::outcome::Ended {
    warpwright_runner::outcome::Ended {
        stage: warpwright_runner::Stage::Compile,
        message: "no schedule; allowed: at least one".to_owned(),
    }
}

/// Compares the schedules of an entry.
fn time_one(
    args: &Args,
    (device, assembler): (&CudaDevice, &Assembler),
    (entry, named, word): (&Entry, &[Named], TimeWord),
    truths: &mut Truths,
) -> std::io::Result<Outcome> {
    let mut plan = match word {
        TimeWord::Burst => TimePlan::burst(),
        TimeWord::Sustained => TimePlan::sustained(),
    };
    plan.rounds = args.rounds.unwrap_or(plan.rounds);
    match timed(
        (device, assembler),
        (entry, named),
        (&verify_plan(args, false), &plan),
        truths,
    ) {
        Ok((record, outcome)) => append(&args.out, &record).map(|()| outcome),
        Err(outcome) => Ok(outcome),
    }
}

fn timed(
    (device, assembler): (&CudaDevice, &Assembler),
    (entry, named): (&Entry, &[Named]),
    (verify_plan, plan): (&VerifyPlan, &TimePlan),
    truths: &mut Truths,
) -> Result<(ComparisonRecord, Outcome), Outcome> {
    let build_one = |(_, schedule): &Named| {
        let mut candidate = Candidate::new(entry.problem, schedule.clone());
        candidate.layout = entry.layout;
        build(&candidate, assembler, &SM_90A, Some(SM_90A.name))
    };
    let builds = named.iter().map(build_one).collect::<Result<Vec<_>, _>>()?;
    let loaded = builds
        .iter()
        .map(|build| load(device, build))
        .collect::<Result<Vec<_>, _>>()?;
    let mut verified = Vec::new();
    for (build, prepared) in builds.iter().zip(&loaded) {
        verified.push(verify(device, (prepared, &build.case), verify_plan, truths)?);
    }
    let contestants = named.iter().zip(&verified).map(|((name, _), verified)| Contestant {
        name: name.clone(),
        verified,
    });
    let comparison = compare(device, &contestants.collect::<Vec<_>>(), plan)?;
    let origins = named.iter().zip(&builds).map(|((_, schedule), build)| {
        let facts = build.image.as_ref().map(|image| &image.facts);
        Origin {
            schedule: schedule_text(schedule),
            ptx_blake3: facts.map(|facts| facts.ptx_blake3.clone()),
            ptxas_version: facts.map(|facts| facts.ptxas_version.clone()),
        }
    });
    let origins: Vec<Origin> = origins.collect();
    let record = ComparisonRecord::new(device.facts(), &entry.problem, &comparison, &origins, true);
    let report = verified.first().map(|verified| verified.report().clone());
    match report {
        Some(report) => Ok((
            record,
            Outcome::Timed {
                report: Box::new(report),
                timing: Box::new(comparison),
            },
        )),
        None => Err(Outcome::Refused(nothing())),
    }
}

fn cache(args: &Args) -> Result<Option<CubinCache>, AnyError> {
    Ok(if args.sim {
        None
    } else {
        Some(CubinCache::open(&args.cubins)?)
    })
}

/// The schedules named on the command line, else the shipped one.
fn schedules(args: &Args, entry: &Entry) -> Result<Vec<Named>, AnyError> {
    if args.schedule.is_empty() {
        return Ok(vec![("shipped".to_owned(), shipped_for(&entry.problem)?)]);
    }
    let read = |path: &std::path::PathBuf| -> Result<Named, AnyError> {
        let schedule = text::parse(&fs::read_to_string(path)?)?;
        let name = path
            .file_stem()
            .map_or_else(String::new, |stem| stem.to_string_lossy().into_owned());
        Ok((name, schedule))
    };
    args.schedule.iter().map(read).collect()
}

//! Measures the schedules of a folder: a burst and a sustained window each, with the cycles of their last launch.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use codegen::launch::LaunchFacts;
use codegen::target::SM_90A;
use dsl::schedule::text;
use oracle::inputs::{Family, Inputs, Operand};
use warpwright_runner::device::{Image, Reading};
use warpwright_runner::stamps;
use warpwright_runner::verify::TensorSet;
use warpwright_runner::{Assembler, BindInput, Bound, Case, CubinCache, CudaDevice, Device, Prepared, Timing};

use super::set::{Drawn, Measured, Window, append, load, read};
use super::{AnyError, Args, prepare};

const DEADLINE: Duration = Duration::from_secs(20);
const BURST_US: f64 = 25_000.0;
const REST_US: u64 = 15_000;
const LOAD_US: f64 = 100_000.0;
const SUSTAINED_US: f64 = 150_000.0;
const MONITOR_US: u64 = 10_000;
/// Largest share of the root mean square by which outputs of two schedules may differ.
const AGREES: f64 = 0.02;

/// Runs workers until every schedule of every round has a line.
///
/// # Errors
/// A worker that cannot be started.
pub fn supervise(args: &Args, folder: &Path) -> Result<(), AnyError> {
    let wanted = load(folder)?.len() * args.rounds as usize;
    let lines = || read::<Measured>(&args.out).map_or(0, |lines| lines.len());
    let before = lines();
    while lines() - before < wanted {
        let seen = lines();
        let mut command = Command::new(std::env::current_exe()?);
        command.args(std::env::args_os().skip(1)).arg("--worker");
        let status = command.spawn()?.wait()?;
        if status.success() || lines() == seen {
            break;
        }
    }
    println!("{} of {wanted} measured", lines() - before);
    Ok(())
}

/// Measures what has no line yet.
///
/// # Errors
/// No device, or files that cannot be read or written.
pub fn worker(args: &Args, folder: &Path) -> Result<(), AnyError> {
    let device = CudaDevice::open(args.device, DEADLINE)?;
    let assembler = Assembler::new(vec![], Some(CubinCache::open(folder)?));
    let done: Vec<Measured> = if args.out.exists() { read(&args.out)? } else { vec![] };
    let drawn = load(folder)?;
    let mut by_problem: BTreeMap<&str, Vec<&Drawn>> = BTreeMap::new();
    for one in &drawn {
        by_problem.entry(&one.problem).or_default().push(one);
    }
    for (problem, entries) in by_problem {
        let todo = todo(&entries, &done, args.rounds);
        if !todo.is_empty() {
            println!("{problem}: {} to measure", todo.len());
            one_problem(&device, &assembler, (entries[0], &todo), args)?;
        }
    }
    Ok(())
}

/// What is left of each round, every other one backwards.
fn todo<'a>(entries: &[&'a Drawn], done: &[Measured], rounds: u32) -> Vec<(u32, &'a Drawn)> {
    let mut out = vec![];
    for round in 0..rounds {
        let mut order: Vec<&Drawn> = entries.to_vec();
        if round % 2 == 1 {
            order.reverse();
        }
        let left = order
            .into_iter()
            .filter(|d| !done.iter().any(|m| m.id == d.id && m.round == round));
        out.extend(left.map(|d| (round, d)));
    }
    out
}

fn one_problem(
    device: &CudaDevice,
    assembler: &Assembler,
    (first, todo): (&Drawn, &[(u32, &Drawn)]),
    args: &Args,
) -> Result<(), AnyError> {
    let problem = first.problem()?;
    let case = Case::new(&problem)?;
    let set = TensorSet::alloc(device, &case)?;
    let inputs = Inputs::new(problem, Family::Normal, 7)?;
    let inputs = Operand::of(&problem).iter().map(|operand| inputs.generate(*operand));
    set.write_inputs(device, &inputs.collect::<Result<Vec<_>, _>>()?)?;
    let reference = output(device, &set, &load_one(device, assembler, &case, &set, first)?)?;
    for (round, drawn) in todo {
        let mut line = Measured {
            id: drawn.id,
            key: drawn.key.clone(),
            problem: drawn.problem.clone(),
            schedule: drawn.schedule.clone(),
            near: drawn.near,
            round: *round,
            error: None,
            agrees: false,
            burst: None,
            sustained: None,
        };
        let result = load_one(device, assembler, &case, &set, drawn)
            .and_then(|bound| measure(device, &set, (&bound, reference.as_slice()), &mut line));
        if let Err(error) = result {
            line.error = Some(error.to_string());
        }
        let lost = line.error.is_some() && device.synchronize().is_err();
        append(&args.out, &line)?;
        if lost {
            return Err("the device can no longer be used by this process".into());
        }
    }
    Ok(())
}

/// A kernel bound to the tensors.
struct Ready {
    bound: Bound<CudaDevice>,
    facts: LaunchFacts,
}

fn load_one(
    device: &CudaDevice,
    assembler: &Assembler,
    case: &Case,
    set: &TensorSet<CudaDevice>,
    drawn: &Drawn,
) -> Result<Ready, AnyError> {
    let schedule = text::parse(&drawn.schedule)?;
    let compiled = prepare::compiled(case, &schedule)?;
    let image = assembler.assemble(&compiled.ptx.0, SM_90A.name, &schedule.assembler)?;
    let code = Image {
        ptx: &compiled.ptx.0,
        cubin: Some(&image.cubin),
    };
    let prepared = Prepared::load(device, &code, &compiled.launch)?;
    let input = BindInput {
        sizes: case.sizes(),
        scalars: case.scalars(),
        tensors: set.args(),
    };
    Ok(Ready {
        bound: prepared.bind(device, &input)?,
        facts: compiled.launch,
    })
}

/// Output of one launch, as f32 values of every 17th element.
fn output(device: &CudaDevice, set: &TensorSet<CudaDevice>, ready: &Ready) -> Result<Vec<f32>, AnyError> {
    set.poison_outputs(device)?;
    ready.bound.launch(device)?;
    device.synchronize()?;
    let output = set
        .read_outputs(device)?
        .map_err(|_| "a gap of an output was written")?;
    let some = output.values.iter().step_by(17);
    Ok(some.map(|bits| f32::from_bits(u32::from(*bits) << 16)).collect())
}

fn measure(
    device: &CudaDevice,
    set: &TensorSet<CudaDevice>,
    (ready, reference): (&Ready, &[f32]),
    line: &mut Measured,
) -> Result<(), AnyError> {
    if line.round == 0 {
        line.agrees = agree(&output(device, set, ready)?, reference);
    } else {
        ready.bound.launch(device)?;
        line.agrees = true;
    }
    device.synchronize()?;
    let launches = [ready.bound.inner()];
    let one_us = median(device.time_launches(&launches, 0, 2)?.launch_us).max(1.0);
    let count = |window_us: f64| (window_us / one_us).ceil().max(3.0) as usize;
    device.pause(REST_US);
    line.burst = Some(window(device, ready, count(BURST_US))?);
    device.time_launches(&launches, 0, count(LOAD_US))?;
    line.sustained = Some(window(device, ready, count(SUSTAINED_US))?);
    Ok(())
}

fn window(device: &CudaDevice, ready: &Ready, count: usize) -> Result<Window, AnyError> {
    let monitor = device.start_monitor(MONITOR_US);
    let times = device.time_launches(&[ready.bound.inner()], 0, count)?;
    let readings = monitor.map(|m| device.stop_monitor(m)).unwrap_or_default();
    let words = ready.bound.stamps(device)?.ok_or("the kernel is not instrumented")?;
    let ctas = stamps::parse(&ready.facts, &words).ok_or("the kernel is not instrumented")?;
    let (cycles_max, cycles_mean) = stamps::cycles(&ctas);
    if cycles_max == 0 {
        return Err("no stamps were written".into());
    }
    let of = |pick: &dyn Fn(&Reading) -> Option<f64>| {
        let values: Vec<f64> = readings.iter().filter_map(pick).collect();
        (!values.is_empty()).then(|| median(values))
    };
    Ok(Window {
        us: median(times.launch_us),
        launches: count,
        cycles_max,
        cycles_mean,
        mhz: of(&|r| r.sm_clock_mhz.map(f64::from)),
        watts: of(&|r| r.power_mw.map(|mw| f64::from(mw) / 1e3)),
    })
}

fn agree(output: &[f32], reference: &[f32]) -> bool {
    let square = |values: &mut dyn Iterator<Item = f32>| values.map(|v| f64::from(v).powi(2)).sum::<f64>();
    let difference = square(&mut output.iter().zip(reference).map(|(a, b)| a - b));
    let size = square(&mut reference.iter().copied());
    difference.is_finite() && difference.sqrt() <= AGREES * size.sqrt()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

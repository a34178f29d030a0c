//! Graph replay and concurrent streams of a kernel with a dynamic grid.

use std::sync::Arc;

use codegen::launch::Param;
use driver::Event;
use oracle::inputs::Family;
use serde_json::{Value, json};
use warpwright_runner::device::FaultClass;
use warpwright_runner::evaluate::Build;
use warpwright_runner::launch::{Bound, Prepared};
use warpwright_runner::verify::{
    FamilyReport, RowBudget, TensorSet, Truth, Truths, WholeRule, bind, judge, plain_result,
};
use warpwright_runner::{Case, CudaDevice, Device};

use super::worker::Failed;

/// Inputs that rounds take turns with.
const FAMILIES: [Family; 4] = [Family::Normal, Family::LateSpike, Family::GrowingMax, Family::Normal];

/// Replays queued one behind the other before their result is looked at.
const REPLAYS: usize = 3;

/// Launches queued on each stream in one round.
const LAUNCHES: usize = 8;

/// One kernel bound on one stream to tensors of its own.
struct Lane<'a> {
    device: CudaDevice,
    case: &'a Case,
    set: TensorSet<CudaDevice>,
    bound: Bound<CudaDevice>,
}

impl<'a> Lane<'a> {
    fn new(device: CudaDevice, prepared: &Prepared<CudaDevice>, case: &'a Case) -> Result<Self, Failed> {
        let set = TensorSet::alloc(&device, case)?;
        let bound = bind(&device, prepared, case, &set)?;
        Ok(Self {
            device,
            case,
            set,
            bound,
        })
    }

    /// Puts inputs in place, has the plain kernel compute the right result once, and poisons the outputs.
    fn arm(&self, truth: &Truth) -> Result<(), Failed> {
        self.set.write_inputs(&self.device, truth.inputs())?;
        plain_result(&self.device, (&self.set, self.case), truth, WholeRule::Always)?;
        Ok(self.set.poison_outputs(&self.device)?)
    }

    fn launch(&self) -> Result<(), Failed> {
        Ok(self.bound.launch(&self.device)?)
    }

    /// Waits, and judges everything that verification judges. The rows checked against f64 and in whole.
    fn inspect(&self, truth: &Truth, what: &str) -> Result<(u64, u64), Failed> {
        self.device.synchronize()?;
        self.set.check_bounds(&self.device)?;
        self.bound.check_scratch(&self.device)?;
        let mut report = FamilyReport::new(Family::Normal);
        let wrong = match self.set.read_outputs(&self.device)? {
            Err(wrong) => Some(wrong),
            Ok(output) => {
                let plain = plain_result(&self.device, (&self.set, self.case), truth, WholeRule::Always)?;
                judge(self.case, (truth, plain), &output, &mut report)?
            }
        };
        match wrong.or(self.set.changed_input(&self.device, truth.inputs())?) {
            None => Ok(report.rows_checked()),
            Some(wrong) => Err(Failed::wrong(format!("{what}: {wrong:?}: {report}"))),
        }
    }
}

/// One truth per turn, each of its own seed.
fn truths(case: &Case) -> Result<Vec<Arc<Truth>>, Failed> {
    let budget = RowBudget {
        all_below: 0,
        per_head: 2,
        ..RowBudget::default()
    };
    let mut truths = Truths::new();
    let turns = FAMILIES.iter().zip(11..);
    let made = turns.map(|(family, seed)| truths.get(case.problem(), *family, seed, budget));
    Ok(made.collect::<Result<_, _>>()?)
}

/// The scratch a kernel asks for; a kernel without a dynamic grid proves nothing here.
fn require_scratch(prepared: &Prepared<CudaDevice>) -> Result<(), Failed> {
    let has_scratch = |param: &Param| matches!(param, Param::Scratch { .. });
    if prepared.facts().params.iter().any(has_scratch) {
        return Ok(());
    }
    Err(Failed::bug(
        "the shipped schedule has no dynamic grid, so there is no scratch to check",
    ))
}

/// Launches directly, captures, replays on changed inputs, launches directly again.
///
/// # Errors
/// A failure of the device, or a wrong output.
pub fn graph(
    device: &CudaDevice,
    build: &Build,
    prepared: &Prepared<CudaDevice>,
    rounds: usize,
) -> Result<Value, Failed> {
    require_scratch(prepared)?;
    let truths = truths(&build.case)?;
    let lane = Lane::new(device.sibling()?, prepared, &build.case)?;
    let mut rows = (0, 0);
    let mut direct = |round: usize, what: &str| -> Result<(), Failed> {
        let truth = &truths[round % truths.len()];
        lane.arm(truth)?;
        lane.launch()?;
        rows = lane.inspect(truth, what)?;
        Ok(())
    };
    direct(0, "launched directly, before")?;
    let captured = lane.device.capture(&[&lane.bound])?;
    let twice = lane.device.capture(&[&lane.bound, &lane.bound])?;
    // Capturing queues nothing: whoever runs next starts from the same scratch.
    for round in 0..rounds {
        let truth = &truths[(round + 1) % truths.len()];
        lane.arm(truth)?;
        let graph = if round % 2 == 0 { &captured } else { &twice };
        for _ in 0..REPLAYS {
            graph.replay()?;
        }
        lane.inspect(truth, &format!("replay {round}"))?;
    }
    direct(1, "launched directly, after")?;
    Ok(json!({
        "rounds": rounds,
        "replays": rounds * REPLAYS,
        "nodes": [captured.nodes(), twice.nodes()],
        "rows_f64": rows.0,
        "rows_whole": rows.1,
        "blocks": lane.bound.plan().blocks,
        "grid": lane.bound.plan().spec.grid[0],
    }))
}

/// When each stream's launches of one round began and ended.
struct Span {
    start: Event,
    end: Event,
}

impl Span {
    fn new(device: &CudaDevice) -> Result<Self, Failed> {
        Ok(Self {
            start: Event::new(device.context())?,
            end: Event::new(device.context())?,
        })
    }

    /// Whether two finished spans have a moment in common.
    fn meets(&self, other: &Self) -> Result<bool, Failed> {
        Ok(self.start.elapsed_ms(&other.end)? > 0.0 && other.start.elapsed_ms(&self.end)? > 0.0)
    }
}

/// Runs the kernel on two streams at once, many times, on different inputs; a launch with the other's scratch is refused.
///
/// # Errors
/// A failure of the device, a wrong output, launches that never overlapped, or a shared scratch that was let through.
pub fn streams(
    device: &CudaDevice,
    build: &Build,
    prepared: &Prepared<CudaDevice>,
    rounds: usize,
) -> Result<Value, Failed> {
    require_scratch(prepared)?;
    let truths = truths(&build.case)?;
    let lanes = [
        Lane::new(device.sibling()?, prepared, &build.case)?,
        Lane::new(device.sibling()?, prepared, &build.case)?,
    ];
    match lanes[0].bound.inner().launch_on(lanes[1].device.stream()) {
        Err(error) if error.class == FaultClass::Refused => {}
        other => return Err(Failed::wrong(format!("shared scratch was not refused: {other:?}"))),
    }
    let (mut overlapped, mut rows) = (0_usize, (0, 0));
    for round in 0..rounds {
        let chosen = [&truths[round % truths.len()], &truths[(round + 1) % truths.len()]];
        for (lane, truth) in lanes.iter().zip(chosen) {
            lane.arm(truth)?;
            lane.device.synchronize()?;
        }
        let spans = [Span::new(device)?, Span::new(device)?];
        for (lane, span) in lanes.iter().zip(&spans) {
            span.start.record(lane.device.stream())?;
        }
        for _ in 0..LAUNCHES {
            lanes[0].launch()?;
            lanes[1].launch()?;
        }
        for (lane, span) in lanes.iter().zip(&spans) {
            span.end.record(lane.device.stream())?;
        }
        for ((lane, truth), name) in lanes.iter().zip(chosen).zip(["first", "second"]) {
            rows = lane.inspect(truth, &format!("round {round}, {name} stream"))?;
        }
        overlapped += usize::from(spans[0].meets(&spans[1])?);
    }
    if overlapped == 0 {
        return Err(Failed::bug(format!(
            "the streams never overlapped in {rounds} rounds, which proves nothing"
        )));
    }
    Ok(json!({
        "rounds": rounds,
        "launches_per_stream": rounds * LAUNCHES,
        "rounds_overlapped": overlapped,
        "rows_f64": rows.0,
        "rows_whole": rows.1,
        "blocks": lanes[0].bound.plan().blocks,
        "grid": lanes[0].bound.plan().spec.grid[0],
        "shared_scratch_refused": true,
    }))
}

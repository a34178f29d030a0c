//! Predicts the time of a launch without a GPU: simulated, never measured.
//!
//! One SM runs a few blocks of the kernel under the simulator's clock, with few and with more trips of its loops. That
//! gives the cycles of a launch's start, of a block and of a trip. A tile scheduler then places the real blocks on all
//! SMs, and the work of each unit gives power, hence the clock of a power-limited card.

mod blocks;
mod rises;

use codegen::Compiled;
use dsl::schedule::Persistence;
use oracle::{AttentionForward, Gemm, Problem, RowSoftmax};
use serde::Serialize;
use sim::time::TimeOptions;
use sim::time::energy::Power;
use sim::time::grid::{Handout, Launch, place};
use sim::time::params::Params;
use sim::time::report::{Activity, TimeReport};

use crate::case::{Case, CaseError};
use crate::device::{DeviceError, Image, SimDevice, SimOptions};
use crate::launch::{BindInput, LaunchError, Prepared};
use crate::verify::TensorSet;

/// Trips of the short and of the long run.
const TRIPS: (u32, u32) = (4, 10);
/// Blocks of the small and of the larger run.
const BLOCKS: (u32, u32) = (2, 4);

/// The model.
#[derive(Clone, Debug)]
pub struct Model {
    pub params: Params,
    pub power: Power,
    pub multiprocessors: u32,
}

impl Default for Model {
    /// An H200.
    fn default() -> Self {
        Self {
            params: Params::default(),
            power: Power::default(),
            multiprocessors: 132,
        }
    }
}

/// Why there is no prediction.
#[derive(Debug, thiserror::Error)]
pub enum PredictError {
    #[error("kernels of target {target} have no warp roles, and the time model knows no other; allowed: sm_90a")]
    Target { target: String },
    #[error("size `{name}` is missing")]
    Size { name: String },
    #[error("the grid has {blocks} blocks; allowed: 1 to 4194304")]
    Blocks { blocks: i64 },
    #[error("the schedule binds no tile `{name}`")]
    Tile { name: &'static str },
    #[error(transparent)]
    Case(#[from] CaseError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
}

/// What is predicted for one launch. Every number is simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    pub simulated: bool,
    /// SM cycles from the first instruction to the last.
    pub cycles: f64,
    pub blocks: usize,
    /// Cycles of one trip of the main loop, of a block besides its trips, and of the start.
    pub trip_cycles: f64,
    pub block_cycles: f64,
    pub start_cycles: f64,
    /// Share of the launch in which SMs had a block.
    pub balance: f64,
    /// Clock and power of a card under steady load.
    pub sustained_mhz: f64,
    pub sustained_w: f64,
    pub sustained_us: f64,
    /// At the highest clock.
    pub burst_us: f64,
    /// Use of each unit in steady state, 0 to 1.
    pub occupancy: Vec<(String, f64)>,
    /// What the consumer warps waited for, longest first: text, share of their time.
    pub waits: Vec<(String, f64)>,
    /// The critical path in words.
    pub words: String,
    /// Work of the launch, by unit.
    #[serde(skip)]
    pub activity: Vec<(&'static str, f64)>,
}

/// Predicts a launch of a compiled kernel.
///
/// # Errors
/// A kernel without roles, or one that the simulator cannot run.
pub fn predict(problem: &Problem, compiled: &Compiled, model: &Model) -> Result<Prediction, PredictError> {
    let bench = Bench::new(problem, compiled, model)?;
    let trips = blocks::trips(&compiled.program, Case::new(problem)?.sizes())?;
    let few = bench.run(BLOCKS.0, TRIPS.0, false)?;
    let more = bench.run(BLOCKS.1, TRIPS.0, false)?;
    let long = bench.run(BLOCKS.1, TRIPS.1, false)?;
    let line = |pick: &dyn Fn(&TimeReport) -> f64| Line::fit(&few, &more, &long, pick);
    let cycles = line(&|r| r.cycles as f64);
    let costs: Vec<f64> = trips
        .iter()
        .map(|t| (cycles.block + cycles.trip * t).max(1.0))
        .collect();
    let launch = place(
        &costs,
        model.multiprocessors as usize,
        handout(compiled),
        (cycles.start.max(0.0), 0.0),
    );
    let total_trips: f64 = trips.iter().sum();
    let count = trips.len() as f64;
    let activity: Vec<(&'static str, f64)> = Activity::default()
        .amounts()
        .iter()
        .enumerate()
        .map(|(i, (name, _))| {
            let l = line(&|r| r.activity.amounts()[i].1);
            (*name, (l.block * count + l.trip * total_trips).max(0.0))
        })
        .collect();
    Ok(finish(
        model,
        (&cycles, launch),
        activity,
        (&long.report, compiled, trips.len()),
    ))
}

/// A timeline of a few blocks with a few trips each.
///
/// # Errors
/// As [`predict`].
pub fn timeline(problem: &Problem, compiled: &Compiled, model: &Model) -> Result<TimeReport, PredictError> {
    Ok(Bench::new(problem, compiled, model)?.run(2, 6, true)?.report)
}

fn handout(compiled: &Compiled) -> Handout {
    match compiled.program.grid.persistence {
        Persistence::None => Handout::PerBlock,
        Persistence::Static => Handout::Static,
        Persistence::Dynamic => Handout::Dynamic,
    }
}

fn finish(
    model: &Model,
    (cycles, launch): (&Line, Launch),
    activity: Vec<(&'static str, f64)>,
    (report, compiled, blocks): (&TimeReport, &Compiled, usize),
) -> Prediction {
    let joules = model.power.joules(&activity);
    let whole = launch.cycles + model.params.launch_cycles;
    let sustained = model.power.sustained(joules, whole);
    let occupancy: Vec<(String, f64)> = report
        .occupancy(model.params.smem_bytes_per_cycle)
        .into_iter()
        .map(|(name, share)| (name.to_owned(), share))
        .collect();
    // Warps 0 to 3 are the producer's.
    let waits = report.waited(4, 4 + 4 * compiled.program.consumers);
    let waits: Vec<(String, f64)> = waits
        .into_iter()
        .map(|(kind, label, share)| (format!("{} ({label})", sim::time::trace::reason(kind)), share))
        .collect();
    let words = words(&occupancy, &waits);
    Prediction {
        simulated: true,
        cycles: launch.cycles,
        blocks,
        trip_cycles: cycles.trip,
        block_cycles: cycles.block,
        start_cycles: cycles.start,
        balance: launch.balance,
        sustained_mhz: sustained.mhz,
        sustained_w: sustained.watts,
        sustained_us: whole / sustained.mhz,
        burst_us: whole / model.power.max_mhz,
        occupancy,
        waits,
        words,
        activity,
    }
}

/// The busiest unit, and the longest wait of the consumers.
fn words(occupancy: &[(String, f64)], waits: &[(String, f64)]) -> String {
    let busiest = occupancy.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    let mut out = busiest.map_or_else(String::new, |(name, share)| {
        format!("the busiest unit is the {name}, {:.0} % of the time", share * 100.0)
    });
    if let Some((text, share)) = waits.first() {
        out += &format!(
            "; the consumers spend most of their waiting, {:.0} % of the time, in {text}",
            share * 100.0
        );
    }
    out
}

/// `start + blocks * (block + trips * trip)`.
struct Line {
    start: f64,
    block: f64,
    trip: f64,
}

impl Line {
    fn fit(few: &Run, more: &Run, long: &Run, pick: &dyn Fn(&TimeReport) -> f64) -> Self {
        let [a, b, c] = [few, more, long].map(|run| pick(&run.report));
        let trip = (c - b) / (long.trips - more.trips).max(1.0);
        let per_block = (b - a - trip * (more.trips - few.trips)) / (more.blocks - few.blocks).max(1.0);
        Self {
            start: a - few.blocks * per_block - few.trips * trip,
            block: per_block,
            trip,
        }
    }
}

/// One simulated run: blocks and trips in all.
struct Run {
    blocks: f64,
    trips: f64,
    report: TimeReport,
}

/// A loaded kernel on one simulated SM.
struct Bench<'a> {
    problem: &'a Problem,
    compiled: &'a Compiled,
    model: &'a Model,
    device: SimDevice,
    prepared: Prepared<SimDevice>,
    /// Share of the trips of the whole launch in which running maxima move.
    rise_share: f64,
}

impl<'a> Bench<'a> {
    fn new(problem: &'a Problem, compiled: &'a Compiled, model: &'a Model) -> Result<Self, PredictError> {
        if compiled.ampere.is_some() {
            let target = compiled.launch.target.clone();
            return Err(PredictError::Target { target });
        }
        let device = SimDevice::new(SimOptions {
            multiprocessors: 1,
            ..SimOptions::default()
        });
        let code = Image {
            ptx: &compiled.ptx.0,
            cubin: None,
        };
        let prepared = Prepared::load(&device, &code, &compiled.launch)?;
        let trips = blocks::trips(&compiled.program, Case::new(problem)?.sizes())?;
        Ok(Self {
            rise_share: rises::share(&trips),
            problem,
            compiled,
            model,
            device,
            prepared,
        })
    }

    fn run(&self, blocks: u32, trips: u32, trace: bool) -> Result<Run, PredictError> {
        let case = Case::with_kernel(&self.reduced(blocks, trips)?, Case::new(self.problem)?.kernel().clone())?;
        let set = TensorSet::alloc(&self.device, &case)?;
        let input = BindInput {
            sizes: case.sizes(),
            scalars: case.scalars(),
            tensors: set.args(),
        };
        let bound = self.prepared.bind(&self.device, &input)?;
        let options = TimeOptions {
            params: self.model.params.clone(),
            trace,
            rise_share: self.rise_share,
        };
        let report = self.device.time(bound.inner(), &options)?;
        let trips = blocks::trips(&self.compiled.program, case.sizes())?;
        Ok(Run {
            blocks: trips.len() as f64,
            trips: trips.iter().sum(),
            report,
        })
    }

    fn tile(&self, name: &'static str) -> Result<u32, PredictError> {
        let tiles = &self.compiled.scheduled.schedule.tiles;
        tiles.get(name).copied().ok_or(PredictError::Tile { name })
    }

    /// The same kernel on a problem of a few equal blocks.
    fn reduced(&self, blocks: u32, trips: u32) -> Result<Problem, PredictError> {
        Ok(match self.problem {
            Problem::Forward(p) => {
                let (q_tile, kv_tile) = (self.tile("q_tile")?, self.tile("kv_tile")?);
                // A causal block starts at its diagonal.
                let diagonal = q_tile.div_ceil(kv_tile);
                AttentionForward {
                    batch: 1,
                    q_len: q_tile,
                    kv_len: (trips + diagonal) * kv_tile,
                    heads: blocks,
                    kv_heads: 1,
                    ..*p
                }
                .into()
            }
            Problem::Gemm(p) => Gemm {
                m: blocks * self.tile("m_tile")?,
                n: self.tile("n_tile")?,
                k: trips * self.tile("k_tile")?,
                ..*p
            }
            .into(),
            Problem::Softmax(p) => RowSoftmax {
                m: blocks * self.tile("m_tile")?,
                n: trips * self.tile("n_tile")?,
                ..*p
            }
            .into(),
        })
    }
}

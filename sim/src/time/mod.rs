//! Predicted time: the functional simulator under a clock.
//!
//! A timed run executes one SM's CTAs with the machine of `exec`, but a scheduler of its own: the warp with the
//! smallest clock goes next, and copies and matrix products complete at computed times. So barriers and mbarriers open in
//! the order of time. Data does not move: products are small numbers that rise in a given share of the trips, so that running
//! maxima move as often as they do on ordinary data; copies bring nothing.
//!
//! | file | what |
//! |---|---|
//! | [`params`] | every number of the model, with unit and source |
//! | `cost`, `regs` | an instruction's unit, duration, latency, operands |
//! | `state` | clocks of warps, queues of units, events |
//! | `run` | the scheduler |
//! | `rises` | in which trips running maxima move |
//! | `labels` | names of regions, from the comments of the PTX |
//! | `tensor`, `copies` | the tensor core; the copy engine and L2 |
//! | `report`, [`trace`] | waits, use of units, spans; Chrome trace JSON |
//! | [`grid`] | blocks over SMs: the cycles of a whole launch |
//! | [`energy`] | power and the clock that a power limit allows |

mod copies;
mod cost;
pub mod energy;
pub mod grid;
pub(crate) mod labels;
pub mod params;
mod regs;
pub mod report;
mod rises;
mod run;
pub(crate) mod state;
mod tensor;
pub mod trace;

use crate::fault::Fault;
use crate::host::{Arg, Device, LaunchConfig, Module};
use params::Params;
use report::TimeReport;

/// How to time.
#[derive(Clone, Debug)]
pub struct TimeOptions {
    /// The model's numbers.
    pub params: Params,
    /// Keep spans for a timeline.
    pub trace: bool,
    /// Share of the trips, 0 to 1, in which the running maxima of a warp move.
    pub rise_share: f64,
}

impl Default for TimeOptions {
    /// Maxima that always move: what a kernel costs at most.
    fn default() -> Self {
        Self {
            params: Params::default(),
            trace: false,
            rise_share: 1.0,
        }
    }
}

impl Device {
    /// Runs a launch under the clock; memory keeps what ordinary stores and atomics wrote.
    ///
    /// # Errors
    /// What stops a launch otherwise: deadlock, illegal operations, the instruction budget.
    pub fn time(
        &mut self,
        module: &Module,
        entry: &str,
        launch: (LaunchConfig, &[Arg]),
        options: &TimeOptions,
    ) -> Result<TimeReport, Fault> {
        let (config, args) = launch;
        let mut machine = None;
        self.with_machine((module, entry), config, args, |m| {
            let labels = module.labels_of(m.kernel);
            m.time = Some(Box::new(state::Time::new(m.kernel, labels, options)));
            let result = m.run_timed();
            machine = m.time.take().map(|time| time.report());
            result
        })?;
        Ok(machine.unwrap_or_default())
    }
}

//! Times that can be trusted: paired windows of event-timed launches under a stated protocol.
//!
//! - *Burst*: 20 ms windows on a rested card. *Sustained*: windows of at least 300 ms after 150 ms of the contestant's
//!   own load. On a power-limited card the two differ by 10 to 15 % for one binary, so every record names its protocol
//!   and **only paired ratios decide**.
//! - Contestants take turns in one run: A B B A A B B A ….
//! - Inputs rotate over more than twice the level-2 cache; all contestants read the same sets at the same addresses.
//! - Clocks, power, temperature and throttle reasons are kept with each window, raw times too.
//! - Outputs of windows picked at random are compared with outputs that passed the gate on inputs not seen before.
//! - Only a [`Verified`] kernel can be a contestant.

mod arena;
mod compare;
mod error;
mod plausible;
mod result;
pub mod stats;

use serde::{Deserialize, Serialize};

pub use compare::{Contestant, compare};
pub use error::TimeError;
pub use plausible::{Implausible, check_time};
pub use result::{Comparison, ContestantTiming, Ratio, Window, WindowState};

use crate::device::Timing;
use crate::verify::{RowBudget, Verified};

/// Which of the two protocols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// Short windows on a rested card.
    Burst,
    /// Long windows under the contestant's own load.
    Sustained,
}

/// How to time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TimePlan {
    pub protocol: Protocol,
    /// Length of a window.
    pub window_us: f64,
    /// Launches of the contestant before its window, not recorded.
    pub own_load_us: f64,
    /// Rest before the own load.
    pub idle_us: u64,
    /// Windows per contestant; raised to an even number, so that each order is used as often as the other.
    pub rounds: u32,
    /// Launches per window at least, and at most.
    pub launches: (u32, u32),
    /// The tensor sets together hold at least this many times the level-2 cache.
    pub l2_multiple: f64,
    /// Tensor sets at most.
    pub most_sets: u32,
    /// Windows per contestant whose outputs are checked.
    pub spot_checks: u32,
    /// Rows that the gate judges on the timed inputs.
    pub budget: RowBudget,
    /// Of inputs, spot checks and bootstrap.
    pub seed: u64,
    pub monitor_interval_us: u64,
}

impl TimePlan {
    /// 20 ms windows on a rested card.
    #[must_use]
    pub const fn burst() -> Self {
        Self {
            protocol: Protocol::Burst,
            window_us: 20_000.0,
            own_load_us: 1_000.0,
            idle_us: 30_000,
            rounds: 10,
            launches: (4, 20_000),
            l2_multiple: 2.0,
            most_sets: 256,
            spot_checks: 2,
            budget: RowBudget {
                all_below: 1 << 26,
                per_head: 1,
                sampled_most: 1 << 28,
            },
            seed: 0x7ead,
            monitor_interval_us: 4_000,
        }
    }

    /// 300 ms windows after 150 ms of own load.
    #[must_use]
    pub const fn sustained() -> Self {
        Self {
            protocol: Protocol::Sustained,
            window_us: 300_000.0,
            own_load_us: 150_000.0,
            idle_us: 0,
            rounds: 6,
            monitor_interval_us: 20_000,
            ..Self::burst()
        }
    }
}

/// Times one kernel alone: absolute figures, good for a screen, not for a decision.
///
/// # Errors
/// As [`compare`].
pub fn time<D: Timing>(device: &D, verified: &Verified<'_, D>, plan: &TimePlan) -> Result<Comparison, TimeError> {
    let alone = Contestant {
        name: "candidate".to_owned(),
        verified,
    };
    compare(device, &[alone], plan)
}

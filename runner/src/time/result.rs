//! What timing found: raw windows, medians, paired ratios.

use serde::{Deserialize, Serialize};

use super::TimePlan;
use super::stats::{geomean_interval, median, quantile};
use crate::device::Reading;
use crate::verify::Checked;

/// One window of one contestant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Index of the contestant.
    pub contestant: usize,
    pub round: u32,
    /// Host clock at its start and end, for the readings.
    pub start_us: u64,
    pub end_us: u64,
    /// Every launch, in order.
    pub launch_us: Vec<f64>,
    pub median_us: f64,
    /// Whether queueing took nearly as long as running: then the host was timed, not the kernel.
    pub host_bound: bool,
    pub state: WindowState,
    /// Whether its output was checked.
    pub spot_checked: bool,
}

/// The card during a window, from the readings taken in it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WindowState {
    pub readings: usize,
    pub sm_clock_mhz: Option<u32>,
    pub power_mw: Option<u32>,
    pub temperature_c: Option<u32>,
    pub throttle_reasons: Vec<String>,
}

/// One contestant over all its windows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContestantTiming {
    pub name: String,
    /// Median of the windows' medians.
    pub median_us: f64,
    /// Lowest and highest window median.
    pub range_us: (f64, f64),
    pub tflops: f64,
    pub windows: usize,
    pub launches: usize,
    pub host_bound: bool,
    /// The verifications it passed before; none in records from before this was kept.
    #[serde(default)]
    pub verified: Vec<Checked>,
}

/// How much faster a contestant is than the first: above 1 is faster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ratio {
    pub name: String,
    pub against: String,
    /// Time of the first over time of this one, in each round.
    pub per_round: Vec<f64>,
    /// Geometric mean, with a 95 % bootstrap interval over the rounds.
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// Everything one comparison found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub plan: TimePlan,
    /// Tensor sets that the launches rotated over, and their bytes together.
    pub sets: usize,
    pub set_bytes: u64,
    pub contestants: Vec<ContestantTiming>,
    /// One for each contestant but the first.
    pub ratios: Vec<Ratio>,
    pub windows: Vec<Window>,
    pub readings: Vec<Reading>,
}

impl WindowState {
    /// Sums up the readings between two moments.
    #[must_use]
    pub fn of(readings: &[Reading], start_us: u64, end_us: u64) -> Self {
        let within: Vec<&Reading> = readings
            .iter()
            .filter(|r| (start_us..=end_us).contains(&r.at_us))
            .collect();
        let middle = |field: fn(&Reading) -> Option<u32>| {
            let values: Vec<f64> = within.iter().filter_map(|r| field(r)).map(f64::from).collect();
            median(&values).map(|value| value.round() as u32)
        };
        let mut reasons: Vec<String> = within
            .iter()
            .filter_map(|r| r.throttle_reasons.clone())
            .flatten()
            .collect();
        reasons.sort();
        reasons.dedup();
        Self {
            readings: within.len(),
            sm_clock_mhz: middle(|r| r.sm_clock_mhz),
            power_mw: middle(|r| r.power_mw),
            temperature_c: middle(|r| r.temperature_c),
            throttle_reasons: reasons,
        }
    }
}

impl ContestantTiming {
    pub(super) fn of(index: usize, entry: (&str, &[Checked]), windows: &[Window], flops: u128) -> Self {
        let (name, checked) = entry;
        let own: Vec<&Window> = windows.iter().filter(|w| w.contestant == index).collect();
        let medians: Vec<f64> = own.iter().map(|w| w.median_us).collect();
        let at = |fraction| quantile(&medians, fraction).unwrap_or(0.0);
        let median_us = at(0.5);
        Self {
            name: name.to_owned(),
            median_us,
            range_us: (at(0.0), at(1.0)),
            tflops: if median_us > 0.0 {
                flops as f64 / median_us / 1e6
            } else {
                0.0
            },
            windows: own.len(),
            launches: own.iter().map(|w| w.launch_us.len()).sum(),
            host_bound: own.iter().any(|w| w.host_bound),
            verified: checked.to_vec(),
        }
    }
}

impl Ratio {
    /// Pairs the windows of two contestants by round.
    pub(super) fn of(names: (&str, &str), (base, index): (usize, usize), windows: &[Window], seed: u64) -> Self {
        let of = |contestant: usize| windows.iter().filter(move |w| w.contestant == contestant);
        let pairs = of(base).filter_map(|a| {
            of(index)
                .find(|b| b.round == a.round)
                .map(|b| a.median_us / b.median_us)
        });
        let per_round: Vec<f64> = pairs.collect();
        let interval = geomean_interval(&per_round, seed);
        let figure = |get: fn(super::stats::Interval) -> f64| interval.map_or(0.0, get);
        Self {
            name: names.1.to_owned(),
            against: names.0.to_owned(),
            estimate: figure(|i| i.estimate),
            low: figure(|i| i.low),
            high: figure(|i| i.high),
            per_round,
        }
    }
}

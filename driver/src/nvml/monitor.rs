//! A thread that samples the GPU's state while something runs.

use super::{NvmlUnavailable, Sample, Sampler, slows_down};
use crate::context::micros;
use crate::device::Device;
use serde::Serialize;
use std::collections::BTreeSet;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// A reading takes about a millisecond, and more readings than this would slow the host down.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);
/// A day at the default rate; the oldest readings are kept and later ones dropped.
const MOST_SAMPLES: usize = 1 << 20;

/// A running sampling thread; dropping it stops it too.
pub struct Monitor {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<Vec<Sample>>>,
}

/// What a monitor saw.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MonitorReport {
    /// The readings in order of time.
    pub samples: Vec<Sample>,
    /// The readings in short.
    pub summary: Summary,
}

/// Lowest, middle and highest of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Clock {
    /// Lowest.
    pub min_mhz: u32,
    /// Middle; the lower one of two.
    pub median_mhz: u32,
    /// Highest.
    pub max_mhz: u32,
}

/// Readings in short. Only answered questions count.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Summary {
    /// How many readings there are.
    pub samples: usize,
    /// SM clock.
    pub sm_clock: Option<Clock>,
    /// Memory clock.
    pub memory_clock: Option<Clock>,
    /// Mean power.
    pub mean_power_mw: Option<f64>,
    /// Highest power.
    pub max_power_mw: Option<u32>,
    /// The lowest limit seen.
    pub power_limit_mw: Option<u32>,
    /// Highest temperature.
    pub max_temperature_c: Option<u32>,
    /// All throttle reasons seen, in order of name.
    pub throttle_reasons: Vec<String>,
    /// Share of readings with a reason that lowers the clocks of a busy GPU.
    pub slowed_share: f64,
}

impl Monitor {
    /// Opens NVML for `device` and samples every `interval`, at least 2 ms, on a thread of its own.
    ///
    /// # Errors
    /// [`NvmlUnavailable`]; callers go on without.
    pub fn start(device: &Device, interval: Duration) -> Result<Self, NvmlUnavailable> {
        let sampler = Sampler::open(device)?;
        Self::run(interval, move || sampler.sample())
    }

    fn run(interval: Duration, sample: impl Fn() -> Sample + Send + 'static) -> Result<Self, NvmlUnavailable> {
        let interval = interval.max(SHORTEST_INTERVAL);
        let (stop, stopped) = mpsc::channel::<()>();
        let work = move || {
            let start = Instant::now();
            let mut samples = Vec::new();
            loop {
                if samples.len() < MOST_SAMPLES {
                    samples.push(Sample {
                        at_us: micros(start.elapsed()),
                        ..sample()
                    });
                }
                if stopped.recv_timeout(interval) != Err(RecvTimeoutError::Timeout) {
                    return samples;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("gpu-monitor".into())
            .spawn(work)
            .map_err(|e| NvmlUnavailable::Library {
                reason: format!("no thread for the monitor: {e}"),
            })?;
        Ok(Self {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Stops the thread and hands over what it saw: at least one reading.
    #[must_use]
    pub fn stop(mut self) -> MonitorReport {
        let samples = self.finish();
        let summary = Summary::of(&samples);
        MonitorReport { samples, summary }
    }

    fn finish(&mut self) -> Vec<Sample> {
        // Closing the channel is the signal.
        drop(self.stop.take());
        let joined = self.thread.take().and_then(|thread| thread.join().ok());
        joined.unwrap_or_default()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Summary {
    /// Sums readings up.
    #[must_use]
    pub fn of(samples: &[Sample]) -> Self {
        let power: Vec<u32> = samples.iter().filter_map(|s| s.power_mw).collect();
        let reasons = || samples.iter().filter_map(|s| s.throttle_reasons.as_ref());
        let seen: BTreeSet<&String> = reasons().flatten().collect();
        let slowed = reasons().filter(|r| r.iter().any(|name| slows_down(name)));
        let answered = reasons().count().max(1);
        Self {
            samples: samples.len(),
            sm_clock: clock(samples.iter().filter_map(|s| s.sm_clock_mhz)),
            memory_clock: clock(samples.iter().filter_map(|s| s.memory_clock_mhz)),
            mean_power_mw: mean(&power),
            max_power_mw: power.iter().copied().max(),
            power_limit_mw: samples.iter().filter_map(|s| s.power_limit_mw).min(),
            max_temperature_c: samples.iter().filter_map(|s| s.temperature_c).max(),
            throttle_reasons: seen.into_iter().cloned().collect(),
            slowed_share: slowed.count() as f64 / answered as f64,
        }
    }
}

fn clock(values: impl Iterator<Item = u32>) -> Option<Clock> {
    let mut values: Vec<u32> = values.collect();
    values.sort_unstable();
    Some(Clock {
        min_mhz: *values.first()?,
        median_mhz: *values.get((values.len() - 1) / 2)?,
        max_mhz: *values.last()?,
    })
}

fn mean(values: &[u32]) -> Option<f64> {
    let sum: u64 = values.iter().map(|v| u64::from(*v)).sum();
    (!values.is_empty()).then(|| sum as f64 / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(mhz: u32, mw: u32, reason: &str) -> Sample {
        Sample {
            sm_clock_mhz: Some(mhz),
            power_mw: Some(mw),
            throttle_reasons: Some(vec![reason.into()]),
            ..Sample::default()
        }
    }

    #[test]
    fn a_summary_counts_answers_only() {
        let samples = [
            sample(1980, 300, "gpu_idle"),
            sample(1700, 500, "sw_power_cap"),
            Sample::default(),
            sample(1900, 700, "sw_power_cap"),
        ];
        let summary = Summary::of(&samples);
        assert_eq!(summary.samples, 4);
        let clock = summary.sm_clock.map(|c| (c.min_mhz, c.median_mhz, c.max_mhz));
        assert_eq!(clock, Some((1700, 1900, 1980)));
        assert_eq!(summary.mean_power_mw, Some(500.0));
        assert_eq!(summary.max_power_mw, Some(700));
        assert_eq!(summary.memory_clock, None);
        assert_eq!(summary.throttle_reasons, ["gpu_idle", "sw_power_cap"]);
        assert!((summary.slowed_share - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn no_readings_make_an_empty_summary() {
        assert_eq!(Summary::of(&[]), Summary::default());
    }

    #[test]
    fn the_thread_samples_until_it_is_stopped() {
        let monitor = Monitor::run(Duration::from_millis(2), || sample(1000, 1, "gpu_idle"));
        std::thread::sleep(Duration::from_millis(60));
        let report = monitor.unwrap().stop();
        assert!(report.samples.len() >= 2, "{}", report.samples.len());
        assert!(report.samples.is_sorted_by_key(|s| s.at_us));
        assert_eq!(report.summary.samples, report.samples.len());
    }
}

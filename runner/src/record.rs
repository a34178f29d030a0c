//! Records of evaluations, one JSON object a line, appended only.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use dsl::schedule::text;
use serde::{Deserialize, Serialize};

use crate::assemble::AssemblyFacts;
use crate::case::LayoutRule;
use crate::device::DeviceFacts;
use crate::evaluate::{Candidate, Evaluation};
use crate::outcome::Outcome;
use crate::time::{Comparison, ContestantTiming, Protocol, Ratio, TimePlan, Window, WindowState};

/// Version of the record format.
pub const RECORD_VERSION: u32 = 1;

/// One evaluation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub version: u32,
    /// UTC, `2026-01-31T12:00:00Z`.
    pub date: String,
    /// Version of this program, and the revision it was built from where `WARPWRIGHT_REVISION` was set.
    pub program: String,
    pub device: DeviceFacts,
    pub problem: String,
    pub layout: LayoutRule,
    /// As TOML.
    pub schedule: String,
    pub ptx_blake3: Option<String>,
    pub assembly: Option<AssemblyFacts>,
    pub outcome: Outcome,
}

/// One comparison of several contestants, without the raw launch times unless asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparisonRecord {
    pub version: u32,
    pub date: String,
    pub program: String,
    pub device: DeviceFacts,
    pub problem: String,
    pub protocol: Protocol,
    pub plan: TimePlan,
    pub sets: usize,
    pub set_bytes: u64,
    pub contestants: Vec<ContestantRecord>,
    pub ratios: Vec<Ratio>,
    pub windows: Vec<WindowSummary>,
    /// Everything, where asked for.
    pub raw: Option<Comparison>,
}

/// A contestant of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ContestantRecord {
    pub timing: ContestantTiming,
    /// As TOML.
    pub schedule: String,
    pub ptx_blake3: Option<String>,
    pub ptxas_version: Option<String>,
}

/// A window without its launch times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowSummary {
    pub contestant: usize,
    pub round: u32,
    pub launches: usize,
    pub median_us: f64,
    pub host_bound: bool,
    pub spot_checked: bool,
    pub state: WindowState,
}

/// What a record says about each contestant besides its times, in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    pub schedule: String,
    pub ptx_blake3: Option<String>,
    pub ptxas_version: Option<String>,
}

impl Record {
    /// The record of an evaluation made now.
    #[must_use]
    pub fn new(device: &DeviceFacts, candidate: &Candidate, evaluation: &Evaluation) -> Self {
        Self {
            version: RECORD_VERSION,
            date: utc_now(),
            program: program(),
            device: device.clone(),
            problem: candidate.problem.to_string(),
            layout: candidate.layout,
            schedule: schedule_text(&candidate.schedule),
            ptx_blake3: evaluation.ptx_blake3.clone(),
            assembly: evaluation.assembly.clone(),
            outcome: evaluation.outcome.clone(),
        }
    }
}

impl ComparisonRecord {
    /// The record of a comparison made now.
    #[must_use]
    pub fn new(
        device: &DeviceFacts,
        problem: &oracle::Problem,
        comparison: &Comparison,
        origins: &[Origin],
        raw: bool,
    ) -> Self {
        let contestants = comparison.contestants.iter().enumerate().map(|(index, timing)| {
            let origin = origins.get(index).cloned().unwrap_or_default();
            ContestantRecord {
                timing: timing.clone(),
                schedule: origin.schedule,
                ptx_blake3: origin.ptx_blake3,
                ptxas_version: origin.ptxas_version,
            }
        });
        Self {
            version: RECORD_VERSION,
            date: utc_now(),
            program: program(),
            device: device.clone(),
            problem: problem.to_string(),
            protocol: comparison.plan.protocol,
            plan: comparison.plan.clone(),
            sets: comparison.sets,
            set_bytes: comparison.set_bytes,
            contestants: contestants.collect(),
            ratios: comparison.ratios.clone(),
            windows: comparison.windows.iter().map(WindowSummary::of).collect(),
            raw: raw.then(|| comparison.clone()),
        }
    }
}

impl WindowSummary {
    fn of(window: &Window) -> Self {
        Self {
            contestant: window.contestant,
            round: window.round,
            launches: window.launch_us.len(),
            median_us: window.median_us,
            host_bound: window.host_bound,
            spot_checked: window.spot_checked,
            state: window.state.clone(),
        }
    }
}

/// A schedule as TOML; a schedule that cannot be written is shown as its fault.
#[must_use]
pub fn schedule_text(schedule: &dsl::schedule::Schedule) -> String {
    text::to_text(schedule).unwrap_or_else(|error| format!("# not writable: {error}\n"))
}

/// Appends one record as one line, in one write.
///
/// # Errors
/// If the file cannot be written.
pub fn append(path: &Path, record: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(record)?;
    line.push(b'\n');
    OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)?
        .write_all(&line)
}

/// Name and version of this program.
#[must_use]
pub fn program() -> String {
    let version = env!("CARGO_PKG_VERSION");
    match option_env!("WARPWRIGHT_REVISION") {
        Some(revision) => format!("warpwright {version} ({revision})"),
        None => format!("warpwright {version}"),
    }
}

/// The time now, `2026-01-31T12:00:00Z`.
#[must_use]
pub fn utc_now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    utc(since.map_or(0, |since| since.as_secs()))
}

/// Seconds since 1970 as a UTC date and time.
fn utc(unix_s: u64) -> String {
    let (days, rest) = (unix_s / 86_400, unix_s % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (rest / 3600, rest % 3600 / 60, rest % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a count of days since 1970 (Hinnant, "chrono-compatible low-level date algorithms": years
/// begin in March, so that the leap day is last).
const fn civil(days: u64) -> (u64, u64, u64) {
    let z = days + 719_468;
    let (era, day_of_era) = (z / 146_097, z % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = year_of_era + era * 400;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(utc(0), "1970-01-01T00:00:00Z");
        assert_eq!(utc(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(utc(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(utc(4_107_542_400), "2100-03-01T00:00:00Z");
        assert_eq!(utc(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}

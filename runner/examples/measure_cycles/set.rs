//! The drawn schedules of a folder, and the problems they are measured on.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oracle::Problem;
use serde::{Deserialize, Serialize};

use super::AnyError;

/// One schedule of the set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Drawn {
    /// Position in the file, from 0.
    pub id: usize,
    /// Head size and mask, such as `d128 full`.
    pub key: String,
    pub problem: String,
    /// TOML.
    pub schedule: String,
    /// Whether it is a mutation of the shipped schedule (or that itself) rather than drawn freely.
    pub near: bool,
    pub ptx_blake3: String,
}

/// One measured schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measured {
    pub id: usize,
    pub key: String,
    pub problem: String,
    pub schedule: String,
    pub near: bool,
    pub round: u32,
    /// Why there are no numbers.
    pub error: Option<String>,
    /// Whether the output is close to that of the first schedule of the problem.
    pub agrees: bool,
    pub burst: Option<Window>,
    pub sustained: Option<Window>,
}

/// What one window gave.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// Median time of a launch.
    pub us: f64,
    pub launches: usize,
    /// Of the last launch: the most cycles between the first and the last stamp of one SM, and the mean over SMs.
    pub cycles_max: u64,
    pub cycles_mean: f64,
    /// Median of the monitor's readings in the window; none where it had no answer.
    pub mhz: Option<f64>,
    pub watts: Option<f64>,
}

/// One predicted schedule.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Predicted {
    pub id: usize,
    pub key: String,
    pub schedule: String,
    pub simulated: bool,
    pub error: Option<String>,
    pub cycles: f64,
    pub trip_cycles: f64,
    pub sustained_us: f64,
    pub mhz: f64,
    /// Work of the launch by unit, for fits of the energy.
    pub activity: BTreeMap<String, f64>,
    pub words: String,
}

/// File name of the set in its folder.
const FILE: &str = "schedules.jsonl";

/// Every key with its problem: 8192 tokens, so that a launch takes about a millisecond.
pub const KEYS: [(&str, &str); 6] = [
    ("d64 full", "fwd bf16 b1 s8192 h32 d64 full"),
    ("d64 causal", "fwd bf16 b1 s8192 h32 d64 causal"),
    ("d128 full", "fwd bf16 b1 s8192 h16 d128 full"),
    ("d128 causal", "fwd bf16 b1 s8192 h16 d128 causal"),
    ("d256 full", "fwd bf16 b1 s8192 h8 d256 full"),
    ("d256 causal", "fwd bf16 b1 s8192 h8 d256 causal"),
];

impl Drawn {
    /// # Errors
    /// A text that is no problem.
    pub fn problem(&self) -> Result<Problem, AnyError> {
        Ok(self.problem.parse()?)
    }
}

/// Reads a file of JSON lines.
///
/// # Errors
/// A file that cannot be read, or a line of another form.
pub fn read<T: for<'de> Deserialize<'de>>(path: &Path) -> Result<Vec<T>, AnyError> {
    let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(text.lines().map(serde_json::from_str).collect::<Result<_, _>>()?)
}

/// Appends one JSON line.
///
/// # Errors
/// A file that cannot be written.
pub fn append<T: Serialize>(path: &Path, line: &T) -> Result<(), AnyError> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(line)?)?;
    Ok(())
}

/// The drawn schedules of a folder.
///
/// # Errors
/// As [`read`].
pub fn load(path: &Path) -> Result<Vec<Drawn>, AnyError> {
    if path.is_dir() {
        return read(&path.join(FILE));
    }
    let measured: Vec<Measured> = read(path)?;
    let drawn = measured.into_iter().map(|m| {
        let drawn = Drawn {
            id: m.id,
            key: m.key,
            problem: m.problem,
            schedule: m.schedule,
            near: m.near,
            ptx_blake3: String::new(),
        };
        (m.id, drawn)
    });
    Ok(drawn.collect::<BTreeMap<_, _>>().into_values().collect())
}

/// Writes the drawn schedules of a folder.
///
/// # Errors
/// A folder that cannot be written.
pub fn store(folder: &Path, drawn: &[Drawn]) -> Result<(), AnyError> {
    let lines: Result<Vec<String>, _> = drawn.iter().map(serde_json::to_string).collect();
    Ok(fs::write(folder.join(FILE), lines?.join("\n") + "\n")?)
}

//! The schedules that come with warpwright.

use dsl::Kernel;
use dsl::schedule::{Schedule, text};
use kernels::schedules::{TABLE, shipped};
use oracle::Problem;
use serde::Serialize;

use crate::failure::Failure;

/// One shipped schedule.
#[derive(Clone, Debug, Serialize)]
pub struct Shipped {
    pub name: &'static str,
    /// The problems it is the default for.
    pub serves: String,
}

/// Every shipped schedule.
pub fn all() -> Vec<Shipped> {
    TABLE
        .iter()
        .map(|entry| Shipped {
            name: entry.name,
            serves: serves(entry),
        })
        .collect()
}

fn serves(entry: &kernels::schedules::Shipped) -> String {
    let key = entry.key;
    let mut words = vec![entry.kernel.to_owned()];
    words.extend(key.head_dim.map(|d| format!("d{d}")));
    words.extend(
        key.causal
            .map(|causal| if causal { "causal" } else { "full" }.to_owned()),
    );
    if entry.from_q_len > 0 {
        words.push(format!("from q_len {}", entry.from_q_len));
    }
    words.join(" ")
}

/// The name and the schedule that serve a problem best.
pub fn of(problem: &Problem, kernel: &Kernel) -> Result<Option<(String, Schedule)>, Failure> {
    let key = runner::schedules::key(problem);
    let Some(entry) = shipped(&kernel.name, key, runner::schedules::q_len(problem)) else {
        return Ok(None);
    };
    let schedule = text::parse_for(entry.text, kernel)
        .map_err(|e| Failure::bug(format!("the shipped schedule {} is broken: {e}", entry.name)))?;
    Ok(Some((entry.name.to_owned(), schedule)))
}

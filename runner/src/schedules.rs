//! Shipped schedules by problem.

use dsl::schedule::{Schedule, text};
use kernels::schedules::{Key, shipped};
use oracle::{Mask, Problem};

/// Why there is no shipped schedule for a problem.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScheduleError {
    #[error("no schedule is shipped for `{problem}`; allowed: one of {known}, or a schedule of your own")]
    NotShipped { problem: String, known: String },
    #[error("the schedule cannot be read:\n{0}")]
    Text(#[from] text::TextErrors),
}

/// The key of a problem in `kernels::schedules`.
#[must_use]
pub fn key(problem: &Problem) -> Key {
    match problem {
        Problem::Forward(p) => Key {
            head_dim: Some(p.head_dim),
            causal: Some(p.mask == Mask::Causal),
        },
        Problem::Gemm(_) | Problem::Softmax(_) => Key::default(),
    }
}

/// The query length that shipped schedules are told apart by.
#[must_use]
pub fn q_len(problem: &Problem) -> u64 {
    match problem {
        Problem::Forward(p) => p.q_len.into(),
        Problem::Gemm(_) | Problem::Softmax(_) => 0,
    }
}

/// The schedule shipped for a problem.
///
/// # Errors
/// None is shipped, or its text is broken.
pub fn shipped_for(problem: &Problem) -> Result<Schedule, ScheduleError> {
    let found = shipped(problem.kernel(), key(problem), q_len(problem)).map(|entry| entry.text);
    let toml = found.ok_or_else(|| ScheduleError::NotShipped {
        problem: problem.to_string(),
        known: kernels::schedules::TABLE
            .iter()
            .map(|entry| entry.name)
            .collect::<Vec<_>>()
            .join(", "),
    })?;
    Ok(text::parse(toml)?)
}

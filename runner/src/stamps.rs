//! Clock stamps of an instrumented kernel, read back: cycles per SM and a timeline in the simulator's trace format.
//!
//! The layout is that of `codegen::emit::stamps`. `%clock64` counts one SM's cycles, so each SM's timeline has its own
//! origin: the first stamp of that SM.

use std::collections::BTreeMap;

use codegen::launch::{LaunchFacts, Param, STAMP_HEAD_WORDS, STAMPED_BLOCKS, stamp_role_words};
use serde_json::{Value, json};

use crate::case::Case;
use crate::device::{Device, DeviceError, FaultClass, Image};
use crate::launch::{BindInput, LaunchError, Prepared};
use crate::verify::TensorSet;

/// One role of a CTA: when it ended, and its first blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoleStamps {
    pub end: u64,
    /// Begin and end.
    pub blocks: Vec<(u64, u64)>,
}

/// One CTA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CtaStamps {
    pub multiprocessor: u32,
    pub start: u64,
    /// `%globaltimer` at the start, nanoseconds.
    pub start_ns: u64,
    /// Role 0 is the producer, the others are consumer warpgroups.
    pub roles: Vec<RoleStamps>,
}

impl CtaStamps {
    /// The last stamp.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.roles.iter().map(|role| role.end).max().unwrap_or(self.start)
    }
}

/// Launches an instrumented kernel twice on tensors of zeros, and gives the words of the second launch.
///
/// # Errors
/// A failure of the device, or a kernel that is not instrumented.
pub fn of_launch<D: Device>(
    device: &D,
    case: &Case,
    (image, facts): (&Image<'_>, &LaunchFacts),
) -> Result<Vec<u64>, DeviceError> {
    let refused = |error: &dyn std::fmt::Display| DeviceError::new(FaultClass::Refused, error.to_string());
    let prepared = Prepared::load(device, image, facts)?;
    let set = TensorSet::alloc(device, case)?;
    set.fill_inputs(device, 0)?;
    let input = BindInput {
        sizes: case.sizes(),
        scalars: case.scalars(),
        tensors: set.args(),
    };
    let bound = prepared.bind(device, &input).map_err(|error| match error {
        LaunchError::Device(error) => error,
        LaunchError::Bind(error) => refused(&error),
    })?;
    for _ in 0..2 {
        bound.launch(device)?;
        device.synchronize()?;
    }
    let words = bound.stamps(device)?;
    words.ok_or_else(|| refused(&"the kernel is not instrumented; allowed: compile it with an instrument option"))
}

/// Reads the words of a launch; none for a kernel that is not instrumented.
#[must_use]
pub fn parse(facts: &LaunchFacts, words: &[u64]) -> Option<Vec<CtaStamps>> {
    let cta_words = facts.params.iter().find_map(|param| match param {
        Param::Stamps { cta_bytes, .. } => Some(*cta_bytes as usize / 8),
        _ => None,
    })?;
    Some(words.chunks_exact(cta_words.max(1)).map(cta).collect())
}

fn cta(words: &[u64]) -> CtaStamps {
    let (head, roles) = words.split_at((STAMP_HEAD_WORDS as usize).min(words.len()));
    let word = |i: usize| head.get(i).copied().unwrap_or(0);
    CtaStamps {
        multiprocessor: (word(2) & u64::from(u32::MAX)) as u32,
        start: word(0),
        start_ns: word(1),
        roles: roles.chunks_exact(stamp_role_words() as usize).map(role).collect(),
    }
}

fn role(words: &[u64]) -> RoleStamps {
    let count = words[1].min(u64::from(STAMPED_BLOCKS)) as usize;
    RoleStamps {
        end: words[0],
        blocks: words[2..2 + 2 * count]
            .chunks_exact(2)
            .map(|pair| (pair[0], pair[1]))
            .collect(),
    }
}

/// First and last stamp of each SM.
#[must_use]
pub fn spans(ctas: &[CtaStamps]) -> BTreeMap<u32, (u64, u64)> {
    let mut spans: BTreeMap<u32, (u64, u64)> = BTreeMap::new();
    for cta in ctas {
        let span = spans.entry(cta.multiprocessor).or_insert((cta.start, cta.end()));
        *span = (span.0.min(cta.start), span.1.max(cta.end()));
    }
    spans
}

/// The SM cycles of a launch: the most between first and last stamp of one SM, and the mean over SMs.
#[must_use]
pub fn cycles(ctas: &[CtaStamps]) -> (u64, f64) {
    let each: Vec<u64> = spans(ctas)
        .values()
        .map(|(start, end)| end.saturating_sub(*start))
        .collect();
    let most = each.iter().copied().max().unwrap_or(0);
    (most, each.iter().sum::<u64>() as f64 / each.len().max(1) as f64)
}

/// Chrome trace JSON: a process per SM, a lane per role. `simulated` says where the stamps come from.
#[must_use]
pub fn chrome_json(ctas: &[CtaStamps], simulated: bool) -> String {
    let origins = spans(ctas);
    let mut events: Vec<Value> = origins
        .keys()
        .map(|sm| json!({"ph": "M", "name": "process_name", "pid": sm, "args": {"name": format!("SM {sm}")}}))
        .collect();
    for cta in ctas {
        let origin = origins.get(&cta.multiprocessor).map_or(0, |span| span.0);
        for (index, role) in cta.roles.iter().enumerate() {
            let (pid, at) = (cta.multiprocessor, |clock: u64| clock.saturating_sub(origin));
            let name = if index == 0 {
                "producer".to_owned()
            } else {
                format!("consumer {}", index - 1)
            };
            events.push(json!({"ph": "M", "name": "thread_name", "pid": pid, "tid": index, "args": {"name": name}}));
            for (number, (begin, end)) in role.blocks.iter().enumerate() {
                events.push(json!({
                    "ph": "X", "name": format!("block {number}"), "pid": pid, "tid": index,
                    "ts": at(*begin), "dur": end.saturating_sub(*begin), "args": {"simulated": simulated},
                }));
            }
        }
    }
    let other = json!({"simulated": simulated, "unit": "SM cycles", "cycles": cycles(ctas).0});
    let trace = json!({"simulated": simulated, "displayTimeUnit": "ns", "otherData": other, "traceEvents": events});
    format!("{trace}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_those_of_the_slowest_sm() {
        let one = |multiprocessor, start, end| CtaStamps {
            multiprocessor,
            start,
            start_ns: 0,
            roles: vec![RoleStamps {
                end,
                blocks: vec![(start, end)],
            }],
        };
        // Two CTAs one after the other on SM 3; the clocks of SMs have nothing to do with each other.
        let ctas = [one(3, 1000, 1400), one(7, 90, 300), one(3, 1500, 1600)];
        assert_eq!(cycles(&ctas), (600, 405.0));
        let trace: Value = serde_json::from_str(&chrome_json(&ctas, false)).unwrap();
        let spans = trace["traceEvents"].as_array().unwrap();
        let starts: Vec<&Value> = spans.iter().filter(|e| e["ph"] == "X").map(|e| &e["ts"]).collect();
        assert_eq!(starts, [0, 0, 500]);
        assert_eq!(trace["simulated"], false);
    }
}

//! Memory that timed launches rotate over, and what right outputs look like there.

use std::sync::Arc;

use oracle::inputs::Family;

use super::{Contestant, TimeError, TimePlan};
use crate::case::Case;
use crate::device::Timing;
use crate::launch::Bound;
use crate::verify::{Checked, TensorSet, Truth, Truths, bind};

/// Several tensor sets with inputs of one distribution and different seeds.
pub(super) struct Arena<D: Timing> {
    sets: Vec<(TensorSet<D>, Arc<Truth>)>,
    pub(super) bytes: u64,
}

/// A contestant bound to every set.
pub(super) struct Entry<D: Timing> {
    pub(super) name: String,
    pub(super) checked: Vec<Checked>,
    pub(super) bounds: Vec<Bound<D>>,
    /// Hash of its output on each set, which passed the gate.
    right: Vec<blake3::Hash>,
}

/// How many sets hold more than the wanted multiple of the cache; at least 2, so that no launch repeats the last inputs.
fn set_count(plan: &TimePlan, l2_bytes: u64, set_bytes: u64) -> usize {
    let wanted_bytes = plan.l2_multiple * l2_bytes as f64;
    let count = (wanted_bytes / set_bytes.max(1) as f64).floor() as u64 + 1;
    count.clamp(2, u64::from(plan.most_sets.max(2))) as usize
}

impl<D: Timing> Arena<D> {
    /// Allocates the sets and writes their inputs.
    pub(super) fn new(device: &D, case: &Case, plan: &TimePlan) -> Result<Self, TimeError> {
        let set_bytes = case.tensor_bytes();
        let count = set_count(plan, device.facts().l2_bytes, set_bytes);
        let mut truths = Truths::new();
        let mut sets = Vec::with_capacity(count);
        for index in 0..count {
            let set = TensorSet::alloc(device, case)?;
            // Seeds of their own: these inputs were not seen in verification.
            let seed = plan.seed.wrapping_add(index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let truth = truths.get(case.problem(), Family::Normal, seed, plan.budget)?;
            set.write_inputs(device, truth.inputs())?;
            sets.push((set, truth));
        }
        Ok(Self {
            sets,
            bytes: set_bytes.saturating_mul(count as u64),
        })
    }

    pub(super) fn len(&self) -> usize {
        self.sets.len()
    }

    /// Binds a contestant to every set, and judges its output on each.
    pub(super) fn enter(&self, device: &D, contestant: &Contestant<'_, D>) -> Result<Entry<D>, TimeError> {
        let verified = contestant.verified;
        let mut entry = Entry {
            name: contestant.name.clone(),
            checked: verified.checked().to_vec(),
            bounds: Vec::new(),
            right: Vec::new(),
        };
        for (index, (set, truth)) in self.sets.iter().enumerate() {
            let bound = bind(device, verified.prepared(), verified.case(), set)?;
            set.poison_outputs(device)?;
            bound.launch(device)?;
            device.synchronize()?;
            let output = set.read_outputs(device)?.map_err(|wrong| TimeError::Memory {
                name: entry.name.clone(),
                wrong,
            })?;
            let report = truth.judge(verified.case().problem(), &output)?;
            if !report.passed() {
                return Err(TimeError::WrongOnTimedInputs {
                    name: entry.name,
                    set: index,
                    text: report.to_string(),
                });
            }
            entry.right.push(output.hash());
            entry.bounds.push(bound);
        }
        Ok(entry)
    }

    /// Poisons every output, so that a launch that writes nothing is seen.
    pub(super) fn poison(&self, device: &D) -> Result<(), TimeError> {
        Ok(self.sets.iter().try_for_each(|(set, _)| set.poison_outputs(device))?)
    }

    /// Compares one set's output with the contestant's right one: the same bits, or the gate again.
    pub(super) fn spot_check(
        &self,
        device: &D,
        (entry, case): (&Entry<D>, &Case),
        (window, index): (usize, usize),
    ) -> Result<(), TimeError> {
        let Some((set, truth)) = self.sets.get(index) else {
            return Ok(());
        };
        let output = set.read_outputs(device)?.map_err(|wrong| TimeError::Memory {
            name: entry.name.clone(),
            wrong,
        })?;
        if entry.right.get(index) == Some(&output.hash()) {
            return Ok(());
        }
        let report = truth.judge(case.problem(), &output)?;
        if report.passed() {
            return Ok(());
        }
        // A changed input explains a wrong output.
        if let Some(wrong) = set.changed_input(device, truth.inputs())? {
            let name = entry.name.clone();
            return Err(TimeError::Memory { name, wrong });
        }
        Err(TimeError::WrongWhileTimed {
            name: entry.name.clone(),
            window,
            set: index,
            text: report.to_string(),
        })
    }

    /// After all windows: guards, inputs and scratch are as before.
    pub(super) fn check_memory(&self, device: &D, entries: &[Entry<D>]) -> Result<(), TimeError> {
        for (set, truth) in &self.sets {
            set.check_bounds(device)?;
            if let Some(wrong) = set.changed_input(device, truth.inputs())? {
                let name = entries
                    .iter()
                    .map(|entry| entry.name.as_str())
                    .collect::<Vec<_>>()
                    .join(" or ");
                return Err(TimeError::Memory { name, wrong });
            }
        }
        for bound in entries.iter().flat_map(|entry| &entry.bounds) {
            bound.check_scratch(device)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_more_than_the_wanted_multiple_of_the_cache() {
        let plan = TimePlan::burst();
        for set_bytes in [1 << 10, 1 << 20, 50 << 20, 100 << 20, 1 << 30] {
            let count = set_count(&plan, 50 << 20, set_bytes);
            assert!(count >= 2);
            assert!(
                count == 256 || count as u64 * set_bytes > 100 << 20,
                "{set_bytes}: {count}"
            );
        }
        assert_eq!(set_count(&plan, 50 << 20, 60 << 20), 2);
        assert_eq!(set_count(&plan, 50 << 20, 25 << 20), 5);
    }
}

//! The schedule's order of events, as nodes of a trip.

use dsl::ir::Fold;

use crate::error::Refusal;
use crate::plan::FoldChoice;
use crate::plan::order::{event, refusal};

use super::trip_plan::{Event, Node, TripPlan, Work};

impl TripPlan {
    pub(super) fn read_order(&mut self, f: &Fold, choice: &FoldChoice) -> Result<(), Refusal> {
        for (i, text) in choice.order.iter().enumerate() {
            let at = (i, text.as_str());
            let read = event(text);
            let Some(node) = self.nodes.iter().position(|n| n.name == read.name) else {
                let placed = |n: &&Node| !n.name.starts_with('%') && n.work != Work::Repair;
                let names: Vec<_> = self.nodes.iter().filter(placed).map(|n| n.name.as_str()).collect();
                let fact = "no such event in this fold".to_owned();
                return Err(refusal(&f.name, at, fact, names.join(", ")));
            };
            if read.is_wait && !matches!(self.nodes[node].work, Work::Dot { .. }) {
                let fact = "only dots are waited for".to_owned();
                return Err(refusal(&f.name, at, fact, "wait NAME of a dot"));
            }
            if read.is_wait {
                self.order.push(Event::Wait(node));
            } else {
                self.not_needed_before(f, at, node)?;
                self.order.push(Event::Run(node));
            }
        }
        Ok(())
    }

    /// Refuses an event that an earlier one of the list cannot run without.
    fn not_needed_before(&self, f: &Fold, at: (usize, &str), node: usize) -> Result<(), Refusal> {
        let runs = self.order.iter().filter_map(|e| match e {
            Event::Run(n) => Some(*n),
            Event::Wait(_) => None,
        });
        for earlier in runs {
            if self.comes_before(node, earlier) {
                let (now, then) = (&self.nodes[node], &self.nodes[earlier]);
                let fact = format!(
                    "`{}` (stage {}), which stands before it, cannot run until `{}` (stage {}) has",
                    then.name, then.stage, now.name, now.stage
                );
                let allowed = format!("`{}` before `{}`, or other stages", now.name, then.name);
                return Err(refusal(&f.name, at, fact, allowed));
            }
        }
        Ok(())
    }

    /// Whether `first` has to run before `then` in every trip that runs both.
    fn comes_before(&self, first: usize, then: usize) -> bool {
        let mut seen = vec![false; self.nodes.len()];
        let mut open = self.nodes[then].after.clone();
        while let Some(n) = open.pop() {
            if n == first {
                return true;
            }
            if !std::mem::replace(&mut seen[n], true) {
                open.extend(&self.nodes[n].after);
            }
        }
        false
    }
}

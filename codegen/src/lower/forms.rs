//! The two forms of a fold with a fixed reference: guarded trips move the reference, fast trips take it as it is.
//!
//! Trips of both forms alternate in one fold, so what one leaves in registers the other must find: the same values at the
//! same stages, and the same values crossing from trip to trip.

use std::collections::{BTreeMap, BTreeSet};

use dsl::Kernel;
use dsl::ir::{Fold, ValueId};

use crate::error::Refusal;

use super::trip_plan::{TripPlan, Work};

impl TripPlan {
    /// Refuses a fast form whose trips cannot stand beside those of this guarded form.
    pub(super) fn agree(&self, fast: &Self, kernel: &Kernel, f: &Fold) -> Result<(), Refusal> {
        let (guarded_stages, fast_stages) = (self.stages(), fast.stages());
        for (id, stage) in &guarded_stages {
            if let Some(other) = fast_stages.get(id).filter(|s| *s != stage) {
                let fact = format!("trips that take the reference as it is have it at stage {other}");
                return Err(refusal(kernel, f, *id, stage.to_string(), fact));
            }
        }
        let (here, there) = (self.crossed(), fast.crossed());
        if let Some(id) = here.symmetric_difference(&there).next() {
            let fact = "it is carried from trip to trip in one form of the trips and not in the other";
            let asked = guarded_stages.get(id).or(fast_stages.get(id));
            let asked = asked.map_or_else(|| "its stage".to_owned(), ToString::to_string);
            return Err(refusal(kernel, f, *id, asked, fact.to_owned()));
        }
        Ok(())
    }

    /// Stage by value: the fast weights count as the weights.
    fn stages(&self) -> BTreeMap<ValueId, u32> {
        let computes = |w: &Work| matches!(w, Work::Dot { .. } | Work::Calc | Work::ReadShared | Work::Store);
        self.nodes
            .iter()
            .filter(|n| computes(&n.work))
            .map(|n| (self.made(n.id), n.stage))
            .collect()
    }

    fn crossed(&self) -> BTreeSet<ValueId> {
        self.crossing().into_iter().map(|id| self.made(id)).collect()
    }
}

fn refusal(kernel: &Kernel, f: &Fold, id: ValueId, asked: String, fact: String) -> Refusal {
    let name = kernel.label(id);
    Refusal::new(
        format!("folds.{}.stages", f.name),
        format!("`{name}` at stage {asked} with rescale = \"fixed\""),
        fact,
        "rescale = \"lazy\" or \"exact\", or the scores, the weights and every rescale at stage 0",
    )
}

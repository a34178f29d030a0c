//! A scheduled kernel as a schedule file: every decision spelt out as TOML, the bound kernel in comments.
//!
//! The text is itself a legal schedule for the kernel and asks for the same decisions.

use codegen::plan::{Choices, FoldChoice, LoadChoice, Scheduled, Staging};
use dsl::Kernel;
use dsl::ir::{Access, At, Extent, Op, TensorId, ValueId};
use dsl::schedule::{FoldPlan, LoadPlan, Rescale, Schedule, StorePlan, text};

use crate::failure::Failure;

/// Writes the decisions and the bound kernel down.
pub fn text(traced: &Kernel, scheduled: &Scheduled) -> Result<String, Failure> {
    let full = spelt_out(traced, scheduled);
    let mut out = text::to_text(&full).map_err(|e| Failure::bug(format!("cannot write the schedule: {e}")))?;
    out += "\n# The kernel under this schedule, after its rewrites:\n#\n";
    for line in dsl::print(&scheduled.kernel).lines() {
        out += format!("# {line}").trim_end();
        out.push('\n');
    }
    Ok(out)
}

/// The schedule with nothing left to a default; `traced` is the kernel before its tile sizes were bound.
#[must_use]
pub fn spelt_out(traced: &Kernel, scheduled: &Scheduled) -> Schedule {
    let (kernel, c) = (&scheduled.kernel, &scheduled.choices);
    let mut s = scheduled.schedule.clone();
    s.kernel.clone_from(&kernel.name);
    s.tiles.extend(bound_tiles(traced, kernel));
    s.roles.consumers = Some(c.consumers);
    s.roles.rows_per_consumer = Some(c.rows_per_consumer);
    s.roles.producer_warps = Some(c.producer_warps);
    s.roles.producer_registers = Some(c.producer_registers);
    s.roles.consumer_registers = Some(c.consumer_registers);
    s.grid.persistence = Some(c.persistence);
    s.grid.inner = kernel.grid.get(c.inner).map(|a| a.name.clone());
    s.grid.section = c.section;
    let down = kernel
        .grid
        .iter()
        .zip(&c.descending)
        .filter(|(_, descending)| **descending);
    s.grid.descending = down.map(|(axis, _)| axis.name.clone()).collect();
    for (id, load) in &c.loads {
        if let Some(name) = name(kernel, *id) {
            s.loads.insert(name, load_plan(load));
        }
    }
    for (id, choice) in &c.folds {
        if let Op::Fold(fold) = kernel.op(*id) {
            // Knobs of a running reference belong to folds that have one.
            let rebased = scheduled.factors.contains_key(id);
            s.folds.insert(fold.name.clone(), fold_plan(choice, rebased));
        }
    }
    stores(kernel, c, &mut s);
    s
}

fn name(kernel: &Kernel, id: ValueId) -> Option<String> {
    kernel.value(id).name.clone()
}

/// The tile sizes, read off the loads: binding keeps every value's id and turns its symbolic extents into numbers.
pub fn bound_tiles(traced: &Kernel, bound: &Kernel) -> Vec<(String, u32)> {
    let mut found = vec![];
    for (before, after) in traced.values.iter().zip(&bound.values) {
        let (
            Op::Load { at: before, .. } | Op::Store { at: before, .. },
            Op::Load { at: after, .. } | Op::Store { at: after, .. },
        ) = (&before.op, &after.op)
        else {
            continue;
        };
        for pair in before.iter().zip(after) {
            if let (
                At::Span {
                    len: Extent::Tile(tile),
                    ..
                },
                At::Span {
                    len: Extent::Lit(size), ..
                },
            ) = pair
                && let Some(param) = traced.tiles.get(tile.0 as usize)
            {
                found.push((param.name.clone(), *size));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

fn load_plan(choice: &LoadChoice) -> LoadPlan {
    LoadPlan {
        stages: Some(choice.stages),
        ring: Some(choice.ring.clone()),
        release: Some(choice.release),
        cache: Some(choice.cache),
        l2_promotion: Some(choice.l2_promotion),
    }
}

fn fold_plan(choice: &FoldChoice, rebased: bool) -> FoldPlan {
    let lags = rebased && choice.rescale != Rescale::Exact;
    FoldPlan {
        direction: Some(choice.direction),
        split: Some(choice.split),
        stages: choice.stages.clone(),
        order: choice.order.clone(),
        handoff: Some(choice.handoff),
        rescale: rebased.then_some(choice.rescale),
        lazy_threshold: lags.then_some(choice.lazy_threshold),
        exp2_polynomial_every: Some(choice.exp2_polynomial_every),
        unroll: Some(choice.unroll),
        peel: Some(choice.peel),
        narrow: Some(choice.narrow),
    }
}

fn stores(kernel: &Kernel, c: &Choices, s: &mut Schedule) {
    for (id, tensor) in (0..).map(TensorId).zip(&kernel.tensors) {
        if tensor.access != Access::Write {
            continue;
        }
        let buffer = match c.stores.get(&id) {
            Some(Staging::Over(load)) => name(kernel, *load),
            Some(Staging::Own) => Some("own".to_owned()),
            None => None,
        };
        s.stores.insert(tensor.name.clone(), StorePlan { buffer });
    }
}

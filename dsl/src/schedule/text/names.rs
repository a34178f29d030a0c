//! The names in a schedule, against the kernel it is for.

use super::error::{Fault, TextError, TextErrors};
use crate::ir::{Access, Carry, Fold, Kernel, Op, ValueId};
use crate::schedule::{FoldPlan, Schedule};

/// Checks every name that a schedule mentions.
///
/// # Errors
/// Every name that the kernel does not have in that role, with the closest one it has.
pub fn check_names(schedule: &Schedule, kernel: &Kernel) -> Result<(), TextErrors> {
    let known = Known::new(kernel);
    let mut errors = vec![];
    let mut check = |path: &[&str], what, name: &str, known: &[String]| {
        if !known.iter().any(|k| k == name) {
            let path = path.iter().map(|p| (*p).to_owned()).collect();
            let kind = Fault::UnknownName {
                what,
                name: name.to_owned(),
                known: known.to_vec(),
            };
            errors.push(TextError { path, line: None, kind });
        }
    };
    for name in schedule.tiles.keys() {
        check(&["tiles", name], "tile size", name, &known.tiles);
    }
    if let Some(name) = &schedule.grid.inner {
        check(&["grid", "inner"], "grid axis", name, &known.axes);
    }
    for (i, name) in schedule.grid.descending.iter().enumerate() {
        check(&["grid", "descending", &i.to_string()], "grid axis", name, &known.axes);
    }
    for name in schedule.loads.keys() {
        check(&["loads", name], "load", name, &known.loads);
    }
    for name in schedule.operands.keys() {
        check(&["operands", name], "left dot operand", name, &known.operands);
    }
    for (name, plan) in &schedule.stores {
        check(&["stores", name], "output", name, &known.outputs);
        if let Some(buffer) = plan.buffer.as_deref().filter(|b| *b != "own") {
            check(&["stores", name, "buffer"], "load", buffer, &known.loads);
        }
    }
    for name in schedule.folds.keys() {
        check(&["folds", name], "fold", name, &known.folds);
    }
    for (name, plan) in &schedule.folds {
        errors.extend(
            fold_named(kernel, name)
                .into_iter()
                .flat_map(|fold| fold_names(kernel, fold, plan)),
        );
    }
    if !schedule.kernel.is_empty() && schedule.kernel != kernel.name {
        let kind = Fault::OtherKernel {
            asked: schedule.kernel.clone(),
            found: kernel.name.clone(),
        };
        errors.insert(
            0,
            TextError {
                path: vec!["kernel".to_owned()],
                line: None,
                kind,
            },
        );
    }
    if errors.is_empty() {
        Ok(())
    } else {
        Err(TextErrors { errors })
    }
}

/// The values and events that a fold's plan mentions.
fn fold_names(kernel: &Kernel, fold: &Fold, plan: &FoldPlan) -> Vec<TextError> {
    let at = |section: &str, entry: String, kind| {
        let path = ["folds", &fold.name, section, &entry].map(str::to_owned).to_vec();
        TextError { path, line: None, kind }
    };
    let mut inside = named_in(kernel, &fold.body);
    inside.extend(fold.rescales());
    let mut errors = vec![];
    for name in plan.stages.keys().filter(|name| !inside.contains(name)) {
        let kind = Fault::UnknownName {
            what: INSIDE,
            name: name.clone(),
            known: inside.clone(),
        };
        errors.push(at("stages", name.clone(), kind));
    }
    for (i, event) in plan.order.iter().enumerate() {
        errors.extend(check_event(kernel, fold, event).map(|kind| at("order", i.to_string(), kind)));
    }
    errors
}

const INSIDE: &str = "value in this fold called";

/// An event of a fold's order: `issue X` or `wait X` of a dot, or a value, or the step of a carry.
fn check_event(kernel: &Kernel, fold: &Fold, event: &str) -> Option<Fault> {
    let words: Vec<&str> = event.split_whitespace().collect();
    let is_dot = |id: &ValueId| matches!(kernel.op(*id), Op::Dot { .. });
    let is_load = |id: &ValueId| matches!(kernel.op(*id), Op::Load { .. });
    let (what, name, ids): (_, _, Vec<ValueId>) = match words[..] {
        ["issue" | "wait", name] => (
            "dot in this fold called",
            name,
            fold.body.iter().copied().filter(is_dot).collect(),
        ),
        [name] => (
            INSIDE,
            name,
            fold.body.iter().copied().filter(|v| !is_load(v)).collect(),
        ),
        _ => {
            return Some(Fault::UnknownEvent {
                event: event.to_owned(),
            });
        }
    };
    let mut known = named_in(kernel, &ids);
    if what == INSIDE {
        known.extend(fold.rescales());
        known.extend(fold.carries.iter().map(Carry::step));
    }
    (!known.iter().any(|k| k == name)).then(|| Fault::UnknownName {
        what,
        name: name.to_owned(),
        known,
    })
}

struct Known {
    tiles: Vec<String>,
    axes: Vec<String>,
    loads: Vec<String>,
    operands: Vec<String>,
    folds: Vec<String>,
    outputs: Vec<String>,
}

impl Known {
    fn new(kernel: &Kernel) -> Self {
        let live = live(kernel);
        let of = |wanted: &dyn Fn(&Op) -> bool| {
            let ids: Vec<_> = live.iter().copied().filter(|id| wanted(kernel.op(*id))).collect();
            named_in(kernel, &ids)
        };
        let outputs = kernel.tensors.iter().filter(|t| t.access == Access::Write);
        Self {
            tiles: kernel.tiles.iter().map(|t| t.name.clone()).collect(),
            axes: kernel.grid.iter().map(|a| a.name.clone()).collect(),
            loads: of(&|op| matches!(op, Op::Load { .. })),
            operands: named_in(kernel, &left_operands(kernel, &live)),
            folds: live
                .iter()
                .filter_map(|id| kernel.fold(*id))
                .map(|f| f.name.clone())
                .collect(),
            outputs: outputs.map(|t| t.name.clone()).collect(),
        }
    }
}

/// Left dot operands: their place, registers or shared memory, is the schedule's to choose.
fn left_operands(kernel: &Kernel, live: &[ValueId]) -> Vec<ValueId> {
    let mut found = vec![];
    for id in live {
        let Op::Dot { a, .. } = kernel.op(*id) else { continue };
        if !found.contains(&a.value) {
            found.push(a.value);
        }
    }
    found
}

fn live(kernel: &Kernel) -> Vec<ValueId> {
    let mut ids = vec![];
    for id in &kernel.body {
        ids.push(*id);
        ids.extend(kernel.fold(*id).into_iter().flat_map(|f| &f.body));
    }
    ids
}

fn named_in(kernel: &Kernel, ids: &[ValueId]) -> Vec<String> {
    ids.iter().filter_map(|id| kernel.value(*id).name.clone()).collect()
}

fn fold_named<'k>(kernel: &'k Kernel, name: &str) -> Option<&'k Fold> {
    live(kernel)
        .into_iter()
        .filter_map(|id| kernel.fold(id))
        .find(|f| f.name == name)
}

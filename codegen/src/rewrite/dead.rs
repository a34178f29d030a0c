//! Removes values of a fold body that nothing uses. Class: `Bitwise`.

use std::collections::BTreeSet;

use dsl::Kernel;
use dsl::ir::{CarryKind, Op, ValueId};

/// Runs over one fold body; `also` are used from outside the IR.
pub fn run(kernel: &mut Kernel, fold: ValueId, also: Vec<ValueId>) {
    let Some(f) = kernel.fold(fold).cloned() else { return };
    let mut live: BTreeSet<ValueId> = also.into_iter().collect();
    for c in &f.carries {
        match c.kind {
            CarryKind::Sum { contribution, .. } => drop(live.insert(contribution)),
            CarryKind::Next(v) => drop(live.insert(v)),
            CarryKind::Reference => {}
        }
    }
    let mut kept = vec![];
    for id in f.body.iter().rev() {
        if live.contains(id) || matches!(kernel.op(*id), Op::Store { .. }) {
            live.extend(kernel.op(*id).operands());
            kept.push(*id);
        }
    }
    kept.reverse();
    super::set_body(kernel, fold, kept);
}

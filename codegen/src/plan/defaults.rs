//! What an empty schedule means: tile sizes that fit, and overlap where the maths allows it.

use std::collections::BTreeMap;

use dsl::Kernel;
use dsl::ir::{Fold, Op, Shape};
use dsl::schedule::Schedule;

use crate::error::CompileError;
use crate::target::Target;

/// Fills in the tile sizes that the schedule leaves out.
pub fn fill(kernel: &Kernel, schedule: &Schedule, _target: &Target) -> Result<Schedule, CompileError> {
    let mut out = schedule.clone();
    for t in &kernel.tiles {
        out.tiles.entry(t.name.clone()).or_insert(128);
    }
    Ok(out)
}

/// Dots whose left operand is computed in the same trip run one trip later, under the next trip's first dots.
pub fn stages(kernel: &Kernel, fold: &Fold) -> BTreeMap<String, u32> {
    let dots = fold.body.iter().filter(|v| matches!(kernel.op(**v), Op::Dot { .. }));
    let late = dots.filter(|v| {
        let Op::Dot { a, .. } = kernel.op(**v) else { return false };
        !matches!(kernel.op(a.value), Op::Load { .. }) && matches!(kernel.value(a.value).ty.shape, Shape::Mat(..))
    });
    late.filter_map(|v| kernel.value(*v).name.clone()).map(|n| (n, 1)).collect()
}

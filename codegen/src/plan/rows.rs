//! The row tile: the rows that the consumer warpgroups share out.

use dsl::Kernel;
use dsl::ir::{Op, Shape, ValueId};
use dsl::schedule::Schedule;

use super::about::{Side, Symbols, told};
use super::mat;
use crate::error::Refusal;

/// Values that live in registers by rows.
fn register_tiles(kernel: &Kernel) -> impl Iterator<Item = ValueId> + '_ {
    let in_registers = |op: &Op, shape: Shape| match op {
        Op::Load { .. } => matches!(shape, Shape::Row(_)),
        Op::Store { .. } | Op::Fold(_) => false,
        _ => matches!(shape, Shape::Row(_) | Shape::Mat(..)),
    };
    let values = (0u32..).zip(&kernel.values);
    values
        .filter(move |(_, v)| in_registers(&v.op, v.ty.shape))
        .map(|(i, _)| ValueId(i))
}

/// Rows that the consumer warpgroups share out: those of every register tile of the kernel.
///
/// # Errors
/// When register tiles disagree on their rows.
pub fn row_tile(kernel: &Kernel) -> Result<u32, Refusal> {
    let mut tiles = register_tiles(kernel);
    let Some(first) = tiles.next() else {
        let (asked, fact) = ("a kernel without register tiles", "nothing is computed");
        return Err(Refusal::new("kernel", asked, fact, "at least one dot or reduction"));
    };
    let rows = mat(kernel, first).0;
    match tiles.find(|id| mat(kernel, *id).0 != rows) {
        None => Ok(rows),
        Some(other) => {
            let asked = format!("{} rows for {}", mat(kernel, other).0, told(kernel, other));
            let fact = format!("{} has {rows} rows", told(kernel, first));
            let allowed = "one row extent for every register tile of a kernel";
            Err(Refusal::new("tiles", asked, fact, allowed).at(&kernel.value(other).site))
        }
    }
}

/// The key by which a schedule most likely decided how rows are shared out.
#[must_use]
pub fn key(traced: &Kernel, s: &Schedule) -> String {
    let tile = register_tiles(traced)
        .next()
        .map(|id| Symbols::of(traced).key(id, Side::Rows));
    let tile = tile.unwrap_or_else(|| "kernel".to_owned());
    let given = tile.strip_prefix("tiles.").is_some_and(|n| s.tiles.contains_key(n));
    match (s.roles.rows_per_consumer, s.roles.consumers) {
        (Some(_), _) => "roles.rows_per_consumer".to_owned(),
        (None, Some(_)) if !given => "roles.consumers".to_owned(),
        _ => tile,
    }
}

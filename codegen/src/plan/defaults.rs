//! What a schedule leaves out: tile sizes that fit, more stages where there is room, overlap where the maths allows it.
//!
//! The candidates of [`candidates`] are tried in order and the first that compiles is taken. The order is a rule of thumb
//! measured on Hopper (docs/log.md): many rows share each right operand read from shared memory, so 192 rows win when
//! their registers suffice; otherwise 128.

use std::collections::{BTreeMap, BTreeSet};

use dsl::Kernel;
use dsl::index::TileId;
use dsl::ir::{Extent, Fold, Op, Shape, ValueId};
use dsl::schedule::{LoadPlan, Schedule, StorePlan};

use super::{bind, mat, row_tile};

/// Registers a thread needs besides its tiles: addresses, row vectors, temporaries of the exponent.
const SPARE_REGISTERS: u32 = 30;

/// Outer blocks that share the L2 when blocks are uneven: 8 heads of keys and values at 16k fit it (docs/log.md).
pub const SECTION: u32 = 8;

/// The grid axis whose blocks run different numbers of trips: drawn from a counter, longest first.
#[must_use]
pub fn uneven_axis(kernel: &Kernel) -> Option<usize> {
    let mut found = None;
    for v in &kernel.values {
        let Op::Fold(f) = &v.op else { continue };
        f.trips.leaves(&mut |leaf| {
            if let dsl::Ix::Axis(a) = leaf {
                found = found.or(Some(a.0 as usize));
            }
        });
    }
    found
}

/// Where tile symbols appear.
#[derive(Default)]
struct Uses {
    rows: BTreeSet<TileId>,
    cols: BTreeSet<TileId>,
}

/// Complete schedules for what `schedule` leaves out, best first; just `schedule` when it names every tile.
#[must_use]
pub fn candidates(kernel: &Kernel, schedule: &Schedule) -> Vec<Schedule> {
    let missing: Vec<usize> = (0..kernel.tiles.len())
        .filter(|i| !schedule.tiles.contains_key(&kernel.tiles[*i].name))
        .collect();
    if missing.is_empty() {
        return vec![schedule.clone()];
    }
    let uses = uses(kernel);
    let mut out = vec![];
    for &rows in row_choices(kernel) {
        for cols in [256, 192, 176, 160, 144, 128, 112, 96, 80, 64, 48, 32, 16] {
            if !widths(kernel, rows).contains(&cols) {
                continue;
            }
            let mut s = schedule.clone();
            for i in &missing {
                let id = TileId(u32::try_from(*i).unwrap_or(0));
                let size = if uses.rows.contains(&id) {
                    rows
                } else if uses.cols.contains(&id) {
                    cols
                } else {
                    64
                };
                s.tiles.insert(kernel.tiles[*i].name.clone(), size);
            }
            if !out.contains(&s) && registers_suffice(kernel, &s, rows) {
                out.extend(with_more_stages(kernel, &s));
            }
        }
    }
    if out.is_empty() { vec![schedule.clone()] } else { out }
}

fn has_dots(kernel: &Kernel) -> bool {
    kernel.values.iter().any(|v| matches!(v.op, Op::Dot { .. }))
}

/// Columns worth trying beside `rows` rows. A block that ends on a diagonal is square at most, and 192 rows of it, which
/// waste more of the diagonal, must earn that by wide tiles (measured: 128 columns of D64 do, 80 of D128 do not). Without
/// dots, wide tiles only cost registers.
fn widths(kernel: &Kernel, rows: u32) -> std::ops::RangeInclusive<u32> {
    match (uneven_axis(kernel), has_dots(kernel)) {
        (Some(_), _) if rows > 128 => 128..=rows,
        (Some(_), _) => 0..=rows,
        (None, false) => 0..=128,
        (None, true) => 0..=u32::MAX,
    }
}

/// Kernels that feed computed tiles to a second dot gain from 192 rows; a plain product keeps 128. Without any dot nothing is
/// shared by rows, and small blocks fill more SMs.
fn row_choices(kernel: &Kernel) -> &'static [u32] {
    if !has_dots(kernel) {
        return &[64, 128];
    }
    let computed_left = kernel
        .values
        .iter()
        .any(|v| matches!(&v.op, Op::Dot { a, .. } if !matches!(kernel.op(a.value), Op::Load { .. })));
    if computed_left { &[192, 128, 64] } else { &[128, 64] }
}

/// The same tiles with 4, 3 and then the default number of stages, and stores staged over a load of their shape.
fn with_more_stages(kernel: &Kernel, s: &Schedule) -> Vec<Schedule> {
    let mut out = vec![];
    for (stages, over) in [(3, false), (3, true), (2, true), (2, false)] {
        let mut more = s.clone();
        for id in loads_in_folds(kernel) {
            let plan: &mut LoadPlan = more.loads.entry(kernel.label(id)).or_default();
            plan.stages.get_or_insert(stages);
        }
        if over && !stage_over_loads(kernel, &mut more) {
            continue;
        }
        // Labels of unnamed values are no names a schedule may use.
        more.loads.retain(|name, _| !name.starts_with('%'));
        out.push(more);
    }
    out
}

fn loads_in_folds(kernel: &Kernel) -> Vec<ValueId> {
    let folds = kernel
        .values
        .iter()
        .filter_map(|v| if let Op::Fold(f) = &v.op { Some(f) } else { None });
    folds
        .flat_map(|f| f.body.clone())
        .filter(|v| {
            matches!(
                (kernel.op(*v), kernel.value(*v).ty.shape),
                (Op::Load { .. }, Shape::Mat(..))
            )
        })
        .collect()
}

/// Stages each store over a named load outside the folds that has its shape and type.
fn stage_over_loads(kernel: &Kernel, s: &mut Schedule) -> bool {
    let mut any = false;
    for id in &kernel.body {
        let Op::Store { tensor, src, .. } = kernel.op(*id) else {
            continue;
        };
        let ty = kernel.value(*src).ty;
        let like = kernel
            .body
            .iter()
            .find(|v| matches!(kernel.op(**v), Op::Load { .. }) && kernel.value(**v).ty == ty);
        let Some(name) = like.and_then(|v| kernel.value(*v).name.clone()) else {
            continue;
        };
        let plan: &mut StorePlan = s.stores.entry(kernel.tensor(*tensor).name.clone()).or_default();
        if plan.buffer.is_none() {
            plan.buffer = Some(name);
            any = true;
        }
    }
    any
}

fn uses(kernel: &Kernel) -> Uses {
    let mut out = Uses::default();
    for v in &kernel.values {
        if matches!(v.op, Op::Load { .. }) {
            continue;
        }
        let (rows, cols) = match v.ty.shape {
            Shape::Mat(r, c) => (Some(r), Some(c)),
            Shape::Row(r) => (Some(r), None),
            Shape::Col(c) => (None, Some(c)),
            Shape::Scalar => (None, None),
        };
        if let Some(Extent::Tile(t)) = rows {
            out.rows.insert(t);
        }
        if let Some(Extent::Tile(t)) = cols {
            out.cols.insert(t);
        }
    }
    out
}

/// Whether the tiles of the largest fold fit the consumer's registers.
fn registers_suffice(kernel: &Kernel, s: &Schedule, rows: u32) -> bool {
    let Ok(bound) = bind::tiles(kernel, s) else {
        return false;
    };
    if row_tile(&bound).is_err() {
        return false;
    }
    let consumers = super::roles::consumers(s, rows);
    let budget = s
        .roles
        .consumer_registers
        .unwrap_or(super::roles::default_registers(consumers).1);
    let slabs = (rows / consumers.max(1)).div_ceil(64);
    let folds = bound
        .values
        .iter()
        .filter_map(|v| if let Op::Fold(f) = &v.op { Some(f) } else { None });
    folds.map(|f| tile_registers(&bound, f, slabs)).max().unwrap_or(0) + SPARE_REGISTERS <= budget
}

/// Carried accumulators, and per dot that is not one: its result and the 16-bit operand made of it.
fn tile_registers(kernel: &Kernel, f: &Fold, slabs: u32) -> u32 {
    let carried: u32 = f
        .carries
        .iter()
        .filter_map(|c| {
            if let Shape::Mat(_, cols) = c.ty.shape {
                Some(slabs * super::lit(cols) / 2)
            } else {
                None
            }
        })
        .sum();
    let sums: Vec<ValueId> = f
        .carries
        .iter()
        .filter_map(|c| {
            if let dsl::ir::CarryKind::Sum { contribution, .. } = c.kind {
                Some(contribution)
            } else {
                None
            }
        })
        .collect();
    let dots = f
        .body
        .iter()
        .filter(|v| matches!(kernel.op(**v), Op::Dot { .. }) && !sums.contains(v));
    carried + dots.map(|v| slabs * mat(kernel, *v).1 * 3 / 4).sum::<u32>()
}

/// Dots whose left operand is computed in the same trip run one trip later, under the next trip's first dots.
pub fn stages(kernel: &Kernel, fold: &Fold) -> BTreeMap<String, u32> {
    let dots = fold.body.iter().filter(|v| matches!(kernel.op(**v), Op::Dot { .. }));
    let late = dots.filter(|v| {
        let Op::Dot { a, .. } = kernel.op(**v) else {
            return false;
        };
        !matches!(kernel.op(a.value), Op::Load { .. }) && matches!(kernel.value(a.value).ty.shape, Shape::Mat(..))
    });
    // A load read at both stages would have to hold two slots; such dots stay in their own trip.
    let late: Vec<ValueId> = late.copied().collect();
    let shared = |v: &&ValueId| {
        let loads = kernel
            .op(**v)
            .operands()
            .into_iter()
            .filter(|o| fold.body.contains(o) && matches!(kernel.op(*o), Op::Load { .. }));
        loads.into_iter().any(|load| {
            fold.body
                .iter()
                .any(|r| !late.contains(r) && kernel.op(*r).operands().contains(&load))
        })
    };
    if late.iter().any(|v| shared(&v)) {
        return BTreeMap::new();
    }
    late.iter().map(|v| (kernel.label(*v), 1)).collect()
}

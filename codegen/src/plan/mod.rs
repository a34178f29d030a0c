//! Binding: a kernel and a schedule become one [`Scheduled`], every decision made, every refusal with its reason.

pub mod about;
mod bind;
pub mod defaults;
mod folds;
pub mod order;
mod roles;
mod rows;

use std::collections::BTreeMap;

use dsl::Kernel;
use dsl::ir::{Extent, Op, Shape, TensorId, ValueId};
use dsl::schedule::{Cache, Direction, Handoff, Persistence, Placement, Release, Rescale, Schedule, Split};

use crate::error::{CompileError, Refusal};
use crate::target::Target;
pub use rows::row_tile;

/// Every decision about one load.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadChoice {
    pub ring: String,
    pub stages: u32,
    pub release: Release,
    pub cache: Cache,
    pub l2_promotion: u32,
}

/// Every decision about one fold.
#[derive(Clone, Debug, PartialEq)]
pub struct FoldChoice {
    pub direction: Direction,
    pub split: Split,
    pub stages: BTreeMap<String, u32>,
    pub order: Vec<String>,
    pub handoff: Handoff,
    pub rescale: Rescale,
    pub lazy_threshold: f32,
    pub exp2_polynomial_every: u32,
    pub unroll: u32,
    /// The first trip is emitted apart even where nothing needs it.
    pub peel: bool,
    /// Masked dots of the first trip may run over the left half of their columns.
    pub narrow: bool,
}

/// Where a stored tile is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staging {
    Own,
    Over(ValueId),
}

/// Every decision.
#[derive(Clone, Debug, PartialEq)]
pub struct Choices {
    pub consumers: u32,
    pub rows_per_consumer: u32,
    pub producer_warps: u32,
    pub producer_registers: u32,
    pub consumer_registers: u32,
    pub persistence: Persistence,
    pub inner: usize,
    pub descending: Vec<bool>,
    pub section: Option<u32>,
    pub loads: BTreeMap<ValueId, LoadChoice>,
    pub folds: BTreeMap<ValueId, FoldChoice>,
    pub stores: BTreeMap<TensorId, Staging>,
    pub operands: BTreeMap<ValueId, Placement>,
}

/// A kernel with its tile sizes bound, and every decision made.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheduled {
    pub kernel: Kernel,
    pub choices: Choices,
    /// The schedule as given.
    pub schedule: Schedule,
    /// Which tile size each extent of the kernel came from.
    pub symbols: about::Symbols,
    /// Folds whose unmasked trips take their reference as it is.
    pub fixed: BTreeMap<ValueId, FixedReference>,
    /// For each fold with a running reference, once rewritten: the per-row factor by which its sums follow it.
    pub factors: BTreeMap<ValueId, ValueId>,
}

/// The fast form of a rebase: `weights` computed against the reference as it stands, checked afterwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedReference {
    /// The weights of the guarded form; everything else reads this value.
    pub weights: ValueId,
    /// The same weights against the unmoved reference.
    pub fast: ValueId,
    /// Row sum of the weights: a partial sum above `limit`, or no number, sends a warp to the guarded form.
    pub check: ValueId,
    pub limit: f32,
    /// New reference and the factor of the sums, in the guarded form.
    pub next: ValueId,
    pub factor: ValueId,
}

/// Binds `schedule` to `kernel` for `target`.
///
/// # Errors
/// Every refusal found, each with what was asked, what is true and what would be allowed.
pub fn apply(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<Scheduled, CompileError> {
    let mut refusals = vec![];
    names(kernel, schedule, &mut refusals);
    if !refusals.is_empty() {
        return Err(CompileError::Refused(refusals));
    }
    let bound = bind::tiles(kernel, schedule)?;
    let choices = choose(&bound, schedule, target, &rows::key(kernel, schedule))?;
    Ok(Scheduled {
        kernel: bound,
        choices,
        schedule: schedule.clone(),
        symbols: about::Symbols::of(kernel),
        fixed: BTreeMap::new(),
        factors: BTreeMap::new(),
    })
}

/// Every name a schedule uses must exist in the kernel.
fn names(kernel: &Kernel, schedule: &Schedule, out: &mut Vec<Refusal>) {
    let of = |pick: &dyn Fn(&Op) -> bool| -> Vec<String> {
        kernel
            .values
            .iter()
            .filter(|v| pick(&v.op))
            .filter_map(|v| v.name.clone())
            .collect()
    };
    let loads = of(&|o| matches!(o, Op::Load { .. }));
    let folds = of(&|o| matches!(o, Op::Fold(_)));
    let values = of(&|_| true);
    let tiles: Vec<_> = kernel.tiles.iter().map(|t| t.name.clone()).collect();
    let tensors: Vec<_> = kernel
        .tensors
        .iter()
        .filter(|t| t.access == dsl::ir::Access::Write)
        .map(|t| t.name.clone())
        .collect();
    let axes: Vec<_> = kernel.grid.iter().map(|a| a.name.clone()).collect();
    let mut known = |key: &str, asked: &str, have: &[String]| {
        if !have.iter().any(|n| n == asked) {
            out.push(Refusal::new(
                key,
                format!("`{asked}`"),
                format!("kernel `{}` has no such name", kernel.name),
                have.join(", "),
            ));
        }
    };
    if !schedule.kernel.is_empty() {
        known("kernel", &schedule.kernel, std::slice::from_ref(&kernel.name));
    }
    schedule.tiles.keys().for_each(|n| known("tiles", n, &tiles));
    schedule.loads.keys().for_each(|n| known("loads", n, &loads));
    schedule.folds.keys().for_each(|n| known("folds", n, &folds));
    schedule.stores.keys().for_each(|n| known("stores", n, &tensors));
    schedule.operands.keys().for_each(|n| known("operands", n, &values));
    schedule
        .grid
        .inner
        .iter()
        .chain(&schedule.grid.descending)
        .for_each(|n| known("grid", n, &axes));
    for (fold, plan) in &schedule.folds {
        let fold_values = stage_names(kernel, fold);
        let events = event_names(kernel, fold);
        plan.stages
            .keys()
            .for_each(|n| known(&format!("folds.{fold}.stages"), n, &fold_values));
        for event in &plan.order {
            known(&format!("folds.{fold}.order"), order::event(event).name, &events);
        }
    }
}

/// The names that `stages` and `order` of a fold may use: its values, and `NAME.rescale` for each rescaled sum.
#[must_use]
pub fn stage_names(kernel: &Kernel, fold: &str) -> Vec<String> {
    let mut out = vec![];
    for value in &kernel.values {
        let Op::Fold(f) = &value.op else { continue };
        if f.name != fold {
            continue;
        }
        out.extend(f.body.iter().filter_map(|v| kernel.value(*v).name.clone()));
        out.extend(f.rescales());
    }
    out
}

/// The names that `order` of a fold may use: those of `stages` but for loads, and the steps of its carries.
fn event_names(kernel: &Kernel, fold: &str) -> Vec<String> {
    let folds = kernel.values.iter().filter_map(|v| match &v.op {
        Op::Fold(f) if f.name == fold => Some(f),
        _ => None,
    });
    let mut out = vec![];
    for f in folds {
        let computed = f.body.iter().map(|v| kernel.value(*v));
        let computed = computed.filter(|v| !matches!(v.op, Op::Load { .. }));
        out.extend(computed.filter_map(|v| v.name.clone()));
        out.extend(f.rescales());
        out.extend(f.carries.iter().map(dsl::ir::Carry::step));
    }
    out
}

/// The bound value of an extent; tile symbols are gone after binding.
#[must_use]
pub fn lit(e: Extent) -> u32 {
    match e {
        Extent::Lit(v) => v,
        Extent::Tile(_) => 0,
    }
}

/// Rows and columns of a matrix value after binding.
#[must_use]
pub fn mat(kernel: &Kernel, id: ValueId) -> (u32, u32) {
    match kernel.value(id).ty.shape {
        Shape::Mat(r, c) => (lit(r), lit(c)),
        Shape::Row(r) => (lit(r), 1),
        Shape::Col(c) => (1, lit(c)),
        Shape::Scalar => (1, 1),
    }
}

fn choose(kernel: &Kernel, s: &Schedule, target: &Target, row_key: &str) -> Result<Choices, CompileError> {
    let rows = row_tile(kernel)?;
    let consumers = roles::consumers(s, rows);
    let registers = roles::registers(rows, consumers, s, target, row_key)?;
    let uneven = defaults::uneven_axis(kernel);
    if let Some(section) = s.grid.section.filter(|n| *n == 0 || i32::try_from(*n).is_err()) {
        let fact = "a section holds at least one block, and blocks are counted with 31 bits";
        return Err(Refusal::new("grid.section", section.to_string(), fact, "1 to 2147483647").into());
    }
    if let Some(twice) = (1..s.grid.descending.len()).find(|i| s.grid.descending[..*i].contains(&s.grid.descending[*i]))
    {
        let name = &s.grid.descending[twice];
        return Err(Refusal::new(
            "grid.descending",
            format!("`{name}` twice"),
            "an axis is walked one way",
            "each axis once",
        )
        .into());
    }
    let inner = axis(kernel, s.grid.inner.as_deref()).or(uneven).unwrap_or(0);
    let given = s.grid != dsl::schedule::Grid::default();
    let backwards = |i: usize, name: &String| s.grid.descending.contains(name) || (!given && uneven == Some(i));
    let descending = kernel
        .grid
        .iter()
        .enumerate()
        .map(|(i, a)| backwards(i, &a.name))
        .collect();
    let mut choices = Choices {
        consumers,
        rows_per_consumer: rows / consumers,
        producer_warps: s.roles.producer_warps.unwrap_or(1),
        producer_registers: registers.0,
        consumer_registers: registers.1,
        persistence: s.grid.persistence.unwrap_or(if uneven.is_some() {
            Persistence::Dynamic
        } else {
            Persistence::Static
        }),
        inner,
        descending,
        section: s
            .grid
            .section
            .or((!given && uneven.is_some()).then_some(defaults::SECTION)),
        loads: BTreeMap::new(),
        folds: BTreeMap::new(),
        stores: BTreeMap::new(),
        operands: BTreeMap::new(),
    };
    loads(kernel, s, &mut choices)?;
    choices.folds = folds::choose(kernel, s)?;
    stores(kernel, s, &mut choices)?;
    operands(kernel, s, &mut choices)?;
    Ok(choices)
}

/// Where left operands of dots live. Loaded ones default to shared memory, computed ones to registers.
fn operands(kernel: &Kernel, s: &Schedule, choices: &mut Choices) -> Result<(), Refusal> {
    for (name, placement) in &s.operands {
        let Some(id) = by_name(kernel, name) else { continue };
        let key = format!("operands.{name}");
        let readers: Vec<&Op> = kernel
            .values
            .iter()
            .map(|v| &v.op)
            .filter(|o| o.operands().contains(&id))
            .collect();
        let left = readers
            .iter()
            .all(|o| matches!(o, Op::Dot { a, b } if a.value == id && !a.transposed && b.value != id));
        if readers.is_empty() || !left {
            let asked = match placement {
                Placement::Shared => "shared",
                Placement::Registers => "registers",
            };
            let fact = if readers.iter().all(|o| matches!(o, Op::Dot { .. })) {
                "it is not the left operand, as it lies, of every dot that reads it"
            } else {
                "not only dots read it"
            };
            return Err(Refusal::new(key, asked, fact, "left operands of dots"));
        }
        let in_fold = kernel
            .values
            .iter()
            .any(|v| matches!(&v.op, Op::Fold(f) if f.body.contains(&id)));
        if choices.loads.contains_key(&id) && *placement == Placement::Registers && in_fold {
            return Err(Refusal::new(
                key,
                "registers",
                "it is loaded again on every trip",
                "shared, or a load outside the folds",
            ));
        }
        choices.operands.insert(id, *placement);
    }
    Ok(())
}

fn axis(kernel: &Kernel, name: Option<&str>) -> Option<usize> {
    kernel.grid.iter().position(|a| Some(a.name.as_str()) == name)
}

fn by_name(kernel: &Kernel, name: &str) -> Option<ValueId> {
    let at = kernel.values.iter().position(|v| v.name.as_deref() == Some(name))?;
    u32::try_from(at).ok().map(ValueId)
}

fn loads(kernel: &Kernel, s: &Schedule, choices: &mut Choices) -> Result<(), CompileError> {
    let in_fold: Vec<ValueId> = kernel
        .values
        .iter()
        .filter_map(|v| {
            if let Op::Fold(f) = &v.op {
                Some(f.body.clone())
            } else {
                None
            }
        })
        .flatten()
        .collect();
    for (i, value) in kernel.values.iter().enumerate() {
        let id = ValueId(u32::try_from(i).unwrap_or(0));
        if !matches!((&value.op, value.ty.shape), (Op::Load { .. }, Shape::Mat(..))) {
            continue;
        }
        let label = kernel.label(id);
        let plan = s.loads.get(&label).cloned().unwrap_or_default();
        let inside = in_fold.contains(&id);
        let choice = LoadChoice {
            ring: plan.ring.unwrap_or_else(|| label.clone()),
            stages: plan.stages.unwrap_or(if inside { 2 } else { 1 }),
            release: plan.release.unwrap_or(Release::Early),
            cache: plan.cache.unwrap_or(Cache::Normal),
            l2_promotion: plan.l2_promotion.unwrap_or(128),
        };
        if !(1..=16).contains(&choice.stages) {
            return Err(Refusal::new(
                format!("loads.{label}.stages"),
                choice.stages.to_string(),
                "a ring has at least one slot",
                "1 to 16",
            )
            .into());
        }
        if ![0, 64, 128, 256].contains(&choice.l2_promotion) {
            return Err(Refusal::new(
                format!("loads.{label}.l2_promotion"),
                choice.l2_promotion.to_string(),
                "the tensor map knows four promotions",
                "0, 64, 128, 256",
            )
            .into());
        }
        choices.loads.insert(id, choice);
    }
    Ok(())
}

/// Whether tiles of a tensor go through shared memory on their way: matrices do.
fn is_staged(kernel: &Kernel, tensor: TensorId) -> bool {
    kernel.values.iter().any(|v| match &v.op {
        Op::Store { tensor: to, .. } => *to == tensor && matches!(v.ty.shape, Shape::Mat(..)),
        _ => false,
    })
}

fn stores(kernel: &Kernel, s: &Schedule, choices: &mut Choices) -> Result<(), CompileError> {
    for (i, t) in kernel.tensors.iter().enumerate() {
        let id = TensorId(u32::try_from(i).unwrap_or(0));
        let Some(buffer) = s.stores.get(&t.name).and_then(|p| p.buffer.clone()) else {
            choices.stores.insert(id, Staging::Own);
            continue;
        };
        let staging = match (buffer.as_str(), by_name(kernel, &buffer)) {
            ("own", _) => Staging::Own,
            _ if !is_staged(kernel, id) => {
                let fact = format!("`{}` is stored vector by vector, straight from registers", t.name);
                let key = format!("stores.{}.buffer", t.name);
                return Err(Refusal::new(key, format!("`{buffer}`"), fact, "no such line").into());
            }
            (_, Some(load)) if choices.loads.contains_key(&load) => Staging::Over(load),
            _ => {
                let names: Vec<_> = choices.loads.keys().map(|l| kernel.label(*l)).collect();
                return Err(Refusal::new(
                    format!("stores.{}.buffer", t.name),
                    format!("`{buffer}`"),
                    "a tile is staged in its own buffer or over a load",
                    format!("own, {}", names.join(", ")),
                )
                .into());
            }
        };
        choices.stores.insert(id, staging);
    }
    Ok(())
}

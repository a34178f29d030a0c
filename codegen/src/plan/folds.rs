//! The decisions about one fold, and which of them its maths allows.

use std::collections::BTreeMap;

use dsl::ir::{BinaryOp, CarryKind, Fold, Op, UnaryOp, ValueId};
use dsl::schedule::{Direction, FoldPlan, Handoff, Rescale, Schedule, Split};
use dsl::{DType, Kernel};

use crate::error::Refusal;
use crate::rewrite::rebase;

use super::{FoldChoice, defaults, order};

pub(super) fn choose(kernel: &Kernel, s: &Schedule) -> Result<BTreeMap<ValueId, FoldChoice>, Refusal> {
    let mut choices = BTreeMap::new();
    for (i, value) in kernel.values.iter().enumerate() {
        let Op::Fold(f) = &value.op else { continue };
        let plan = s.folds.get(&f.name).cloned().unwrap_or_default();
        let choice = choice(kernel, f, plan);
        without_effect(kernel, f, s.folds.get(&f.name))?;
        numbers(f, &choice)?;
        direction(kernel, f, &choice)?;
        late_mask(kernel, f, &choice)?;
        weights(kernel, f, &choice)?;
        order::check(&f.name, &choice.order)?;
        choices.insert(ValueId(u32::try_from(i).unwrap_or(0)), choice);
    }
    Ok(choices)
}

/// The plan with its gaps filled.
fn choice(kernel: &Kernel, f: &Fold, plan: FoldPlan) -> FoldChoice {
    let masked = f.body.iter().any(|v| matches!(kernel.op(*v), Op::Mask { .. }));
    let backwards = masked && ordered_carry(kernel, f).is_none();
    let threshold = if enlarged_f16(kernel, f).is_some() { 0.0 } else { 8.0 };
    FoldChoice {
        direction: plan.direction.unwrap_or(if backwards {
            Direction::Descending
        } else {
            Direction::Ascending
        }),
        split: plan.split.unwrap_or(if masked { Split::ByMask } else { Split::Never }),
        stages: if plan.stages.is_empty() && plan.order.is_empty() {
            defaults::stages(kernel, f)
        } else {
            plan.stages
        },
        order: plan.order,
        handoff: plan.handoff.unwrap_or(Handoff::Free),
        rescale: plan.rescale.unwrap_or(Rescale::Lazy),
        lazy_threshold: plan.lazy_threshold.unwrap_or(threshold),
        exp2_polynomial_every: plan.exp2_polynomial_every.unwrap_or(0),
        unroll: plan.unroll.unwrap_or(1),
        peel: plan.peel.unwrap_or(false),
        narrow: plan.narrow.unwrap_or(false),
    }
}

/// A knob that nothing of the fold listens to is a mistake of its writer.
fn without_effect(kernel: &Kernel, f: &Fold, plan: Option<&FoldPlan>) -> Result<(), Refusal> {
    let Some(plan) = plan else { return Ok(()) };
    let key = |knob: &str| format!("folds.{}.{knob}", f.name);
    let rebased = f.reference().is_some();
    let weights = f
        .body
        .iter()
        .copied()
        .find(|v| matches!(kernel.op(*v), Op::Rebase { .. }));
    let asked = plan.rescale.map(|r| r.name().to_owned());
    if let (false, Some(rescale)) = (rebased, &asked) {
        let fact = "the fold has no running reference";
        return Err(Refusal::new(key("rescale"), rescale, fact, "no such line"));
    }
    let watched = weights.is_none_or(|w| rebase::watch(kernel, &f.body, w).is_some());
    if plan.rescale == Some(Rescale::Fixed) && !watched {
        let fact = "no row sum of the weights themselves watches them";
        return Err(Refusal::new(key("rescale"), "fixed", fact, "exact, lazy"));
    }
    if let Some(threshold) = plan.lazy_threshold
        && (!rebased || plan.rescale == Some(Rescale::Exact))
    {
        let fact = "the reference does not lag";
        return Err(Refusal::new(
            key("lazy_threshold"),
            threshold.to_string(),
            fact,
            "no such line",
        ));
    }
    let exponents = rebased
        || f.body
            .iter()
            .any(|v| matches!(kernel.op(*v), Op::Unary(UnaryOp::Exp2, _)));
    if let Some(every) = plan.exp2_polynomial_every.filter(|n| *n > 0 && !exponents) {
        let fact = "the fold computes no exp2";
        return Err(Refusal::new(key("exp2_polynomial_every"), every.to_string(), fact, "0"));
    }
    Ok(())
}

fn numbers(f: &Fold, choice: &FoldChoice) -> Result<(), Refusal> {
    if let Some((name, stage)) = choice.stages.iter().find(|(_, s)| **s > 1) {
        let fact = "a fold always runs at least one trip, so one trip may be in flight";
        let key = format!("folds.{}.stages.{name}", f.name);
        return Err(Refusal::new(key, stage.to_string(), fact, "0 or 1"));
    }
    if !(1..=8).contains(&choice.unroll) {
        let fact = "the loop body is copied this many times";
        let key = format!("folds.{}.unroll", f.name);
        return Err(Refusal::new(key, choice.unroll.to_string(), fact, "1 to 8"));
    }
    Ok(())
}

/// Trips may run backwards only where no carried value tells.
fn direction(kernel: &Kernel, f: &Fold, choice: &FoldChoice) -> Result<(), Refusal> {
    match ordered_carry(kernel, f) {
        Some(carry) if choice.direction == Direction::Descending => {
            let fact = format!(
                "`{carry}` is carried from trip to trip by more than max, min or + of itself and a value of the trip, \
                 so its value depends on the order of the trips"
            );
            let key = format!("folds.{}.direction", f.name);
            Err(Refusal::new(key, "descending", fact, "ascending"))
        }
        _ => Ok(()),
    }
}

/// The first carry whose final value, or whose effect on others, depends on the order of the trips.
///
/// `next = max(carry, x)`, likewise min and +, does not while `x` reads no carry and nothing else reads the carry.
fn ordered_carry<'k>(kernel: &Kernel, f: &'k Fold) -> Option<&'k str> {
    let carries = f.carries.iter().filter_map(|c| match c.kind {
        CarryKind::Next(next) => Some((c, next)),
        CarryKind::Sum { .. } | CarryKind::Reference => None,
    });
    let read = |of: ValueId, except: ValueId| {
        let mut readers = f.body.iter().filter(|v| **v != except);
        readers.any(|v| kernel.op(*v).operands().contains(&of)) || given(f, of, except)
    };
    let mut ordered = carries.filter(|(carry, next)| {
        let alone = match *kernel.op(*next) {
            _ if *next == carry.arg => true,
            Op::Binary(BinaryOp::Max | BinaryOp::Min | BinaryOp::Add, a, b) => (a == carry.arg) != (b == carry.arg),
            _ => false,
        };
        !alone || read(carry.arg, *next) || read(*next, *next)
    });
    ordered.next().map(|(carry, _)| carry.name.as_str())
}

/// Whether a value is what a carry becomes or adds, apart from the carry whose next value is `except`.
fn given(f: &Fold, of: ValueId, except: ValueId) -> bool {
    f.carries.iter().any(|c| match c.kind {
        CarryKind::Sum { contribution, .. } => contribution == of,
        CarryKind::Next(next) => next == of && next != except,
        CarryKind::Reference => false,
    })
}

fn late_mask(kernel: &Kernel, f: &Fold, choice: &FoldChoice) -> Result<(), Refusal> {
    let mut masks = f.body.iter().filter(|v| matches!(kernel.op(**v), Op::Mask { .. }));
    if choice.split == Split::ByMask && masks.any(|v| runs_late(kernel, f, choice, *v)) {
        let fact = "a mask at stage 1 belongs to the trip before, which may be of the other part";
        let key = format!("folds.{}.split", f.name);
        return Err(Refusal::new(key, "by-mask", fact, "never, or the mask at stage 0"));
    }
    Ok(())
}

/// Weights reach two to the threshold, under a fixed reference more; f16 ends below 2^16.
fn weights(kernel: &Kernel, f: &Fold, choice: &FoldChoice) -> Result<(), Refusal> {
    let enlarged = enlarged_f16(kernel, f).map(|v| kernel.label(v));
    if let (Some(name), Rescale::Fixed) = (&enlarged, choice.rescale) {
        let fact = format!(
            "`{name}` is an f16 of more than the weights, and a fixed reference lets weights grow to 2^14 before it \
             repairs them"
        );
        let key = format!("folds.{}.rescale", f.name);
        return Err(Refusal::new(
            key,
            "fixed",
            fact,
            "exact, or lazy with lazy_threshold = 0",
        ));
    }
    let (most, fact) = match enlarged {
        Some(name) => (
            0.0,
            format!("weights may exceed one by this power of two, and `{name}` is an f16 of more than the weights"),
        ),
        None if weights_in_f16(kernel, f).is_some() => {
            (15.0, "f16 weights may exceed one by this power of two".to_owned())
        }
        // Sums of values up to 2^100 stay far below the end of f32.
        None => (16.0, "weights may exceed one by this power of two".to_owned()),
    };
    if (0.0..=most).contains(&choice.lazy_threshold) {
        return Ok(());
    }
    let allowed = if most == 0.0 {
        "0".to_owned()
    } else {
        format!("0 to {most}")
    };
    let key = format!("folds.{}.lazy_threshold", f.name);
    Err(Refusal::new(key, choice.lazy_threshold.to_string(), fact, allowed))
}

/// A value of the fold that is cast to f16 and reads the weights, as they are or changed.
fn weights_in_f16<'k>(kernel: &'k Kernel, f: &'k Fold) -> Option<ValueId> {
    let reading = reading_weights(kernel, f);
    to_f16(kernel, f)
        .find(|(_, source)| reading.contains(source))
        .map(|(v, _)| v)
}

/// A cast to f16 of weights that something may have made larger: anything but a mask that fills with zero.
fn enlarged_f16(kernel: &Kernel, f: &Fold) -> Option<ValueId> {
    let reading = reading_weights(kernel, f);
    let mut casts = to_f16(kernel, f).filter(|(_, source)| reading.contains(source));
    let as_they_are = |mut v: ValueId| loop {
        match kernel.op(v) {
            Op::Rebase { .. } => return true,
            Op::Mask { src, fill: 0.0, .. } => v = *src,
            _ => return false,
        }
    };
    casts.find(|(_, source)| !as_they_are(*source)).map(|(v, _)| v)
}

fn to_f16<'k>(kernel: &'k Kernel, f: &'k Fold) -> impl Iterator<Item = (ValueId, ValueId)> + 'k {
    f.body.iter().filter_map(|v| match kernel.op(*v) {
        Op::Cast(source) if kernel.value(*v).ty.dtype == DType::F16 => Some((*v, *source)),
        _ => None,
    })
}

/// The weights and everything computed from them in the same trip.
fn reading_weights(kernel: &Kernel, f: &Fold) -> Vec<ValueId> {
    let mut reading = vec![];
    for v in &f.body {
        let reads = kernel.op(*v).operands().iter().any(|o| reading.contains(o));
        if reads || matches!(kernel.op(*v), Op::Rebase { .. }) {
            reading.push(*v);
        }
    }
    reading
}

/// Whether a value of the fold ends up at stage 1: it, or something it is computed from in the same trip, was put there.
fn runs_late(kernel: &Kernel, f: &Fold, choice: &FoldChoice, id: ValueId) -> bool {
    let mut open = vec![id];
    while let Some(v) = open.pop() {
        match choice.stages.get(&kernel.label(v)) {
            Some(stage) if *stage > 0 => return true,
            Some(_) => {}
            None => open.extend(kernel.op(v).operands().into_iter().filter(|o| f.body.contains(o))),
        }
    }
    false
}

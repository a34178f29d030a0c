//! What may not be asked of this target: kernels that are more than products, and schedule keys that speak of roles,
//! tensor maps or wgmma.

use dsl::Kernel;
use dsl::ir::{Carry, CarryKind, Fold, Op, Shape, ValueId};
use dsl::schedule::{FoldPlan, Handoff, LoadPlan, Persistence, Schedule};

use crate::error::Refusal;
use crate::target::{self, Target};

/// What a kernel has that this target does not lower, in one refusal; no schedule can change it.
///
/// # Errors
/// A kernel that is more than folds which sum dots of loaded tiles, with calculations after them.
pub fn kernel(kernel: &Kernel, target: &Target) -> Result<(), Refusal> {
    let mut found = Found {
        kernel,
        list: vec![],
        first: None,
    };
    for id in &kernel.body {
        match kernel.op(*id) {
            Op::Fold(f) => found.in_fold(f),
            Op::Load { .. } if is_matrix(kernel, *id) => found.add(*id, "a tile loaded outside of folds".to_owned()),
            Op::Dot { .. } => found.add(*id, "a dot outside of folds".to_owned()),
            _ => {}
        }
    }
    let Some(first) = found.first else { return Ok(()) };
    let fact = format!(
        "{} lowers products only: folds that sum dots of tiles loaded in the same trip, and calculations after them; \
         this kernel has {}",
        target.name,
        found.list.join(", ")
    );
    let allowed = format!("{} for this kernel; on {}, products", target::SM_90A.name, target.name);
    let asked = format!("kernel `{}` for {}", kernel.name, target.name);
    Err(Refusal::new("target", asked, fact, allowed).at(&kernel.value(first).site))
}

fn is_matrix(kernel: &Kernel, id: ValueId) -> bool {
    matches!(kernel.value(id).ty.shape, Shape::Mat(..))
}

/// Whether `id` is what a plain sum adds.
fn is_summed(f: &Fold, id: ValueId) -> bool {
    let sums = |c: &Carry| matches!(c.kind, CarryKind::Sum { contribution, .. } if contribution == id);
    f.carries.iter().any(sums)
}

/// Everything past products, each kind once.
struct Found<'k> {
    kernel: &'k Kernel,
    list: Vec<String>,
    first: Option<ValueId>,
}

impl Found<'_> {
    fn add(&mut self, id: ValueId, what: String) {
        self.first.get_or_insert(id);
        if !self.list.contains(&what) {
            self.list.push(what);
        }
    }

    fn in_fold(&mut self, f: &Fold) {
        let name = &f.name;
        for c in &f.carries {
            match c.kind {
                CarryKind::Reference | CarryKind::Sum { rescaled: true, .. } => {
                    self.add(c.arg, format!("sums of fold `{name}` rescaled between its dots"));
                }
                CarryKind::Next(_) => self.add(c.arg, format!("a value that fold `{name}` carries by calculation")),
                CarryKind::Sum { contribution, .. } if !matches!(self.kernel.op(contribution), Op::Dot { .. }) => {
                    self.add(contribution, format!("a sum of fold `{name}` that is not of dots"));
                }
                CarryKind::Sum { .. } => {}
            }
        }
        for id in &f.body {
            self.in_body(f, *id);
        }
    }

    fn in_body(&mut self, f: &Fold, id: ValueId) {
        let name = &f.name;
        match self.kernel.op(id) {
            Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } => {}
            Op::Load { .. } if is_matrix(self.kernel, id) => {}
            Op::Load { .. } => self.add(id, format!("a row or column loaded in fold `{name}`")),
            Op::Dot { a, b } => {
                let loaded = |v: ValueId| f.body.contains(&v) && matches!(self.kernel.op(v), Op::Load { .. });
                if !(loaded(a.value) && loaded(b.value)) {
                    self.add(id, format!("a dot in fold `{name}` of tiles that are not loaded there"));
                }
                if !is_summed(f, id) {
                    self.add(id, format!("a dot in fold `{name}` that is not summed"));
                }
            }
            Op::Store { .. } => self.add(id, format!("a store in fold `{name}`")),
            Op::Fold(_) => self.add(id, format!("a fold in fold `{name}`")),
            _ => self.add(id, format!("calculations in fold `{name}`")),
        }
    }
}

/// Every key that has no meaning here.
pub fn schedule(s: &Schedule) -> Vec<Refusal> {
    let mut out = vec![];
    roles(s, &mut out);
    if let Some(p @ (Persistence::Static | Persistence::Dynamic)) = s.grid.persistence {
        out.push(Refusal::new(
            "grid.persistence",
            format!("{p:?}").to_lowercase(),
            "a CTA runs one block: the hardware hands out the next one",
            "none",
        ));
    }
    for (name, plan) in &s.loads {
        load(name, plan, &mut out);
    }
    for (name, plan) in &s.folds {
        fold(name, plan, &mut out);
    }
    for (name, plan) in &s.stores {
        if let Some(buffer) = &plan.buffer {
            out.push(Refusal::new(
                format!("stores.{name}.buffer"),
                format!("`{buffer}`"),
                "tiles are stored from registers, without a buffer",
                "leave it out",
            ));
        }
    }
    for name in s.operands.keys() {
        out.push(Refusal::new(
            format!("operands.{name}"),
            "a placement",
            "both operands of a dot are loaded tiles in shared memory",
            "leave it out",
        ));
    }
    out
}

fn roles(s: &Schedule, out: &mut Vec<Refusal>) {
    let asked = [
        (
            "roles.producer_warps",
            s.roles.producer_warps,
            "every warp copies: there is no producer",
        ),
        (
            "roles.producer_registers",
            s.roles.producer_registers,
            "sm_80 has no setmaxnreg (PTX ISA 9.7.19.5)",
        ),
        (
            "roles.consumer_registers",
            s.roles.consumer_registers,
            "sm_80 has no setmaxnreg (PTX ISA 9.7.19.5)",
        ),
    ];
    for (key, value, fact) in asked {
        if let Some(v) = value {
            out.push(Refusal::new(key, v.to_string(), fact, "leave it out"));
        }
    }
}

fn load(name: &str, plan: &LoadPlan, out: &mut Vec<Refusal>) {
    let mut no = |key: &str, asked: String, fact: &str| {
        out.push(Refusal::new(format!("loads.{name}.{key}"), asked, fact, "leave it out"))
    };
    if let Some(ring) = &plan.ring {
        no(
            "ring",
            format!("`{ring}`"),
            "every load of a fold has its own slots, filled together",
        );
    }
    if let Some(release) = plan.release {
        no(
            "release",
            format!("{release:?}").to_lowercase(),
            "one barrier per trip frees the slots of all loads",
        );
    }
    if let Some(cache) = plan.cache {
        no(
            "cache",
            format!("{cache:?}").to_lowercase(),
            "copies of this target carry no eviction priority",
        );
    }
}

fn fold(name: &str, plan: &FoldPlan, out: &mut Vec<Refusal>) {
    let mut no = |key: &str, asked: String, fact: &str, allowed: &str| {
        out.push(Refusal::new(format!("folds.{name}.{key}"), asked, fact, allowed))
    };
    if let Some((value, stage)) = plan.stages.iter().find(|(_, stage)| **stage > 0) {
        no(
            &format!("stages.{value}"),
            stage.to_string(),
            "mma.sync is synchronous: a dot is done when the next instruction runs",
            "0",
        );
    }
    if !plan.order.is_empty() {
        no(
            "order",
            plan.order.join(", "),
            "the dots of a trip run in program order",
            "leave it out",
        );
    }
    if plan.handoff == Some(Handoff::PingPong) {
        no(
            "handoff",
            "ping-pong".into(),
            "mma.sync is arbitrated by the hardware",
            "free",
        );
    }
    if let Some(trips) = plan.unroll.filter(|u| *u > 1) {
        no(
            "unroll",
            trips.to_string(),
            "the slot of a trip is counted at run time",
            "1",
        );
    }
}

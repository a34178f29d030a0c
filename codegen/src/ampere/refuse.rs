//! What a schedule may not ask of this target: keys that speak of roles, tensor maps or wgmma.

use dsl::schedule::{FoldPlan, Handoff, LoadPlan, Persistence, Schedule};

use crate::error::Refusal;

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

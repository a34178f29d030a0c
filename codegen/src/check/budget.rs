//! Registers, warpgroups, named barriers and the grid: what a CTA may hold.
//!
//! Named barriers are fixed by the emitter, not by the program: 0 for the start, `1 + c` for consumer `c`, `4 + c` for its
//! turn and 7 for all consumers: distinct and below 16 for at most three consumers, which [`Rule::Warpgroups`] demands.

use dsl::schedule::Persistence;

use crate::role::Stmt;
use crate::target::Target;

use super::violation::{At, Rule, Sink};

/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

pub(super) fn check(sink: &mut Sink<'_, '_>, target: &Target) {
    let p = sink.flat.program;
    if !p.rows_per_consumer.is_multiple_of(64) {
        sink.fail(
            Rule::Warpgroups,
            At::Item("rows_per_consumer"),
            "a multiple of 64",
            p.rows_per_consumer.to_string(),
        );
    }
    registers(sink, target);
    let dynamic = p.grid.persistence == Persistence::Dynamic;
    if dynamic != p.mailbox.is_some() {
        let found = format!(
            "{:?} persistence, {}",
            p.grid.persistence,
            if p.mailbox.is_some() { "a mailbox" } else { "no mailbox" }
        );
        sink.fail(
            Rule::Mailbox,
            At::Item("mailbox"),
            "a mailbox exactly when blocks are drawn dynamically",
            found,
        );
    }
    let turns = sink
        .flat
        .all()
        .find(|(_, s)| matches!(s, Stmt::TurnWait | Stmt::TurnPass));
    if let Some((site, _)) = turns
        && !p.ping_pong
    {
        sink.fail(
            Rule::TurnPlan,
            At::Site(site),
            "ping_pong, which hands out the first turn",
            "a program without it",
        );
    }
    if p.ping_pong && p.consumers < 2 {
        sink.fail(
            Rule::TurnPlan,
            At::Item("ping_pong"),
            "at least two consumers",
            format!("{}", p.consumers),
        );
    }
}

fn registers(sink: &mut Sink<'_, '_>, target: &Target) {
    let p = sink.flat.program;
    let roles = [
        ("producer_registers", p.producer_registers),
        ("consumer_registers", p.consumer_registers),
    ];
    for (name, n) in roles {
        if !(24..=256).contains(&n) || !n.is_multiple_of(8) {
            sink.fail(
                Rule::RegisterCount,
                At::Item(name),
                "a multiple of 8 in 24..=256",
                n.to_string(),
            );
        }
    }
    let threads = WARPGROUP * (p.consumers + 1);
    // The launch gives every thread the same count, in steps of 8; the roles then share out exactly that.
    let entry = target.registers / threads / 8 * 8;
    let held = u64::from(entry) * u64::from(threads);
    let asked = u64::from(WARPGROUP)
        * (u64::from(p.producer_registers) + u64::from(p.consumers) * u64::from(p.consumer_registers));
    if asked > held {
        sink.fail(
            Rule::RegisterPool,
            At::Item("consumer_registers"),
            format!("at most the {held} that {threads} threads hold at entry"),
            asked.to_string(),
        );
    }
    if p.producer_registers > entry || p.consumer_registers < entry {
        let found = format!("producer {}, consumers {}", p.producer_registers, p.consumer_registers);
        sink.fail(
            Rule::RegisterDirection,
            At::Item("registers"),
            format!("producer <= {entry} <= consumers, the count at entry"),
            found,
        );
    }
}

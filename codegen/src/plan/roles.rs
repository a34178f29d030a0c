//! Warp roles: how many consumers share the rows of a tile, and the registers of each.

use dsl::schedule::Schedule;

use crate::error::Refusal;
use crate::target::Target;

/// How many consumers share a row tile: as asked, else as the rows of one say, else by the size of the tile.
pub(super) fn consumers(s: &Schedule, rows: u32) -> u32 {
    let shared = || s.roles.rows_per_consumer.and_then(|per| rows.checked_div(per));
    s.roles
        .consumers
        .or_else(shared)
        .unwrap_or_else(|| default_consumers(rows))
}

/// Consumer warpgroups for a row tile.
fn default_consumers(rows: u32) -> u32 {
    match rows {
        0..=64 => 1,
        192 => 3,
        _ => 2,
    }
}

/// Producer and consumer registers: the register file of an SM, shared out to its last multiple of 8.
pub(super) fn default_registers(consumers: u32) -> (u32, u32) {
    match consumers {
        1 => (56, 256),
        2 => (24, 240),
        _ => (32, 160),
    }
}

/// Refuses consumers that no CTA has, and rows for each of them that do not make the row tile.
fn shares(rows: u32, consumers: u32, s: &Schedule) -> Result<(), Refusal> {
    let possible = (1..=3).contains(&consumers);
    if !possible && (s.roles.consumers.is_some() || s.roles.rows_per_consumer.is_none()) {
        let fact = "a CTA has one producer warpgroup and at most 512 threads of useful registers";
        return Err(Refusal::new(
            "roles.consumers",
            consumers.to_string(),
            fact,
            "1, 2 or 3",
        ));
    }
    let Some(per) = s.roles.rows_per_consumer else {
        return Ok(());
    };
    let fits = per > 0 && per.is_multiple_of(64) && per.checked_mul(consumers) == Some(rows);
    if fits && possible {
        return Ok(());
    }
    let sharing = s.roles.consumers.map_or("1, 2 or 3".to_owned(), |c| c.to_string());
    let fact = format!("the row tile is {rows}, and {sharing} consumer(s) share it");
    let allowed = "a multiple of 64 that times the consumers is the row tile";
    Err(Refusal::new("roles.rows_per_consumer", per.to_string(), fact, allowed))
}

/// Registers of the two roles.
pub(super) fn registers(
    rows: u32,
    consumers: u32,
    s: &Schedule,
    target: &Target,
    row_key: &str,
) -> Result<(u32, u32), Refusal> {
    shares(rows, consumers, s)?;
    let per = s.roles.rows_per_consumer.unwrap_or(rows / consumers);
    if per == 0 || !per.is_multiple_of(64) || per.checked_mul(consumers) != Some(rows) {
        let fact = format!("the row tile is {rows}, shared by {consumers} consumer(s) of {per} rows");
        return Err(Refusal::new(
            row_key,
            format!("{rows} rows for {consumers} consumer(s)"),
            fact,
            "a row tile that is consumers x a multiple of 64",
        ));
    }
    let defaults = default_registers(consumers);
    let pair = (
        s.roles.producer_registers.unwrap_or(defaults.0),
        s.roles.consumer_registers.unwrap_or(defaults.1),
    );
    for (key, v) in [
        ("roles.producer_registers", pair.0),
        ("roles.consumer_registers", pair.1),
    ] {
        if !(24..=256).contains(&v) || !v.is_multiple_of(8) {
            return Err(Refusal::new(
                key,
                v.to_string(),
                "setmaxnreg takes an immediate in steps of 8 (PTX ISA 9.7.19.5)",
                "a multiple of 8 in 24..=256",
            ));
        }
    }
    let warps = s.roles.producer_warps.unwrap_or(1);
    if !(1..=4).contains(&warps) {
        return Err(Refusal::new(
            "roles.producer_warps",
            warps.to_string(),
            "the producer is one warpgroup",
            "1 to 4",
        ));
    }
    // The pool is what the CTA holds at entry: the launch gives each thread the same count, a multiple of 8.
    let threads = 128 * (consumers + 1);
    let pool = target.registers / threads / 8 * 8 * threads;
    let entry = pool / threads;
    let moves = target.family == crate::target::Family::WarpRoles;
    // A thread holds 255 registers at most, also where the pool would give it 256.
    if moves && (pair.0 > entry.min(target.registers_per_thread) || pair.1 < entry) {
        let fact = format!("threads start with {entry}: the producer gives registers up, consumers take them");
        let asked = format!("{} for the producer, {} for consumers", pair.0, pair.1);
        return Err(Refusal::new(
            "roles.consumer_registers",
            asked,
            fact,
            format!("at most {entry}, at least {entry}"),
        ));
    }
    let total = 128 * (pair.0 + consumers * pair.1);
    if total > pool {
        let fact = format!("{total} registers are needed, the CTA holds {pool}");
        return Err(Refusal::new(
            "roles.consumer_registers",
            format!("{} + {consumers} x {}", pair.0, pair.1),
            fact,
            format!("a sum of at most {} per lane of each warpgroup", pool / 128),
        ));
    }
    Ok(pair)
}

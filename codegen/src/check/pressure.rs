//! How many registers the tiles of a consumer take at most, by liveness along one trace.
//!
//! An estimate for a warning, not a rule: the assembler decides, and it also needs registers for addresses and masks.

use crate::role::{Calc, OperandA, Stmt};

use super::access;
use super::flat::{Flat, Site};
use super::trace::{BACK_EDGE, Trace, uniform};

/// Registers for addresses, masks, counters and temporaries that no tile stands for.
pub(super) const RESERVE: u32 = 16;

/// Where tiles hold the most registers of a consumer thread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Peak {
    pub registers: u32,
    pub site: Option<u32>,
    /// The tiles that live there.
    pub tiles: Vec<u32>,
}

/// The largest number of registers that tiles hold at once.
pub(super) fn peak(flat: &Flat<'_>) -> Peak {
    let trace = uniform(flat, 2);
    let held = operands_until(flat, &trace);
    let size = |t: u32| flat.program.tiles[t as usize].layout.registers();
    let mut live = vec![false; flat.program.tiles.len()];
    let mut skipped: Vec<bool> = vec![];
    let (mut now, mut best) = (0u32, Peak::default());
    let set = |live: &mut Vec<bool>, now: &mut u32, t: u32, on: bool| {
        if live[t as usize] != on {
            live[t as usize] = on;
            *now = if on { *now + size(t) } else { *now - size(t) };
        }
    };
    for (at, site) in trace.events.iter().enumerate().rev() {
        for t in &held[at] {
            set(&mut live, &mut now, *t, true);
        }
        if *site == BACK_EDGE {
            continue;
        }
        let Site { stmt, repair, .. } = flat.sites[*site as usize];
        // A warp may pass a repair by: what lives after it lives before it.
        if repair && skipped.is_empty() {
            skipped.clone_from(&live);
        }
        if !repair {
            for t in (0u32..).zip(skipped.drain(..)).filter(|t| t.1) {
                set(&mut live, &mut now, t.0, true);
            }
        }
        let written = access::written(stmt);
        if let Some(t) = written {
            set(&mut live, &mut now, t, true);
        }
        if now > best.registers {
            let tiles = (0u32..).zip(&live).filter(|t| *t.1).map(|t| t.0).collect();
            best = Peak {
                registers: now,
                site: Some(*site),
                tiles,
            };
        }
        if let Some(t) = written
            && overwrites(stmt)
        {
            set(&mut live, &mut now, t, false);
        }
        access::reads(stmt, &mut |t| set(&mut live, &mut now, t, true));
    }
    best
}

fn overwrites(stmt: &Stmt) -> bool {
    match stmt {
        Stmt::Issue(d) => !d.accumulate,
        Stmt::Calc { calc, .. } => !matches!(calc, Calc::ScaleUnlessOne { .. }),
        _ => true,
    }
}

/// Registers that groups own, at the event of the wait that gives them back.
fn operands_until(flat: &Flat<'_>, trace: &Trace) -> Vec<Vec<u32>> {
    let mut out = vec![vec![]; trace.events.len()];
    let mut groups: Vec<Vec<u32>> = vec![];
    for (at, site) in trace.events.iter().enumerate() {
        if *site == BACK_EDGE {
            continue;
        }
        match flat.sites[*site as usize].stmt {
            Stmt::Issue(d) => {
                let a = if let OperandA::Regs(a) = d.a { Some(a.0) } else { None };
                groups.push(a.into_iter().chain([d.acc.0]).collect());
            }
            Stmt::Wait { pending } => {
                let retired = groups.len().saturating_sub(*pending as usize);
                out[at].extend(groups.drain(..retired).flatten());
            }
            _ => {}
        }
    }
    out
}

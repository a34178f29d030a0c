//! Happens-before over shared memory.
//!
//! Actors are warps and asynchronous engines; each has a component in every vector clock. An
//! access is a pair (actor, epoch), and it is ordered before a clock that has reached its epoch.
//! Two clocks travel together: `seen` orders accesses, `fenced` holds only what a proxy fence has
//! made visible to the async proxy (PTX ISA 8.2, 8.9.1). Lanes of one warp share a clock, so races
//! between lanes of one warp are not seen.
//!
//! | actor | epoch | ends when |
//! |---|---|---|
//! | warp | number of its releases | - |
//! | wgmma engine of a warp | number of its wgmma | the warp's `wgmma.wait_group` |
//! | mbarrier | phase + 1, for copies that complete on it | the phase completes |
//! | bulk groups of a thread | group + 1 | its `cp.async.bulk.wait_group` |
//! | cp.async groups of a warp | group + 1 | its `cp.async.wait_group` |

pub(crate) mod clock;
pub(crate) mod shadow;

pub(crate) use clock::Clocks;

use crate::fault::Access;
use shadow::{Event, EventKind, States};

/// Who an actor is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Actor {
    Warp { rank: u32, warp: u32 },
    WgmmaOf { rank: u32, warp: u32 },
    Mbarrier { rank: u32, address: u32 },
    BulkGroups { rank: u32, warp: u32, lane: u32 },
    CpAsync { rank: u32, warp: u32 },
}

/// The happens-before state of one cluster.
#[derive(Debug, Default)]
pub(crate) struct Hb {
    actors: Vec<Actor>,
    pub states: States,
}

impl Hb {
    /// Adds an actor and gives its index.
    pub fn actor(&mut self, actor: Actor) -> u32 {
        self.actors.push(actor);
        (self.actors.len() - 1) as u32
    }

    /// Text of one side of a problem.
    pub fn describe(&self, event: &Event) -> Access {
        let place = match self.actors.get(event.actor as usize) {
            Some(Actor::Warp { rank, warp } | Actor::WgmmaOf { rank, warp } | Actor::CpAsync { rank, warp }) => {
                format!("of warp {warp}{}", of_rank(*rank))
            }
            Some(Actor::Mbarrier { rank, address }) => {
                format!(
                    "to the mbarrier at {address:#x}{}, phase {}",
                    of_rank(*rank),
                    event.epoch.saturating_sub(1)
                )
            }
            Some(Actor::BulkGroups { rank, warp, lane }) => {
                format!("of warp {warp} lane {lane}{}", of_rank(*rank))
            }
            None => "of the host".to_owned(),
        };
        let what = match event.kind {
            EventKind::Load => "a load",
            EventKind::Store => "a store",
            EventKind::AsyncLoad => "the asynchronous copy",
            EventKind::BulkStore => "the bulk store",
            EventKind::Wgmma => "the wgmma",
            EventKind::CpAsync => "the cp.async",
            EventKind::Atomic => "an atomic",
        };
        Access {
            who: format!("{what} {place}"),
            line: event.line,
        }
    }
}

fn of_rank(rank: u32) -> String {
    if rank == 0 {
        String::new()
    } else {
        format!(" of CTA rank {rank}")
    }
}

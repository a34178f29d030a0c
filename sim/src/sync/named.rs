//! Named barriers of a CTA (PTX ISA 9.7.13.1).

use crate::decode::op::Barrier;
use crate::exec::machine::{Exec, Machine, Stop};
use crate::exec::warp::Blocked;
use crate::fault::FindingKind;
use crate::hb::Clocks;

/// Number of named barriers of a CTA.
pub(crate) const NAMED_BARRIERS: usize = 16;

/// One barrier.
#[derive(Clone, Debug, Default)]
pub(crate) struct NamedBarrier {
    /// Threads that the first arrival asked for; `None` for the whole CTA.
    pub asked: Option<Option<u32>>,
    pub arrived: u32,
    pub first_line: u32,
    pub gathering: Clocks,
}

fn refuse(id: u64, what: String) -> Stop {
    Box::new(FindingKind::NamedBarrier { id, what })
}

impl Machine<'_> {
    /// A converged warp (or, not aligned, all its live lanes one after another) arrives.
    pub fn barrier(&mut self, w: usize, barrier: &Barrier, exec: u32) -> Exec<Blocked> {
        let warp = &mut self.warps[w];
        let lane = crate::exec::access::first_lane(exec);
        let id = warp.get(barrier.id, exec)[lane];
        let count = barrier.count.map(|src| warp.get(src, exec)[lane]);
        if id as usize >= NAMED_BARRIERS {
            return Err(refuse(u64::from(id), format!("only 0 to {} exist", NAMED_BARRIERS - 1)));
        }
        let threads = self.cta_of(w).threads.next_multiple_of(32);
        if let Some(count) = count.filter(|c| c % 32 != 0 || *c == 0 || *c > threads) {
            let what = format!("thread count {count}: a multiple of 32 up to the CTA's {threads} threads is allowed");
            return Err(refuse(u64::from(id), what));
        }
        self.note_count(w, id, count)?;
        if exec != self.warps[w].live {
            return Ok(Blocked::BarrierPart {
                id,
                waits: barrier.waits,
            });
        }
        let done = self.arrive_warp(w, id)?;
        match (barrier.waits, done) {
            (false, _) => Ok(Blocked::Ready),
            (true, None) => Ok(Blocked::Named { id }),
            (true, Some(clocks)) => {
                self.warps[w].clocks.join(&clocks);
                Ok(Blocked::Ready)
            }
        }
    }

    /// Participants must agree on the thread count.
    fn note_count(&mut self, w: usize, id: u32, count: Option<u32>) -> Exec {
        let line = self.now.line;
        let cta = self.warps[w].cta;
        let named = &mut self.ctas[cta].named[id as usize];
        match named.asked {
            None => {
                named.asked = Some(count);
                named.first_line = line;
                Ok(())
            }
            Some(asked) if asked == count => Ok(()),
            Some(asked) => {
                let text = |c: Option<u32>| c.map_or("all threads".to_owned(), |c| format!("{c} threads"));
                let what = format!(
                    "this arrival expects {}, the one at line {} expects {}",
                    text(count),
                    named.first_line,
                    text(asked)
                );
                Err(refuse(u64::from(id), what))
            }
        }
    }

    /// Marks one warp's arrival; gives the clocks of all participants when it was the last.
    fn arrive_warp(&mut self, w: usize, id: u32) -> Exec<Option<Clocks>> {
        let clocks = self.warps[w].clocks.clone();
        let cta = self.warps[w].cta;
        let named = &mut self.ctas[cta].named[id as usize];
        named.gathering.join(&clocks);
        named.arrived += 32;
        self.warps[w].tick();
        self.warps[w].unfenced_lanes = 0;
        self.progress += 1;
        self.settle_named(cta, id)
    }

    /// Lets the waiters go when all participants are there.
    fn settle_named(&mut self, cta: usize, id: u32) -> Exec<Option<Clocks>> {
        let live = self.ctas[cta].live_warps as u32 * 32;
        let named = &self.ctas[cta].named[id as usize];
        let Some(asked) = named.asked else { return Ok(None) };
        let expected = asked.unwrap_or(live);
        if named.arrived < expected {
            return Ok(None);
        }
        if named.arrived > expected {
            let what = format!("{} threads arrived where {expected} are expected", named.arrived);
            return Err(refuse(u64::from(id), what));
        }
        let done = std::mem::take(&mut self.ctas[cta].named[id as usize]);
        let (first, count) = (self.ctas[cta].first_warp, self.ctas[cta].n_warps);
        for warp in &mut self.warps[first..first + count] {
            let mut released = false;
            for group in warp.groups.iter_mut().filter(|g| g.blocked == Blocked::Named { id }) {
                group.blocked = Blocked::Ready;
                released = true;
            }
            if released {
                warp.clocks.join(&done.gathering);
            }
        }
        Ok(Some(done.gathering))
    }

    /// Lanes of a warp that came to an unaligned barrier one group after another: when all live
    /// lanes are there, the warp has arrived.
    pub fn settle_parts(&mut self, w: usize) -> Exec {
        let warp = &self.warps[w];
        let Some(first) = warp.groups.first() else {
            return Ok(());
        };
        let Blocked::BarrierPart { id, .. } = first.blocked else {
            return Ok(());
        };
        let all = warp
            .groups
            .iter()
            .all(|g| matches!(g.blocked, Blocked::BarrierPart { id: i, .. } if i == id));
        let mask = warp.groups.iter().fold(0, |m, g| m | g.mask);
        if !all || mask != warp.live {
            return Ok(());
        }
        for group in &mut self.warps[w].groups {
            let waits = matches!(group.blocked, Blocked::BarrierPart { waits: true, .. });
            group.blocked = if waits { Blocked::Named { id } } else { Blocked::Ready };
        }
        self.arrive_warp(w, id).map(|_| ())
    }

    /// A warp is gone: barriers over all threads expect one warp fewer.
    pub fn settle_after_exit(&mut self, cta: usize) -> Exec {
        for id in 0..NAMED_BARRIERS as u32 {
            if self.ctas[cta].named[id as usize].asked == Some(None) && self.ctas[cta].live_warps > 0 {
                self.settle_named(cta, id)?;
            }
        }
        Ok(())
    }
}

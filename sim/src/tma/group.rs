//! Groups of asynchronous copies: bulk groups of a thread, `cp.async` groups of a warp
//! (PTX ISA 9.7.9.25.3, 9.7.9.25.5).

use std::ops::Range;

use super::issue::refuse;
use super::pending::{Action, Pending};
use crate::decode::op::{Addr, CpAsync, Space};
use crate::exec::access::{Need, Place, SharedAccess};
use crate::exec::machine::{Exec, Machine};
use crate::exec::warp::{BulkLane, lanes};
use crate::hb::Actor;
use crate::hb::shadow::EventKind;

/// Stands for the lane in the group of a `cp.async`, which is counted per warp.
const WHOLE_WARP: u32 = u32::MAX;

impl Machine<'_> {
    /// The open bulk group of a lane: its actor and number.
    pub fn open_group(&mut self, w: usize, lane: u32) -> (u32, u32) {
        let warp = &mut self.warps[w];
        if let Some(found) = warp.bulk.iter_mut().find(|b| b.lane == lane) {
            found.open += 1;
            return (found.actor, found.committed);
        }
        let (rank, index) = (warp.env.rank, warp.env.warp);
        let cluster = self.ctas[warp.cta].cluster;
        let actor = self.clusters[cluster].hb.actor(Actor::BulkGroups {
            rank,
            warp: index,
            lane,
        });
        self.warps[w].bulk.push(BulkLane {
            lane,
            actor,
            committed: 0,
            open: 1,
            done: 0,
        });
        (actor, 0)
    }

    pub fn bulk_commit(&mut self, w: usize, exec: u32) {
        for group in self.warps[w].bulk.iter_mut().filter(|b| exec >> b.lane & 1 != 0) {
            group.committed += 1;
            group.open = 0;
        }
    }

    /// Waits until at most `keep` groups of each executing lane are pending: the copies of the
    /// others land now at the latest.
    pub fn bulk_wait(&mut self, w: usize, keep: u32, exec: u32) -> Exec {
        for slot in 0..self.warps[w].bulk.len() {
            let lane = self.warps[w].bulk[slot];
            if exec >> lane.lane & 1 == 0 {
                continue;
            }
            let done = lane.committed.saturating_sub(keep).max(lane.done);
            self.land_groups(w, lane.lane, done)?;
            let warp = &mut self.warps[w];
            warp.bulk[slot].done = done;
            warp.clocks.raise_both(lane.actor, done);
        }
        Ok(())
    }

    /// Lands the copies of a thread's groups below `done`.
    fn land_groups(&mut self, w: usize, lane: u32, done: u32) -> Exec {
        let waited = |p: &Pending| p.now.warp == w && p.group.is_some_and(|(l, group)| l == lane && group < done);
        while let Some(index) = self.pending.iter().position(waited) {
            self.land(index)?;
        }
        Ok(())
    }

    /// `cp.async`: the lanes' copies land together later.
    pub fn cp_async(&mut self, w: usize, copy: &CpAsync, exec: u32) -> Exec {
        let dst = self.addresses(w, &copy.dst, exec);
        let src = self.addresses(w, &copy.src, exec);
        let read = copy.src_bytes.map(|s| self.warps[w].get(s, exec));
        let bytes = u64::from(copy.bytes);
        let need = Need {
            what: "cp.async destination",
            bytes,
            align: bytes,
        };
        let mut copies = Vec::new();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        let own = self.warps[w].cta;
        for lane in lanes(exec) {
            let Place::Shared(_, at) = self.place(w, Space::SharedCta, dst[lane], need)? else {
                return Err(refuse("the destination is not in shared memory".to_owned()));
            };
            self.place(
                w,
                Space::Global,
                src[lane],
                Need {
                    what: "cp.async source",
                    ..need
                },
            )?;
            let read = read.map_or(copy.bytes, |r| r[lane].min(copy.bytes)) as usize;
            copies.push((src[lane], at, read));
            ranges.push(at..at + copy.bytes as usize);
        }
        let actor = self.cp_actor(w);
        let epoch = self.warps[w].cp_committed + 1;
        self.warps[w].cp_open += 1;
        self.warps[w].unfenced_lanes |= exec;
        let engine = Some((actor, epoch));
        self.touch(
            w,
            own,
            &ranges,
            SharedAccess {
                kind: EventKind::CpAsync,
                write: true,
                partial: false,
                engine,
            },
        );
        let action = Action::CpAsync {
            cta: own,
            bytes: copy.bytes as usize,
            copies,
        };
        self.pending.push(Pending {
            action,
            now: self.now,
            cta: own,
            group: Some((WHOLE_WARP, epoch - 1)),
        });
        Ok(())
    }

    fn cp_actor(&mut self, w: usize) -> u32 {
        if let Some(actor) = self.warps[w].cp_actor {
            return actor;
        }
        let warp = &self.warps[w];
        let (rank, index) = (warp.env.rank, warp.env.warp);
        let cluster = self.ctas[warp.cta].cluster;
        let actor = self.clusters[cluster].hb.actor(Actor::CpAsync { rank, warp: index });
        self.warps[w].cp_actor = Some(actor);
        actor
    }

    pub fn cp_async_commit(&mut self, w: usize) {
        self.warps[w].cp_committed += 1;
        self.warps[w].cp_open = 0;
    }

    /// Groups are counted per warp: lanes that differ in what they commit are not told apart.
    pub fn cp_async_wait(&mut self, w: usize, done: u32) -> Exec {
        self.land_groups(w, WHOLE_WARP, done)?;
        if let Some(actor) = self.warps[w].cp_actor {
            // Ordered for the generic proxy only: cp.async is not an async-proxy operation.
            self.warps[w].clocks.seen.raise(actor, done);
        }
        Ok(())
    }

    /// `cp.async.wait_all` also takes what no commit has closed.
    pub fn cp_async_wait_all(&mut self, w: usize) -> Exec {
        self.cp_async_commit(w);
        self.cp_async_wait(w, self.warps[w].cp_committed)
    }

    /// `cp.async.mbarrier.arrive`: the warp's copies so far are complete when it arrives.
    pub fn cp_async_arrive(&mut self, w: usize, addr: &Addr, noinc: bool, exec: u32) -> Exec {
        self.cp_async_wait_all(w)?;
        let address = self.address(w, addr, exec);
        let at = self.mbar(w, Space::SharedCta, address, "cp.async.mbarrier.arrive")?;
        // Without `.noinc` the pending count is raised first, so that the arrival cancels it.
        let count = if noinc { u64::from(exec.count_ones()) } else { 0 };
        self.mbar_arrivals(w, at, count, true)?;
        self.warps[w].tick();
        Ok(())
    }
}

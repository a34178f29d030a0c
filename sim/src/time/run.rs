//! The scheduler of a timed run: the smallest clock goes next.

use super::report::WaitKind;
use super::state::{Event, Stall};
use crate::decode::op::Op;
use crate::exec::machine::{Exec, Machine};
use crate::exec::step::Flow;
use crate::exec::warp::Blocked;
use crate::fault::{Fault, FindingKind};

/// Rounds of timed-out waits without any visible event after which nothing will happen any more.
const HOPELESS_ROUNDS: u32 = 4;
/// What a `cp.async` group is filed under: it is counted per warp.
const WHOLE_WARP: u32 = u32::MAX;

impl Machine<'_> {
    /// Runs the grid to its end, under the clock.
    pub(crate) fn run_timed(&mut self) -> Result<(), Fault> {
        let result = self.run_timed_all();
        self.finish(result)
    }

    fn run_timed_all(&mut self) -> Exec {
        self.fill_device();
        let slots = self.kernel.reg_names.len() + self.kernel.pred_names.len();
        let (ctas, warps) = (self.ctas.len(), self.warps.len());
        if let Some(time) = &mut self.time {
            time.fit(ctas, warps, slots);
        }
        let mut hopeless = 0;
        while self.clusters.iter().any(|c| c.active) {
            let warp = self.time_pick();
            let event = self.time.as_ref().and_then(|t| t.next_event());
            match (warp, event) {
                (None, None) => {
                    hopeless = if self.time_seen() { hopeless + 1 } else { 0 };
                    if hopeless >= HOPELESS_ROUNDS || !self.time_out() {
                        return Err(self.deadlock());
                    }
                    self.time_give_up();
                }
                (Some((clock, w)), event) if event.is_none_or(|at| at > clock) => self.time_step(w)?,
                _ => self.time_event()?,
            }
            self.time_wake();
        }
        if let Some(time) = &mut self.time {
            time.tensor_close();
        }
        Ok(())
    }

    /// Whether nothing happened since the last look.
    fn time_seen(&self) -> bool {
        self.time.as_ref().is_some_and(|t| t.timeout_progress == self.progress)
    }

    /// Suspended waits end without success, as hardware's do after a while.
    fn time_give_up(&mut self) {
        let progress = self.progress;
        let Some(time) = &mut self.time else { return };
        time.timeout_progress = progress;
        time.now += time.params.try_wait_timeout as u64;
        for w in 0..time.warps.len() {
            if time.warps[w].stall.is_some_and(|s| s.kind == WaitKind::Mbarrier) {
                time.wake(w);
            }
        }
    }

    /// The warp with the smallest clock that does not stand still.
    fn time_pick(&self) -> Option<(u64, usize)> {
        let time = self.time.as_ref()?;
        let going = time.warps.iter().enumerate();
        let going = going.filter(|(w, t)| t.stall.is_none() && self.warps[*w].live != 0);
        let first = going.min_by_key(|(w, t)| (t.clock, t.turn, *w));
        first.map(|(w, t)| (t.clock, w))
    }

    fn time_event(&mut self) -> Exec {
        let Some(event) = self.time.as_mut().and_then(|t| t.pop_event()) else {
            return Ok(());
        };
        match event {
            Event::Land(pending) => self.time_land(*pending)?,
            Event::TensorDone(cta, group) => self.time_wgmma_done(cta, group),
            Event::TensorTry(cta) => {
                if let Some(time) = &mut self.time {
                    time.tensor_try(cta);
                }
            }
            Event::TensorFree(cta) => {
                if let Some(time) = &mut self.time {
                    time.tensor_free(cta);
                }
            }
        }
        Ok(())
    }

    /// Lets warps go whose wait is over.
    fn time_wake(&mut self) {
        match &mut self.time {
            Some(time) if time.seen_progress != self.progress => time.seen_progress = self.progress,
            _ => return,
        }
        for w in 0..self.warps.len() {
            let stalled = self.time.as_ref().is_some_and(|t| t.warps[w].stall.is_some());
            if stalled
                && self.can_run(w)
                && let Some(time) = &mut self.time
            {
                time.wake(w);
            }
        }
    }

    /// One instruction of warp `w`, or a later clock when it cannot go yet.
    fn time_step(&mut self, w: usize) -> Exec {
        let Some(index) = self.select(w)? else {
            self.time_stall(w);
            return Ok(());
        };
        let (pc, mask) = (self.warps[w].groups[index].pc, self.warps[w].groups[index].mask);
        let cta = self.warps[w].cta;
        if self.counts.warp_instructions >= self.budget {
            self.now.warp = w;
            return Err(Box::new(FindingKind::Budget {
                budget: self.budget,
                waits: self.waits(),
            }));
        }
        let drained = self.time_drained(w, pc, mask);
        let progress = self.progress;
        let Some(time) = &mut self.time else { return Ok(()) };
        time.now = time.now.max(time.warps[w].clock);
        time.seen_progress = progress;
        let label = time.labels.of(pc);
        if time.costs[pc as usize].ordered {
            let mut at = time.ordered_at(w, pc);
            if drained > at {
                let since = time.warps[w].clock;
                let (kind, latency) = (WaitKind::Drain, 0);
                time.waited(
                    w,
                    Stall {
                        since,
                        kind,
                        label,
                        latency,
                    },
                    drained,
                );
                at = drained;
            }
            if at > time.warps[w].clock {
                time.warps[w].clock = at;
                return Ok(());
            }
            if time.costs[pc as usize].issues && time.hold_slot(w, cta) {
                return Ok(());
            }
            time.drain(w);
        }
        time.region(w, label);
        time.take_turn(w);
        time.charge(w, cta, pc);
        let clock = time.warps[w].clock;
        self.warps[w].cycles = Some(clock);
        let flow = self.step(w)?;
        self.time_copies();
        match flow {
            Flow::Next => {}
            Flow::Blocked => self.time_stall(w),
            Flow::Gone => self.time_gone(w),
        }
        Ok(())
    }

    /// When the copies are complete that the instruction waits for by group.
    fn time_drained(&self, w: usize, pc: u32, mask: u32) -> u64 {
        let warp = &self.warps[w];
        let bulk = |lane: u32| {
            let own = warp
                .bulk
                .iter()
                .find(|b| b.lane == lane && mask >> lane.min(31) & 1 != 0);
            own.map(|b| b.committed)
        };
        let whole = |lane: u32| (lane == WHOLE_WARP).then_some(warp.cp_committed);
        match self.kernel.code[pc as usize].op {
            Op::BulkWait { keep } => self.time_groups(w, (keep, &bulk)),
            Op::CpAsyncWait { keep } => self.time_groups(w, (keep, &whole)),
            Op::CpAsyncWaitAll | Op::CpAsyncMbarArrive { .. } => {
                self.time_groups(w, (0, &|lane| whole(lane).map(|c| c + 1)))
            }
            _ => 0,
        }
    }

    /// Warp `w` stands still: why, and how long it takes to go on.
    fn time_stall(&mut self, w: usize) {
        let Some(group) = self.warps[w].groups.iter().find(|g| g.blocked != Blocked::Ready) else {
            return;
        };
        let blocked = group.blocked.clone();
        let at = match blocked {
            Blocked::Named { .. } | Blocked::BarrierPart { .. } => group.pc.saturating_sub(1),
            _ => group.pc,
        };
        let on = match (&blocked, self.awaited_product(w, at)) {
            (Blocked::Warpgroup, Some(product)) => product,
            _ => at,
        };
        let Some(time) = &mut self.time else { return };
        let p = &time.params;
        let (kind, latency) = match blocked {
            Blocked::Mbarrier { .. } => (WaitKind::Mbarrier, p.mbarrier_latency),
            Blocked::Warpgroup => (WaitKind::Tensor, 0.0),
            Blocked::Pool => (WaitKind::Registers, p.setmaxnreg_latency),
            _ => (WaitKind::Barrier, p.barrier_latency),
        };
        let label = time.labels.of(on);
        let since = time.warps[w].clock;
        time.warps[w].stall = Some(Stall {
            since,
            kind,
            label,
            latency: latency as u64,
        });
    }

    /// The program counter of the product that a `wgmma.wait_group` at `pc` waits for.
    fn awaited_product(&self, w: usize, pc: u32) -> Option<u32> {
        let Op::WgmmaWait { keep } = self.kernel.code[pc as usize].op else {
            return None;
        };
        let warp = &self.warps[w];
        let last = warp.wgmma_groups.len().checked_sub(keep as usize + 1)?;
        let warpgroup = &self.ctas[warp.cta].warpgroups[warp.env.warp as usize / crate::wgmma::WARPS];
        let index = warp.wgmma_groups[last].checked_sub(warpgroup.executed + 1)?;
        warpgroup.queue.get(index as usize).map(|o| o.pc)
    }

    /// A warp has ended; when its CTA was the last of a cluster, the next one starts in its place.
    fn time_gone(&mut self, w: usize) {
        let cta = self.warps[w].cta;
        let restarted = self.warps[w].live != 0;
        let (first, count) = (self.ctas[cta].first_warp, self.ctas[cta].n_warps);
        let Some(time) = &mut self.time else { return };
        time.close(w);
        if restarted {
            let start = time.warps[w].clock + time.params.exit_latency as u64;
            for warp in &mut time.warps[first..first + count] {
                warp.clock = start;
                warp.stall = None;
                warp.ready.fill(start);
                warp.groups.clear();
            }
        }
    }
}

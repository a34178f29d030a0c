//! Which warp runs next, and when asynchronous work happens.
//!
//! The seed gives the run a temper: how long a warp runs on, how eager copies and wgmma are, which
//! warps lag. Over a few seeds producers run far ahead, starve, or keep pace.

use super::machine::{Exec, Machine};
use super::step::Flow;
use super::warp::Blocked;
use crate::fault::{Fault, Finding, FindingKind, Wait};

/// Rounds of timed-out waits without any visible event after which nothing will happen any more.
const HOPELESS_ROUNDS: u32 = 4;

/// Tendencies of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Temper {
    /// Longest turn of a warp, in instructions.
    turn: usize,
    /// A pending copy lands once in this many turns.
    copies: usize,
    /// A pending wgmma runs once in this many turns.
    wgmma: usize,
    /// Every warp with index congruent to `laggard` modulo this is slow; 0 for none.
    laggards: usize,
    laggard: usize,
}

impl Machine<'_> {
    fn temper(&mut self) -> Temper {
        let pick = |rng: &mut super::rng::Rng, table: &[usize]| table[rng.below(table.len())];
        let rng = &mut self.rng;
        let laggards = pick(rng, &[0, 2, 4, 5]);
        Temper {
            turn: pick(rng, &[4, 32, 200]),
            copies: pick(rng, &[1, 3, 12]),
            wgmma: pick(rng, &[1, 4, 64]),
            laggards,
            laggard: rng.below(laggards.max(1)),
        }
    }

    /// Runs the grid to its end.
    pub fn run(&mut self) -> Result<(), Fault> {
        let result = self.run_all();
        self.finish(result)
    }

    /// Turns an illegal operation into the fault that a caller sees.
    pub fn finish(&mut self, result: Exec) -> Result<(), Fault> {
        self.flush_if_any();
        result.map_err(|kind| Fault::Stopped {
            stopped_by: Box::new(Finding {
                site: self.site(),
                kind: *kind,
                times: 1,
            }),
            findings: std::mem::take(&mut self.log.findings),
        })
    }

    fn flush_if_any(&mut self) {
        if !self.warps.is_empty() {
            self.flush_notes();
        }
    }

    fn run_all(&mut self) -> Exec {
        let temper = self.temper();
        self.fill_device();
        let mut quiet_rounds = 0;
        let mut seen_progress = 0;
        while self.clusters.iter().any(|c| c.active) {
            self.async_events(temper)?;
            if let Some(w) = self.pick(temper) {
                self.turn(w, temper)?;
                continue;
            }
            if !self.pending.is_empty() {
                let index = self.rng.below(self.pending.len());
                self.land(index)?;
                continue;
            }
            quiet_rounds = if self.progress == seen_progress {
                quiet_rounds + 1
            } else {
                0
            };
            seen_progress = self.progress;
            if quiet_rounds >= HOPELESS_ROUNDS || !self.time_out() {
                return Err(self.deadlock());
            }
        }
        Ok(())
    }

    fn async_events(&mut self, temper: Temper) -> Exec {
        if !self.pending.is_empty() && self.rng.one_in(temper.copies) {
            let index = self.rng.below(self.pending.len());
            self.land(index)?;
        }
        if self.rng.one_in(temper.wgmma) {
            let cta = self.rng.below(self.ctas.len());
            let groups = self.ctas[cta].warpgroups.len();
            if groups > 0 {
                let group = self.rng.below(groups);
                self.wgmma_run_one(cta, group)?;
            }
        }
        Ok(())
    }

    /// A warp that can run, by chance.
    fn pick(&mut self, temper: Temper) -> Option<usize> {
        let count = self.warps.len();
        let start = self.rng.below(count);
        let mut fallback = None;
        for step in 0..count {
            let w = (start + step) % count;
            if !self.can_run(w) {
                continue;
            }
            let slow = temper.laggards != 0 && w % temper.laggards == temper.laggard;
            if !slow || self.rng.one_in(8) {
                return Some(w);
            }
            fallback = fallback.or(Some(w));
        }
        fallback
    }

    /// Unblocks groups whose wait is over; says whether the warp has something to run.
    pub fn can_run(&mut self, w: usize) -> bool {
        if self.warps[w].live == 0 {
            return false;
        }
        let mut ready = false;
        let mut together = 0;
        for index in 0..self.warps[w].groups.len() {
            let over = match self.warps[w].groups[index].blocked {
                Blocked::Ready => true,
                Blocked::Together => {
                    together += 1;
                    false
                }
                Blocked::BarrierPart { .. } | Blocked::Named { .. } => false,
                Blocked::Mbarrier {
                    cta,
                    index: barrier,
                    phase,
                } => self.mbar_over(w, (cta, barrier), phase),
                Blocked::Cluster { generation } => {
                    self.clusters[self.cta_of(w).cluster].barrier.generation > generation
                }
                // Tried again: the others may have come on since.
                Blocked::Warpgroup => self.wgmma_wait_over(w, index),
                Blocked::Pool => self.pool_over(w, index),
            };
            if over {
                self.warps[w].groups[index].blocked = Blocked::Ready;
                ready = true;
            }
        }
        // Groups that wait only for each other are resolved, or reported, by the next step.
        ready || together == self.warps[w].groups.len()
    }

    fn mbar_over(&mut self, w: usize, (cta, index): (usize, usize), phase: u64) -> bool {
        let Some(barrier) = self.ctas[cta].mbarriers.get(index) else {
            return true;
        };
        let now = barrier.phase;
        if now > phase + 1 {
            let mbarrier = self.mbar_name(cta, index);
            let group = self.warps[w]
                .groups
                .iter()
                .find(|g| matches!(g.blocked, Blocked::Mbarrier { .. }));
            if let Some(group) = group {
                self.now.warp = w;
                self.now.line = self.kernel.code[group.pc as usize].line;
                self.now.exec = group.mask;
            }
            self.find(FindingKind::MissedPhase {
                mbarrier,
                waited: phase,
                now,
            });
        }
        now > phase
    }

    fn turn(&mut self, w: usize, temper: Temper) -> Exec {
        let length = 1 + self.rng.below(temper.turn);
        for _ in 0..length {
            if self.counts.warp_instructions >= self.budget {
                self.now.warp = w;
                return Err(Box::new(FindingKind::Budget {
                    budget: self.budget,
                    waits: self.waits(),
                }));
            }
            match self.step(w)? {
                Flow::Next => {}
                Flow::Blocked | Flow::Gone => break,
            }
        }
        Ok(())
    }

    /// Suspended mbarrier waits give up, as hardware does after a while; false when there are none.
    pub fn time_out(&mut self) -> bool {
        let mut any = false;
        for warp in &mut self.warps {
            for group in &mut warp.groups {
                if matches!(group.blocked, Blocked::Mbarrier { .. }) {
                    group.blocked = Blocked::Ready;
                    group.timed_out = true;
                    any = true;
                }
            }
        }
        any
    }

    pub fn deadlock(&mut self) -> Box<FindingKind> {
        self.mbar_starved();
        self.wgmma_check_incomplete();
        self.pool_starved();
        let waits = self.waits();
        let first = self.warps.iter().position(|w| w.live != 0).unwrap_or(0);
        self.now.warp = first;
        self.now.exec = u32::MAX;
        self.now.line = waits.first().map_or(0, |w| w.line);
        Box::new(FindingKind::Deadlock { waits })
    }

    /// Who waits for what, for reports.
    pub fn waits(&self) -> Vec<Wait> {
        let mut out = Vec::new();
        for warp in &self.warps {
            for group in &warp.groups {
                let at = match group.blocked {
                    Blocked::Named { .. } | Blocked::BarrierPart { .. } => group.pc.saturating_sub(1),
                    _ => group.pc,
                };
                let line = self.kernel.code[at as usize].line;
                let on = self.wait_text(warp.cta, &group.blocked);
                out.push(Wait {
                    cta: warp.env.cta_id,
                    warp: warp.env.warp,
                    line,
                    source: self.kernel.lines.at(line),
                    on,
                });
            }
        }
        out
    }

    fn wait_text(&self, cta: usize, blocked: &Blocked) -> String {
        match blocked {
            Blocked::Ready => "nothing (it runs)".to_owned(),
            Blocked::Together => "the other lanes of its warp to come here".to_owned(),
            Blocked::BarrierPart { id, .. } => format!("the other lanes of its warp at named barrier {id}"),
            Blocked::Named { id } => {
                let named = &self.ctas[cta].named[*id as usize];
                let live = self.ctas[cta].live_warps * 32;
                let expected = named.asked.flatten().map_or(live, |c| c as usize);
                format!("named barrier {id}: {} of {expected} threads arrived", named.arrived)
            }
            Blocked::Mbarrier { cta, index, phase } => self.mbar_status(*cta, *index, *phase),
            Blocked::Cluster { .. } => {
                let barrier = &self.clusters[self.ctas[cta].cluster].barrier;
                format!("the cluster barrier: {} threads arrived", barrier.arrived)
            }
            Blocked::Warpgroup => "the other warps of its warpgroup to issue their wgmma".to_owned(),
            Blocked::Pool => format!("registers: {} are free in the CTA's pool", self.ctas[cta].pool_free),
        }
    }
}

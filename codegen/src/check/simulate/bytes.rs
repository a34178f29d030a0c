//! Reads and writes of shared memory by consumer warps, and what must come before them.

use super::super::violation::{At, Rule, Sink};
use super::Run;
use super::setup::{OWN, Spot, WHOLE};

impl Run<'_, '_> {
    /// A read must follow the fill, and nobody may have staged over what it reads.
    fn reads(&self, sink: &mut Sink<'_, '_>, a: usize, (at, part): (usize, usize), site: u32) {
        let (clock, region) = (&self.actors[a].clock, &self.regions[at]);
        if region.filled > clock[region.by] {
            sink.fail(
                Rule::SlotOverwritten,
                At::Site(site),
                "a read of the tile that was acquired",
                "the slot may be refilled before it",
            );
        }
        let mut writers = self.consumers().filter(|b| part == WHOLE || *b == a);
        if region.buffer {
            // Every row that is read was staged, made visible, and that before.
            if let Some(b) = writers.find(|b| region.visible[*b] == 0 || region.visible[*b] > clock[*b]) {
                let found = format!("rows of consumer {} may be staged later", self.seat(b).0);
                sink.fail(
                    Rule::StagedNotVisible,
                    At::Site(site),
                    "a tile that was made visible before",
                    found,
                );
            }
        } else if let Some(b) = writers.find(|b| region.staged[*b] > 0) {
            sink.fail(
                Rule::ReadAfterStage,
                At::Site(site),
                "the tile that was loaded",
                format!("consumer {} staged over it", self.seat(b).0),
            );
        }
    }

    pub(super) fn issue(&mut self, sink: &mut Sink<'_, '_>, a: usize, reads: [Option<(Spot, usize)>; 2], site: u32) {
        let group = reads.map(|r| r.and_then(|(spot, part)| self.region(a, spot).map(|at| (at, part))));
        for (at, part) in group.into_iter().flatten() {
            self.reads(sink, a, (at, part), site);
            self.regions[at].pending[part][a] += 1;
        }
        self.actors[a].groups.push(group);
    }

    pub(super) fn wait(&mut self, a: usize, pending: usize) {
        let actor = &mut self.actors[a];
        let retired = actor.groups.len().saturating_sub(pending);
        for (at, part) in actor.groups.drain(..retired).flatten().flatten() {
            let region = &mut self.regions[at];
            region.pending[part][a] -= 1;
            region.ends[part][a] = actor.clock[a];
        }
    }

    pub(super) fn read(&mut self, sink: &mut Sink<'_, '_>, a: usize, reads: [Option<(Spot, usize)>; 2], site: u32) {
        for (spot, part) in reads.into_iter().flatten() {
            let Some(at) = self.region(a, spot) else { continue };
            self.reads(sink, a, (at, part), site);
            self.regions[at].ends[part][a] = self.actors[a].clock[a];
        }
    }

    pub(super) fn stage(&mut self, sink: &mut Sink<'_, '_>, a: usize, (spot, reshaped): (Spot, bool), site: u32) {
        let Some(at) = self.region(a, spot) else { return };
        let (clock, region, (group, _)) = (self.actors[a].clock, &self.regions[at], self.seat(a));
        if region.filled > clock[region.by] {
            sink.fail(
                Rule::SlotOverwritten,
                At::Site(site),
                "a slot that is still held",
                "the slot may be refilled meanwhile",
            );
        }
        // Rows of another shape lie elsewhere: then the rows that other warps read count too.
        let parts = if reshaped { OWN..=WHOLE } else { WHOLE..=WHOLE };
        let reads = |b: usize, k: usize| region.pending[k][b] > 0 || region.ends[k][b] > clock[b];
        let reader = self
            .consumers()
            .find(|b| *b != a && parts.clone().any(|k| reads(*b, k)));
        if let Some(b) = reader {
            sink.fail(
                Rule::StageWhileRead,
                At::Site(site),
                "bytes that no other warp reads",
                format!("consumer {} may still read them", self.seat(b).0),
            );
        }
        if region.storing[group] || region.stored[group] > clock[self.storer(group)] {
            sink.fail(
                Rule::StagingBusy,
                At::Site(site),
                "`staging free` after the store before",
                "a store that may still read the buffer",
            );
        }
        let region = &mut self.regions[at];
        region.staged[a] = clock[a];
        region.visible[a] = 0;
    }

    /// `staged visible`: the proxy fence of one warp.
    pub(super) fn make_visible(&mut self, a: usize) {
        if self.actors[a].ticket.is_some() {
            return;
        }
        let stamp = self.tick(a);
        for region in self.regions.iter_mut().filter(|r| r.staged[a] > 0) {
            region.visible[a] = stamp;
        }
    }

    /// `staging free`: the storing warp waits until its stores have read.
    pub(super) fn stores_end(&mut self, a: usize) {
        let (group, warp) = self.seat(a);
        if warp != 0 {
            return;
        }
        let stamp = self.tick(a);
        for region in &mut self.regions {
            if std::mem::take(&mut region.storing[group]) {
                region.stored[group] = stamp;
            }
        }
    }

    pub(super) fn store(&mut self, a: usize, spot: Spot) -> bool {
        if !self.group_barrier(a) {
            return false;
        }
        let (group, warp) = self.seat(a);
        if warp == 0
            && let Some(at) = self.region(a, spot)
        {
            self.regions[at].storing[group] = true;
        }
        true
    }
}

//! The copy engine of an SM and its share of L2.

use super::report::{Lane, SpanKind};
use super::state::{Event, Time};
use crate::exec::machine::Machine;
use crate::tma::pending::{Action, Pending};

/// When the engine and the path to L2 have room.
#[derive(Clone, Debug, Default)]
pub(crate) struct CopyEngine {
    engine_free: u64,
    l2_free: f64,
    /// Bytes that still have to pass the shared-memory port; products and warps go first.
    pub smem_due: f64,
}

impl Time {
    /// When a copy of `bytes` that is issued now is complete.
    fn copy_ends(&mut self, cta: usize, bytes: u64, store: bool) -> u64 {
        let p = &self.params;
        let engine = &mut self.copies[cta];
        let start = engine.engine_free.max(self.now);
        engine.engine_free = start + p.tma_issue_cycles as u64;
        engine.l2_free = engine.l2_free.max(start as f64) + bytes as f64 / p.l2_bytes_per_cycle;
        let latency = if store { p.store_read_latency } else { p.tma_latency };
        let end = (engine.l2_free + latency) as u64;
        self.activity.l2_bytes += bytes;
        self.activity.smem_bytes += bytes;
        self.copies[cta].smem_due += bytes as f64;
        end
    }
}

impl Machine<'_> {
    /// Gives the copies that the last instruction issued a time of arrival.
    pub(crate) fn time_copies(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            let bytes = self.copy_bytes(&pending.action);
            let store = pending.action.writes().is_empty();
            let Some(time) = &mut self.time else { return };
            let end = time.copy_ends(pending.cta, bytes, store);
            let label = time.labels.of(pending.now.pc);
            let start = time.now;
            time.span(
                Lane::Copies(pending.cta as u32),
                label,
                (start, end),
                SpanKind::Copy(bytes),
            );
            if let Some((lane, group)) = pending.group {
                time.warps[pending.now.warp].groups.push((lane, group, end));
            }
            time.at(end, Event::Land(Box::new(pending)));
        }
    }

    fn copy_bytes(&self, action: &Action) -> u64 {
        match action {
            Action::TensorLoad { map, .. } | Action::TensorStore { map, .. } => self.maps[*map].box_bytes(),
            Action::Load { bytes, .. } | Action::Store { bytes, .. } | Action::Peer { bytes, .. } => *bytes as u64,
            Action::CpAsync { bytes, copies, .. } => (bytes * copies.len()) as u64,
        }
    }

    /// When the groups of warp `w` that a wait names are complete: those of a lane of `exec` below `done`.
    pub(crate) fn time_groups(&self, w: usize, (keep, committed): (u32, &dyn Fn(u32) -> Option<u32>)) -> u64 {
        let Some(time) = &self.time else { return 0 };
        let over = |(lane, group, end): &(u32, u32, u64)| {
            let done = committed(*lane)?.saturating_sub(keep);
            (*group < done).then_some(*end)
        };
        time.warps[w].groups.iter().filter_map(over).max().unwrap_or(0)
    }

    /// Completes a copy.
    pub(crate) fn time_land(&mut self, pending: Pending) -> crate::exec::machine::Exec {
        self.pending.push(pending);
        self.land(self.pending.len() - 1)
    }
}

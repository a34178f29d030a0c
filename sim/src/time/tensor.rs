//! The tensor core of an SM: products of its warpgroups, one at a time.

use std::collections::VecDeque;

use super::report::{Lane, SpanKind};
use super::state::{Event, PARTS, Time};
use crate::decode::op::{Op, Wgmma, WgmmaA};
use crate::exec::machine::Machine;
use crate::wgmma::WARPS;

/// Rows of a product of one warpgroup, and its depth.
const M: u64 = 64;
const K: u64 = 16;
/// Bytes of an operand's element.
const ELEM_BYTES: u64 = 2;

/// A product that waits.
#[derive(Clone, Copy, Debug)]
struct Queued {
    group: usize,
    issued: u64,
    cycles: u64,
    smem_bytes: u64,
    label: u32,
}

/// Queue and state of one tensor core.
#[derive(Debug, Default)]
pub(crate) struct TensorCore {
    queues: Vec<VecDeque<Queued>>,
    pub running: bool,
    last_group: usize,
    free_since: u64,
    /// Last span, to join neighbours.
    span: Option<(usize, u32, u64, u64)>,
}

impl Time {
    /// All warps of a warpgroup have issued a product.
    pub fn tensor_issue(&mut self, cta: usize, group: usize, op: &Wgmma, pc: u32) {
        let n = u64::from(op.n);
        let a_bytes = match op.a {
            WgmmaA::Desc(_) => M * K * ELEM_BYTES,
            WgmmaA::Regs(_) => 0,
        };
        let issued = self.now + self.params.wgmma_start_latency as u64;
        let queued = Queued {
            group,
            issued,
            cycles: (n as f64 / self.params.wgmma_n_per_cycle + self.params.wgmma_gap).ceil() as u64,
            smem_bytes: a_bytes + n * K * ELEM_BYTES,
            label: self.labels.of(pc),
        };
        self.activity.mma_flops += 2 * M * n * K;
        let core = &mut self.tensor[cta];
        if core.queues.len() <= group {
            core.queues.resize_with(group + 1, VecDeque::new);
        }
        core.queues[group].push_back(queued);
        self.at(issued, Event::TensorTry(cta));
    }

    /// Starts a product when the core is free.
    pub fn tensor_try(&mut self, cta: usize) {
        if self.tensor[cta].running {
            return;
        }
        let Some(group) = self.tensor_pick(cta) else { return };
        let Some(next) = self.tensor[cta].queues[group].pop_front() else {
            return;
        };
        let delay = self.parts[cta * PARTS..][..PARTS]
            .iter_mut()
            .map(|part| std::mem::take(&mut part.delay))
            .fold(0.0, f64::max);
        let (now, lead) = (self.now, self.params.wgmma_smem_lead as u64);
        let through = self.smem(cta, now, next.smem_bytes).saturating_sub(lead);
        let own = (now + next.cycles + delay as u64).max(through);
        let end = own + self.copies_through(cta, (now, own), next.smem_bytes);
        let core = &mut self.tensor[cta];
        core.running = true;
        core.free_since = end;
        core.last_group = group;
        self.activity.tensor_cycles += end - now;
        self.tensor_span(cta, &next, end);
        self.at(end, Event::TensorFree(cta));
        let done = end + self.params.wgmma_done_latency as u64;
        self.at(done, Event::TensorDone(cta, group));
    }

    /// Copies use the port where a product leaves room. Gives the cycles by which they hold the product up when too many
    /// of their bytes wait.
    fn copies_through(&mut self, cta: usize, (start, end): (u64, u64), product_bytes: u64) -> u64 {
        let rate = self.params.smem_bytes_per_cycle;
        let idle = start.saturating_sub(self.tensor[cta].free_since) as f64 * rate;
        let room = ((end - start) as f64 * rate - product_bytes as f64).max(0.0);
        let due = &mut self.copies[cta].smem_due;
        *due = (*due - idle - room).max(0.0);
        let excess = (*due - self.params.smem_copy_queue).max(0.0);
        *due -= excess;
        (excess / rate) as u64
    }

    /// The warpgroup whose product is next.
    fn tensor_pick(&self, cta: usize) -> Option<usize> {
        let core = &self.tensor[cta];
        let count = core.queues.len();
        let ready = core.queues.iter().enumerate().filter_map(|(group, queue)| {
            let head = queue.front().filter(|q| q.issued <= self.now)?;
            let turn = (group + count - core.last_group - 1) % count;
            let order = if self.params.wgmma_round_robin > 0.0 {
                0
            } else {
                head.issued
            };
            Some((order, turn, group))
        });
        ready.min().map(|(.., group)| group)
    }

    fn tensor_span(&mut self, cta: usize, next: &Queued, end: u64) {
        if self.spans.is_none() {
            return;
        }
        let now = self.now;
        match &mut self.tensor[cta].span {
            Some((group, label, _, until)) if *group == next.group && *label == next.label && *until == now => {
                *until = end
            }
            before => {
                let old = before.replace((next.group, next.label, now, end));
                if let Some((group, label, start, until)) = old {
                    self.span(
                        Lane::Tensor(cta as u32),
                        label,
                        (start, until),
                        SpanKind::Product(group as u32),
                    );
                }
            }
        }
    }

    /// Writes the open spans of the tensor cores.
    pub fn tensor_close(&mut self) {
        for cta in 0..self.tensor.len() {
            if let Some((group, label, start, until)) = self.tensor[cta].span.take() {
                self.span(
                    Lane::Tensor(cta as u32),
                    label,
                    (start, until),
                    SpanKind::Product(group as u32),
                );
            }
        }
    }
}

impl Machine<'_> {
    /// Queues a complete operation; its accumulators take their next value.
    pub(crate) fn time_wgmma(&mut self, cta: usize, group: usize, pc: u32, scale_d: bool) {
        let kernel = self.kernel;
        let Op::Wgmma(op) = &kernel.code[pc as usize].op else {
            return;
        };
        let Some(time) = &mut self.time else { return };
        time.tensor_issue(cta, group, op, pc);
        if scale_d {
            return;
        }
        let first = self.ctas[cta].first_warp + group * WARPS;
        for (w, warp) in self.warps.iter_mut().enumerate().skip(first).take(WARPS) {
            let value = time.heights.next(w, time.rise_share).to_bits();
            for slot in &op.d {
                warp.regs[*slot as usize] = [value; 32];
            }
        }
    }

    /// The oldest operation of a warpgroup is complete.
    pub(crate) fn time_wgmma_done(&mut self, cta: usize, group: usize) {
        let warpgroup = &mut self.ctas[cta].warpgroups[group];
        if warpgroup.queue.pop_front().is_some() {
            warpgroup.executed += 1;
            self.progress += 1;
        }
    }
}

//! Issue, completion and checks of wgmma.

use super::descriptor::{Descriptor, K};
use super::math::{M, a_fragment, d_place, row_times_tile, tile};
use super::{Operation, WARPS};
use crate::decode::op::{Op, Wgmma, WgmmaA};
use crate::exec::machine::{Exec, Machine, Stop};
use crate::exec::warp::{Blocked, Lanes64};
use crate::fault::FindingKind;
use crate::hb::shadow::{CELL_BYTES, Event, EventKind, Touch};
use crate::host::ARows;

fn refuse(what: String) -> Stop {
    Box::new(FindingKind::Wgmma { what })
}

impl Machine<'_> {
    /// Index of the warpgroup of a warp in its CTA, and of the warp in the warpgroup.
    fn warpgroup(&self, w: usize) -> Exec<(usize, usize)> {
        let index = self.warps[w].env.warp as usize;
        let group = index / WARPS;
        if group < self.ctas[self.warps[w].cta].warpgroups.len() {
            return Ok((group, index % WARPS));
        }
        Err(refuse(
            "this warp is in no complete warpgroup: wgmma needs four warps, the first a multiple of 4".to_owned(),
        ))
    }

    fn uniform(&self, what: &str, values: &Lanes64) -> Exec<u64> {
        if values.iter().all(|v| *v == values[0]) {
            return Ok(values[0]);
        }
        Err(refuse(format!("{what} differs between lanes of the warp")))
    }

    /// One warp's part of an operation.
    pub fn wgmma_issue(&mut self, w: usize, op: &Wgmma) -> Exec {
        let (group, member) = self.warpgroup(w)?;
        let full = u32::MAX;
        let line = self.now.line;
        let warp = &mut self.warps[w];
        let b = warp.get64(op.b, full);
        let a = match &op.a {
            WgmmaA::Desc(src) => warp.get64(*src, full),
            WgmmaA::Regs(_) => [0; 32],
        };
        let scale = warp.pred(op.scale_d, full);
        let flight = warp.wgmma_issued + 1;
        warp.wgmma_issued = flight;
        for slot in &op.d {
            warp.check_accumulator(*slot, scale != 0);
            warp.mark_flight(*slot, flight, line, true);
        }
        if let WgmmaA::Regs(regs) = &op.a {
            for slot in regs {
                warp.check_wgmma_reg(*slot, true);
                warp.mark_flight(*slot, flight, line, false);
            }
        }
        let desc_a = self.uniform("descriptor A", &a)?;
        let desc_b = self.uniform("descriptor B", &b)?;
        if scale != 0 && scale != full {
            return Err(refuse("scale-d differs between lanes of the warp".to_owned()));
        }
        self.progress += 1;
        self.join_operation(w, (group, member), flight, (desc_a, desc_b, scale != 0))
    }

    fn join_operation(&mut self, w: usize, at: (usize, usize), flight: u32, operands: (u64, u64, bool)) -> Exec {
        let (group, member) = at;
        let (pc, line) = (self.now.pc, self.now.line);
        let clocks = self.warps[w].clocks.clone();
        let cta = self.warps[w].cta;
        let warpgroup = &mut self.ctas[cta].warpgroups[group];
        let index = (flight - warpgroup.executed - 1) as usize;
        let (desc_a, desc_b, scale_d) = operands;
        if index == warpgroup.queue.len() {
            let issued = [None, None, None, None];
            warpgroup.queue.push_back(Operation {
                pc,
                line,
                desc_a,
                desc_b,
                scale_d,
                issued,
            });
        }
        let operation = &mut warpgroup.queue[index];
        if operation.pc != pc {
            let what = format!(
                "the warps of a warpgroup differ: warp {member} of it issues the wgmma of line {line} where others issued \
                 that of line {}",
                operation.line
            );
            return Err(refuse(what));
        }
        if (operation.desc_a, operation.desc_b, operation.scale_d) != operands {
            return Err(refuse(
                "descriptors or scale-d differ between the warps of the warpgroup".to_owned(),
            ));
        }
        operation.issued[member] = Some(clocks);
        if operation.complete() {
            self.counts.wgmma += 1;
            if self.time.is_some() {
                self.time_wgmma(cta, group, pc, scale_d);
                return Ok(());
            }
            self.wgmma_check_memory(cta, group, index, flight)?;
        }
        Ok(())
    }

    fn wgmma_op(&self, pc: u32) -> Option<&Wgmma> {
        match &self.kernel.code[pc as usize].op {
            Op::Wgmma(op) => Some(op),
            _ => None,
        }
    }

    /// Chunks of an operand in shared memory.
    fn chunks(&self, cta: usize, bits: u64, mn_major: bool, mn: usize) -> Exec<Vec<usize>> {
        let descriptor = Descriptor::decode(bits).map_err(refuse)?;
        let smem = self.ctas[cta].smem.len();
        descriptor.chunks(mn_major, mn, smem).ok_or_else(|| {
            refuse(format!(
                "an operand of {mn} rows or columns reaches outside of shared memory ({smem} bytes): descriptor {bits:#018x} starts at {:#x}, \
                 leading {} bytes, stride {} bytes",
                descriptor.start, descriptor.leading_bytes, descriptor.stride_bytes
            ))
        })
    }

    /// Records the operand reads of a complete operation, checked against the clock of each warp.
    fn wgmma_check_memory(&mut self, cta: usize, group: usize, index: usize, flight: u32) -> Exec {
        let operation = &self.ctas[cta].warpgroups[group].queue[index];
        let (pc, line, desc_a, desc_b) = (operation.pc, operation.line, operation.desc_a, operation.desc_b);
        let Some(op) = self.wgmma_op(pc) else { return Ok(()) };
        let b = self.chunks(cta, desc_b, op.mn_major_b, op.n as usize)?;
        let mut parts = vec![(b, 0..WARPS)];
        if matches!(op.a, WgmmaA::Desc(_)) {
            let a = self.chunks(cta, desc_a, op.mn_major_a, M)?;
            match self.a_rows {
                ARows::Warpgroup => parts[0].0.extend(a),
                ARows::OwnWarp => parts.extend((0..WARPS).map(|i| (rows_of(&a, op.mn_major_a, i), i..i + 1))),
            }
        }
        let first = self.ctas[cta].first_warp + group * WARPS;
        let events: Vec<Event> = (0..WARPS)
            .map(|i| {
                let actor = self.warps[first + i].wgmma_actor;
                Event {
                    actor,
                    epoch: flight,
                    line,
                    kind: EventKind::Wgmma,
                    partial: false,
                }
            })
            .collect();
        let mut problems = Vec::new();
        let Self { ctas, clusters, .. } = self;
        let target = &mut ctas[cta];
        let issued = &target.warpgroups[group].queue[index].issued;
        for (chunks, readers) in parts {
            let here: Vec<usize> = readers.filter(|i| issued[*i].is_some()).collect();
            let clocks: Vec<_> = here.iter().filter_map(|i| issued[*i].as_ref()).collect();
            let events: Vec<Event> = here.iter().map(|i| events[*i]).collect();
            let Some(event) = events.first().copied() else { continue };
            let touch = Touch {
                event,
                write: false,
                clocks: &clocks,
                events: &events,
            };
            let cells = chunks
                .iter()
                .flat_map(|at| at / CELL_BYTES as usize..at / CELL_BYTES as usize + 4);
            clusters[target.cluster]
                .hb
                .states
                .touch(&mut target.shadow, cells, &touch, &mut problems);
        }
        for (cell, problem) in problems {
            let kind = self.problem((cta, cell), problem, &events[0], false);
            self.find(kind);
        }
        self.collect(cta);
        Ok(())
    }

    /// At a deadlock: operations that not all warps have issued are checked for those that have.
    pub fn wgmma_check_incomplete(&mut self) {
        for cta in 0..self.ctas.len() {
            for group in 0..self.ctas[cta].warpgroups.len() {
                let executed = self.ctas[cta].warpgroups[group].executed;
                for index in 0..self.ctas[cta].warpgroups[group].queue.len() {
                    let operation = &self.ctas[cta].warpgroups[group].queue[index];
                    if operation.complete() {
                        continue;
                    }
                    self.now.line = operation.line;
                    self.now.warp = self.ctas[cta].first_warp + group * WARPS;
                    // Out-of-range operands are moot here: the run ends with the deadlock.
                    let _ = self.wgmma_check_memory(cta, group, index, executed + index as u32 + 1);
                }
            }
        }
    }

    /// Runs the oldest operation of a warpgroup when all four warps have issued it.
    pub fn wgmma_run_one(&mut self, cta: usize, group: usize) -> Exec<bool> {
        if self.time.is_some() {
            // A timed run completes products by its own events.
            return Ok(false);
        }
        let Some(front) = self.ctas[cta].warpgroups[group].queue.front() else {
            return Ok(false);
        };
        if !front.complete() {
            return Ok(false);
        }
        let (pc, desc_a, desc_b, scale_d) = (front.pc, front.desc_a, front.desc_b, front.scale_d);
        let kernel = self.kernel;
        let Op::Wgmma(op) = &kernel.code[pc as usize].op else {
            return Ok(false);
        };
        let n = op.n as usize;
        let chunks = self.chunks(cta, desc_b, op.mn_major_b, n)?;
        let mut b = tile(&self.ctas[cta].smem, &chunks, op.mn_major_b, n, op.bf16);
        if op.negate_a != op.negate_b {
            b.iter_mut().for_each(|x| *x = -*x);
        }
        let a_tile = match &op.a {
            WgmmaA::Desc(_) => {
                let chunks = self.chunks(cta, desc_a, op.mn_major_a, M)?;
                Some(tile(&self.ctas[cta].smem, &chunks, op.mn_major_a, M, op.bf16))
            }
            WgmmaA::Regs(_) => None,
        };
        let first = self.ctas[cta].first_warp + group * WARPS;
        for member in 0..WARPS {
            let rows = match (&op.a, &a_tile) {
                (WgmmaA::Regs(regs), _) => {
                    let warp = &self.warps[first + member];
                    a_fragment(regs.map(|slot| &warp.regs[slot as usize]), op.bf16)
                }
                (_, Some(tile)) => {
                    std::array::from_fn(|row| std::array::from_fn::<f32, K, _>(|k| tile[k * M + member * 16 + row]))
                }
                _ => [[0.0; K]; 16],
            };
            self.wgmma_warp(first + member, (op, scale_d), &rows, &b);
        }
        let warpgroup = &mut self.ctas[cta].warpgroups[group];
        warpgroup.queue.pop_front();
        warpgroup.executed += 1;
        self.progress += 1;
        Ok(true)
    }

    fn wgmma_warp(&mut self, w: usize, (op, scale_d): (&Wgmma, bool), rows: &[[f32; K]; 16], b: &[f32]) {
        let n = op.n as usize;
        let mut acc = vec![0f32; 16 * n];
        let regs = &mut self.warps[w].regs;
        if scale_d {
            for (i, slot) in op.d.iter().enumerate() {
                let reg = &regs[*slot as usize];
                for (lane, bits) in reg.iter().enumerate() {
                    let (row, col) = d_place(i, lane);
                    acc[row * n + col] = f32::from_bits(*bits);
                }
            }
        }
        for (row, acc) in rows.iter().zip(acc.chunks_mut(n)) {
            row_times_tile(acc, row, b);
        }
        for (i, slot) in op.d.iter().enumerate() {
            let reg = &mut regs[*slot as usize];
            for (lane, bits) in reg.iter_mut().enumerate() {
                let (row, col) = d_place(i, lane);
                *bits = acc[row * n + col].to_bits();
            }
        }
    }

    pub fn wgmma_commit(&mut self, w: usize) {
        let warp = &mut self.warps[w];
        warp.wgmma_groups.push_back(warp.wgmma_issued);
        warp.wgmma_committed = warp.wgmma_issued;
    }

    /// Waits until at most `keep` groups are pending; blocks while other warps of the warpgroup
    /// have not issued what must complete.
    pub fn wgmma_wait(&mut self, w: usize, keep: u32) -> Exec<Option<Blocked>> {
        let warp = &self.warps[w];
        let Some(last) = warp.wgmma_groups.len().checked_sub(keep as usize + 1) else {
            return Ok(None);
        };
        let target = warp.wgmma_groups[last];
        if target > warp.wgmma_done {
            let (group, _) = self.warpgroup(w)?;
            let cta = self.warps[w].cta;
            while self.ctas[cta].warpgroups[group].executed < target {
                if !self.wgmma_run_one(cta, group)? {
                    return Ok(Some(Blocked::Warpgroup));
                }
            }
        }
        let warp = &mut self.warps[w];
        warp.wgmma_groups.drain(..=last);
        warp.wgmma_done = warp.wgmma_done.max(target);
        warp.clocks.raise_both(warp.wgmma_actor, target);
        Ok(None)
    }
}

/// The chunks of one warp's 16 rows of A.
fn rows_of(chunks: &[usize], mn_major: bool, member: usize) -> Vec<usize> {
    let row = |index: usize| if mn_major { index % (M / 8) * 8 } else { index / 2 };
    let mine = chunks
        .iter()
        .enumerate()
        .filter(|(index, _)| row(*index) / 16 == member);
    mine.map(|(_, at)| *at).collect()
}

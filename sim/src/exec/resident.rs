//! Clusters and CTAs that come and go.

use super::machine::{Cluster, Cta, Exec, Machine};
use super::warp::{Blocked, Env, Group, Warp};
use crate::decode::op::Op;
use crate::fault::FindingKind;
use crate::hb::shadow::UNINIT;
use crate::hb::{Actor, Clocks, Hb};
use crate::sync::named::{NAMED_BARRIERS, NamedBarrier};
use crate::sync::pool::entry_registers;
use crate::wgmma::{WARPS, Warpgroup};

/// Shared bytes start with this value; reading one is a finding anyway.
const SMEM_POISON: u8 = 0xff;

impl Machine<'_> {
    /// Makes room for as many clusters as the SMs hold, one CTA each, and starts them.
    pub fn fill_device(&mut self) {
        let per_cluster = self.shape.ctas_per_cluster() as usize;
        let total: u32 = self.shape.n_clusters().iter().product();
        let slots = (self.sm_count as usize / per_cluster).max(1).min(total as usize);
        let n_warps = self.shape.threads().div_ceil(32) as usize;
        for slot in 0..slots {
            let first_cta = slot * per_cluster;
            self.clusters.push(Cluster {
                first_cta,
                n_ctas: per_cluster,
                ..Cluster::default()
            });
            for cta in first_cta..first_cta + per_cluster {
                self.ctas.push(Cta {
                    cluster: slot,
                    first_warp: cta * n_warps,
                    n_warps,
                    ..Cta::default()
                });
                self.warps.extend((0..n_warps).map(|_| Warp::default()));
            }
        }
        for slot in 0..slots {
            self.start_cluster(slot);
        }
    }

    /// Starts the next cluster of the grid in a slot, when there is one.
    fn start_cluster(&mut self, slot: usize) {
        let n = self.shape.n_clusters();
        if self.next_cluster >= self.end_cluster {
            self.clusters[slot].active = false;
            return;
        }
        let index = self.next_cluster;
        self.next_cluster += 1;
        let id = [index % n[0], index / n[0] % n[1], index / (n[0] * n[1])];
        let (first_cta, n_ctas) = (self.clusters[slot].first_cta, self.clusters[slot].n_ctas);
        self.clusters[slot] = Cluster {
            first_cta,
            n_ctas,
            active: true,
            hb: Hb::default(),
            ..Cluster::default()
        };
        for rank in 0..n_ctas as u32 {
            self.start_cta(slot, rank, id);
        }
    }

    fn start_cta(&mut self, slot: usize, rank: u32, cluster_id: [u32; 3]) {
        let index = self.clusters[slot].first_cta + rank as usize;
        let dim = self.shape.cluster;
        let within = [rank % dim[0], rank / dim[0] % dim[1], rank / (dim[0] * dim[1])];
        let id = std::array::from_fn(|i| cluster_id[i] * dim[i] + within[i]);
        let threads = self.shape.threads();
        let smem_bytes = self.kernel.static_smem_bytes + self.shape.dynamic_smem_bytes;
        let cta = &mut self.ctas[index];
        cta.id = id;
        cta.rank = rank;
        cta.threads = threads;
        cta.smem.clear();
        let blank = if self.time.is_some() { 0 } else { SMEM_POISON };
        cta.smem.resize(smem_bytes as usize, blank);
        cta.shadow.clear();
        cta.shadow.resize(smem_bytes.div_ceil(4) as usize, UNINIT);
        cta.mbarriers.clear();
        cta.named = vec![NamedBarrier::default(); NAMED_BARRIERS];
        cta.warpgroups = vec![Warpgroup::default(); cta.n_warps / WARPS];
        cta.pool_free = 0;
        cta.live_warps = cta.n_warps;
        let (first, count) = (cta.first_warp, cta.n_warps);
        self.counts.ctas += 1;
        for warp in 0..count {
            let env = Env {
                ntid: self.shape.block,
                cta_id: id,
                grid: self.shape.grid,
                cluster_id,
                n_clusters: self.shape.n_clusters(),
                cluster_cta: within,
                cluster_dim: dim,
                rank,
                warp: warp as u32,
                sm: index as u32,
                n_sms: self.sm_count,
                dynamic_smem_bytes: self.shape.dynamic_smem_bytes,
                total_smem_bytes: smem_bytes,
            };
            self.start_warp(first + warp, index, env, threads);
        }
    }

    fn start_warp(&mut self, w: usize, cta: usize, env: Env, threads: u32) {
        let hb = &mut self.clusters[self.ctas[cta].cluster].hb;
        let actor = hb.actor(Actor::Warp {
            rank: env.rank,
            warp: env.warp,
        });
        let wgmma_actor = hb.actor(Actor::WgmmaOf {
            rank: env.rank,
            warp: env.warp,
        });
        let lanes = (threads - env.warp * 32).min(32);
        let started = u32::MAX >> (32 - lanes);
        let old = std::mem::take(&mut self.warps[w]);
        let mut clocks = Clocks::default();
        clocks.seen.raise(actor, 1);
        let mut warp = Warp {
            regs: old.regs,
            meta: old.meta,
            preds: old.preds,
            pred_init: old.pred_init,
            live: started,
            started,
            cta,
            env,
            clocks,
            actor,
            wgmma_actor,
            fence_epoch: 1,
            max_regs: entry_registers(&self.kernel.limits, threads).unwrap_or(0),
            ..Warp::default()
        };
        let (regs, preds) = (self.kernel.reg_names.len(), self.kernel.pred_names.len());
        warp.regs.clear();
        warp.regs.resize(regs, [0xffff_ffff; 32]);
        warp.meta.clear();
        warp.meta.resize(regs, super::warp::RegMeta::default());
        warp.preds = vec![0; preds];
        warp.pred_init = vec![0; preds];
        if self.time.is_some() {
            // A timed run does not judge values; zero is a number.
            warp.regs.fill([0; 32]);
            warp.meta.iter_mut().for_each(|m| m.init = u32::MAX);
            warp.pred_init.fill(u32::MAX);
        }
        warp.groups.push(Group {
            pc: 0,
            mask: started,
            blocked: Blocked::Ready,
            timed_out: false,
        });
        self.warps[w] = warp;
    }

    /// What a thread must not leave behind.
    pub fn check_exit(&mut self, w: usize, exec: u32) {
        let warp = &self.warps[w];
        let mut left = Vec::new();
        for bulk in warp.bulk.iter().filter(|b| exec >> b.lane & 1 != 0) {
            if bulk.committed > bulk.done || bulk.open > 0 {
                left.push(format!(
                    "bulk stores of lane {} (cp.async.bulk.wait_group.read is missing)",
                    bulk.lane
                ));
            }
        }
        if warp.live == 0 && warp.wgmma_issued > warp.wgmma_done {
            left.push("wgmma (wgmma.wait_group is missing)".to_owned());
        }
        let cp_seen = warp.cp_actor.map_or(0, |actor| warp.clocks.seen.get(actor));
        if warp.live == 0 && (warp.cp_open > 0 || warp.cp_committed > cp_seen) {
            left.push("cp.async (cp.async.wait_group is missing)".to_owned());
        }
        for what in left {
            self.find(FindingKind::ExitInFlight { what });
        }
    }

    /// A warp has no lanes left.
    pub fn retire(&mut self, w: usize) -> Exec {
        let cta = self.warps[w].cta;
        // Its registers stay with the CTA: only setmaxnreg.dec gives any back to the pool.
        self.ctas[cta].live_warps -= 1;
        let cluster = self.ctas[cta].cluster;
        self.settle_cluster(cluster);
        if self.ctas[cta].live_warps > 0 {
            return self.settle_after_exit(cta);
        }
        self.drain(cta)?;
        let (first, count) = (self.clusters[cluster].first_cta, self.clusters[cluster].n_ctas);
        if self.ctas[first..first + count].iter().all(|c| c.live_warps == 0) {
            self.start_cluster(cluster);
        }
        Ok(())
    }

    /// A CTA is gone: copies that still use its shared memory are a finding, and land now.
    fn drain(&mut self, cta: usize) -> Exec {
        while let Some(index) = self
            .pending
            .iter()
            .position(|p| p.action.reads() == Some(cta) || p.action.writes().contains(&cta) || p.cta == cta)
        {
            let pending = &self.pending[index];
            let lands_here = pending.action.writes().contains(&cta);
            let line = pending.now.line;
            if lands_here {
                let what = format!("a copy into the CTA's shared memory (issued at line {line}, nobody waited for it)");
                self.find(FindingKind::ExitInFlight { what });
            }
            self.land(index)?;
        }
        Ok(())
    }

    /// Whether a blocked wgmma wait could make progress.
    pub fn wgmma_wait_over(&self, w: usize, group: usize) -> bool {
        let warp = &self.warps[w];
        let Op::WgmmaWait { keep } = self.kernel.code[warp.groups[group].pc as usize].op else {
            return true;
        };
        let Some(last) = warp.wgmma_groups.len().checked_sub(keep as usize + 1) else {
            return true;
        };
        let target = warp.wgmma_groups[last];
        let warpgroup = &self.ctas[warp.cta].warpgroups[warp.env.warp as usize / WARPS];
        if self.time.is_some() {
            return warpgroup.executed >= target;
        }
        let missing = target.saturating_sub(warpgroup.executed) as usize;
        warpgroup
            .queue
            .iter()
            .take(missing)
            .all(super::super::wgmma::Operation::complete)
    }

    /// Whether the pool has what a blocked `setmaxnreg.inc` asks for.
    pub fn pool_over(&self, w: usize, group: usize) -> bool {
        let warp = &self.warps[w];
        match self.kernel.code[warp.groups[group].pc as usize].op {
            Op::SetMaxNreg { inc: true, regs } => {
                regs.saturating_sub(warp.max_regs) * 32 <= self.ctas[warp.cta].pool_free
            }
            _ => true,
        }
    }
}

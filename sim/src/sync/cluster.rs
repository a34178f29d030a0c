//! `barrier.cluster` (PTX ISA 9.7.13.4).

use crate::exec::machine::{Exec, Machine};
use crate::exec::warp::Blocked;
use crate::fault::FindingKind;

impl Machine<'_> {
    /// The lanes of `exec` arrive.
    pub fn cluster_arrive(&mut self, w: usize, release: bool, exec: u32) -> Exec {
        let cluster = self.cta_of(w).cluster;
        if self.warps[w].cluster_arrived & exec != 0 {
            let what = "barrier.cluster.arrive a second time without barrier.cluster.wait between".to_owned();
            return Err(Box::new(FindingKind::Illegal { what }));
        }
        self.warps[w].cluster_arrived |= exec;
        self.warps[w].cluster_generation = self.clusters[cluster].barrier.generation;
        let barrier = &mut self.clusters[cluster].barrier;
        if release {
            barrier.gathering.join(&self.warps[w].clocks);
            self.warps[w].tick();
            self.warps[w].unfenced_lanes = 0;
        }
        barrier.arrived += exec.count_ones();
        self.progress += 1;
        self.settle_cluster(cluster);
        Ok(())
    }

    /// Opens the next generation when every live thread of the cluster has arrived.
    pub fn settle_cluster(&mut self, cluster: usize) {
        let (first, count) = (self.clusters[cluster].first_cta, self.clusters[cluster].n_ctas);
        let live: u32 = self.ctas[first..first + count]
            .iter()
            .flat_map(|c| &self.warps[c.first_warp..c.first_warp + c.n_warps])
            .map(|warp| warp.live.count_ones())
            .sum();
        let barrier = &mut self.clusters[cluster].barrier;
        if barrier.arrived < live || barrier.arrived == 0 {
            return;
        }
        barrier.arrived = 0;
        barrier.generation += 1;
        let gathered = std::mem::take(&mut barrier.gathering);
        barrier.done.join(&gathered);
    }

    /// Waits for the generation that this warp arrived in.
    pub fn cluster_wait(&mut self, w: usize, exec: u32) -> Exec<Option<Blocked>> {
        let cluster = self.cta_of(w).cluster;
        if self.warps[w].cluster_arrived & exec != exec {
            let what = "barrier.cluster.wait without barrier.cluster.arrive before it".to_owned();
            return Err(Box::new(FindingKind::Illegal { what }));
        }
        let barrier = &self.clusters[cluster].barrier;
        let mine = self.warps[w].cluster_generation;
        if barrier.generation <= mine {
            return Ok(Some(Blocked::Cluster { generation: mine }));
        }
        self.warps[w].clocks.join(&barrier.done);
        self.warps[w].cluster_arrived &= !exec;
        Ok(None)
    }
}

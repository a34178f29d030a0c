//! The simulated device while a kernel runs: resident clusters, CTAs, warps, pending copies.

use std::collections::{BTreeMap, HashMap};
use std::mem::{Discriminant, discriminant};

use super::rng::Rng;
use super::warp::{RegNote, Warp};
use crate::decode::Kernel;
use crate::fault::{Finding, FindingKind, Site};
use crate::hb::{Clocks, Hb};
use crate::host::ARows;
use crate::memory::global::GlobalMemory;
use crate::sync::mbarrier::Mbarrier;
use crate::sync::named::NamedBarrier;
use crate::time::state::Time;
use crate::tma::map::TensorMap;
use crate::tma::pending::Pending;
use crate::wgmma::Warpgroup;

/// An illegal operation that stops the kernel.
pub(crate) type Stop = Box<FindingKind>;
/// Result of executing something.
pub(crate) type Exec<T = ()> = Result<T, Stop>;

/// Findings kept in full; more are only counted.
const MAX_FINDINGS: usize = 200;

/// Shape of a launch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    pub cluster: [u32; 3],
    pub dynamic_smem_bytes: u32,
}

impl Shape {
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub fn ctas_per_cluster(&self) -> u32 {
        self.cluster.iter().product()
    }

    pub fn n_clusters(&self) -> [u32; 3] {
        std::array::from_fn(|i| self.grid[i] / self.cluster[i])
    }
}

/// A resident CTA.
#[derive(Debug, Default)]
pub(crate) struct Cta {
    pub id: [u32; 3],
    pub rank: u32,
    pub cluster: usize,
    pub first_warp: usize,
    pub n_warps: usize,
    pub threads: u32,
    /// Shared memory from `SHARED_START` on.
    pub smem: Vec<u8>,
    /// Shadow state of each 4-byte cell.
    pub shadow: Vec<u32>,
    pub mbarriers: Vec<Mbarrier>,
    pub named: Vec<NamedBarrier>,
    pub warpgroups: Vec<Warpgroup>,
    /// Registers that nobody holds, of the CTA's pool.
    pub pool_free: u32,
    pub live_warps: usize,
}

/// A resident cluster.
#[derive(Debug, Default)]
pub(crate) struct Cluster {
    pub first_cta: usize,
    pub n_ctas: usize,
    pub active: bool,
    pub hb: Hb,
    pub barrier: ClusterBarrier,
    /// Clocks released at an address: (space tag, address).
    pub released: BTreeMap<(u8, u64), Clocks>,
}

/// `barrier.cluster`.
#[derive(Debug, Default)]
pub(crate) struct ClusterBarrier {
    pub arrived: u32,
    pub generation: u64,
    pub gathering: Clocks,
    pub done: Clocks,
}

/// What is being executed now.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    pub warp: usize,
    pub line: u32,
    pub exec: u32,
    pub pc: u32,
}

/// Findings so far, one per rule and line.
#[derive(Debug, Default)]
pub(crate) struct Log {
    pub findings: Vec<Finding>,
    index: HashMap<(Discriminant<FindingKind>, u32), usize>,
}

impl Log {
    pub fn add(&mut self, site: Site, kind: FindingKind) {
        let key = (discriminant(&kind), site.line);
        if let Some(&at) = self.index.get(&key) {
            self.findings[at].times += 1;
        } else if self.findings.len() < MAX_FINDINGS {
            self.index.insert(key, self.findings.len());
            self.findings.push(Finding { site, kind, times: 1 });
        }
    }
}

/// Instruction counts of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub warp_instructions: u64,
    pub thread_instructions: u64,
    pub wgmma: u64,
    pub bulk_copies: u64,
    pub bulk_bytes: u64,
    pub ctas: u64,
}

/// A kernel in execution.
pub(crate) struct Machine<'m> {
    pub kernel: &'m Kernel,
    pub global: &'m mut GlobalMemory,
    pub maps: &'m [TensorMap],
    pub params: &'m [u8],
    pub shape: Shape,
    pub sm_count: u32,
    pub budget: u64,
    pub a_rows: ARows,
    pub rng: Rng,
    pub warps: Vec<Warp>,
    pub ctas: Vec<Cta>,
    pub clusters: Vec<Cluster>,
    pub pending: Vec<Pending>,
    pub next_cluster: u32,
    /// The cluster behind the last one of this run.
    pub end_cluster: u32,
    pub log: Log,
    pub counts: Counts,
    pub now: Now,
    /// Counts events that another warp could see.
    pub progress: u64,
    /// The clock of a timed run; none in a run that judges.
    pub time: Option<Box<Time>>,
}

impl Machine<'_> {
    /// The place of the current instruction.
    pub fn site(&self) -> Site {
        let warp = &self.warps[self.now.warp];
        Site {
            line: self.now.line,
            source: self.kernel.lines.at(self.now.line),
            cta: warp.env.cta_id,
            warp: warp.env.warp,
            lanes: self.now.exec,
        }
    }

    /// Records a finding at the current instruction.
    pub fn find(&mut self, kind: FindingKind) {
        let site = self.site();
        self.log.add(site, kind);
    }

    /// Moves the notes of the current instruction to the log.
    pub fn flush_notes(&mut self) {
        let warp = &mut self.warps[self.now.warp];
        if warp.reg_notes.is_empty() {
            return;
        }
        for note in std::mem::take(&mut warp.reg_notes) {
            let kind = self.name_note(note);
            self.find(kind);
        }
    }

    fn name_note(&self, note: RegNote) -> FindingKind {
        let reg = |slot: u32| self.kernel.reg_names[slot as usize].clone();
        match note {
            RegNote::Uninit(slot) => FindingKind::UninitRegister { register: reg(slot) },
            RegNote::UninitPred(slot) => FindingKind::UninitRegister {
                register: self.kernel.pred_names[slot as usize].clone(),
            },
            RegNote::ReadInFlight(slot, wgmma_line) => FindingKind::RegisterInFlight {
                register: reg(slot),
                touched: "read",
                wgmma_line,
            },
            RegNote::WriteInFlight(slot, wgmma_line) => FindingKind::RegisterInFlight {
                register: reg(slot),
                touched: "written",
                wgmma_line,
            },
            RegNote::Unfenced(slot) => FindingKind::MissingWgmmaFence {
                register: reg(slot),
                touched: "written",
            },
            RegNote::UnfencedRead(slot) => FindingKind::MissingWgmmaFence {
                register: reg(slot),
                touched: "read",
            },
        }
    }

    /// The CTA of a warp.
    pub fn cta_of(&self, w: usize) -> &Cta {
        &self.ctas[self.warps[w].cta]
    }

    /// The index of the CTA with `rank` in the cluster of warp `w`.
    pub fn peer(&self, w: usize, rank: u32) -> Option<usize> {
        let cluster = &self.clusters[self.cta_of(w).cluster];
        ((rank as usize) < cluster.n_ctas).then(|| cluster.first_cta + rank as usize)
    }
}

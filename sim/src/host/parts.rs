//! One launch on several threads: parts of its grid, each on a copy of memory.
//!
//! Clusters without global atomics cannot tell each other anything within a launch, and happens-before is kept per cluster. So a
//! grid is cut into a few parts whose number does not depend on the threads there are. Whatever needs all of them together
//! (a finding, a hang, a store that meets another's, a read of what the launch writes) is left to a run of the whole grid on
//! one thread, which has the last word.

use std::ops::Range;

use rayon::prelude::*;

use crate::decode::Kernel;
use crate::decode::op::{BulkKind, Op, Space};
use crate::exec::machine::Machine;
use crate::fault::Fault;

use super::Module;
use super::device::Device;
use super::launch::{Arg, LaunchConfig, LaunchReport, clusters};

/// Most parts of a launch.
const MOST_PARTS: u32 = 8;
/// Most bytes of all copies of memory.
const MOST_BYTES: usize = 1 << 29;
/// Seeds of neighbouring parts differ by this.
const SEED_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

impl Device {
    /// Runs a launch in parts; nothing when it must run as a whole.
    pub(super) fn launch_in_parts(
        &mut self,
        (module, entry): (&Module, &str),
        config: LaunchConfig,
        args: &[Arg],
    ) -> Option<LaunchReport> {
        let kernel = module.kernels.iter().find(|k| k.name == entry)?;
        let parts = self.parts(kernel, &config)?;
        let budget = self.config.instruction_budget / parts.len() as u64;
        let runs: Vec<(Self, Result<LaunchReport, Fault>)> = parts
            .into_par_iter()
            .map(|part| {
                let mut device = Self {
                    config: self.config,
                    memory: self.memory.fork(),
                    maps: self.maps.clone(),
                };
                device.config.instruction_budget = budget;
                device.config.seed ^= SEED_STEP.wrapping_mul(u64::from(part.start));
                let run = |machine: &mut Machine<'_>| machine.run();
                let result = device.with_clusters((module, entry), (config, part), args, run);
                (device, result)
            })
            .collect();
        let reports: Vec<&LaunchReport> = runs.iter().filter_map(|(_, r)| r.as_ref().ok()).collect();
        if reports.len() < runs.len() || reports.iter().any(|r| !r.findings.is_empty()) {
            return None;
        }
        let total = reports.into_iter().fold(LaunchReport::default(), sum);
        self.memory.begin_launch();
        let memories: Vec<_> = runs.iter().map(|(device, _)| &device.memory).collect();
        self.memory.merge(&memories).then_some(total)
    }

    /// The parts of a grid that may run apart; nothing when there is only one.
    fn parts(&self, kernel: &Kernel, config: &LaunchConfig) -> Option<Vec<Range<u32>>> {
        let count = clusters(config)?;
        let parts = count.min(MOST_PARTS);
        let copies = self.memory.bytes().checked_mul(parts as usize)?;
        if parts < 2 || copies > MOST_BYTES || kernel.code.iter().any(|inst| talks(&inst.op)) {
            return None;
        }
        let edge = |i: u32| (u64::from(count) * u64::from(i) / u64::from(parts)) as u32;
        Some((0..parts).map(|i| edge(i)..edge(i + 1)).collect())
    }
}

/// Whether clusters may tell each other something by an instruction, or add to the same place.
fn talks(op: &Op) -> bool {
    let global = |space: Space| matches!(space, Space::Global | Space::Generic);
    match op {
        Op::Atom(atom) => global(atom.space),
        Op::Ld(mem) => mem.acquire && global(mem.space),
        Op::St(mem) => mem.release && global(mem.space),
        Op::Bulk(kind) => match &**kind {
            BulkKind::TensorStore { reduce, .. } => reduce.is_some(),
            BulkKind::Store { reduce, .. } => reduce.is_some(),
            _ => false,
        },
        _ => false,
    }
}

fn sum(mut total: LaunchReport, part: &LaunchReport) -> LaunchReport {
    total.warp_instructions += part.warp_instructions;
    total.thread_instructions += part.thread_instructions;
    total.wgmma += part.wgmma;
    total.bulk_copies += part.bulk_copies;
    total.bulk_bytes += part.bulk_bytes;
    total.ctas += part.ctas;
    total
}

//! Launching a kernel.

use std::ops::Range;

use rayon::prelude::*;

use crate::decode::Kernel;
use crate::exec::machine::{Counts, Log, Machine, Now, Shape};
use crate::exec::rng::Rng;
use crate::fault::{Fault, Finding};
use crate::tma::map::{TENSOR_MAP_BYTES, encode};

use super::Module;
use super::device::{Buffer, Device};

/// Grid, block and cluster of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaunchConfig {
    /// CTAs.
    pub grid: [u32; 3],
    /// Threads of a CTA.
    pub block: [u32; 3],
    /// CTAs of a cluster; `[1, 1, 1]` for none.
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    pub dynamic_smem_bytes: u32,
}

impl LaunchConfig {
    /// One-dimensional, without clusters.
    pub fn linear(grid: u32, block: u32, dynamic_smem_bytes: u32) -> Self {
        Self {
            grid: [grid, 1, 1],
            block: [block, 1, 1],
            cluster: [1, 1, 1],
            dynamic_smem_bytes,
        }
    }
}

/// Clusters of a grid; nothing where shapes make none.
pub(super) fn clusters(config: &LaunchConfig) -> Option<u32> {
    let counts = config
        .grid
        .iter()
        .zip(&config.cluster)
        .map(|(grid, cluster)| grid.checked_div(*cluster));
    counts.into_iter().try_fold(1_u32, |product, n| product.checked_mul(n?))
}

/// A kernel argument.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// 32-bit integer.
    U32(u32),
    /// 64-bit integer or address.
    U64(u64),
    /// f32.
    F32(f32),
    /// Address of a buffer.
    Buffer(Buffer),
    /// A map made by [`Device::tensor_map`].
    TensorMap(usize),
    /// Raw bytes.
    Bytes(Vec<u8>),
}

impl Arg {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::U32(v) => v.to_le_bytes().to_vec(),
            Self::U64(v) => v.to_le_bytes().to_vec(),
            Self::F32(v) => v.to_le_bytes().to_vec(),
            Self::Buffer(buffer) => buffer.address.to_le_bytes().to_vec(),
            Self::TensorMap(index) => encode(*index).to_vec(),
            Self::Bytes(bytes) => bytes.clone(),
        }
    }
}

/// What a finished launch says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchReport {
    /// Instructions, counted once per warp.
    pub warp_instructions: u64,
    /// Instructions, counted once per executing thread.
    pub thread_instructions: u64,
    /// wgmma operations, counted once per warpgroup.
    pub wgmma: u64,
    /// Bulk and tensor copies.
    pub bulk_copies: u64,
    /// Bytes that they moved.
    pub bulk_bytes: u64,
    /// CTAs that ran.
    pub ctas: u64,
    /// Broken rules that did not stop the kernel; empty for a sound kernel.
    pub findings: Vec<Finding>,
}

/// One launch of [`Device::explore`].
#[derive(Clone, Debug)]
pub struct SeedRun {
    /// Its seed.
    pub seed: u64,
    /// The device after it.
    pub device: Device,
    /// What it gave.
    pub result: Result<LaunchReport, Fault>,
}

impl Device {
    /// Runs a grid to its end.
    pub fn launch(
        &mut self,
        module: &Module,
        entry: &str,
        config: LaunchConfig,
        args: &[Arg],
    ) -> Result<LaunchReport, Fault> {
        if let Some(report) = self.launch_in_parts((module, entry), config, args) {
            return Ok(report);
        }
        let run = |machine: &mut Machine<'_>| machine.run();
        self.with_machine((module, entry), config, args, run)
    }

    /// Sets a launch up and hands it to `run`.
    pub(crate) fn with_machine(
        &mut self,
        (module, entry): (&Module, &str),
        config: LaunchConfig,
        args: &[Arg],
        run: impl FnOnce(&mut Machine<'_>) -> Result<(), Fault>,
    ) -> Result<LaunchReport, Fault> {
        let all = 0..clusters(&config).unwrap_or(0);
        self.with_clusters((module, entry), (config, all), args, run)
    }

    /// Sets up the part of a launch that runs some of its clusters, and hands it to `run`.
    pub(super) fn with_clusters(
        &mut self,
        (module, entry): (&Module, &str),
        (config, part): (LaunchConfig, Range<u32>),
        args: &[Arg],
        run: impl FnOnce(&mut Machine<'_>) -> Result<(), Fault>,
    ) -> Result<LaunchReport, Fault> {
        let refuse = |reason: String| Fault::Launch {
            entry: entry.to_owned(),
            reason,
        };
        let kernel = module.kernels.iter().find(|k| k.name == entry).ok_or_else(|| {
            let names: Vec<&str> = module.entries().collect();
            refuse(format!("the module has no such entry; it has: {}", names.join(", ")))
        })?;
        self.check_shape(kernel, &config).map_err(refuse)?;
        let params = param_bytes(kernel, args).map_err(refuse)?;
        let Self {
            config: device,
            memory,
            maps,
        } = self;
        memory.begin_launch();
        let mut machine = Machine {
            kernel,
            global: memory,
            maps,
            params: &params,
            shape: Shape {
                grid: config.grid,
                block: config.block,
                cluster: config.cluster,
                dynamic_smem_bytes: config.dynamic_smem_bytes,
            },
            sm_count: device.sm_count,
            budget: device.instruction_budget,
            a_rows: device.a_rows,
            rng: Rng::new(device.seed),
            warps: Vec::new(),
            ctas: Vec::new(),
            clusters: Vec::new(),
            pending: Vec::new(),
            next_cluster: part.start,
            end_cluster: part.end,
            log: Log::default(),
            counts: Counts::default(),
            now: Now::default(),
            progress: 0,
            time: None,
        };
        run(&mut machine)?;
        let Counts {
            warp_instructions,
            thread_instructions,
            wgmma,
            bulk_copies,
            bulk_bytes,
            ctas,
        } = machine.counts;
        let findings = machine.log.findings;
        Ok(LaunchReport {
            warp_instructions,
            thread_instructions,
            wgmma,
            bulk_copies,
            bulk_bytes,
            ctas,
            findings,
        })
    }

    /// Runs the launch once per seed, each on a copy of this device, in parallel. The results are in
    /// the order of the seeds and do not depend on the number of threads.
    pub fn explore(
        &self,
        module: &Module,
        entry: &str,
        config: LaunchConfig,
        run: (&[Arg], &[u64]),
    ) -> Result<Vec<SeedRun>, Fault> {
        let (args, seeds) = run;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(self.config.threads).build();
        let pool = pool.map_err(|e| Fault::Launch {
            entry: entry.to_owned(),
            reason: format!("{} simulator threads cannot be started: {e}", self.config.threads),
        })?;
        let one = |seed: &u64| {
            let mut device = self.clone();
            device.config.seed = *seed;
            let result = device.launch(module, entry, config, args);
            SeedRun {
                seed: *seed,
                device,
                result,
            }
        };
        Ok(pool.install(|| seeds.par_iter().map(one).collect()))
    }

    fn check_shape(&self, kernel: &Kernel, config: &LaunchConfig) -> Result<(), String> {
        let product = |v: [u32; 3]| v.iter().map(|x| u64::from(*x)).product::<u64>();
        let (grid, threads, cluster) = (product(config.grid), product(config.block), product(config.cluster));
        if grid == 0 || grid > u64::from(u32::MAX) {
            return Err(format!("a grid of {:?} CTAs", config.grid));
        }
        if !(1..=1024).contains(&threads) {
            return Err(format!("{threads} threads per CTA; 1 to 1024 are allowed"));
        }
        if !(1..=16).contains(&cluster) || (0..3).any(|i| !config.grid[i].is_multiple_of(config.cluster[i].max(1))) {
            return Err(format!(
                "cluster {:?} does not divide grid {:?}, or has more than 16 CTAs",
                config.cluster, config.grid
            ));
        }
        if cluster > u64::from(self.config.sm_count) {
            return Err(format!(
                "a cluster of {cluster} CTAs does not fit {} SMs",
                self.config.sm_count
            ));
        }
        let limits = &kernel.limits;
        if let Some(required) = limits.req_ntid.filter(|r| *r != config.block) {
            return Err(format!("block {:?}, but .reqntid is {required:?}", config.block));
        }
        if let Some(most) = limits.max_ntid.filter(|m| product(*m) < threads) {
            return Err(format!("{threads} threads per CTA, but .maxntid is {most:?}"));
        }
        if let Some(required) = limits.req_cluster.filter(|r| *r != config.cluster) {
            return Err(format!(
                "cluster {:?}, but .reqnctapercluster is {required:?}",
                config.cluster
            ));
        }
        let smem = u64::from(kernel.static_smem_bytes) + u64::from(config.dynamic_smem_bytes);
        if smem > u64::from(self.config.max_smem_bytes) {
            return Err(format!(
                "{} static and {} dynamic bytes of shared memory; {} are allowed in all",
                kernel.static_smem_bytes, config.dynamic_smem_bytes, self.config.max_smem_bytes
            ));
        }
        Ok(())
    }
}

fn param_bytes(kernel: &Kernel, args: &[Arg]) -> Result<Vec<u8>, String> {
    if args.len() != kernel.params.len() {
        return Err(format!(
            "{} arguments for {} parameters",
            args.len(),
            kernel.params.len()
        ));
    }
    let mut out = vec![0; kernel.param_bytes as usize];
    for (param, arg) in kernel.params.iter().zip(args) {
        let bytes = arg.bytes();
        if bytes.len() != param.bytes as usize {
            return Err(format!(
                "argument `{}` has {} bytes; the parameter has {}",
                param.name,
                bytes.len(),
                param.bytes
            ));
        }
        if matches!(arg, Arg::TensorMap(_)) && bytes.len() != TENSOR_MAP_BYTES {
            return Err(format!("parameter `{}` cannot hold a tensor map", param.name));
        }
        out[param.offset as usize..param.offset as usize + bytes.len()].copy_from_slice(&bytes);
    }
    Ok(out)
}

//! A simulated device: its memory and tensor maps.

use std::ops::Range;

use thiserror::Error;

use crate::memory::global::GlobalMemory;
use crate::tma::map::{TensorMap, TensorMapError, TensorMapSpec};

use super::launch::Arg;

/// How a device behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceConfig {
    /// SMs; each holds one CTA at a time.
    pub sm_count: u32,
    /// Chooses the interleaving of warps and of asynchronous work. Same seed, same run.
    pub seed: u64,
    /// Warp instructions after which a launch is stopped.
    pub instruction_budget: u64,
    /// Most shared memory of a CTA, static and dynamic.
    pub max_smem_bytes: u32,
    /// Which warps count as readers of a wgmma's A rows in shared memory.
    pub a_rows: ARows,
    /// Threads of [`Device::explore`]; 0 for one per core. A launch splits its grid over the rayon pool that it is called in.
    pub threads: usize,
}

/// Readers of an A operand in shared memory.
///
/// The ISA speaks of the warpgroup as a whole, so a warp that overwrites even its own 16 rows
/// after its own `wgmma.wait_group` must first know that the other three warps have waited too.
/// Hardware is kinder: each warp's tensor core reads only the 16 rows that it multiplies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ARows {
    /// All four warps read all 64 rows, as far as the ISA promises.
    #[default]
    Warpgroup,
    /// Each warp reads its own 16 rows, as sm_90 hardware does.
    OwnWarp,
}

impl Default for DeviceConfig {
    /// A small sm_90 device: 4 SMs, 227 KiB of shared memory per CTA.
    fn default() -> Self {
        Self {
            sm_count: 4,
            seed: 0,
            instruction_budget: 200_000_000,
            max_smem_bytes: 232_448,
            a_rows: ARows::Warpgroup,
            threads: 0,
        }
    }
}

/// A piece of global memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffer {
    /// Its device address.
    pub address: u64,
    /// Its size.
    pub bytes: usize,
}

/// A host access outside of a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("host access of {bytes} bytes at {address:#x}: {near}")]
pub struct MemoryError {
    /// First byte.
    pub address: u64,
    /// Size.
    pub bytes: usize,
    /// What lies there.
    pub near: String,
}

/// A simulated device.
#[derive(Clone, Debug)]
pub struct Device {
    /// May be changed between launches.
    pub config: DeviceConfig,
    pub(crate) memory: GlobalMemory,
    pub(crate) maps: Vec<TensorMap>,
}

impl Device {
    /// A device with empty memory.
    pub fn new(config: DeviceConfig) -> Self {
        Self {
            config,
            memory: GlobalMemory::default(),
            maps: Vec::new(),
        }
    }

    /// Memory without a value: reading it before writing is a finding.
    pub fn alloc(&mut self, bytes: usize) -> Buffer {
        Buffer {
            address: self.memory.alloc(bytes),
            bytes,
        }
    }

    /// Memory with these bytes.
    pub fn upload(&mut self, data: &[u8]) -> Buffer {
        let buffer = self.alloc(data.len());
        // The allocation was just made with this size.
        let _ = self.memory.host_write(buffer.address, data);
        buffer
    }

    /// Writes at the start of a buffer.
    pub fn write(&mut self, buffer: Buffer, data: &[u8]) -> Result<(), MemoryError> {
        self.memory.host_write(buffer.address, data).map_err(|u| MemoryError {
            address: buffer.address,
            bytes: data.len(),
            near: u.near,
        })
    }

    /// The bytes of a buffer, written or not.
    pub fn read(&self, buffer: Buffer) -> Result<Vec<u8>, MemoryError> {
        let found = self.memory.read(buffer.address, buffer.bytes);
        found.map(|(data, _)| data.to_vec()).map_err(|u| MemoryError {
            address: buffer.address,
            bytes: buffer.bytes,
            near: u.near,
        })
    }

    /// Declares the buffer around an address an output: a plain store to a byte that the same launch has stored before is
    /// a finding. Atomics and reductions are free to write again.
    pub fn declare_output(&mut self, address: u64) -> Result<(), MemoryError> {
        self.memory.declare_output(address).map_err(|u| MemoryError {
            address,
            bytes: 0,
            near: u.near,
        })
    }

    /// Byte ranges of a buffer that no kernel has written since the host last did.
    pub fn unwritten(&self, buffer: Buffer) -> Result<Vec<Range<usize>>, MemoryError> {
        self.memory
            .unwritten(buffer.address, buffer.bytes)
            .map_err(|u| MemoryError {
                address: buffer.address,
                bytes: buffer.bytes,
                near: u.near,
            })
    }

    /// Makes a tensor map, to be passed by value.
    pub fn tensor_map(&mut self, spec: TensorMapSpec) -> Result<Arg, TensorMapError> {
        self.maps.push(TensorMap::new(spec)?);
        Ok(Arg::TensorMap(self.maps.len() - 1))
    }
}

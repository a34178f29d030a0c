//! What a user of the simulator holds: modules, devices, buffers, launches.

mod device;
mod launch;
mod parts;

pub use device::{ARows, Buffer, Device, DeviceConfig, MemoryError};
pub use launch::{Arg, LaunchConfig, LaunchReport, SeedRun};

use crate::decode::Kernel;
use crate::parse::error::PtxError;

/// A parsed and decoded PTX module.
#[derive(Clone, Debug)]
pub struct Module {
    pub(crate) kernels: Vec<Kernel>,
    target: String,
    version: (u32, u32),
    /// Comments that stand alone on a line.
    pub(crate) notes: Vec<(u32, String)>,
}

impl Module {
    /// Reads PTX text. Errors name line and column and what is not understood.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let ast = crate::parse::parse(text)?;
        let kernels = crate::decode::decode(&ast)?;
        Ok(Self {
            kernels,
            target: ast.target,
            version: ast.version,
            notes: crate::time::labels::notes(text),
        })
    }

    /// Names of the entries, in text order.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|k| k.name.as_str())
    }

    /// Names and byte sizes of an entry's parameters.
    pub fn params(&self, entry: &str) -> Option<Vec<(&str, u32)>> {
        let kernel = self.kernels.iter().find(|k| k.name == entry)?;
        Some(kernel.params.iter().map(|p| (p.name.as_str(), p.bytes)).collect())
    }

    /// `.target` of the module.
    pub fn target(&self) -> &str {
        &self.target
    }

    /// `.version` of the module.
    pub fn version(&self) -> (u32, u32) {
        self.version
    }
}

//! A device that spoils one row of what the kernel under test wrote.

use std::cell::RefCell;

use codegen::launch::{LaunchFacts, Param};
use driver::LaunchSpec;
use warpwright_runner::device::{Device, DeviceError, DeviceFacts, Image};
use warpwright_runner::launch::Arg;

/// What is spoilt, in the first batch and head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Of O, C or Y, where it has so many rows: its elements become those of the row before.
    Row(usize),
    /// One log-sum-exp grows by a hundredth.
    Lse(usize),
}

/// A device and its flaw. Plain reference kernels (entries `plain_…`) run as they are.
pub struct Tamper<D: Device> {
    inner: D,
    plant: Plant,
    /// Address and size of every buffer.
    buffers: RefCell<Vec<(u64, u64)>>,
}

/// Address of the spoilt tensor, and its row stride in elements where it is not the LSE.
type Target = Option<(u64, usize)>;

impl<D: Device> Tamper<D> {
    pub fn new(inner: D, plant: Plant) -> Self {
        let buffers = RefCell::default();
        Self { inner, plant, buffers }
    }

    fn target(&self, facts: &LaunchFacts, args: &[Arg]) -> Target {
        if facts.entry.starts_with("plain_") {
            return None;
        }
        let wanted: &[&str] = match self.plant {
            Plant::Row(_) => &["o", "c", "y"],
            Plant::Lse(_) => &["lse"],
        };
        facts
            .params
            .iter()
            .zip(args)
            .find_map(|(param, arg)| match (param, arg) {
                (Param::TensorMap { tensor, .. }, Arg::TensorMap(map)) if wanted.contains(&tensor.as_str()) => {
                    // Rows of one head: of O [batch, q_len, heads, head_dim] the second dimension from outside.
                    let stride = if map.dims_elems.len() == 4 { 1 } else { 0 };
                    Some((map.base, map.strides_bytes[stride] as usize / 2))
                }
                (Param::Pointer { tensor, .. }, Arg::Address(address)) if wanted.contains(&tensor.as_str()) => {
                    Some((*address, 0))
                }
                _ => None,
            })
    }
}

impl<D: Device<Buffer = sim::Buffer>> Device for Tamper<D> {
    type Buffer = D::Buffer;
    type Kernel = (D::Kernel, LaunchFacts);
    type Bound = (D::Bound, Target);

    fn facts(&self) -> &DeviceFacts {
        self.inner.facts()
    }

    fn needs_cubin(&self) -> bool {
        self.inner.needs_cubin()
    }

    fn load(&self, image: &Image<'_>, facts: &LaunchFacts) -> Result<Self::Kernel, DeviceError> {
        Ok((self.inner.load(image, facts)?, facts.clone()))
    }

    fn alloc(&self, len_bytes: u64) -> Result<D::Buffer, DeviceError> {
        let buffer = self.inner.alloc(len_bytes)?;
        self.buffers.borrow_mut().push((self.inner.address(&buffer), len_bytes));
        Ok(buffer)
    }

    fn address(&self, buffer: &D::Buffer) -> u64 {
        self.inner.address(buffer)
    }

    fn write(&self, buffer: &D::Buffer, bytes: &[u8]) -> Result<(), DeviceError> {
        self.inner.write(buffer, bytes)
    }

    fn fill(&self, buffer: &D::Buffer, byte: u8) -> Result<(), DeviceError> {
        self.inner.fill(buffer, byte)
    }

    fn read(&self, buffer: &D::Buffer) -> Result<Vec<u8>, DeviceError> {
        self.inner.read(buffer)
    }

    fn check_bounds(&self, buffer: &D::Buffer) -> Result<(), DeviceError> {
        self.inner.check_bounds(buffer)
    }

    fn bind(&self, kernel: &Self::Kernel, spec: &LaunchSpec, args: &[Arg]) -> Result<Self::Bound, DeviceError> {
        Ok((self.inner.bind(&kernel.0, spec, args)?, self.target(&kernel.1, args)))
    }

    fn launch(&self, bound: &Self::Bound) -> Result<(), DeviceError> {
        self.inner.launch(&bound.0)?;
        let Some((address, stride)) = bound.1 else {
            return Ok(());
        };
        let (_, len_bytes) = *self.buffers.borrow().iter().find(|(at, _)| *at == address).unwrap();
        let buffer = sim::Buffer {
            address,
            bytes: len_bytes as usize,
        };
        let mut bytes = self.inner.read(&buffer)?;
        match self.plant {
            Plant::Row(row) => {
                // The elements that every shape has.
                let width = 2 * 64.min(stride);
                if 2 * row * stride + width > bytes.len() {
                    return Ok(());
                }
                bytes.copy_within(2 * (row - 1) * stride..2 * (row - 1) * stride + width, 2 * row * stride);
            }
            Plant::Lse(row) => {
                let at = 4 * row..4 * row + 4;
                let value = f32::from_le_bytes(bytes[at.clone()].try_into().unwrap());
                bytes[at].copy_from_slice(&(value * 1.01).to_le_bytes());
            }
        }
        self.inner.write(&buffer, &bytes)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        self.inner.synchronize()
    }
}

//! The tensors of a case in a device's memory.

use dsl::DType;
use oracle::dtype::{POISON_16, POISON_32};

use super::Wrong;
use crate::case::{Case, CaseTensor, Role};
use crate::device::{Device, DeviceError, FaultClass};
use crate::launch::TensorArg;

/// All bits set: a NaN in every type, and the oracle's poison patterns.
const POISON_BYTE: u8 = 0xff;

/// Outputs read back, dense.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Output {
    /// O, C or Y, bit patterns.
    pub values: Vec<u16>,
    /// Bit patterns of LSE; empty where there is none.
    pub lse: Vec<u32>,
}

/// One buffer per tensor parameter.
pub struct TensorSet<D: Device> {
    tensors: Vec<CaseTensor>,
    buffers: Vec<D::Buffer>,
    args: Vec<TensorArg>,
}

impl<D: Device> TensorSet<D> {
    /// Allocates every tensor of a case; contents are undefined.
    ///
    /// # Errors
    /// Not enough memory.
    pub fn alloc(device: &D, case: &Case) -> Result<Self, DeviceError> {
        let tensors = case.tensors().to_vec();
        let bytes = |tensor: &CaseTensor| tensor.layout.span_elems().saturating_mul(tensor.dtype.bytes().into());
        let buffers = tensors
            .iter()
            .map(|tensor| device.alloc(bytes(tensor)))
            .collect::<Result<Vec<_>, _>>()?;
        let args = tensors.iter().zip(&buffers).map(|(tensor, buffer)| TensorArg {
            name: tensor.name.clone(),
            address: device.address(buffer),
            dtype: tensor.dtype,
            dims: tensor.layout.dims.clone(),
            strides: tensor.layout.strides.clone(),
        });
        let args = args.collect();
        Ok(Self { tensors, buffers, args })
    }

    /// The tensors as kernel arguments.
    #[must_use]
    pub fn args(&self) -> &[TensorArg] {
        &self.args
    }

    /// Writes the inputs, given dense and in the order of the signature; gaps become NaNs.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn write_inputs(&self, device: &D, inputs: &[Vec<u16>]) -> Result<(), DeviceError> {
        for ((tensor, buffer), dense) in self.inputs().zip(inputs) {
            let strided = tensor.layout.scatter(dense, POISON_16);
            device.write(buffer, bytemuck::cast_slice(&strided))?;
        }
        Ok(())
    }

    /// Sets every byte of every input.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn fill_inputs(&self, device: &D, byte: u8) -> Result<(), DeviceError> {
        self.inputs().try_for_each(|(_, buffer)| device.fill(buffer, byte))
    }

    /// Makes every byte of every output poison.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn poison_outputs(&self, device: &D) -> Result<(), DeviceError> {
        self.outputs()
            .try_for_each(|(_, buffer)| device.fill(buffer, POISON_BYTE))
    }

    /// Looks for writes outside the tensors.
    ///
    /// # Errors
    /// The place of one, or another failure of the device.
    pub fn check_bounds(&self, device: &D) -> Result<(), DeviceError> {
        for (tensor, buffer) in self.tensors.iter().zip(&self.buffers) {
            device.check_bounds(buffer).map_err(|error| match error.class {
                FaultClass::OutOfBounds => {
                    DeviceError::new(error.class, format!("tensor `{}`: {}", tensor.name, error.message))
                }
                _ => error,
            })?;
        }
        Ok(())
    }

    /// Compares the inputs, gaps included, with what was written.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn changed_input(&self, device: &D, inputs: &[Vec<u16>]) -> Result<Option<Wrong>, DeviceError> {
        for ((tensor, buffer), dense) in self.inputs().zip(inputs) {
            let now: Vec<u16> = bytemuck::pod_collect_to_vec(&device.read(buffer)?);
            let before = tensor.layout.scatter(dense, POISON_16);
            let elems = now.iter().zip(&before).filter(|(now, before)| now != before).count() as u64;
            if elems > 0 || now.len() != before.len() {
                let tensor = tensor.name.clone();
                return Ok(Some(Wrong::InputChanged { tensor, elems }));
            }
        }
        Ok(None)
    }

    /// Reads the outputs, or says in which one a gap was written.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn read_outputs(&self, device: &D) -> Result<Result<Output, Wrong>, DeviceError> {
        let mut output = Output::default();
        for (tensor, buffer) in self.outputs() {
            let bytes = device.read(buffer)?;
            let elems = if tensor.dtype == DType::F32 {
                let strided: Vec<u32> = bytemuck::pod_collect_to_vec(&bytes);
                let (lse, gaps) = tensor.layout.gather(&strided, |bits| bits != POISON_32);
                output.lse = lse;
                gaps
            } else {
                let strided: Vec<u16> = bytemuck::pod_collect_to_vec(&bytes);
                let (values, gaps) = tensor.layout.gather(&strided, |bits| bits != POISON_16);
                output.values = values;
                gaps
            };
            if elems > 0 {
                let tensor = tensor.name.clone();
                return Ok(Err(Wrong::GapWritten { tensor, elems }));
            }
        }
        Ok(Ok(output))
    }

    fn inputs(&self) -> impl Iterator<Item = (&CaseTensor, &D::Buffer)> {
        let all = self.tensors.iter().zip(&self.buffers);
        all.filter(|(tensor, _)| matches!(tensor.role, Role::Input(_)))
    }

    fn outputs(&self) -> impl Iterator<Item = (&CaseTensor, &D::Buffer)> {
        let all = self.tensors.iter().zip(&self.buffers);
        all.filter(|(tensor, _)| tensor.role == Role::Output)
    }
}

impl Output {
    /// One hash of everything.
    #[must_use]
    pub fn hash(&self) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        hasher.update(bytemuck::cast_slice(&self.values));
        hasher.update(bytemuck::cast_slice(&self.lse));
        hasher.finalize()
    }
}

//! A kernel with everything that a run of it needs, launched from its launch facts alone on any device. The example programs
//! share it.

use std::collections::BTreeMap;

use codegen::launch::LaunchFacts;
use codegen::target::SM_90A;
use codegen::{Compiled, compile};
use dsl::DType;
use dsl::schedule::{Assembler as AssemblerChoice, text};
use oracle::Dtype;
use testkit::examples::Example;
use warpwright_runner::assemble::AssembledImage;
use warpwright_runner::device::DeviceError;
use warpwright_runner::device::Image;
use warpwright_runner::expr::Sizes;
use warpwright_runner::launch::LaunchError;
use warpwright_runner::launch::{BindInput, Prepared, TensorArg};
use warpwright_runner::{Assembler, Device};

type AnyError = Box<dyn std::error::Error>;

/// All bits set: a NaN in every type.
const POISON_BYTE: u8 = 0xff;

/// A tensor without gaps.
#[derive(Clone, Debug)]
pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    pub dims: Vec<usize>,
    /// Its dimensions from the one with the longest stride to the contiguous one.
    pub order: Vec<usize>,
}

impl Tensor {
    fn elements(&self) -> usize {
        self.dims.iter().product()
    }

    fn at(&self, address: u64) -> TensorArg {
        let (mut strides, mut stride) = (vec![1_u64; self.dims.len()], 1);
        for axis in self.order.iter().rev() {
            strides[*axis] = stride;
            stride *= self.dims[*axis] as u64;
        }
        TensorArg {
            name: self.name.clone(),
            address,
            dtype: self.dtype,
            dims: self.dims.iter().map(|dim| *dim as u64).collect(),
            strides,
        }
    }

    /// The values of stored bytes.
    #[must_use]
    pub fn numbers(&self, bytes: &[u8]) -> Vec<f64> {
        match storage(self.dtype) {
            Some(dtype) => {
                let words = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
                words.map(|bits| f64::from(dtype.decode(bits))).collect()
            }
            None => {
                let words = bytes
                    .chunks_exact(4)
                    .map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                words.map(f64::from).collect()
            }
        }
    }

    /// Values as they are stored, rounded to the type.
    #[must_use]
    pub fn stored(&self, values: &[f64]) -> Vec<u8> {
        match storage(self.dtype) {
            Some(dtype) => values.iter().flat_map(|x| dtype.encode_f64(*x).to_le_bytes()).collect(),
            None => values.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
        }
    }
}

/// The 16-bit type, or none for f32.
const fn storage(dtype: DType) -> Option<Dtype> {
    match dtype {
        DType::Bf16 => Some(Dtype::Bf16),
        DType::F16 => Some(Dtype::F16),
        DType::F32 => None,
    }
}

/// What is launched, and on what.
#[derive(Clone, Debug)]
pub struct Subject {
    pub label: String,
    /// TOML; empty for PTX that no schedule made.
    pub schedule: String,
    pub ptx: String,
    pub facts: LaunchFacts,
    pub assembler: AssemblerChoice,
    pub sizes: Sizes,
    pub scalars: BTreeMap<String, f32>,
    /// Each with its bytes.
    pub inputs: Vec<(Tensor, Vec<u8>)>,
    pub outputs: Vec<Tensor>,
    /// Whether a launch promises to leave its scratch as it found it.
    pub resets_scratch: bool,
}

/// Why a run has no outputs.
#[derive(Debug)]
pub enum RunError {
    Device(DeviceError),
    Launch(LaunchError),
    /// It ended, and did what it must not.
    Wrong(String),
}

impl From<DeviceError> for RunError {
    fn from(error: DeviceError) -> Self {
        Self::Device(error)
    }
}

impl From<LaunchError> for RunError {
    fn from(error: LaunchError) -> Self {
        Self::Launch(error)
    }
}

/// The bytes of every output of one launch.
pub type Outputs = Vec<Vec<u8>>;

impl Subject {
    /// An example, compiled; inputs are its noise.
    ///
    /// # Errors
    /// The compiler's refusal.
    pub fn of_example(example: &Example) -> Result<(Self, Compiled), AnyError> {
        let schedule = text::parse_for(&example.schedule, &example.kernel)?;
        let compiled = compile(&example.kernel, &schedule, &SM_90A)?;
        let tensor = |name: &str, dims: &[usize]| -> Result<Tensor, AnyError> {
            let found = example.kernel.tensors.iter().find(|tensor| tensor.name == name);
            Ok(Tensor {
                name: name.to_owned(),
                dtype: found.ok_or_else(|| format!("no tensor `{name}`"))?.dtype,
                dims: dims.to_vec(),
                order: (0..dims.len()).collect(),
            })
        };
        let mut inputs = Vec::new();
        for input in &example.inputs {
            let tensor = tensor(input.name, &input.dims)?;
            let values = testkit::noise(input.name, tensor.elements(), input.spread);
            let bytes = tensor.stored(&values);
            inputs.push((tensor, bytes));
        }
        let outputs = example.outputs.iter().map(|(name, dims)| tensor(name, dims));
        let subject = Self {
            label: example.label.clone(),
            schedule: example.schedule.clone(),
            ptx: compiled.ptx.0.clone(),
            facts: compiled.launch.clone(),
            assembler: schedule.assembler,
            sizes: example.runtime.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
            scalars: example
                .scalars
                .iter()
                .map(|(n, v)| ((*n).to_owned(), *v as f32))
                .collect(),
            inputs,
            outputs: outputs.collect::<Result<_, _>>()?,
            resets_scratch: true,
        };
        Ok((subject, compiled))
    }

    /// The cubin.
    ///
    /// # Errors
    /// The assembler's refusal.
    pub fn assemble(&self, assembler: &Assembler) -> Result<AssembledImage, AnyError> {
        Ok(assembler.assemble(&self.ptx, SM_90A.name, &self.assembler)?)
    }

    /// Launches the kernel a number of times on poisoned outputs.
    ///
    /// # Errors
    /// A failure of the device, something written beside the outputs, an output element left unwritten.
    pub fn run<D: Device>(
        &self,
        device: &D,
        cubin: Option<&AssembledImage>,
        launches: u32,
    ) -> Result<Vec<Outputs>, RunError> {
        let image = Image {
            ptx: &self.ptx,
            cubin: cubin.map(|image| image.cubin.as_slice()),
        };
        let prepared = Prepared::load(device, &image, &self.facts)?;
        let (mut args, mut kept, mut made) = (Vec::new(), Vec::new(), Vec::new());
        for (tensor, bytes) in &self.inputs {
            let buffer = device.alloc(bytes.len() as u64)?;
            device.write(&buffer, bytes)?;
            args.push(tensor.at(device.address(&buffer)));
            kept.push((buffer, bytes));
        }
        for tensor in &self.outputs {
            let buffer = device.alloc(tensor.elements() as u64 * u64::from(tensor.dtype.bytes()))?;
            args.push(tensor.at(device.address(&buffer)));
            made.push(buffer);
        }
        let input = BindInput {
            sizes: &self.sizes,
            scalars: &self.scalars,
            tensors: &args,
        };
        let bound = prepared.bind(device, &input)?;
        let mut all = Vec::new();
        for _ in 0..launches {
            for buffer in &made {
                device.fill(buffer, POISON_BYTE)?;
            }
            bound.launch(device)?;
            device.synchronize()?;
            if self.resets_scratch {
                bound.check_scratch(device)?;
            }
            let mut outputs = Vec::new();
            for (tensor, buffer) in self.outputs.iter().zip(&made) {
                device.check_bounds(buffer)?;
                let bytes = device.read(buffer)?;
                let mut elements = bytes.chunks_exact(tensor.dtype.bytes() as usize);
                if elements.any(|e| e.iter().all(|b| *b == POISON_BYTE)) {
                    return Err(RunError::Wrong(format!("`{}` has unwritten elements", tensor.name)));
                }
                outputs.push(bytes);
            }
            all.push(outputs);
        }
        for (buffer, before) in &kept {
            device.check_bounds(buffer)?;
            if device.read(buffer)? != **before {
                return Err(RunError::Wrong("an input was written".to_owned()));
            }
        }
        Ok(all)
    }
}

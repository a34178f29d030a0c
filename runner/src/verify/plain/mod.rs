//! Plain reference kernels of our own: whole tensors in f32, simple enough to be read and believed.
//!
//! `attention.ptx`, `gemm.ptx` and `row_softmax.ptx` are written by hand: no tensor core, no TMA, no shared memory, nothing of
//! `codegen`. They run on the same device as the kernel under test, through the same launch plan, on the same inputs in
//! the same strides. The `.sm_90.cubin` beside each is that text through the pinned assembler (a test compares them;
//! `WARPWRIGHT_WRITE_CUBINS=1` writes them), so that a GPU machine needs no assembler and no folder to be verified on.
//! The simulator reads the text itself.

mod facts;

use oracle::Problem;

use super::TensorSet;
use crate::case::Case;
use crate::device::{Device, DeviceError, FaultClass, Image};
use crate::launch::{BindInput, Bound, LaunchError, Prepared, TensorArg};

/// Threads of every plain kernel's block.
const BLOCK_THREADS: u32 = 128;

/// All bits set: an element that was not written is a NaN.
const POISON_BYTE: u8 = 0xff;

/// The code of one plain kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlainCode {
    /// File name without ending.
    pub name: &'static str,
    pub ptx: &'static str,
    /// The text assembled for [`PLAIN_ARCH`].
    pub cubin: &'static [u8],
}

/// What the cubins were assembled for.
pub const PLAIN_ARCH: &str = "sm_90";

macro_rules! code {
    ($name:literal) => {
        PlainCode {
            name: $name,
            ptx: include_str!(concat!($name, ".ptx")),
            cubin: include_bytes!(concat!($name, ".sm_90.cubin")),
        }
    };
}

const ATTENTION: PlainCode = code!("attention");
const GEMM: PlainCode = code!("gemm");
const ROW_SOFTMAX: PlainCode = code!("row_softmax");

/// Every plain kernel.
pub const PLAIN_KERNELS: [PlainCode; 3] = [ATTENTION, GEMM, ROW_SOFTMAX];

/// A whole result in f32, dense.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlainOutput {
    /// O `[batch, q_len, heads, head_dim]`, C or Y `[m, n]`.
    pub values: Vec<f32>,
    /// `[batch, heads, q_len]`, natural log; empty where there is none.
    pub lse: Vec<f32>,
    /// 2-norm of each row's softmax weights, as `lse`.
    pub weight_norm: Vec<f32>,
}

/// A plain kernel bound to the inputs of a tensor set.
pub struct PlainRun<D: Device> {
    bound: Bound<D>,
    /// In the order of [`PlainOutput`].
    outputs: Vec<D::Buffer>,
}

impl<D: Device> PlainRun<D> {
    /// Loads the plain kernel of a case's problem and binds it to the set's inputs and outputs of its own.
    ///
    /// # Errors
    /// A device that does not take it, or has not enough memory.
    pub fn new(device: &D, case: &Case, set: &TensorSet<D>) -> Result<Self, LaunchError> {
        let plain = facts::of(case);
        let code = match case.problem() {
            Problem::Forward(_) => ATTENTION,
            Problem::Gemm(_) => GEMM,
            Problem::Softmax(_) => ROW_SOFTMAX,
        };
        let image = Image {
            ptx: code.ptx,
            cubin: Some(code.cubin),
        };
        let prepared = Prepared::load(device, &image, &plain.facts)?;
        let mut tensors = set.args().to_vec();
        let mut outputs = Vec::new();
        for (name, dims) in &plain.outputs {
            let buffer = device.alloc(dims.iter().product::<u64>().saturating_mul(4))?;
            tensors.push(dense(name, device.address(&buffer), dims));
            outputs.push(buffer);
        }
        let input = BindInput {
            sizes: &plain.sizes,
            scalars: case.scalars(),
            tensors: &tensors,
        };
        let bound = prepared.bind(device, &input)?;
        Ok(Self { bound, outputs })
    }

    /// Computes the result for the inputs that the tensor set holds now.
    ///
    /// # Errors
    /// A failure of the device.
    pub fn run(&self, device: &D) -> Result<PlainOutput, DeviceError> {
        for buffer in &self.outputs {
            device.fill(buffer, POISON_BYTE)?;
        }
        self.bound.launch(device)?;
        device.synchronize()?;
        let mut parts = self.outputs.iter();
        let mut next = || -> Result<Vec<f32>, DeviceError> {
            let Some(buffer) = parts.next() else {
                return Ok(Vec::new());
            };
            device.check_bounds(buffer)?;
            Ok(bytemuck::pod_collect_to_vec(&device.read(buffer)?))
        };
        Ok(PlainOutput {
            values: next()?,
            lse: next()?,
            weight_norm: next()?,
        })
    }
}

fn dense(name: &str, address: u64, dims: &[u64]) -> TensorArg {
    let mut strides = vec![1; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = dims[axis].saturating_mul(strides[axis]);
    }
    TensorArg {
        name: name.to_owned(),
        address,
        dtype: dsl::DType::F32,
        dims: dims.to_vec(),
        strides,
    }
}

/// Says what can be done where a plain kernel does not load.
pub(super) fn explain(error: LaunchError) -> LaunchError {
    match error {
        LaunchError::Device(error) if error.class == FaultClass::Load => {
            let message = format!(
                "the plain reference kernel, built for {PLAIN_ARCH}, does not load here: {}; allowed: a GPU of that \
                 generation, or a plan without the whole-tensor check",
                error.message
            );
            LaunchError::Device(DeviceError::new(FaultClass::Load, message))
        }
        other => other,
    }
}

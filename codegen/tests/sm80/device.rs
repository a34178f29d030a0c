//! Runs a compiled kernel on the simulated device, by its launch facts alone.

use std::collections::BTreeMap;

use dsl::DType;
use sim::{Arg, Buffer, Device, DeviceConfig, LaunchConfig, Module};
use warpwright_codegen::Compiled;
use warpwright_codegen::launch::Param;

/// A 16-bit matrix with padded rows; the padding holds no number, and nothing follows the last row.
#[derive(Clone)]
pub struct Matrix {
    pub dtype: DType,
    pub rows: usize,
    pub cols: usize,
    pub stride: usize,
    pub bits: Vec<u16>,
}

impl Matrix {
    /// Values between -2 and 2; the stride is the next multiple of 8 elements, or one more such step.
    pub fn random(dtype: DType, rows: usize, cols: usize, seed: u64) -> Self {
        let mut out = Self::empty(dtype, rows, cols);
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        for r in 0..rows {
            for c in 0..cols {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                let value = (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0;
                out.bits[r * out.stride + c] = to_bits(dtype, value);
            }
        }
        out
    }

    pub fn empty(dtype: DType, rows: usize, cols: usize) -> Self {
        let stride = cols.next_multiple_of(8) + 8;
        Self {
            dtype,
            rows,
            cols,
            stride,
            bits: vec![0x7fff; (rows - 1) * stride + cols],
        }
    }

    pub fn at(&self, r: usize, c: usize) -> f64 {
        from_bits(self.dtype, self.bits[r * self.stride + c])
    }
}

fn to_bits(dtype: DType, v: f32) -> u16 {
    if dtype == DType::F16 {
        half::f16::from_f32(v).to_bits()
    } else {
        half::bf16::from_f32(v).to_bits()
    }
}

fn from_bits(dtype: DType, bits: u16) -> f64 {
    if dtype == DType::F16 {
        half::f16::from_bits(bits).to_f64()
    } else {
        half::bf16::from_bits(bits).to_f64()
    }
}

/// A launch to be made.
pub struct Run<'a> {
    pub compiled: &'a Compiled,
    pub blocks: u32,
    pub sizes: BTreeMap<&'a str, u32>,
    pub inputs: Vec<(&'a str, &'a Matrix)>,
    /// The shape of the one output.
    pub output: (&'a str, Matrix),
    pub seed: u64,
}

/// A small device of this target.
pub fn device(seed: u64) -> Device {
    Device::new(DeviceConfig {
        seed,
        sm_count: 2,
        max_smem_bytes: 166_912,
        ..DeviceConfig::default()
    })
}

/// Launches with tensors given by address and strides; findings are failures.
pub fn launch(
    device: &mut Device,
    compiled: &Compiled,
    blocks: u32,
    sizes: &BTreeMap<&str, u32>,
    tensors: &BTreeMap<&str, (Buffer, Vec<usize>)>,
) {
    let module = Module::parse(&compiled.ptx.to_string()).unwrap_or_else(|e| panic!("{e}"));
    let facts = &compiled.launch;
    let args: Vec<Arg> = facts
        .params
        .iter()
        .map(|p| match p {
            Param::Pointer { tensor, .. } => Arg::Buffer(tensors[tensor.as_str()].0),
            Param::Stride { tensor, dim, .. } => Arg::U64(tensors[tensor.as_str()].1[*dim as usize] as u64),
            Param::Size { name } => Arg::U32(sizes[name.as_str()]),
            other => panic!("a parameter this target does not have: {other:?}"),
        })
        .collect();
    let config = LaunchConfig::linear(blocks, facts.block[0], facts.shared_bytes);
    let report = device
        .launch(&module, &facts.entry, config, &args)
        .unwrap_or_else(|f| panic!("{:?}", f.all()));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

/// Launches, and gives the output back; findings, unwritten elements and writes to padding are failures.
pub fn run(r: &Run<'_>) -> Matrix {
    let mut device = device(r.seed);
    let (out_name, mut out) = r.output.clone();
    let mut tensors = BTreeMap::new();
    for (name, m) in &r.inputs {
        tensors.insert(*name, (device.upload(&bytes_of(&m.bits)), vec![m.stride, 1]));
    }
    let target = device.alloc(out.bits.len() * 2);
    tensors.insert(out_name, (target, vec![out.stride, 1]));
    launch(&mut device, r.compiled, r.blocks, &r.sizes, &tensors);
    let padding: Vec<std::ops::Range<usize>> = (0..out.rows - 1)
        .map(|i| (i * out.stride + out.cols) * 2..(i + 1) * out.stride * 2)
        .collect();
    assert_eq!(
        device.unwritten(target).unwrap(),
        padding,
        "exactly the elements of the tensor are written"
    );
    // The padding has no value; it is made one so that the rest can be read.
    let bytes = read_rows(&mut device, target, &padding);
    out.bits = bytes
        .chunks_exact(2)
        .map(|b| u16::from_le_bytes([b[0], b[1]]))
        .collect();
    out
}

fn read_rows(device: &mut Device, buffer: Buffer, padding: &[std::ops::Range<usize>]) -> Vec<u8> {
    for p in padding {
        let hole = Buffer {
            address: buffer.address + p.start as u64,
            bytes: p.len(),
        };
        device.write(hole, &vec![0; p.len()]).unwrap();
    }
    device.read(buffer).unwrap()
}

fn bytes_of(bits: &[u16]) -> Vec<u8> {
    bits.iter().flat_map(|b| b.to_le_bytes()).collect()
}

//! Problem, launch and f64 reference of the two foreign attention kernels.

use warpwright_sim::{
    Arg, Buffer, Device, DeviceConfig, ElemType, Fault, LaunchConfig, LaunchReport, Module, Swizzle, TensorMapSpec,
};

/// Shape of a problem; tensors are `[batch, len, heads, 128]` bf16.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    pub batch: usize,
    pub heads: usize,
    pub kv_heads: usize,
    pub q_len: usize,
    pub k_len: usize,
    pub causal: bool,
}

pub const HEAD_DIM: usize = 128;

/// A foreign kernel and how it is launched.
pub struct Sample {
    pub text: &'static str,
    pub q_tile: usize,
    pub k_tile: usize,
    pub threads: u32,
    pub smem_bytes: u32,
    pub dynamic: bool,
}

pub const FULL: Sample = Sample {
    text: include_str!("../foreign/fwd_d128_full_192x80.ptx"),
    q_tile: 192,
    k_tile: 80,
    threads: 512,
    smem_bytes: 131_184,
    dynamic: false,
};

pub const CAUSAL: Sample = Sample {
    text: include_str!("../foreign/fwd_d128_causal_128x128_dynamic.ptx"),
    q_tile: 128,
    k_tile: 128,
    threads: 384,
    smem_bytes: 196_720,
    dynamic: true,
};

/// bf16 values from a small generator, roughly normal.
pub fn random_bf16(count: usize, seed: u64) -> Vec<u16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut uniform = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    (0..count)
        .map(|_| {
            let sum: f64 = (0..12).map(|_| uniform()).sum::<f64>() - 6.0;
            half::bf16::from_f64(sum).to_bits()
        })
        .collect()
}

pub fn value(bits: u16) -> f64 {
    f64::from(half::bf16::from_bits(bits).to_f32())
}

/// Inputs of a problem.
pub struct Inputs {
    pub q: Vec<u16>,
    pub k: Vec<u16>,
    pub v: Vec<u16>,
}

pub fn inputs(p: &Problem) -> Inputs {
    let q = p.batch * p.q_len * p.heads * HEAD_DIM;
    let k = p.batch * p.k_len * p.kv_heads * HEAD_DIM;
    Inputs {
        q: random_bf16(q, 1),
        k: random_bf16(k, 2),
        v: random_bf16(k, 3),
    }
}

pub fn scale() -> f64 {
    1.0 / (HEAD_DIM as f64).sqrt()
}

/// Softmax attention in f64, `[batch, len, heads, 128]`.
pub fn reference(p: &Problem, x: &Inputs) -> Vec<f64> {
    let mut out = vec![0.0; x.q.len()];
    let q64: Vec<f64> = x.q.iter().map(|b| value(*b)).collect();
    let k64: Vec<f64> = x.k.iter().map(|b| value(*b)).collect();
    let v64: Vec<f64> = x.v.iter().map(|b| value(*b)).collect();
    let group = p.heads / p.kv_heads;
    for b in 0..p.batch {
        for h in 0..p.heads {
            for i in 0..p.q_len {
                let qi = ((b * p.q_len + i) * p.heads + h) * HEAD_DIM;
                let visible = if p.causal { i + 1 } else { p.k_len };
                let row = |j: usize| ((b * p.k_len + j) * p.kv_heads + h / group) * HEAD_DIM;
                let scores: Vec<f64> = (0..visible)
                    .map(|j| (0..HEAD_DIM).map(|d| q64[qi + d] * k64[row(j) + d]).sum::<f64>() * scale())
                    .collect();
                let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
                let weights: Vec<f64> = scores.iter().map(|s| (s - max).exp()).collect();
                let total: f64 = weights.iter().sum();
                for (j, weight) in weights.iter().enumerate() {
                    for d in 0..HEAD_DIM {
                        out[qi + d] += weight / total * v64[row(j) + d];
                    }
                }
            }
        }
    }
    out
}

/// Relative error in the Frobenius norm.
pub fn relative_error(found: &[u16], wanted: &[f64]) -> f64 {
    let (mut error, mut norm) = (0.0, 0.0);
    for (bits, wanted) in found.iter().zip(wanted) {
        error += (value(*bits) - wanted).powi(2);
        norm += wanted * wanted;
    }
    (error / norm).sqrt()
}

pub fn bytes(values: &[u16]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A map over `[batch, len, heads, 128]` with boxes of 64 x `rows`.
pub fn map(device: &mut Device, buffer: Buffer, shape: [usize; 3], rows: usize) -> Arg {
    let [batch, len, heads] = shape.map(|x| x as u64);
    let d = HEAD_DIM as u64;
    device
        .tensor_map(TensorMapSpec {
            elem: ElemType::Bf16,
            address: buffer.address,
            dims: vec![d, len, heads, batch],
            strides_bytes: vec![heads * d * 2, d * 2, len * heads * d * 2],
            box_dims: vec![64, rows as u32, 1, 1],
            swizzle: Swizzle::B128,
        })
        .unwrap()
}

/// A finished launch: its report or fault, the output, and the output bytes nobody wrote.
pub struct Run {
    pub result: Result<LaunchReport, Fault>,
    pub out: Vec<u16>,
    pub unwritten: usize,
}

/// Runs `text`, which is `sample`'s or a mutation of it.
pub fn run(sample: &Sample, text: &str, p: &Problem, config: DeviceConfig) -> Run {
    let module = Module::parse(text).unwrap();
    let x = inputs(p);
    let mut device = Device::new(config);
    let (q, k, v) = (
        device.upload(&bytes(&x.q)),
        device.upload(&bytes(&x.k)),
        device.upload(&bytes(&x.v)),
    );
    let out = device.alloc(x.q.len() * 2);
    device.declare_output(out.address).unwrap();
    let counter = device.upload(&[0; 4]);
    let q_shape = [p.batch, p.q_len, p.heads];
    let k_shape = [p.batch, p.k_len, p.kv_heads];
    let tiles = (p.q_len.div_ceil(sample.q_tile) * p.heads * p.batch) as u32;
    let args = [
        map(&mut device, q, q_shape, sample.q_tile),
        map(&mut device, k, k_shape, sample.k_tile),
        map(&mut device, v, k_shape, sample.k_tile),
        map(&mut device, out, q_shape, 64),
        Arg::U64(if sample.dynamic { counter.address } else { 0 }),
        Arg::U32(p.q_len as u32),
        Arg::U32(p.k_len as u32),
        Arg::U32(p.heads as u32),
        Arg::U32((p.heads / p.kv_heads) as u32),
        Arg::U32(tiles),
        Arg::F32((scale() * std::f64::consts::LOG2_E) as f32),
    ];
    let launch = LaunchConfig::linear(tiles.min(config.sm_count), sample.threads, sample.smem_bytes);
    let result = device.launch(&module, "attn", launch, &args);
    let found = device.read(out).unwrap();
    Run {
        result,
        out: found.chunks(2).map(|c| u16::from_le_bytes([c[0], c[1]])).collect(),
        unwritten: device.unwritten(out).unwrap().iter().map(|r| r.len()).sum(),
    }
}

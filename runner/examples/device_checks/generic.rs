//! A kernel that no pass was written for: compiled, launched from its launch facts alone, compared with the interpreter.

use std::collections::BTreeMap;

use codegen::target::SM_90A;
use codegen::{Compiled, compile};
use dsl::DType;
use dsl::interp::{Bindings, Interpreter, Precision, TensorData, Tensors};
use dsl::schedule::text;
use oracle::Dtype;
use serde_json::{Value, json};
use testkit::examples::Example;
use warpwright_runner::assemble::AssembledImage;
use warpwright_runner::device::Image;
use warpwright_runner::expr::Sizes;
use warpwright_runner::launch::{BindInput, Prepared, TensorArg};
use warpwright_runner::{Assembler, Device};

use super::supervise::AnyError;
use super::worker::Failed;

/// Launches of each kernel; the second must find everything as the first did.
const LAUNCHES: u32 = 2;

/// All bits set: a NaN in every type.
const POISON_BYTE: u8 = 0xff;

/// An example compiled, and assembled for a device that wants it.
pub struct Built {
    pub compiled: Compiled,
    pub image: Option<AssembledImage>,
}

/// Compiles an example.
///
/// # Errors
/// The compiler's or the assembler's refusal.
pub fn build(example: &Example, assembler: &Assembler, cubin: bool) -> Result<Built, AnyError> {
    let schedule = text::parse_for(&example.schedule, &example.kernel)?;
    let compiled = compile(&example.kernel, &schedule, &SM_90A)?;
    let image = if cubin {
        Some(assembler.assemble(&compiled.ptx.0, SM_90A.name, &schedule.assembler)?)
    } else {
        None
    };
    Ok(Built { compiled, image })
}

/// Runs a built example and compares every output; the figures are the relative errors by tensor.
///
/// # Errors
/// A failure of the device, or an output that is off.
pub fn check<D: Device>(device: &D, example: &Example, built: &Built) -> Result<Value, Failed> {
    let inputs = inputs(example)?;
    let wanted = interpret(example, &built.compiled, &inputs)?;
    let image = Image {
        ptx: &built.compiled.ptx.0,
        cubin: built.image.as_ref().map(|image| image.cubin.as_slice()),
    };
    let prepared = Prepared::load(device, &image, &built.compiled.launch)?;
    let mut args = Vec::new();
    let mut kept = Vec::new();
    for (name, data) in &inputs {
        let bytes = bytes(data);
        let buffer = device.alloc(bytes.len() as u64)?;
        device.write(&buffer, &bytes)?;
        args.push(dense(name, data.dtype(), (device.address(&buffer), data.dims())));
        kept.push((buffer, bytes));
    }
    let mut outputs = Vec::new();
    for (name, dims) in &example.outputs {
        let dtype = dtype_of(example, name)?;
        let buffer = device.alloc(dims.iter().product::<usize>() as u64 * u64::from(dtype.bytes()))?;
        args.push(dense(name, dtype, (device.address(&buffer), dims)));
        outputs.push((*name, dtype, buffer));
    }
    let sizes: Sizes = example.runtime.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect();
    let scalars: BTreeMap<String, f32> = example
        .scalars
        .iter()
        .map(|(n, v)| ((*n).to_owned(), *v as f32))
        .collect();
    let input = BindInput {
        sizes: &sizes,
        scalars: &scalars,
        tensors: &args,
    };
    let bound = prepared.bind(device, &input)?;
    let mut errors = BTreeMap::new();
    for _ in 0..LAUNCHES {
        for (_, _, buffer) in &outputs {
            device.fill(buffer, POISON_BYTE)?;
        }
        bound.launch(device)?;
        device.synchronize()?;
        bound.check_scratch(device)?;
        for (name, dtype, buffer) in &outputs {
            device.check_bounds(buffer)?;
            let found = numbers(*dtype, &device.read(buffer)?);
            let error = relative_error(&found, wanted.get(*name).map_or(&[], TensorData::data));
            // A NaN is not a small error.
            if error.is_nan() || error > example.tolerance {
                return Err(Failed::wrong(format!(
                    "`{name}` is off by {error:.2e}; allowed: {:.0e}",
                    example.tolerance
                )));
            }
            errors.insert(*name, error);
        }
    }
    for (buffer, before) in &kept {
        device.check_bounds(buffer)?;
        if device.read(buffer)? != *before {
            return Err(Failed::wrong("an input was written"));
        }
    }
    Ok(json!({ "relative_error": errors, "tolerance": example.tolerance, "launches": LAUNCHES }))
}

fn dtype_of(example: &Example, name: &str) -> Result<DType, Failed> {
    let tensor = example.kernel.tensors.iter().find(|tensor| tensor.name == name);
    tensor
        .map(|tensor| tensor.dtype)
        .ok_or_else(|| Failed::bug(format!("no tensor `{name}`")))
}

fn inputs(example: &Example) -> Result<Tensors, Failed> {
    let one = |input: &testkit::examples::Input| {
        let data = testkit::noise(input.name, input.dims.iter().product(), input.spread);
        let tensor = TensorData::dense(dtype_of(example, input.name)?, &input.dims, data).map_err(Failed::bug)?;
        Ok((input.name.to_owned(), tensor))
    };
    example.inputs.iter().map(one).collect()
}

fn interpret(example: &Example, compiled: &Compiled, inputs: &Tensors) -> Result<Tensors, Failed> {
    let mut bindings = Bindings::new();
    for (name, elems) in &compiled.scheduled.schedule.tiles {
        bindings = bindings.tile(name, *elems);
    }
    for (name, value) in &example.runtime {
        bindings = bindings.runtime(name, *value);
    }
    for (name, value) in &example.scalars {
        bindings = bindings.scalar(name, *value);
    }
    let interpreter = Interpreter::new(Precision::F64);
    interpreter.run(&example.kernel, &bindings, inputs).map_err(Failed::bug)
}

fn dense(name: &str, dtype: DType, (address, dims): (u64, &[usize])) -> TensorArg {
    let mut strides = vec![1_u64; dims.len()];
    for axis in (1..dims.len()).rev() {
        strides[axis - 1] = strides[axis] * dims[axis] as u64;
    }
    TensorArg {
        name: name.to_owned(),
        address,
        dtype,
        dims: dims.iter().map(|dim| *dim as u64).collect(),
        strides,
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

fn bytes(tensor: &TensorData) -> Vec<u8> {
    match storage(tensor.dtype()) {
        Some(dtype) => tensor
            .data()
            .iter()
            .flat_map(|x| dtype.encode_f64(*x).to_le_bytes())
            .collect(),
        None => tensor.data().iter().flat_map(|x| (*x as f32).to_le_bytes()).collect(),
    }
}

fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    match storage(dtype) {
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

/// `‖found − wanted‖ / ‖wanted‖`; a NaN where an element is one, or the lengths differ.
fn relative_error(found: &[f64], wanted: &[f64]) -> f64 {
    if found.len() != wanted.len() {
        return f64::NAN;
    }
    let (mut off, mut size) = (0.0_f64, 0.0_f64);
    for (f, w) in found.iter().zip(wanted) {
        if f != w {
            off += (f - w) * (f - w);
        }
        size += if w.is_finite() { w * w } else { 0.0 };
    }
    if off == 0.0 { 0.0 } else { (off / size).sqrt() }
}

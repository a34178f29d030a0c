//! A kernel that no pass was written for: compiled, launched from its launch facts alone, compared with the interpreter.

use std::collections::BTreeMap;

use codegen::Compiled;
use dsl::interp::{Bindings, Interpreter, Precision, TensorData, Tensors};
use serde_json::{Value, json};
use testkit::examples::Example;
use warpwright_runner::Device;
use warpwright_runner::assemble::AssembledImage;

use super::subject::Subject;
use super::worker::Failed;

/// Launches of each kernel; the second must find everything as the first did.
const LAUNCHES: u32 = 2;

/// Runs a built example and compares every output; the figures are the relative errors by tensor.
///
/// # Errors
/// A failure of the device, or an output that is off.
pub fn check<D: Device>(
    device: &D,
    example: &Example,
    (subject, compiled): &(Subject, Compiled),
    cubin: Option<&AssembledImage>,
) -> Result<Value, Failed> {
    let wanted = interpret(example, compiled, subject)?;
    let mut errors = BTreeMap::new();
    for outputs in subject.run(device, cubin, LAUNCHES)? {
        for (tensor, bytes) in subject.outputs.iter().zip(&outputs) {
            let wanted = wanted.get(&tensor.name).map_or(&[][..], TensorData::data);
            let error = relative_error(&tensor.numbers(bytes), wanted);
            // A NaN is not a small error.
            if error.is_nan() || error > example.tolerance {
                return Err(Failed::wrong(format!(
                    "`{}` is off by {error:.2e}; allowed: {:.0e}",
                    tensor.name, example.tolerance
                )));
            }
            errors.insert(tensor.name.clone(), error);
        }
    }
    Ok(json!({ "relative_error": errors, "tolerance": example.tolerance, "launches": LAUNCHES }))
}

fn interpret(example: &Example, compiled: &Compiled, subject: &Subject) -> Result<Tensors, Failed> {
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
    let dense = |(tensor, bytes): &(super::subject::Tensor, Vec<u8>)| {
        let data = TensorData::dense(tensor.dtype, &tensor.dims, tensor.numbers(bytes)).map_err(Failed::bug)?;
        Ok((tensor.name.clone(), data))
    };
    let inputs: Result<Tensors, Failed> = subject.inputs.iter().map(dense).collect();
    let interpreter = Interpreter::new(Precision::F64);
    interpreter
        .run(&example.kernel, &bindings, &inputs?)
        .map_err(Failed::bug)
}

/// `‖found − wanted‖ / ‖wanted‖`; a NaN where an element is one, or the lengths differ.
pub fn relative_error(found: &[f64], wanted: &[f64]) -> f64 {
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

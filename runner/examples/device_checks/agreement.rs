//! The simulator beside the device: the same PTX, launched from the same facts on the same inputs, output by output.
//!
//! docs/simulator.md says what may differ: the order in which the tensor core adds, and the last bits of `ex2`, `lg2`,
//! `rcp` and `tanh`. A changed last bit of an f32 may round a 16-bit value the other way. So an output may be off by the
//! share of its norm in [`tolerance`], and the record counts the elements that have the same bits.

use codegen::target::SM_90A;
use dsl::DType;
use serde_json::{Value, json};
use warpwright_runner::Device;
use warpwright_runner::assemble::AssembledImage;
use warpwright_runner::device::{SimDevice, SimOptions};

use super::Args;
use super::foreign;
use super::generic::relative_error;
use super::problems::{example, shipped};
use super::random::{Draw, draws};
use super::subject::{Subject, Tensor};
use super::supervise::AnyError;
use super::worker::Failed;

/// Random draws taken from the list of the random checks.
const DRAWS: usize = 14;

/// Largest ‖simulated − measured‖ / ‖measured‖ of an output: half a last place of 16-bit types, were every element to
/// round the other way; single precision after a few hundred additions in another order. `tanh.approx` may be off by 2^-11
/// (PTX ISA), and a cap multiplies that into the exponents of weights.
#[must_use]
pub fn tolerance(dtype: DType, ptx: &str) -> f64 {
    match dtype {
        DType::Bf16 | DType::F16 if ptx.contains("tanh.approx") => 1.0 / 128.0,
        DType::Bf16 => 1.0 / 512.0,
        DType::F16 => 1.0 / 4096.0,
        DType::F32 => 1e-5,
    }
}

/// Every subject: shipped kernels, kernels no pass was written for, random schedules, foreign kernels.
///
/// # Errors
/// A folder that was not prepared; a kernel that does not compile.
pub fn subjects(args: &Args) -> Result<Vec<Subject>, AnyError> {
    let mut examples = testkit::examples::all()?;
    examples.extend(shipped()?);
    for Draw {
        problem,
        schedule,
        number,
        ..
    } in draws(args)?.into_iter().filter(|draw| draw.number < DRAWS)
    {
        // Every other one has scores that make weights leave the safe range of a fixed reference.
        let spread = if number % 2 == 0 { 1.0 } else { 20.0 };
        examples.push(example(&problem, &format!("random {number}"), schedule, spread)?);
    }
    let ours = examples.iter().map(|example| Ok(Subject::of_example(example)?.0));
    let mut subjects = ours.collect::<Result<Vec<_>, AnyError>>()?;
    subjects.extend(foreign::subjects());
    Ok(subjects)
}

/// Runs a subject on the device and on the simulator and compares; the figures are by output. On a simulated device this
/// compares two seeds of the simulator, which tries the check itself.
///
/// # Errors
/// A failure of either device, a finding of the simulator, or outputs that differ by more than the tolerance.
pub fn check<D: Device>(device: &D, subject: &Subject, cubin: Option<&AssembledImage>) -> Result<Value, Failed> {
    let measured = subject.run(device, cubin, 1)?;
    let simulator = SimDevice::new(SimOptions {
        target: &SM_90A,
        seed: 1,
        multiprocessors: 3,
        ..SimOptions::default()
    });
    let simulated = subject.run(&simulator, None, 1)?;
    let mut figures = Vec::new();
    let pairs = measured.iter().flatten().zip(simulated.iter().flatten());
    for (tensor, (here, there)) in subject.outputs.iter().zip(pairs) {
        figures.push(compare(tensor, here, there, tolerance(tensor.dtype, &subject.ptx))?);
    }
    Ok(json!({ "simulated_beside": simulator.facts().name, "outputs": figures }))
}

fn compare(tensor: &Tensor, measured: &[u8], simulated: &[u8], allowed: f64) -> Result<Value, Failed> {
    let width = tensor.dtype.bytes() as usize;
    let pairs = measured.chunks_exact(width).zip(simulated.chunks_exact(width));
    let equal = pairs.filter(|(a, b)| a == b).count();
    let error = relative_error(&tensor.numbers(simulated), &tensor.numbers(measured));
    if error.is_nan() || error > allowed {
        let name = &tensor.name;
        let message = format!("`{name}`: simulated and measured are {error:.2e} apart; allowed: {allowed:.2e}");
        return Err(Failed::wrong(message));
    }
    Ok(json!({
        "tensor": tensor.name,
        "dtype": tensor.dtype.to_string(),
        "elements": measured.len() / width,
        "same_bits": equal,
        "relative_difference": error,
        "allowed": allowed,
    }))
}

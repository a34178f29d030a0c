//! The CPU interpreter: what every operation of the IR means.
//!
//! Every grid point runs on its own, in order; folds take their trips in order. Loads give zero outside the tensor,
//! stores drop what lies outside, and an output element that no block writes is NaN. A maximum ignores a side that is
//! not a number, and takes +0 over -0 (PTX ISA, "Floating Point Instructions: max"). A rescaled fold follows the exact
//! running maximum ([`crate::ir::CarryKind::Reference`]). Schedules play no part.

mod arith;
mod bindings;
mod error;
mod fold;
mod machine;
mod memory;
mod tensor;
mod tile;

use std::collections::BTreeMap;

pub use arith::Precision;
pub use bindings::Bindings;
pub use error::{InterpError, LayoutError};
pub use tensor::{TensorData, round};

use crate::ir::{Access, Kernel};
use crate::validate::{ValidKernel, validate};
use arith::Arith;
use bindings::Sizes;
use machine::Machine;
use memory::Output;

/// Tensors by name.
pub type Tensors = BTreeMap<String, TensorData>;

/// Runs kernels in one arithmetic.
#[derive(Clone, Copy, Debug)]
pub struct Interpreter {
    arith: Arith,
}

impl Interpreter {
    /// An interpreter whose casts round.
    #[must_use]
    pub fn new(precision: Precision) -> Self {
        Self {
            arith: Arith {
                precision,
                casts_round: true,
            },
        }
    }

    /// Casts change types but no numbers: with [`Precision::F64`] this is the kernel's formula in f64. Inputs stay
    /// rounded as stored, and so do outputs.
    #[must_use]
    pub fn ignoring_casts(mut self) -> Self {
        self.arith.casts_round = false;
        self
    }

    /// Checks the kernel and runs it over its whole grid; gives the outputs by name, dense.
    ///
    /// # Errors
    /// When the kernel is not valid, a name is not bound or an input does not fit, or the program meets a state that
    /// has no meaning (a fold without trips, an overflowing index, an element written twice).
    pub fn run(&self, kernel: &Kernel, bindings: &Bindings, inputs: &Tensors) -> Result<Tensors, InterpError> {
        self.run_valid(&validate(kernel.clone())?, bindings, inputs)
    }

    /// Runs a kernel that is known to be valid.
    ///
    /// # Errors
    /// See [`Interpreter::run`].
    pub fn run_valid(
        &self,
        kernel: &ValidKernel,
        bindings: &Bindings,
        inputs: &Tensors,
    ) -> Result<Tensors, InterpError> {
        let kernel = kernel.kernel();
        let sizes = Sizes::new(kernel, bindings)?;
        let memory = bind_tensors(kernel, &sizes, inputs)?;
        let mut machine = Machine::new(kernel, &sizes, self.arith, memory);
        machine.run_grid()?;
        Ok(machine.into_outputs())
    }
}

/// A tensor parameter, bound.
enum Memory<'a> {
    Input(&'a TensorData),
    Output(Output),
}

fn bind_tensors<'a>(kernel: &Kernel, sizes: &Sizes, inputs: &'a Tensors) -> Result<Vec<Memory<'a>>, InterpError> {
    let read: Vec<&str> = kernel
        .tensors
        .iter()
        .filter(|t| t.access == Access::Read)
        .map(|t| t.name.as_str())
        .collect();
    if let Some(name) = inputs.keys().find(|name| !read.contains(&name.as_str())) {
        return Err(InterpError::Unknown {
            what: "input",
            name: name.clone(),
            known: read.join(", "),
        });
    }
    let mut memory = vec![];
    for tensor in &kernel.tensors {
        let (name, dims) = (tensor.name.clone(), sizes.dims(kernel, tensor)?);
        if tensor.access == Access::Write {
            memory.push(Memory::Output(Output::new(&name, dims)?));
            continue;
        }
        let Some(data) = inputs.get(&name) else {
            return Err(InterpError::Unbound {
                what: "input",
                name,
                needed: read.join(", "),
            });
        };
        if data.dtype() != tensor.dtype || data.dims() != dims {
            let list = |dims: &[usize]| dims.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
            return Err(InterpError::TensorType {
                name,
                found: data.dtype(),
                found_dims: list(data.dims()),
                wanted: tensor.dtype,
                wanted_dims: list(&dims),
            });
        }
        memory.push(Memory::Input(data));
    }
    Ok(memory)
}

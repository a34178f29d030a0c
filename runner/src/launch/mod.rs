//! From launch facts to a launch: a pure plan that checks everything first, then a kernel bound to it.
//!
//! ```text
//! Prepared::load(device, image, facts)            -> Prepared     loaded kernel and its parameter recipe
//! plan(&facts, &BindInput, multiprocessors)       -> LaunchPlan   pure; every refusal is here
//! prepared.bind(device, &BindInput)               -> Bound        maps encoded, scratch owned, arguments packed
//! bound.launch(device)                                            as often as wanted
//! ```

mod error;
mod plan;
mod tensor;

use codegen::launch::LaunchFacts;
use driver::TensorMapSpec;

pub use error::BindError;
pub use plan::{BindInput, LaunchPlan, PlannedArg, ScratchPlan, plan};
pub use tensor::TensorArg;

use crate::device::{Device, DeviceError, FaultClass, Image};

/// One kernel argument, checked.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    /// A tensor map, by value.
    TensorMap(TensorMapSpec),
    /// A device address, `u64`.
    Address(u64),
    /// The address of scratch that belongs to this launch alone, `u64`.
    Scratch(u64),
    /// Elements between neighbours, `i64`.
    Stride(i64),
    /// A runtime size, `i32`.
    Size(i32),
    /// An `f32`.
    Scalar(f32),
}

/// A loaded kernel with its parameter recipe.
pub struct Prepared<D: Device> {
    kernel: D::Kernel,
    facts: LaunchFacts,
}

/// A kernel with its arguments and its own scratch memory.
///
/// Scratch has one owner: launches of one bound kernel must not overlap, so a bound kernel with scratch belongs to the
/// queue (stream) of the device it was bound on, and a launch elsewhere is refused. Another stream needs a bound kernel of
/// its own, from [`Prepared::bind`] on [`crate::CudaDevice::sibling`].
pub struct Bound<D: Device> {
    inner: D::Bound,
    /// Each is (memory, contents before the first launch).
    scratch: Vec<(D::Buffer, Vec<u8>)>,
    plan: LaunchPlan,
}

/// Why a bound kernel cannot be had.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LaunchError {
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl<D: Device> Prepared<D> {
    /// Loads the kernel.
    ///
    /// # Errors
    /// An image that does not fit the device.
    pub fn load(device: &D, image: &Image<'_>, facts: &LaunchFacts) -> Result<Self, DeviceError> {
        Ok(Self {
            kernel: device.load(image, facts)?,
            facts: facts.clone(),
        })
    }

    #[must_use]
    pub const fn facts(&self) -> &LaunchFacts {
        &self.facts
    }

    #[must_use]
    pub const fn kernel(&self) -> &D::Kernel {
        &self.kernel
    }

    /// Checks the arguments, then encodes and packs them. The tensors' memory stays the caller's and must outlive all
    /// launches; scratch belongs to the result.
    ///
    /// # Errors
    /// A refusal, or a failure of the device.
    pub fn bind(&self, device: &D, input: &BindInput<'_>) -> Result<Bound<D>, LaunchError> {
        let plan = plan(&self.facts, input, device.facts().multiprocessors)?;
        let mut scratch = Vec::new();
        for wanted in &plan.scratch {
            let contents = wanted.contents();
            let buffer = device.alloc(contents.len() as u64)?;
            device.write(&buffer, &contents)?;
            scratch.push((buffer, contents));
        }
        let args = plan.args.iter().map(|arg| match arg {
            PlannedArg::Ready(arg) => Ok(arg.clone()),
            PlannedArg::Scratch(index) => scratch
                .get(*index)
                .map(|(buffer, _)| Arg::Scratch(device.address(buffer)))
                .ok_or_else(|| DeviceError::new(FaultClass::Other, format!("no scratch {index} was planned"))),
        });
        let args = args.collect::<Result<Vec<_>, _>>()?;
        let inner = device.bind(&self.kernel, &plan.spec, &args)?;
        Ok(Bound { inner, scratch, plan })
    }
}

impl<D: Device> Bound<D> {
    /// Queues one launch.
    ///
    /// # Errors
    /// The device's refusal; a fault of earlier work.
    pub fn launch(&self, device: &D) -> Result<(), DeviceError> {
        device.launch(&self.inner)
    }

    /// The device's form, for timing, and for other streams where there is no scratch.
    #[must_use]
    pub const fn inner(&self) -> &D::Bound {
        &self.inner
    }

    #[must_use]
    pub const fn plan(&self) -> &LaunchPlan {
        &self.plan
    }

    /// The clock stamps of the last launch, as 64-bit words; none for a kernel that writes none.
    ///
    /// # Errors
    /// A hang or fault of earlier work.
    pub fn stamps(&self, device: &D) -> Result<Option<Vec<u64>>, DeviceError> {
        let Some((buffer, _)) = self.plan.stamps.and_then(|index| self.scratch.get(index)) else {
            return Ok(None);
        };
        let bytes = device.read(buffer)?;
        let words = bytes
            .chunks_exact(8)
            .map(|word| word.iter().rev().fold(0, |w, b| w << 8 | u64::from(*b)));
        Ok(Some(words.collect()))
    }

    /// Whether finished launches left the scratch as they found it, and nothing was written beside it.
    ///
    /// # Errors
    /// [`FaultClass::OutOfBounds`] with the place; a hang or fault of earlier work.
    pub fn check_scratch(&self, device: &D) -> Result<(), DeviceError> {
        for (index, (buffer, contents)) in self.scratch.iter().enumerate() {
            device.check_bounds(buffer)?;
            if self.plan.stamps == Some(index) {
                continue;
            }
            let now = device.read(buffer)?;
            if now != *contents {
                let message = format!(
                    "scratch {index} holds {now:02x?} after a launch; it must again hold {contents:02x?}, or the next \
                     launch starts wrong"
                );
                return Err(DeviceError::new(FaultClass::Other, message));
            }
        }
        Ok(())
    }
}

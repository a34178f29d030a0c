//! What the runner asks of a device. The CUDA driver is one; a simulator can be another.
//!
//! The trait is thin on purpose: memory, loading, and launches whose arguments were planned and checked before
//! ([`crate::launch`]). Devices that can be timed implement [`Timing`] too; a simulator does not, so that its cycles can
//! never be taken for times.

mod captured;
mod cuda;
mod error;
mod queue;
mod sim;

use codegen::launch::LaunchFacts;
use driver::LaunchSpec;
use serde::{Deserialize, Serialize};

pub use captured::Captured;
pub use cuda::{CudaBound, CudaDevice, CudaKernel};
pub use error::{DeviceError, FaultClass};
pub use sim::{SimBound, SimDevice, SimKernel, SimOptions};

use crate::launch::Arg;

/// Facts about a device, as records keep them: no serial number, no machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceFacts {
    pub name: String,
    /// Whether results come from a model of the hardware instead of the hardware.
    pub simulated: bool,
    /// `(9, 0)` for Hopper.
    pub compute_capability: (u32, u32),
    pub multiprocessors: u32,
    pub l2_bytes: u64,
    /// Version of the kernel driver, where it can be told.
    pub driver_version: Option<String>,
    /// Version of the driver's API, where there is one.
    pub api_version: Option<String>,
    /// What the device can do at most; none when it is not known.
    pub peak: Option<oracle::flops::Machine>,
}

/// Code to load: both forms where both exist, the device takes the one it understands.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    pub ptx: &'a str,
    pub cubin: Option<&'a [u8]>,
}

/// A device.
pub trait Device {
    /// Memory, freed when dropped.
    type Buffer;
    /// A loaded kernel.
    type Kernel;
    /// A kernel with its arguments, ready to launch any number of times.
    type Bound;

    fn facts(&self) -> &DeviceFacts;

    /// Whether [`Device::load`] needs a cubin; otherwise it takes PTX.
    fn needs_cubin(&self) -> bool;

    /// Loads the kernel `facts.entry` and makes room for its shared memory.
    ///
    /// # Errors
    /// An image that does not fit the device.
    fn load(&self, image: &Image<'_>, facts: &LaunchFacts) -> Result<Self::Kernel, DeviceError>;

    /// Memory with guarded ends; contents are undefined.
    ///
    /// # Errors
    /// Not enough memory.
    fn alloc(&self, len_bytes: u64) -> Result<Self::Buffer, DeviceError>;

    /// The address of byte 0: a multiple of 256.
    fn address(&self, buffer: &Self::Buffer) -> u64;

    /// Overwrites the whole buffer.
    ///
    /// # Errors
    /// A length that differs; a hang or fault of earlier work.
    fn write(&self, buffer: &Self::Buffer, bytes: &[u8]) -> Result<(), DeviceError>;

    /// Sets every byte, in the order of launches.
    ///
    /// # Errors
    /// A fault of earlier work.
    fn fill(&self, buffer: &Self::Buffer, byte: u8) -> Result<(), DeviceError>;

    /// Reads the whole buffer after all earlier work.
    ///
    /// # Errors
    /// A hang or fault of earlier work.
    fn read(&self, buffer: &Self::Buffer) -> Result<Vec<u8>, DeviceError>;

    /// Looks for writes just outside the buffer.
    ///
    /// # Errors
    /// [`FaultClass::OutOfBounds`] with the place; a hang or fault of earlier work.
    fn check_bounds(&self, buffer: &Self::Buffer) -> Result<(), DeviceError>;

    /// Puts checked arguments into the device's form.
    ///
    /// # Errors
    /// Arguments or a shape that this device or kernel refuses.
    fn bind(&self, kernel: &Self::Kernel, spec: &LaunchSpec, args: &[Arg]) -> Result<Self::Bound, DeviceError>;

    /// Queues one launch.
    ///
    /// # Errors
    /// The device's refusal; a fault of earlier work.
    fn launch(&self, bound: &Self::Bound) -> Result<(), DeviceError>;

    /// Waits for all work, at most the device's deadline.
    ///
    /// # Errors
    /// A hang or fault of the work.
    fn synchronize(&self) -> Result<(), DeviceError>;
}

/// One look at clocks and power. A question that was not answered is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reading {
    /// By [`Timing::now_us`].
    pub at_us: u64,
    pub sm_clock_mhz: Option<u32>,
    pub memory_clock_mhz: Option<u32>,
    pub power_mw: Option<u32>,
    pub power_limit_mw: Option<u32>,
    pub temperature_c: Option<u32>,
    /// Names of what holds the clocks down.
    pub throttle_reasons: Option<Vec<String>>,
}

/// A run of launches, each with an event before and after it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LaunchTimes {
    /// In order of launch, by the device's clock.
    pub launch_us: Vec<f64>,
    /// How long the host took to queue them: near the sum of the times, the host was the limit.
    pub issue_us: f64,
}

/// A device whose times mean something.
pub trait Timing: Device {
    /// A running observation of clocks and power.
    type Monitor;

    /// Launches `count` times, taking turns through `launches` from index `first`, and times each launch.
    ///
    /// # Errors
    /// The device's refusal, a fault, or a hang past the deadline.
    fn time_launches(&self, launches: &[&Self::Bound], first: usize, count: usize) -> Result<LaunchTimes, DeviceError>;

    /// Microseconds of the host's clock since some fixed moment.
    fn now_us(&self) -> u64;

    /// Leaves the device idle.
    fn pause(&self, idle_us: u64);

    /// Starts to observe; none where it cannot be had.
    fn start_monitor(&self, interval_us: u64) -> Option<Self::Monitor>;

    /// What was seen, in order of time.
    fn stop_monitor(&self, monitor: Self::Monitor) -> Vec<Reading>;
}

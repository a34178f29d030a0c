//! The CUDA driver API and NVML, loaded at run time, behind a small safe layer.
//!
//! The crate builds without a CUDA toolkit and runs without a GPU: [`Driver::open`] then answers
//! [`Unavailable`] with what is missing. It knows no kernel and no intermediate representation: it takes
//! cubins (or PTX, as an announced fallback), addresses and launch shapes.
//!
//! # Order of use
//! [`Driver::open`] → [`Driver::context`] → [`Module::load_cubin`] → [`Module::function`] →
//! [`Function::launch`] on a [`Stream`], with [`DeviceBuffer`]s and [`TensorMap`]s as arguments, timed by
//! [`Event`]s or replayed by a [`GraphExec`].
//!
//! # Threads
//! [`Context`], [`Stream`], [`Event`], [`Module`], [`Function`] and [`DeviceBuffer`] can be used from any
//! thread: every call makes its context current first. Graphs can be sent but not shared.
//!
//! # Failure
//! - A *refusal* is found here, before the driver sees the input, and says what would be allowed.
//! - A *sticky* error ([`DriverError::Sticky`]) is the fault of a kernel: the context is lost, and the process
//!   should end. Handles are then leaked, since freeing them fails.
//! - A *hang* ([`DriverError::Hang`]) is work past its deadline. No wait in this crate is unbounded while
//!   work is queued, except dropping a [`DeviceBuffer`] that a kernel still uses. After a hang only the
//!   parent can help: run kernels that are not trusted in a child process, and kill it with SIGKILL. A normal
//!   exit would wait for the kernel.
//!
//! # What `unsafe` covers
//! All `unsafe` of the project is in this crate. Device code itself is outside Rust's guarantees: a kernel
//! that was given a wrong address can overwrite device memory (red zones look for it), or host memory on
//! systems where the GPU can reach it. That is why `launch` is no `unsafe` function here: no caller could
//! prove more about a kernel than its checker does.

mod api;
mod args;
mod code;
mod context;
mod device;
mod driver;
mod error;
mod event;
mod function;
mod graph;
mod image;
mod l2;
mod launch;
mod memory;
mod module;
pub mod nvml;
mod pinned;
mod probe;
mod red_zone;
mod stream;
mod tensor_map;
mod wait;

pub use args::{ArgRefusal, ArgSlot, KernelArg, MAX_PARAM_BYTES, PackedArgs, ParamSlot};
pub use context::{Context, Health, MemoryInfo};
pub use device::Device;
pub use driver::Driver;
pub use error::{ApiVersion, CudaFailure, DriverError, ErrorClass, LoadFailure, Unavailable};
pub use event::Event;
pub use function::{Function, FunctionFacts};
pub use graph::{Graph, GraphExec};
pub use image::ImageRefusal;
pub use l2::L2Flush;
pub use launch::{LaunchLimits, LaunchRefusal, LaunchSpec, MAX_CLUSTER_BLOCKS, PORTABLE_CLUSTER_BLOCKS};
pub use memory::{BufferRefusal, DeviceBuffer, Poison};
pub use module::{JitReport, Module};
pub use pinned::{PendingCopy, PinnedBuffer};
pub use probe::{CudaFound, DeviceState, Finding, NvmlFound, Probe, probe};
pub use red_zone::{DEFAULT_ZONE_BYTES, RedZoneBreach, Side, USER_ALIGN_BYTES};
pub use stream::Stream;
pub use tensor_map::{L2Promotion, Swizzle, TensorDtype, TensorMap, TensorMapRefusal, TensorMapSpec};

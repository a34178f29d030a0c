//! A device's primary context.
//!
//! Every call of this crate first makes the context current on the calling thread, so that streams,
//! events, buffers and functions can be used from any thread; `cuCtxSetCurrent` with the context that is
//! already current is cheap. The CUDA driver is thread-safe.

use crate::api::Api;
use crate::code;
use crate::device::{self, Device};
use crate::error::{ApiVersion, DriverError};
use cudarc::driver::sys;
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// How long this crate's own waits last before they are a hang, unless the caller sets another limit.
const DEFAULT_DEADLINE: Duration = Duration::from_secs(60);

/// A retained primary context. Clones share it; the last one releases it.
#[derive(Clone)]
pub struct Context(Arc<Inner>);

struct Inner {
    api: &'static Api,
    device: Device,
    handle: sys::CUcontext,
    /// 0 while healthy, [`HUNG`] after a hang, else the first sticky result code.
    lost: AtomicU32,
    deadline_us: AtomicU64,
}

/// Not a CUDA result code.
const HUNG: u32 = u32::MAX;

// SAFETY: the handle names an object inside the driver, whose calls are thread-safe; the context is made
// current on the calling thread before each use, and nothing here depends on the creating thread.
unsafe impl Send for Inner {}
// SAFETY: as above; the mutable state is atomic.
unsafe impl Sync for Inner {}

/// Whether a context can still be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Usable.
    Good,
    /// Some work passed its deadline; the process must be killed by its parent.
    Hung,
    /// A sticky error, with its result code; the process must end.
    Sticky(u32),
}

/// Device memory, free and in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct MemoryInfo {
    /// Free bytes.
    pub free_bytes: u64,
    /// All bytes.
    pub total_bytes: u64,
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context")
            .field("device", &self.0.device.ordinal)
            .field("health", &self.health())
            .finish()
    }
}

impl Context {
    pub(crate) fn retain(api: &'static Api, device: Device) -> Result<Self, DriverError> {
        let dev = device::handle(api, device.ordinal)?;
        let mut handle: sys::CUcontext = std::ptr::null_mut();
        // SAFETY: a valid out pointer and a device of this driver.
        let result = unsafe { (api.cuDevicePrimaryCtxRetain)(&raw mut handle, dev) };
        api.check("cuDevicePrimaryCtxRetain", result)?;
        let context = Self(Arc::new(Inner {
            api,
            device,
            handle,
            lost: AtomicU32::new(code::SUCCESS),
            deadline_us: AtomicU64::new(micros(DEFAULT_DEADLINE)),
        }));
        context.bind()?;
        Ok(context)
    }

    /// The device's facts.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// The driver's API version.
    #[must_use]
    pub fn version(&self) -> ApiVersion {
        self.0.api.version
    }

    /// Makes this context current on the calling thread. Calls of this crate do it themselves; it is for
    /// other users of the driver on the same thread.
    ///
    /// # Errors
    /// A failed `cuCtxSetCurrent`.
    pub fn bind(&self) -> Result<(), DriverError> {
        // SAFETY: the handle is retained for as long as `self` lives.
        let result = unsafe { (self.0.api.cuCtxSetCurrent)(self.0.handle) };
        self.check("cuCtxSetCurrent", result)
    }

    /// Whether the context can still be used.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.0.lost.load(Ordering::Acquire) {
            code::SUCCESS => Health::Good,
            HUNG => Health::Hung,
            sticky => Health::Sticky(sticky),
        }
    }

    /// The limit of this crate's own waits (copies, red-zone checks, [`crate::Stream::synchronize`]).
    #[must_use]
    pub fn deadline(&self) -> Duration {
        Duration::from_micros(self.0.deadline_us.load(Ordering::Relaxed))
    }

    /// Sets the limit of this crate's own waits; 60 seconds at first.
    pub fn set_deadline(&self, deadline: Duration) {
        self.0.deadline_us.store(micros(deadline), Ordering::Relaxed);
    }

    /// Free and total device memory.
    ///
    /// # Errors
    /// A failed `cuMemGetInfo`.
    pub fn memory_info(&self) -> Result<MemoryInfo, DriverError> {
        self.bind()?;
        let (mut free, mut total) = (0_usize, 0_usize);
        // SAFETY: two valid out pointers.
        let result = unsafe { (self.0.api.cuMemGetInfo_v2)(&raw mut free, &raw mut total) };
        self.check("cuMemGetInfo", result)?;
        Ok(MemoryInfo {
            free_bytes: free as u64,
            total_bytes: total as u64,
        })
    }

    /// The `CUcontext` as a number, for other users of the driver in this process.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.0.handle.expose_provenance() as u64
    }

    /// Whether the other handle is of the same context object.
    pub(crate) fn same(&self, other: &Self) -> bool {
        self.0.handle == other.0.handle
    }

    pub(crate) fn api(&self) -> &'static Api {
        self.0.api
    }

    /// [`Api::check`], remembering a sticky error.
    pub(crate) fn check(&self, call: &'static str, result: u32) -> Result<(), DriverError> {
        if code::is_sticky(result) {
            // Only the first cause counts; later calls repeat it or a consequence.
            let _ = self
                .0
                .lost
                .compare_exchange(code::SUCCESS, result, Ordering::AcqRel, Ordering::Acquire);
        }
        self.0.api.check(call, result)
    }

    pub(crate) fn mark_hung(&self) {
        let _ = self
            .0
            .lost
            .compare_exchange(code::SUCCESS, HUNG, Ordering::AcqRel, Ordering::Acquire);
    }

    /// For `drop`: true when the handle should be freed. A lost context frees nothing, since freeing would
    /// wait for the hung work or fail.
    pub(crate) fn may_free(&self) -> bool {
        self.health() == Health::Good && self.bind().is_ok()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.lost.load(Ordering::Acquire) != code::SUCCESS {
            return;
        }
        if let Ok(dev) = device::handle(self.api, self.device.ordinal) {
            // SAFETY: this undoes the one retain made in `Context::retain`.
            unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(dev) };
        }
    }
}

pub(crate) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

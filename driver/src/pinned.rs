//! Page-locked host memory and copies that overlap with kernels.
//!
//! An asynchronous copy takes the host buffer away and gives it back when it is done: safe code can neither
//! change nor free memory that the device is reading or writing.

use crate::code;
use crate::context::Context;
use crate::error::DriverError;
use crate::event::Event;
use crate::memory::{DeviceBuffer, require_equal};
use crate::stream::Stream;
use std::ffi::c_void;
use std::time::Duration;

/// Page-locked host memory, zeroed at first.
pub struct PinnedBuffer {
    context: Context,
    bytes: *mut u8,
    len: usize,
}

// SAFETY: plain host memory, owned alone.
unsafe impl Send for PinnedBuffer {}
// SAFETY: shared references only read.
unsafe impl Sync for PinnedBuffer {}

impl PinnedBuffer {
    /// Allocates `len_bytes` zeroed bytes; 0 is legal.
    ///
    /// # Errors
    /// A failed `cuMemHostAlloc`.
    pub fn new(context: &Context, len_bytes: usize) -> Result<Self, DriverError> {
        context.bind()?;
        let mut bytes: *mut c_void = std::ptr::null_mut();
        // SAFETY: a valid out pointer, a size of at least 1, no flags.
        let result = unsafe { (context.api().cuMemHostAlloc)(&raw mut bytes, len_bytes.max(1), 0) };
        context.check("cuMemHostAlloc", result)?;
        let bytes = bytes.cast::<u8>();
        // SAFETY: the driver gave at least `len_bytes` writable bytes.
        unsafe { bytes.write_bytes(0, len_bytes) };
        Ok(Self {
            context: context.clone(),
            bytes,
            len: len_bytes,
        })
    }

    /// The bytes.
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes, owned by `self`; no copy is in flight while `self` is at hand.
        unsafe { std::slice::from_raw_parts(self.bytes, self.len) }
    }

    /// The bytes, to change.
    #[must_use]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.bytes, self.len) }
    }
}

impl Drop for PinnedBuffer {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: allocated once, freed once; no copy is in flight.
            unsafe { (self.context.api().cuMemFreeHost)(self.bytes.cast()) };
        }
    }
}

/// A copy in flight, with the host buffer it uses.
#[must_use = "the host buffer comes back from `wait`"]
pub struct PendingCopy {
    /// Taken by `wait`; dropping the copy before it is done leaks the host memory instead of freeing it.
    buffer: Option<PinnedBuffer>,
    done: Event,
}

impl PendingCopy {
    /// Whether the copy is done.
    ///
    /// # Errors
    /// An earlier kernel's fault appears here.
    pub fn is_done(&self) -> Result<bool, DriverError> {
        self.done.is_passed()
    }

    /// Waits for the copy, at most `deadline`, and gives the host buffer back.
    ///
    /// # Errors
    /// [`DriverError::Hang`] when the deadline passes; an earlier kernel's fault. The host memory is then
    /// left to the copy.
    pub fn wait(mut self, deadline: Duration) -> Result<PinnedBuffer, DriverError> {
        self.done.wait_deadline(deadline)?;
        // `buffer` is only ever emptied here, and `self` ends here.
        self.buffer.take().ok_or(DriverError::Hang {
            what: "a copy whose buffer is gone",
            deadline_us: 0,
        })
    }
}

impl Drop for PendingCopy {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take()
            && !matches!(self.done.is_passed(), Ok(true))
        {
            std::mem::forget(buffer);
        }
    }
}

impl DeviceBuffer {
    /// Queues a copy of the whole host buffer to the start of this one.
    ///
    /// # Errors
    /// Sizes that differ, another context, or a failed call. The host buffer is freed then.
    pub fn copy_from_pinned(&self, stream: &Stream, source: PinnedBuffer) -> Result<PendingCopy, DriverError> {
        require_equal(source.len as u64, self.len_bytes())?;
        let api = self.context().api();
        let (from, len) = (source.bytes.cast_const().cast::<c_void>(), source.len);
        let address = self.address();
        // SAFETY: `len` bytes are inside both; the host memory is kept until the copy is done.
        let copy = || unsafe { (api.cuMemcpyHtoDAsync_v2)(address, from, len, stream.handle()) };
        self.copy_pinned(stream, source, "cuMemcpyHtoDAsync", copy)
    }

    /// Queues a copy of this whole buffer into the host buffer.
    ///
    /// # Errors
    /// Sizes that differ, another context, or a failed call. The host buffer is freed then.
    pub fn copy_to_pinned(&self, stream: &Stream, destination: PinnedBuffer) -> Result<PendingCopy, DriverError> {
        require_equal(self.len_bytes(), destination.len as u64)?;
        let api = self.context().api();
        let (to, len) = (destination.bytes.cast::<c_void>(), destination.len);
        let address = self.address();
        // SAFETY: `len` bytes are inside both; the host memory is kept until the copy is done.
        let copy = || unsafe { (api.cuMemcpyDtoHAsync_v2)(to, address, len, stream.handle()) };
        self.copy_pinned(stream, destination, "cuMemcpyDtoHAsync", copy)
    }

    fn copy_pinned(
        &self,
        stream: &Stream,
        buffer: PinnedBuffer,
        call: &'static str,
        copy: impl FnOnce() -> u32,
    ) -> Result<PendingCopy, DriverError> {
        let context = self.context();
        stream.require_same(context, "the buffer")?;
        stream.require_same(&buffer.context, "the host buffer")?;
        let done = Event::new(context)?;
        let empty = buffer.len == 0;
        // From here on the copy may be in flight: `pending` keeps the memory unless the event has passed.
        let result = if empty { code::SUCCESS } else { copy() };
        context.check(call, result)?;
        if let Err(error) = done.record(stream) {
            std::mem::forget(buffer);
            return Err(error);
        }
        Ok(PendingCopy {
            buffer: Some(buffer),
            done,
        })
    }
}

//! Events: points in a stream, with the time at which the device passed them.

use crate::code;
use crate::context::Context;
use crate::error::DriverError;
use crate::stream::Stream;
use crate::wait;
use cudarc::driver::sys;
use std::time::Duration;

/// An event that takes times. Usable from any thread.
pub struct Event {
    context: Context,
    handle: sys::CUevent,
}

// SAFETY: the handle names an object inside the driver, whose calls are thread-safe; each call makes the
// context current first.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new event; it counts as passed until it is recorded.
    ///
    /// # Errors
    /// A failed `cuEventCreate`.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        context.bind()?;
        let mut handle: sys::CUevent = std::ptr::null_mut();
        // SAFETY: a valid out pointer; 0 is CU_EVENT_DEFAULT.
        let result = unsafe { (context.api().cuEventCreate)(&raw mut handle, 0) };
        context.check("cuEventCreate", result)?;
        Ok(Self {
            context: context.clone(),
            handle,
        })
    }

    /// The event's context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Places the event after all work queued on `stream` so far.
    ///
    /// # Errors
    /// A failed `cuEventRecord`, or a stream of another context.
    pub fn record(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.require_same(&self.context, "the event")?;
        self.context.bind()?;
        // SAFETY: both handles are alive and of this context.
        let result = unsafe { (self.context.api().cuEventRecord)(self.handle, stream.handle()) };
        self.context.check("cuEventRecord", result)
    }

    /// Whether the device has passed the event.
    ///
    /// # Errors
    /// An earlier kernel's fault appears here.
    pub fn is_passed(&self) -> Result<bool, DriverError> {
        self.context.bind()?;
        self.query()
    }

    /// Waits until the device passes the event, at most `deadline`.
    ///
    /// # Errors
    /// [`DriverError::Hang`] when the deadline passes (the parent must kill this process); an earlier
    /// kernel's fault.
    pub fn wait_deadline(&self, deadline: Duration) -> Result<(), DriverError> {
        self.context.bind()?;
        wait::wait(&self.context, "the work before an event", deadline, || self.query())
    }

    /// Milliseconds from this event to `end`, by the device's clock (resolution about 0.5 us). Both must
    /// have been recorded and passed.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_READY` while either is ahead, `CUDA_ERROR_INVALID_HANDLE` if one was never recorded.
    pub fn elapsed_ms(&self, end: &Self) -> Result<f32, DriverError> {
        if !self.context.same(&end.context) {
            return Err(DriverError::OtherContext { what: "the end event" });
        }
        self.context.bind()?;
        let mut ms = 0.0_f32;
        // SAFETY: both events are alive; `ms` is a valid out pointer.
        let result = unsafe { (self.context.api().event_elapsed)(&raw mut ms, self.handle, end.handle) };
        self.context.check("cuEventElapsedTime", result).map(|()| ms)
    }

    pub(crate) fn handle(&self) -> sys::CUevent {
        self.handle
    }

    fn query(&self) -> Result<bool, DriverError> {
        // SAFETY: the event is alive.
        match unsafe { (self.context.api().cuEventQuery)(self.handle) } {
            code::NOT_READY => Ok(false),
            result => self.context.check("cuEventQuery", result).map(|()| true),
        }
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: made by `new` and destroyed once; the driver defers it past pending work.
            unsafe { (self.context.api().cuEventDestroy_v2)(self.handle) };
        }
    }
}

//! Streams: queues of device work.

use crate::code;
use crate::context::Context;
use crate::error::DriverError;
use crate::event::Event;
use crate::graph::Graph;
use crate::module::LoadedModule;
use crate::wait;
use cudarc::driver::sys;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A stream that does not wait for the legacy default stream. Usable from any thread.
pub struct Stream {
    context: Context,
    handle: sys::CUstream,
    owned: bool,
    /// Modules whose functions were captured since `begin_capture`: the graph keeps them loaded.
    captured: Mutex<Option<Vec<Arc<LoadedModule>>>>,
}

// SAFETY: the handle names an object inside the driver, whose calls are thread-safe; each call makes the
// context current first.
unsafe impl Send for Stream {}
// SAFETY: as above; the list of captured modules is behind a mutex.
unsafe impl Sync for Stream {}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream")
            .field("raw", &self.raw())
            .field("owned", &self.owned)
            .finish()
    }
}

impl Stream {
    /// A new non-blocking stream.
    ///
    /// # Errors
    /// A failed `cuStreamCreate`.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        context.bind()?;
        let mut handle: sys::CUstream = std::ptr::null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: a valid out pointer and a listed flag.
        let result = unsafe { (context.api().cuStreamCreate)(&raw mut handle, flags) };
        context.check("cuStreamCreate", result)?;
        Ok(Self::wrap(context, handle, true))
    }

    /// A stream made elsewhere (a PyTorch or cust stream), which stays its maker's to destroy.
    /// When its maker is capturing it, the maker must keep the [`crate::Function`]s that are launched
    /// meanwhile: only captures begun through this crate keep their modules.
    ///
    /// # Safety
    /// `raw` must be 0 (the legacy default stream) or a live `CUstream` of `context` that outlives the
    /// returned value.
    #[must_use]
    pub unsafe fn borrow_raw(context: &Context, raw: u64) -> Self {
        let handle = std::ptr::with_exposed_provenance_mut(raw as usize);
        Self::wrap(context, handle, false)
    }

    fn wrap(context: &Context, handle: sys::CUstream, owned: bool) -> Self {
        Self {
            context: context.clone(),
            handle,
            owned,
            captured: Mutex::new(None),
        }
    }

    /// The stream's context.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The `CUstream` as a number.
    #[must_use]
    pub fn raw(&self) -> u64 {
        self.handle.expose_provenance() as u64
    }

    /// Whether all work queued so far has finished.
    ///
    /// # Errors
    /// An earlier kernel's fault appears here.
    pub fn is_idle(&self) -> Result<bool, DriverError> {
        self.context.bind()?;
        query(&self.context, self.handle)
    }

    /// Waits for all work queued so far, at most the context's deadline.
    ///
    /// # Errors
    /// [`DriverError::Hang`] when the deadline passes; an earlier kernel's fault.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        self.synchronize_deadline(self.context.deadline())
    }

    /// Waits for all work queued so far, at most `deadline`.
    ///
    /// # Errors
    /// [`DriverError::Hang`] when the deadline passes (the parent must kill this process); an earlier
    /// kernel's fault.
    pub fn synchronize_deadline(&self, deadline: Duration) -> Result<(), DriverError> {
        self.context.bind()?;
        wait::wait(&self.context, "a stream's work", deadline, || {
            query(&self.context, self.handle)
        })
    }

    /// Work queued after this waits for `event`, also one of another stream.
    ///
    /// # Errors
    /// A failed `cuStreamWaitEvent`, or an event of another context.
    pub fn wait_event(&self, event: &Event) -> Result<(), DriverError> {
        self.require_same(event.context(), "the event")?;
        self.context.bind()?;
        // SAFETY: both handles are alive and of this context.
        let result = unsafe { (self.context.api().cuStreamWaitEvent)(self.handle, event.handle(), 0) };
        self.context.check("cuStreamWaitEvent", result)
    }

    /// Starts recording this stream's work into a graph instead of running it. Only this thread's calls
    /// are restricted meanwhile.
    ///
    /// # Errors
    /// A failed `cuStreamBeginCapture`.
    pub fn begin_capture(&self) -> Result<(), DriverError> {
        self.context.bind()?;
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is alive.
        let result = unsafe { (self.context.api().cuStreamBeginCapture_v2)(self.handle, mode) };
        self.context.check("cuStreamBeginCapture", result)?;
        *self.lock_captured() = Some(Vec::new());
        Ok(())
    }

    /// Ends the recording and hands the graph over.
    ///
    /// # Errors
    /// A failed `cuStreamEndCapture`: no capture, or one that an illegal call broke.
    pub fn end_capture(&self) -> Result<Graph, DriverError> {
        self.context.bind()?;
        let modules = self.lock_captured().take().unwrap_or_default();
        let mut handle: sys::CUgraph = std::ptr::null_mut();
        // SAFETY: the stream is alive; `handle` is a valid out pointer.
        let result = unsafe { (self.context.api().cuStreamEndCapture)(self.handle, &raw mut handle) };
        self.context.check("cuStreamEndCapture", result)?;
        Ok(Graph::wrap(&self.context, handle, modules))
    }

    /// Records what `work` queues on this stream. The recording ends also when `work` fails.
    ///
    /// # Errors
    /// The error of `work`, or a failed begin or end.
    pub fn capture(&self, work: impl FnOnce(&Self) -> Result<(), DriverError>) -> Result<Graph, DriverError> {
        self.begin_capture()?;
        let done = work(self);
        let graph = self.end_capture();
        done.and(graph)
    }

    pub(crate) fn handle(&self) -> sys::CUstream {
        self.handle
    }

    pub(crate) fn note_launch(&self, module: &Arc<LoadedModule>) {
        if let Some(modules) = self.lock_captured().as_mut()
            && !modules.iter().any(|known| Arc::ptr_eq(known, module))
        {
            modules.push(Arc::clone(module));
        }
    }

    pub(crate) fn require_same(&self, other: &Context, what: &'static str) -> Result<(), DriverError> {
        if self.context.same(other) {
            Ok(())
        } else {
            Err(DriverError::OtherContext { what })
        }
    }

    fn lock_captured(&self) -> std::sync::MutexGuard<'_, Option<Vec<Arc<LoadedModule>>>> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.owned && self.context.may_free() {
            // SAFETY: made by `new` and destroyed once; the driver finishes queued work first, without
            // blocking here.
            unsafe { (self.context.api().cuStreamDestroy_v2)(self.handle) };
        }
    }
}

/// Whether a stream is idle; the context must be current.
fn query(context: &Context, handle: sys::CUstream) -> Result<bool, DriverError> {
    // SAFETY: the handle is null (the legacy stream) or alive.
    match unsafe { (context.api().cuStreamQuery)(handle) } {
        code::NOT_READY => Ok(false),
        result => context.check("cuStreamQuery", result).map(|()| true),
    }
}

/// Waits for the legacy default stream, on which this crate makes its synchronous copies.
pub(crate) fn wait_legacy(context: &Context) -> Result<(), DriverError> {
    wait::wait(context, "a copy", context.deadline(), || {
        query(context, std::ptr::null_mut())
    })
}

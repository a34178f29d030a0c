//! Modules: loaded cubins, or PTX compiled by the driver.

use crate::code;
use crate::context::Context;
use crate::error::{DriverError, LoadFailure};
use crate::function::Function;
use crate::image::{self, ImageRefusal};
use cudarc::driver::sys::{self, CUjit_option as Jit};
use std::ffi::{CString, c_void};
use std::sync::Arc;
use std::time::Instant;

const LOG_BYTES: usize = 64 * 1024;

/// A module in the device; unloaded when the last [`Module`], [`Function`] or graph that uses it goes.
pub(crate) struct LoadedModule {
    context: Context,
    handle: sys::CUmodule,
}

// SAFETY: the handle names an object inside the driver, whose calls are thread-safe; each call makes the
// context current first.
unsafe impl Send for LoadedModule {}
// SAFETY: as above; nothing is mutable.
unsafe impl Sync for LoadedModule {}

impl LoadedModule {
    pub(crate) fn context(&self) -> &Context {
        &self.context
    }
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: loaded once, unloaded once; functions and graphs hold this object alive.
            unsafe { (self.context.api().cuModuleUnload)(self.handle) };
        }
    }
}

/// A loaded module. Clones share it.
#[derive(Clone)]
pub struct Module(Arc<LoadedModule>);

/// What the driver's own compiler said. Loading PTX this way is a fallback: the compiler comes with the
/// driver, is older than the assembler that kernels are meant for, and may give other code and other
/// timings. Callers must show [`JitReport::notice`].
#[must_use = "a JIT load is a fallback that has to be announced"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JitReport {
    /// One line to show to the user.
    pub notice: String,
    /// The driver's information log (registers, spills), possibly empty.
    pub info_log: String,
    /// The driver's error log, possibly empty.
    pub error_log: String,
    /// How long the driver took.
    pub compile_us: u64,
}

impl Module {
    /// Loads a cubin.
    ///
    /// # Errors
    /// [`DriverError::Image`] when the bytes are not a whole cubin, [`DriverError::Load`] with the driver's
    /// log when it is not for this device.
    pub fn load_cubin(context: &Context, cubin: &[u8]) -> Result<Self, DriverError> {
        image::check_cubin(cubin)?;
        // The driver reads headers in place, so the copy is aligned to 8 bytes, whatever the slice is.
        let mut words = vec![0_u64; cubin.len().div_ceil(8)];
        for (word, bytes) in words.iter_mut().zip(cubin.chunks(8)) {
            let mut full = [0_u8; 8];
            full[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_ne_bytes(full);
        }
        let (module, _logs) = load(context, "a cubin", words.as_ptr().cast())?;
        Ok(module)
    }

    /// Has the driver compile and load PTX: the announced fallback when no assembler is at hand.
    ///
    /// # Errors
    /// [`DriverError::Load`] with the compiler's log; [`DriverError::Image`] for a NUL inside the text.
    pub fn load_ptx_jit(context: &Context, ptx: &str) -> Result<(Self, JitReport), DriverError> {
        let text = CString::new(ptx).map_err(|e| ImageRefusal::PtxNul { at: e.nul_position() })?;
        let start = Instant::now();
        let (module, logs) = load(context, "PTX", text.as_ptr().cast())?;
        let report = JitReport {
            notice: format!(
                "PTX was compiled by the driver (CUDA {}), not by the pinned assembler: code and timings may differ",
                context.version()
            ),
            info_log: logs.info,
            error_log: logs.error,
            compile_us: crate::context::micros(start.elapsed()),
        };
        Ok((module, report))
    }

    /// The kernel called `name`, loaded into the device right away so that its first launch is not slow.
    ///
    /// # Errors
    /// `CUDA_ERROR_NOT_FOUND` when there is no such kernel.
    pub fn function(&self, name: &str) -> Result<Function, DriverError> {
        let c_name = CString::new(name).map_err(|_| ImageRefusal::NameNul { name: name.into() })?;
        let context = &self.0.context;
        context.bind()?;
        let mut handle: sys::CUfunction = std::ptr::null_mut();
        // SAFETY: the module is alive, the name NUL-terminated, `handle` a valid out pointer.
        let result = unsafe { (context.api().cuModuleGetFunction)(&raw mut handle, self.0.handle, c_name.as_ptr()) };
        context.check("cuModuleGetFunction", result)?;
        Function::wrap(Arc::clone(&self.0), handle, name)
    }
}

struct Logs {
    info: String,
    error: String,
}

/// Loads the image at `image`: a checked cubin, or NUL-terminated PTX.
fn load(context: &Context, what: &'static str, image: *const c_void) -> Result<(Module, Logs), DriverError> {
    context.bind()?;
    let mut info = vec![0_u8; LOG_BYTES];
    let mut error = vec![0_u8; LOG_BYTES];
    let mut options = [
        Jit::CU_JIT_INFO_LOG_BUFFER,
        Jit::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        Jit::CU_JIT_ERROR_LOG_BUFFER,
        Jit::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        Jit::CU_JIT_LOG_VERBOSE,
    ];
    let number = |n: usize| std::ptr::without_provenance_mut::<c_void>(n);
    // One byte less than there is, so that a NUL always remains.
    let mut values = [
        info.as_mut_ptr().cast::<c_void>(),
        number(LOG_BYTES - 1),
        error.as_mut_ptr().cast(),
        number(LOG_BYTES - 1),
        number(1),
    ];
    let mut handle: sys::CUmodule = std::ptr::null_mut();
    // SAFETY: the image is whole (see the callers); options and values have the passed length and the
    // documented kinds; the log buffers outlive the call.
    let result = unsafe {
        (context.api().cuModuleLoadDataEx)(
            &raw mut handle,
            image,
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    let logs = Logs {
        info: text_until_nul(&info),
        error: text_until_nul(&error),
    };
    if result == code::SUCCESS {
        let module = LoadedModule {
            context: context.clone(),
            handle,
        };
        return Ok((Module(Arc::new(module)), logs));
    }
    if code::is_sticky(result) {
        context.check("cuModuleLoadDataEx", result)?;
    }
    Err(Box::new(LoadFailure {
        what,
        failure: context.api().failure("cuModuleLoadDataEx", result),
        error_log: logs.error,
        info_log: logs.info,
    })
    .into())
}

fn text_until_nul(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

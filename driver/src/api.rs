//! The driver's entry points, looked up once by name.
//!
//! `cudarc::driver::sys` gives the types; its own loader panics on a missing symbol and returns
//! results as a closed enum, so the addresses are taken here, with results as `u32`. The macro has the
//! compiler compare each signature with cudarc's binding, so the two cannot drift apart.

use crate::code;
use crate::error::{ApiVersion, CudaFailure, DriverError, Unavailable};
use cudarc::driver::sys::{self, CUresult};
use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_ushort, c_void};

macro_rules! driver_api {
    (
        required { $($name:ident($($arg:ty),* $(,)?);)* }
        optional { $($opt:ident($($opt_arg:ty),* $(,)?);)* }
    ) => {
        /// Addresses of the driver's entry points.
        #[expect(non_snake_case, reason = "fields carry the names of the CUDA driver API")]
        pub(crate) struct Api {
            $(pub $name: unsafe extern "C" fn($($arg),*) -> u32,)*
            $(pub $opt: Option<unsafe extern "C" fn($($opt_arg),*) -> u32>,)*
            error_name: ErrorText,
            error_string: ErrorText,
            /// Milliseconds between two events, by the newest name the driver has.
            pub event_elapsed: unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> u32,
            pub version: ApiVersion,
        }

        // Each argument list is cudarc's, or this does not compile.
        const _: () = {
            $(let _: unsafe fn($($arg),*) -> CUresult = sys::$name;)*
            $(let _: unsafe fn($($opt_arg),*) -> CUresult = sys::$opt;)*
        };

        impl Api {
            /// Looks every entry point up in `lib`, which must stay loaded for the process's life.
            fn lookup(lib: &'static libloading::Library, path: &str) -> Result<Self, Unavailable> {
                Ok(Self {
                    // SAFETY: the symbol of this name in the CUDA driver has this signature (compared
                    // with cudarc's bindings above); CUresult is returned as its 32-bit representation.
                    $($name: unsafe { required(lib, path, stringify!($name))? },)*
                    // SAFETY: as above.
                    $($opt: unsafe { optional(lib, stringify!($opt)) },)*
                    // SAFETY: as above, with the CUresult argument passed as its representation.
                    error_name: unsafe { required(lib, path, "cuGetErrorName")? },
                    // SAFETY: as above, with the CUresult argument passed as its representation.
                    error_string: unsafe { required(lib, path, "cuGetErrorString")? },
                    event_elapsed: event_elapsed(lib, path)?,
                    version: ApiVersion::from_raw(0),
                })
            }
        }
    };
}

type ErrorText = unsafe extern "C" fn(u32, *mut *const c_char) -> u32;

driver_api! {
    required {
        cuInit(c_uint);
        cuDriverGetVersion(*mut c_int);
        cuDeviceGetCount(*mut c_int);
        cuDeviceGet(*mut sys::CUdevice, c_int);
        cuDeviceGetName(*mut c_char, c_int, sys::CUdevice);
        cuDeviceGetUuid_v2(*mut sys::CUuuid, sys::CUdevice);
        cuDeviceTotalMem_v2(*mut usize, sys::CUdevice);
        cuDeviceGetAttribute(*mut c_int, sys::CUdevice_attribute, sys::CUdevice);
        cuDevicePrimaryCtxRetain(*mut sys::CUcontext, sys::CUdevice);
        cuDevicePrimaryCtxRelease_v2(sys::CUdevice);
        cuCtxSetCurrent(sys::CUcontext);
        cuMemGetInfo_v2(*mut usize, *mut usize);
        cuMemAlloc_v2(*mut sys::CUdeviceptr, usize);
        cuMemFree_v2(sys::CUdeviceptr);
        cuMemHostAlloc(*mut *mut c_void, usize, c_uint);
        cuMemFreeHost(*mut c_void);
        cuMemcpyHtoD_v2(sys::CUdeviceptr, *const c_void, usize);
        cuMemcpyDtoH_v2(*mut c_void, sys::CUdeviceptr, usize);
        cuMemcpyHtoDAsync_v2(sys::CUdeviceptr, *const c_void, usize, sys::CUstream);
        cuMemcpyDtoHAsync_v2(*mut c_void, sys::CUdeviceptr, usize, sys::CUstream);
        cuMemcpyDtoDAsync_v2(sys::CUdeviceptr, sys::CUdeviceptr, usize, sys::CUstream);
        cuMemsetD8Async(sys::CUdeviceptr, c_uchar, usize, sys::CUstream);
        cuMemsetD16Async(sys::CUdeviceptr, c_ushort, usize, sys::CUstream);
        cuMemsetD32Async(sys::CUdeviceptr, c_uint, usize, sys::CUstream);
        cuStreamCreate(*mut sys::CUstream, c_uint);
        cuStreamDestroy_v2(sys::CUstream);
        cuStreamQuery(sys::CUstream);
        cuStreamWaitEvent(sys::CUstream, sys::CUevent, c_uint);
        cuStreamBeginCapture_v2(sys::CUstream, sys::CUstreamCaptureMode);
        cuStreamEndCapture(sys::CUstream, *mut sys::CUgraph);
        cuEventCreate(*mut sys::CUevent, c_uint);
        cuEventDestroy_v2(sys::CUevent);
        cuEventQuery(sys::CUevent);
        cuEventRecord(sys::CUevent, sys::CUstream);
        cuGraphInstantiateWithFlags(*mut sys::CUgraphExec, sys::CUgraph, c_ulonglong);
        cuGraphGetNodes(sys::CUgraph, *mut sys::CUgraphNode, *mut usize);
        cuGraphLaunch(sys::CUgraphExec, sys::CUstream);
        cuGraphDestroy(sys::CUgraph);
        cuGraphExecDestroy(sys::CUgraphExec);
        cuModuleLoadDataEx(
            *mut sys::CUmodule, *const c_void, c_uint, *mut sys::CUjit_option, *mut *mut c_void,
        );
        cuModuleUnload(sys::CUmodule);
        cuModuleGetFunction(*mut sys::CUfunction, sys::CUmodule, *const c_char);
        cuFuncGetAttribute(*mut c_int, sys::CUfunction_attribute, sys::CUfunction);
        cuFuncSetAttribute(sys::CUfunction, sys::CUfunction_attribute, c_int);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(*mut c_int, sys::CUfunction, c_int, usize);
        cuOccupancyMaxActiveClusters(*mut c_int, sys::CUfunction, *const sys::CUlaunchConfig);
        cuLaunchKernelEx(
            *const sys::CUlaunchConfig, sys::CUfunction, *mut *mut c_void, *mut *mut c_void,
        );
        cuTensorMapEncodeTiled(
            *mut sys::CUtensorMap, sys::CUtensorMapDataType, sys::cuuint32_t, *mut c_void,
            *const sys::cuuint64_t, *const sys::cuuint64_t, *const sys::cuuint32_t,
            *const sys::cuuint32_t, sys::CUtensorMapInterleave, sys::CUtensorMapSwizzle,
            sys::CUtensorMapL2promotion, sys::CUtensorMapFloatOOBfill,
        );
    }
    optional {
        // CUDA 12.4.
        cuFuncGetParamInfo(sys::CUfunction, usize, *mut usize, *mut usize);
        // CUDA 12.4.
        cuFuncLoad(sys::CUfunction);
    }
}

/// # Safety
/// `F` must be the signature of the symbol `name`.
unsafe fn optional<F: Copy>(lib: &'static libloading::Library, name: &str) -> Option<F> {
    // SAFETY: the caller vouches for the signature; the library is never unloaded.
    unsafe { lib.get::<F>(name.as_bytes()) }.ok().map(|found| *found)
}

/// # Safety
/// `F` must be the signature of the symbol `symbol`.
unsafe fn required<F: Copy>(
    lib: &'static libloading::Library,
    path: &str,
    symbol: &'static str,
) -> Result<F, Unavailable> {
    // SAFETY: passed on from the caller.
    unsafe { optional(lib, symbol) }.ok_or_else(|| Unavailable::MissingSymbol {
        library: path.into(),
        symbol,
    })
}

type EventElapsed = unsafe extern "C" fn(*mut f32, sys::CUevent, sys::CUevent) -> u32;

/// CUDA 12.8 renamed the call and kept its arguments; older drivers have the first name only.
fn event_elapsed(lib: &'static libloading::Library, path: &str) -> Result<EventElapsed, Unavailable> {
    const _: unsafe fn(*mut f32, sys::CUevent, sys::CUevent) -> CUresult = sys::cuEventElapsedTime_v2;
    // SAFETY: the signature is compared with cudarc's just above.
    let newer = unsafe { optional::<EventElapsed>(lib, "cuEventElapsedTime_v2") };
    // SAFETY: the older name takes the same arguments.
    newer.map_or_else(|| unsafe { required(lib, path, "cuEventElapsedTime") }, Ok)
}

impl Api {
    /// Opens the library `name` and looks every entry point up. The library is never unloaded.
    ///
    /// The outer error is the loader's reason why there is no such library; the inner one says that the
    /// library is not a usable driver.
    pub(crate) fn open(name: &str) -> Result<Result<Self, Unavailable>, String> {
        // SAFETY: loading runs the library's initialisers; the names are those of the CUDA driver.
        let lib = unsafe { libloading::Library::new(name) }.map_err(|e| e.to_string())?;
        let lib: &'static libloading::Library = Box::leak(Box::new(lib));
        Ok(Self::lookup(lib, name))
    }

    /// Turns a result code into an error of the right class.
    pub(crate) fn check(&self, call: &'static str, result: u32) -> Result<(), DriverError> {
        if result == code::SUCCESS {
            return Ok(());
        }
        let failure = self.failure(call, result);
        Err(if code::is_sticky(result) {
            DriverError::Sticky(failure)
        } else {
            DriverError::Cuda(failure)
        })
    }

    /// A failed call with its name and text from the driver.
    pub(crate) fn failure(&self, call: &'static str, result: u32) -> CudaFailure {
        CudaFailure {
            call,
            code: result,
            name: text_of(self.error_name, result).unwrap_or_else(|| "unlisted".into()),
            text: text_of(self.error_string, result).unwrap_or_else(|| "the driver has no text".into()),
        }
    }
}

fn text_of(ask: ErrorText, result: u32) -> Option<String> {
    let mut text: *const c_char = std::ptr::null();
    // SAFETY: `text` is a valid out pointer; an unknown code leaves it null.
    let asked = unsafe { ask(result, &raw mut text) };
    if asked != code::SUCCESS || text.is_null() {
        return None;
    }
    // SAFETY: on success the driver gives a static NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text) };
    Some(text.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_library_is_a_reason() {
        assert!(Api::open("libno-such-cuda-driver.so.1").is_err());
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_library_that_is_not_the_driver_is_refused() {
        let Ok(opened) = Api::open("libc.so.6") else {
            println!("SKIP: libc.so.6 is not here (another C library)");
            return;
        };
        let refusal = opened.err().map(|e| e.to_string());
        assert!(
            refusal
                .as_deref()
                .is_some_and(|r| r.contains("libc.so.6 has no cuInit")),
            "{refusal:?}"
        );
    }
}

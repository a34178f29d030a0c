//! Opening the CUDA driver and listing devices.

use crate::api::Api;
use crate::code;
use crate::context::Context;
use crate::device::Device;
use crate::error::{ApiVersion, DriverError, Unavailable};
use std::ffi::c_int;
use std::sync::OnceLock;

/// Tensor maps and `cuTensorMapEncodeTiled` came with CUDA 12.0.
const OLDEST: ApiVersion = ApiVersion { major: 12, minor: 0 };

/// Library names in the order they are tried; the last on Linux is where WSL keeps it.
#[cfg(not(windows))]
const LIBRARIES: &[&str] = &["libcuda.so.1", "libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"];
#[cfg(windows)]
const LIBRARIES: &[&str] = &["nvcuda.dll"];

/// The opened and initialised CUDA driver. Cheap to copy; the library stays loaded until the process ends.
#[derive(Clone, Copy)]
pub struct Driver {
    api: &'static Api,
    library: &'static str,
    device_count: u32,
}

impl std::fmt::Debug for Driver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver")
            .field("library", &self.library)
            .field("version", &self.version())
            .field("device_count", &self.device_count)
            .finish()
    }
}

impl Driver {
    /// Opens the driver library, initialises it and counts devices. The first answer holds for the process.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] with what is missing and how to get it. Never panics.
    pub fn open() -> Result<Self, DriverError> {
        static OPENED: OnceLock<Result<Driver, Unavailable>> = OnceLock::new();
        OPENED
            .get_or_init(|| open_first(LIBRARIES))
            .clone()
            .map_err(DriverError::from)
    }

    /// The CUDA API version the driver offers.
    #[must_use]
    pub fn version(&self) -> ApiVersion {
        self.api.version
    }

    /// The library name that was opened.
    #[must_use]
    pub fn library(&self) -> &'static str {
        self.library
    }

    /// How many devices are visible; at least 1.
    #[must_use]
    pub fn device_count(&self) -> u32 {
        self.device_count
    }

    /// Facts about a device.
    ///
    /// # Errors
    /// [`Unavailable::NoSuchDevice`] for an ordinal out of range, or a failed query.
    pub fn device(&self, ordinal: u32) -> Result<Device, DriverError> {
        if ordinal >= self.device_count {
            let count = self.device_count;
            return Err(Unavailable::NoSuchDevice { asked: ordinal, count }.into());
        }
        Device::query(self.api, ordinal)
    }

    /// All visible devices.
    ///
    /// # Errors
    /// The first failed query.
    pub fn devices(&self) -> Result<Vec<Device>, DriverError> {
        (0..self.device_count).map(|ordinal| self.device(ordinal)).collect()
    }

    /// Retains the device's primary context and makes it current on this thread.
    ///
    /// # Errors
    /// As [`Driver::device`], or a failed retain.
    pub fn context(&self, ordinal: u32) -> Result<Context, DriverError> {
        Context::retain(self.api, self.device(ordinal)?)
    }
}

fn open_first(names: &'static [&'static str]) -> Result<Driver, Unavailable> {
    let mut reasons = Vec::new();
    for name in names {
        match Api::open(name) {
            Ok(api) => return initialise(api?, name),
            Err(why) => reasons.push(why),
        }
    }
    // The first name is the one a driver installs; the others' answers say less.
    Err(Unavailable::NoLibrary {
        tried: names.join(", "),
        reason: reasons.into_iter().next().unwrap_or_default(),
    })
}

fn initialise(mut api: Api, library: &'static str) -> Result<Driver, Unavailable> {
    // SAFETY: cuInit takes only a flag word, which must be 0.
    start_up(&api, "cuInit", unsafe { (api.cuInit)(0) })?;
    let mut raw_version: c_int = 0;
    // SAFETY: a valid out pointer.
    let result = unsafe { (api.cuDriverGetVersion)(&raw mut raw_version) };
    start_up(&api, "cuDriverGetVersion", result)?;
    api.version = ApiVersion::from_raw(raw_version);
    if api.version < OLDEST {
        return Err(Unavailable::TooOld {
            found: api.version,
            needed: OLDEST,
        });
    }
    let mut count: c_int = 0;
    // SAFETY: a valid out pointer.
    let result = unsafe { (api.cuDeviceGetCount)(&raw mut count) };
    start_up(&api, "cuDeviceGetCount", result)?;
    match u32::try_from(count) {
        Ok(device_count) if device_count > 0 => Ok(Driver {
            api: Box::leak(Box::new(api)),
            library,
            device_count,
        }),
        _ => Err(Unavailable::NoDevice { version: api.version }),
    }
}

fn start_up(api: &Api, call: &'static str, result: u32) -> Result<(), Unavailable> {
    if result == code::SUCCESS {
        return Ok(());
    }
    let advice = match result {
        code::NO_DEVICE => {
            "No CUDA device is visible: check CUDA_VISIBLE_DEVICES, `nvidia-smi` and, in a container, that \
             the GPU is passed through"
        }
        code::STUB_LIBRARY => "A toolkit's link-time stub was loaded: take its `stubs` folder out of the library path",
        code::SYSTEM_DRIVER_MISMATCH => {
            "The loaded library and the kernel module differ in version: restart, or reload the module"
        }
        code::COMPAT_NOT_SUPPORTED => {
            "A forward-compatibility library was loaded on a device that has none: take the `compat` folder \
             out of the library path"
        }
        _ => "Check `nvidia-smi`, the permissions of /dev/nvidia*, and the kernel log for Xid lines",
    };
    Err(Unavailable::Init {
        failure: api.failure(call, result),
        advice,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_library_says_what_was_tried_and_what_to_do() {
        let text = open_first(&["libabsent-one.so", "libabsent-two.so"])
            .err()
            .map(|e| e.to_string());
        let text = text.unwrap_or_default();
        assert!(text.contains("libabsent-one.so, libabsent-two.so"), "{text}");
        assert!(text.contains("install the NVIDIA"), "{text}");
    }
}

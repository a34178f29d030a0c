//! The crate's errors: what was asked, what is true, what would be allowed.
//!
//! [`DriverError::class`] is the coarse view a caller decides on: a refusal is the caller's input, a
//! sticky error or a hang ends the process's use of the device, `Unavailable` means that there is
//! nothing to run on.

use crate::args::ArgRefusal;
use crate::image::ImageRefusal;
use crate::launch::LaunchRefusal;
use crate::memory::BufferRefusal;
use crate::red_zone::RedZoneBreach;
use crate::tensor_map::TensorMapRefusal;
use serde::Serialize;

/// Everything that can go wrong in this crate.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum DriverError {
    /// No usable CUDA driver or device.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    /// The context is lost: every later call in this process fails the same way.
    #[error(
        "{0}; the error is sticky: the context is lost and every later call fails too. \
         Allowed: end this process and start a new one"
    )]
    Sticky(CudaFailure),
    /// A CUDA call failed and the context is still usable.
    #[error("{0}")]
    Cuda(CudaFailure),
    /// Device memory ran out.
    #[error("asked for {asked_bytes} bytes of device memory; {free_bytes} of {total_bytes} bytes are free")]
    OutOfMemory {
        /// The size asked for, red zones included.
        asked_bytes: u64,
        /// Free device memory at the time of the failure.
        free_bytes: u64,
        /// All device memory.
        total_bytes: u64,
    },
    /// Work did not finish before its deadline.
    #[error(
        "{what} did not finish within {deadline_us} us: taken as a hang. Device memory and handles are \
         left in place, since freeing them would wait for the same work; the parent must kill this process"
    )]
    Hang {
        /// What was waited for.
        what: &'static str,
        /// The deadline that passed.
        deadline_us: u64,
    },
    /// The image (cubin or PTX) was refused before the driver saw it.
    #[error(transparent)]
    Image(#[from] ImageRefusal),
    /// The driver refused to load an image.
    #[error(transparent)]
    Load(#[from] Box<LoadFailure>),
    /// Kernel arguments do not fit.
    #[error(transparent)]
    Args(#[from] ArgRefusal),
    /// The launch's shape is illegal.
    #[error(transparent)]
    Launch(#[from] LaunchRefusal),
    /// A tensor map's description breaks a documented rule.
    #[error(transparent)]
    TensorMap(#[from] TensorMapRefusal),
    /// A buffer operation does not fit the buffer.
    #[error(transparent)]
    Buffer(#[from] BufferRefusal),
    /// Something wrote outside a buffer.
    #[error(transparent)]
    RedZone(#[from] RedZoneBreach),
    /// The driver lacks an entry point that this call needs.
    #[error("{call} needs {symbol}, which CUDA driver API {version} does not have; a newer driver would")]
    Unsupported {
        /// What was asked.
        call: &'static str,
        /// The missing entry point.
        symbol: &'static str,
        /// The driver's API version.
        version: ApiVersion,
    },
    /// Objects of two contexts were mixed.
    #[error("{what} belongs to another context than the stream; use objects of one context")]
    OtherContext {
        /// The object that does not belong.
        what: &'static str,
    },
}

fn shown_log(log: &str) -> &str {
    if log.trim().is_empty() { "(empty)" } else { log.trim() }
}

/// The coarse kind of a [`DriverError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorClass {
    /// No driver or device here.
    Unavailable,
    /// The context is lost; the process must be replaced.
    Sticky,
    /// Work passed its deadline; the process must be killed.
    Hang,
    /// Device memory ran out.
    OutOfMemory,
    /// The caller's input was refused before the driver saw it.
    Refused,
    /// The driver refused an image.
    Load,
    /// Something wrote outside a buffer.
    Corruption,
    /// Any other failed call.
    Other,
}

impl DriverError {
    /// The coarse kind.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            Self::Unavailable(_) | Self::Unsupported { .. } => ErrorClass::Unavailable,
            Self::Sticky(_) => ErrorClass::Sticky,
            Self::Hang { .. } => ErrorClass::Hang,
            Self::OutOfMemory { .. } => ErrorClass::OutOfMemory,
            Self::Image(_)
            | Self::Args(_)
            | Self::Launch(_)
            | Self::TensorMap(_)
            | Self::Buffer(_)
            | Self::OtherContext { .. } => ErrorClass::Refused,
            Self::Load(_) => ErrorClass::Load,
            Self::RedZone(_) => ErrorClass::Corruption,
            Self::Cuda(_) => ErrorClass::Other,
        }
    }

    /// Whether this process can still use the device.
    #[must_use]
    pub fn ends_process(&self) -> bool {
        matches!(self.class(), ErrorClass::Sticky | ErrorClass::Hang)
    }
}

/// An image that the driver refused, with what its compiler or linker said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{failure}; loading {what}. Driver log: {}", shown_log(error_log))]
pub struct LoadFailure {
    /// What was loaded.
    pub what: &'static str,
    /// The driver's answer.
    pub failure: CudaFailure,
    /// The driver's error log, possibly empty.
    pub error_log: String,
    /// The driver's information log, possibly empty.
    pub info_log: String,
}

/// A failed driver call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{call} answered {name} ({code}): {text}")]
pub struct CudaFailure {
    /// The driver entry point.
    pub call: &'static str,
    /// The result code; may be newer than this crate.
    pub code: u32,
    /// The code's name, or `unlisted`.
    pub name: String,
    /// The driver's description.
    pub text: String,
}

/// A CUDA driver API version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct ApiVersion {
    /// 13 of 13.0.
    pub major: u32,
    /// 0 of 13.0.
    pub minor: u32,
}

impl ApiVersion {
    /// From `cuDriverGetVersion`'s `1000 * major + 10 * minor`.
    #[must_use]
    pub fn from_raw(raw: i32) -> Self {
        let raw = raw.max(0).unsigned_abs();
        Self {
            major: raw / 1000,
            minor: raw % 1000 / 10,
        }
    }
}

impl std::fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Why there is nothing to run on, and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    /// The driver library could not be opened.
    #[error(
        "no CUDA driver library: tried {tried}; the loader said: {reason}. To get it: install the NVIDIA \
         driver (580 or newer; a CUDA toolkit is not needed), or, in a container, start it with the GPU \
         passed through (for example `--gpus all`). Without one, use the simulator"
    )]
    NoLibrary {
        /// The names tried, in order.
        tried: String,
        /// The loader's message for the first name.
        reason: String,
    },
    /// The library has no such entry point.
    #[error(
        "{library} has no {symbol}: it is not the CUDA driver, or older than CUDA 12.0, the first with tensor maps. \
         To get it: install the NVIDIA driver 580 or newer"
    )]
    MissingSymbol {
        /// The library that was opened.
        library: String,
        /// The first missing entry point.
        symbol: &'static str,
    },
    /// The driver is too old.
    #[error("the CUDA driver API is {found}; {needed} or newer is needed. Update the NVIDIA driver")]
    TooOld {
        /// The driver's version.
        found: ApiVersion,
        /// The oldest that works.
        needed: ApiVersion,
    },
    /// `cuInit` or another start-up call failed.
    #[error("{failure}. {advice}")]
    Init {
        /// The failed call.
        failure: CudaFailure,
        /// What to do.
        advice: &'static str,
    },
    /// The driver works but shows no device.
    #[error(
        "the CUDA driver ({version}) shows no device. Check CUDA_VISIBLE_DEVICES, `nvidia-smi` and, in a \
         container, that the GPU is passed through"
    )]
    NoDevice {
        /// The driver's version.
        version: ApiVersion,
    },
    /// A device ordinal that does not exist.
    #[error("asked for device {asked}; there are {count}, numbered from 0")]
    NoSuchDevice {
        /// The ordinal asked for.
        asked: u32,
        /// How many devices there are.
        count: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_decode() {
        assert_eq!(ApiVersion::from_raw(13000).to_string(), "13.0");
        assert_eq!(ApiVersion::from_raw(12040).to_string(), "12.4");
        assert_eq!(ApiVersion::from_raw(-5).to_string(), "0.0");
    }

    #[test]
    fn a_hang_and_a_sticky_error_end_the_process() {
        let failure = CudaFailure {
            call: "cuStreamQuery",
            code: 700,
            name: "CUDA_ERROR_ILLEGAL_ADDRESS".into(),
            text: "an illegal memory access was encountered".into(),
        };
        let sticky = DriverError::Sticky(failure.clone());
        assert_eq!(sticky.class(), ErrorClass::Sticky);
        assert!(sticky.ends_process());
        assert!(sticky.to_string().contains("start a new one"));
        assert!(!DriverError::Cuda(failure).ends_process());
        let hang = DriverError::Hang {
            what: "an event",
            deadline_us: 5,
        };
        assert!(hang.ends_process());
        assert!(hang.to_string().contains("5 us"));
    }
}

//! CUDA result codes as plain numbers.
//!
//! The driver may be newer than the bindings, so a result is never read as a closed Rust enum: an
//! unlisted value there would be undefined behaviour. Codes stay `u32`; only the ones this crate
//! decides on have a name here.

use cudarc::driver::sys::CUresult;

/// `CUDA_SUCCESS`.
pub const SUCCESS: u32 = CUresult::CUDA_SUCCESS as u32;
/// `CUDA_ERROR_INVALID_VALUE`.
pub const INVALID_VALUE: u32 = CUresult::CUDA_ERROR_INVALID_VALUE as u32;
/// `CUDA_ERROR_OUT_OF_MEMORY`.
pub const OUT_OF_MEMORY: u32 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;
/// `CUDA_ERROR_STUB_LIBRARY`: a link-time stub was loaded instead of the driver.
pub const STUB_LIBRARY: u32 = CUresult::CUDA_ERROR_STUB_LIBRARY as u32;
/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: u32 = CUresult::CUDA_ERROR_NO_DEVICE as u32;
/// `CUDA_ERROR_NOT_READY`: asked-for work has not finished; not an error.
pub const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
/// `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
pub const SYSTEM_DRIVER_MISMATCH: u32 = CUresult::CUDA_ERROR_SYSTEM_DRIVER_MISMATCH as u32;
/// `CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE`.
pub const COMPAT_NOT_SUPPORTED: u32 = CUresult::CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE as u32;
/// Codes after which the context answers every later call with the same error, so that the process
/// has to be replaced. Sorted.
const STICKY: &[CUresult] = &[
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_TENSOR_MEMORY_LEAK,
    CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
    CUresult::CUDA_ERROR_UNKNOWN,
];

/// Whether the code leaves the context unusable.
#[must_use]
pub fn is_sticky(code: u32) -> bool {
    STICKY.iter().any(|sticky| *sticky as u32 == code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_faults_are_sticky_and_refusals_are_not() {
        for code in [214, 700, 702, 714, 715, 716, 717, 718, 719] {
            assert!(is_sticky(code), "{code}");
        }
        for code in [
            SUCCESS,
            INVALID_VALUE,
            OUT_OF_MEMORY,
            NO_DEVICE,
            NOT_READY,
            209,
            218,
            701,
            4242,
        ] {
            assert!(!is_sticky(code), "{code}");
        }
    }
}

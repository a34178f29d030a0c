//! Facts about a device, read once.

use crate::api::Api;
use crate::error::DriverError;
use cudarc::driver::sys::{self, CUdevice_attribute as Attribute};
use serde::Serialize;
use std::ffi::{c_char, c_int};

/// What the driver says about one device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Device {
    /// The number in this process's view (after `CUDA_VISIBLE_DEVICES`).
    pub ordinal: u32,
    /// Marketing name.
    pub name: String,
    /// `GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, the form NVML uses too.
    pub uuid: String,
    /// Compute capability, `(9, 0)` for Hopper.
    pub compute_capability: (u32, u32),
    /// Streaming multiprocessors.
    pub sm_count: u32,
    /// Level-2 cache.
    pub l2_bytes: u64,
    /// The most dynamic plus static shared memory a block may opt in to.
    pub max_shared_optin_bytes: u32,
    /// Shared memory of one multiprocessor.
    pub shared_per_sm_bytes: u32,
    /// 32-bit registers of one multiprocessor.
    pub registers_per_sm: u32,
    /// Threads of one multiprocessor.
    pub max_threads_per_sm: u32,
    /// Device memory.
    pub total_memory_bytes: u64,
    /// The highest SM clock.
    pub max_sm_clock_khz: u32,
    /// The highest memory clock.
    pub max_memory_clock_khz: u32,
    /// Width of the memory bus.
    pub memory_bus_bits: u32,
    /// Whether ECC is on.
    pub ecc: bool,
    /// Whether thread block clusters can be launched.
    pub cluster_launch: bool,
    /// Whether kernels can use tensor maps.
    pub tensor_maps: bool,
}

impl Device {
    pub(crate) fn query(api: &'static Api, ordinal: u32) -> Result<Self, DriverError> {
        let dev = handle(api, ordinal)?;
        let get = |attribute| attribute_of(api, dev, attribute);
        Ok(Self {
            ordinal,
            name: name_of(api, dev)?,
            uuid: uuid_of(api, dev)?,
            compute_capability: (
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                get(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            sm_count: get(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            l2_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)?.into(),
            max_shared_optin_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)?,
            shared_per_sm_bytes: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)?,
            registers_per_sm: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR)?,
            max_threads_per_sm: get(Attribute::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)?,
            total_memory_bytes: total_memory_of(api, dev)?,
            max_sm_clock_khz: get(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE)?,
            max_memory_clock_khz: get(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE)?,
            memory_bus_bits: get(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH)?,
            ecc: get(Attribute::CU_DEVICE_ATTRIBUTE_ECC_ENABLED)? != 0,
            cluster_launch: get(Attribute::CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH)? != 0,
            tensor_maps: get(Attribute::CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED)? != 0,
        })
    }
}

/// The driver's handle of a device ordinal.
pub(crate) fn handle(api: &Api, ordinal: u32) -> Result<sys::CUdevice, DriverError> {
    let mut dev: sys::CUdevice = 0;
    let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
    // SAFETY: a valid out pointer; a bad ordinal is answered with an error.
    let result = unsafe { (api.cuDeviceGet)(&raw mut dev, ordinal) };
    api.check("cuDeviceGet", result).map(|()| dev)
}

fn attribute_of(api: &Api, dev: sys::CUdevice, attribute: Attribute) -> Result<u32, DriverError> {
    let mut value: c_int = 0;
    // SAFETY: a valid out pointer and a listed attribute.
    let result = unsafe { (api.cuDeviceGetAttribute)(&raw mut value, attribute, dev) };
    api.check("cuDeviceGetAttribute", result)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

fn name_of(api: &Api, dev: sys::CUdevice) -> Result<String, DriverError> {
    const CAPACITY: usize = 256;
    let mut name = [0 as c_char; CAPACITY];
    // SAFETY: the buffer has the length that is passed.
    let result = unsafe { (api.cuDeviceGetName)(name.as_mut_ptr(), CAPACITY as c_int, dev) };
    api.check("cuDeviceGetName", result)?;
    let bytes: Vec<u8> = name
        .iter()
        .take_while(|c| **c != 0)
        .map(|c| c.to_ne_bytes()[0])
        .collect();
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn uuid_of(api: &Api, dev: sys::CUdevice) -> Result<String, DriverError> {
    let mut uuid = sys::CUuuid { bytes: [0; 16] };
    // SAFETY: a valid out pointer.
    let result = unsafe { (api.cuDeviceGetUuid_v2)(&raw mut uuid, dev) };
    api.check("cuDeviceGetUuid", result)?;
    Ok(format_uuid(&uuid.bytes.map(|c| c.to_ne_bytes()[0])))
}

fn total_memory_of(api: &Api, dev: sys::CUdevice) -> Result<u64, DriverError> {
    let mut bytes = 0_usize;
    // SAFETY: a valid out pointer.
    let result = unsafe { (api.cuDeviceTotalMem_v2)(&raw mut bytes, dev) };
    api.check("cuDeviceTotalMem", result).map(|()| bytes as u64)
}

fn format_uuid(bytes: &[u8; 16]) -> String {
    let mut text = String::from("GPU");
    for (i, byte) in bytes.iter().enumerate() {
        if matches!(i, 0 | 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuids_have_the_form_nvml_uses() {
        let bytes: [u8; 16] = std::array::from_fn(|i| i as u8 * 16 + 1);
        assert_eq!(format_uuid(&bytes), "GPU-01112131-4151-6171-8191-a1b1c1d1e1f1");
    }
}

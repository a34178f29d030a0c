//! What there is on this machine, as facts: the base of a `doctor` command. Never fails.

use crate::device::Device;
use crate::driver::Driver;
use crate::error::ApiVersion;
use crate::nvml::{self, NvmlUnavailable, Sample, Sampler};
use serde::Serialize;

/// What was found, what is missing and how to get it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Probe {
    /// The CUDA driver, or why there is none and what to do.
    pub cuda: Finding<CudaFound>,
    /// NVML, or why there is none and what to do.
    pub nvml: Finding<NvmlFound>,
}

/// A thing that is there, or the reason why not.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
pub enum Finding<T> {
    /// It is there.
    Found(T),
    /// It is not; the text says what to do.
    Missing {
        /// Why, and how to get it.
        reason: String,
    },
}

/// A working CUDA driver.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CudaFound {
    /// The name that was opened.
    pub library: &'static str,
    /// The file behind it, where the system tells.
    pub path: Option<String>,
    /// The CUDA API version.
    pub version: ApiVersion,
    /// The visible devices.
    pub devices: Vec<Device>,
    /// Failed device queries.
    pub device_errors: Vec<String>,
}

/// A working NVML.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NvmlFound {
    /// The kernel driver's version.
    pub driver_version: String,
    /// The state of each visible CUDA device now.
    pub states: Vec<DeviceState>,
}

/// A device's state now.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeviceState {
    /// Which device.
    pub uuid: String,
    /// Its state, or why it cannot be read.
    pub state: Finding<Sample>,
}

/// Looks for everything this crate uses. Never fails and never panics.
#[must_use]
pub fn probe() -> Probe {
    let cuda = find_cuda();
    let devices = match &cuda {
        Finding::Found(found) => found.devices.as_slice(),
        Finding::Missing { .. } => &[],
    };
    let nvml = find_nvml(devices);
    Probe { cuda, nvml }
}

fn find_cuda() -> Finding<CudaFound> {
    let driver = match Driver::open() {
        Ok(driver) => driver,
        Err(e) => return missing(&e),
    };
    let (mut devices, mut device_errors) = (Vec::new(), Vec::new());
    for ordinal in 0..driver.device_count() {
        match driver.device(ordinal) {
            Ok(device) => devices.push(device),
            Err(e) => device_errors.push(format!("device {ordinal}: {e}")),
        }
    }
    Finding::Found(CudaFound {
        library: driver.library(),
        path: mapped_path("libcuda.so"),
        version: driver.version(),
        devices,
        device_errors,
    })
}

fn find_nvml(devices: &[Device]) -> Finding<NvmlFound> {
    match nvml::driver_version() {
        Ok(driver_version) => Finding::Found(NvmlFound {
            driver_version,
            states: devices.iter().map(state_of).collect(),
        }),
        Err(e) => missing(&e),
    }
}

fn state_of(device: &Device) -> DeviceState {
    let state: Result<Sample, NvmlUnavailable> = Sampler::open(device).map(|s| s.sample());
    DeviceState {
        uuid: device.uuid.clone(),
        state: state.map_or_else(|e| missing(&e), Finding::Found),
    }
}

fn missing<T>(reason: &dyn std::fmt::Display) -> Finding<T> {
    Finding::Missing {
        reason: reason.to_string(),
    }
}

/// The loaded file whose name starts with `name`, by the process's memory map (Linux).
fn mapped_path(name: &str) -> Option<String> {
    let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
    path_in_maps(&maps, name)
}

fn path_in_maps(maps: &str, name: &str) -> Option<String> {
    let path = |line: &str| line.find('/').map(|at| line[at..].to_string());
    maps.lines()
        .filter_map(path)
        .find(|path| path.rsplit('/').next().is_some_and(|f| f.starts_with(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_is_found_in_a_memory_map() {
        let maps = "7f00-7f01 r-xp 00000000 08:01 99 /usr/lib/libc.so.6\n\
                    7f02-7f03 r-xp 00000000 08:01 98 /usr/lib/x/libcuda.so.580.159\n";
        let found = path_in_maps(maps, "libcuda.so");
        assert_eq!(found.as_deref(), Some("/usr/lib/x/libcuda.so.580.159"));
        assert_eq!(path_in_maps(maps, "libnvrtc"), None);
    }

    #[test]
    fn a_probe_always_answers() {
        let probe = probe();
        if let Finding::Missing { reason } = &probe.cuda {
            assert!(!reason.is_empty());
        }
    }
}

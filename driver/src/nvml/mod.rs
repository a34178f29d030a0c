//! The GPU's state while kernels run: clocks, power, temperature, throttling. Reads only, never sets.
//!
//! NVML may be missing, or answer some questions and not others; both are values.

mod monitor;

pub use monitor::{Clock, Monitor, MonitorReport, Summary};

use crate::device::Device;
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock as NvmlClock, TemperatureSensor};
use nvml_wrapper::error::NvmlError;
use serde::Serialize;

/// Why NVML cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
pub enum NvmlUnavailable {
    /// The library is missing or did not start.
    #[error(
        "NVML did not start: {reason}. It comes with the NVIDIA driver (libnvidia-ml.so.1); in a container, the \
         `utility` driver capability brings it in. Clocks and power are not recorded without it"
    )]
    Library {
        /// What the loader or NVML said.
        reason: String,
    },
    /// The device is not known to NVML.
    #[error("NVML knows no device {uuid}: {reason}")]
    Device {
        /// The device looked for.
        uuid: String,
        /// What NVML said.
        reason: String,
    },
}

/// One reading. A question that NVML did not answer is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Sample {
    /// Microseconds since the monitor started; 0 for a single reading.
    pub at_us: u64,
    /// SM clock.
    pub sm_clock_mhz: Option<u32>,
    /// Memory clock.
    pub memory_clock_mhz: Option<u32>,
    /// Power drawn, averaged by the board over about a second on some models.
    pub power_mw: Option<u32>,
    /// The limit in force.
    pub power_limit_mw: Option<u32>,
    /// Die temperature.
    pub temperature_c: Option<u32>,
    /// Names of what holds the clocks down; `none` is an empty list.
    pub throttle_reasons: Option<Vec<String>>,
}

/// Reads one GPU's state.
pub struct Sampler {
    nvml: Nvml,
    uuid: String,
}

impl std::fmt::Debug for Sampler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sampler").field("uuid", &self.uuid).finish()
    }
}

impl Sampler {
    /// Opens NVML and finds the device by its UUID, since NVML numbers devices differently.
    ///
    /// # Errors
    /// [`NvmlUnavailable`]; callers go on without.
    pub fn open(device: &Device) -> Result<Self, NvmlUnavailable> {
        let sampler = Self {
            nvml: start()?,
            uuid: device.uuid.clone(),
        };
        match sampler.nvml.device_by_uuid(sampler.uuid.as_str()) {
            Ok(_) => Ok(sampler),
            Err(e) => Err(NvmlUnavailable::Device {
                uuid: device.uuid.clone(),
                reason: e.to_string(),
            }),
        }
    }

    /// The kernel driver's version, such as `580.159.03`.
    #[must_use]
    pub fn driver_version(&self) -> Option<String> {
        self.nvml.sys_driver_version().ok()
    }

    /// Reads the state now; about a millisecond.
    #[must_use]
    pub fn sample(&self) -> Sample {
        let Ok(device) = self.nvml.device_by_uuid(self.uuid.as_str()) else {
            return Sample::default();
        };
        Sample {
            at_us: 0,
            sm_clock_mhz: device.clock_info(NvmlClock::SM).ok(),
            memory_clock_mhz: device.clock_info(NvmlClock::Memory).ok(),
            power_mw: device.power_usage().ok(),
            power_limit_mw: device.enforced_power_limit().ok(),
            temperature_c: device.temperature(TemperatureSensor::Gpu).ok(),
            throttle_reasons: device.current_throttle_reasons().ok().map(names_of),
        }
    }
}

/// The driver's version as NVML tells it, without any device.
///
/// # Errors
/// [`NvmlUnavailable::Library`].
pub fn driver_version() -> Result<String, NvmlUnavailable> {
    start()?.sys_driver_version().map_err(library_error)
}

fn start() -> Result<Nvml, NvmlUnavailable> {
    Nvml::init().map_err(library_error)
}

#[expect(clippy::needless_pass_by_value, reason = "the shape map_err wants")]
fn library_error(error: NvmlError) -> NvmlUnavailable {
    NvmlUnavailable::Library {
        reason: error.to_string(),
    }
}

fn names_of(reasons: ThrottleReasons) -> Vec<String> {
    reasons
        .iter_names()
        .filter(|(_, flag)| !flag.is_empty())
        .map(|(name, _)| name.to_lowercase())
        .collect()
}

/// Whether a reason lowers the clocks of a busy GPU. Being idle and clocks set by the user do not count.
#[must_use]
pub fn slows_down(reason: &str) -> bool {
    !matches!(
        reason,
        "gpu_idle" | "applications_clocks_setting" | "user_defined_clocks" | "display_clock_setting"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn throttle_reasons_have_names() {
        let both = ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE;
        assert_eq!(names_of(both), ["gpu_idle", "sw_power_cap"]);
        assert!(names_of(ThrottleReasons::empty()).is_empty());
        assert!(slows_down("sw_power_cap") && !slows_down("gpu_idle"));
    }

    #[test]
    fn a_missing_nvml_is_a_value_with_advice() {
        match driver_version() {
            Ok(version) => assert!(!version.is_empty()),
            Err(e) => assert!(e.to_string().contains("libnvidia-ml.so.1"), "{e}"),
        }
    }
}

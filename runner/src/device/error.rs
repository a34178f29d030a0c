//! Failures of a device, coarse enough to decide an outcome, with the device's own text.

use driver::{DriverError, ErrorClass};
use serde::{Deserialize, Serialize};

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// No device, driver or entry point.
    Unavailable,
    /// Refused before the device saw it.
    Refused,
    /// The image was refused.
    Load,
    OutOfMemory,
    /// Past the deadline. The process should be replaced.
    Hang,
    /// A kernel's fault, such as an illegal address. The process should be replaced.
    Fault,
    /// Two accesses without order, as a simulator sees them.
    Race,
    /// A write outside a buffer that the hardware let through.
    OutOfBounds,
    /// Any other failed call.
    Other,
}

/// A failure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct DeviceError {
    pub class: FaultClass,
    pub message: String,
}

impl DeviceError {
    /// The same, with the kernel that it happened in.
    #[must_use]
    pub fn within(mut self, entry: &str) -> Self {
        self.message = format!("in kernel `{entry}`, {}", self.message);
        self
    }

    #[must_use]
    pub fn new(class: FaultClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
        }
    }

    /// Whether this process can no longer use the device.
    #[must_use]
    pub const fn ends_process(&self) -> bool {
        matches!(self.class, FaultClass::Hang | FaultClass::Fault)
    }
}

impl From<DriverError> for DeviceError {
    fn from(error: DriverError) -> Self {
        let class = match error.class() {
            ErrorClass::Unavailable => FaultClass::Unavailable,
            ErrorClass::Sticky => FaultClass::Fault,
            ErrorClass::Hang => FaultClass::Hang,
            ErrorClass::OutOfMemory => FaultClass::OutOfMemory,
            ErrorClass::Refused => FaultClass::Refused,
            ErrorClass::Load => FaultClass::Load,
            ErrorClass::Corruption => FaultClass::OutOfBounds,
            ErrorClass::Other => FaultClass::Other,
        };
        Self::new(class, error.to_string())
    }
}

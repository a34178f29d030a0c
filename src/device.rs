//! `--device`: which device a command runs on, and what to say when there is none.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use driver::Finding;
use runner::device::CudaDevice;
use runner::outcome::{Outcome, Stage};

use crate::failure::Failure;

/// A device asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// A CUDA device by its ordinal.
    Cuda(u32),
    /// The simulated device.
    Sim,
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cuda(ordinal) => write!(f, "cuda:{ordinal}"),
            Self::Sim => f.write_str("sim"),
        }
    }
}

impl FromStr for DeviceName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ordinal = |n: &str| n.parse::<u32>().ok().filter(|_| n.bytes().all(|b| b.is_ascii_digit()));
        match (text, text.strip_prefix("cuda:").and_then(ordinal)) {
            ("sim", _) => Ok(Self::Sim),
            ("cuda", _) => Ok(Self::Cuda(0)),
            (_, Some(n)) => Ok(Self::Cuda(n)),
            _ => Err(format!("`{text}` is no device; allowed: cuda:0, cuda:1, ..., sim")),
        }
    }
}

/// A wait longer than this is a hang. Verification of the largest problems takes well under a second per launch.
const DEADLINE: Duration = Duration::from_secs(60);

/// Refuses a device that is not there; nothing has touched a GPU before.
pub fn require(ordinal: u32) -> Result<(), Failure> {
    let found = match driver::probe().cuda {
        Finding::Missing { reason } => return Err(none(format!("no GPU here: {reason}"))),
        Finding::Found(found) => found,
    };
    if found.devices.iter().any(|d| d.ordinal == ordinal) {
        return Ok(());
    }
    let list: Vec<String> = found.devices.iter().map(|d| format!("cuda:{}", d.ordinal)).collect();
    let (fact, allowed) = if list.is_empty() {
        ("the driver shows no device", "sim".to_owned())
    } else {
        ("no such device", list.join(", "))
    };
    Err(none("the device is not there".to_owned()).reason("--device", format!("cuda:{ordinal}"), fact, allowed))
}

/// Opens a device.
pub fn open(ordinal: u32) -> Result<CudaDevice, Failure> {
    CudaDevice::open(ordinal, DEADLINE).map_err(|error| Failure::of_outcome(&Outcome::of_device(Stage::Load, &error)))
}

fn none(message: String) -> Failure {
    Failure::no_device(message).help(
        "`warpwright run --device sim` verifies without a GPU (small shapes); `check` and `compile` need no device; \
         `warpwright doctor` says what is missing",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_exactly() {
        assert_eq!("cuda:3".parse(), Ok(DeviceName::Cuda(3)));
        assert_eq!("cuda".parse(), Ok(DeviceName::Cuda(0)));
        assert_eq!("sim".parse(), Ok(DeviceName::Sim));
        for text in ["", "gpu", "cuda:", "cuda:-1", "cuda:+1", "cuda:99999999999", "CUDA:0"] {
            assert!(text.parse::<DeviceName>().is_err(), "{text}");
        }
    }
}

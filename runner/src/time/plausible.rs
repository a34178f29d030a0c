//! Too good to be true: times that no honest kernel can have.

use oracle::Problem;
use oracle::flops::{BadRate, roofline, work};
use serde::{Deserialize, Serialize};

use crate::device::DeviceFacts;

/// Why a time is rejected.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
pub enum Implausible {
    #[error("measured {time_us} us; allowed: finite times above 0")]
    NotATime { time_us: String },
    #[error("measured {time_us:.2} us, but arithmetic alone takes {least_us:.2} us at the maximum clock")]
    FasterThanArithmetic { time_us: f64, least_us: f64 },
    #[error("measured {time_us:.2} us, but moving what the cache cannot hold takes {least_us:.2} us")]
    FasterThanMemory { time_us: f64, least_us: f64 },
}

/// Compares a time with the roofline of the shape on the device, where its peak is known.
///
/// # Errors
/// A time below the bound.
pub fn check_time(problem: &Problem, device: &DeviceFacts, time_us: f64) -> Result<(), Implausible> {
    if !(time_us.is_finite() && time_us > 0.0) {
        return Err(Implausible::NotATime {
            time_us: time_us.to_string(),
        });
    }
    let Some(peak) = device.peak else { return Ok(()) };
    let bound: Result<_, BadRate> = roofline(problem, peak);
    let Ok(bound) = bound else { return Ok(()) };
    // Exponentials and row reductions are not tensor-core work: the arithmetic rate bounds matrix products only.
    let is_matrix = !matches!(problem, Problem::Softmax(_));
    if is_matrix && time_us < bound.arithmetic_us {
        return Err(Implausible::FasterThanArithmetic {
            time_us,
            least_us: bound.arithmetic_us,
        });
    }
    let uncached_bytes = work(problem).bytes.saturating_sub(device.l2_bytes.into());
    let least_us = uncached_bytes as f64 / peak.bytes_per_s * 1e6;
    if time_us < least_us {
        return Err(Implausible::FasterThanMemory { time_us, least_us });
    }
    Ok(())
}

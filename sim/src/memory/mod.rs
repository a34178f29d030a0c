//! Simulated memory: global allocations with bounds, and the windows of generic addressing.

pub(crate) mod bits;
pub(crate) mod global;

use crate::decode::op::Space;

/// Start of the shared window in generic addresses.
pub(crate) const SHARED_WINDOW: u64 = 0x7f00_0000_0000;
/// Start of the parameter window in generic addresses.
pub(crate) const PARAM_WINDOW: u64 = 0x7e00_0000_0000;
/// Size of a window.
const WINDOW_BYTES: u64 = 1 << 32;
/// Bits of a cluster shared address below the CTA rank.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Base that `cvta` adds for a state space.
pub(crate) fn window_base(space: Space) -> u64 {
    match space {
        Space::SharedCta | Space::SharedCluster => SHARED_WINDOW,
        Space::Param => PARAM_WINDOW,
        Space::Global | Space::Generic => 0,
    }
}

/// The state space of a generic address, and the address within it.
pub(crate) fn classify(address: u64) -> (Space, u64) {
    if (SHARED_WINDOW..SHARED_WINDOW + WINDOW_BYTES).contains(&address) {
        return (Space::SharedCluster, address - SHARED_WINDOW);
    }
    if (PARAM_WINDOW..PARAM_WINDOW + WINDOW_BYTES).contains(&address) {
        return (Space::Param, address - PARAM_WINDOW);
    }
    (Space::Global, address)
}

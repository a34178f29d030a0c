//! Who may use a bound kernel's scratch: launches of one queue, which run one after another.

use super::{DeviceError, FaultClass};

/// Checks that a launch on queue `asked` of a kernel bound on queue `owner` shares no scratch.
///
/// # Errors
/// [`FaultClass::Refused`]: two queues may run at once, and each would draw tiles from the other's counter.
pub(super) fn check(has_scratch: bool, owner: u64, asked: u64) -> Result<(), DeviceError> {
    if !has_scratch || owner == asked {
        return Ok(());
    }
    let message = format!(
        "asked to launch on stream {asked:#x} a kernel whose scratch belongs to stream {owner:#x}; launches of two streams \
         may overlap and would share its counter; allowed: that stream, or a kernel bound on a device of that stream"
    );
    Err(DeviceError::new(FaultClass::Refused, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scratch_has_one_owner() {
        assert!(check(true, 7, 7).is_ok());
        assert!(check(false, 7, 8).is_ok());
        let refused = check(true, 7, 8).unwrap_err();
        assert_eq!(refused.class, FaultClass::Refused);
        assert!(!refused.ends_process());
        for part in ["stream 0x8", "stream 0x7", "allowed"] {
            assert!(refused.message.contains(part), "{refused}");
        }
    }
}

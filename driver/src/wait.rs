//! Waiting with a deadline.
//!
//! Nothing in this crate blocks inside the driver on unfinished kernels: it asks, and sleeps in between.
//! When the deadline passes the answer is [`DriverError::Hang`]. A kernel cannot be stopped from within
//! its process, so the parent must then kill the process; the operating system tears the context down.

use crate::context::{Context, micros};
use crate::error::DriverError;
use std::time::{Duration, Instant};

/// Asks without pause at first, so that short kernels are not made to look long.
const SPIN: Duration = Duration::from_micros(200);
const NAP: Duration = Duration::from_micros(50);

/// Asks `done` until it says true. `Ok(false)` when the deadline passed; always asks at least once.
fn poll<E>(deadline: Duration, mut done: impl FnMut() -> Result<bool, E>) -> Result<bool, E> {
    let start = Instant::now();
    loop {
        if done()? {
            return Ok(true);
        }
        let waited = start.elapsed();
        if waited >= deadline {
            return Ok(false);
        }
        if waited < SPIN {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(NAP.min(deadline - waited));
        }
    }
}

/// Waits for `done`, with a hang as an error that is remembered in the context.
pub(crate) fn wait(
    context: &Context,
    what: &'static str,
    deadline: Duration,
    done: impl FnMut() -> Result<bool, DriverError>,
) -> Result<(), DriverError> {
    if poll(deadline, done)? {
        return Ok(());
    }
    context.mark_hung();
    Err(DriverError::Hang {
        what,
        deadline_us: micros(deadline),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_until_done() {
        let mut asked = 0;
        let done = poll::<()>(Duration::from_secs(5), || {
            asked += 1;
            Ok(asked == 3)
        });
        assert_eq!((done, asked), (Ok(true), 3));
    }

    #[test]
    fn gives_up_after_the_deadline_and_not_before() {
        let start = Instant::now();
        assert_eq!(poll::<()>(Duration::from_millis(20), || Ok(false)), Ok(false));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn a_zero_deadline_still_asks_once() {
        assert_eq!(poll::<()>(Duration::ZERO, || Ok(true)), Ok(true));
        assert_eq!(poll::<()>(Duration::ZERO, || Ok(false)), Ok(false));
    }

    #[test]
    fn an_error_ends_the_wait() {
        assert_eq!(poll(Duration::from_secs(5), || Err("fault")), Err("fault"));
    }
}

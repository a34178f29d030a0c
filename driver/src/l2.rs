//! Emptying the level-2 cache between timed launches.

use crate::context::Context;
use crate::error::DriverError;
use crate::memory::DeviceBuffer;
use crate::stream::Stream;

/// A buffer more than twice the level-2 cache; filling it pushes everything else out.
#[derive(Debug)]
pub struct L2Flush {
    buffer: DeviceBuffer,
}

const MARGIN_BYTES: u64 = 1 << 20;

fn flush_bytes(l2_bytes: u64) -> u64 {
    // A multiple of 4, for 32-bit fills.
    (2 * l2_bytes + MARGIN_BYTES).next_multiple_of(4)
}

impl L2Flush {
    /// Allocates the buffer.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`], or a failed call.
    pub fn new(context: &Context) -> Result<Self, DriverError> {
        let bytes = flush_bytes(context.device().l2_bytes);
        let buffer = DeviceBuffer::alloc_with_zones(context, bytes, 0)?;
        Ok(Self { buffer })
    }

    /// Bytes written by a flush.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.buffer.len_bytes()
    }

    /// Queues a flush.
    ///
    /// # Errors
    /// A failed `cuMemsetD32Async`, or a stream of another context.
    pub fn flush(&self, stream: &Stream) -> Result<(), DriverError> {
        self.buffer.fill_u32(stream, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flush_is_larger_than_twice_the_cache() {
        for l2 in [0, 1, 40 << 20, 50 << 20, 60_000_001] {
            assert!(flush_bytes(l2) > 2 * l2);
            assert_eq!(flush_bytes(l2) % 4, 0);
        }
    }
}

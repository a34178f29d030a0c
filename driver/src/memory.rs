//! Device memory with red zones.
//!
//! Plain `cuMemAlloc`, never managed memory: a stray access must fault instead of moving pages. Host copies
//! here are synchronous and wait for the given stream first, with the context's deadline, so that a hung
//! kernel ends in [`DriverError::Hang`] and not in a blocked call. Copies that overlap with kernels are in
//! `pinned.rs`.

use crate::code;
use crate::context::Context;
use crate::error::DriverError;
use crate::red_zone::{self, DEFAULT_ZONE_BYTES, Layout, Side, USER_ALIGN_BYTES};
use crate::stream::{self, Stream};

/// Why a buffer operation was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BufferRefusal {
    /// The size has no address range.
    #[error("a buffer of {len_bytes} bytes with red zones of {zone_bytes} bytes does not fit any address space")]
    Size {
        /// The size asked for.
        len_bytes: u64,
        /// The zones asked for.
        zone_bytes: u64,
    },
    /// A range outside the buffer.
    #[error("asked for bytes {start} to {end} of a buffer of {len_bytes} bytes")]
    Range {
        /// First byte.
        start: u64,
        /// One past the last.
        end: u64,
        /// The buffer's size.
        len_bytes: u64,
    },
    /// Sizes that must be equal are not.
    #[error("the source has {source_bytes} bytes and the destination {destination_bytes}; they must be equal")]
    Unequal {
        /// The source's size.
        source_bytes: u64,
        /// The destination's size.
        destination_bytes: u64,
    },
    /// A fill unit that does not divide the buffer.
    #[error("a fill of {unit_bytes}-byte values needs a multiple of {unit_bytes} bytes; the buffer has {len_bytes}")]
    Unit {
        /// The value's size.
        unit_bytes: u64,
        /// The buffer's size.
        len_bytes: u64,
    },
}

/// A recognisable quiet NaN, for outputs that a kernel must overwrite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poison {
    /// `0x7fc1` in every element.
    Bf16Nan,
    /// `0x7e01` in every element.
    F16Nan,
    /// `0x7fc0_0001` in every element.
    F32Nan,
}

/// A buffer in device memory, aligned to 1024 bytes. Size 0 is legal and has an address.
///
/// The owner keeps it until the work that uses it has finished; dropping it earlier waits inside the driver.
pub struct DeviceBuffer {
    context: Context,
    base: u64,
    user: u64,
    layout: Layout,
}

impl std::fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeviceBuffer")
            .field("address", &format_args!("{:#x}", self.user))
            .field("layout", &self.layout)
            .finish()
    }
}

impl DeviceBuffer {
    /// Allocates with red zones of the default size. The contents are undefined.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`], or a refused size.
    pub fn alloc(context: &Context, len_bytes: u64) -> Result<Self, DriverError> {
        Self::alloc_with_zones(context, len_bytes, DEFAULT_ZONE_BYTES)
    }

    /// Allocates with red zones of `zone_bytes` each, or none with 0. The contents are undefined.
    ///
    /// # Errors
    /// [`DriverError::OutOfMemory`], or a refused size.
    pub fn alloc_with_zones(context: &Context, len_bytes: u64, zone_bytes: u64) -> Result<Self, DriverError> {
        let layout = Layout::plan(len_bytes, zone_bytes).map_err(|_| BufferRefusal::Size { len_bytes, zone_bytes })?;
        context.bind()?;
        let base = allocate(context, layout.alloc_bytes)?;
        let user = base + layout.user_offset(base);
        debug_assert!(user.is_multiple_of(USER_ALIGN_BYTES));
        let buffer = Self {
            context: context.clone(),
            base,
            user,
            layout,
        };
        buffer.paint_zones()?;
        Ok(buffer)
    }

    /// The device address of byte 0: a multiple of 1024.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.user
    }

    /// The device address of byte `offset_bytes`, which may be one past the last.
    ///
    /// # Errors
    /// [`BufferRefusal::Range`] further out.
    pub fn address_at(&self, offset_bytes: u64) -> Result<u64, DriverError> {
        self.range(offset_bytes, 0)
    }

    /// The size asked for.
    #[must_use]
    pub fn len_bytes(&self) -> u64 {
        self.layout.len_bytes
    }

    /// Whether the size is 0.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.layout.len_bytes == 0
    }

    /// The context it was allocated in.
    #[must_use]
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Waits for `stream`, then looks for changes in both red zones.
    ///
    /// # Errors
    /// [`DriverError::RedZone`] with the nearest changed byte; a hang or fault of earlier work.
    pub fn check_red_zones(&self, stream: &Stream) -> Result<(), DriverError> {
        self.wait_for(stream)?;
        let sides = [Side::Before, Side::After];
        for (side, (offset, bytes)) in sides.into_iter().zip(self.layout.zones(self.base)) {
            let mut zone = vec![0_u8; host_len(bytes)];
            self.download(self.base + offset, &mut zone)?;
            red_zone::inspect(side, &zone, self.layout.len_bytes)?;
        }
        Ok(())
    }

    /// Queues a fill with a byte.
    ///
    /// # Errors
    /// A failed `cuMemsetD8Async`, or a stream of another context.
    pub fn fill_u8(&self, stream: &Stream, value: u8) -> Result<(), DriverError> {
        let count = self.units(stream, 1)?;
        let api = self.context.api();
        // SAFETY: `count` bytes from the buffer's address are its own.
        let fill = || unsafe { (api.cuMemsetD8Async)(self.user, value, count, stream.handle()) };
        self.fill(count, "cuMemsetD8Async", fill)
    }

    /// Queues a fill with a 16-bit value.
    ///
    /// # Errors
    /// As [`DeviceBuffer::fill_u8`], and a size that is not a multiple of 2.
    pub fn fill_u16(&self, stream: &Stream, value: u16) -> Result<(), DriverError> {
        let count = self.units(stream, 2)?;
        let api = self.context.api();
        // SAFETY: `count` values from the buffer's aligned address are its own.
        let fill = || unsafe { (api.cuMemsetD16Async)(self.user, value, count, stream.handle()) };
        self.fill(count, "cuMemsetD16Async", fill)
    }

    /// Queues a fill with a 32-bit value.
    ///
    /// # Errors
    /// As [`DeviceBuffer::fill_u8`], and a size that is not a multiple of 4.
    pub fn fill_u32(&self, stream: &Stream, value: u32) -> Result<(), DriverError> {
        let count = self.units(stream, 4)?;
        let api = self.context.api();
        // SAFETY: `count` values from the buffer's aligned address are its own.
        let fill = || unsafe { (api.cuMemsetD32Async)(self.user, value, count, stream.handle()) };
        self.fill(count, "cuMemsetD32Async", fill)
    }

    /// Queues a fill with NaNs.
    ///
    /// # Errors
    /// As the fill of that width.
    pub fn poison(&self, stream: &Stream, poison: Poison) -> Result<(), DriverError> {
        match poison {
            Poison::Bf16Nan => self.fill_u16(stream, 0x7fc1),
            Poison::F16Nan => self.fill_u16(stream, 0x7e01),
            Poison::F32Nan => self.fill_u32(stream, 0x7fc0_0001),
        }
    }

    /// Waits for `stream`, then overwrites the bytes from `offset_bytes` on.
    ///
    /// # Errors
    /// A range outside the buffer; a hang or fault of earlier work.
    pub fn write(&self, stream: &Stream, offset_bytes: u64, bytes: &[u8]) -> Result<(), DriverError> {
        let address = self.range(offset_bytes, bytes.len() as u64)?;
        self.wait_for(stream)?;
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the destination range is inside the buffer, the source is a live slice.
        let result = unsafe { (self.context.api().cuMemcpyHtoD_v2)(address, bytes.as_ptr().cast(), bytes.len()) };
        self.context.check("cuMemcpyHtoD", result)?;
        // From pageable memory the call returns once the bytes are staged; later work on a non-blocking
        // stream would not wait for the rest.
        stream::wait_legacy(&self.context)
    }

    /// Waits for `stream`, then reads the bytes from `offset_bytes` on.
    ///
    /// # Errors
    /// A range outside the buffer; a hang or fault of earlier work.
    pub fn read(&self, stream: &Stream, offset_bytes: u64, bytes: &mut [u8]) -> Result<(), DriverError> {
        let address = self.range(offset_bytes, bytes.len() as u64)?;
        self.wait_for(stream)?;
        self.download(address, bytes)
    }

    /// Waits for `stream`, then overwrites the whole buffer.
    ///
    /// # Errors
    /// [`BufferRefusal::Unequal`] when the sizes differ; a hang or fault of earlier work.
    pub fn copy_from_host(&self, stream: &Stream, bytes: &[u8]) -> Result<(), DriverError> {
        require_equal(bytes.len() as u64, self.layout.len_bytes)?;
        self.write(stream, 0, bytes)
    }

    /// Waits for `stream`, then reads the whole buffer.
    ///
    /// # Errors
    /// A hang or fault of earlier work.
    pub fn to_host(&self, stream: &Stream) -> Result<Vec<u8>, DriverError> {
        let mut bytes = vec![0_u8; host_len(self.layout.len_bytes)];
        self.read(stream, 0, &mut bytes)?;
        Ok(bytes)
    }

    /// Queues a copy of the whole of `source`, which must be as long.
    ///
    /// # Errors
    /// [`BufferRefusal::Unequal`], another context, or a failed `cuMemcpyDtoDAsync`.
    pub fn copy_from_device(&self, stream: &Stream, source: &Self) -> Result<(), DriverError> {
        require_equal(source.layout.len_bytes, self.layout.len_bytes)?;
        stream.require_same(&source.context, "the source buffer")?;
        let count = self.units(stream, 1)?;
        let api = self.context.api();
        // SAFETY: both ranges of `count` bytes are inside their buffers.
        let copy = || unsafe { (api.cuMemcpyDtoDAsync_v2)(self.user, source.user, count, stream.handle()) };
        self.fill(count, "cuMemcpyDtoDAsync", copy)
    }

    /// The address of `offset_bytes` after checking that `len_bytes` from there are inside.
    pub(crate) fn range(&self, offset_bytes: u64, len_bytes: u64) -> Result<u64, DriverError> {
        let end = offset_bytes.saturating_add(len_bytes);
        if end > self.layout.len_bytes {
            return Err(BufferRefusal::Range {
                start: offset_bytes,
                end,
                len_bytes: self.layout.len_bytes,
            }
            .into());
        }
        Ok(self.user + offset_bytes)
    }

    /// How many units of `unit_bytes` the buffer has, for work on `stream`.
    fn units(&self, stream: &Stream, unit_bytes: u64) -> Result<usize, DriverError> {
        stream.require_same(&self.context, "the buffer")?;
        let len_bytes = self.layout.len_bytes;
        if !len_bytes.is_multiple_of(unit_bytes) {
            return Err(BufferRefusal::Unit { unit_bytes, len_bytes }.into());
        }
        Ok(host_len(len_bytes / unit_bytes))
    }

    /// Makes the call unless there is nothing to do; the driver refuses some calls of size 0.
    fn fill(&self, count: usize, call: &'static str, make: impl FnOnce() -> u32) -> Result<(), DriverError> {
        if count == 0 {
            return Ok(());
        }
        self.context.bind()?;
        self.context.check(call, make())
    }

    fn paint_zones(&self) -> Result<(), DriverError> {
        for (offset, bytes) in self.layout.zones(self.base) {
            if bytes > 0 {
                // SAFETY: the zone is inside the allocation; the null stream is the legacy stream.
                let result = unsafe {
                    (self.context.api().cuMemsetD8Async)(
                        self.base + offset,
                        red_zone::PATTERN,
                        host_len(bytes),
                        std::ptr::null_mut(),
                    )
                };
                self.context.check("cuMemsetD8Async", result)?;
            }
        }
        stream::wait_legacy(&self.context)
    }

    fn wait_for(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.require_same(&self.context, "the buffer")?;
        stream.synchronize()
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<(), DriverError> {
        if bytes.is_empty() {
            return Ok(());
        }
        self.context.bind()?;
        // SAFETY: the callers keep the source range inside the allocation; the destination is a live
        // slice, and the call returns after the copy.
        let result = unsafe { (self.context.api().cuMemcpyDtoH_v2)(bytes.as_mut_ptr().cast(), address, bytes.len()) };
        self.context.check("cuMemcpyDtoH", result)
    }
}

impl Drop for DeviceBuffer {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: allocated once, freed once.
            unsafe { (self.context.api().cuMemFree_v2)(self.base) };
        }
    }
}

fn allocate(context: &Context, bytes: u64) -> Result<u64, DriverError> {
    let mut address = 0_u64;
    // SAFETY: a valid out pointer; the size is not 0.
    let result = unsafe { (context.api().cuMemAlloc_v2)(&raw mut address, host_len(bytes)) };
    if result == code::OUT_OF_MEMORY {
        let info = context.memory_info()?;
        return Err(DriverError::OutOfMemory {
            asked_bytes: bytes,
            free_bytes: info.free_bytes,
            total_bytes: info.total_bytes,
        });
    }
    context.check("cuMemAlloc", result).map(|()| address)
}

pub(crate) fn require_equal(source_bytes: u64, destination_bytes: u64) -> Result<(), BufferRefusal> {
    if source_bytes == destination_bytes {
        return Ok(());
    }
    Err(BufferRefusal::Unequal {
        source_bytes,
        destination_bytes,
    })
}

/// Sizes were limited to `i64::MAX` when planned, which a 64-bit `usize` holds.
fn host_len(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

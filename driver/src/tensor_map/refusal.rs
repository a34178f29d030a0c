//! The rules of tensor maps, as refusals.

/// The documented rule that a [`super::TensorMapSpec`] breaks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TensorMapRefusal {
    /// Number of dimensions.
    #[error("the tensor has {rank} dimensions; a tensor map has 1 to 5")]
    Rank {
        /// Dimensions given.
        rank: usize,
    },
    /// Lists of different length.
    #[error("{what} has {given} entries; for {rank} dimensions it must have {wanted}")]
    Length {
        /// Strides or box.
        what: &'static str,
        /// Entries given.
        given: usize,
        /// Dimensions.
        rank: usize,
        /// Entries wanted.
        wanted: usize,
    },
    /// Base address.
    #[error("the base address {base:#x} is not a multiple of 16")]
    Base {
        /// The address.
        base: u64,
    },
    /// A dimension's size.
    #[error("dimension {axis} has {given} elements; allowed: 1 to 2^32")]
    Dim {
        /// Which dimension, innermost 0.
        axis: usize,
        /// Its size.
        given: u64,
    },
    /// A stride's alignment.
    #[error("the stride of dimension {axis} is {given_bytes} bytes; it must be a multiple of 16")]
    StrideAlign {
        /// Which dimension, innermost 0.
        axis: usize,
        /// The stride.
        given_bytes: u64,
    },
    /// A stride's size.
    #[error("the stride of dimension {axis} is {given_bytes} bytes; it must be below 2^40")]
    StrideSize {
        /// Which dimension, innermost 0.
        axis: usize,
        /// The stride.
        given_bytes: u64,
    },
    /// A box size.
    #[error("the box has {given} elements in dimension {axis}; allowed: 1 to 256")]
    Box {
        /// Which dimension, innermost 0.
        axis: usize,
        /// Its size.
        given: u32,
    },
    /// The box's innermost bytes are no multiple of 16.
    #[error("the box is {given_bytes} bytes wide in dimension 0; it must be a multiple of 16")]
    BoxAlign {
        /// Its width.
        given_bytes: u32,
    },
    /// The box is wider than the swizzle.
    #[error(
        "the box is {given_bytes} bytes wide in dimension 0; a {most_bytes}-byte swizzle allows {most_bytes}: \
         use several boxes side by side"
    )]
    SwizzleSpan {
        /// Its width.
        given_bytes: u32,
        /// The swizzle's span.
        most_bytes: u32,
    },
    /// The tensor's last byte has no address.
    #[error("the tensor from {base:#x} on ends past the 64-bit address space")]
    AddressSpace {
        /// The base address.
        base: u64,
    },
    /// The device cannot use tensor maps.
    #[error("device {device} (compute capability {major}.{minor}) has no tensor maps; 9.0 and newer do")]
    Device {
        /// Its name.
        device: String,
        /// Compute capability, major.
        major: u32,
        /// Compute capability, minor.
        minor: u32,
    },
}

//! Why arguments do not fit a kernel, found before a device sees them.

use codegen::launch::LARGEST;
use driver::TensorMapRefusal;

use crate::expr::ExprError;

/// A refusal: what was asked, what is true, what would be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BindError {
    #[error("the launch facts have version {found}; this program reads version {known}; recompile the kernel")]
    Version { found: u32, known: u32 },
    #[error("the kernel has no argument for `{name}`; given: {given}; allowed: every name it asks for")]
    Missing { name: String, given: String },
    #[error(
        "size `{name}` is {given}; kernels compute with signed 32-bit sizes, rounded up to tiles; allowed: 1 to {LARGEST}"
    )]
    Size { name: String, given: i64 },
    #[error(
        "scalar `{name}` is {given}; the kernel was rewritten for positive values; allowed: finite numbers above 0"
    )]
    NotPositive { name: String, given: String },
    #[error("tensor `{tensor}` is {given}; the kernel was compiled for {wanted}; allowed: {wanted}")]
    Dtype {
        tensor: String,
        given: String,
        wanted: String,
    },
    #[error("tensor `{tensor}` has extents {given:?}; these sizes make it {wanted:?}; allowed: exactly those")]
    Dims {
        tensor: String,
        given: Vec<u64>,
        wanted: Vec<i64>,
    },
    #[error("tensor `{tensor}` has {given} strides for {wanted} dimensions; allowed: one each")]
    StrideCount {
        tensor: String,
        given: usize,
        wanted: usize,
    },
    #[error(
        "tensor `{tensor}` has rows of {elems} elements; the kernel writes whole pieces of {multiple_elems}; allowed: a \
         multiple of {multiple_elems}"
    )]
    Row {
        tensor: String,
        elems: u64,
        multiple_elems: u32,
    },
    #[error("tensor `{tensor}` has address 0; allowed: device memory")]
    Null { tensor: String },
    #[error("tensor `{tensor}` lies at {address:#x}; allowed: multiples of {align_bytes} bytes")]
    Address {
        tensor: String,
        address: u64,
        align_bytes: u64,
    },
    #[error("the last stride of tensor `{tensor}` is {given}; kernels read rows as they lie; allowed: 1")]
    LastStride { tensor: String, given: u64 },
    #[error(
        "stride {dim} of tensor `{tensor}` is {given_elems} elements = {given_bytes} bytes; allowed: multiples of \
         {align_bytes} bytes, for example {}", given_elems.next_multiple_of(*align_elems)
    )]
    StrideAlign {
        tensor: String,
        dim: usize,
        given_elems: u64,
        given_bytes: u64,
        align_bytes: u64,
        align_elems: u64,
    },
    #[error(
        "tensor `{tensor}` is written, but stride {dim} of {stride} elements makes rows overlap; allowed: at least {least}"
    )]
    Overlap {
        tensor: String,
        dim: usize,
        stride: u64,
        least: u64,
    },
    #[error("tensor `{tensor}` reaches past the end of 64-bit addresses; allowed: smaller extents or strides")]
    TooLarge { tensor: String },
    #[error("the map of tensor `{tensor}`: {refusal}")]
    Map { tensor: String, refusal: TensorMapRefusal },
    #[error("the kernel asks for the {what} {given} of `{name}`, which this program does not know; allowed: {allowed}")]
    Unknown {
        what: &'static str,
        name: String,
        given: String,
        allowed: &'static str,
    },
    #[error("a size expression of `{name}`: {error}")]
    Expr { name: String, error: ExprError },
    #[error("these sizes make a grid of {blocks} blocks; allowed: 1 to {LARGEST}")]
    Grid { blocks: String },
}

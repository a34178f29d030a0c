//! Why a kernel cannot be interpreted with the given bindings and inputs.

use crate::dtype::DType;
use crate::ir::Site;
use crate::validate::ValidationErrors;

/// A refusal of the interpreter.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InterpError {
    #[error(transparent)]
    Invalid(#[from] ValidationErrors),
    #[error("the {what} `{name}` is not bound; the kernel needs: {needed}")]
    Unbound {
        what: &'static str,
        name: String,
        needed: String,
    },
    #[error("the kernel has no {what} `{name}`; it has: {}", if known.is_empty() { "none" } else { known })]
    Unknown {
        what: &'static str,
        name: String,
        known: String,
    },
    #[error("the {what} `{name}` is {value}; allowed: {allowed}")]
    OutOfRange {
        what: &'static str,
        name: String,
        value: String,
        allowed: &'static str,
    },
    #[error("tensor `{name}` is {found} [{found_dims}]; the bindings make it {wanted} [{wanted_dims}]")]
    TensorType {
        name: String,
        found: DType,
        found_dims: String,
        wanted: DType,
        wanted_dims: String,
    },
    #[error("fold `{fold}` has {trips} trips here; it needs at least one: clamp the count ({site})")]
    NoTrips { fold: String, trips: i64, site: Site },
    #[error("`{ix}` in `{value}` overflows or divides by a number that is not positive ({site})")]
    Arithmetic { ix: String, value: String, site: Site },
    #[error("the count of grid axis `{axis}` is `{ix}`, which {problem}")]
    GridCount { axis: String, ix: String, problem: String },
    #[error("`{what}` has {elems} elements; the interpreter allows {limit}")]
    TooLarge { what: String, elems: String, limit: usize },
    #[error("element {index} of `{tensor}` is written twice; every element has one writer ({site})")]
    WrittenTwice { tensor: String, index: String, site: Site },
    #[error("`{value}` uses `{operand}`, which has no value there; the kernel is broken ({site})")]
    NoValue { value: String, operand: String, site: Site },
}

/// Why numbers do not make a tensor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    #[error("{dims} dimensions with {strides} strides; give one stride for each dimension")]
    Rank { dims: usize, strides: usize },
    #[error("the last element lies at {last}; the storage has {len} elements")]
    OutOfStorage { last: String, len: usize },
    #[error("dense dimensions of {elems} elements need storage of as many; it has {len}")]
    Length { elems: String, len: usize },
}

//! What can be wrong with a kernel. Each message says what was written, what is true, and what would be allowed.

use std::fmt;

use crate::ir::{Kernel, Site, ValueId};
use crate::print::Names;

/// One mistake, with the Rust call that made the value (declarations such as tensors have none).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidationError {
    pub site: Option<Site>,
    pub kind: Invalid,
}

impl fmt::Display for ValidationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.site {
            Some(site) => write!(f, "{site}: {}", self.kind),
            None => write!(f, "{}", self.kind),
        }
    }
}

/// Every mistake of one kernel, in program order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ValidationErrors {
    pub kernel: String,
    pub errors: Vec<ValidationError>,
}

impl fmt::Display for ValidationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "kernel `{}` is not valid ({} error(s))",
            self.kernel,
            self.errors.len()
        )?;
        self.errors.iter().try_for_each(|e| write!(f, "\n  {e}"))
    }
}

/// The kinds of mistake. Values, types and expressions are given as the printer writes them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    // Structure and scopes.
    #[error("{what} {id} does not exist; the kernel has {count}")]
    UnknownId { what: &'static str, id: u32, count: usize },
    #[error("`{value}` stands in two places of the program; a value is computed once")]
    ListedTwice { value: String },
    #[error(
        "fold `{fold}` lies inside fold `{outer}`; nested folds are not supported: compute one per kernel, or unroll"
    )]
    NestedFold { fold: String, outer: String },
    #[error("`{value}` is used by `{user}` before it is computed")]
    NotYetComputed { value: String, user: String },
    #[error(
        "`{value}` is computed in fold `{fold}` and used by `{user}` outside it; take a total of a sum or carry instead"
    )]
    OutsideFold { value: String, fold: String, user: String },
    #[error("`{user}` uses `{value}`, which is a {what} and not a tile")]
    NotATile {
        value: String,
        user: String,
        what: &'static str,
    },
    #[error("carry `{carry}` of fold `{fold}` stands for `{value}`, which is not its carry argument")]
    CarryArgument { fold: String, carry: String, value: String },
    #[error("`{value}` is a carry argument listed in a block; it belongs to its carry alone")]
    StrayArgument { value: String },
    #[error("`{value}` is a total of `{of}`, which is not a fold computed before it")]
    TotalOfNoFold { value: String, of: String },
    #[error("`{value}` is total number {carry} of fold `{fold}`, which carries {count} value(s)")]
    TotalOfNoCarry {
        value: String,
        fold: String,
        carry: u32,
        count: usize,
    },

    // Names.
    #[error("the {what} name `{name}` is not allowed; allowed: one or more of a-z, 0-9 and _")]
    BadName { what: &'static str, name: String },
    #[error("two {what} names are `{name}`; names are unique")]
    DuplicateName { what: &'static str, name: String },

    // Types.
    #[error("`{value}` is declared {declared}; its operands make it {derived}")]
    TypeMismatch {
        value: String,
        declared: String,
        derived: String,
    },
    #[error("{op} of {types}; allowed: equal shapes, or a row, column or scalar broadcast over a matrix")]
    Broadcast { op: &'static str, types: String },
    #[error("{op} of {ty}; arithmetic is f32: cast it first")]
    NotF32 { op: &'static str, ty: String },
    #[error("{op} of {ty}; allowed: a matrix [rows, cols]")]
    NotMatrix { op: &'static str, ty: String },
    #[error("dot of {a} and {b} contracts {inner_a} against {inner_b}; the inner extents must be equal")]
    DotInner {
        a: String,
        b: String,
        inner_a: String,
        inner_b: String,
    },
    #[error("dot of {a} and {b}; allowed: bf16 with bf16, f16 with f16")]
    DotTypes { a: String, b: String },
    #[error("select between {then} and {otherwise}; the branches must have one element type")]
    SelectTypes { then: String, otherwise: String },
    #[error("`{value}` has an extent of zero; an extent is at least one")]
    EmptyExtent { value: String },

    // Folds.
    #[error("carry `{carry}` of fold `{fold}` is {declared}; its next value `{next}` is {found}")]
    CarryType {
        fold: String,
        carry: String,
        declared: String,
        next: String,
        found: String,
    },
    #[error(
        "fold `{fold}` has {references} running reference(s) and {rebases} rebase(s); allowed: none, or one of each"
    )]
    References {
        fold: String,
        references: usize,
        rebases: usize,
    },
    #[error("the running reference of fold `{fold}` is {ty} from {init}; it must be {wanted} from -inf")]
    ReferenceType {
        fold: String,
        ty: String,
        init: String,
        wanted: String,
    },
    #[error(
        "sum `{carry}` of fold `{fold}` is {ty} and follows the reference {reference}; it must have one number or one row of numbers per reference row"
    )]
    RescaledSum {
        fold: String,
        carry: String,
        ty: String,
        reference: String,
    },
    #[error(
        "{what} shows where the running reference of fold `{fold}` stands (it {answer}), which the schedule decides; allowed: {allowed}"
    )]
    ReferenceShows {
        what: String,
        fold: String,
        answer: String,
        allowed: &'static str,
    },
    #[error("`{value}` rebases outside a fold; rebase belongs in a rescaled fold")]
    RebaseOutsideFold { value: String },

    // Index expressions.
    #[error("{place} is `{ix}`, which depends on `{symbol}`; allowed there: {allowed}")]
    IndexSymbol {
        place: String,
        ix: String,
        symbol: String,
        allowed: &'static str,
    },
    #[error(
        "mask of `{value}` has the term `{term}`, which is not affine in `{iter}`; allowed: a constant times it, plus the rest"
    )]
    MaskNotAffine { value: String, term: String, iter: String },
    #[error("mask of `{value}` has no terms; a mask is one or more comparisons")]
    MaskEmpty { value: String },

    // Tensors.
    #[error("{op} of `{tensor}` gives {found} indices; the tensor has {rank} dimension(s)")]
    Rank {
        op: &'static str,
        tensor: String,
        found: usize,
        rank: usize,
    },
    #[error(
        "{op} of `{tensor}` spans {spans} for a tile {ty}; allowed: two spans in the order [rows, cols], or one for a vector"
    )]
    Spans {
        op: &'static str,
        tensor: String,
        spans: String,
        ty: String,
    },
    #[error(
        "{op} of `{tensor}` takes one index of the last, contiguous dimension; the columns of a matrix must be a span of it"
    )]
    LastDimension { op: &'static str, tensor: String },
    #[error("store to `{tensor}` writes {src}; the tensor holds {dtype}: cast it")]
    StoreType { tensor: String, src: String, dtype: String },
    #[error("{op} of `{tensor}`, which is an {is}; inputs are only read, outputs only written")]
    Access {
        op: &'static str,
        tensor: String,
        is: &'static str,
    },
    #[error("the {what} `{name}` is never {verb}; remove it, or use it")]
    Unused {
        what: &'static str,
        name: String,
        verb: &'static str,
    },
    #[error("two stores write `{tensor}` at {place}; every element has one writer")]
    StoredTwice { tensor: String, place: String },
    #[error(
        "store to `{tensor}` at {place} does not depend on `{symbol}`, so {who} write the same elements; every element has one writer"
    )]
    SamePlace {
        tensor: String,
        place: String,
        symbol: String,
        who: &'static str,
    },
    #[error("the literal dimension {index} of `{tensor}` is 0; allowed: at least 1")]
    EmptyDimension { tensor: String, index: usize },

    // The whole kernel.
    #[error("the kernel has no grid axis; it needs at least one")]
    NoGrid,
    #[error("the kernel stores nothing; it needs at least one output")]
    NoStore,
    #[error(
        "`{value}` has {rows} rows and `{first}` has {first_rows}; all tiles that live in registers share one row extent"
    )]
    MixedRows {
        value: String,
        rows: String,
        first: String,
        first_rows: String,
    },
}

/// Collects mistakes while the passes go on.
pub(super) struct Report<'k> {
    pub kernel: &'k Kernel,
    pub names: Names<'k>,
    pub errors: Vec<ValidationError>,
}

impl<'k> Report<'k> {
    pub fn new(kernel: &'k Kernel) -> Self {
        Self {
            kernel,
            names: Names::new(kernel),
            errors: vec![],
        }
    }

    /// A mistake at a value.
    pub fn at(&mut self, id: ValueId, kind: Invalid) {
        let site = self.kernel.values.get(id.0 as usize).map(|v| v.site.clone());
        self.errors.push(ValidationError { site, kind });
    }

    /// A mistake of a declaration or of the kernel as a whole.
    pub fn general(&mut self, kind: Invalid) {
        self.errors.push(ValidationError { site: None, kind });
    }

    /// The name of a value, owned, for a message.
    pub fn label(&self, id: ValueId) -> String {
        self.names.value(id)
    }

    /// The type of a value, for a message.
    pub fn ty(&self, id: ValueId) -> String {
        self.names.ty(self.kernel.value(id).ty)
    }
}

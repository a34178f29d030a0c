//! Why a problem cannot be made into a case.

use oracle::problem::ProblemFault;
use oracle::signature::Mismatch;

/// A refusal: what was asked, what is true, what would be allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CaseError {
    #[error(transparent)]
    Problem(#[from] ProblemFault),
    #[error("kernel `{kernel}` cannot be traced: {errors}")]
    Trace { kernel: &'static str, errors: String },
    #[error("the traced kernel calls itself `{traced}`; the problem `{problem}` needs `{wanted}`; allowed: that name")]
    Kernel {
        traced: String,
        problem: String,
        wanted: &'static str,
    },
    #[error("no signature is known for `{problem}`; allowed: problems of oracle::signature::KNOWN")]
    NoSignature { problem: String },
    #[error(transparent)]
    Signature(#[from] Mismatch),
    #[error(
        "tensor `{tensor}` is traced as {traced}; the problem's type is {problem}; allowed: {problem}, or f32 for LSE"
    )]
    Dtype {
        tensor: String,
        traced: String,
        problem: String,
    },
    #[error("the kernel asks for the size `{asked}`, which `{problem}` does not have; allowed: {known}")]
    Size {
        asked: String,
        problem: String,
        known: String,
    },
    #[error("a tensor of extents {dims:?} with this layout has offsets beyond 2^62 elements; allowed: smaller ones")]
    TooLarge { dims: Vec<u64> },
}

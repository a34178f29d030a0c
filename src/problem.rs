//! Which kernel solves a problem, and what each kernel supports.

use oracle::Problem;
use oracle::problem::HEAD_DIMS;
use runner::case::{Case, CaseError};
use serde::Serialize;

use crate::failure::Failure;

/// A kernel family: what `list` tells about it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Family {
    pub kernel: &'static str,
    pub summary: &'static str,
    pub grammar: &'static str,
    pub example: &'static str,
    pub dtypes: &'static [&'static str],
    /// Empty where the kernel has no heads.
    pub head_dims: &'static [u32],
    /// Masks of attention, layouts of a product.
    pub variants: &'static [&'static str],
}

/// Every kernel family.
pub const FAMILIES: [Family; 3] = [
    Family {
        kernel: "attention_forward",
        summary: "attention forward with log-sum-exp; MHA, GQA, MQA; any lengths",
        grammar: "fwd DTYPE bN sQ[xKV] hQ[/KV] dD full|causal",
        example: "fwd bf16 b2 s4096x1024 h32/8 d128 causal",
        dtypes: &["bf16", "f16"],
        head_dims: &HEAD_DIMS,
        variants: &["full", "causal"],
    },
    Family {
        kernel: "gemm",
        summary: "matrix product, f32 accumulation",
        grammar: "gemm DTYPE mM nN kK nn|nt|tn|tt",
        example: "gemm bf16 m4096 n4096 k512 nt",
        dtypes: &["bf16", "f16"],
        head_dims: &[],
        variants: &["nn", "nt", "tn", "tt"],
    },
    Family {
        kernel: "row_softmax",
        summary: "softmax over the rows of a matrix",
        grammar: "softmax DTYPE mM nN",
        example: "softmax bf16 m4096 n1000",
        dtypes: &["bf16", "f16"],
        head_dims: &[],
        variants: &[],
    },
];

/// Parses a problem.
pub fn parse(text: &str) -> Result<Problem, Failure> {
    Ok(Problem::parse_built(text)?)
}

/// Makes a problem concrete: its kernel, traced and compared with the oracle's signature, and its sizes.
pub fn case(problem: &Problem) -> Result<Case, Failure> {
    let case = Case::new(problem).map_err(|error| refusal(&error))?;
    dsl::validate(case.kernel().clone()).map_err(|e| Failure::bug(e.to_string()))?;
    Ok(case)
}

fn refusal(error: &CaseError) -> Failure {
    match error {
        CaseError::Problem(_) | CaseError::TooLarge { .. } => {
            Failure::refused(format!("the problem was refused: {error}"))
        }
        // The kernels are our own here, so that a mistake in one is a bug.
        _ => Failure::bug(error.to_string()),
    }
}

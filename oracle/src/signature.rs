//! Parameter signatures of the known kernel families. A traced kernel that claims one of these names but has other
//! parameters is refused: the evaluator fills parameters by this list, not by what a candidate says.

use std::fmt;

use serde::Serialize;
use thiserror::Error;

use crate::problem::{MatLayout, Problem};

/// Element type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Elem {
    /// The problem's dtype.
    Storage,
    F32,
}

/// Whether a kernel reads or writes a tensor; none does both.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    In,
    Out,
}

/// What a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ParamKind<'a> {
    /// A tensor with its named dimensions, outermost first.
    Tensor {
        dims: &'a [&'a str],
        elem: Elem,
        access: Access,
    },
    /// A number passed by value.
    Scalar { elem: Elem },
}

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Param<'a> {
    pub name: &'a str,
    pub kind: ParamKind<'a>,
}

/// One kernel family, or one variant of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Signature {
    pub kernel: &'static str,
    /// Which of several signatures of one name: the layout of a GEMM.
    pub variant: Option<&'static str>,
    pub params: &'static [Param<'static>],
}

const fn tensor(name: &'static str, dims: &'static [&'static str], access: Access) -> Param<'static> {
    Param {
        name,
        kind: ParamKind::Tensor {
            dims,
            elem: Elem::Storage,
            access,
        },
    }
}

const Q_DIMS: &[&str] = &["batch", "q_len", "heads", "head_dim"];
const KV_DIMS: &[&str] = &["batch", "kv_len", "kv_heads", "head_dim"];
const LSE: ParamKind<'static> = ParamKind::Tensor {
    dims: &["batch", "heads", "q_len"],
    elem: Elem::F32,
    access: Access::Out,
};

/// `lse` is the natural log; `scale_log2` is the softmax scale times log2(e).
const ATTENTION_FORWARD: &[Param<'static>] = &[
    tensor("q", Q_DIMS, Access::In),
    tensor("k", KV_DIMS, Access::In),
    tensor("v", KV_DIMS, Access::In),
    tensor("o", Q_DIMS, Access::Out),
    Param { name: "lse", kind: LSE },
    Param {
        name: "scale_log2",
        kind: ParamKind::Scalar { elem: Elem::F32 },
    },
];

const A_N: Param<'static> = tensor("a", &["m", "k"], Access::In);
const A_T: Param<'static> = tensor("a", &["k", "m"], Access::In);
const B_N: Param<'static> = tensor("b", &["k", "n"], Access::In);
const B_T: Param<'static> = tensor("b", &["n", "k"], Access::In);
const C: Param<'static> = tensor("c", &["m", "n"], Access::Out);

const ROW_SOFTMAX: &[Param<'static>] = &[
    tensor("x", &["m", "n"], Access::In),
    tensor("y", &["m", "n"], Access::Out),
];

const fn gemm(layout: MatLayout, params: &'static [Param<'static>]) -> Signature {
    Signature {
        kernel: "gemm",
        variant: Some(layout.name()),
        params,
    }
}

/// Every known signature.
pub const KNOWN: &[Signature] = &[
    Signature {
        kernel: "attention_forward",
        variant: None,
        params: ATTENTION_FORWARD,
    },
    gemm(MatLayout::Nn, &[A_N, B_N, C]),
    gemm(MatLayout::Nt, &[A_N, B_T, C]),
    gemm(MatLayout::Tn, &[A_T, B_N, C]),
    gemm(MatLayout::Tt, &[A_T, B_T, C]),
    Signature {
        kernel: "row_softmax",
        variant: None,
        params: ROW_SOFTMAX,
    },
];

/// The signature that a kernel for this problem must have.
#[must_use]
pub fn of(problem: &Problem) -> Option<&'static Signature> {
    let variant = match problem {
        Problem::Gemm(p) => Some(p.layout.name()),
        Problem::Forward(_) | Problem::Softmax(_) => None,
    };
    find(problem.kernel(), variant)
}

/// Looks a signature up by name and variant.
#[must_use]
pub fn find(kernel: &str, variant: Option<&str>) -> Option<&'static Signature> {
    KNOWN
        .iter()
        .find(|known| known.kernel == kernel && known.variant == variant)
}

/// How a traced kernel's parameters differ from the known ones.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Mismatch {
    #[error("kernel `{kernel}` has {traced} parameters; allowed: exactly {known}, namely {names}")]
    Count {
        kernel: &'static str,
        traced: usize,
        known: usize,
        names: String,
    },
    #[error("parameter {index} of kernel `{kernel}` is `{traced}`; allowed there: `{known}`")]
    Param {
        kernel: &'static str,
        index: usize,
        traced: String,
        known: String,
    },
}

impl Signature {
    /// Compares a traced kernel's parameters, in order, with this signature.
    ///
    /// # Errors
    /// The first difference.
    pub fn compare(&self, traced: &[Param<'_>]) -> Result<(), Mismatch> {
        let kernel = self.kernel;
        if traced.len() != self.params.len() {
            let names = self
                .params
                .iter()
                .map(|param| param.name)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Mismatch::Count {
                kernel,
                traced: traced.len(),
                known: self.params.len(),
                names,
            });
        }
        let differs = traced
            .iter()
            .zip(self.params)
            .enumerate()
            .find(|(_, (traced, known))| traced != known);
        match differs {
            None => Ok(()),
            Some((index, (traced, known))) => Err(Mismatch::Param {
                kernel,
                index,
                traced: traced.to_string(),
                known: known.to_string(),
            }),
        }
    }
}

impl fmt::Display for Param<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ParamKind::Tensor { dims, elem, access } => {
                write!(
                    f,
                    "{} {}: {}[{}]",
                    access.name(),
                    self.name,
                    elem.name(),
                    dims.join(", ")
                )
            }
            ParamKind::Scalar { elem } => write!(f, "{}: {}", self.name, elem.name()),
        }
    }
}

impl Elem {
    const fn name(self) -> &'static str {
        match self {
            Self::Storage => "dtype",
            Self::F32 => "f32",
        }
    }
}

impl Access {
    const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }
}

//! A problem made concrete: its traced kernel, runtime sizes, scalars and tensors.
//!
//! The kernel's parameters are compared with `oracle::signature`, so that a candidate kernel cannot choose what it is
//! given.

mod error;
mod layout;
mod signature;

use std::collections::BTreeMap;

use dsl::{DType, Kernel};
use kernels::{attention, gemm, row_softmax};
use oracle::flops::{Work, work};
use oracle::inputs::Operand;
use oracle::{Dtype, Mask, Problem};

pub use error::CaseError;
pub use layout::{Layout, LayoutRule};

use crate::expr::Sizes;

/// What a tensor is to the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Filled by the oracle before the launch.
    Input(Operand),
    /// Written by the kernel: O, C, Y, or LSE.
    Output,
}

/// One tensor parameter, in the order of the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CaseTensor {
    pub name: String,
    pub dtype: DType,
    pub role: Role,
    /// Extents and strides in elements, outermost first.
    pub layout: Layout,
}

/// A problem with everything a launch of it needs, apart from memory.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    problem: Problem,
    kernel: Kernel,
    sizes: Sizes,
    scalars: BTreeMap<String, f32>,
    tensors: Vec<CaseTensor>,
}

impl Case {
    /// Traces the kernel of the problem; tensors are dense.
    ///
    /// # Errors
    /// A problem that no kernel here solves, or a kernel with another signature than the oracle's.
    pub fn new(problem: &Problem) -> Result<Self, CaseError> {
        let problem = problem.check()?;
        Self::with_kernel(&problem, trace(&problem)?)
    }

    /// The same with a kernel traced elsewhere, such as an edited one.
    ///
    /// # Errors
    /// As [`Case::new`].
    pub fn with_kernel(problem: &Problem, kernel: Kernel) -> Result<Self, CaseError> {
        let problem = problem.check()?;
        let sizes = sizes_of(&problem);
        signature::check(&problem, &kernel, &sizes)?;
        let tensors = signature::tensors(&problem, &kernel, &sizes)?;
        Ok(Self {
            problem,
            kernel,
            sizes,
            scalars: scalars_of(&problem),
            tensors,
        })
    }

    /// The same case with other strides.
    ///
    /// # Errors
    /// If a tensor would not fit 64-bit offsets.
    pub fn with_layouts(mut self, rule: LayoutRule) -> Result<Self, CaseError> {
        for tensor in &mut self.tensors {
            tensor.layout = rule.apply(&tensor.layout.dims, tensor.dtype.bytes())?;
        }
        Ok(self)
    }

    #[must_use]
    pub const fn problem(&self) -> &Problem {
        &self.problem
    }

    #[must_use]
    pub const fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Runtime sizes by name, as the launch facts call them.
    #[must_use]
    pub const fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    /// `f32` parameters by name.
    #[must_use]
    pub const fn scalars(&self) -> &BTreeMap<String, f32> {
        &self.scalars
    }

    /// Tensor parameters in the order of the signature.
    #[must_use]
    pub fn tensors(&self) -> &[CaseTensor] {
        &self.tensors
    }

    /// FLOPs, exponentials and bytes.
    #[must_use]
    pub fn work(&self) -> Work {
        work(&self.problem)
    }

    /// Device bytes of all tensors.
    #[must_use]
    pub fn tensor_bytes(&self) -> u64 {
        let bytes = |tensor: &CaseTensor| tensor.layout.span_elems().saturating_mul(tensor.dtype.bytes().into());
        self.tensors.iter().map(bytes).fold(0, u64::saturating_add)
    }
}

/// The kernel language's name for a storage type.
#[must_use]
pub const fn dsl_dtype(dtype: Dtype) -> DType {
    match dtype {
        Dtype::Bf16 => DType::Bf16,
        Dtype::F16 => DType::F16,
    }
}

/// Traces the kernel that solves a problem.
///
/// # Errors
/// A head size no kernel is built for, or a mistake in the kernel's source.
pub fn trace(problem: &Problem) -> Result<Kernel, CaseError> {
    let problem = &problem.check_built()?;
    let dtype = dsl_dtype(problem.dtype());
    let traced = match problem {
        Problem::Forward(p) => attention::forward(attention::Spec {
            dtype,
            head_dim: p.head_dim,
            causal: p.mask == Mask::Causal,
        }),
        Problem::Gemm(p) => gemm::gemm(gemm::Spec {
            dtype,
            a_transposed: p.layout.a_transposed(),
            b_transposed: p.layout.b_transposed(),
        }),
        Problem::Softmax(_) => row_softmax::row_softmax(dtype),
    };
    traced.map_err(|errors| CaseError::Trace {
        kernel: problem.kernel(),
        errors: errors.to_string(),
    })
}

fn sizes_of(problem: &Problem) -> Sizes {
    let pairs: Vec<(&str, u32)> = match problem {
        Problem::Forward(p) => vec![
            ("batch", p.batch),
            ("q_len", p.q_len),
            ("kv_len", p.kv_len),
            ("heads", p.heads),
            ("kv_heads", p.kv_heads),
            ("group", p.group()),
        ],
        Problem::Gemm(p) => vec![("m", p.m), ("n", p.n), ("k", p.k)],
        Problem::Softmax(p) => vec![("m", p.m), ("n", p.n)],
    };
    pairs
        .into_iter()
        .map(|(name, value)| (name.to_owned(), i64::from(value)))
        .collect()
}

fn scalars_of(problem: &Problem) -> BTreeMap<String, f32> {
    match problem {
        Problem::Forward(p) => BTreeMap::from([("scale_log2".to_owned(), p.default_scale_log2())]),
        Problem::Gemm(_) | Problem::Softmax(_) => BTreeMap::new(),
    }
}

//! Compares a traced kernel's parameters with the oracle's signature, and lists its tensors.

use dsl::Kernel;
use dsl::ir::{Access as TracedAccess, Dim, Tensor};
use oracle::Problem;
use oracle::inputs::Operand;
use oracle::signature::{self, Access, Elem, Param, ParamKind};

use super::{CaseError, CaseTensor, LayoutRule, Role, dsl_dtype};
use crate::expr::Sizes;

/// Checks name, sizes and parameters.
pub(super) fn check(problem: &Problem, kernel: &Kernel, sizes: &Sizes) -> Result<(), CaseError> {
    let wanted = problem.kernel();
    if kernel.name != wanted {
        return Err(CaseError::Kernel {
            traced: kernel.name.clone(),
            problem: problem.to_string(),
            wanted,
        });
    }
    if let Some(asked) = kernel.runtime.iter().find(|name| !sizes.contains_key(*name)) {
        return Err(CaseError::Size {
            asked: asked.clone(),
            problem: problem.to_string(),
            known: sizes.keys().cloned().collect::<Vec<_>>().join(", "),
        });
    }
    let known = signature::of(problem).ok_or_else(|| CaseError::NoSignature {
        problem: problem.to_string(),
    })?;
    let dims: Vec<Vec<String>> = kernel.tensors.iter().map(|t| dim_names(problem, kernel, t)).collect();
    let dims: Vec<Vec<&str>> = dims
        .iter()
        .map(|names| names.iter().map(String::as_str).collect())
        .collect();
    let mut params = Vec::new();
    for (tensor, dims) in kernel.tensors.iter().zip(&dims) {
        params.push(tensor_param(problem, tensor, dims)?);
    }
    params.extend(kernel.scalars.iter().map(|scalar| Param {
        name: &scalar.name,
        kind: ParamKind::Scalar { elem: Elem::F32 },
    }));
    Ok(known.compare(&params)?)
}

fn tensor_param<'a>(problem: &Problem, tensor: &'a Tensor, dims: &'a [&'a str]) -> Result<Param<'a>, CaseError> {
    let elem = if tensor.dtype == dsl_dtype(problem.dtype()) {
        Elem::Storage
    } else if tensor.dtype == dsl::DType::F32 {
        Elem::F32
    } else {
        return Err(CaseError::Dtype {
            tensor: tensor.name.clone(),
            traced: tensor.dtype.to_string(),
            problem: problem.dtype().to_string(),
        });
    };
    let access = match tensor.access {
        TracedAccess::Read => Access::In,
        TracedAccess::Write => Access::Out,
    };
    Ok(Param {
        name: &tensor.name,
        kind: ParamKind::Tensor { dims, elem, access },
    })
}

/// Dimension names as the signature has them; a literal extent is called by its name where it has one.
fn dim_names(problem: &Problem, kernel: &Kernel, tensor: &Tensor) -> Vec<String> {
    let name = |dim: &Dim| match (dim, problem) {
        (Dim::Lit(extent), Problem::Forward(p)) if *extent == p.head_dim => "head_dim".to_owned(),
        (Dim::Lit(extent), _) => extent.to_string(),
        (Dim::Runtime(id), _) => match kernel.runtime.get(id.0 as usize) {
            Some(name) => name.clone(),
            None => format!("unknown size {}", id.0),
        },
    };
    tensor.dims.iter().map(name).collect()
}

/// The tensors of a checked kernel, dense.
pub(super) fn tensors(problem: &Problem, kernel: &Kernel, sizes: &Sizes) -> Result<Vec<CaseTensor>, CaseError> {
    let extent = |dim: &Dim| match dim {
        Dim::Lit(extent) => u64::from(*extent),
        // Sizes were checked to be known, and problems have no negative extents.
        Dim::Runtime(id) => kernel
            .runtime
            .get(id.0 as usize)
            .and_then(|name| sizes.get(name))
            .map_or(0, |value| value.unsigned_abs()),
    };
    let mut operands = Operand::of(problem).iter();
    let list = kernel.tensors.iter().map(|tensor| {
        let dims: Vec<u64> = tensor.dims.iter().map(extent).collect();
        let role = match tensor.access {
            TracedAccess::Read => operands.next().map_or(Role::Output, |operand| Role::Input(*operand)),
            TracedAccess::Write => Role::Output,
        };
        Ok(CaseTensor {
            name: tensor.name.clone(),
            dtype: tensor.dtype,
            role,
            layout: LayoutRule::Dense.apply(&dims, tensor.dtype.bytes())?,
        })
    });
    list.collect()
}

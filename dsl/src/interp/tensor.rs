//! Tensors of the interpreter: numbers rounded as the element type stores them, dense or strided.

use half::{bf16, f16};

use super::error::LayoutError;
use crate::dtype::DType;

/// A tensor: `dims` outermost first, `strides` in elements.
#[derive(Clone, Debug, PartialEq)]
pub struct TensorData {
    dtype: DType,
    dims: Vec<usize>,
    strides: Vec<usize>,
    data: Vec<f64>,
}

impl TensorData {
    /// A dense tensor, last dimension fastest; every number is rounded to `dtype`.
    ///
    /// # Errors
    /// When the storage has not as many numbers as the dimensions say.
    pub fn dense(dtype: DType, dims: &[usize], data: Vec<f64>) -> Result<Self, LayoutError> {
        let elems = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        if elems != Some(data.len()) {
            let elems = elems.map_or_else(|| "too many".to_owned(), |n| n.to_string());
            return Err(LayoutError::Length { elems, len: data.len() });
        }
        Self::strided(dtype, dims, &dense_strides(dims), data)
    }

    /// A tensor that picks element `[i, j, ..]` from `data[i * strides[0] + j * strides[1] + ..]`.
    ///
    /// # Errors
    /// When a dimension has no stride, or an element lies outside the storage.
    pub fn strided(dtype: DType, dims: &[usize], strides: &[usize], data: Vec<f64>) -> Result<Self, LayoutError> {
        if dims.len() != strides.len() {
            return Err(LayoutError::Rank {
                dims: dims.len(),
                strides: strides.len(),
            });
        }
        let empty = dims.contains(&0);
        let last = dims.iter().zip(strides).try_fold(0usize, |at, (d, s)| {
            at.checked_add(d.saturating_sub(1).checked_mul(*s)?)
        });
        if !empty && last.is_none_or(|last| last >= data.len()) {
            let last = last.map_or_else(|| "an offset that overflows".to_owned(), |n| n.to_string());
            return Err(LayoutError::OutOfStorage { last, len: data.len() });
        }
        let data = data.into_iter().map(|x| round(x, dtype)).collect();
        Ok(Self {
            dtype,
            dims: dims.to_vec(),
            strides: strides.to_vec(),
            data,
        })
    }

    /// The element type.
    #[must_use]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The extents, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The strides, in elements.
    #[must_use]
    pub fn strides(&self) -> &[usize] {
        &self.strides
    }

    /// The storage; for a dense tensor its elements, last dimension fastest.
    #[must_use]
    pub fn data(&self) -> &[f64] {
        &self.data
    }

    /// One element; `None` outside the tensor.
    #[must_use]
    pub fn get(&self, index: &[usize]) -> Option<f64> {
        if index.len() != self.dims.len() || index.iter().zip(&self.dims).any(|(i, d)| i >= d) {
            return None;
        }
        let at: usize = index.iter().zip(&self.strides).map(|(i, s)| i * s).sum();
        self.data.get(at).copied()
    }
}

/// The strides of a dense tensor, last dimension fastest.
pub(super) fn dense_strides(dims: &[usize]) -> Vec<usize> {
    let mut strides = vec![1usize; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i].saturating_mul(dims[i]);
    }
    strides
}

/// Rounds to an element type, to nearest, ties to even.
#[must_use]
pub fn round(x: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F32 => f64::from(x as f32),
        DType::F16 => f16::from_f64(x).to_f64(),
        DType::Bf16 => bf16::from_f64(x).to_f64(),
    }
}

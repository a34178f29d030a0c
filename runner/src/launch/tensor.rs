//! One tensor argument and its checks.

use codegen::launch::TensorFact;
use driver::{L2Promotion, Swizzle, TensorDtype, TensorMapSpec};
use dsl::DType;

use super::BindError;
use crate::expr::{Sizes, eval};

/// Tensor maps need base and strides at multiples of this (CUDA driver API, `cuTensorMapEncodeTiled`).
const MAP_ALIGN_BYTES: u64 = 16;

/// A tensor in device memory. Extents and strides in elements, outermost first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorArg {
    pub name: String,
    pub address: u64,
    pub dtype: DType,
    pub dims: Vec<u64>,
    pub strides: Vec<u64>,
}

/// Fields of a tensor-map parameter besides its tensor.
pub(super) struct MapRecipe<'a> {
    pub box_elems: &'a [u32],
    pub swizzle: u32,
    pub l2_promotion: u32,
    pub row_multiple_elems: u32,
}

impl TensorArg {
    /// Checks everything that does not depend on how the kernel reads the tensor, and gives dimensions of extent 1 the
    /// stride they would have in a dense tensor: theirs is never used, and frameworks put anything there.
    pub(super) fn checked(&self, fact: &TensorFact, sizes: &Sizes) -> Result<Self, BindError> {
        let tensor = || self.name.clone();
        if self.dtype.to_string() != fact.dtype {
            return Err(BindError::Dtype {
                tensor: tensor(),
                given: self.dtype.to_string(),
                wanted: fact.dtype.clone(),
            });
        }
        self.check_dims(fact, sizes)?;
        if self.strides.len() != self.dims.len() {
            return Err(BindError::StrideCount {
                tensor: tensor(),
                given: self.strides.len(),
                wanted: self.dims.len(),
            });
        }
        if self.address == 0 {
            return Err(BindError::Null { tensor: tensor() });
        }
        let align_bytes = u64::from(fact.align_bytes.max(self.dtype.bytes()));
        self.require_align(align_bytes)?;
        let settled = self.settled()?;
        settled.require_stride_align(align_bytes)?;
        match settled.strides.last() {
            Some(&given) if given != 1 => Err(BindError::LastStride {
                tensor: tensor(),
                given,
            }),
            _ if fact.written => settled.check_overlap().map(|()| settled),
            _ => Ok(settled),
        }
    }

    fn check_dims(&self, fact: &TensorFact, sizes: &Sizes) -> Result<(), BindError> {
        let wanted = fact.dims.iter().map(|text| {
            eval(text, sizes).map_err(|error| BindError::Expr {
                name: self.name.clone(),
                error,
            })
        });
        let wanted = wanted.collect::<Result<Vec<i64>, _>>()?;
        let same = wanted.len() == self.dims.len()
            && wanted
                .iter()
                .zip(&self.dims)
                .all(|(wanted, given)| u64::try_from(*wanted) == Ok(*given));
        if same && !self.dims.contains(&0) {
            return Ok(());
        }
        Err(BindError::Dims {
            tensor: self.name.clone(),
            given: self.dims.clone(),
            wanted,
        })
    }

    /// Rows of the multiple that the launch facts ask for: a store would write behind others.
    fn check_row(&self, multiple_elems: u32) -> Result<(), BindError> {
        let elems = self.dims.last().copied().unwrap_or(0);
        if elems.is_multiple_of(u64::from(multiple_elems)) {
            return Ok(());
        }
        Err(BindError::Row {
            tensor: self.name.clone(),
            elems,
            multiple_elems,
        })
    }

    fn require_align(&self, align_bytes: u64) -> Result<(), BindError> {
        if self.address.is_multiple_of(align_bytes) {
            return Ok(());
        }
        Err(BindError::Address {
            tensor: self.name.clone(),
            address: self.address,
            align_bytes,
        })
    }

    /// Strides but the last; `settled` has bounded those of used dimensions, others are dense.
    fn require_stride_align(&self, align_bytes: u64) -> Result<(), BindError> {
        let elem_bytes = u64::from(self.dtype.bytes());
        let bytes = |stride: u64| stride.saturating_mul(elem_bytes);
        let outer = self.strides.iter().enumerate().rev().skip(1);
        match { outer }.find(|(_, stride)| !bytes(**stride).is_multiple_of(align_bytes)) {
            None => Ok(()),
            Some((dim, &stride)) => Err(BindError::StrideAlign {
                tensor: self.name.clone(),
                dim,
                given_elems: stride,
                given_bytes: bytes(stride),
                align_bytes,
                align_elems: align_bytes / elem_bytes,
            }),
        }
    }

    fn settled(&self) -> Result<Self, BindError> {
        let too_large = || BindError::TooLarge {
            tensor: self.name.clone(),
        };
        let align_elems = MAP_ALIGN_BYTES / u64::from(self.dtype.bytes());
        let mut strides = self.strides.clone();
        let mut least = 1_u64;
        let mut end = 1_u64;
        for (axis, dim) in self.dims.iter().enumerate().rev() {
            if *dim == 1 {
                strides[axis] = least;
            }
            let last = strides[axis].checked_mul(dim - 1).ok_or_else(too_large)?;
            end = end.checked_add(last).ok_or_else(too_large)?;
            least = strides[axis].checked_mul(*dim).ok_or_else(too_large)?;
            least = least.checked_next_multiple_of(align_elems).ok_or_else(too_large)?;
        }
        let bytes = end.checked_mul(self.dtype.bytes().into()).ok_or_else(too_large)?;
        // The kernel adds offsets as signed 64-bit numbers.
        let last_byte = self.address.checked_add(bytes).filter(|_| i64::try_from(bytes).is_ok());
        last_byte.ok_or_else(too_large)?;
        Ok(Self {
            strides,
            ..self.clone()
        })
    }

    /// No two elements may share a place.
    fn check_overlap(&self) -> Result<(), BindError> {
        let mut axes: Vec<usize> = (0..self.dims.len()).filter(|&axis| self.dims[axis] > 1).collect();
        axes.sort_by_key(|&axis| self.strides[axis]);
        let mut least = 1_u64;
        for axis in axes {
            let stride = self.strides[axis];
            if stride < least {
                return Err(BindError::Overlap {
                    tensor: self.name.clone(),
                    dim: axis,
                    stride,
                    least,
                });
            }
            // `settled` has shown that the sum of all spans fits.
            least = least.saturating_add(stride.saturating_mul(self.dims[axis] - 1));
        }
        Ok(())
    }

    /// The tensor map of a checked tensor: dimensions innermost first, strides in bytes.
    pub(super) fn map(&self, recipe: &MapRecipe<'_>) -> Result<TensorMapSpec, BindError> {
        self.check_row(recipe.row_multiple_elems)?;
        self.require_align(MAP_ALIGN_BYTES)?;
        self.require_stride_align(MAP_ALIGN_BYTES)?;
        let elem_bytes = u64::from(self.dtype.bytes());
        let outer = self.strides.iter().rev().skip(1);
        let strides_bytes = outer.map(|stride| stride.saturating_mul(elem_bytes)).collect();
        let spec = TensorMapSpec {
            base: self.address,
            dtype: map_dtype(self.dtype),
            dims_elems: self.dims.iter().rev().copied().collect(),
            strides_bytes,
            box_elems: recipe.box_elems.iter().rev().copied().collect(),
            swizzle: self.swizzle(recipe.swizzle)?,
            l2_promotion: self.promotion(recipe.l2_promotion)?,
        };
        match spec.validate() {
            Ok(()) => Ok(spec),
            Err(refusal) => Err(BindError::Map {
                tensor: self.name.clone(),
                refusal,
            }),
        }
    }

    fn swizzle(&self, bytes: u32) -> Result<Swizzle, BindError> {
        match bytes {
            0 => Ok(Swizzle::None),
            32 => Ok(Swizzle::B32),
            64 => Ok(Swizzle::B64),
            128 => Ok(Swizzle::B128),
            _ => Err(self.unknown("swizzle", bytes, "0, 32, 64, 128 bytes")),
        }
    }

    fn promotion(&self, bytes: u32) -> Result<L2Promotion, BindError> {
        match bytes {
            0 => Ok(L2Promotion::None),
            64 => Ok(L2Promotion::B64),
            128 => Ok(L2Promotion::B128),
            256 => Ok(L2Promotion::B256),
            _ => Err(self.unknown("L2 promotion", bytes, "0, 64, 128, 256 bytes")),
        }
    }

    fn unknown(&self, what: &'static str, given: u32, allowed: &'static str) -> BindError {
        BindError::Unknown {
            what,
            name: self.name.clone(),
            given: given.to_string(),
            allowed,
        }
    }
}

const fn map_dtype(dtype: DType) -> TensorDtype {
    match dtype {
        DType::F32 => TensorDtype::F32,
        DType::F16 => TensorDtype::F16,
        DType::Bf16 => TensorDtype::Bf16,
    }
}

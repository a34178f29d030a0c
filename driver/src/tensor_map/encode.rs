//! Encoding a checked description through the driver.

use super::{L2Promotion, MAX_RANK, Swizzle, TensorDtype, TensorMapRefusal, TensorMapSpec};
use crate::context::Context;
use crate::error::DriverError;
use cudarc::driver::sys;

/// An encoded tensor map, aligned as the driver and kernels need it.
#[repr(C, align(128))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TensorMap([u8; 128]);

impl TensorMap {
    /// The alignment of a kernel parameter that holds a map (PTX ISA, "Tensor-map": `.align 64`).
    pub const PARAM_ALIGN_BYTES: usize = 64;

    /// Checks the description and has the driver encode it.
    ///
    /// # Errors
    /// [`DriverError::TensorMap`] for a broken rule, or the driver's own refusal.
    pub fn encode(context: &Context, spec: &TensorMapSpec) -> Result<Self, DriverError> {
        spec.validate()?;
        let device = context.device();
        if !device.tensor_maps {
            let (major, minor) = device.compute_capability;
            return Err(TensorMapRefusal::Device {
                device: device.name.clone(),
                major,
                minor,
            }
            .into());
        }
        context.bind()?;
        encode_checked(context, spec)
    }

    /// A map from bytes that were encoded before.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }

    /// The 128 opaque bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 128] {
        &self.0
    }
}

fn encode_checked(context: &Context, spec: &TensorMapSpec) -> Result<TensorMap, DriverError> {
    let mut map = sys::CUtensorMap { opaque: [0; 16] };
    let element_strides = [1_u32; MAX_RANK];
    let rank = u32::try_from(spec.dims_elems.len()).unwrap_or(0);
    let address = std::ptr::with_exposed_provenance_mut(spec.base as usize);
    // Rank 1 has no strides, but the driver is given a pointer to something all the same.
    let mut strides = [0_u64; MAX_RANK];
    strides[..spec.strides_bytes.len()].copy_from_slice(&spec.strides_bytes);
    // SAFETY: `map` is aligned to 128; dims and box have `rank` entries, strides and element strides at
    // least as many (validated before). The address is encoded, not read.
    let result = unsafe {
        (context.api().cuTensorMapEncodeTiled)(
            &raw mut map,
            dtype_code(spec.dtype),
            rank,
            address,
            spec.dims_elems.as_ptr(),
            strides.as_ptr(),
            spec.box_elems.as_ptr(),
            element_strides.as_ptr(),
            sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
            swizzle_code(spec.swizzle),
            promotion_code(spec.l2_promotion),
            sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
    };
    context.check("cuTensorMapEncodeTiled", result)?;
    let mut bytes = [0_u8; 128];
    for (place, word) in bytes.chunks_exact_mut(8).zip(map.opaque) {
        place.copy_from_slice(&word.to_ne_bytes());
    }
    Ok(TensorMap(bytes))
}

fn dtype_code(dtype: TensorDtype) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Code;
    match dtype {
        TensorDtype::Bf16 => Code::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        TensorDtype::F16 => Code::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        TensorDtype::F32 => Code::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    }
}

fn swizzle_code(swizzle: Swizzle) -> sys::CUtensorMapSwizzle {
    use sys::CUtensorMapSwizzle as Code;
    match swizzle {
        Swizzle::None => Code::CU_TENSOR_MAP_SWIZZLE_NONE,
        Swizzle::B32 => Code::CU_TENSOR_MAP_SWIZZLE_32B,
        Swizzle::B64 => Code::CU_TENSOR_MAP_SWIZZLE_64B,
        Swizzle::B128 => Code::CU_TENSOR_MAP_SWIZZLE_128B,
    }
}

fn promotion_code(promotion: L2Promotion) -> sys::CUtensorMapL2promotion {
    use sys::CUtensorMapL2promotion as Code;
    match promotion {
        L2Promotion::None => Code::CU_TENSOR_MAP_L2_PROMOTION_NONE,
        L2Promotion::B64 => Code::CU_TENSOR_MAP_L2_PROMOTION_L2_64B,
        L2Promotion::B128 => Code::CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        L2Promotion::B256 => Code::CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
    }
}

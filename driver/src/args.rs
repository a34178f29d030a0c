//! Kernel arguments: typed values, packed into one aligned block.
//!
//! The driver is given a pointer per parameter and copies as many bytes as the kernel declares. A wrong
//! size would make it read past the value, so sizes and count are compared with the loaded kernel's own
//! parameter table where the driver can tell it (CUDA 12.4 and newer).

use crate::tensor_map::TensorMap;
use serde::Serialize;
use std::ffi::c_void;

/// The most parameter bytes of a kernel (PTX ISA, "Kernel function parameters": 32,764 from sm_70 on).
pub const MAX_PARAM_BYTES: usize = 32_764;
const CHUNK_BYTES: usize = 128;

/// One kernel argument.
#[derive(Debug, Clone, PartialEq)]
pub enum KernelArg {
    /// `.param .u32`
    U32(u32),
    /// `.param .s32`
    I32(i32),
    /// `.param .f32`
    F32(f32),
    /// `.param .u64`
    U64(u64),
    /// `.param .u64` that is a device address.
    DevicePtr(u64),
    /// `.param .align 64 .b8 name[128]`
    TensorMap(TensorMap),
    /// `.param .align N .b8 name[len]`
    Bytes {
        /// The value.
        bytes: Vec<u8>,
        /// Its alignment: a power of two up to 128.
        align_bytes: usize,
    },
}

impl KernelArg {
    /// What the argument is, for messages.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::U32(_) => "u32",
            Self::I32(_) => "i32",
            Self::F32(_) => "f32",
            Self::U64(_) => "u64",
            Self::DevicePtr(_) => "device pointer",
            Self::TensorMap(_) => "tensor map",
            Self::Bytes { .. } => "bytes",
        }
    }

    fn align_bytes(&self) -> usize {
        match self {
            Self::U32(_) | Self::I32(_) | Self::F32(_) => 4,
            Self::U64(_) | Self::DevicePtr(_) => 8,
            Self::TensorMap(_) => TensorMap::PARAM_ALIGN_BYTES,
            Self::Bytes { align_bytes, .. } => *align_bytes,
        }
    }

    fn with_bytes<R>(&self, use_bytes: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Self::U32(v) => use_bytes(&v.to_ne_bytes()),
            Self::I32(v) => use_bytes(&v.to_ne_bytes()),
            Self::F32(v) => use_bytes(&v.to_ne_bytes()),
            Self::U64(v) | Self::DevicePtr(v) => use_bytes(&v.to_ne_bytes()),
            Self::TensorMap(map) => use_bytes(map.as_bytes()),
            Self::Bytes { bytes, .. } => use_bytes(bytes),
        }
    }
}

/// Where a packed argument lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ArgSlot {
    /// What it is.
    pub kind: &'static str,
    /// Its place in the block, by natural alignment.
    pub offset_bytes: usize,
    /// Its size.
    pub size_bytes: usize,
    /// Its alignment.
    pub align_bytes: usize,
}

/// A parameter as the loaded kernel declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParamSlot {
    /// Its place in the kernel's parameter space.
    pub offset_bytes: usize,
    /// Its size.
    pub size_bytes: usize,
}

/// Why arguments were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgRefusal {
    /// The number differs from the kernel's.
    #[error("given {given} arguments; the kernel declares {wanted}")]
    Count {
        /// Arguments given.
        given: usize,
        /// Parameters declared.
        wanted: usize,
    },
    /// A size differs from the kernel's.
    #[error("argument {index} ({kind}) has {given_bytes} bytes; the kernel's parameter {index} has {wanted_bytes}")]
    Size {
        /// Which argument, from 0.
        index: usize,
        /// What it is.
        kind: &'static str,
        /// Its size.
        given_bytes: usize,
        /// The parameter's size.
        wanted_bytes: usize,
    },
    /// An alignment that cannot be had.
    #[error("argument {index} asks for alignment {align_bytes}; allowed: a power of two from 1 to 128")]
    Alignment {
        /// Which argument, from 0.
        index: usize,
        /// The alignment asked for.
        align_bytes: usize,
    },
    /// An argument without bytes.
    #[error("argument {index} has no bytes; a kernel parameter has at least 1")]
    Empty {
        /// Which argument, from 0.
        index: usize,
    },
    /// Too many bytes in all.
    #[error("the arguments take {total_bytes} bytes; a kernel may have {MAX_PARAM_BYTES}")]
    TooLarge {
        /// All bytes with padding.
        total_bytes: usize,
    },
}

#[repr(C, align(128))]
#[derive(Debug, Clone, Copy)]
struct Chunk([u8; CHUNK_BYTES]);

/// Arguments ready for any number of launches.
#[derive(Debug, Clone)]
pub struct PackedArgs {
    slots: Vec<ArgSlot>,
    storage: Vec<Chunk>,
}

impl PackedArgs {
    /// Packs arguments in order, each at its natural alignment.
    ///
    /// # Errors
    /// [`ArgRefusal`] for an empty argument, an impossible alignment, or too many bytes.
    pub fn pack(args: &[KernelArg]) -> Result<Self, ArgRefusal> {
        let slots = lay_out(args)?;
        let used_bytes = slots.last().map_or(0, |s| s.offset_bytes + s.size_bytes);
        let mut storage = vec![Chunk([0; CHUNK_BYTES]); used_bytes.div_ceil(CHUNK_BYTES)];
        for (arg, slot) in args.iter().zip(&slots) {
            arg.with_bytes(|bytes| store(&mut storage, slot.offset_bytes, bytes));
        }
        Ok(Self { slots, storage })
    }

    /// Where each argument lies.
    #[must_use]
    pub fn slots(&self) -> &[ArgSlot] {
        &self.slots
    }

    /// The bytes of argument `index`, if there is one.
    #[must_use]
    pub fn bytes(&self, index: usize) -> Option<Vec<u8>> {
        let slot = self.slots.get(index)?;
        let all = self.storage.iter().flat_map(|chunk| chunk.0);
        Some(all.skip(slot.offset_bytes).take(slot.size_bytes).collect())
    }

    /// Compares the arguments with the kernel's parameter table: their number and sizes.
    ///
    /// Offsets say nothing about alignment: the driver aligns within the constant bank, whose parameters start at an
    /// address of its own (on sm_90 a first parameter of alignment 64 lies at offset 48).
    ///
    /// # Errors
    /// [`ArgRefusal`] for the first difference.
    pub fn check(&self, params: &[ParamSlot]) -> Result<(), ArgRefusal> {
        if self.slots.len() != params.len() {
            return Err(ArgRefusal::Count {
                given: self.slots.len(),
                wanted: params.len(),
            });
        }
        for (index, (slot, param)) in self.slots.iter().zip(params).enumerate() {
            if slot.size_bytes != param.size_bytes {
                return Err(ArgRefusal::Size {
                    index,
                    kind: slot.kind,
                    given_bytes: slot.size_bytes,
                    wanted_bytes: param.size_bytes,
                });
            }
        }
        Ok(())
    }

    /// One pointer per argument, valid while `self` is neither changed nor dropped.
    pub(crate) fn pointers(&self) -> Vec<*mut c_void> {
        let base = self.storage.as_ptr().cast::<u8>();
        let at = |slot: &ArgSlot| base.wrapping_add(slot.offset_bytes).cast_mut().cast();
        self.slots.iter().map(at).collect()
    }
}

fn lay_out(args: &[KernelArg]) -> Result<Vec<ArgSlot>, ArgRefusal> {
    let mut end = 0_usize;
    let mut slots = Vec::with_capacity(args.len());
    for (index, arg) in args.iter().enumerate() {
        let align_bytes = arg.align_bytes();
        if !align_bytes.is_power_of_two() || align_bytes > CHUNK_BYTES {
            return Err(ArgRefusal::Alignment { index, align_bytes });
        }
        let size_bytes = arg.with_bytes(<[u8]>::len);
        if size_bytes == 0 {
            return Err(ArgRefusal::Empty { index });
        }
        let offset_bytes = end.next_multiple_of(align_bytes);
        end = offset_bytes.saturating_add(size_bytes);
        if end > MAX_PARAM_BYTES {
            return Err(ArgRefusal::TooLarge { total_bytes: end });
        }
        slots.push(ArgSlot {
            kind: arg.kind(),
            offset_bytes,
            size_bytes,
            align_bytes,
        });
    }
    Ok(slots)
}

fn store(storage: &mut [Chunk], offset_bytes: usize, bytes: &[u8]) {
    let places = storage.iter_mut().flat_map(|chunk| &mut chunk.0);
    for (place, byte) in places.skip(offset_bytes).zip(bytes) {
        *place = *byte;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn offsets(args: &[KernelArg]) -> Vec<usize> {
        let packed = PackedArgs::pack(args).unwrap();
        packed.slots().iter().map(|s| s.offset_bytes).collect()
    }

    #[test]
    fn arguments_lie_at_their_natural_alignment() {
        let map = TensorMap::from_bytes([7; 128]);
        let args = [
            KernelArg::U32(1),
            KernelArg::DevicePtr(2),
            KernelArg::F32(1.5),
            KernelArg::TensorMap(map),
            KernelArg::I32(-1),
            KernelArg::Bytes {
                bytes: vec![9; 3],
                align_bytes: 2,
            },
            KernelArg::U64(u64::MAX),
        ];
        assert_eq!(offsets(&args), [0, 8, 16, 64, 192, 196, 200]);
        let packed = PackedArgs::pack(&args).unwrap();
        assert_eq!(packed.bytes(2), Some(1.5_f32.to_ne_bytes().to_vec()));
        assert_eq!(packed.bytes(3), Some(vec![7; 128]));
        assert_eq!(packed.bytes(4), Some((-1_i32).to_ne_bytes().to_vec()));
        assert_eq!(packed.bytes(7), None);
    }

    #[test]
    fn pointers_are_aligned_and_point_at_the_values() {
        let map = TensorMap::from_bytes([3; 128]);
        let args = [KernelArg::U32(0xdead_beef), KernelArg::TensorMap(map)];
        let packed = PackedArgs::pack(&args).unwrap();
        let pointers = packed.pointers();
        // SAFETY: the first argument is a u32 at the start of an aligned block.
        assert_eq!(unsafe { pointers[0].cast::<u32>().read() }, 0xdead_beef);
        assert_eq!(pointers[1] as usize % 64, 0);
        // SAFETY: the second argument has 128 bytes.
        assert_eq!(unsafe { pointers[1].cast::<[u8; 128]>().read() }, [3_u8; 128]);
    }

    #[test]
    fn no_arguments_are_legal() {
        let packed = PackedArgs::pack(&[]).unwrap();
        assert!(packed.pointers().is_empty());
        assert_eq!(packed.check(&[]), Ok(()));
    }

    #[test]
    fn impossible_arguments_are_refused() {
        let bytes = |len, align_bytes| KernelArg::Bytes {
            bytes: vec![0; len],
            align_bytes,
        };
        for align in [0, 3, 256] {
            let refusal = PackedArgs::pack(&[bytes(4, align)]).unwrap_err();
            assert!(refusal.to_string().contains(&format!("alignment {align};")));
        }
        assert_eq!(
            PackedArgs::pack(&[KernelArg::U32(0), bytes(0, 4)]).unwrap_err(),
            ArgRefusal::Empty { index: 1 }
        );
        assert!(PackedArgs::pack(&[bytes(MAX_PARAM_BYTES, 4)]).is_ok());
        assert!(matches!(
            PackedArgs::pack(&[bytes(MAX_PARAM_BYTES + 1, 4)]),
            Err(ArgRefusal::TooLarge { .. })
        ));
    }

    #[test]
    fn the_kernels_table_is_compared() {
        let packed = PackedArgs::pack(&[KernelArg::DevicePtr(1), KernelArg::U32(2)]).unwrap();
        let param = |offset_bytes, size_bytes| ParamSlot {
            offset_bytes,
            size_bytes,
        };
        assert_eq!(packed.check(&[param(0, 8), param(8, 4)]), Ok(()));
        let text = |params: &[ParamSlot]| packed.check(params).unwrap_err().to_string();
        assert_eq!(text(&[param(0, 8)]), "given 2 arguments; the kernel declares 1");
        assert_eq!(
            text(&[param(0, 8), param(8, 8)]),
            "argument 1 (u32) has 4 bytes; the kernel's parameter 1 has 8"
        );
        // Seen on an H200: the driver's offsets are relative to a base of its own.
        assert_eq!(packed.check(&[param(48, 8), param(56, 4)]), Ok(()));
    }

    proptest! {
        #[test]
        fn every_value_survives_packing(
            values in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..200), 0_u32..8), 0..20)
        ) {
            let args: Vec<KernelArg> = values
                .iter()
                .map(|(bytes, log)| KernelArg::Bytes { bytes: bytes.clone(), align_bytes: 1 << log })
                .collect();
            let packed = PackedArgs::pack(&args).unwrap();
            for (index, (bytes, log)) in values.iter().enumerate() {
                prop_assert_eq!(packed.bytes(index), Some(bytes.clone()));
                prop_assert_eq!(packed.pointers()[index] as usize % (1 << log), 0);
            }
        }
    }
}

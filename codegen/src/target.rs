//! Hardware limits, one table per target, with units and sources.

use serde::{Deserialize, Serialize};

/// A GPU architecture that kernels are lowered to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The assembler's name for it.
    pub name: &'static str,
    /// What its kernels are made of.
    pub family: Family,
    /// Shared memory one CTA may take, bytes (CUDA C++ Programming Guide, table "Technical Specifications").
    pub shared_bytes: u32,
    /// Registers of one SM (same table).
    pub registers: u32,
    /// Registers one thread may hold (same table).
    pub registers_per_thread: u32,
    /// Named barriers of a CTA (PTX ISA 9.7.13.1).
    pub named_barriers: u32,
    /// Largest box extent of a tensor copy (CUDA driver API, `cuTensorMapEncodeTiled`).
    pub box_extent: u32,
    /// Largest N of one tensor-core instruction (PTX ISA 9.7.15.2).
    pub mma_n: u32,
    /// Alignment of swizzled tiles in shared memory, bytes (PTX ISA 5.5.6).
    pub tile_alignment_bytes: u32,
}

/// How kernels of a target copy and multiply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Family {
    /// Warp roles, tensor copies, `wgmma`.
    WarpRoles,
    /// Every warp alike: `cp.async`, `ldmatrix`, `mma.sync`.
    CpAsync,
}

/// Hopper with its architecture-specific instructions.
pub const SM_90A: Target = Target {
    name: "sm_90a",
    family: Family::WarpRoles,
    shared_bytes: 232_448,
    registers: 65_536,
    registers_per_thread: 255,
    named_barriers: 16,
    box_extent: 256,
    mma_n: 256,
    tile_alignment_bytes: 1024,
};

/// Ampere (A100). Shared memory: 163 KiB per block at compute capability 8.0 (CUDA C++ Programming Guide, table "Technical
/// Specifications"). No tensor copies, hence no box; `mma.sync` takes 8 columns (PTX ISA 9.7.14.5). Tiles are swizzled by
/// row number, so 128 bytes, one row of all banks, is all the alignment they need.
pub const SM_80: Target = Target {
    name: "sm_80",
    family: Family::CpAsync,
    shared_bytes: 166_912,
    registers: 65_536,
    registers_per_thread: 255,
    named_barriers: 16,
    box_extent: 0,
    mma_n: 8,
    tile_alignment_bytes: 128,
};

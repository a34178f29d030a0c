//! A CPU device for NVIDIA PTX (sm_90a, and sm_80's `mma.sync`, `ldmatrix`, `cp.async`).
//!
//! The simulator reads PTX text with its own parser, runs whole grids deterministically under a
//! seeded scheduler, and reports broken rules of the memory model, of barriers and of asynchronous
//! work. It does no I/O and knows no kernel by name.
//!
//! ```
//! use warpwright_sim::{Arg, Device, DeviceConfig, LaunchConfig, Module};
//!
//! let module = Module::parse(
//!     ".version 8.0\n.target sm_90a\n.address_size 64\n\
//!      .visible .entry twice(.param .u64 p) {\n\
//!      .reg .b64 %d<2>; .reg .b32 %r<2>;\n\
//!      ld.param.u64 %d0, [p]; mov.u32 %r0, %tid.x; mul.wide.u32 %d1, %r0, 4;\n\
//!      add.u64 %d0, %d0, %d1; ld.global.u32 %r1, [%d0]; add.u32 %r1, %r1, %r1;\n\
//!      st.global.u32 [%d0], %r1; ret; }",
//! )?;
//! let mut device = Device::new(DeviceConfig::default());
//! let buffer = device.upload(&7u32.to_le_bytes().repeat(32));
//! let report = device.launch(&module, "twice", LaunchConfig::linear(1, 32, 0), &[Arg::Buffer(buffer)])?;
//! assert!(report.findings.is_empty());
//! assert_eq!(device.read(buffer)?[..4], 14u32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it runs
//!
//! `parse` gives statements, `decode` resolves names and modifiers into one enum, `exec` runs warps
//! in lock step: registers are vectors of 32 lanes, predicates are masks. Divergent lanes form groups,
//! the group with the lowest program counter runs, and groups merge where they meet; an instruction
//! that needs more lanes (`.aligned`, member masks) waits for them. One CTA per SM is resident; CTAs
//! of a grid are interleaved, so that those which talk through global memory can. A grid without global
//! atomics is cut into at most eight parts that run on several threads (`host/parts.rs`); findings, and whatever parts
//! cannot tell, come from a run of the whole.
//!
//! The seed decides what hardware leaves open: which warp runs how long, when a copy lands (before
//! its `complete_tx`), when a wgmma reads and writes between its issue and its wait. Same seed, same
//! run. A suspended `mbarrier.try_wait` returns false when nothing else can happen; a deadlock is
//! declared after some rounds of that without a visible event.
//!
//! # What is checked
//!
//! Each rule is a variant of [`FindingKind`]; the text names line, CTA, warp and the other party.
//!
//! | subject | rules |
//! |---|---|
//! | values | registers, shared and global bytes read before written; bounds; alignment; an element of a declared output stored twice |
//! | order of shared accesses | races, reads before a copy has arrived, overwriting what a wgmma or bulk store may still read |
//! | proxies | generic writes read or overwritten by TMA or wgmma without `fence.proxy.async` on the way |
//! | wgmma | registers in flight, `wgmma.fence`, uniform operands, four warps in step, descriptors |
//! | mbarriers | init and its publication, over-arrival, announced against arrived bytes, passed waiters |
//! | barriers | numbers, counts, participants that disagree, `.aligned` under divergence, member masks |
//! | resources | register pool of `setmaxnreg`, shared memory, work in flight at exit, budget, deadlock |
//!
//! Happens-before, not luck, decides about order: a missing wait is found even in a run in which the
//! data arrived in time. The protocol of a schedule that never ran is of course not judged, hence
//! several seeds and small shapes that reach every branch.
//!
//! # Numbers
//!
//! * f32 arithmetic is IEEE, rounded to nearest; `.ftz`, `.sat` and NaN rules are kept; NaN results
//!   are 0x7fffffff.
//! * `ex2`, `lg2`, `rcp`, `rsqrt`, `tanh`, `sin`, `cos` (`.approx`) are computed in f64 and rounded
//!   once, so they are closer than hardware's.
//! * Products of 16-bit floats are exact in f32. `wgmma` and `mma` add them in order of k, one f32
//!   rounding each; hardware adds in an unspecified order and width.
//!
//! # Limits
//!
//! * Lanes of one warp share a clock: races inside a warp are not seen.
//! * Global memory has bounds and initialisation, but no race check.
//! * `fence.acq_rel` and `membar` order nothing in the checker; acquire and release on the access do.
//! * Groups of `cp.async` are counted per warp. A bulk store reads and writes in one step, so
//!   `.read` waits for both.
//! * Refused at parse: calls, `.local` and initialised variables, vector registers, rounding other
//!   than to nearest in arithmetic, f16 accumulators, fp8, tf32 and sparse matrix instructions, im2col.

mod decode;
mod exec;
mod fault;
mod hb;
mod host;
mod memory;
mod parse;
mod sync;
pub mod time;
mod tma;
mod wgmma;

pub use fault::{Access, Fault, Finding, FindingKind, Site, Wait};
pub use host::{ARows, Arg, Buffer, Device, DeviceConfig, LaunchConfig, LaunchReport, MemoryError, Module, SeedRun};
pub use parse::error::{Pos, PtxError};
pub use tma::map::{ElemType, Swizzle, TENSOR_MAP_BYTES, TensorMapError, TensorMapSpec};

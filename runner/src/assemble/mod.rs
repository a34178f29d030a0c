//! PTX to cubin: from a folder of cubins made before, else by the assembler.
//!
//! A cubin is found by the content of what made it (PTX text, target, assembler version, options), so that a folder made
//! on a development machine serves a GPU machine that has no assembler.

mod cache;

use std::time::Duration;

use dsl::schedule::Assembler as AssemblerChoice;
use serde::{Deserialize, Serialize};
use tools::{AssembleError, AssembleRequest, Origin, PtxasVersion, Tool};

pub use cache::{CacheError, CubinCache};

/// Stands for the assembler's version in the facts of code that the driver compiles.
pub const DRIVER_JIT: &str = "driver JIT";
/// Full optimisation.
const OPT_LEVEL: u8 = 3;

/// What the assembler said about a cubin.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AssemblyFacts {
    /// BLAKE3 of the PTX text, hexadecimal.
    pub ptx_blake3: String,
    /// BLAKE3 of the cubin, hexadecimal.
    pub cubin_blake3: String,
    pub arch: String,
    pub ptxas_version: String,
    pub options: Vec<String>,
    /// Of the entry with most registers.
    pub registers: u32,
    pub spill_store_bytes: u32,
    pub spill_load_bytes: u32,
    /// Lines that say the assembler put in a missing wait or arrive.
    pub remarks: Vec<String>,
}

/// A cubin and where it came from.
#[derive(Clone, Debug, PartialEq)]
pub struct AssembledImage {
    /// Empty when the driver compiles the PTX.
    pub cubin: Vec<u8>,
    pub facts: AssemblyFacts,
    /// Whether it was in the folder already.
    pub cached: bool,
}

/// Why there is no cubin.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    #[error(
        "asked for assembler {asked}; the known versions are {}; allowed: one of them, or none for the default",
        PtxasVersion::ALL.map(PtxasVersion::as_str).join(", ")
    )]
    UnknownVersion { asked: String },
    #[error(
        "no cubin {key} (assembler {version}) in {folder}, and no such assembler here (on the PATH: {found}); allowed: \
         prepare the folder where the assembler is, with the same program, fetch it (`cargo xtask tools`), or name one that \
         is here (`--ptxas PATH`: releases before 13.3 may break pipelined products, which verification would show)"
    )]
    NoAssembler {
        key: String,
        version: String,
        folder: String,
        found: String,
    },
    #[error(
        "asked for assembler {asked}; only the driver's own compiler is at hand, which takes neither a version nor \
         options; allowed: an assembler (`--ptxas PATH`, `cargo xtask tools`), or a schedule without `[assembler]`"
    )]
    JitTakesNone { asked: String },
    #[error(transparent)]
    Assemble(#[from] AssembleError),
    #[error(transparent)]
    Cache(#[from] CacheError),
}

/// The assemblers and the cubin folder of a run; either may be missing.
#[derive(Debug, Default)]
pub struct Assembler {
    /// The first is the default.
    tools: Vec<Tool>,
    cache: Option<CubinCache>,
    deadline: Option<Duration>,
    jit: bool,
}

impl Assembler {
    /// Assemblers, the first of which is used for schedules that name none, and a folder.
    #[must_use]
    pub const fn new(tools: Vec<Tool>, cache: Option<CubinCache>) -> Self {
        Self {
            tools,
            cache,
            deadline: None,
            jit: false,
        }
    }

    /// No assembler: the driver compiles the PTX. A fallback that whoever takes it must announce.
    #[must_use]
    pub const fn driver_jit() -> Self {
        Self {
            tools: vec![],
            cache: None,
            deadline: None,
            jit: true,
        }
    }

    /// Kills assemblers after this time instead of the tools' own default.
    #[must_use]
    pub const fn with_deadline(mut self, deadline: Duration) -> Self {
        self.deadline = Some(deadline);
        self
    }

    #[must_use]
    pub const fn cache(&self) -> Option<&CubinCache> {
        self.cache.as_ref()
    }

    /// The cubin of a PTX text.
    ///
    /// # Errors
    /// No cubin and no assembler, a refusal of the assembler, or a broken folder.
    pub fn assemble(&self, ptx: &str, arch: &str, choice: &AssemblerChoice) -> Result<AssembledImage, AssemblyError> {
        if self.jit {
            return left_to_the_driver(ptx, arch, choice);
        }
        let version = self.version(choice)?;
        let key = cache::key(ptx, arch, &version, &choice.options);
        if let Some(cache) = &self.cache
            && let Some((cubin, facts)) = cache.get(&key)?
        {
            let cached = true;
            return Ok(AssembledImage { cubin, facts, cached });
        }
        let tools = self.tools.iter().find(|ptxas| ptxas.version == version);
        let tools = tools.ok_or_else(|| self.no_assembler(&key, &version))?;
        let image = self.run(tools, ptx, arch, choice)?;
        if let Some(cache) = &self.cache {
            cache.put(&key, &image.cubin, &image.facts)?;
        }
        Ok(image)
    }

    fn run(
        &self,
        ptxas: &Tool,
        ptx: &str,
        arch: &str,
        choice: &AssemblerChoice,
    ) -> Result<AssembledImage, AssemblyError> {
        let mut request = AssembleRequest::new(ptx, arch);
        request.opt_level = OPT_LEVEL;
        request.extra_options = &choice.options;
        if let Some(deadline) = self.deadline {
            request.deadline = deadline;
        }
        let assembled = tools::assemble::assemble(ptxas, &request)?.accept()?;
        let functions = &assembled.resources.functions;
        let most = |field: fn(&tools::EntryResources) -> u32| functions.iter().map(field).max().unwrap_or(0);
        let facts = AssemblyFacts {
            ptx_blake3: hex(ptx.as_bytes()),
            cubin_blake3: hex(&assembled.cubin),
            arch: arch.to_owned(),
            ptxas_version: assembled.ptxas_version.clone(),
            options: choice.options.clone(),
            registers: most(|f| f.registers),
            spill_store_bytes: most(|f| f.spill_store_bytes),
            spill_load_bytes: most(|f| f.spill_load_bytes),
            remarks: assembled.remarks().map(ToString::to_string).collect(),
        };
        Ok(AssembledImage {
            cubin: assembled.cubin,
            facts,
            cached: false,
        })
    }

    /// The version a schedule names, else that of the first assembler without the register-operand hazard, else the
    /// project's default: an old assembler that happens to be on the PATH is never taken by itself.
    fn version(&self, choice: &AssemblerChoice) -> Result<String, AssemblyError> {
        let named = |ptxas: &Tool| ptxas.origin != Origin::Path;
        let sound = self
            .tools
            .iter()
            .find(|ptxas| named(ptxas) || !ptxas.has_register_operand_hazard());
        match (&choice.version, sound) {
            (Some(asked), _) => match asked.parse::<PtxasVersion>() {
                Ok(known) => Ok(known.as_str().to_owned()),
                Err(_) => Err(AssemblyError::UnknownVersion { asked: asked.clone() }),
            },
            (None, Some(ptxas)) => Ok(ptxas.version.clone()),
            (None, None) => Ok(PtxasVersion::default().as_str().to_owned()),
        }
    }

    fn no_assembler(&self, key: &str, version: &str) -> AssemblyError {
        let found = self
            .tools
            .iter()
            .map(|ptxas| ptxas.version.as_str())
            .collect::<Vec<_>>();
        AssemblyError::NoAssembler {
            key: key.to_owned(),
            version: version.to_owned(),
            folder: match &self.cache {
                Some(cache) => cache.folder().display().to_string(),
                None => "any folder (none was given)".to_owned(),
            },
            found: if found.is_empty() {
                "none".to_owned()
            } else {
                found.join(", ")
            },
        }
    }
}

/// An image without code: what the driver will compile.
fn left_to_the_driver(ptx: &str, arch: &str, choice: &AssemblerChoice) -> Result<AssembledImage, AssemblyError> {
    let asked = choice
        .version
        .iter()
        .chain(&choice.options)
        .cloned()
        .collect::<Vec<_>>();
    if !asked.is_empty() {
        return Err(AssemblyError::JitTakesNone { asked: asked.join(" ") });
    }
    let facts = AssemblyFacts {
        ptx_blake3: hex(ptx.as_bytes()),
        arch: arch.to_owned(),
        ptxas_version: DRIVER_JIT.to_owned(),
        ..AssemblyFacts::default()
    };
    Ok(AssembledImage {
        cubin: vec![],
        facts,
        cached: false,
    })
}

/// BLAKE3 of bytes, hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

//! Decides which binary runs: explicit path, environment, tools folder, fetch, then `PATH`.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use crate::assemble::{AssembleError, AssembleRequest, Assembled, assemble};
use crate::child::{ChildError, ChildRequest, run};
use crate::fetch::{self, FetchError};
use crate::pins::{self, PtxasVersion, ToolKind};
use crate::sass::{Sass, SassError, disassemble};

/// Names the tools folder.
pub const FOLDER_ENV: &str = "WARPWRIGHT_TOOLS";
/// Any value but `0` forbids fetching.
pub const OFFLINE_ENV: &str = "WARPWRIGHT_OFFLINE";

const VERSION_DEADLINE: Duration = Duration::from_secs(20);

/// What the caller wants; the default asks for the pinned default versions and may fetch.
#[derive(Debug, Clone, Default)]
pub struct ResolveOptions {
    /// An assembler named on the command line; it wins over everything.
    pub ptxas_path: Option<PathBuf>,
    /// The assembler version a schedule names; nothing means the default, which `PATH` may stand in for.
    pub ptxas_version: Option<PtxasVersion>,
    /// Never fetch. The environment can forbid it too.
    pub offline: bool,
    /// The tools folder; nothing means [`default_folder`].
    pub folder: Option<PathBuf>,
}

impl ResolveOptions {
    /// The tools folder these options mean.
    #[must_use]
    pub fn tools_folder(&self) -> PathBuf {
        self.folder.clone().unwrap_or_else(default_folder)
    }

    /// Whether fetching is forbidden, by the options or by the environment.
    #[must_use]
    pub fn is_offline(&self) -> bool {
        self.offline || env::var_os(OFFLINE_ENV).is_some_and(|value| !value.is_empty() && value != "0")
    }
}

/// Where a binary was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Named by the caller.
    Explicit,
    /// Named by an environment variable.
    Environment,
    /// The pinned binary of the tools folder.
    Folder,
    /// Found on `PATH`: any version.
    Path,
}

/// One binary that answered `--version`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Tool {
    /// Which program it is.
    pub kind: ToolKind,
    /// Its absolute path.
    pub path: PathBuf,
    /// Its version as it prints it, e.g. `13.5.37`.
    pub version: String,
    /// Where it was found.
    pub origin: Origin,
}

/// The three programs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ToolSet {
    /// PTX to cubin.
    pub ptxas: Tool,
    /// Cubin to SASS.
    pub nvdisasm: Tool,
    /// Cubin to SASS as well; it runs `nvdisasm` itself.
    pub cuobjdump: Tool,
}

/// Why a tool cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    /// Nothing was found and fetching was not allowed or failed.
    #[error(
        "no {tool} {version}: not named by {env}, not in {}, {fetch}, {path}; run `cargo xtask tools` with a network, \
         or name the binary by {env}", folder.display(), env = tool.env_var()
    )]
    NotFound {
        /// The tool.
        tool: ToolKind,
        /// The version asked for.
        version: &'static str,
        /// The tools folder looked into.
        folder: PathBuf,
        /// Why it was not fetched.
        fetch: String,
        /// What `PATH` held.
        path: String,
    },
    /// A binary is there but is not the pinned one, or the folder is broken.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// A named binary does not exist, or nobody may execute it.
    #[error("{} named by {named_by} is not a file that can be executed", path.display())]
    NotAProgram {
        /// The path.
        path: PathBuf,
        /// Who named it.
        named_by: &'static str,
    },
    /// A binary does not run.
    #[error(transparent)]
    Child(#[from] ChildError),
    /// A binary ran but did not say its version.
    #[error("{} --version names no version; it printed: {printed}", path.display())]
    NoVersion {
        /// The path.
        path: PathBuf,
        /// Its output.
        printed: String,
    },
    /// A named binary has another version than the schedule asks for.
    #[error("{tool} {asked} was asked for, {} is {found}; name another binary or drop the version", path.display())]
    WrongVersion {
        /// The tool.
        tool: ToolKind,
        /// The version asked for.
        asked: &'static str,
        /// The version found.
        found: String,
        /// Where.
        path: PathBuf,
    },
    /// No scratch folder could be made.
    #[error("cannot make a scratch folder: {0}")]
    Scratch(std::io::Error),
}

impl ToolSet {
    /// Finds the three tools, fetching what is missing unless offline.
    ///
    /// # Errors
    /// When one of them cannot be had; the text says what was tried and which command would help.
    pub fn resolve(options: &ResolveOptions) -> Result<Self, ToolError> {
        Ok(Self {
            ptxas: resolve(ToolKind::Ptxas, options)?,
            nvdisasm: resolve(ToolKind::Nvdisasm, options)?,
            cuobjdump: resolve(ToolKind::Cuobjdump, options)?,
        })
    }

    /// Assembles PTX; see [`assemble`].
    ///
    /// # Errors
    /// When the request is illegal, the assembler refuses the text, or the deadline passes.
    pub fn assemble(&self, request: &AssembleRequest<'_>) -> Result<Assembled, AssembleError> {
        assemble(&self.ptxas, request)
    }

    /// Disassembles a cubin; see [`disassemble`].
    ///
    /// # Errors
    /// When the disassembler refuses the bytes or prints what cannot be read.
    pub fn disassemble(&self, cubin: &[u8], deadline: Duration) -> Result<Sass, SassError> {
        disassemble(self, ToolKind::Nvdisasm, cubin, deadline)
    }
}

impl Tool {
    /// Runs `--version` of a binary and takes it as the tool.
    ///
    /// # Errors
    /// When it does not run or names no version.
    pub fn at(kind: ToolKind, path: &Path, origin: Origin) -> Result<Self, ToolError> {
        let scratch = tempfile::tempdir().map_err(ToolError::Scratch)?;
        let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let request = ChildRequest {
            program: &path,
            args: vec!["--version".into()],
            env: Vec::new(),
            folder: scratch.path(),
            deadline: VERSION_DEADLINE,
        };
        let output = run(&request)?;
        match parse_version(&output.stdout) {
            Some(version) => Ok(Self {
                kind,
                version,
                origin,
                path,
            }),
            None => Err(ToolError::NoVersion {
                path,
                printed: format!("{}{}", output.stdout, output.stderr),
            }),
        }
    }

    /// Whether this assembler may break loops of pipelined wgmma with A in registers (every release before 13.3).
    ///
    /// An unreadable version counts as old.
    #[must_use]
    pub fn has_register_operand_hazard(&self) -> bool {
        let mut numbers = self.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let release = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        self.kind == ToolKind::Ptxas && release < (13, 3)
    }
}

/// `release 13.5, V13.5.37` names `13.5.37`.
fn parse_version(printed: &str) -> Option<String> {
    printed
        .split([' ', ',', '\n'])
        .filter_map(|word| word.strip_prefix('V'))
        .find(|word| word.contains('.') && word.chars().all(|c| c.is_ascii_digit() || c == '.'))
        .map(str::to_owned)
}

/// Finds one tool.
///
/// # Errors
/// When it cannot be had, or when a named binary is not what was asked for. A file in the tools folder whose hash is not
/// the pinned one is an error, never a reason to look further.
pub fn resolve(kind: ToolKind, options: &ResolveOptions) -> Result<Tool, ToolError> {
    if let Some(tool) = resolve_named(kind, options)? {
        return Ok(tool);
    }
    let pin = pins::pin(kind, options.ptxas_version.unwrap_or_default());
    let folder = options.tools_folder();
    if let Some(path) = fetch::installed(&folder, &pin)? {
        return Tool::at(kind, &path, Origin::Folder);
    }
    let not_fetched = if options.is_offline() {
        "fetching is off".to_owned()
    } else {
        match fetch::ensure(&folder, &pin) {
            Ok(path) => return Tool::at(kind, &path, Origin::Folder),
            Err(error @ FetchError::Checksum { .. }) => return Err(error.into()),
            Err(error) => error.to_string(),
        }
    };
    resolve_on_path(kind, options).map_err(|path| ToolError::NotFound {
        tool: kind,
        version: pin.version,
        folder,
        fetch: not_fetched,
        path,
    })
}

/// A binary named by the caller or the environment.
fn resolve_named(kind: ToolKind, options: &ResolveOptions) -> Result<Option<Tool>, ToolError> {
    let explicit = options.ptxas_path.as_ref().filter(|_| kind == ToolKind::Ptxas);
    let (path, origin, named_by) = match (explicit, env::var_os(kind.env_var())) {
        (Some(path), _) => (path.clone(), Origin::Explicit, "--ptxas"),
        (None, Some(path)) if !path.is_empty() => (PathBuf::from(path), Origin::Environment, kind.env_var()),
        _ => return Ok(None),
    };
    let is_program = |m: std::fs::Metadata| m.is_file() && m.permissions().mode() & 0o111 != 0;
    if !path.metadata().is_ok_and(is_program) {
        return Err(ToolError::NotAProgram { path, named_by });
    }
    let tool = Tool::at(kind, &path, origin)?;
    match asked_version(kind, options) {
        Some(asked) if asked != tool.version => Err(ToolError::WrongVersion {
            tool: kind,
            asked,
            found: tool.version,
            path,
        }),
        _ => Ok(Some(tool)),
    }
}

/// The version that must be met exactly: only an assembler version named by the caller.
fn asked_version(kind: ToolKind, options: &ResolveOptions) -> Option<&'static str> {
    options
        .ptxas_version
        .filter(|_| kind == ToolKind::Ptxas)
        .map(PtxasVersion::as_str)
}

/// The first usable binary of `PATH`, or why there is none.
fn resolve_on_path(kind: ToolKind, options: &ResolveOptions) -> Result<Tool, String> {
    let search = env::var_os("PATH").unwrap_or_default();
    let mut reasons = Vec::new();
    for candidate in env::split_paths(&search)
        .map(|folder| folder.join(kind.program()))
        .filter(|path| path.is_file())
    {
        match Tool::at(kind, &candidate, Origin::Path) {
            Ok(tool) if asked_version(kind, options).is_none_or(|asked| asked == tool.version) => return Ok(tool),
            Ok(tool) => reasons.push(format!("{} is {}", candidate.display(), tool.version)),
            Err(error) => reasons.push(error.to_string()),
        }
    }
    Err(if reasons.is_empty() {
        "not on PATH".to_owned()
    } else {
        format!("on PATH {}", reasons.join("; "))
    })
}

/// The tools folder: `WARPWRIGHT_TOOLS`, else `.tools` beside the workspace manifest above the current folder, else the
/// user's cache folder.
#[must_use]
pub fn default_folder() -> PathBuf {
    if let Some(folder) = env::var_os(FOLDER_ENV).filter(|folder| !folder.is_empty()) {
        return PathBuf::from(folder);
    }
    env::current_dir()
        .ok()
        .and_then(|here| workspace_above(&here))
        .map_or_else(cache_folder, |root| root.join(".tools"))
}

fn workspace_above(start: &Path) -> Option<PathBuf> {
    let is_workspace = |folder: &Path| {
        fs::read_to_string(folder.join("Cargo.toml"))
            .is_ok_and(|manifest| manifest.lines().any(|line| line.trim() == "[workspace]"))
    };
    start
        .ancestors()
        .find(|folder| is_workspace(folder))
        .map(Path::to_owned)
}

fn cache_folder() -> PathBuf {
    let cache = env::var_os("XDG_CACHE_HOME")
        .filter(|folder| !folder.is_empty())
        .map(PathBuf::from);
    let home_cache = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    cache
        .or_else(home_cache)
        .unwrap_or_else(env::temp_dir)
        .join("warpwright")
        .join("tools")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_the_tools_print() {
        let printed = "ptxas: NVIDIA (R) Ptx optimizing assembler\nCuda compilation tools, release 13.5, V13.5.37\n";
        assert_eq!(parse_version(printed).as_deref(), Some("13.5.37"));
        assert_eq!(parse_version("Version 3\n"), None);
    }

    #[test]
    fn the_hazard_is_told_by_the_release() {
        let tool = |version: &str| Tool {
            kind: ToolKind::Ptxas,
            path: PathBuf::new(),
            version: version.to_owned(),
            origin: Origin::Path,
        };
        assert!(tool("12.9.86").has_register_operand_hazard());
        assert!(tool("13.0.88").has_register_operand_hazard());
        assert!(tool("strange").has_register_operand_hazard());
        assert!(!tool("13.3.1").has_register_operand_hazard());
        assert!(!tool("14.0.1").has_register_operand_hazard());
    }
}

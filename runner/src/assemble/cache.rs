//! A folder of cubins, found by the content of what made them.
//!
//! `KEY.cubin` holds the machine code and `KEY.json` what the assembler said. Files appear whole (written aside, then
//! renamed), the description last; the code is compared with the hash in its description on every read.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{AssemblyFacts, hex};

/// Why the folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    #[error("{} is not the description of a cubin: {source}; allowed: delete it and prepare again", path.display())]
    Description { path: PathBuf, source: serde_json::Error },
    #[error("{} has hash {found}, its description says {wanted}; allowed: delete both and prepare again", path.display())]
    Changed {
        path: PathBuf,
        found: String,
        wanted: String,
    },
}

/// The folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CubinCache {
    folder: PathBuf,
}

/// The name of a cubin: a hash over everything that decides its bytes, each part with its length.
pub(super) fn key(ptx: &str, arch: &str, version: &str, options: &[String]) -> String {
    let mut hasher = blake3::Hasher::new();
    let fixed = ["warpwright cubin 1", ptx, arch, version];
    for part in fixed.into_iter().chain(options.iter().map(String::as_str)) {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().to_hex().to_string()
}

impl CubinCache {
    /// A folder, made if it is not there.
    ///
    /// # Errors
    /// If it cannot be made.
    pub fn open(folder: &Path) -> Result<Self, CacheError> {
        fs::create_dir_all(folder).map_err(io_error("make the folder", folder))?;
        Ok(Self {
            folder: folder.to_owned(),
        })
    }

    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The cubin of that key, if it is here.
    pub(super) fn get(&self, key: &str) -> Result<Option<(Vec<u8>, AssemblyFacts)>, CacheError> {
        let (code, description) = self.paths(key);
        let Some(text) = read(&description)? else {
            return Ok(None);
        };
        let facts: AssemblyFacts = serde_json::from_slice(&text).map_err(|source| CacheError::Description {
            path: description,
            source,
        })?;
        let Some(cubin) = read(&code)? else {
            return Ok(None);
        };
        let found = hex(&cubin);
        if found == facts.cubin_blake3 {
            return Ok(Some((cubin, facts)));
        }
        Err(CacheError::Changed {
            path: code,
            found,
            wanted: facts.cubin_blake3,
        })
    }

    pub(super) fn put(&self, key: &str, cubin: &[u8], facts: &AssemblyFacts) -> Result<(), CacheError> {
        let (code, description) = self.paths(key);
        let text = serde_json::to_vec_pretty(facts).map_err(|source| CacheError::Description {
            path: description.clone(),
            source,
        })?;
        self.write(&code, cubin)?;
        self.write(&description, &text)
    }

    fn paths(&self, key: &str) -> (PathBuf, PathBuf) {
        let path = |ending: &str| self.folder.join(format!("{key}.{ending}"));
        (path("cubin"), path("json"))
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> Result<(), CacheError> {
        let written = tempfile::NamedTempFile::new_in(&self.folder).and_then(|mut file| {
            file.write_all(bytes)?;
            Ok(file)
        });
        let file = written.map_err(io_error("write beside", path))?;
        match file.persist(path) {
            Ok(_) => Ok(()),
            Err(error) => Err(io_error("write", path)(error.error)),
        }
    }
}

fn read(path: &Path) -> Result<Option<Vec<u8>>, CacheError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(io_error("read", path)(error)),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CacheError {
    let path = path.to_owned();
    move |source| CacheError::Io { action, path, source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_the_key_counts_and_parts_do_not_run_together() {
        let options = |list: &[&str]| list.iter().map(|o| (*o).to_owned()).collect::<Vec<_>>();
        let keys = [
            key("a", "sm_90a", "13.5.37", &[]),
            key("b", "sm_90a", "13.5.37", &[]),
            key("a", "sm_90", "13.5.37", &[]),
            key("a", "sm_90a", "13.0.88", &[]),
            key("a", "sm_90a", "13.5.37", &options(&["xy"])),
            key("a", "sm_90a", "13.5.37", &options(&["x", "y"])),
            key("as", "m_90a", "13.5.37", &[]),
        ];
        let distinct: std::collections::BTreeSet<_> = keys.iter().collect();
        assert_eq!(distinct.len(), keys.len());
    }

    #[test]
    fn what_was_put_comes_back_and_a_changed_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CubinCache::open(folder.path()).unwrap();
        assert!(cache.get("k").unwrap().is_none());
        let facts = AssemblyFacts {
            cubin_blake3: hex(b"code"),
            registers: 168,
            ..AssemblyFacts::default()
        };
        cache.put("k", b"code", &facts).unwrap();
        assert_eq!(cache.get("k").unwrap(), Some((b"code".to_vec(), facts)));
        fs::write(folder.path().join("k.cubin"), b"cods").unwrap();
        assert!(matches!(cache.get("k"), Err(CacheError::Changed { .. })));
        fs::write(folder.path().join("k.json"), b"{}x").unwrap();
        assert!(matches!(cache.get("k"), Err(CacheError::Description { .. })));
    }
}

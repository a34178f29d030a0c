//! Files of the user: bounded reads, whole writes, refusals that name the path.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::failure::Failure;

/// More than any schedule or problem list needs; keeps a wrong path (a device, a model) from being swallowed.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a text file that an option names.
pub fn read(option: &str, path: &Path) -> Result<String, Failure> {
    let refuse = |fact: String| {
        let name = path.display().to_string();
        Failure::refused(format!("cannot read {name}: {fact}")).reason(
            option,
            name,
            fact,
            "a text file that can be read",
        )
    };
    let file = File::open(path).map_err(|e| refuse(e.to_string()))?;
    let mut bytes = vec![];
    file.take(MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| refuse(e.to_string()))?;
    if bytes.len() as u64 > MAX_BYTES {
        return Err(refuse(format!("it is longer than {MAX_BYTES} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| refuse(format!("it is not UTF-8 (byte {})", e.utf8_error().valid_up_to())))
}

/// Refuses a file that is standard output, where the answer goes too: one stream cannot hold both.
pub fn apart_from_answer(option: &str, path: &Path, as_json: bool) -> Result<(), Failure> {
    if !is_standard_output(path) {
        return Ok(());
    }
    let (message, fact, allowed) = if as_json {
        (
            format!("`{option}` and `--json` both write to standard output"),
            "standard output holds the one object of `--json`",
            "a file of its own, or no `--json`",
        )
    } else {
        (
            format!("`{option}` and the answer both write to standard output"),
            "standard output holds the answer of this command",
            "a file of its own",
        )
    };
    Err(Failure::refused(message).reason(option, path.display().to_string(), fact, allowed))
}

/// Whether a path leads to standard output, by whatever name. `/dev/null` takes anything from anyone.
fn is_standard_output(path: &Path) -> bool {
    let identity = |m: std::fs::Metadata| (m.dev(), m.ino());
    let of = |path: &Path| std::fs::metadata(path).map(identity).ok();
    let ours = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    let ours = ours.and_then(|file| file.metadata()).map(identity).ok();
    ours.is_some() && ours == of(path) && ours != of(Path::new("/dev/null"))
}

/// Writes a file that an option names, replacing what was there.
pub fn write(option: &str, path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| unwritable(option, path, &e))
}

/// Refuses a file that cannot be appended to, before there is anything to append; a new one is created.
pub fn appendable(option: &str, path: &Path) -> Result<(), Failure> {
    let opened = File::options().create(true).append(true).open(path);
    opened.map(drop).map_err(|e| unwritable(option, path, &e))
}

/// The refusal of a file that cannot be written.
pub fn unwritable(option: &str, path: &Path, error: &io::Error) -> Failure {
    let name = path.display().to_string();
    let failure = Failure::refused(format!("cannot write {name}: {error}"));
    failure.reason(
        option,
        name,
        error.to_string(),
        "a file that can be written, in a folder that exists",
    )
}

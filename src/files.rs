//! Files of the user: bounded reads, whole writes, refusals that name the path.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::failure::Failure;

/// More than any schedule or problem list needs; keeps a wrong path (a device, a model) from being swallowed.
const MAX_BYTES: u64 = 1 << 20;

/// Reads a text file.
pub fn read(path: &Path) -> Result<String, Failure> {
    let refuse = |fact: String| Failure::refused(format!("cannot read {}: {fact}", path.display()));
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

/// Writes a file, replacing what was there.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| Failure::refused(format!("cannot write {}: {e}", path.display())))
}

//! Runs the built binary and reads what it says.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;

/// The problems that the tests use most.
pub const ATTENTION: &str = "fwd bf16 b2 s4096x1024 h32/8 d128 causal";
pub const GEMM: &str = "gemm bf16 m512 n512 k256 nt";
pub const SOFTMAX: &str = "softmax f16 m64 n1000";

/// What a run of the binary left behind.
#[derive(Debug)]
pub struct Ran {
    pub code: i32,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

impl Ran {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Standard output as JSON; nothing may stand beside it.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.stdout).unwrap_or_else(|e| panic!("{e}: {self:?}"))
    }

    /// Passes a run that ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "stdout:\n{}\nstderr:\n{}", self.text(), self.stderr);
        self
    }

    /// The JSON of a refusal; the exit code inside is the process's.
    #[track_caller]
    pub fn refused(self, code: i32) -> Value {
        let json = self.exits(code).json();
        assert_eq!(json["ok"], false);
        assert_eq!(json["exit_code"], code);
        json["error"].clone()
    }
}

/// Runs the binary.
pub fn warpwright(args: &[&str]) -> Ran {
    run(Command::new(env!("CARGO_BIN_EXE_warpwright")).args(args))
}

/// Runs a prepared command.
pub fn run(command: &mut Command) -> Ran {
    let output = command.output().expect("the binary starts");
    Ran {
        // A signal has no code; no documented code is negative.
        code: output.status.code().unwrap_or(-1),
        stdout: output.stdout,
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A folder with files in it, gone with the value.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a scratch folder"))
    }

    pub fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("a UTF-8 path").to_owned()
    }

    pub fn file(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        std::fs::write(self.path(name), text).expect("the scratch folder can be written");
        self.path(name)
    }

    /// An executable script.
    pub fn script(&self, name: &str, text: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name, format!("#!/bin/sh\n{text}\n"));
        std::fs::set_permissions(PathBuf::from(&path), std::fs::Permissions::from_mode(0o755)).expect("executable");
        path
    }
}

/// Whether the error names this key with this text in one of its fields.
#[track_caller]
pub fn assert_reason(error: &Value, key: &str, asked: &str, allowed: &str) {
    let reasons = error["reasons"].as_array().expect("reasons are a list");
    let fits = |r: &&Value| r["key"] == key;
    let reason = reasons
        .iter()
        .find(fits)
        .unwrap_or_else(|| panic!("no reason for {key}: {error:#}"));
    let field = |name: &str| reason[name].as_str().unwrap_or_default().to_owned();
    assert!(field("asked").contains(asked), "asked: {reason:#}");
    assert!(field("allowed").contains(allowed), "allowed: {reason:#}");
    assert!(!field("true").is_empty(), "true: {reason:#}");
}

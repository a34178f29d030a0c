//! `cargo xtask try`: the main job. On a GPU it verifies a tuned kernel; without one it checks it and compiles it.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, bail};

const PROBLEM: &str = "fwd bf16 b2 s4096 h32/8 d128 causal";
/// The CLI's exit code for "no device" (docs/cli.md).
const NO_DEVICE: i32 = 4;

/// Runs the main job.
pub fn run(root: &Path) -> anyhow::Result<ExitCode> {
    println!("problem: {PROBLEM}\nbuilding warpwright first, a few minutes on a fresh machine");
    if warpwright(root, &["run", "--problem", PROBLEM])? == 0 {
        return Ok(ExitCode::SUCCESS);
    }
    let out = root.join("target").join("try.cubin");
    let out = out.to_str().context("the target folder's path is not UTF-8")?;
    println!("\nchecking and compiling it instead:");
    for args in [
        &["check", "--problem", PROBLEM][..],
        &["compile", "--problem", PROBLEM, "--emit", "cubin", "--out", out][..],
    ] {
        if warpwright(root, args)? != 0 {
            bail!("warpwright {} failed", args.join(" "));
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs the CLI; its exit code when that is success or "no device", an error otherwise.
fn warpwright(root: &Path, args: &[&str]) -> anyhow::Result<i32> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(cargo);
    command
        .current_dir(root)
        .args(["run", "--bin", "warpwright", "--"])
        .args(args);
    let status = command.status().context("cargo did not start")?;
    match status.code() {
        Some(code @ (0 | NO_DEVICE)) => Ok(code),
        code => bail!("warpwright {} ended with {code:?}", args.join(" ")),
    }
}

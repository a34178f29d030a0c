//! `cargo xtask goldens`: accepts what the golden tests produce. Golden tests have `golden` in their path.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

pub fn run(root: &Path, args: &[String]) -> anyhow::Result<()> {
    let mut command = Command::new("cargo");
    command
        .current_dir(root)
        .env("INSTA_UPDATE", "always")
        .args(["test", "--workspace"])
        .args(args)
        .arg("golden");
    let status = command.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("the golden tests failed for another reason than a difference");
    }
    println!("golden files rewritten; look at `git diff` before you commit them");
    Ok(())
}

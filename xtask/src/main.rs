//! The project's chores: `cargo xtask try | test | tools | tidy | goldens`.

mod goldens;
mod main_job;
mod steps;
mod summary;
mod test;
mod tidy;
mod tool_setup;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  try                     the main job: run a tuned kernel on a GPU, or check and compile it without one
  tools [VERSION...]      fetch the pinned assembler and disassemblers; VERSION names further assembler versions, or 'all'
  test [--require-tools]  everything a change must pass: format, lints, docs, house rules, doc tests, tests
  tidy                    the house rules only
  goldens [ARGS...]       rewrite the golden files from what the tests produce; ARGS go to `cargo test`
";

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let command = args.next().unwrap_or_default();
    let rest: Vec<String> = args.collect();
    match dispatch(&command, &rest) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &str, args: &[String]) -> anyhow::Result<ExitCode> {
    let root = workspace_root()?;
    match command {
        "try" => return main_job::run(&root),
        "tools" => tool_setup::run(args)?,
        "test" => return test::run(&root, args),
        "tidy" => tidy::run(&root)?,
        "goldens" => goldens::run(&root, args)?,
        _ => bail!("no command '{command}'\n\n{USAGE}"),
    }
    Ok(ExitCode::SUCCESS)
}

/// The folder of the workspace manifest: the parent of this package, wherever it was checked out.
fn workspace_root() -> anyhow::Result<PathBuf> {
    let package = std::env::var("CARGO_MANIFEST_DIR").context("run this as `cargo xtask`")?;
    let root = Path::new(&package).parent().context("xtask has no parent folder")?;
    Ok(root.to_owned())
}

//! `cargo xtask test`: the one test command. Its last line is the test runner's own summary.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::bail;
use tools::testing::{REQUIRE_ENV, SKIP_LOG_ENV, tools_are_required};
use tools::{ResolveOptions, ToolSet};

use crate::steps::Steps;
use crate::{summary, tidy};

const SKIP_LOG: &str = "warpwright-skipped.txt";

pub fn run(root: &Path, args: &[String]) -> anyhow::Result<ExitCode> {
    let mut are_tools_required = tools_are_required();
    for arg in args {
        match arg.as_str() {
            "--require-tools" => are_tools_required = true,
            _ => bail!("no option '{arg}'; `cargo xtask test` takes --require-tools"),
        }
    }
    let mut steps = Steps::default();
    let have_tools = set_up_tools(&mut steps, are_tools_required);
    let environment = Environment {
        are_tools_required,
        have_tools,
        skip_log: std::env::temp_dir().join(skip_log_name()),
    };
    steps.command("format", root, cargo(&environment).args(["fmt", "--all", "--check"]));
    let lint = [
        "clippy",
        "--quiet",
        "--workspace",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    steps.command("lints", root, cargo(&environment).args(lint));
    fuzz_targets(&mut steps, root, &environment);
    let docs = ["doc", "--quiet", "--workspace", "--no-deps"];
    let mut rustdoc = cargo(&environment);
    steps.command("docs", root, rustdoc.args(docs).env("RUSTDOCFLAGS", "-D warnings"));
    steps.check("house rules", || tidy::run(root));
    let mut summaries = vec![peers_tests(&mut steps, root)];
    let doc_tests = steps.command(
        "doc tests",
        root,
        cargo(&environment).args(["test", "--doc", "--workspace"]),
    );
    summaries.push(summary::of_cargo_test(&doc_tests).map(|line| format!("doc tests: {line}")));
    let runner_summary = rust_tests(&mut steps, root, &environment);
    Ok(report(&steps, &environment, summaries, runner_summary))
}

struct Environment {
    are_tools_required: bool,
    have_tools: bool,
    skip_log: std::path::PathBuf,
}

/// One log per run, so that two checkouts can be tested at once.
fn skip_log_name() -> String {
    format!("{}-{SKIP_LOG}", std::process::id())
}

fn cargo(environment: &Environment) -> Command {
    let mut command = Command::new("cargo");
    // A difference to a golden file fails the test and writes nothing.
    command
        .env("INSTA_UPDATE", "no")
        .env(SKIP_LOG_ENV, &environment.skip_log)
        .env("CARGO_TERM_COLOR", "never");
    if environment.are_tools_required {
        command.env(REQUIRE_ENV, "1");
    }
    if !environment.have_tools {
        // Tried once; every test trying again would only cost time.
        command.env(tools::resolve::OFFLINE_ENV, "1");
    }
    command
}

/// The fuzz targets are a workspace of their own; checked, not linked, they need no C++ compiler.
fn fuzz_targets(steps: &mut Steps, root: &Path, environment: &Environment) {
    let args = ["check", "--quiet", "--locked", "--manifest-path", "fuzz/Cargo.toml"];
    let mut command = cargo(environment);
    // With a library of one's own named, libfuzzer-sys builds none.
    command.env("CUSTOM_LIBFUZZER_PATH", root.join("fuzz").join("unlinked.a"));
    steps.command("fuzz targets", root, command.args(args));
}

/// Fetches the assembler before any test needs it. Without it the tests that need it are skipped, unless required.
fn set_up_tools(steps: &mut Steps, are_required: bool) -> bool {
    let found = ToolSet::resolve(&ResolveOptions::default());
    let have_tools = found.is_ok();
    steps.check("tools", || match found {
        Ok(set) => {
            println!("ptxas {} at {}", set.ptxas.version, set.ptxas.path.display());
            Ok(())
        }
        Err(error @ tools::ToolError::NotFound { .. }) if !are_required => {
            println!("SKIP tests that need the assembler: {error}");
            Ok(())
        }
        Err(error) => Err(error.into()),
    });
    have_tools
}

/// The logic of the peers' benchmark, which needs Python but neither torch nor a GPU.
fn peers_tests(steps: &mut Steps, root: &Path) -> Option<String> {
    let folder = root.join("benches").join("peers");
    let mut command = Command::new("python3");
    command.args([
        "-B",
        "-m",
        "unittest",
        "discover",
        "--start-directory",
        ".",
        "--pattern",
        "test_*.py",
    ]);
    let output = steps.command("peers' logic (python)", &folder, &mut command);
    summary::of_unittest(&output).map(|line| format!("python: {line}"))
}

/// All tests of the workspace, with cargo-nextest when it is there.
fn rust_tests(steps: &mut Steps, root: &Path, environment: &Environment) -> Option<String> {
    let has_nextest = Command::new("cargo")
        .args(["nextest", "--version"])
        .output()
        .is_ok_and(|out| out.status.success());
    if has_nextest {
        let args = ["nextest", "run", "--workspace", "--no-fail-fast"];
        let output = steps.command("tests (cargo nextest)", root, cargo(environment).args(args));
        return summary::of_nextest(&output);
    }
    println!("cargo-nextest is not installed: using cargo test");
    let args = ["test", "--workspace", "--lib", "--bins", "--tests", "--no-fail-fast"];
    let output = steps.command("tests (cargo test)", root, cargo(environment).args(args));
    summary::of_cargo_test(&output)
}

/// Prints skipped tests, failed steps and, last, the runner's summary.
fn report(
    steps: &Steps,
    environment: &Environment,
    summaries: Vec<Option<String>>,
    runner_summary: Option<String>,
) -> ExitCode {
    println!();
    if let Ok(skipped) = std::fs::read_to_string(&environment.skip_log) {
        print!("{skipped}");
        // It lies in the temporary folder; leaving it there would do no harm either.
        let _left_behind = std::fs::remove_file(&environment.skip_log);
    }
    for line in summaries.into_iter().flatten() {
        println!("{line}");
    }
    if !steps.failed.is_empty() {
        println!("FAILED: {}", steps.failed.join(", "));
    }
    match runner_summary {
        Some(line) => println!("{line}"),
        None => println!("the test runner printed no summary: no test result"),
    }
    // The summary is the last line, so a failure is told by the exit code alone.
    if steps.failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

//! For tests that need the real tools: have them, skip visibly, or fail where they are required.

use std::env;
use std::fs::OpenOptions;
use std::io::Write;

use crate::resolve::{ResolveOptions, ToolError, ToolSet};

/// `CI=true` or this variable makes a missing tool a failure.
pub const REQUIRE_ENV: &str = "WARPWRIGHT_REQUIRE_TOOLS";
/// A file that gets one line per skipped test; the test command prints it, because runners hide what passing tests say.
pub const SKIP_LOG_ENV: &str = "WARPWRIGHT_SKIP_LOG";

/// The tools, or nothing after saying which test is skipped and why.
///
/// ```no_run
/// # fn example() -> Result<(), tools::ToolError> {
/// let Some(tools) = tools::testing::tools_or_skip("golden_ptx_assembles")? else { return Ok(()) };
/// # let _ = tools; Ok(()) }
/// ```
///
/// # Errors
/// When a tool is missing although the environment requires it, or a tool is there but is not the pinned one.
pub fn tools_or_skip(test: &str) -> Result<Option<ToolSet>, ToolError> {
    match ToolSet::resolve(&ResolveOptions::default()) {
        Ok(tools) => Ok(Some(tools)),
        Err(error @ ToolError::NotFound { .. }) if !tools_are_required() => {
            report_skip(test, &error.to_string());
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Whether a missing tool is a failure.
#[must_use]
pub fn tools_are_required() -> bool {
    let set = |name: &str| env::var_os(name).is_some_and(|value| value == "1" || value == "true");
    set(REQUIRE_ENV) || set("CI")
}

/// Says that a test did not run: on standard error and in the skip log when there is one.
pub fn report_skip(test: &str, reason: &str) {
    let line = format!("SKIP {test}: {reason}\n");
    // A closed stream or an unwritable log must not turn a skip into a failure.
    let _closed = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = env::var_os(SKIP_LOG_ENV) {
        let file = OpenOptions::new().create(true).append(true).open(log);
        let _unwritable = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

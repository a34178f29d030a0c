//! The command line: one file per subcommand under [`commands`], one way in and one way out here.

mod answer;
mod commands;
mod contest;
mod device;
mod exit;
mod failure;
mod files;
mod knobs;
mod peers;
mod predicted;
mod problem;
mod program;
mod render;
mod shape;
mod shipped;
mod subject;

use std::ffi::OsString;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use answer::{Answer, Lost};
use commands::Command;
use exit::Exit;
use failure::Failure;

/// Attention kernels in Rust as tile maths, with typed schedules, lowered to verified Hopper PTX.
#[derive(Parser, Debug)]
#[command(name = "warpwright", version, after_help = exit::HELP, max_term_width = 100)]
struct Cli {
    /// Print one JSON object instead of text: `{"ok": true, "command": ...}`; failures too.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // The default hook would print a backtrace hint; `guarded` turns a panic into a failure with its own text.
    std::panic::set_hook(Box::new(|_| {}));
    let cli = match Cli::try_parse_from(arguments()) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let name = cli.command.name();
    let exit = match guarded(|| cli.command.run(cli.json)) {
        Ok(answer) => answer.deliver(name, cli.json),
        Err(failure) => failure.deliver(name, cli.json),
    };
    exit.leave()
}

/// The arguments; `help` takes `--json` behind it too, which clap's own subcommand does not.
fn arguments() -> Vec<OsString> {
    let mut args: Vec<OsString> = std::env::args_os().collect();
    if args.get(1).is_some_and(|arg| arg == "help") {
        args.retain(|arg| arg != "--json");
    }
    args
}

/// Runs a command; a panic is a bug of ours and comes out as such.
fn guarded(run: impl FnOnce() -> Result<Answer, Failure>) -> Result<Answer, Failure> {
    catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(|s| (*s).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        Err(Failure::bug(format!(
            "panicked: {}",
            text.as_deref().unwrap_or("no message")
        )))
    })
}

/// Answers `--help` and `--version`, and refuses what is not on the command line's grammar.
fn usage(error: &clap::Error) -> ExitCode {
    // The arguments could not be parsed, so the flag has to be looked for.
    let is_json = std::env::args_os().any(|arg| arg == "--json");
    if matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) {
        if is_json {
            return about(error).into();
        }
        let printed = error.print().and_then(|()| std::io::stdout().flush());
        let exit = Lost::of(printed).map_or_else(|lost| lost.report(Exit::Done), |()| Exit::Done);
        return exit.into();
    }
    let name = std::env::args_os().nth(1).and_then(|arg| arg.into_string().ok());
    let name = name.filter(|name| Command::NAMES.contains(&name.as_str()));
    if !is_json {
        let _closed = error.print();
        return Exit::Refused.into();
    }
    let text = error.render().to_string();
    let failure = Failure::refused(text.trim_start_matches("error: ").trim_end());
    failure.deliver(name.as_deref().unwrap_or("warpwright"), true).into()
}

/// Help or version as one JSON object, as whoever asked for JSON reads it.
fn about(asked: &clap::Error) -> Exit {
    let text = asked.render().to_string();
    let answer = Answer::text(text.clone()).field("text", text);
    if asked.kind() == ErrorKind::DisplayVersion {
        return answer
            .field("version", env!("CARGO_PKG_VERSION"))
            .deliver("version", true);
    }
    answer.deliver("help", true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn a_panic_becomes_our_bug() {
        let Err(failure) = guarded(|| panic!("row {}", 7)) else {
            panic!("no failure")
        };
        assert_eq!(failure.exit(), Exit::Bug);
        assert!(failure.to_string().contains("row 7"), "{failure}");
    }
}

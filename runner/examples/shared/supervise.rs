//! The supervisor that the example programs share: starts workers from the program's own binary, replaces lost ones, prints
//! the table.
//!
//! A worker gets `--worker-from N --progress FILE`, does the entries from N on, and appends a [`Progress`] line for each.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

pub type AnyError = Box<dyn std::error::Error>;

/// What a worker says about one entry; the supervisor's table is made of these.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Progress {
    pub index: usize,
    pub problem: String,
    pub layout: String,
    pub outcome: String,
    pub text: String,
    pub wall_s: f64,
    /// Whether the worker ended itself after this entry.
    pub last: bool,
}

/// What is to be supervised.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    /// How many entries there are.
    pub entries: usize,
    /// Seconds a worker may go without finishing an entry.
    pub deadline_s: u64,
}

/// How often a worker is looked at.
const POLL: Duration = Duration::from_millis(100);
/// A finished driver start takes seconds; this much is added to the first deadline.
const START_UP: Duration = Duration::from_secs(60);

/// Has workers do every entry, then prints the table.
///
/// # Errors
/// If a worker cannot be started.
pub fn supervise(what: Watch) -> Result<bool, AnyError> {
    let folder = tempfile::tempdir()?;
    let progress = folder.path().join("progress.jsonl");
    let count = what.entries;
    let mut lost: BTreeMap<usize, &'static str> = BTreeMap::new();
    let mut from = 0;
    while from < count {
        let ended = watch(start(from, &progress)?, what, &progress)?;
        let next = read(&progress)
            .iter()
            .map(|entry| entry.index + 1)
            .max()
            .unwrap_or(0)
            .max(from);
        match ended {
            Ended::Well if next >= count => break,
            // The worker wrote its last entry and ended itself, or could not even begin.
            Ended::Well | Ended::Badly if next == from => {
                lost.insert(from, "the worker died");
                from += 1;
                if lost.len() == count || (from == 1 && read(&progress).is_empty()) {
                    break;
                }
            }
            Ended::Killed => {
                lost.insert(next, "killed: no entry finished before the deadline");
                from = next + 1;
            }
            Ended::Well | Ended::Badly => from = next,
        }
    }
    Ok(print_table(&read(&progress), &lost, count))
}

enum Ended {
    Well,
    Badly,
    Killed,
}

/// This program again, as a worker.
fn start(from: usize, progress: &Path) -> Result<Child, AnyError> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    command
        .arg("--worker-from")
        .arg(from.to_string())
        .arg("--progress")
        .arg(progress);
    Ok(command.spawn()?)
}

/// Waits for a worker while it makes progress.
fn watch(mut child: Child, what: Watch, progress: &Path) -> Result<Ended, AnyError> {
    let deadline = Duration::from_secs(what.deadline_s);
    let (mut seen, mut since, mut extra) = (read(progress).len(), Instant::now(), START_UP);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(if status.success() { Ended::Well } else { Ended::Badly });
        }
        let entries = read(progress);
        for entry in entries.iter().skip(seen) {
            print_entry(entry);
        }
        if entries.len() > seen {
            (seen, since, extra) = (entries.len(), Instant::now(), Duration::ZERO);
        }
        if since.elapsed() > deadline + extra {
            child.kill()?;
            child.wait()?;
            return Ok(Ended::Killed);
        }
        std::thread::sleep(POLL);
    }
}

fn read(progress: &Path) -> Vec<Progress> {
    let text = fs::read_to_string(progress).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

fn print_entry(entry: &Progress) {
    println!(
        "{:4} {:<12} {:6.1} s  {} ({})",
        entry.index, entry.outcome, entry.wall_s, entry.problem, entry.layout
    );
}

/// Prints what is not right in full, then one line per outcome. Whether everything is right.
fn print_table(entries: &[Progress], lost: &BTreeMap<usize, &'static str>, count: usize) -> bool {
    let is_right = |entry: &Progress| matches!(entry.outcome.as_str(), "verified" | "timed");
    println!("\n{:<52} {:<9} {:<13} result", "problem", "layout", "outcome");
    for entry in entries {
        println!(
            "{:<52} {:<9} {:<13} {}",
            entry.problem, entry.layout, entry.outcome, entry.text
        );
    }
    for (index, why) in lost {
        println!("entry {index}: {why}");
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(&entry.outcome).or_default() += 1;
    }
    let right = entries.iter().filter(|entry| is_right(entry)).count();
    println!("\n{right} of {count} right; {counts:?}, {} lost", lost.len());
    right == count
}

//! Faults planted into good kernels, and who finds them: the simulator on the PTX, the checker on the role program.
//!
//! ```text
//! planted_faults --out faults.txt                     every fault; every good kernel under 20 seeds
//! ```
//!
//! Edits of PTX are those of `sim/tests/it/planted.rs`; a role program has no place for them, so the checker has none to
//! judge. Edits of role programs are those of `codegen/tests/check/faults.rs`: the checker must name the rule; the
//! simulator gets the PTX that the emitter makes of the broken program, where it makes any. The good kernels are the
//! originals, the shipped kernels, the kernels no pass was written for, and random legal schedules.

extern crate codegen as warpwright_codegen;
extern crate sim as warpwright_sim;

#[expect(clippy::unwrap_used, reason = "a source of the simulator's tests")]
#[allow(dead_code, reason = "a source of the simulator's tests")]
#[path = "../../../sim/tests/it/attention.rs"]
mod attention;
#[allow(
    dead_code,
    clippy::unwrap_used,
    clippy::panic,
    reason = "a source of the checker's tests"
)]
#[path = "../../../codegen/tests/check/faults.rs"]
mod faults;
#[path = "../shared/foreign.rs"]
mod foreign;
#[expect(clippy::panic, reason = "a source of the simulator's tests")]
#[path = "../../../sim/tests/it/planted.rs"]
mod planted;
#[path = "../shared/problems.rs"]
mod problems;
#[expect(clippy::panic, reason = "a source of the checker's tests")]
#[allow(dead_code, reason = "a source of the checker's tests")]
#[path = "../../../codegen/tests/check/programs.rs"]
mod programs;
mod ptx;
mod roles;
mod sound;
#[allow(dead_code, reason = "shared with device_checks, which reads more of it")]
#[path = "../shared/subject.rs"]
mod subject;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::Parser;

/// Command line.
#[derive(Clone, Debug, Parser)]
#[command(about = "Planted faults and who finds them; false alarms on good kernels")]
struct Args {
    /// The table; also printed.
    #[arg(long)]
    out: Option<PathBuf>,
    /// Seeds of the simulator for each good kernel.
    #[arg(long, default_value_t = 20)]
    seeds: u64,
    /// Random legal schedules of each kernel among the good ones.
    #[arg(long, default_value_t = 12)]
    random: usize,
    /// Source revision, for the table.
    #[arg(long, default_value = "unknown")]
    revision: String,
}

/// What one judge said of one fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Found and named as it must be.
    Named(String),
    /// Found under another name.
    Found(String),
    /// Ran to its end with wrong values and without a finding.
    Unseen(&'static str),
    /// Not asked: the reason.
    NotAsked(&'static str),
}

impl Verdict {
    fn text(&self) -> String {
        match self {
            Self::Named(what) => format!("named: {what}"),
            Self::Found(what) => format!("found: {what}"),
            Self::Unseen(what) => format!("not found ({what})"),
            Self::NotAsked(why) => format!("- ({why})"),
        }
    }
}

/// One fault and its verdicts.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: &'static str,
    pub place: String,
    pub name: &'static str,
    pub simulator: Verdict,
    pub checker: Verdict,
    pub seconds: f64,
}

impl Row {
    fn caught(&self) -> bool {
        [&self.simulator, &self.checker]
            .iter()
            .any(|v| matches!(v, Verdict::Named(_)))
    }
}

fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        let mark = if row.caught() { "caught" } else { "MISSED" };
        let _ = writeln!(
            text,
            "{mark} | {} | {} | {} | {} | {} | {:.2}",
            row.kind,
            row.place,
            row.name,
            row.simulator.text(),
            row.checker.text(),
            row.seconds
        );
    }
    text
}

fn count(rows: &[Row], kind: &str) -> String {
    let of: Vec<&Row> = rows.iter().filter(|r| r.kind == kind).collect();
    let named = |v: &Verdict| matches!(v, Verdict::Named(_));
    let found = |v: &Verdict| matches!(v, Verdict::Named(_) | Verdict::Found(_));
    format!(
        "{kind}: {} faults, caught and named right {}; simulator found {}, checker named {}",
        of.len(),
        of.iter().filter(|r| r.caught()).count(),
        of.iter().filter(|r| found(&r.simulator)).count(),
        of.iter().filter(|r| named(&r.checker)).count()
    )
}

fn run(args: &Args) -> Result<bool, Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut rows = ptx::rows();
    rows.extend(roles::rows());
    let planted = start.elapsed().as_secs_f64();
    let sound = sound::alarms(args.seeds, args.random)?;
    let caught = rows.iter().filter(|r| r.caught()).count();
    let slowest = rows.iter().map(|r| r.seconds).fold(0.0, f64::max);
    let mut text = format!(
        "Planted faults, simulated, revision {}, {}\n\nresult | form | place | fault | simulator | checker | seconds\n{}\n",
        args.revision,
        warpwright_runner::record::utc_now(),
        table(&rows)
    );
    let _ = writeln!(text, "{}\n{}", count(&rows, "PTX"), count(&rows, "role program"));
    let _ = writeln!(
        text,
        "all: {} faults, {caught} caught and named right ({:.1} %), {planted:.0} s together, {slowest:.2} s for the slowest",
        rows.len(),
        100.0 * caught as f64 / rows.len() as f64
    );
    let _ = writeln!(
        text,
        "false alarms: {} in {} runs ({} good kernels and problems, {} seeds each), {:.0} s",
        sound.alarms.len(),
        sound.runs,
        sound.kernels,
        args.seeds,
        start.elapsed().as_secs_f64() - planted
    );
    for alarm in &sound.alarms {
        let _ = writeln!(text, "ALARM {alarm}");
    }
    println!("{text}");
    if let Some(path) = &args.out {
        std::fs::write(path, &text)?;
    }
    Ok(sound.alarms.is_empty() && caught * 100 >= rows.len() * 95)
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("planted_faults: {error}");
            ExitCode::FAILURE
        }
    }
}

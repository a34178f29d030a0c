//! `warpwright bench`: schedules over problems, timed in the same windows.

use std::collections::BTreeSet;
use std::path::PathBuf;

use clap::ValueEnum;
use runner::device::{CudaDevice, Device};
use runner::record;
use runner::time::TimePlan;
use serde_json::{Value, json};

use crate::answer::{self, Answer};
use crate::contest::{Contest, Entry, Ring, Standing};
use crate::device::{self, DeviceName};
use crate::exit::Exit;
use crate::failure::{Failure, exit_of};
use crate::peers::{self, Order, PeerArgs};
use crate::program::{self, AssemblerArgs};
use crate::render::table::table;
use crate::subject::{self, Subject};
use crate::{files, predicted, problem};

pub const EXAMPLES: &str = "\
Examples:
  warpwright bench --problem \"fwd bf16 b2 s16384 h16 d128 full\"
  warpwright bench --problems shapes.txt --schedule base=base.toml --schedule new=new.toml --out result.json
  warpwright bench --problems shapes.txt --schedule empty=none --protocol burst --json
  warpwright bench --problem \"fwd bf16 b2 s16384 h16 d128 causal\" --peers cudnn,fa4

  warpwright bench --problem \"fwd bf16 b1 s8192 h16 d128 full\" --device sim

On the simulated device nothing is timed: SM cycles and sustained times are predicted, and labelled as simulated.
Only what passed verification is timed. --verify quick launches every input family on a smaller problem (the same code serves
every size) and the timed family on the problem itself; --verify full launches every family on the problem itself, which takes
longer than the timing from about 16k tokens on.
A problem file has one problem per line; empty lines and lines that start with # are left out.
--peers hands the kernels to the Python script in benches/peers, which times cuDNN, FlashAttention and cuBLAS in the same
windows.";

/// How to time.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// A few launches at full clock.
    Burst,
    /// Windows long enough that clock and power settle.
    Sustained,
}

/// How much is verified before anything is timed.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verify {
    /// Every input family on a smaller problem with the same code, the timed family on the problem itself.
    Quick,
    /// Every input family on the problem itself, as `run` does.
    Full,
}

#[derive(clap::Args, Debug)]
pub struct Args {
    /// A file of problems, one a line.
    #[arg(long, value_name = "FILE", required_unless_present = "problem")]
    problems: Option<PathBuf>,
    /// One problem; may be repeated.
    #[arg(long, value_name = "PROBLEM")]
    problem: Vec<String>,
    /// A schedule, `NAME=FILE`, `NAME=shipped` or `NAME=none`; may be repeated. Default: the shipped schedules.
    #[arg(long, value_name = "NAME=FILE")]
    schedule: Vec<String>,
    /// The GPU architecture.
    #[arg(long, value_name = "TARGET", default_value = "sm_90a")]
    target: String,
    /// How to time.
    #[arg(long, value_enum, default_value = "sustained")]
    protocol: Protocol,
    /// How much to verify before timing: quick (default) or full; the records say what was checked.
    #[arg(long, value_enum)]
    verify: Option<Verify>,
    /// The device: cuda:N or sim.
    #[arg(long, value_name = "DEVICE", default_value = "cuda:0")]
    device: DeviceName,
    /// Write the records to a file, one JSON object per problem and line.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    peers: PeerArgs,
    #[command(flatten)]
    assembler: AssemblerArgs,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    verifies_here(args)?;
    let contests = contests(args)?;
    let entries = || contests.iter().flat_map(|contest| &contest.entries);
    for entry in entries() {
        program::compile(&entry.subject)?;
    }
    peers::check(&args.peers, args.device, &contests)?;
    let DeviceName::Cuda(ordinal) = args.device else {
        return predictions(args, &contests);
    };
    device::require(ordinal)?;
    if args.peers.peers.is_some() {
        return beside_peers(args, &contests, ordinal);
    }
    let device = device::open(ordinal)?;
    let assembler = args
        .assembler
        .assembler(entries().map(|entry| &entry.subject.schedule))?;
    let plan = match args.protocol {
        Protocol::Burst => TimePlan::burst(),
        Protocol::Sustained => TimePlan::sustained(),
    };
    let ring = Ring {
        device: &device,
        assembler: &assembler,
        target: subject::target(&args.target)?,
        plan: &plan,
        verifies_fully: args.verify == Some(Verify::Full),
    };
    if let Some(path) = &args.out {
        files::write("--out", path, b"")?;
    }
    let mut standings = vec![];
    for contest in &contests {
        answer::note(&format!("timing {}", contest.problem));
        let standing = ring.hold(contest);
        keep(args, &standing)?;
        standings.push(standing);
        if standings.iter().any(Standing::ends_process) {
            answer::note("the device can no longer be used: the remaining problems are left out");
            break;
        }
    }
    report(args, &device, &standings)
}

/// `--verify` is about what this program verifies itself.
fn verifies_here(args: &Args) -> Result<(), Failure> {
    let (true, fact) = (match args.device {
        DeviceName::Sim => (
            args.verify.is_some(),
            "a prediction verifies nothing: `warpwright run` does",
        ),
        DeviceName::Cuda(_) => (
            args.verify.is_some() && args.peers.peers.is_some(),
            "the script of `--peers` verifies every contestant its own way",
        ),
    }) else {
        return Ok(());
    };
    let asked = if args.verify == Some(Verify::Full) {
        "full"
    } else {
        "quick"
    };
    Err(Failure::refused("there is nothing to verify here").reason("--verify", asked, fact, "no --verify"))
}

/// Appends what was measured at once, so that an end half way loses nothing.
fn keep(args: &Args, standing: &Standing) -> Result<(), Failure> {
    let (Some(path), Some(record)) = (&args.out, &standing.record) else {
        return Ok(());
    };
    record::append(path, record).map_err(|e| files::unwritable("--out", path, &e))
}

/// The script times peers and ours together, on the first device it sees.
fn beside_peers(args: &Args, contests: &[Contest], ordinal: u32) -> Result<Answer, Failure> {
    let order = Order {
        protocol: match args.protocol {
            Protocol::Burst => "burst",
            Protocol::Sustained => "sustained",
        },
        out: args.out.as_deref(),
        ordinal,
    };
    peers::run(&args.peers, contests, &args.assembler, &order)
}

/// On the simulator: predictions, which no record of times holds.
fn predictions(args: &Args, contests: &[Contest]) -> Result<Answer, Failure> {
    if let Some(out) = &args.out {
        let fact = "records hold measured times; predictions are simulated";
        let asked = out.display().to_string();
        return Err(Failure::refused("predictions cannot be recorded").reason(
            "--out",
            asked,
            fact,
            "no --out with sim",
        ));
    }
    let (mut texts, mut values) = (vec![], vec![]);
    for contest in contests {
        let entries: Vec<_> = contest.entries.iter().map(|e| (e.name.clone(), &e.subject)).collect();
        let (text, value) = predicted::rows(&contest.problem.to_string(), &entries)?;
        texts.push(text);
        values.push(value);
    }
    Ok(Answer::text(texts.join("\n"))
        .field("simulated", true)
        .field("predictions", values))
}

/// Every problem with every schedule; refuses two schedules of one name.
fn contests(args: &Args) -> Result<Vec<Contest>, Failure> {
    let target = subject::target(&args.target)?;
    let named = args
        .schedule
        .iter()
        .map(|text| named(text))
        .collect::<Result<Vec<_>, _>>()?;
    let mut seen = BTreeSet::new();
    if let Some((name, _)) = named.iter().find(|(name, _)| !seen.insert(name.clone())) {
        let fact = "an earlier schedule has this name";
        return Err(Failure::refused("two schedules have one name").reason(
            "--schedule",
            name.as_str(),
            fact,
            "a name of its own for each",
        ));
    }
    let mut contests = vec![];
    for text in texts(args)? {
        let case = problem::case(&problem::parse(&text)?)?;
        let mut entries = vec![];
        for (name, file) in &named {
            let subject = Subject::new(case.clone(), Some(file), target)?;
            entries.push(Entry {
                name: name.clone(),
                subject,
            });
        }
        if named.is_empty() {
            let subject = Subject::new(case.clone(), None, target)?;
            entries.push(Entry {
                name: subject.source.name(),
                subject,
            });
        }
        contests.push(Contest {
            problem: *case.problem(),
            entries,
        });
    }
    Ok(contests)
}

/// The table, the records, and the exit code of the first failure.
fn report(args: &Args, device: &CudaDevice, standings: &[Standing]) -> Result<Answer, Failure> {
    let records: Vec<_> = standings
        .iter()
        .filter_map(|standing| standing.record.as_ref())
        .collect();
    if let Some(path) = &args.out {
        answer::note(&format!("wrote {} record(s) to {}", records.len(), path.display()));
    }
    let failures = || {
        standings
            .iter()
            .flat_map(|s| s.failures.iter().map(move |(name, outcome)| (s.problem, name, outcome)))
    };
    let failed: Option<Exit> = failures().map(|(_, _, outcome)| exit_of(outcome)).next();
    let list: Vec<Value> = failures()
        .map(|(problem, name, outcome)| json!({ "problem": problem, "schedule": name, "outcome": outcome }))
        .collect();
    let verify = args.verify.unwrap_or(Verify::Quick);
    let head = format!(
        "{}, {:?} protocol, {verify:?} verification\n",
        device.facts().name,
        args.protocol
    );
    let mut text = head.to_lowercase();
    text += &times(standings);
    for (problem, name, outcome) in failures() {
        text += &format!("failed: {problem}, {name}: {outcome}\n");
    }
    Ok(Answer::text(text)
        .field("device", device.facts())
        .field("records", &records)
        .field("failures", list)
        .failed(failed))
}

/// One row per problem and schedule; ratios are against the first schedule of the problem, above 1 is faster.
fn times(standings: &[Standing]) -> String {
    let mut rows = vec![];
    for standing in standings {
        let Some(record) = &standing.record else { continue };
        for (i, contestant) in record.contestants.iter().enumerate() {
            let timing = &contestant.timing;
            let ratio = i.checked_sub(1).and_then(|i| record.ratios.get(i));
            let ratio = ratio.map_or_else(String::new, |r| {
                format!("{:.3} [{:.3}, {:.3}]", r.estimate, r.low, r.high)
            });
            let remark = if timing.host_bound {
                "the host was the limit"
            } else {
                ""
            };
            let (median, tflops) = (format!("{:.2}", timing.median_us), format!("{:.1}", timing.tflops));
            rows.push(vec![
                standing.problem.to_string(),
                timing.name.clone(),
                median,
                tflops,
                ratio,
                remark.to_owned(),
            ]);
        }
    }
    table(
        &["problem", "schedule", "median us", "TFLOP/s", "ratio [95 %]", ""],
        &rows,
    )
}

/// The problems of the file and of the arguments, in this order.
fn texts(args: &Args) -> Result<Vec<String>, Failure> {
    let file = args
        .problems
        .as_deref()
        .map(|path| files::read("--problems", path))
        .transpose()?
        .unwrap_or_default();
    let lines = file
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    let texts: Vec<String> = lines.map(str::to_owned).chain(args.problem.iter().cloned()).collect();
    if texts.is_empty() {
        return Err(Failure::refused("there is no problem to time").reason(
            "--problems",
            "a file without problems",
            "every line is empty or a comment",
            "one problem per line",
        ));
    }
    Ok(texts)
}

fn named(text: &str) -> Result<(String, PathBuf), Failure> {
    match text.split_once('=') {
        Some((name, file)) if !name.trim().is_empty() && !name.contains(char::is_control) && !file.is_empty() => {
            Ok((name.trim().to_owned(), PathBuf::from(file)))
        }
        _ => Err(Failure::refused("a schedule to time needs a name").reason(
            "--schedule",
            text,
            "names tell the rows of the table apart",
            "NAME=FILE, NAME=shipped or NAME=none",
        )),
    }
}

//! `warpwright check`: is this schedule legal for this problem, and what does it use of the hardware?

use codegen::Compiled;
use codegen::role::RoleProgram;
use codegen::target::Family as TargetFamily;
use dsl::schedule::{Direction, Handoff, Split};
use oracle::Problem;
use oracle::inputs::Family;
use oracle::problem::smallest;
use runner::assemble::Assembler;
use runner::device::{SimDevice, SimOptions};
use runner::evaluate::{Bench, Candidate, Evaluation, evaluate_untimed};
use runner::outcome::Outcome;
use runner::verify::{Truths, VerifyPlan};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::device::DeviceName;
use crate::failure::Failure;
use crate::subject::{Subject, SubjectArgs};
use crate::{program, render, shape};

pub const EXAMPLES: &str = "\
Examples:
  warpwright check --problem \"fwd bf16 b2 s4096x1024 h32/8 d128 causal\"
  warpwright check --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --json
  warpwright check --problem \"fwd bf16 b2 s4096 h16 d128 full\" --schedule mine.toml --device sim

With --device sim the PTX also runs on the simulated device, at a small size that the same kernel serves: races, missing fences,
hangs and wrong values are found there.

Exit code 0: legal. Exit code 2: refused, with what was asked, what is true and what would be allowed. With --device sim also exit
code 5: the result is wrong; exit code 6: the kernel hung, raced or broke a rule.";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// Also run the kernel on a device: sim.
    #[arg(long, value_name = "DEVICE", value_parser = only_sim)]
    device: Option<DeviceName>,
}

fn only_sim(text: &str) -> Result<DeviceName, String> {
    match text.parse()? {
        DeviceName::Sim => Ok(DeviceName::Sim),
        other => Err(format!(
            "asked for `{other}`; check needs no GPU, and `run` verifies on one; allowed: sim"
        )),
    }
}

/// What the simulated device says of the kernel, on a small problem that it serves.
fn simulate(subject: &Subject) -> Result<(Problem, Evaluation), Failure> {
    let device = SimDevice::new(SimOptions {
        target: subject.target,
        ..SimOptions::default()
    });
    let plan = VerifyPlan {
        families: vec![Family::Normal],
        launches: 1,
        ..VerifyPlan::default()
    };
    let bench = Bench {
        device: &device,
        assembler: &Assembler::default(),
        target: subject.target,
        verify: &plan,
    };
    let problem = smallest(subject.problem());
    let evaluation = evaluate_untimed(
        &bench,
        &Candidate::new(problem, subject.schedule.clone()),
        &mut Truths::new(),
    );
    match &evaluation.outcome {
        Outcome::Verified { .. } => Ok((problem, evaluation)),
        other => Err(Failure::of_outcome(other)
            .detail("simulated", true)
            .detail("problem", problem.to_string())),
    }
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    let compiled = program::compile(&subject)?;
    let tiles = render::scheduled::bound_tiles(subject.kernel(), &compiled.scheduled.kernel);
    let facts = facts(&subject, &compiled);
    let mut text = text(&subject, &compiled, &tiles);
    let mut simulation = Value::Null;
    if args.device.is_some() {
        let (problem, evaluation) = simulate(&subject)?;
        text += &format!("  simulated      {problem}: right, nothing found\n");
        simulation = json!({ "simulated": true, "problem": problem.to_string(), "outcome": evaluation.outcome });
    }
    Ok(Answer::text(text)
        .field("simulation", simulation)
        .field("subject", subject.json())
        .field("legal", true)
        .field("warnings", &compiled.warnings)
        .field("tiles", tiles.into_iter().collect::<std::collections::BTreeMap<_, _>>())
        .field("facts", facts))
}

/// Register budgets of a CTA with warp roles.
#[derive(serde::Serialize)]
struct Registers {
    producer: u32,
    consumer: u32,
    used: u32,
    /// What the launch gives: the same count for each thread, a multiple of 8.
    pool: u32,
}

impl Registers {
    fn of(subject: &Subject, p: &RoleProgram) -> Self {
        let (producer, consumer) = (p.producer_registers, p.consumer_registers);
        let threads = p.threads().max(1);
        let pool = subject.target.registers / threads / 8 * 8 * threads;
        Self {
            producer,
            consumer,
            used: 128 * (producer + p.consumers * consumer),
            pool,
        }
    }
}

fn facts(subject: &Subject, compiled: &Compiled) -> Value {
    let (p, launch) = (&compiled.program, &compiled.launch);
    let work = subject.case.work();
    let work = json!({
        "flops": work.flops.to_string(), "exponentials": work.exponentials.to_string(), "bytes": work.bytes.to_string(),
    });
    let mut facts = json!({
        "shared_bytes": { "used": launch.shared_bytes, "limit": subject.target.shared_bytes },
        "threads": launch.block[0],
        "consumers": p.consumers,
        "rows_per_consumer": p.rows_per_consumer,
        "grid": { "persistence": p.grid.persistence, "blocks": shape::blocks(launch, subject.case.sizes()) },
        "work": work,
    });
    if subject.target.family == TargetFamily::WarpRoles {
        let ring = |r: &codegen::role::Ring| json!({ "name": r.name, "stages": r.stages, "slot_bytes": r.slot_bytes });
        facts["rings"] = p.rings.iter().map(ring).collect();
        facts["registers"] = json!(Registers::of(subject, p));
        facts["mbarriers"] = json!(mbarriers(p));
    }
    facts
}

fn mbarriers(p: &RoleProgram) -> u32 {
    render::barriers::mbarriers(p).iter().map(|b| b.count).sum()
}

fn text(subject: &Subject, compiled: &Compiled, tiles: &[(String, u32)]) -> String {
    let (p, launch) = (&compiled.program, &compiled.launch);
    let work = subject.case.work();
    let tiles: Vec<String> = tiles.iter().map(|(name, size)| format!("{name} {size}")).collect();
    let axes = shape::blocks(launch, subject.case.sizes()).unwrap_or_default();
    let grid: Vec<String> = p
        .grid
        .axes
        .iter()
        .zip(&axes)
        .map(|(a, n)| format!("{} {n}", a.name))
        .collect();
    let total = shape::total(&axes).unwrap_or_default();
    let mut rows = vec![
        ("problem", subject.problem().to_string()),
        ("kernel", subject.kernel().name.clone()),
        (
            "work",
            format!(
                "{} flops, {} exponentials, {} bytes at least",
                work.flops, work.exponentials, work.bytes
            ),
        ),
        ("tiles", tiles.join(", ")),
        (
            "shared memory",
            format!("{} of {} bytes", launch.shared_bytes, subject.target.shared_bytes),
        ),
        (
            "grid",
            format!(
                "{}, {} = {total} blocks",
                render::barriers::persistence(p),
                grid.join(" x ")
            ),
        ),
    ];
    if subject.target.family == TargetFamily::WarpRoles {
        rows.extend(roles(subject, p));
    } else {
        rows.push((
            "threads",
            format!(
                "{}: {} warpgroup(s) of {} rows",
                launch.block[0], p.consumers, p.rows_per_consumer
            ),
        ));
    }
    let folds = fold_lines(compiled);
    rows.extend(folds.into_iter().map(|line| ("fold", line)));
    let mut out = format!("legal: {} for {}\n", subject.source.phrase(), subject.target.name);
    for (name, value) in rows {
        out += &format!("  {name:<14} {value}\n");
    }
    for warning in &compiled.warnings {
        out += &format!("warning: {warning}\n");
    }
    out
}

/// How each fold is walked, knobs that were left out with what was chosen for them.
fn fold_lines(compiled: &Compiled) -> Vec<String> {
    let scheduled = &compiled.scheduled;
    let line = |(id, choice): (&dsl::ir::ValueId, &codegen::plan::FoldChoice)| {
        let fold = scheduled.kernel.fold(*id)?;
        let late: Vec<&str> = choice
            .stages
            .iter()
            .filter(|(_, stage)| **stage == 1)
            .map(|(name, _)| name.as_str())
            .collect();
        let mut line = format!(
            "{} {}, split {}",
            fold.name,
            match choice.direction {
                Direction::Ascending => "ascending",
                Direction::Descending => "descending",
            },
            match choice.split {
                Split::Never => "never",
                Split::ByMask => "by-mask",
            }
        );
        if scheduled.factors.contains_key(id) {
            line += &format!(", rescale {}", choice.rescale.name());
        }
        if !late.is_empty() {
            line += &format!(", one trip later: {}", late.join(", "));
        }
        if choice.handoff == Handoff::PingPong {
            line += ", ping-pong";
        }
        Some(line)
    };
    scheduled.choices.folds.iter().filter_map(line).collect()
}

fn roles(subject: &Subject, p: &RoleProgram) -> [(&'static str, String); 4] {
    let r = Registers::of(subject, p);
    let rings: Vec<String> = p
        .rings
        .iter()
        .map(|r| format!("{} {} x {} bytes", r.name, r.stages, r.slot_bytes))
        .collect();
    let (threads, rows) = (p.threads(), p.rows_per_consumer);
    [
        (
            "threads",
            format!(
                "{threads}: 1 producer and {} consumer warpgroup(s) of {rows} rows",
                p.consumers
            ),
        ),
        (
            "registers",
            format!(
                "{} per producer thread, {} per consumer thread; {} of {}",
                r.producer, r.consumer, r.used, r.pool
            ),
        ),
        ("rings", rings.join(", ")),
        ("mbarriers", mbarriers(p).to_string()),
    ]
}

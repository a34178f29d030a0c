//! `warpwright check`: is this schedule legal for this problem, and what does it use of the hardware?

use codegen::Compiled;
use codegen::role::RoleProgram;
use codegen::target::Family;
use dsl::schedule::{Direction, Handoff, Split};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::subject::{Subject, SubjectArgs};
use crate::{program, render, shape};

pub const EXAMPLES: &str = "\
Examples:
  warpwright check --problem \"fwd bf16 b2 s4096x1024 h32/8 d128 causal\"
  warpwright check --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --json

Exit code 0: legal. Exit code 2: refused, with what was asked, what is true and what would be allowed.";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    let compiled = program::compile(&subject)?;
    let tiles = render::scheduled::bound_tiles(subject.kernel(), &compiled.scheduled.kernel);
    let facts = facts(&subject, &compiled);
    Ok(Answer::text(text(&subject, &compiled, &tiles))
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
    if subject.target.family == Family::WarpRoles {
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
    if subject.target.family == Family::WarpRoles {
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

//! `warpwright explain`: how a schedule uses the machine, in tables.

use codegen::Compiled;
use codegen::role::RoleProgram;
use codegen::role::print::expr;
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::failure::Failure;
use crate::render::{barriers, memory, pipeline, table};
use crate::subject::SubjectArgs;
use crate::{program, shape};

pub const EXAMPLES: &str = "\
Examples:
  warpwright explain --problem \"fwd bf16 b2 s4096x1024 h32/8 d128 causal\"
  warpwright explain --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --json";

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    subject.require_roles("`explain`")?;
    let compiled = program::compile(&subject)?;
    let p = &compiled.program;
    let blocks = shape::blocks(&compiled.launch, subject.case.sizes()).unwrap_or_default();
    let title = format!(
        "{}: {}, {} for {}\n",
        p.name,
        subject.problem(),
        subject.source.phrase(),
        subject.target.name
    );
    let text = [
        title,
        memory_text(p, subject.target.shared_bytes),
        registers_text(p),
        suspects_text(&compiled),
        pipeline_text(p),
        barriers_text(p),
        grid_text(p, &blocks),
    ]
    .join("\n");
    let barrier_rows: Vec<_> = barriers::mbarriers(p).into_iter().chain(barriers::named(p)).collect();
    Ok(Answer::text(text)
        .field("subject", subject.json())
        .field(
            "shared_memory",
            json!({ "bytes": p.shared_bytes, "limit_bytes": subject.target.shared_bytes, "regions": memory::map(p) }),
        )
        .field("registers", registers_json(p))
        .field("most_registers", &compiled.suspects)
        .field("warnings", &compiled.warnings)
        .field("pipeline", pipeline::of(p))
        .field("barriers", barrier_rows)
        .field("grid", grid_json(p, &blocks)))
}

fn memory_text(p: &RoleProgram, limit: u32) -> String {
    let rows: Vec<Vec<String>> = memory::map(p)
        .into_iter()
        .map(|r| vec![r.offset_bytes.to_string(), r.bytes.to_string(), r.name, r.holds])
        .collect();
    format!(
        "Shared memory: {} of {limit} bytes\n{}",
        p.shared_bytes,
        table::table(&["offset", "bytes", "name", "holds"], &rows)
    )
}

fn registers_text(p: &RoleProgram) -> String {
    let mut out = format!(
        "Registers per thread\n  producer  {}\n  consumer  {}\n\n",
        p.producer_registers, p.consumer_registers
    );
    // The parts of a split loop have their own tiles of the same name.
    let mut rows: Vec<(Vec<String>, u32)> = vec![];
    for tile in &p.tiles {
        let row = vec![
            tile.name.clone(),
            tile.layout.registers().to_string(),
            format!("{:?}", tile.layout),
        ];
        match rows.iter_mut().find(|(known, _)| *known == row) {
            Some((_, copies)) => *copies += 1,
            None => rows.push((row, 1)),
        }
    }
    let rows: Vec<Vec<String>> = rows
        .into_iter()
        .map(|(row, copies)| [row, vec![copies.to_string()]].concat())
        .collect();
    out += "Register tiles of a consumer thread (not all are live at once)\n";
    out += &table::table(&["tile", "registers", "layout", "tiles of this name"], &rows);
    out
}

/// Where tiles hold the most registers, and which; warnings of the checker.
fn suspects_text(compiled: &Compiled) -> String {
    let mut out = String::from("most registers held\n");
    for line in &compiled.suspects {
        out += &format!("  {line}\n");
    }
    for warning in &compiled.warnings {
        out += &format!("  warning: {warning}\n");
    }
    out
}

fn registers_json(p: &RoleProgram) -> Value {
    let tiles: Vec<Value> = p
        .tiles
        .iter()
        .map(|t| json!({ "name": t.name, "registers": t.layout.registers(), "layout": format!("{:?}", t.layout) }))
        .collect();
    json!({ "producer": p.producer_registers, "consumer": p.consumer_registers, "tiles": tiles })
}

fn pipeline_text(p: &RoleProgram) -> String {
    let found = pipeline::of(p);
    format!(
        "Producer, per block\n{}\nConsumer warpgroup, per block\n{}",
        pipeline::text(&found.producer),
        pipeline::text(&found.consumer)
    )
}

fn barriers_text(p: &RoleProgram) -> String {
    let row = |b: barriers::Barrier| {
        vec![
            b.name,
            b.kind.to_owned(),
            b.count.to_string(),
            b.arrivals.to_string(),
            b.meaning,
        ]
    };
    let rows: Vec<Vec<String>> = barriers::mbarriers(p)
        .into_iter()
        .chain(barriers::named(p))
        .map(row)
        .collect();
    format!(
        "Barriers\n{}",
        table::table(&["name", "kind", "count", "arrivals", "meaning"], &rows)
    )
}

fn grid_text(p: &RoleProgram, blocks: &[i64]) -> String {
    let mut rows = vec![];
    for (i, axis) in p.grid.axes.iter().enumerate() {
        let count = blocks.get(i).map_or_else(|| "?".to_owned(), i64::to_string);
        let way = if axis.descending {
            "last to first"
        } else {
            "first to last"
        };
        let inner = if i == p.grid.inner { "inner" } else { "" };
        rows.push(vec![
            axis.name.clone(),
            count,
            expr(p, &axis.count),
            way.to_owned(),
            inner.to_owned(),
        ]);
    }
    let total = shape::total(blocks).unwrap_or_default();
    let section = p
        .grid
        .section
        .map_or_else(String::new, |n| format!(", sections of {n} blocks of the other axes"));
    format!(
        "Grid: {}, {total} blocks of {} threads{section}\n{}",
        barriers::persistence(p),
        p.threads(),
        table::table(&["axis", "blocks", "rule", "order", ""], &rows)
    )
}

fn grid_json(p: &RoleProgram, blocks: &[i64]) -> Value {
    let axes: Vec<Value> = p
        .grid
        .axes
        .iter()
        .enumerate()
        .map(|(i, a)| {
            json!({
                "name": a.name, "blocks": blocks.get(i), "rule": expr(p, &a.count),
                "descending": a.descending, "inner": i == p.grid.inner,
            })
        })
        .collect();
    json!({ "persistence": p.grid.persistence, "threads": p.threads(), "section": p.grid.section, "axes": axes })
}

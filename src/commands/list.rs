//! `warpwright list`: kernels, shipped schedules, knobs.

use clap::ValueEnum;
use serde_json::json;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::knobs::KNOBS;
use crate::problem::FAMILIES;
use crate::render::table::table;
use crate::shipped;
use crate::subject::TARGETS;

pub const EXAMPLES: &str = "\
Examples:
  warpwright list
  warpwright list knobs
  warpwright list schedules --json";

/// What to list.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Kernels with their problem grammar, dtypes and head sizes.
    Kernels,
    /// Schedules that come with warpwright.
    Schedules,
    /// Every key of a schedule.
    Knobs,
}

#[derive(clap::Args, Debug)]
pub struct Args {
    /// One list only; default: all.
    #[arg(value_enum)]
    what: Option<What>,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let wants = |what| args.what.is_none_or(|only| only == what);
    let (mut parts, mut answer) = (vec![], vec![]);
    if wants(What::Kernels) {
        parts.push(kernels());
        answer.push(("kernels", json!(FAMILIES)));
        answer.push(("targets", json!(TARGETS.map(|t| t.name))));
    }
    if wants(What::Schedules) {
        parts.push(schedules());
        answer.push(("schedules", json!(shipped::all())));
    }
    if wants(What::Knobs) {
        parts.push(knobs());
        answer.push(("knobs", json!(KNOBS)));
    }
    let text = Answer::text(parts.join("\n"));
    Ok(answer
        .into_iter()
        .fold(text, |answer, (key, value)| answer.field(key, value)))
}

fn kernels() -> String {
    let mut out = format!("Kernels (targets: {})\n", TARGETS.map(|t| t.name).join(", "));
    for family in FAMILIES {
        let sizes: Vec<String> = family.head_dims.iter().map(|d| format!("d{d}")).collect();
        out += &format!("  {}: {}\n", family.kernel, family.summary);
        out += &format!(
            "    problem   {}\n    example   \"{}\"\n",
            family.grammar, family.example
        );
        out += &format!("    dtypes    {}\n", family.dtypes.join(", "));
        if !sizes.is_empty() {
            out += &format!("    heads     {}\n", sizes.join(", "));
        }
        if !family.variants.is_empty() {
            out += &format!("    variants  {}\n", family.variants.join(", "));
        }
    }
    out
}

fn schedules() -> String {
    let rows: Vec<Vec<String>> = shipped::all()
        .into_iter()
        .map(|s| vec![s.name.to_owned(), s.serves])
        .collect();
    if rows.is_empty() {
        return "Schedules: none shipped; without --schedule the empty schedule is used\n".to_owned();
    }
    format!("Schedules\n{}", table(&["name", "serves"], &rows))
}

fn knobs() -> String {
    let rows: Vec<Vec<String>> = KNOBS
        .iter()
        .map(|k| [k.key, k.values, k.default, k.meaning].map(str::to_owned).to_vec())
        .collect();
    format!(
        "Schedule keys (upper-case words are names of the kernel)\n{}",
        table(&["key", "values", "left out", "meaning"], &rows)
    )
}

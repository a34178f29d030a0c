//! Draws legal schedules without spills and puts their instrumented cubins into a folder.

use std::collections::BTreeSet;
use std::path::Path;

use codegen::target::SM_90A;
use codegen::{Compiled, Instrument, Options, compile_with};
use dsl::schedule::Schedule;
use oracle::Problem;
use tools::{ResolveOptions, ToolSet};
use warpwright_runner::assemble::AssembledImage;
use warpwright_runner::record::schedule_text;
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::{Assembler, Case, CubinCache};

use super::AnyError;
use super::draw::{Dice, free, near};
use super::set::{Drawn, KEYS, store};

/// Draws per wanted schedule after which a key is given up.
const MOST_DRAWS: usize = 40;

/// Compiles with stamps of CTAs, the form that is measured.
///
/// # Errors
/// A refused schedule.
pub fn compiled(case: &Case, schedule: &Schedule) -> Result<Compiled, AnyError> {
    let options = Options {
        instrument: Instrument::Ctas,
    };
    Ok(compile_with(case.kernel(), schedule, &SM_90A, options)?)
}

/// Draws `count` schedules per key; another seed gives another set.
///
/// # Errors
/// No assembler, or a folder that cannot be written.
pub fn prepare(folder: &Path, count: usize, seed: u64) -> Result<(), AnyError> {
    let assembler = Assembler::new(
        vec![ToolSet::resolve(&ResolveOptions::default())?.ptxas],
        Some(CubinCache::open(folder)?),
    );
    let keys: Vec<_> = KEYS.iter().enumerate().collect();
    let drawn = std::thread::scope(|scope| -> Result<Vec<Vec<Drawn>>, AnyError> {
        let (assembler, keys) = (&assembler, &keys);
        let work = |half: usize| {
            let mine = keys.iter().filter(move |(i, _)| i % 2 == half);
            mine.map(|(i, key)| one_key(assembler, **key, (count, seed ^ *i as u64)).map_err(|e| e.to_string()))
                .collect::<Result<Vec<_>, String>>()
        };
        let threads = [0, 1].map(|half| scope.spawn(move || work(half)));
        let mut out = vec![];
        for thread in threads {
            out.extend(thread.join().map_err(|_| "a drawing thread ended badly")??);
        }
        Ok(out)
    })?;
    let mut all: Vec<Drawn> = drawn.into_iter().flatten().collect();
    let order = |key: &str| KEYS.iter().position(|(k, _)| *k == key);
    all.sort_by_key(|d| order(&d.key));
    for (id, drawn) in all.iter_mut().enumerate() {
        drawn.id = id;
    }
    println!("{} schedules in {}", all.len(), folder.display());
    store(folder, &all)
}

fn one_key(
    assembler: &Assembler,
    (key, text): (&str, &str),
    (count, seed): (usize, u64),
) -> Result<Vec<Drawn>, AnyError> {
    let problem: Problem = text.parse()?;
    let Problem::Forward(shape) = &problem else {
        return Err("only attention is drawn".into());
    };
    let head_dim = shape.head_dim;
    let case = Case::new(&problem)?;
    let base = shipped_for(&problem)?;
    let (mut dice, mut seen, mut out) = (Dice(seed), BTreeSet::new(), Vec::new());
    let (mut refused, mut spilled, mut draws) = (0, 0, 0);
    while out.len() < count && draws < count * MOST_DRAWS {
        // Three of four near the shipped schedule: half of all shall be good ones.
        let is_near = out.len() % 4 != 3;
        let schedule = match draws {
            0 => base.clone(),
            _ if is_near => near(&base, head_dim, &mut dice),
            _ => free(&base.kernel, head_dim, &mut dice),
        };
        draws += 1;
        let Ok(compiled) = compiled(&case, &schedule) else {
            refused += 1;
            continue;
        };
        if !seen.insert(compiled.ptx.0.clone()) {
            continue;
        }
        let Ok(image) = assembler.assemble(&compiled.ptx.0, SM_90A.name, &schedule.assembler) else {
            refused += 1;
            continue;
        };
        if spills(&image) {
            spilled += 1;
            continue;
        }
        out.push(Drawn {
            id: 0,
            key: key.to_owned(),
            problem: text.to_owned(),
            schedule: schedule_text(&schedule),
            near: is_near,
            ptx_blake3: image.facts.ptx_blake3,
        });
    }
    println!(
        "{key}: {} drawn, {refused} refused, {spilled} with spills left out",
        out.len()
    );
    Ok(out)
}

/// A search would see spills without running anything.
fn spills(image: &AssembledImage) -> bool {
    image.facts.spill_store_bytes + image.facts.spill_load_bytes > 0
}

//! Edits of role programs, judged by the checker, and by the simulator where they can be emitted.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use rayon::prelude::*;
use warpwright_codegen::check::{Checked, check};
use warpwright_codegen::launch::{self, LaunchFacts};
use warpwright_codegen::role::RoleProgram;
use warpwright_codegen::target::SM_90A;
use warpwright_codegen::{emit, ptx};
use warpwright_runner::device::{SimDevice, SimOptions};

use dsl::DType;

use super::faults::Fault;
use super::subject::{Outputs, RunError, Subject, Tensor};
use super::{Row, Verdict, faults, programs};

/// Sizes by name.
type Sizes = [(&'static str, i64); 9];

/// Several trips, several blocks for one CTA, ragged ends.
const RAGGED: Sizes = sizes(330, 450);

/// Other numbers of trips with and without a mask; a fault may stand where one of these does not come by.
const PROBLEMS: [Sizes; 3] = [RAGGED, sizes(384, 768), sizes(700, 200)];

const fn sizes(q_len: i64, kv_len: i64) -> Sizes {
    [
        ("batch", 1),
        ("q_len", q_len),
        ("kv_len", kv_len),
        ("heads", 2),
        ("kv_heads", 1),
        ("group", 2),
        ("m", 304),
        ("n", 264),
        ("k", 328),
    ]
}

/// Warp instructions after which a launch counts as a hang.
const BUDGET: u64 = 3_000_000;

/// A row for every edit.
pub fn rows() -> Vec<Row> {
    // Broken programs may break the emitter: that is an answer, and its message is noise here.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let rows = faults::all().par_iter().map(row).collect();
    std::panic::set_hook(hook);
    rows
}

fn row(fault: &Fault) -> Row {
    let mut program = programs::named(fault.base);
    let good = program.clone();
    let planted = (fault.plant)(&mut program);
    let found = check(&program, &SM_90A).err().unwrap_or_default();
    let checker = match (found.iter().find(|v| v.rule == fault.rule), found.first()) {
        _ if !planted => Verdict::Unseen("not planted"),
        (Some(v), _) => Verdict::Named(v.rule.id().to_owned()),
        (None, Some(v)) => Verdict::Found(v.rule.id().to_owned()),
        (None, None) => Verdict::Unseen("no violation"),
    };
    let start = Instant::now();
    let simulator = catch_unwind(AssertUnwindSafe(|| simulated(&good, &program)));
    Row {
        kind: "role program",
        place: fault.base.to_owned(),
        name: fault.name,
        simulator: simulator.unwrap_or(Verdict::NotAsked("cannot be emitted")),
        checker,
        seconds: start.elapsed().as_secs_f64(),
    }
}

/// What the simulator says of the PTX of a broken program.
fn simulated(good: &RoleProgram, broken: &RoleProgram) -> Verdict {
    let text = written(broken);
    if text == written(good) && launch::facts(broken, SM_90A.name) == launch::facts(good, SM_90A.name) {
        return Verdict::NotAsked("the PTX is the same");
    }
    let mut wrong = false;
    for sizes in &PROBLEMS {
        match (outputs(broken, sizes), outputs(good, sizes)) {
            (_, Err(_)) => return Verdict::NotAsked("the good program does not run"),
            (Err(message), _) => return Verdict::Found(short(&message)),
            (Ok(found), Ok(wanted)) => wrong |= found != wanted,
        }
    }
    Verdict::Unseen(if wrong {
        "wrong values"
    } else {
        "and the values are right"
    })
}

fn written(program: &RoleProgram) -> String {
    ptx::write(&emit::emit(&Checked::unproven(program), vec![], SM_90A.name)).0
}

/// Runs a program on one SM, so that one CTA takes several blocks.
fn outputs(program: &RoleProgram, sizes: &Sizes) -> Result<Vec<Outputs>, String> {
    let subject = subject_of(program, sizes);
    let device = SimDevice::new(SimOptions {
        multiprocessors: 1,
        instruction_budget: BUDGET,
        ..SimOptions::default()
    });
    subject.run(&device, None, 1).map_err(|error| match error {
        RunError::Device(error) => error.to_string(),
        RunError::Launch(error) => error.to_string(),
        RunError::Wrong(message) => message,
    })
}

/// A role program on the ragged problem, with noise for inputs.
pub fn subject(program: &RoleProgram) -> Subject {
    subject_of(program, &RAGGED)
}

fn subject_of(program: &RoleProgram, sizes: &Sizes) -> Subject {
    let facts = launch::facts(program, SM_90A.name);
    let (inputs, outputs) = tensors(&facts, sizes);
    Subject {
        label: program.name.clone(),
        schedule: String::new(),
        ptx: written(program),
        facts,
        assembler: dsl::schedule::Assembler::default(),
        sizes: sizes.map(|(name, v)| (name.to_owned(), v)).into(),
        scalars: BTreeMap::from([("scale_log2".to_owned(), 0.13)]),
        inputs,
        outputs,
        resets_scratch: true,
    }
}

type Inputs = Vec<(Tensor, Vec<u8>)>;

fn tensors(facts: &LaunchFacts, sizes: &Sizes) -> (Inputs, Vec<Tensor>) {
    let (mut inputs, mut outputs) = (vec![], vec![]);
    for fact in &facts.tensors {
        let dims: Vec<usize> = fact.dims.iter().map(|d| size(d, sizes)).collect();
        let tensor = Tensor {
            name: fact.name.clone(),
            dtype: match fact.dtype.as_str() {
                "bf16" => DType::Bf16,
                "f16" => DType::F16,
                _ => DType::F32,
            },
            order: (0..dims.len()).collect(),
            dims,
        };
        if fact.written {
            outputs.push(tensor);
        } else {
            let bytes = tensor.stored(&testkit::noise(&fact.name, tensor.dims.iter().product(), 1.0));
            inputs.push((tensor, bytes));
        }
    }
    (inputs, outputs)
}

/// A dimension as the launch facts write it: a number or the name of a size.
fn size(dim: &str, sizes: &Sizes) -> usize {
    let named = sizes.iter().find(|(name, _)| *name == dim).map(|(_, v)| *v as usize);
    named.or_else(|| dim.parse().ok()).unwrap_or(1)
}

/// The first line of a message, shortened.
fn short(message: &str) -> String {
    let line = message.lines().next().unwrap_or_default();
    line.chars().take(110).collect()
}

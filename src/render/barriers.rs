//! The barriers of a CTA: mbarriers in shared memory and named barriers of the hardware.

use codegen::role::RoleProgram;
use dsl::schedule::Persistence;
use serde::Serialize;

/// One row of the barrier table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Barrier {
    pub name: String,
    pub kind: &'static str,
    pub count: u32,
    /// Arrivals that complete one phase.
    pub arrivals: u32,
    /// Who arrives, and what the completion says.
    pub meaning: String,
}

/// The mbarriers of a program (PTX ISA 9.7.13.15). An empty barrier counts one arrival per consumer warp.
#[must_use]
pub fn mbarriers(program: &RoleProgram) -> Vec<Barrier> {
    let warps = 4 * program.consumers;
    let row = |name: String, count, arrivals, meaning: String| Barrier {
        name,
        kind: "mbarrier",
        count,
        arrivals,
        meaning,
    };
    let mut rows = vec![];
    for ring in &program.rings {
        let filled = format!(
            "the producer arms it with {} bytes; complete when they have landed",
            ring.slot_bytes
        );
        rows.push(row(format!("{}.full", ring.name), ring.stages, 1, filled));
        rows.push(row(
            format!("{}.empty", ring.name),
            ring.stages,
            warps,
            "each consumer warp after its last read of the slot".into(),
        ));
    }
    if program.mailbox.is_some() {
        rows.push(row(
            "mailbox.full".into(),
            1,
            1,
            "the producer has written the next block's number".into(),
        ));
        rows.push(row(
            "mailbox.empty".into(),
            1,
            warps,
            "each consumer warp has read the number".into(),
        ));
    }
    rows
}

/// The named barriers (PTX ISA 9.7.13.1) that a program's structure calls for.
#[must_use]
pub fn named(program: &RoleProgram) -> Vec<Barrier> {
    let row = |name: &str, count, arrivals, meaning: &str| {
        let (name, meaning) = (name.to_owned(), meaning.to_owned());
        Barrier {
            name,
            kind: "named",
            count,
            arrivals,
            meaning,
        }
    };
    let mut rows = vec![row(
        "start",
        1,
        program.threads(),
        "all threads, once: the mbarriers are initialised",
    )];
    rows.push(row(
        "group",
        program.consumers,
        128,
        "one consumer warpgroup: staged rows are written, or their buffer is free",
    ));
    if program.ping_pong {
        rows.push(row(
            "turn",
            program.consumers,
            256,
            "a consumer warpgroup's turn on the tensor core",
        ));
    }
    rows
}

/// The schedule's word for how blocks reach the CTAs.
#[must_use]
pub fn persistence(program: &RoleProgram) -> &'static str {
    match program.grid.persistence {
        Persistence::None => "one CTA per block",
        Persistence::Static => "static persistent",
        Persistence::Dynamic => "dynamic persistent",
    }
}

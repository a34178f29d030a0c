//! Random arguments and random schedule files: whatever comes in, the command ends with a documented code and never with
//! a panic, a signal, or a bug of ours.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, FileFailurePersistence, TestRunner};

use crate::support::{Folder, Ran, warpwright};

/// Runs one property without leaving regression files behind: a found case becomes a test of its own.
fn check<S: Strategy>(cases: u32, strategy: &S, test: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let persistence: Option<Box<dyn proptest::test_runner::FailurePersistence>> =
        Some(Box::new(FileFailurePersistence::Off));
    let config = Config {
        cases,
        failure_persistence: persistence,
        max_shrink_iters: 200,
        ..Config::default()
    };
    if let Err(error) = TestRunner::new(config).run(strategy, test) {
        panic!("{error}");
    }
}

/// Refused with reasons, or done: nothing else can come of `check`.
fn ends_well(ran: &Ran, input: &str) -> Result<(), TestCaseError> {
    prop_assert!(
        ran.code == 0 || ran.code == 2,
        "exit code {} for\n{input}\nstdout:\n{}\nstderr:\n{}",
        ran.code,
        ran.text(),
        ran.stderr
    );
    let parsed = serde_json::from_slice::<serde_json::Value>(&ran.stdout);
    prop_assert!(parsed.is_ok(), "no JSON for\n{input}\n{}", ran.text());
    Ok(())
}

/// Text that looks like a problem, more or less.
fn problem_like() -> impl Strategy<Value = String> {
    let number = prop_oneof![
        4 => (1_u32..5000).prop_map(|n| n.to_string()),
        1 => select(vec!["0", "-1", "00", "2147483647", "2147483648", "4294967296", "99999999999999999999", "1e3", "", "٣"])
            .prop_map(str::to_owned),
    ];
    let word = prop_oneof![
        3 => select(vec!["fwd", "gemm", "softmax", "bf16", "f16", "full", "causal", "nn", "nt", "tn", "tt"]).prop_map(str::to_owned),
        5 => (select(vec!["b", "s", "h", "d", "m", "n", "k", "x", ""]), number.clone()).prop_map(|(letter, n)| format!("{letter}{n}")),
        2 => (select(vec!["s", "h"]), number.clone(), select(vec!["x", "/", "//", "X"]), number).prop_map(|(l, a, sep, b)| format!("{l}{a}{sep}{b}")),
        1 => "\\PC{0,6}",
    ];
    let shaped = (
        select(vec!["bf16", "f16"]),
        1_u32..70_000,
        1_u32..70_000,
        1_u32..70_000,
        select(vec![1_u32, 4, 8]),
        select(vec![64, 128, 256]),
        select(vec!["full", "causal"]),
    )
        .prop_map(|(dtype, b, q, kv, h, d, mask)| format!("fwd {dtype} b{b} s{q}x{kv} h{h}/{} d{d} {mask}", h.min(4)));
    prop_oneof![
        2 => prop::collection::vec(word, 0..10).prop_map(|words| words.join(" ")),
        2 => shaped,
        1 => "[^\\x00-]{0,40}",
    ]
}

#[test]
fn random_problems_never_panic() {
    check(96, &problem_like(), |problem| {
        let argument = format!("--problem={problem}");
        ends_well(
            &warpwright(&["check", &argument, "--schedule", "none", "--json"]),
            &problem,
        )
    });
}

/// A number that a knob may or may not like.
fn number() -> impl Strategy<Value = String> {
    let usual = select(vec![
        "1", "2", "3", "4", "8", "16", "24", "40", "64", "80", "96", "128", "160", "192", "232", "240", "256",
    ]);
    let odd = select(vec![
        "0",
        "-1",
        "7",
        "1.5",
        "4096",
        "4104",
        "65536",
        "4294967295",
        "4294967296",
        "9223372036854775807",
        "nan",
        "inf",
        "\"2\"",
        "true",
        "[]",
        "{}",
    ]);
    prop_oneof![6 => usual.prop_map(str::to_owned), 1 => odd.prop_map(str::to_owned)]
}

/// One key with its heading, for the attention kernel.
fn entry() -> impl Strategy<Value = String> {
    let words = |key: &'static str, choices: Vec<&'static str>| {
        select(choices).prop_map(move |word| format!("{key} = \"{word}\""))
    };
    let numbers = |key: &'static str| number().prop_map(move |n| format!("{key} = {n}"));
    let event = (
        select(vec!["issue ", "wait ", ""]),
        select(vec!["s", "o", "p", "p16", "k", "v", "l"]),
    )
        .prop_map(|(verb, name)| format!("\"{verb}{name}\""));
    let order =
        prop::collection::vec(event, 0..8).prop_map(|events| format!("folds.kv.order = [{}]", events.join(", ")));
    let loads = prop_oneof![
        numbers("loads.k.stages"),
        numbers("loads.v.stages"),
        numbers("loads.q.stages"),
        numbers("loads.k.l2_promotion")
    ];
    let rings = prop_oneof![
        words("loads.k.ring", vec!["kv", "k", "v", "q"]),
        words("loads.v.ring", vec!["kv", "k", "v", "q"]),
        words("loads.q.ring", vec!["kv", "k", "q", "q"]),
        words("loads.k.release", vec!["early", "late"]),
        words("loads.v.cache", vec!["normal", "evict-first", "evict-last"]),
    ];
    let roles = prop_oneof![
        numbers("roles.consumers"),
        numbers("roles.rows_per_consumer"),
        numbers("roles.producer_warps"),
        numbers("roles.producer_registers"),
        numbers("roles.consumer_registers")
    ];
    let folds = prop_oneof![
        numbers("folds.kv.unroll"),
        numbers("folds.kv.exp2_polynomial_every"),
        numbers("folds.kv.lazy_threshold"),
        numbers("folds.kv.stages.s"),
        numbers("folds.kv.stages.o"),
        numbers("folds.kv.stages.p")
    ];
    let modes = prop_oneof![
        words("folds.kv.rescale", vec!["exact", "lazy", "fixed"]),
        words("folds.kv.handoff", vec!["free", "ping-pong"]),
        words("folds.kv.direction", vec!["ascending", "descending"]),
        words("folds.kv.split", vec!["never", "by-mask"]),
        words("operands.p16", vec!["registers", "shared"]),
        words("stores.o.buffer", vec!["own", "q", "k", "v"]),
    ];
    let grid = prop_oneof![
        words("grid.persistence", vec!["none", "static", "dynamic"]),
        words("grid.inner", vec!["q_block", "head", "batch"]),
        Just("grid.descending = [\"q_block\"]".to_owned()),
        numbers("grid.section"),
    ];
    prop_oneof![3 => prop_oneof![numbers("tiles.q_tile"), numbers("tiles.kv_tile")], 2 => loads, 2 => rings, 3 => roles, 3 => folds, 4 => modes, 2 => grid, 1 => order]
}

/// A schedule in dotted keys; a key that comes twice is a fault of its own.
fn schedule_like() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => prop::collection::vec(entry(), 0..8).prop_map(|entries| entries.join("\n")),
        1 => "\\PC{0,80}",
        1 => prop::collection::vec(select(vec!["[", "]", "[[", "]]", "=", "\"", "'''", "{", "}", "\n", ".", "tiles", "loads", "a", "1", ",", "#", "\\u12"]), 0..30)
            .prop_map(|tokens| tokens.concat()),
    ]
}

#[test]
fn random_schedules_never_panic() {
    let folder = Folder::new();
    let legal = Cell::new(0);
    let problems = [
        "fwd bf16 b1 s300 h4/2 d64 causal",
        "fwd f16 b1 s300 h4 d128 full",
        "fwd bf16 b1 s300 h4/1 d256 causal",
    ];
    check(
        192,
        &(schedule_like(), select(problems.to_vec())),
        |(schedule, problem)| {
            let file = folder.file("random.toml", &schedule);
            let input = format!("{problem}\n{schedule}");
            let ran = warpwright(&["explain", "--problem", problem, "--schedule", &file, "--json"]);
            legal.set(legal.get() + u32::from(ran.code == 0));
            ends_well(&ran, &input)
        },
    );
    // Refusals alone would not reach the lowering. About a fifth of the schedules are legal.
    println!("{} of 192 schedules were legal", legal.get());
    assert!(
        legal.get() >= 10,
        "only {} of 192 random schedules were legal",
        legal.get()
    );
}

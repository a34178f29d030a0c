//! The checker: every shipped kernel passes under many schedules, and every planted fault is found by its rule.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "check/emitted.rs"]
mod emitted;
#[path = "check/faults.rs"]
mod faults;
#[path = "check/programs.rs"]
mod programs;

use std::time::Instant;

use warpwright_codegen::check::{Rule, check};
use warpwright_codegen::role::{Stmt, print};
use warpwright_codegen::target::SM_90A;

#[test]
fn shipped_kernels_pass() {
    let mut failed = 0;
    for (name, program) in programs::all() {
        match check(program, &SM_90A) {
            Ok(checked) => {
                println!("{name}: ok, {} registers in tiles", checked.peak_registers());
                checked.warnings().iter().for_each(|w| println!("  warning: {w}"));
            }
            Err(violations) => {
                failed += 1;
                println!("{name}: {} violation(s)", violations.len());
                violations.iter().for_each(|v| println!("  {v}"));
            }
        }
    }
    assert_eq!(failed, 0, "programs that break a rule");
}

#[test]
fn planted_faults_are_found() {
    let mut missed = vec![];
    let faults = faults::all();
    assert!(faults.len() >= 40, "{} faults", faults.len());
    for fault in &faults {
        let mut program = programs::named(fault.base);
        assert!(check(&program, &SM_90A).is_ok(), "{} must pass unmutated", fault.base);
        let planted = (fault.plant)(&mut program);
        let found: Vec<Rule> = check(&program, &SM_90A)
            .err()
            .unwrap_or_default()
            .iter()
            .map(|v| v.rule)
            .collect();
        let ids: Vec<_> = found.iter().map(|r| r.id()).collect();
        println!(
            "{:<28} {:<62} {}",
            fault.rule.id(),
            format!("{} ({})", fault.name, fault.base),
            ids.join(" ")
        );
        if !planted || !found.contains(&fault.rule) {
            missed.push(format!(
                "{} in {}: planted {planted}, found {ids:?}",
                fault.name, fault.base
            ));
        }
    }
    let unseen: Vec<_> = Rule::ALL
        .iter()
        .filter(|r| !faults.iter().any(|f| f.rule == **r))
        .map(|r| r.id())
        .collect();
    assert!(unseen.is_empty(), "rules without a fault: {unseen:?}");
    assert!(missed.is_empty(), "missed:\n{}", missed.join("\n"));
}

#[test]
fn a_check_takes_milliseconds() {
    for name in [
        "attention 128 causal",
        "attention 192x80 dynamic",
        "row softmax",
        "gemm nn",
    ] {
        let program = programs::named(name);
        let runs = 20;
        let start = Instant::now();
        for _ in 0..runs {
            assert!(check(&program, &SM_90A).is_ok());
        }
        let each = start.elapsed() / runs;
        println!("{name}: {each:?} per check");
        // The goal is 5 ms on an idle machine; a loaded one in a debug build gets more.
        assert!(each.as_millis() < 100, "{name}: {each:?}");
    }
}

#[test]
fn the_text_form_is_complete_and_deterministic() {
    let program = programs::named("attention 192x80 dynamic");
    let text = print::print(&program);
    assert_eq!(text, print::print(&programs::named("attention 192x80 dynamic")));
    for part in [
        "program attention_forward",
        "grid dynamic",
        "mailbox",
        "producer:",
        "consumer:",
        "issue s: s#",
        "loop kv.unmasked",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    if std::env::var_os("PRINT_ROLE").is_some() {
        println!("{text}");
    }
}

#[test]
fn a_violation_says_where_and_what() {
    let mut program = programs::named("gemm nn");
    assert!(faults::drop_fence(&mut program));
    let violations = check(&program, &SM_90A).expect_err("a missing fence");
    let text = violations[0].to_string();
    assert!(
        text.starts_with("fence-missing: consumer / k [") && text.contains("issue ab") && text.contains("required: "),
        "{text}"
    );
}

#[test]
fn suspects_are_the_tiles_that_live_where_most_registers_are_held() {
    let program = programs::named("attention 128 own");
    let checked = check(&program, &SM_90A).unwrap();
    let suspects = checked.suspects();
    assert!(suspects[0].starts_with("consumer / kv"), "{suspects:?}");
    assert!(
        suspects[1].starts_with("`acc` (kernels-rs/src/attention.rs:"),
        "{suspects:?}"
    );
    for name in ["`p` (", "`p16` ("] {
        assert!(suspects.iter().any(|line| line.starts_with(name)), "{suspects:?}");
    }
    let registers = |line: &str| line.rsplit(' ').nth(1).and_then(|n| n.parse::<u32>().ok());
    let held: u32 = suspects[1..].iter().filter_map(|line| registers(line)).sum();
    assert_eq!(held, checked.peak_registers());
}

#[test]
fn consumers_may_meet_before_a_shared_slot_is_written_over() {
    let mut program = programs::named("attention 128 full");
    assert!(faults::stage_over_v(&mut program));
    let at = program
        .consumer
        .iter()
        .position(|s| matches!(s, Stmt::Stage { .. }))
        .unwrap();
    program.consumer.insert(at, Stmt::ConsumersMeet);
    // Now the store must be done before v goes back, as it was for q.
    let found = check(&program, &SM_90A)
        .map(|_| ())
        .map_err(|v| v.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert_eq!(found, Ok(()));
}

#[test]
fn broken_programs_do_not_panic() {
    let mut program = programs::named("attention 128 full");
    program.rings[0].slot_bytes = u32::MAX;
    program.rings[0].offset = u32::MAX;
    program.consumer_registers = u32::MAX;
    program.tensors.clear();
    assert!(check(&program, &SM_90A).is_err());
    program.consumers = u32::MAX;
    program.producer_warps = u32::MAX;
    assert!(check(&program, &SM_90A).is_err());
}

/// Found by random schedules: every statement is in order, and yet nobody moves.
#[test]
fn one_slot_under_turns_is_never_accepted() {
    let Some(program) = programs::one_slot_under_turns() else {
        println!("refused before it is lowered");
        return;
    };
    let violations = check(&program, &SM_90A).map(|_| ()).unwrap_err();
    assert!(violations.iter().all(|v| v.rule == Rule::Deadlock), "{violations:?}");
}

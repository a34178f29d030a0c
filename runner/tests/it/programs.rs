//! The example programs that are copied to GPU machines, run on the simulator.

use std::path::PathBuf;
use std::process::Command;

/// An example's binary beside this test's, where cargo built it (`cargo test` without `--test` does).
fn example(name: &str) -> Option<PathBuf> {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().parent().unwrap().join("examples").join(name);
    if binary.exists() {
        return Some(binary);
    }
    eprintln!("SKIP: {name} is not built; `cargo test -p warpwright-runner` builds it");
    None
}

#[test]
fn device_checks_runs_generic_kernels_and_random_schedules() {
    let Some(binary) = example("device_checks") else { return };
    let folder = tempfile::tempdir().unwrap();
    let records = folder.path().join("checks.jsonl");
    let run = |extra: &[&str]| {
        let mut command = Command::new(&binary);
        command
            .args(["--sim", "--seeds", "1", "--revision", "abc", "--out"])
            .arg(&records)
            .args(extra);
        command.output().unwrap()
    };
    let done = run(&["--check", "generic", "--check", "random"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let text = std::fs::read_to_string(&records).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| lines.iter().filter(|line| line["check"] == kind).count();
    assert_eq!((of("generic"), of("random"), lines.len()), (7, 3, 10));
    for line in &lines {
        assert_eq!(
            (&line["passed"], &line["revision"]),
            (&true.into(), &"abc".into()),
            "{line}"
        );
        assert!(line["date"].is_string() && line["ptx_blake3"].is_string() && line["schedule"].is_string());
    }
    // Nothing to do is not a pass: a GPU's checks are not made up on the simulator.
    assert!(!run(&["--check", "graph"]).status.success());
    assert_eq!(std::fs::read_to_string(&records).unwrap().lines().count(), 10);
}

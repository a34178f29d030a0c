//! Hostile command lines: refused under the option they are about, before any work.

use crate::support::{Folder, GEMM, assert_reason, warpwright};

/// A file that cannot be read or written is refused under its option, before any work.
#[test]
fn files_are_refused_under_their_option() {
    let folder = Folder::new();
    let (absent, inside) = (folder.path("absent"), folder.path("no/such/file"));
    let named = format!("a={absent}");
    let sim = ["--problem", GEMM, "--device", "sim"];
    for (args, option, path) in [
        (
            &["check", "--problem", GEMM, "--schedule", &absent][..],
            "--schedule",
            &absent,
        ),
        (
            &["check", "--problem", GEMM, "--schedule", "/"],
            "--schedule",
            &"/".to_owned(),
        ),
        (&["bench", "--problems", &absent], "--problems", &absent),
        (
            &["bench", "--problem", GEMM, "--schedule", &named],
            "--schedule",
            &absent,
        ),
        (
            &["compile", "--problem", GEMM, "--emit", "ptx", "--out", &inside],
            "--out",
            &inside,
        ),
        (
            &["compile", "--problem", GEMM, "--emit", "ptx", "--out", "/"],
            "--out",
            &"/".to_owned(),
        ),
        (&["trace", "--problem", GEMM, "--out", &inside], "--out", &inside),
        (&[&["run", "--record", &inside], &sim[..]].concat(), "--record", &inside),
        // Refused before the launch that would take a thousand years.
        (
            &[
                "run",
                "--problem",
                "gemm bf16 m65536 n8192 k8192 nn",
                "--device",
                "sim",
                "--record",
                "/",
            ],
            "--record",
            &"/".to_owned(),
        ),
    ] {
        let error = warpwright(&[args, &["--json"]].concat()).refused(2);
        assert_reason(&error, option, path, "a ");
    }
}

#[test]
fn names_from_outside_do_not_steer_the_terminal() {
    let escape = "\u{1b}[31mx";
    let named = format!("{escape}=none");
    let bench = ["bench", "--problem", GEMM, "--device", "sim", "--schedule", &named];
    let error = warpwright(&[&bench[..], &["--json"]].concat()).refused(2);
    assert_reason(&error, "--schedule", escape, "NAME=FILE");
    let folder = Folder::new();
    let kernel = folder.file("kernel.toml", "kernel = \"\\u001b[31m\"");
    for args in [
        &bench[..],
        &["check", "--problem", GEMM, "--schedule", escape],
        &["check", "--problem", GEMM, "--schedule", &kernel],
        &["check", "--problem", escape],
        &["check", "--problem", GEMM, "--target", escape],
    ] {
        let ran = warpwright(args).exits(2);
        assert!(!ran.stderr.contains('\u{1b}'), "{args:?}: {:?}", ran.stderr);
    }
}

#[test]
fn peers_are_refused_before_the_question_for_a_gpu() {
    let bench = |problem: &str, more: &[&str]| {
        warpwright(&[&["bench", "--problem", problem, "--json", "--peers"], more].concat()).refused(2)
    };
    assert_reason(
        &bench(GEMM, &["nonsense"]),
        "--peers",
        "nonsense",
        "cudnn, fa2, fa4, cublas",
    );
    assert_reason(
        &bench(GEMM, &["cublas,"]),
        "--peers",
        "cublas,",
        "cudnn, fa2, fa4, cublas",
    );
    assert_reason(
        &bench(GEMM, &["cublas", "--device", "sim"]),
        "--peers",
        "cublas",
        "no --peers",
    );
    assert_reason(
        &bench("softmax bf16 m64 n64", &["cudnn"]),
        "--problem",
        "softmax",
        "fwd, gemm",
    );
}

#[test]
fn numbers_below_zero_are_refused_under_their_option() {
    for option in ["--seed", "--launches", "--sim-instructions"] {
        let error = warpwright(&["run", "--problem", GEMM, "--device", "sim", option, "-1", "--json"]).refused(2);
        let message = error["message"].as_str().unwrap_or_default();
        assert!(
            message.contains("invalid value '-1'") && message.contains(option),
            "{error:#}"
        );
    }
}

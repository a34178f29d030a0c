//! Refusals: exit code 2 or 3, what was asked, what is true, what would be allowed. None of them needs a GPU.

use crate::support::{ATTENTION, Folder, GEMM, assert_reason, run, warpwright};

fn problem_error(problem: &str) -> serde_json::Value {
    warpwright(&["check", "--problem", problem, "--json"]).refused(2)
}

#[test]
fn illegal_problems_are_refused_at_their_place() {
    for (problem, span, message) in [
        ("fwd bf16 b0 s1 h1 d64 full", (10, 11), "allowed: 1 to 1073741824"),
        ("fwd bf16 b1 s0 h1 d64 full", (13, 14), "q_len 0"),
        ("fwd bf16 b1 s8x0 h1 d64 full", (15, 16), "kv_len 0"),
        ("fwd bf16 b1 s8 h32/7 d64 full", (19, 20), "4 or 8"),
        ("fwd bf16 b1 s8 h4/0 d64 full", (18, 19), "kv_heads 0"),
        ("fwd bf61 b1 s8 h4 d64 full", (4, 8), "did you mean \"bf16\"?"),
        ("fwd bf16 b1 s8 h4 d64 casual", (22, 28), "did you mean \"causal\"?"),
        (
            "gemm bf16 m128 n99999999999999999999 k8 nn",
            (16, 36),
            "allowed: 1 to 1073741824",
        ),
        ("fwd bf16 b1 s8 h4 d64", (21, 21), "ends where"),
        ("fwd bf16 b1 s8 h4 d64 full full", (27, 31), "nothing more"),
        ("", (0, 0), "ends where"),
    ] {
        let error = problem_error(problem);
        assert_eq!(error["kind"], "refused");
        let found = (&error["span"]["start"], &error["span"]["end"]);
        assert_eq!(found, (&span.0.into(), &span.1.into()), "{problem}: {error:#}");
        let text = error["message"].as_str().unwrap_or_default();
        assert!(text.contains(message), "{problem}: {text}");
    }
}

#[test]
fn the_place_is_shown_with_carets() {
    let ran = warpwright(&["check", "--problem", "fwd bf16 b2 s64 h32/7 d128 full"]).exits(2);
    assert!(ran.stdout.is_empty(), "errors go to standard error");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let at = lines
        .iter()
        .position(|l| l.trim() == "fwd bf16 b2 s64 h32/7 d128 full")
        .expect("the text is shown");
    let digit = lines[at].find("/7").expect("the part to blame") + 1;
    assert_eq!(lines[at + 1].find('^'), Some(digit), "{}", ran.stderr);
}

#[test]
fn unsupported_head_sizes_are_refused() {
    // Whatever is wrong with the number, one message, and its place.
    for head_dim in ["0", "8", "63", "72", "96", "192", "512", "520", "4294967296"] {
        let error = problem_error(&format!("fwd bf16 b1 s8 h4 d{head_dim} full"));
        assert_reason(&error, "head_dim", &format!("d{head_dim}"), "d64, d128, d256");
        let message = "but attention kernels are built for some head sizes only; allowed: 64, 128, 256";
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|m| m.contains(&format!("head_dim {head_dim}, {message}"))),
            "{error:#}"
        );
        assert_eq!(
            (&error["span"]["start"], &error["span"]["end"]),
            (&19.into(), &(19 + head_dim.len()).into())
        );
    }
}

#[test]
fn numbers_that_overflow_are_refused() {
    let error = problem_error("fwd bf16 b1073741824 s1073741824 h1073741824 d64 full");
    assert!(
        error["message"].as_str().is_some_and(|m| m.contains("2^48")),
        "{error:#}"
    );
    // Each tensor is small enough, but no 32-bit counter can number the blocks.
    let error = problem_error("fwd bf16 b65536 s1 h65536 d64 full");
    assert_reason(&error, "grid", "4294967296 blocks", "1073741824");
}

#[test]
fn rows_the_copy_engine_cannot_address_are_refused() {
    let error = problem_error("gemm bf16 m128 n100 k64 nn");
    assert_reason(&error, "tensor b", "200 bytes", "multiple of 8 elements in n");
    let error = problem_error("softmax bf16 m64 n1001");
    assert_reason(&error, "tensor x", "2002 bytes", "multiple of 8 elements");
    warpwright(&["check", "--problem", "softmax bf16 m64 n1000"]).exits(0);
}

fn schedule_error(problem: &str, text: &str) -> serde_json::Value {
    let folder = Folder::new();
    let file = folder.file("s.toml", text);
    warpwright(&["check", "--problem", problem, "--schedule", &file, "--json"]).refused(2)
}

#[test]
fn unknown_keys_are_refused_with_line_and_suggestion() {
    let error = schedule_error(
        ATTENTION,
        "[tiles]\nq_tile = 128\n\n[loads.k]\nstage = 4\n\n[folds.kv]\nrescale = \"lasy\"\n",
    );
    let faults = error["faults"].as_array().expect("faults");
    let found: Vec<_> = faults
        .iter()
        .map(|f| (f["line"].clone(), f["message"].as_str().unwrap_or_default()))
        .collect();
    assert_eq!(found.len(), 2, "{error:#}");
    assert!(
        found[0].0 == 5 && found[0].1.contains("did you mean `stages`?"),
        "{found:?}"
    );
    assert!(
        found[1].0 == 8 && found[1].1.contains("did you mean `lazy`?"),
        "{found:?}"
    );
}

#[test]
fn names_the_kernel_does_not_have_are_refused() {
    for (text, message) in [
        ("[tiles]\nq_tiles = 128", "did you mean `q_tile`?"),
        ("[loads.kk]\nstages = 2", "did you mean `k`?"),
        ("[folds.vk]\nunroll = 2", "did you mean `kv`?"),
        ("[folds.kv.stages]\nss = 1", "did you mean `s`?"),
        ("kernel = \"gemm\"", "this kernel is `attention_forward`"),
        ("[grid]\ninner = \"heads\"", "did you mean `head`?"),
    ] {
        let error = schedule_error(ATTENTION, text);
        assert!(error.to_string().contains(message), "{text}: {error:#}");
        assert!(error["faults"][0]["line"].is_number(), "{text}: {error:#}");
    }
}

/// Problem and schedule; then the key, part of what was asked, and part of what is allowed.
const PAST_THE_HARDWARE: &[[&str; 5]] = &[
    [ATTENTION, "tiles.q_tile = 129", "tiles.q_tile", "129", "multiple of 8"],
    [
        ATTENTION,
        "tiles = { q_tile = 128, kv_tile = 0 }",
        "tiles.kv_tile",
        "0",
        "8..=4096",
    ],
    [ATTENTION, "roles.consumers = 4", "roles.consumers", "4", "1, 2 or 3"],
    [
        ATTENTION,
        "roles.consumer_registers = 245",
        "roles.consumer_registers",
        "245",
        "multiple of 8 in 24..=256",
    ],
    [
        ATTENTION,
        "roles.producer_registers = 16",
        "roles.producer_registers",
        "16",
        "multiple of 8 in 24..=256",
    ],
    [
        ATTENTION,
        "tiles.q_tile = 128\nroles = { consumers = 2, producer_registers = 24, consumer_registers = 248 }",
        "roles.consumer_registers",
        "24 + 2 x 248",
        "a sum of at most",
    ],
    [ATTENTION, "loads.k.stages = 17", "loads.k.stages", "17", "1 to 16"],
    [
        ATTENTION,
        "loads.k.l2_promotion = 100",
        "loads.k.l2_promotion",
        "100",
        "0, 64, 128, 256",
    ],
    [ATTENTION, "folds.kv.unroll = 9", "folds.kv.unroll", "9", "1 to 8"],
    [
        ATTENTION,
        "folds.kv.lazy_threshold = -1.0",
        "folds.kv.lazy_threshold",
        "-1",
        "0 to 16",
    ],
    [ATTENTION, "folds.kv.stages.o = 2", "folds.kv.stages.o", "2", "0 or 1"],
    [
        GEMM,
        "assembler.version = \"9.9.9\"",
        "assembler.version",
        "9.9.9",
        "13.5.37",
    ],
    [
        GEMM,
        "assembler.options = [\"--output-file=x\"]",
        "assembler.options",
        "--output-file=x",
        "--maxrregcount",
    ],
];

#[test]
fn schedules_past_the_hardware_are_refused() {
    for [problem, text, key, asked, allowed] in PAST_THE_HARDWARE {
        let error = schedule_error(problem, text);
        assert_reason(&error, key, asked, allowed);
    }
}

#[test]
fn tiles_past_shared_memory_are_refused() {
    let error = schedule_error(
        ATTENTION,
        "[tiles]\nq_tile = 128\nkv_tile = 128\n\n[loads.k]\nstages = 8\n",
    );
    let reasons = error["reasons"].as_array().expect("reasons");
    let about_memory = |r: &&serde_json::Value| r.to_string().contains("232448");
    let reason = reasons.iter().find(about_memory).unwrap_or_else(|| panic!("{error:#}"));
    assert!(
        ["asked", "true", "allowed"]
            .iter()
            .all(|f| reason[f].as_str().is_some_and(|s| !s.is_empty())),
        "{reason:#}"
    );
}

#[test]
fn files_that_are_no_schedule_are_refused() {
    let folder = Folder::new();
    let (bytes, broken) = (
        folder.file("b.toml", b"\xff\xfe"),
        folder.file("broken.toml", "tiles = ["),
    );
    let long = folder.file("long.toml", " ".repeat((1 << 20) + 1));
    for (file, message) in [
        (folder.path("missing.toml").as_str(), "cannot read"),
        ("/dev/zero", "longer than"),
        ("/", "cannot read"),
        (bytes.as_str(), "not UTF-8"),
        (broken.as_str(), "not TOML"),
        (long.as_str(), "longer than"),
    ] {
        let error = warpwright(&["check", "--problem", GEMM, "--schedule", file, "--json"]).refused(2);
        assert!(error.to_string().contains(message), "{file}: {error:#}");
    }
}

#[test]
fn the_command_line_itself_is_refused_in_json_too() {
    for (args, message) in [
        (&["compile", "--problem", GEMM, "--json"][..], "--emit"),
        (&["compile", "--problem", GEMM, "--emit", "ptxx", "--json"], "ptx"),
        (&["check", "--json"], "--problem"),
        (&["chekc", "--json"], "check"),
        (&["check", "--problem", GEMM, "--target", "sm_91", "--json"], "sm_90a"),
        (&["bench", "--json"], "--problem"),
        (
            &["bench", "--problem", GEMM, "--schedule", "x.toml", "--json"],
            "NAME=FILE",
        ),
        (&["run", "--problem", GEMM, "--device", "gpu", "--json"], "cuda:0"),
    ] {
        let error = warpwright(args).refused(2);
        assert!(error.to_string().contains(message), "{args:?}: {error:#}");
    }
    warpwright(&["chekc"]).exits(2);
    warpwright(&[]).exits(2);
}

#[test]
fn an_unwritable_file_is_refused() {
    let folder = Folder::new();
    let file = folder.path("no/such/folder/x.ptx");
    let error = warpwright(&["compile", "--problem", GEMM, "--emit", "ptx", "--out", &file, "--json"]).refused(2);
    assert!(
        error["message"].as_str().is_some_and(|m| m.contains("cannot write")),
        "{error:#}"
    );
}

/// Exit code 3 with each of its causes.
#[test]
fn what_is_not_assembled_says_why() {
    let folder = Folder::new();
    let cubin = |ptxas: &str| {
        warpwright(&[
            "compile",
            "--problem",
            GEMM,
            "--emit",
            "cubin",
            "--ptxas",
            ptxas,
            "--json",
        ])
        .refused(3)
    };
    for ptxas in [
        folder.path("no-ptxas"),
        folder.file("text", "no program"),
        "/".to_owned(),
    ] {
        let error = cubin(&ptxas);
        let message = format!("{ptxas} named by --ptxas is not a file that can be executed");
        assert_eq!(error["message"], message, "{error:#}");
    }
    let error = cubin(&folder.script("not-ptxas", "echo hello"));
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|m| m.contains("names no version")),
        "{error:#}"
    );
    // An assembler that refuses: its words come through as they are.
    let says = "ptxas kernel.ptx, line 7; error   : Unknown symbol 'row'";
    let refuses =
        format!("case \"$*\" in *--version*) echo 'release 13.5, V13.5.37';; *) echo \"{says}\" >&2; exit 255;; esac");
    let error = cubin(&folder.script("refusing-ptxas", &refuses));
    assert_eq!(error["kind"], "not-assembled");
    assert_eq!(error["ptxas_version"], "13.5.37");
    assert_eq!(error["diagnostics"][0]["text"], says, "{error:#}");
    // An assembler that would not assemble what is written.
    let warning =
        "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to x";
    let serialises = format!(
        "case \"$*\" in *--version*) echo 'release 13.5, V13.5.37';; *) echo \"{warning}\" >&2; echo code > kernel.cubin;; esac"
    );
    let error = cubin(&folder.script("serialising-ptxas", &serialises));
    assert!(error.to_string().contains("C7510"), "{error:#}");
}

#[test]
fn offline_without_an_assembler_names_the_command_that_helps() {
    let folder = Folder::new();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpwright"));
    command.args(["compile", "--problem", GEMM, "--emit", "cubin", "--offline", "--json"]);
    command
        .env("WARPWRIGHT_TOOLS", folder.path("empty"))
        .env("PATH", folder.path("none"))
        .env_remove("WARPWRIGHT_PTXAS");
    let error = run(&mut command).refused(3);
    assert!(
        error["message"]
            .as_str()
            .is_some_and(|m| m.contains("cargo xtask tools")),
        "{error:#}"
    );
    // PTX needs no assembler.
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpwright"));
    command.args(["compile", "--problem", GEMM, "--emit", "ptx", "--offline"]);
    command
        .env("WARPWRIGHT_TOOLS", folder.path("empty"))
        .env("PATH", folder.path("none"));
    run(&mut command).exits(0);
}

#[test]
fn orders_that_contradict_themselves_are_refused() {
    for (order, asked, fact, allowed) in [
        (
            r#"["issue s", "issue o", "issue s"]"#,
            "`issue s` as event 3",
            "event 1 already",
            "once",
        ),
        // A dot's own name is its issue.
        (r#"["issue s", "s"]"#, "`s` as event 2", "event 1 already", "once"),
        (
            r#"["issue s", "wait s", "issue o", "wait s"]"#,
            "`wait s` as event 4",
            "event 2 already",
            "once",
        ),
        (
            r#"["wait s", "issue s"]"#,
            "`issue s` as event 2",
            "event 1 waits for it",
            "before `wait s`",
        ),
        // `o` multiplies what is computed from `s`: within one trip it cannot come first.
        (
            r#"["issue o", "issue s"]"#,
            "`issue s` as event 2",
            "cannot run until `s` (stage 0) has",
            "`s` before `o`",
        ),
    ] {
        let error = schedule_error(ATTENTION, &format!("[folds.kv]\norder = {order}\n"));
        assert_reason(&error, "folds.kv.order", asked, allowed);
        let found = error["reasons"][0]["true"].as_str().unwrap_or_default();
        assert!(found.contains(fact), "{order}: {found}");
    }
    // One trip later it can.
    let folder = Folder::new();
    let text = "[folds.kv]\nstages = { o = 1 }\norder = [\"issue o\", \"issue s\"]\n";
    let file = folder.file("s.toml", text);
    warpwright(&["check", "--problem", ATTENTION, "--schedule", &file]).exits(0);
}

/// A refused value goes by the key that decides about it, with the line of the kernel that made it.
#[test]
fn values_of_the_kernel_are_refused_by_their_key_and_line() {
    for (problem, text, key, asked, source) in [
        // The rows of `k`, not the first tile of the kernel.
        (
            ATTENTION,
            "tiles = { q_tile = 64, kv_tile = 264 }",
            "tiles.kv_tile",
            "`k` as a tile of [264, 128]",
            "attention.rs:",
        ),
        (
            ATTENTION,
            "tiles.q_tile = 512",
            "tiles.q_tile",
            "`q` as a tile of [512, 128]",
            "attention.rs:",
        ),
        // The depth of `o` is a tile size of another value.
        (
            ATTENTION,
            "tiles.kv_tile = 8",
            "tiles.kv_tile",
            "`o` of 128 columns over a depth of 8",
            "attention.rs:",
        ),
        // A value without a name goes by its line.
        (
            GEMM,
            "tiles = { m_tile = 64, n_tile = 72, k_tile = 64 }",
            "tiles.n_tile",
            "the value of kernels-rs/src/gemm.rs:",
            "gemm.rs:",
        ),
        (
            ATTENTION,
            "roles.consumers = 3\ntiles.q_tile = 128",
            "tiles.q_tile",
            "128 rows for 3",
            "",
        ),
        (
            ATTENTION,
            "tiles = { q_tile = 64, kv_tile = 72 }\nfolds.kv.rescale = \"fixed\"",
            "tiles.kv_tile",
            "depth of 72",
            "attention.rs:",
        ),
        (
            ATTENTION,
            "[loads]\nk = { ring = \"r\", stages = 1 }\nv = { ring = \"r\", stages = 1 }",
            "loads.k.stages",
            "1 for ring `r`, shared with `v`",
            "",
        ),
    ] {
        let error = schedule_error(problem, text);
        assert_reason(&error, key, asked, "");
        let found = error["reasons"][0]["source"].as_str().unwrap_or_default();
        assert!(
            found.contains(source) && found.is_empty() == source.is_empty(),
            "{text}: {error:#}"
        );
    }
}

/// Only the sizes that are missing are named, all of them.
#[test]
fn an_incomplete_set_of_tiles_names_what_is_missing() {
    let error = schedule_error(GEMM, "tiles.n_tile = 1024");
    let keys: Vec<_> = error["reasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .map(|r| r["key"].clone())
        .collect();
    assert_eq!(keys, ["tiles.m_tile", "tiles.k_tile"], "{error:#}");
    assert!(error.to_string().contains("beside n_tile = 1024"), "{error:#}");
    let error = schedule_error(ATTENTION, "tiles.kv_tile = 1024");
    let keys: Vec<_> = error["reasons"]
        .as_array()
        .expect("reasons")
        .iter()
        .map(|r| r["key"].clone())
        .collect();
    assert_eq!(keys, ["tiles.q_tile"], "{error:#}");
}

#[test]
fn sizes_that_cannot_be_rounded_up_in_32_bits_are_refused() {
    for m in ["1073741825", "2147483640", "4294967296"] {
        let error = problem_error(&format!("gemm bf16 m{m} n8 k8 nn"));
        let message = format!("m {m}, but kernels compute with signed 32-bit sizes");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|t| t.contains(&message) && t.contains("1 to 1073741824")),
            "{error:#}"
        );
    }
}

/// One refusal that names the option, not a list of schedule keys that no value would mend.
#[test]
fn kernels_past_a_target_are_refused_once() {
    for problem in [ATTENTION, "softmax bf16 m64 n1000"] {
        for command in ["check", "run"] {
            for schedule in ["none", "shipped"] {
                let args = [
                    "--problem",
                    problem,
                    "--schedule",
                    schedule,
                    "--target",
                    "sm_80",
                    "--json",
                ];
                let error = warpwright(&[&[command], &args[..]].concat()).refused(2);
                assert_reason(&error, "--target", "for sm_80", "sm_90a for this kernel");
                assert_eq!(error["reasons"].as_array().map(Vec::len), Some(1), "{error:#}");
                assert!(error["help"].as_str().is_some_and(|h| h.contains("gemm")), "{error:#}");
            }
        }
    }
}

/// Copies of 16 bytes and stores of 4 need aligned rows, whoever makes them: on the card they fault (docs/log.md).
#[test]
fn rows_that_a_target_cannot_copy_are_refused() {
    for (target, problem, tensor, allowed) in [
        ("sm_90a", "gemm bf16 m300 n264 k200 tn", "tensor a", "8 elements in m"),
        ("sm_80", "gemm bf16 m300 n264 k200 tn", "tensor a", "8 elements in m"),
        ("sm_80", "gemm bf16 m304 n261 k200 tt", "tensor c", "2 elements in n"),
    ] {
        let args = [
            "check",
            "--target",
            target,
            "--problem",
            problem,
            "--schedule",
            "none",
            "--json",
        ];
        let error = warpwright(&args).refused(2);
        assert_reason(&error, tensor, "dense rows of", allowed);
    }
    warpwright(&[
        "check",
        "--target",
        "sm_80",
        "--problem",
        "gemm bf16 m304 n262 k200 tt",
        "--schedule",
        "none",
    ])
    .exits(0);
}

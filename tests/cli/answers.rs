//! What every command answers on a machine without a GPU.

use serde_json::Value;

use crate::support::{ATTENTION, GEMM, SOFTMAX, warpwright};

#[test]
fn check_tells_budgets_that_add_up() {
    for problem in [ATTENTION, GEMM, SOFTMAX] {
        let json = warpwright(&["check", "--problem", problem, "--json"]).exits(0).json();
        assert_eq!(
            (&json["ok"], &json["command"], &json["legal"]),
            (&true.into(), &"check".into(), &true.into())
        );
        assert_eq!(json["subject"]["problem"], problem);
        let facts = &json["facts"];
        let number = |v: &Value| v.as_u64().unwrap_or_else(|| panic!("{v} in {facts:#}"));
        assert!(number(&facts["shared_bytes"]["used"]) <= number(&facts["shared_bytes"]["limit"]));
        let registers = &facts["registers"];
        let used =
            128 * (number(&registers["producer"]) + number(&facts["consumers"]) * number(&registers["consumer"]));
        assert_eq!(number(&registers["used"]), used);
        assert!(used <= number(&registers["pool"]));
        assert_eq!(number(&facts["threads"]), 128 * (1 + number(&facts["consumers"])));
        let rings = facts["rings"].as_array().expect("rings").iter();
        let ring_bytes: u64 = rings.map(|r| number(&r["stages"]) * number(&r["slot_bytes"])).sum();
        assert!(ring_bytes > 0 && ring_bytes <= number(&facts["shared_bytes"]["used"]));
    }
}

#[test]
fn check_counts_the_blocks_of_the_problem() {
    let args = [
        "check",
        "--problem",
        "fwd bf16 b3 s1000x777 h12/4 d64 full",
        "--schedule",
        "none",
        "--json",
    ];
    let json = warpwright(&args).exits(0).json();
    let q_tile = json["tiles"]["q_tile"].as_u64().expect("the tile is bound");
    assert_eq!(
        json["facts"]["grid"]["blocks"],
        serde_json::json!([1000_u64.div_ceil(q_tile), 12, 3])
    );
    // Four flops per visible pair, head dimension and head.
    assert_eq!(
        json["facts"]["work"]["flops"],
        (4_u64 * 64 * 3 * 12 * 1000 * 777).to_string()
    );
}

#[test]
fn a_target_without_roles_has_facts_of_its_own() {
    let args = ["--problem", GEMM, "--schedule", "none", "--target", "sm_80", "--json"];
    let json = warpwright(&[&["check"], &args[..]].concat()).exits(0).json();
    assert_eq!(
        (&json["subject"]["target"], json["facts"]["registers"].is_null()),
        (&"sm_80".into(), true)
    );
    let ptx = warpwright(&[
        "compile",
        "--problem",
        GEMM,
        "--schedule",
        "none",
        "--target",
        "sm_80",
        "--emit",
        "ptx",
    ])
    .exits(0)
    .text();
    assert!(
        ptx.contains(".target sm_80") && ptx.contains("mma.sync") && !ptx.contains("wgmma"),
        "{ptx}"
    );
    let error = warpwright(&[&["explain"], &args[..]].concat()).refused(2);
    crate::support::assert_reason(&error, "--target", "sm_80", "sm_90a");
}

#[test]
fn text_answers_say_the_same() {
    let text = warpwright(&["check", "--problem", ATTENTION]).exits(0).text();
    assert!(
        text.starts_with("legal: the shipped schedule attention_d128_causal"),
        "{text}"
    );
    let text = warpwright(&["check", "--problem", ATTENTION, "--schedule", "none"])
        .exits(0)
        .text();
    assert!(text.starts_with("legal: the empty schedule"), "{text}");
}

#[test]
fn explain_maps_memory_without_holes_past_the_end() {
    for problem in [ATTENTION, GEMM, SOFTMAX] {
        let json = warpwright(&["explain", "--problem", problem, "--json"]).exits(0).json();
        let memory = &json["shared_memory"];
        let end = |r: &Value| r["offset_bytes"].as_u64().unwrap_or_default() + r["bytes"].as_u64().unwrap_or_default();
        let regions = memory["regions"].as_array().expect("regions");
        let last = regions.iter().map(end).max().unwrap_or_default();
        assert!(last <= memory["bytes"].as_u64().unwrap_or_default(), "{memory:#}");
        assert!(
            regions
                .iter()
                .any(|r| r["name"].as_str().is_some_and(|n| n.ends_with(".full")))
        );
    }
}

#[test]
fn explain_tells_the_pipeline_in_order() {
    let json = warpwright(&["explain", "--problem", ATTENTION, "--schedule", "none", "--json"])
        .exits(0)
        .json();
    let events = json["pipeline"]["consumer"].as_array().expect("events");
    let text = |e: &Value| e["text"].as_str().unwrap_or_default().to_owned();
    let at = |wanted: &str| {
        let found = events.iter().position(|e| text(e).starts_with(wanted));
        found.unwrap_or_else(|| panic!("no `{wanted}` in {events:#?}"))
    };
    assert!(at("wait for q") < at("issue s"));
    assert!(at("issue s") < at("issue o"));
    assert!(at("issue o") < at("store o"));
    assert!(events.iter().any(|e| e["depth"] == 1), "a fold has a loop");
    let text = warpwright(&["explain", "--problem", ATTENTION]).exits(0).text();
    for heading in [
        "Shared memory:",
        "Registers per thread",
        "Producer, per block",
        "Consumer warpgroup, per block",
        "Barriers",
        "Grid:",
    ] {
        assert!(text.contains(heading), "no {heading} in\n{text}");
    }
}

#[test]
fn ping_pong_shows_in_the_barrier_table() {
    let folder = crate::support::Folder::new();
    let file = folder.file("s.toml", "[folds.kv]\nhandoff = \"ping-pong\"\n");
    let turns = |schedule: &str| {
        let json = warpwright(&["explain", "--problem", ATTENTION, "--schedule", schedule, "--json"])
            .exits(0)
            .json();
        let rows = json["barriers"].as_array().cloned().unwrap_or_default();
        rows.iter().filter(|b| b["name"] == "turn").count()
    };
    assert_eq!((turns("none"), turns(&file)), (0, 1));
}

#[test]
fn list_names_kernels_schedules_and_knobs() {
    let json = warpwright(&["list", "--json"]).exits(0).json();
    let kernels = json["kernels"].as_array().expect("kernels");
    let names: Vec<&str> = kernels.iter().filter_map(|k| k["kernel"].as_str()).collect();
    assert_eq!(names, ["attention_forward", "gemm", "row_softmax"]);
    assert_eq!(kernels[0]["head_dims"], serde_json::json!([64, 128, 256]));
    assert!(!json["knobs"].as_array().expect("knobs").is_empty());
    let only = warpwright(&["list", "knobs", "--json"]).exits(0).json();
    assert_eq!((only["kernels"].is_null(), only["knobs"].is_array()), (true, true));
    // What it lists works: every example is accepted.
    for kernel in kernels {
        let example = kernel["example"].as_str().expect("an example");
        warpwright(&["check", "--problem", example]).exits(0);
    }
}

#[test]
fn every_listed_schedule_is_legal() {
    let json = warpwright(&["list", "schedules", "--json"]).exits(0).json();
    for schedule in json["schedules"].as_array().expect("schedules") {
        let words: Vec<&str> = schedule["serves"].as_str().expect("words").split(' ').collect();
        let problem = match words[..] {
            ["gemm"] => GEMM.to_owned(),
            ["row_softmax"] => SOFTMAX.to_owned(),
            ["attention_forward", head, mask] => format!("fwd bf16 b1 s100 h4 {head} {mask}"),
            ["attention_forward", head, mask, "from", "q_len", len] => format!("fwd bf16 b1 s{len} h4 {head} {mask}"),
            _ => panic!("what does {schedule} serve?"),
        };
        let checked = warpwright(&["check", "--problem", &problem, "--json"]).exits(0).json();
        assert_eq!(checked["subject"]["schedule"]["shipped"], schedule["name"]);
    }
}

#[test]
fn doctor_always_answers_and_fetches_nothing() {
    let ran = warpwright(&["doctor", "--json"]).exits(0);
    assert!(!ran.stderr.contains("fetching"), "{}", ran.stderr);
    let json = ran.json();
    assert_eq!(json["ready"]["lower"], true);
    assert_eq!(json["programs"].as_array().map(Vec::len), Some(3));
    for thing in ["cuda", "nvml"] {
        let finding = &json["probe"][thing];
        assert!(
            finding["status"] == "found" || finding["reason"].as_str().is_some_and(|r| !r.is_empty()),
            "{finding:#}"
        );
    }
    assert!(warpwright(&["doctor"]).exits(0).text().contains("Ready for"));
}

#[test]
fn help_has_examples_and_exit_codes() {
    let help = warpwright(&["--help"]).exits(0).text();
    for code in [
        "0  done",
        "2  the input",
        "3  not assembled",
        "4  no device",
        "5  wrong",
        "6  hang",
        "70  a bug",
        "74  the answer",
    ] {
        assert!(help.contains(code), "no `{code}` in\n{help}");
    }
    for command in ["compile", "check", "explain", "list", "doctor", "run", "bench"] {
        assert!(help.contains(command), "{command}");
        let help = warpwright(&[command, "--help"]).exits(0).text();
        assert!(help.contains("Examples:\n  warpwright "), "{help}");
        assert!(help.contains("--json"), "{help}");
    }
}

#[test]
fn help_and_version_are_json_where_json_is_asked_for() {
    for (args, command, part) in [
        (&["--json", "--help"][..], "help", "Usage: warpwright"),
        (&["--json", "help"], "help", "Usage: warpwright"),
        (&["help", "--json"], "help", "Usage: warpwright"),
        (&["help", "--json", "bench"], "help", "Usage: warpwright bench"),
        (&["--json", "help", "bench"], "help", "Usage: warpwright bench"),
        (&["compile", "--help", "--json"], "help", "Usage: warpwright compile"),
        (&["--json", "--version"], "version", env!("CARGO_PKG_VERSION")),
    ] {
        let json = warpwright(args).exits(0).json();
        assert_eq!(
            (&json["ok"], &json["exit_code"], &json["command"]),
            (&true.into(), &0.into(), &command.into()),
            "{args:?}"
        );
        assert!(json["text"].as_str().is_some_and(|t| t.contains(part)), "{json:#}");
        let is_version = json["version"] == env!("CARGO_PKG_VERSION");
        assert_eq!(is_version, command == "version", "{json:#}");
    }
    // Without `--json` it stays text.
    assert!(warpwright(&["--version"]).exits(0).text().starts_with("warpwright "));
}

/// Both ways in which callers open it; the second looks as a standard output that was closed before the start.
#[test]
fn an_answer_thrown_away_on_purpose_is_a_success() {
    for reads in [false, true] {
        let mut options = std::fs::OpenOptions::new();
        let null = options.write(true).read(reads).open("/dev/null");
        let ran = with_stdout(&["list"], null.expect("a device that takes everything"));
        assert_eq!(ran, (Some(0), String::new()), "opened for reading too: {reads}");
    }
}

/// Runs the binary with this standard output; exit code and standard error.
fn with_stdout(args: &[&str], stdout: impl Into<std::process::Stdio>) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpwright"));
    let output = command.args(args).stdout(stdout).output().expect("the binary starts");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn an_answer_that_cannot_be_written_is_no_success() {
    let refused = ["check", "--problem", "gemm bf16 m0 n8 k8 nn", "--json"];
    for (args, code) in [
        (&["list"][..], 74),
        (&["list", "--json"], 74),
        (&["--help"], 74),
        (&["compile", "--help"], 74),
        (&["compile", "--problem", GEMM, "--emit", "ptx"], 74),
        // What failed first decides.
        (&refused, 2),
    ] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let (found, stderr) = with_stdout(args, full.expect("a device that is always full"));
        assert_eq!(found, Some(code), "{args:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output"), "{args:?}: {stderr}");
        // A reader that went away needs no message.
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(with_stdout(args, writer), (Some(code), String::new()), "{args:?}");
    }
}

#[test]
fn check_runs_a_small_problem_on_the_simulated_device_and_says_so() {
    let args = ["check", "--problem", ATTENTION, "--json"];
    let plain = warpwright(&args).exits(0).json();
    assert!(plain["simulation"].is_null(), "{plain:#}");
    let json = warpwright(&[&args[..], &["--device", "sim"]].concat()).exits(0).json();
    let simulation = &json["simulation"];
    assert_eq!(
        (&simulation["simulated"], &simulation["outcome"]["outcome"]),
        (&true.into(), &"verified".into()),
        "{simulation:#}"
    );
    let text = warpwright(&["check", "--problem", ATTENTION, "--device", "sim"])
        .exits(0)
        .text();
    assert!(text.contains("simulated") && text.contains("nothing found"), "{text}");
    let refused = warpwright(&["check", "--problem", ATTENTION, "--device", "cuda:0"]).exits(2);
    assert!(refused.stderr.contains("allowed: sim"), "{}", refused.stderr);
}

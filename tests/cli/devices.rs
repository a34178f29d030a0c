//! Commands that need a GPU, on a machine that has none: they say so, after everything that can be refused without one.

use driver::Finding;

use crate::support::{ATTENTION, Folder, GEMM, assert_reason, warpwright};

/// Whether this machine has no GPU; the tests of this file are about such machines.
fn is_without_gpu(test: &str) -> bool {
    let has_gpu = matches!(driver::probe().cuda, Finding::Found(found) if !found.devices.is_empty());
    if has_gpu {
        tools::testing::report_skip(test, "this machine has a GPU");
    }
    !has_gpu
}

#[test]
fn without_a_gpu_they_say_so_and_name_the_simulator() {
    if !is_without_gpu("without_a_gpu_they_say_so_and_name_the_simulator") {
        return;
    }
    for command in ["run", "bench"] {
        warpwright(&[command, "--problem", ATTENTION, "--device", "cuda:7", "--json"]).refused(4);
        let error = warpwright(&[command, "--problem", ATTENTION, "--json"]).refused(4);
        assert_eq!(error["kind"], "no-device");
        assert!(
            error["help"].as_str().is_some_and(|h| h.contains("--device sim")),
            "{error:#}"
        );
        let text = warpwright(&[command, "--problem", ATTENTION]).exits(4).stderr;
        assert!(text.contains("--device sim"), "{text}");
    }
}

#[test]
fn a_refusal_comes_before_the_question_for_a_gpu() {
    let folder = Folder::new();
    let file = folder.file("s.toml", "[roles]\nconsumers = 9\n");
    for device in ["cuda:0", "cuda:7", "sim"] {
        warpwright(&[
            "run",
            "--problem",
            "fwd bf16 b1 s0 h1 d64 full",
            "--device",
            device,
            "--json",
        ])
        .refused(2);
        warpwright(&[
            "run",
            "--problem",
            ATTENTION,
            "--schedule",
            &file,
            "--device",
            device,
            "--json",
        ])
        .refused(2);
        let named = format!("mine={file}");
        warpwright(&[
            "bench",
            "--problem",
            ATTENTION,
            "--schedule",
            &named,
            "--device",
            device,
            "--json",
        ])
        .refused(2);
    }
}

/// Exit codes 0, 2 and 6 of a device, without a GPU.
#[test]
fn the_simulated_device_verifies_and_reports() {
    for problem in [
        "gemm bf16 m100 n72 k40 nt",
        "fwd f16 b1 s70x33 h2/1 d64 causal",
        "softmax bf16 m40 n72",
    ] {
        let json = warpwright(&[
            "run",
            "--problem",
            problem,
            "--device",
            "sim",
            "--launches",
            "1",
            "--json",
        ])
        .exits(0)
        .json();
        assert_eq!(
            (&json["ok"], &json["simulated"]),
            (&true.into(), &true.into()),
            "{problem}"
        );
        let families = json["outcome"]["report"]["families"].as_array().expect("families");
        assert!(
            families.len() > 3 && families.iter().all(|f| f["wrong"].is_null()),
            "{json:#}"
        );
    }
    // A kernel that does not come to its end within its budget counts as hung.
    let hung = warpwright(&[
        "run",
        "--problem",
        GEMM,
        "--device",
        "sim",
        "--sim-instructions",
        "1000",
        "--json",
    ])
    .refused(6);
    assert_eq!(
        (&hung["kind"], &hung["outcome"]["outcome"]),
        (&"device-fault".into(), &"hang".into())
    );
    let hung = warpwright(&[
        "run",
        "--problem",
        GEMM,
        "--device",
        "sim",
        "--sim-instructions",
        "1000",
    ])
    .exits(6);
    assert!(hung.stderr.contains("hang"), "{}", hung.stderr);
}

#[test]
fn predictions_are_labelled_and_cannot_be_recorded() {
    let bench = ["bench", "--problem", GEMM, "--device", "sim"];
    let text = warpwright(&bench).exits(0).text();
    assert!(text.contains("simulated") && text.contains("not measured"), "{text}");
    let json = warpwright(&[&bench[..], &["--json"]].concat()).exits(0).json();
    assert_eq!(json["simulated"], true);
    let prediction = &json["predictions"][0]["schedules"][0]["prediction"];
    assert_eq!(prediction["simulated"], true);
    assert!(
        prediction["cycles"].as_f64().is_some_and(|c| c > 1000.0),
        "{prediction}"
    );
    let folder = Folder::new();
    let out = folder.path("times.jsonl");
    let error = warpwright(&[&bench[..], &["--out", &out, "--json"]].concat()).refused(2);
    assert_reason(&error, "--out", "times.jsonl", "no --out");
    assert!(!std::path::Path::new(&out).exists());
}

#[test]
fn a_trace_is_labelled_and_repeats() {
    let folder = Folder::new();
    let trace = |name: &str| {
        let out = folder.path(name);
        let args = ["trace", "--problem", GEMM, "--out", &out, "--json"];
        let json = warpwright(&args).exits(0).json();
        assert_eq!(json["simulated"], true);
        std::fs::read_to_string(out).expect("written")
    };
    let text = trace("a.json");
    assert_eq!(text, trace("b.json"));
    let json: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(
        (&json["simulated"], &json["otherData"]["simulated"]),
        (&true.into(), &true.into())
    );
    let events = json["traceEvents"].as_array().expect("events");
    let lanes: Vec<&str> = events.iter().filter_map(|e| e["args"]["name"].as_str()).collect();
    for lane in ["producer warp 0", "consumer 0 warp 0", "tensor core", "copy engine"] {
        assert!(lanes.contains(&lane), "{lanes:?}");
    }
    let spans = events.iter().filter(|e| e["ph"] == "X");
    assert!(
        spans.clone().count() > 20 && spans.clone().all(|e| e["dur"].is_u64()),
        "{text}"
    );
}

#[test]
fn an_instrumented_kernel_says_so_in_its_launch_facts() {
    let args = ["compile", "--problem", GEMM, "--emit", "launch", "--json"];
    let of = |more: &[&str]| warpwright(&[&args[..], more].concat()).exits(0).json()["launch"]["params"].clone();
    let (plain, stamped) = (of(&[]), of(&["--instrument", "blocks"]));
    let (plain, stamped) = (plain.as_array().expect("list"), stamped.as_array().expect("list"));
    assert_eq!(stamped.len(), plain.len() + 1);
    assert_eq!(stamped.last().expect("one")["kind"], "stamps");
}

#[test]
fn records_are_appended_line_by_line() {
    let folder = Folder::new();
    let file = folder.path("runs.jsonl");
    for _ in 0..2 {
        let args = [
            "run",
            "--problem",
            "gemm bf16 m64 n64 k64 nn",
            "--device",
            "sim",
            "--launches",
            "1",
            "--record",
            &file,
        ];
        warpwright(&args).exits(0);
    }
    let text = std::fs::read_to_string(&file).expect("written");
    let lines: Vec<serde_json::Value> = text.lines().map(|l| serde_json::from_str(l).expect("JSON")).collect();
    assert_eq!(lines.len(), 2);
    assert!(lines.iter().all(|l| l["outcome"]["outcome"] == "verified"), "{text}");
}

#[test]
fn verification_is_chosen_where_there_is_one() {
    for verify in ["quick", "full"] {
        let asked = ["bench", "--problem", GEMM, "--verify", verify, "--json"];
        let error = warpwright(&[&asked[..], &["--device", "sim"]].concat()).refused(2);
        assert_reason(&error, "--verify", verify, "no --verify");
        let error = warpwright(&[&asked[..], &["--peers", "cublas"]].concat()).refused(2);
        assert_reason(&error, "--verify", verify, "no --verify");
    }
    let error = warpwright(&["bench", "--problem", GEMM, "--verify", "none", "--json"]).refused(2);
    assert!(error.to_string().contains("quick, full"), "{error:#}");
}

#[test]
fn schedules_to_time_have_names_of_their_own() {
    let error = warpwright(&[
        "bench",
        "--problem",
        GEMM,
        "--schedule",
        "a=none",
        "--schedule",
        "a=none",
        "--json",
    ])
    .refused(2);
    assert_reason(&error, "--schedule", "a", "a name of its own");
}

#[test]
fn problem_files_are_read_line_by_line() {
    let folder = Folder::new();
    let good = folder.file("good.txt", format!("# shapes\n\n{GEMM}\n  {ATTENTION}  \n"));
    let json = warpwright(&[
        "bench",
        "--problems",
        &good,
        "--schedule",
        "empty=none",
        "--device",
        "sim",
        "--json",
    ])
    .exits(0)
    .json();
    let problems: Vec<&str> = (0..2)
        .filter_map(|i| json["predictions"][i]["problem"].as_str())
        .collect();
    assert_eq!(problems, [GEMM, ATTENTION]);
    let bad = folder.file("bad.txt", format!("{GEMM}\nfwd bf16 b1 s1 h3/2 d64 full\n"));
    let error = warpwright(&["bench", "--problems", &bad, "--json"]).refused(2);
    assert_eq!(error["text"], "fwd bf16 b1 s1 h3/2 d64 full");
    let empty = folder.file("empty.txt", "# nothing\n");
    warpwright(&["bench", "--problems", &empty, "--json"]).refused(2);
}

#[test]
fn the_simulator_is_of_the_target_asked_for() {
    for (target, capability) in [("sm_80", [8, 0]), ("sm_90a", [9, 0])] {
        let args = ["run", "--problem", "gemm bf16 m64 n64 k64 nt", "--schedule", "none"];
        let more = ["--target", target, "--device", "sim", "--launches", "1"];
        let text = warpwright(&[&args[..], &more].concat()).exits(0).text();
        assert!(text.contains(&format!("simulator of {target}\n")), "{text}");
        let json = warpwright(&[&args[..], &more, &["--json"]].concat()).exits(0).json();
        assert_eq!(json["device"]["compute_capability"], serde_json::json!(capability));
    }
}

#[test]
fn a_budget_of_no_instructions_is_refused() {
    let args = [
        "run",
        "--problem",
        GEMM,
        "--device",
        "sim",
        "--sim-instructions",
        "0",
        "--json",
    ];
    let error = warpwright(&args).refused(2);
    assert!(error.to_string().contains("--sim-instructions"), "{error:#}");
    // One is a budget, and no kernel ends within it.
    let args = [
        "run",
        "--problem",
        "gemm bf16 m64 n64 k64 nt",
        "--device",
        "sim",
        "--sim-instructions",
        "1",
        "--json",
    ];
    warpwright(&args).refused(6);
}

#[test]
fn what_the_simulator_finds_names_the_rust_line() {
    // Far enough for every warp to be inside the kernel's own statements, too little to finish.
    let args = [
        "run",
        "--problem",
        "gemm bf16 m64 n64 k640 nt",
        "--device",
        "sim",
        "--sim-instructions",
        "3000",
        "--json",
    ];
    let error = warpwright(&args).refused(6);
    let text = error["message"].as_str().unwrap_or_default();
    assert!(text.contains("(kernels-rs/src/gemm.rs:"), "{text}");
}

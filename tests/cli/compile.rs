//! `compile`: every stage, the same bytes every time, and machine code where the assembler is there.

use tools::testing::tools_or_skip;

use crate::support::{ATTENTION, Folder, GEMM, SOFTMAX, assert_reason, run, warpwright};

fn emit(problem: &str, stage: &str, more: &[&str]) -> Vec<u8> {
    let mut args = vec!["compile", "--problem", problem, "--emit", stage];
    args.extend(more);
    warpwright(&args).exits(0).stdout
}

fn text(problem: &str, stage: &str) -> String {
    String::from_utf8(emit(problem, stage, &["--schedule", "none"])).expect("text")
}

/// One stream cannot hold the answer and the file: refused before any work, by whatever name the file has.
#[test]
fn a_file_that_is_standard_output_is_refused_beside_an_answer() {
    let compile = ["compile", "--problem", GEMM, "--emit", "ptx", "--out"];
    for path in ["/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"] {
        let error = warpwright(&[&compile[..], &[path, "--json"]].concat()).refused(2);
        assert_reason(&error, "--out", path, "no `--json`");
        assert!(
            error["message"]
                .as_str()
                .is_some_and(|m| m.contains("`--out` and `--json`")),
            "{error:#}"
        );
        // Nothing but the PTX is written without `--json`.
        let text = warpwright(&[&compile[..], &[path]].concat()).exits(0).text();
        assert!(text.starts_with("//") && text.ends_with("}\n"), "{text}");
        for (command, option) in [("trace", "--out"), ("bench", "--out"), ("run", "--record")] {
            let args = [command, "--problem", GEMM, "--device", "sim", option, path];
            let error = warpwright(&args).exits(2).stderr;
            assert!(error.contains(&format!("`{option}` and the answer")), "{error}");
            let error = warpwright(&[&args[..], &["--json"]].concat()).refused(2);
            assert_reason(&error, option, path, "a file of its own");
        }
    }
    let folder = Folder::new();
    let file = folder.file("shared", "");
    let shared = std::fs::OpenOptions::new().append(true).open(&file);
    let into = |stdout: std::fs::File, path: &str| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpwright"));
        run(command.args(compile).args([path, "--json"]).stdout(stdout))
    };
    into(shared.expect("just written"), &file).exits(2);
    // What is thrown away cannot mix.
    let null = std::fs::OpenOptions::new().write(true).open("/dev/null");
    into(null.expect("a device that takes everything"), "/dev/null").exits(0);
}

#[test]
fn every_stage_speaks_its_own_language() {
    for problem in [ATTENTION, GEMM, SOFTMAX] {
        assert!(text(problem, "tile").starts_with("kernel "), "{problem}");
        assert!(text(problem, "tile").contains("_tile"), "tile sizes are open");
        assert!(text(problem, "scheduled").contains("[tiles]"), "{problem}");
        assert!(text(problem, "role").contains("consumer"), "{problem}");
        let ptx = text(problem, "ptx");
        assert!(ptx.contains(".target sm_90a") && ptx.contains("mbarrier"), "{problem}");
    }
    assert!(text(ATTENTION, "ptx").contains("wgmma.mma_async"));
}

#[test]
fn launch_facts_are_enough_for_a_foreign_loader() {
    let facts: serde_json::Value = serde_json::from_str(&text(GEMM, "launch")).expect("JSON");
    assert_eq!(facts["entry"], "gemm");
    for key in [
        "version",
        "target",
        "block",
        "shared_bytes",
        "grid",
        "runtime",
        "tensors",
        "params",
    ] {
        assert!(!facts[key].is_null(), "no {key} in {facts:#}");
    }
    let params = facts["params"].as_array().expect("params");
    let maps: Vec<_> = params.iter().filter(|p| p["kind"] == "tensor_map").collect();
    assert!(
        !maps.is_empty() && maps.iter().all(|m| m["box"].is_array()),
        "{facts:#}"
    );
    // The one tensor that the copy engine writes has whole 16-byte pieces in a row.
    let tensors = facts["tensors"].as_array().expect("tensors").iter();
    let multiples: Vec<_> = tensors
        .map(|t| (t["name"].as_str(), t["row_multiple_elems"].as_u64()))
        .collect();
    assert_eq!(
        multiples,
        [(Some("a"), Some(1)), (Some("b"), Some(1)), (Some("c"), Some(8))]
    );
    // Each parameter of the entry has its recipe, in order.
    let ptx = text(GEMM, "ptx");
    let entry = ptx
        .split(".entry")
        .nth(1)
        .and_then(|rest| rest.split(')').next())
        .expect("an entry");
    assert_eq!(entry.matches(".param").count(), params.len(), "{entry}");
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    for problem in [ATTENTION, GEMM, SOFTMAX] {
        for stage in ["tile", "scheduled", "role", "ptx", "launch"] {
            let more = ["--json"];
            assert_eq!(
                emit(problem, stage, &more),
                emit(problem, stage, &more),
                "{stage} of {problem}"
            );
        }
    }
}

#[test]
fn runtime_sizes_do_not_reach_the_code() {
    let small = text("fwd bf16 b1 s17x5 h2 d128 causal", "ptx");
    let large = text("fwd bf16 b7 s4096 h64/8 d128 causal", "ptx");
    assert_eq!(small, large);
}

#[test]
fn the_scheduled_text_is_a_schedule_for_the_same_code() {
    let folder = Folder::new();
    for problem in [ATTENTION, GEMM, SOFTMAX] {
        let file = folder.path("spelt_out.toml");
        emit(problem, "scheduled", &["--out", &file]);
        assert_eq!(
            emit(problem, "ptx", &["--schedule", &file]),
            emit(problem, "ptx", &[]),
            "{problem}"
        );
        // And nothing is left to say.
        let again = folder.path("again.toml");
        emit(problem, "scheduled", &["--schedule", &file, "--out", &again]);
        let read = |path: &str| std::fs::read_to_string(path).expect("written");
        assert_eq!(read(&file), read(&again), "{problem}");
    }
}

#[test]
fn out_takes_the_result_and_leaves_a_note() {
    let folder = Folder::new();
    let file = folder.path("kernel.ptx");
    let ran = warpwright(&["compile", "--problem", GEMM, "--emit", "ptx", "--out", &file]).exits(0);
    assert!(ran.stdout.is_empty(), "the result is in the file");
    assert!(ran.stderr.contains(&file), "{}", ran.stderr);
    assert_eq!(std::fs::read(&file).expect("written"), emit(GEMM, "ptx", &[]));
    let ran = warpwright(&["compile", "--problem", GEMM, "--emit", "ptx", "--out", &file, "--json"]).exits(0);
    assert_eq!(ran.json()["out"], file.as_str());
}

#[test]
fn machine_code_comes_out_whole() {
    let Some(_tools) = tools_or_skip("machine_code_comes_out_whole").expect("usable tools") else {
        return;
    };
    let cubin = emit(GEMM, "cubin", &[]);
    assert!(cubin.starts_with(b"\x7fELF"), "a cubin is an ELF file");
    assert_eq!(cubin, emit(GEMM, "cubin", &[]), "the same bytes every time");
    let sass = String::from_utf8(emit(GEMM, "sass", &[])).expect("text");
    assert!(sass.contains("HGMMA"), "no tensor-core instruction in\n{sass}");
    let json = warpwright(&["compile", "--problem", ATTENTION, "--emit", "resources", "--json"])
        .exits(0)
        .json();
    let function = &json["resources"]["functions"][0];
    assert_eq!(function["name"], "attention_forward");
    assert!(function["registers"].as_u64().is_some_and(|n| n > 0), "{json:#}");
    assert_eq!(json["cubin_bytes"].as_u64().map(|n| n > 0), Some(true));
}

/// The assembler names a function; our own analysis names the tiles and their Rust lines.
#[test]
fn what_does_not_assemble_comes_with_suspects() {
    let Some(_tools) = tools_or_skip("what_does_not_assemble_comes_with_suspects").expect("usable tools") else {
        return;
    };
    let folder = Folder::new();
    let file = folder.file(
        "wide.toml",
        "tiles = { q_tile = 192, kv_tile = 96 }\nfolds.kv.rescale = \"lazy\"\n",
    );
    let problem = "fwd bf16 b1 s4096 h8 d128 full";
    let compile = [
        "compile",
        "--problem",
        problem,
        "--schedule",
        &file,
        "--emit",
        "resources",
        "--json",
    ];
    let error = warpwright(&compile).refused(3);
    let said = |key: &str, what: &str| error[key].to_string().contains(what);
    assert!(said("diagnostics", "C7512"), "{error:#}");
    for tile in [
        "`acc` (kernels-rs/src/attention.rs:",
        "`p` (kernels-rs/src/attention.rs:",
        "`p16` (",
    ] {
        assert!(said("suspects", tile) && said("message", tile), "{error:#}");
    }
}

/// The assembler's knobs reach it: other machine code of the same PTX.
#[test]
fn assembler_options_change_the_cubin_and_not_the_ptx() {
    let Some(_tools) = tools_or_skip("assembler_options_change_the_cubin_and_not_the_ptx").expect("usable tools")
    else {
        return;
    };
    let folder = Folder::new();
    let file = folder.file("options.toml", "assembler.options = [\"--maxrregcount=160\"]\n");
    let with = ["--schedule", file.as_str()];
    let plain = ["--schedule", "none"];
    assert_eq!(emit(GEMM, "ptx", &with), emit(GEMM, "ptx", &plain));
    assert_ne!(emit(GEMM, "cubin", &with), emit(GEMM, "cubin", &plain));
}

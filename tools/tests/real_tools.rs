//! The real assembler and disassemblers on real kernels.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panicking, as tests do")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tools::sass::disassemble;
use tools::testing::tools_or_skip;
use tools::{
    AssembleError, AssembleRequest, DiagnosticClass, OpGroup, Origin, PtxasVersion, ResolveOptions, SassReport, Tool,
    ToolError, ToolKind, ToolSet,
};

const FULL: &str = include_str!("../../sim/tests/foreign/fwd_d128_full_192x80.ptx");
const CAUSAL: &str = include_str!("../../sim/tests/foreign/fwd_d128_causal_128x128_dynamic.ptx");
const DEADLINE: Duration = Duration::from_secs(120);

const TINY: &str = "\
.version 8.7
.target sm_90a
.address_size 64
.visible .entry tiny(.param .u64 out) {
.reg .b64 %d<2>; .reg .b32 %r<2>;
ld.param.u64 %d0, [out];
cvta.to.global.u64 %d1, %d0;
mov.u32 %r0, %tid.x;
st.global.u32 [%d1], %r0;
ret;
}
";

fn report(tools: &ToolSet, ptx: &str) -> SassReport {
    let assembled = tools
        .assemble(&AssembleRequest::new(ptx, "sm_90a"))
        .unwrap()
        .accept()
        .unwrap();
    assert!(!assembled.resources.spills(), "{:?}", assembled.resources);
    assert_eq!(assembled.remarks().count(), 0);
    assert_eq!(assembled.ptxas_version, tools.ptxas.version);
    tools
        .disassemble(&assembled.cubin, DEADLINE)
        .unwrap()
        .reports()
        .remove(0)
}

/// An assembler that is a shell script; it answers `--version` like the real one.
fn fake_ptxas(folder: &Path, body: &str) -> Tool {
    let path = folder.join("ptxas");
    let script =
        format!("#!/bin/sh\nif [ \"$1\" = --version ]; then echo 'release 13.5, V13.5.37'; exit 0; fi\n{body}\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Tool::at(ToolKind::Ptxas, &path, Origin::Explicit).unwrap()
}

#[test]
fn the_full_sample_assembles_as_written() {
    let Some(tools) = tools_or_skip("the_full_sample_assembles_as_written").unwrap() else {
        return;
    };
    let report = report(&tools, FULL);
    // 8 wgmma per QK tile and 5 per PV tile, each in a first, a steady and a last part.
    assert_eq!(report.all.get(OpGroup::Hgmma), 2 * 8 + 2 * 5);
    let budgets: Vec<_> = report.roles.iter().map(|role| role.budget_registers).collect();
    assert_eq!(budgets, [Some(32), Some(160)]);
    for role in &report.roles {
        assert!(role.max_register < role.budget_registers, "{role}");
    }
    let steady = report
        .work_loops()
        .max_by_key(|found| found.own.get(OpGroup::Hgmma))
        .unwrap();
    assert_eq!(
        (steady.own.get(OpGroup::Hgmma), steady.own.get(OpGroup::WarpgroupDepbar)),
        (13, 2)
    );
    assert_eq!(steady.depth, 1);
    assert!(report.spills.is_empty() && !report.is_irreducible && report.indirect_branches == 0);
}

#[test]
fn tma_guarded_by_a_thread_id_is_seen_in_retry_loops() {
    let Some(tools) = tools_or_skip("tma_guarded_by_a_thread_id_is_seen_in_retry_loops").unwrap() else {
        return;
    };
    let report = report(&tools, FULL);
    assert_eq!(report.all.get(OpGroup::Utmaldg), 6);
    assert_eq!(report.tma_in_elect_retry, 6);
}

#[test]
fn the_causal_sample_assembles_as_written() {
    let Some(tools) = tools_or_skip("the_causal_sample_assembles_as_written").unwrap() else {
        return;
    };
    let report = report(&tools, CAUSAL);
    assert!(report.all.get(OpGroup::Hgmma) > 0);
    for found in report.work_loops() {
        assert!(found.waits_per_hgmma.is_none_or(|ratio| ratio < 0.5), "{found}");
    }
    assert!(report.spills.is_empty() && !report.is_irreducible);
}

#[test]
fn both_disassemblers_agree() {
    let Some(tools) = tools_or_skip("both_disassemblers_agree").unwrap() else {
        return;
    };
    let cubin = tools.assemble(&AssembleRequest::new(CAUSAL, "sm_90a")).unwrap().cubin;
    let by_nvdisasm = disassemble(&tools, ToolKind::Nvdisasm, &cubin, DEADLINE)
        .unwrap()
        .reports();
    let by_cuobjdump = disassemble(&tools, ToolKind::Cuobjdump, &cubin, DEADLINE)
        .unwrap()
        .reports();
    assert_eq!(by_nvdisasm, by_cuobjdump);
}

#[test]
fn the_same_request_gives_the_same_bytes() {
    let Some(tools) = tools_or_skip("the_same_request_gives_the_same_bytes").unwrap() else {
        return;
    };
    let request = AssembleRequest::new(FULL, "sm_90a");
    let (first, second) = (tools.assemble(&request).unwrap(), tools.assemble(&request).unwrap());
    assert_eq!(first.cubin, second.cubin);
    assert_eq!(first.diagnostics, second.diagnostics);
}

#[test]
fn without_optimisation_the_pipeline_is_serialised_and_refused() {
    let Some(tools) = tools_or_skip("without_optimisation_the_pipeline_is_serialised_and_refused").unwrap() else {
        return;
    };
    let options = ["--generate-line-info".to_owned()];
    let request = AssembleRequest {
        opt_level: 0,
        extra_options: &options,
        ..AssembleRequest::new(FULL, "sm_90a")
    };
    let assembled = tools.assemble(&request).unwrap();
    assert!(
        assembled
            .refusals()
            .any(|line| line.class == DiagnosticClass::WgmmaSerialised)
    );
    assert!(assembled.remarks().count() > 0);
    assert!(assembled.resources.function("attn").unwrap().spills());
    let report = tools
        .disassemble(&assembled.cubin, DEADLINE)
        .unwrap()
        .reports()
        .remove(0);
    assert!(!report.spills.is_empty() && report.spills.iter().all(|site| site.ptx_line.is_some()));
    let error = assembled.accept().unwrap_err();
    assert!(error.to_string().contains("C7511"), "{error}");
}

#[test]
fn broken_text_is_refused_with_its_lines() {
    let Some(tools) = tools_or_skip("broken_text_is_refused_with_its_lines").unwrap() else {
        return;
    };
    let broken = TINY.replace("mov.u32 %r0, %tid.x;", "add.u32 %r0, %r1, %zz;");
    let error = tools.assemble(&AssembleRequest::new(&broken, "sm_90a")).unwrap_err();
    let AssembleError::Rejected { version, diagnostics } = error else {
        panic!("{error}")
    };
    assert_eq!(version, tools.ptxas.version);
    let unknown = diagnostics
        .iter()
        .find(|line| line.text.contains("Unknown symbol '%zz'"))
        .unwrap();
    assert_eq!(unknown.ptx_line, Some(8));
}

#[test]
fn a_target_that_does_not_fit_is_refused() {
    let Some(tools) = tools_or_skip("a_target_that_does_not_fit_is_refused").unwrap() else {
        return;
    };
    let error = tools.assemble(&AssembleRequest::new(TINY, "sm_90")).unwrap_err();
    assert!(matches!(&error, AssembleError::Rejected { .. }), "{error}");
    assert!(error.to_string().contains("sm_90a"), "{error}");
}

#[test]
fn bytes_that_are_no_cubin_are_refused() {
    let Some(tools) = tools_or_skip("bytes_that_are_no_cubin_are_refused").unwrap() else {
        return;
    };
    for tool in [ToolKind::Nvdisasm, ToolKind::Cuobjdump] {
        assert!(disassemble(&tools, tool, b"not a cubin", DEADLINE).is_err(), "{tool}");
    }
}

#[test]
fn the_installed_tools_are_the_pinned_ones() {
    let Some(tools) = tools_or_skip("the_installed_tools_are_the_pinned_ones").unwrap() else {
        return;
    };
    for tool in [&tools.ptxas, &tools.nvdisasm, &tools.cuobjdump] {
        let is_pinned = tool.origin == Origin::Folder;
        assert!(!is_pinned || tool.version == "13.5.37", "{tool:?}");
    }
}

#[test]
fn an_assembler_that_does_not_end_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let ptxas = fake_ptxas(folder.path(), "sleep 60 & wait");
    let request = AssembleRequest {
        deadline: Duration::from_millis(200),
        ..AssembleRequest::new(TINY, "sm_90a")
    };
    let started = Instant::now();
    let error = tools::assemble::assemble(&ptxas, &request).unwrap_err();
    assert!(error.is_deadline(), "{error}");
    assert!(error.to_string().contains("200 ms"), "{error}");
    assert!(started.elapsed() < Duration::from_secs(20));
}

#[test]
fn an_assembler_that_dies_or_writes_nothing_has_not_refused_the_text() {
    let folder = tempfile::tempdir().unwrap();
    for (body, reason) in [
        ("kill -SEGV $$", "signal 11"),
        ("exit 3", "exit code 3"),
        ("exit 0", "no cubin"),
    ] {
        let ptxas = fake_ptxas(folder.path(), body);
        let error = tools::assemble::assemble(&ptxas, &AssembleRequest::new(TINY, "sm_90a")).unwrap_err();
        assert!(matches!(&error, AssembleError::Crashed { .. }), "{error}");
        assert!(error.to_string().contains(reason), "{error}");
    }
}

#[test]
fn offline_without_tools_names_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let options = ResolveOptions {
        ptxas_version: Some(PtxasVersion::V12_8_93),
        offline: true,
        folder: Some(folder.path().to_owned()),
        ..ResolveOptions::default()
    };
    let error = tools::resolve::resolve(ToolKind::Ptxas, &options).unwrap_err();
    assert!(
        matches!(&error, ToolError::NotFound { .. } | ToolError::WrongVersion { .. }),
        "{error}"
    );
    let is_named_elsewhere = matches!(&error, ToolError::WrongVersion { .. });
    assert!(
        is_named_elsewhere || error.to_string().contains("cargo xtask tools"),
        "{error}"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_foreign_binary_in_the_tools_folder_is_refused_even_offline() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("ptxas-13.5.37");
    fs::create_dir(&home).unwrap();
    fake_ptxas(&home, "exit 0");
    let options = ResolveOptions {
        offline: true,
        folder: Some(folder.path().to_owned()),
        ..ResolveOptions::default()
    };
    let error = tools::resolve::resolve(ToolKind::Ptxas, &options).unwrap_err();
    assert!(error.to_string().contains("SHA-256"), "{error}");
}

#[test]
fn a_named_assembler_wins_but_must_have_the_asked_version() {
    let folder = tempfile::tempdir().unwrap();
    let fake = fake_ptxas(folder.path(), "exit 0");
    let options = ResolveOptions {
        ptxas_path: Some(fake.path.clone()),
        ..ResolveOptions::default()
    };
    assert_eq!(tools::resolve::resolve(ToolKind::Ptxas, &options).unwrap(), fake);
    let options = ResolveOptions {
        ptxas_version: Some(PtxasVersion::V12_9_86),
        ..options
    };
    let error = tools::resolve::resolve(ToolKind::Ptxas, &options).unwrap_err();
    assert!(
        error.to_string().contains("12.9.86") && error.to_string().contains("13.5.37"),
        "{error}"
    );
    let options = ResolveOptions {
        ptxas_path: Some(PathBuf::from("nowhere/ptxas")),
        ..ResolveOptions::default()
    };
    assert!(matches!(
        tools::resolve::resolve(ToolKind::Ptxas, &options),
        Err(ToolError::NotAProgram { .. })
    ));
}

#[test]
fn concurrent_fetches_install_once() {
    let Some(_) = tools_or_skip("concurrent_fetches_install_once").unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    // The smallest package; four threads stand for four processes, as each opens the lock file anew.
    let pin = tools::pins::CUOBJDUMP;
    let paths: Vec<_> = std::thread::scope(|scope| {
        let fetches: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| tools::fetch::ensure(folder.path(), &pin).unwrap()))
            .collect();
        fetches.into_iter().map(|fetch| fetch.join().unwrap()).collect()
    });
    assert!(
        paths
            .iter()
            .all(|path| *path == tools::fetch::installed_path(folder.path(), &pin))
    );
    tools::fetch::verify(&paths[0], &pin).unwrap();
    let left: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        left.iter().all(|name| !name.to_string_lossy().starts_with(".fetch-")),
        "{left:?}"
    );
}

/// `.loc` lines reach the machine code without the option, and change none of it.
#[test]
fn source_lines_reach_the_code_and_change_nothing() {
    let Some(tools) = tools_or_skip("source_lines_reach_the_code_and_change_nothing").unwrap() else {
        return;
    };
    let code = |ptx: &str| {
        let assembled = tools.assemble(&AssembleRequest::new(ptx, "sm_90a")).unwrap();
        tools
            .disassemble(&assembled.cubin, DEADLINE)
            .unwrap()
            .functions
            .remove(0)
    };
    let plain = code(FULL);
    let head = FULL.find(".visible").or(FULL.find(".entry")).unwrap();
    let body = head + FULL[head..].find("{\n").unwrap() + 2;
    let located = format!(
        ".file 1 \"kernels/src/mine.rs\"\n{}.loc 1 42 1\n{}",
        &FULL[head..body],
        &FULL[body..]
    );
    let located = code(&format!("{}{located}", &FULL[..head]));
    assert!(plain.instructions.iter().all(|i| i.source.is_none()));
    assert_eq!(
        located.instructions.last().unwrap().source.as_deref(),
        Some("kernels/src/mine.rs:42")
    );
    let bare = |f: &tools::SassFunction| -> Vec<_> {
        f.instructions
            .iter()
            .map(|i| (i.address, i.predicate.clone(), i.opcode.clone(), i.operands.clone()))
            .collect()
    };
    assert_eq!(bare(&located), bare(&plain));
}

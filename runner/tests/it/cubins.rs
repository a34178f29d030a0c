//! Cubins from the real assembler, and from a folder without one.

use codegen::target::SM_90A;
use tools::testing::tools_or_skip;
use warpwright_runner::assemble::{Assembler, AssemblyError, CubinCache, DRIVER_JIT};
use warpwright_runner::evaluate::{Candidate, compile_only};
use warpwright_runner::schedules::shipped_for;

use crate::cases::problem;

#[test]
fn a_prepared_folder_serves_where_there_is_no_assembler() {
    let Some(tools) = tools_or_skip("a_prepared_folder_serves_where_there_is_no_assembler").unwrap() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let open = || Some(CubinCache::open(folder.path()).unwrap());
    let problem = problem("softmax bf16 m64 n128");
    let candidate = Candidate::new(problem, shipped_for(&problem).unwrap());
    let prepared = compile_only(&candidate, &Assembler::new(vec![tools.ptxas], open()), &SM_90A).unwrap();
    let image = prepared.image.unwrap();
    assert!(!image.cached && image.cubin.starts_with(b"\x7fELF") && image.facts.registers > 0);
    let served = compile_only(&candidate, &Assembler::new(vec![], open()), &SM_90A)
        .unwrap()
        .image
        .unwrap();
    assert!(served.cached);
    assert_eq!((served.cubin, &served.facts), (image.cubin, &image.facts));
    let mut other = candidate.clone();
    other.schedule.assembler.options = vec!["--fmad=false".into()];
    let refused = compile_only(&other, &Assembler::new(vec![], open()), &SM_90A).unwrap_err();
    assert_eq!(refused.name(), "not_assembled");
}

#[test]
fn refused_texts_and_unknown_versions_are_values() {
    let choice = dsl::schedule::Assembler {
        version: Some("1.2.3".into()),
        options: vec![],
    };
    let error = Assembler::default().assemble("", "sm_90a", &choice).unwrap_err();
    assert!(matches!(error, AssemblyError::UnknownVersion { .. }));
    assert!(error.to_string().contains("13.5.37"));
    let Some(tools) = tools_or_skip("refused_texts_and_unknown_versions_are_values").unwrap() else {
        return;
    };
    let assembler = Assembler::new(vec![tools.ptxas], None);
    let error = assembler
        .assemble("nonsense", "sm_90a", &dsl::schedule::Assembler::default())
        .unwrap_err();
    assert!(matches!(error, AssemblyError::Assemble(_)), "{error}");
}

#[test]
fn the_drivers_compiler_is_named_and_takes_no_options() {
    let assembler = Assembler::driver_jit();
    let plain = dsl::schedule::Assembler::default();
    let image = assembler.assemble("text", "sm_90a", &plain).unwrap();
    assert!(image.cubin.is_empty() && image.facts.ptxas_version == DRIVER_JIT);
    let options = dsl::schedule::Assembler {
        options: vec!["--fmad=false".into()],
        ..dsl::schedule::Assembler::default()
    };
    let refused = assembler.assemble("text", "sm_90a", &options).unwrap_err().to_string();
    assert!(
        refused.contains("--fmad=false") && refused.contains("allowed"),
        "{refused}"
    );
}

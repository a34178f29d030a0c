//! Each rule finds what it is for and leaves alone what looks like it.

use super::*;

fn tree(files: &[(&str, &str)]) -> Tree {
    Tree {
        files: files
            .iter()
            .map(|(path, text)| SourceFile::new(path, (*text).to_owned()))
            .collect(),
    }
}

fn lines(findings: &[Finding]) -> Vec<usize> {
    findings.iter().map(|finding| finding.line).collect()
}

#[test]
fn a_file_without_a_doc_is_found() {
    let tree = tree(&[
        ("a.rs", "\n//! Doc.\n"),
        ("b.rs", "use x;\n//! late\n"),
        ("c.rs", "//!\n"),
        ("d.py", "x"),
    ]);
    let paths: Vec<_> = module_doc(&tree).into_iter().map(|finding| finding.path).collect();
    assert_eq!(paths, ["b.rs", "c.rs"]);
}

#[test]
fn long_files_need_a_reason_and_reasons_a_long_file() {
    let long = "x\n".repeat(601);
    let excused = tree(&[("a.rs", &long), (LONG_FILES, "# list\na.rs: one table\n")]);
    assert_eq!(file_length(&excused), []);
    assert_eq!(file_length(&tree(&[("a.rs", &long)])).len(), 1);
    let stale = file_length(&tree(&[("a.rs", "x\n"), (LONG_FILES, "a.rs: one table\nb.rs:\n")]));
    assert_eq!(lines(&stale), [2, 1]);
}

#[test]
fn unfinished_code_is_found_in_tests_too_but_not_in_comments() {
    let text =
        "// todo!\nfn a() { todo!() }\n#[cfg(test)]\nmod t {\n#[ignore]\nfn b() {}\n}\nlet s = \"unimplemented!\";\n";
    assert_eq!(lines(&unfinished(&tree(&[("a.rs", text)]))), [2, 5]);
}

#[test]
fn unwrap_is_found_outside_tests_only() {
    let text = "fn a() { b.unwrap(); c.unwrap_or(1); }\n#[cfg(test)]\nmod t { fn d() { e.unwrap(); } }\n";
    assert_eq!(
        lines(&unwrap_outside_tests(&tree(&[("a.rs", text), ("tests/b.rs", text)]))),
        [1]
    );
}

#[test]
fn unsafe_is_found_outside_the_driver_and_lints_are_no_blocks() {
    let text = "#![deny(unsafe_code)]\nunsafe { x() }\n// unsafe\n";
    let findings = unsafe_outside_driver(&tree(&[("sim/src/a.rs", text), ("driver/src/a.rs", text)]));
    assert_eq!(
        (findings.len(), findings[0].path.as_str(), findings[0].line),
        (1, "sim/src/a.rs", 2)
    );
}

#[test]
fn kernel_names_are_found_in_text_and_file_names() {
    let files = [
        ("dsl/src/a.rs", "// Softmax\n"),
        ("sim/src/attention.rs", ""),
        ("kernels-rs/src/attention.rs", "attention"),
    ];
    let findings = kernel_names_in_general_code(&tree(&files));
    let places: Vec<_> = findings.iter().map(|found| (found.path.as_str(), found.line)).collect();
    assert_eq!(places, [("dsl/src/a.rs", 1), ("sim/src/attention.rs", 0)]);
}

#[test]
fn passes_are_found_in_the_checker_in_every_form() {
    let text = "use crate::lower::Plan;\nuse crate::{\n    program,\n    rewrite,\n};\nfn f() { super::lower::g(); }\n";
    let findings = checker_imports_no_pass(&tree(&[
        ("codegen/src/check/mod.rs", text),
        ("codegen/src/lib.rs", text),
    ]));
    assert_eq!(lines(&findings), [1, 4, 6]);
    let innocent =
        "use crate::program;\nlet lower = 1;\nfn lower_bound() { a(lower, follower::x()); }\n// crate::lower\n";
    assert_eq!(
        checker_imports_no_pass(&tree(&[("codegen/src/check.rs", innocent)])),
        []
    );
}

#[test]
fn machine_paths_and_registries_are_found_where_they_begin() {
    let path = ["see /wo", "rk/x\nbut not target/wo", "rk/x\n"].concat();
    let host = ["https://files.pytho", "nhosted.org/\n"].concat();
    let findings = machine_paths_and_registries(&tree(&[("a.md", &path), ("b.toml", &host), ("Cargo.lock", &host)]));
    let places: Vec<_> = findings.iter().map(|found| (found.path.as_str(), found.line)).collect();
    assert_eq!(places, [("a.md", 1), ("b.toml", 1)]);
}

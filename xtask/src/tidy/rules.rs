//! The rules about source text.

use std::collections::BTreeMap;

use super::source::SourceFile;
use super::{Finding, LONG_FILES, Tree};

/// More lines than this need an excuse.
const LINE_LIMIT: usize = 600;

/// Folders whose source must not know any kernel by name.
const GENERAL_FOLDERS: [&str; 4] = ["dsl/src/", "codegen/src/", "sim/src/", "driver/src/"];

/// Where the checker lives, as a file or a folder.
const CHECKER: [&str; 2] = ["codegen/src/check.rs", "codegen/src/check/"];

/// The modules of the passes, which the checker must not lean on.
const PASS_MODULES: [&str; 2] = ["lower", "rewrite"];

fn finding(file: &SourceFile, line: usize, text: impl Into<String>) -> Finding {
    Finding {
        path: file.path.clone(),
        line,
        text: text.into(),
    }
}

/// Findings for every line of some text for which `judge` has something to say.
fn by_line(file: &SourceFile, text: &str, judge: impl Fn(&str) -> Option<String>) -> Vec<Finding> {
    text.lines()
        .enumerate()
        .filter_map(|(index, line)| Some(finding(file, index + 1, judge(line)?)))
        .collect()
}

fn rust_files(tree: &Tree) -> impl Iterator<Item = &SourceFile> {
    tree.files.iter().filter(|file| file.is_rust())
}

/// Every Rust file begins with a module doc.
pub fn module_doc(tree: &Tree) -> Vec<Finding> {
    let has_doc = |file: &SourceFile| {
        file.text
            .lines()
            .find(|line| !line.trim().is_empty())
            .is_some_and(is_doc)
    };
    let is_undocumented = |file: &&SourceFile| !has_doc(file);
    rust_files(tree)
        .filter(is_undocumented)
        .map(|file| finding(file, 1, "begin the file with a `//!` doc"))
        .collect()
}

fn is_doc(line: &str) -> bool {
    line.starts_with("//!") && line.len() > "//! ".len()
}

/// No Rust file is long without a reason, and no reason outlives its file.
pub fn file_length(tree: &Tree) -> Vec<Finding> {
    let list = tree.files.iter().find(|file| file.path == LONG_FILES);
    let mut excuses: BTreeMap<&str, (usize, &str)> = BTreeMap::new();
    let mut findings = Vec::new();
    for (index, line) in list.map_or("", |file| &file.text).lines().enumerate() {
        match line.split_once(": ") {
            _ if line.is_empty() || line.starts_with('#') => {}
            Some((path, reason)) if !reason.trim().is_empty() => {
                excuses.insert(path, (index + 1, reason));
            }
            _ => findings.extend(list.map(|file| finding(file, index + 1, "write `path: reason`"))),
        }
    }
    for file in rust_files(tree) {
        let lines = file.text.lines().count();
        let is_excused = excuses.contains_key(file.path.as_str());
        if lines > LINE_LIMIT && !is_excused {
            let text = format!("{lines} lines; split it, or give a reason in {LONG_FILES} (limit {LINE_LIMIT})");
            findings.push(finding(file, 1, text));
        } else if lines > LINE_LIMIT {
            excuses.remove(file.path.as_str());
        }
    }
    for (path, (line, _)) in excuses {
        let text = format!("{path} needs no excuse any more: it is short or gone");
        findings.extend(list.map(|file| finding(file, line, text.clone())));
    }
    findings
}

/// Nothing is left for later, in tests neither: an ignored test is a test nobody sees missing.
pub fn unfinished(tree: &Tree) -> Vec<Finding> {
    let marks = ["todo!", "unimplemented!", "#[ignore"];
    let judge = |line: &str| {
        marks
            .iter()
            .find(|mark| line.contains(**mark))
            .map(|mark| format!("finish it: `{mark}`"))
    };
    rust_files(tree)
        .flat_map(|file| by_line(file, &file.code, judge))
        .collect()
}

/// Only tests may unwrap.
pub fn unwrap_outside_tests(tree: &Tree) -> Vec<Finding> {
    let judge = |line: &str| {
        line.contains(".unwrap()")
            .then(|| "return a typed error instead of `.unwrap()`".to_owned())
    };
    rust_files(tree)
        .flat_map(|file| by_line(file, &file.product_code, judge))
        .collect()
}

/// Only `driver` is unsafe.
pub fn unsafe_outside_driver(tree: &Tree) -> Vec<Finding> {
    let judge = |line: &str| {
        words(line)
            .any(|word| word == "unsafe")
            .then(|| "`unsafe` belongs in driver/".to_owned())
    };
    rust_files(tree)
        .filter(|file| !file.path.starts_with("driver/"))
        .flat_map(|file| by_line(file, &file.code, judge))
        .collect()
}

/// The general crates know no kernel by name, in comments neither.
pub fn kernel_names_in_general_code(tree: &Tree) -> Vec<Finding> {
    let judge = |line: &str| {
        let line = line.to_lowercase();
        let name = ["attention", "softmax"].into_iter().find(|name| line.contains(name))?;
        Some(format!("'{name}': this crate knows no kernel by name"))
    };
    tree.files
        .iter()
        .filter(|file| GENERAL_FOLDERS.iter().any(|folder| file.path.starts_with(folder)))
        .flat_map(|file| {
            let in_name = judge(&file.path).map(|text| finding(file, 0, text));
            in_name.into_iter().chain(by_line(file, &file.text, judge))
        })
        .collect()
}

/// The checker is independent: it names no module of the passes in a path or an import.
pub fn checker_imports_no_pass(tree: &Tree) -> Vec<Finding> {
    rust_files(tree)
        .filter(|file| CHECKER.iter().any(|place| file.path.starts_with(place)))
        .flat_map(|file| {
            pass_names(&file.code)
                .into_iter()
                .map(move |(line, module)| (file, line, module))
        })
        .map(|(file, line, module)| {
            finding(
                file,
                line,
                format!("the checker must not use the pass module '{module}'"),
            )
        })
        .collect()
}

/// Where a pass module is named in an import, or in a path beside `::`.
fn pass_names(code: &str) -> Vec<(usize, &'static str)> {
    let tokens = tokens(code);
    let mut is_import = false;
    let mut found = Vec::new();
    for (index, (line, token)) in tokens.iter().enumerate() {
        is_import = (is_import || *token == "use") && *token != ";";
        let Some(module) = PASS_MODULES.into_iter().find(|module| module == token) else {
            continue;
        };
        let is_separator = |neighbour: Option<usize>| {
            neighbour
                .and_then(|at| tokens.get(at))
                .is_some_and(|(_, neighbour)| *neighbour == ":")
        };
        // A single colon is a field or a type; a path has two on one side.
        let is_path = (is_separator(index.checked_sub(1)) && is_separator(index.checked_sub(2)))
            || (is_separator(Some(index + 1)) && is_separator(Some(index + 2)));
        if is_import || is_path {
            found.push((*line, module));
        }
    }
    found
}

/// Identifiers and single other characters, each with its line from 1.
fn tokens(code: &str) -> Vec<(usize, &str)> {
    let mut tokens = Vec::new();
    for (index, line) in code.lines().enumerate() {
        let mut rest = line.trim_start();
        while let Some(first) = rest.chars().next() {
            let is_word = |c: char| c.is_alphanumeric() || c == '_';
            let length = if is_word(first) {
                rest.find(|c| !is_word(c)).unwrap_or(rest.len())
            } else {
                first.len_utf8()
            };
            let (token, tail) = rest.split_at(length);
            tokens.push((index + 1, token));
            rest = tail.trim_start();
        }
    }
    tokens
}

/// No path of somebody's machine and no registry's host in any file. The lock file names the registry by its nature.
pub fn machine_paths_and_registries(tree: &Tree) -> Vec<Finding> {
    // Written in pieces, so that this file does not find itself.
    let needles: Vec<String> = [
        ["/ro", "ot/"],
        ["/ho", "me/"],
        ["/wo", "rk/"],
        ["/Us", "ers/"],
        ["/opt/wh", "eels"],
        ["pypi.", "org"],
        ["pytho", "nhosted.org"],
        ["index.crat", "es.io"],
        ["static.crat", "es.io"],
        ["registry.np", "mjs.org"],
        ["deb.deb", "ian.org"],
        ["artifac", "tory"],
    ]
    .iter()
    .map(|pieces| pieces.concat())
    .collect();
    let judge = |line: &str| {
        let needle = needles.iter().find(|needle| names_a_place(line, needle))?;
        Some(format!("'{needle}' names a machine or a registry"))
    };
    tree.files
        .iter()
        .filter(|file| !file.path.ends_with("Cargo.lock"))
        .flat_map(|file| by_line(file, &file.text, judge))
        .collect()
}

/// A path counts only where it begins: `target/work/` is no machine's.
fn names_a_place(line: &str, needle: &str) -> bool {
    line.match_indices(needle).any(|(start, _)| {
        let before = line
            .get(..start)
            .and_then(|head| head.chars().next_back())
            .unwrap_or(' ');
        !needle.starts_with('/') || !(before.is_alphanumeric() || matches!(before, '_' | '-' | '.' | '}' | '>' | ')'))
    })
}

/// The identifiers of a line.
fn words(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_alphanumeric() || c == '_'))
        .filter(|word| !word.is_empty())
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;

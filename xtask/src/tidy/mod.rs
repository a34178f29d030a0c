//! `cargo xtask tidy`: the house rules that a program can check.
//!
//! Each rule is one function from the files to a list of findings; [`RULES`] is the list. Files are those git knows or
//! would add, so a new file is checked before it is committed.

mod manifests;
mod rules;
mod source;

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, bail};

use source::SourceFile;

/// Where long files are excused, one `path: reason` a line.
const LONG_FILES: &str = "xtask/long-files.txt";

/// Everything the rules look at.
pub struct Tree {
    /// All text files.
    pub files: Vec<SourceFile>,
}

/// One broken rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the workspace.
    pub path: String,
    /// From 1; 0 for the whole file.
    pub line: usize,
    /// What is wrong and what would be right.
    pub text: String,
}

type Rule = fn(&Tree) -> Vec<Finding>;

/// The rules by name.
const RULES: &[(&str, Rule)] = &[
    ("module-doc", rules::module_doc),
    ("file-length", rules::file_length),
    ("unfinished", rules::unfinished),
    ("unwrap", rules::unwrap_outside_tests),
    ("unsafe", rules::unsafe_outside_driver),
    ("kernel-names", rules::kernel_names_in_general_code),
    ("checker-imports", rules::checker_imports_no_pass),
    ("machine-names", rules::machine_paths_and_registries),
    ("dependency-table", manifests::dependencies_are_in_the_table),
];

/// Checks the tree and prints what it finds.
pub fn run(root: &Path) -> anyhow::Result<()> {
    let tree = Tree {
        files: read_files(root)?,
    };
    let mut count = 0;
    for (name, rule) in RULES {
        for finding in rule(&tree) {
            println!("{}:{}: [{name}] {}", finding.path, finding.line, finding.text);
            count += 1;
        }
    }
    if count > 0 {
        bail!("{count} findings in {} files", tree.files.len());
    }
    println!("{} files, {} rules, no findings", tree.files.len(), RULES.len());
    Ok(())
}

/// The text files git tracks or would add. Binary files and files deleted but not yet committed are left out.
fn read_files(root: &Path) -> anyhow::Result<Vec<SourceFile>> {
    let mut command = Command::new("git");
    command
        .current_dir(root)
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
    let output = command
        .output()
        .context("cannot run git, which lists the files to check")?;
    if !output.status.success() {
        bail!(
            "git ls-files failed: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    let listing = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut paths: Vec<&str> = listing.split('\0').filter(|path| !path.is_empty()).collect();
    paths.sort_unstable();
    paths.dedup();
    let read = |path: &&str| {
        let bytes = fs::read(root.join(path)).ok()?;
        Some(SourceFile::new(path, String::from_utf8(bytes).ok()?))
    };
    Ok(paths.iter().filter_map(read).collect())
}

//! The rule about dependencies: each has a line in ARCHITECTURE.md that says what it is for.

use std::collections::BTreeMap;

use super::{Finding, Tree};

const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// The names under which our crates depend on each other.
const OWN_CRATES: [&str; 10] = [
    "codegen", "driver", "dsl", "kernels", "oracle", "runner", "search", "sim", "testkit", "tools",
];

/// Every dependency of every manifest is named in a table row of ARCHITECTURE.md, once that file exists.
pub fn dependencies_are_in_the_table(tree: &Tree) -> Vec<Finding> {
    let Some(architecture) = tree.files.iter().find(|file| file.path == ARCHITECTURE) else {
        return Vec::new();
    };
    let rows: Vec<&str> = architecture
        .text
        .lines()
        .filter(|line| line.trim_start().starts_with('|'))
        .collect();
    let is_listed = |name: &str| rows.iter().any(|row| crate_names(row).any(|word| word == name));
    let mut seen: BTreeMap<String, (String, usize)> = BTreeMap::new();
    for manifest in tree.files.iter().filter(|file| file.path.ends_with("Cargo.toml")) {
        for (line, name) in dependencies(&manifest.text) {
            seen.entry(name).or_insert_with(|| (manifest.path.clone(), line));
        }
    }
    let missing = seen.into_iter().filter(|(name, _)| !is_listed(name));
    missing
        .map(|(name, (path, line))| {
            let text = format!("dependency `{name}` has no row in a table of {ARCHITECTURE}: job, choice, reason");
            Finding { path, line, text }
        })
        .collect()
}

fn crate_names(row: &str) -> impl Iterator<Item = &str> {
    row.split(|c: char| !(c.is_alphanumeric() || c == '_' || c == '-'))
}

/// The foreign dependencies of one manifest with their lines. Dependencies by path are our own crates.
fn dependencies(manifest: &str) -> Vec<(usize, String)> {
    let mut is_dependency_section = false;
    let mut found = Vec::new();
    for (index, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            is_dependency_section = section.ends_with("dependencies");
            // `[dependencies.name]`
            let of_one = section
                .rsplit_once('.')
                .filter(|(head, _)| head.ends_with("dependencies"));
            found.extend(of_one.map(|(_, name)| (index + 1, name.to_owned())));
            continue;
        }
        if !is_dependency_section || line.starts_with('#') {
            continue;
        }
        let Some((key, value)) = line.split_once('=') else {
            continue;
        };
        let name = key.trim().split('.').next().unwrap_or_default();
        let is_own = value.contains("path =") || OWN_CRATES.contains(&name);
        if !name.is_empty() && !is_own {
            found.push((index + 1, name.to_owned()));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::source::SourceFile;

    const MANIFEST: &str = "\
[package]
name = \"x\"
[dependencies]
dsl.workspace = true
serde = { version = \"1\" }
thiserror.workspace = true
[dev-dependencies]
local = { path = \"../local\" }
[dependencies.half]
version = \"2\"
[lints]
workspace = true
";

    fn findings(architecture: Option<&str>) -> Vec<String> {
        let mut files = vec![SourceFile::new("a/Cargo.toml", MANIFEST.to_owned())];
        files.extend(architecture.map(|text| SourceFile::new(ARCHITECTURE, text.to_owned())));
        dependencies_are_in_the_table(&Tree { files })
            .into_iter()
            .map(|finding| finding.text)
            .collect()
    }

    #[test]
    fn foreign_dependencies_are_read_in_every_form() {
        let names: Vec<_> = dependencies(MANIFEST).into_iter().map(|(_, name)| name).collect();
        assert_eq!(names, ["serde", "thiserror", "half"]);
    }

    #[test]
    fn each_needs_a_table_row_once_there_is_a_table() {
        assert_eq!(findings(None).len(), 0);
        let found = findings(Some(
            "We use serde.\n| job | choice |\n| errors | `thiserror` 2 |\n| numbers | half |\n",
        ));
        assert_eq!(found.len(), 1);
        assert!(found[0].contains("`serde`"), "{found:?}");
    }
}

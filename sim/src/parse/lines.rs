//! Source lines of a PTX text: what its `.file` and `.loc` directives say (PTX ISA 11.5.1, 11.5.2).

use std::collections::BTreeMap;
use std::sync::Arc;

/// Which source line each PTX line came from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lines {
    files: BTreeMap<u64, String>,
    /// In text order: from this PTX line on, a file and a line; `None` where an entry starts.
    marks: Vec<(u32, Option<(u64, u64)>)>,
}

impl Lines {
    /// `.file NUMBER "NAME"`.
    pub fn file(&mut self, number: u64, name: &str) {
        self.files.insert(number, name.to_owned());
    }

    /// `.loc FILE LINE ...` at a PTX line.
    pub fn loc(&mut self, at: u32, file: u64, line: u64) {
        self.marks.push((at, Some((file, line))));
    }

    /// The lines of one entry do not reach into the next.
    pub fn entry(&mut self, at: u32) {
        self.marks.push((at, None));
    }

    /// `FILE:LINE` behind a PTX line.
    pub fn at(&self, ptx_line: u32) -> Option<Arc<str>> {
        let after = self.marks.partition_point(|(at, _)| *at <= ptx_line);
        let (file, line) = self.marks.get(after.checked_sub(1)?)?.1?;
        let name = self.files.get(&file)?;
        Some(format!("{name}:{line}").into())
    }
}

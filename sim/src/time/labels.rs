//! Names of code regions: the comments that the writer of the PTX leaves above them.

use crate::decode::Kernel;
use crate::decode::op::Op;
use crate::host::Module;

/// A name for each instruction of a kernel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Labels {
    pub names: Vec<String>,
    of_pc: Vec<u32>,
}

impl Labels {
    pub fn of(&self, pc: u32) -> u32 {
        self.of_pc.get(pc as usize).copied().unwrap_or(0)
    }

    fn intern(&mut self, name: &str) -> u32 {
        let found = self.names.iter().position(|n| n == name);
        found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        }) as u32
    }
}

/// Comments that stand alone on a line: line number from 1, text.
pub(crate) fn notes(text: &str) -> Vec<(u32, String)> {
    let lines = text.lines().zip(1..);
    let comment = |(line, n): (&str, u32)| Some((n, line.trim().strip_prefix("//")?.trim().to_owned()));
    lines.filter_map(comment).collect()
}

impl Module {
    /// Names for the instructions of a kernel. What follows the commit of a product is work beside it.
    pub(crate) fn labels_of(&self, kernel: &Kernel) -> Labels {
        let mut labels = Labels::default();
        let (mut at, mut current) = (0, labels.intern("start"));
        let mut named = String::from("start");
        let mut of_pc = Vec::with_capacity(kernel.code.len());
        for inst in &kernel.code {
            while let Some((_, text)) = self.notes.get(at).filter(|(line, _)| *line <= inst.line) {
                at += 1;
                if at == self.notes.len() || self.notes[at].0 > inst.line {
                    named.clone_from(text);
                    current = labels.intern(text);
                }
            }
            of_pc.push(current);
            if matches!(inst.op, Op::WgmmaCommit) {
                current = labels.intern(&format!("beside {named}"));
            }
        }
        labels.of_pc = of_pc;
        labels
    }
}

#[cfg(test)]
mod tests {
    use super::notes;

    #[test]
    fn only_whole_lines_are_notes() {
        let text = "  // loop kv\n add.s32 a, b, c; // no\n//issue s\n";
        assert_eq!(notes(text), [(1, "loop kv".to_owned()), (3, "issue s".to_owned())]);
    }
}

//! What each function needs, read from the statistics of `ptxas -v`.

use serde::Serialize;

use crate::diagnostics::Diagnostic;

/// What one function needs. Registers are those at entry: roles that use `setmaxnreg` are told by the SASS.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct EntryResources {
    /// The function.
    pub name: String,
    /// Registers per thread at entry.
    pub registers: u32,
    /// Named barriers reserved.
    pub barriers: u32,
    /// Local-memory stack frame.
    pub stack_frame_bytes: u32,
    /// Bytes stored to local memory because registers ran out.
    pub spill_store_bytes: u32,
    /// Bytes loaded back.
    pub spill_load_bytes: u32,
    /// Static shared memory; dynamic shared memory is a launch fact.
    pub static_shared_bytes: u32,
    /// Constant memory of all banks.
    pub constant_bytes: u32,
}

impl EntryResources {
    /// Whether registers ran out.
    #[must_use]
    pub const fn spills(&self) -> bool {
        self.spill_store_bytes > 0 || self.spill_load_bytes > 0
    }
}

/// The functions of a cubin in the order the assembler named them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Resources {
    /// One entry per function.
    pub functions: Vec<EntryResources>,
}

impl Resources {
    /// The function of that name.
    #[must_use]
    pub fn function(&self, name: &str) -> Option<&EntryResources> {
        self.functions.iter().find(|function| function.name == name)
    }

    /// Whether any function spills.
    #[must_use]
    pub fn spills(&self) -> bool {
        self.functions.iter().any(EntryResources::spills)
    }

    /// Reads the statistics of one run.
    #[must_use]
    pub fn of(diagnostics: &[Diagnostic]) -> Self {
        let mut resources = Self::default();
        for line in diagnostics.iter().flat_map(|diagnostic| diagnostic.text.lines()) {
            resources.take_line(line);
        }
        resources
    }

    fn take_line(&mut self, line: &str) {
        let message = line.split_once(':').map_or(line, |(_, message)| message).trim();
        if let Some(name) = message.strip_prefix("Function properties for ") {
            self.functions.push(EntryResources {
                name: name.to_owned(),
                ..EntryResources::default()
            });
            return;
        }
        let Some(function) = self.functions.last_mut() else {
            return;
        };
        let list = message
            .strip_prefix("Used ")
            .or_else(|| message.contains("bytes stack frame").then_some(message));
        for item in list.into_iter().flat_map(|list| list.split(", ")) {
            function.take_item(item);
        }
    }
}

impl EntryResources {
    /// `168 registers`, `1024 bytes smem`, `400 bytes cmem[0]`.
    fn take_item(&mut self, item: &str) {
        let Some((count, unit)) = item.trim().trim_start_matches("used ").split_once(' ') else {
            return;
        };
        let Ok(count) = count.parse::<u32>() else { return };
        match unit {
            "registers" => self.registers = count,
            "barriers" => self.barriers = count,
            "bytes stack frame" => self.stack_frame_bytes = count,
            "bytes spill stores" => self.spill_store_bytes = count,
            "bytes spill loads" => self.spill_load_bytes = count,
            "bytes smem" => self.static_shared_bytes = count,
            _ if unit.starts_with("bytes cmem") => self.constant_bytes = self.constant_bytes.saturating_add(count),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostics::parse;

    #[test]
    fn statistics_of_two_functions_are_kept_apart() {
        let output = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'attn' for 'sm_90a'
ptxas info    : Function properties for attn
    56 bytes stack frame, 84 bytes spill stores, 164 bytes spill loads
ptxas info    : Used 128 registers, used 16 barriers, 56 bytes cumulative stack size
ptxas info    : Compiling entry function 'fill' for 'sm_90a'
ptxas info    : Function properties for fill
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 20 registers, used 1 barriers, 1024 bytes smem, 400 bytes cmem[0], 8 bytes cmem[2]
";
        let resources = Resources::of(&parse(output).diagnostics);
        let attn = resources.function("attn").unwrap();
        assert_eq!((attn.registers, attn.barriers, attn.stack_frame_bytes), (128, 16, 56));
        assert_eq!((attn.spill_store_bytes, attn.spill_load_bytes), (84, 164));
        let fill = resources.function("fill").unwrap();
        assert_eq!(
            (fill.registers, fill.static_shared_bytes, fill.constant_bytes),
            (20, 1024, 408)
        );
        assert!(attn.spills() && !fill.spills() && resources.spills());
    }
}

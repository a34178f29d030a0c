//! Reads the text of `nvdisasm --print-code` and of `cuobjdump --dump-sass`.
//!
//! Both print one instruction per line as `/*00d0*/  @P1 BRA target ;`. `nvdisasm` names targets by labels, which are
//! resolved here; `cuobjdump` prints addresses and, in further comments, encodings, which are dropped.

use std::collections::HashMap;

use crate::sass::{Instruction, SassFunction};

/// Text that is not what a disassembler prints.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// No instruction at all.
    #[error("the text holds no instruction")]
    Empty,
    /// An instruction before the first function's name.
    #[error("line {line}: an instruction before any function name: {text}")]
    NoFunction {
        /// From 1.
        line: usize,
        /// The line.
        text: String,
    },
    /// A branch to a label that does not exist.
    #[error("address {address:#x} of {function}: no label {label}")]
    UnknownLabel {
        /// The function.
        function: String,
        /// The branch.
        address: u64,
        /// The label.
        label: String,
    },
}

/// The functions of a listing.
///
/// # Errors
/// When there is no instruction, or a branch names a label that is not there.
pub fn parse(text: &str) -> Result<Vec<SassFunction>, ParseError> {
    let mut reader = Reader::default();
    for (index, line) in text.lines().enumerate() {
        reader.take_line(index + 1, line)?;
    }
    reader.finish_function()?;
    if reader.functions.is_empty() {
        Err(ParseError::Empty)
    } else {
        Ok(reader.functions)
    }
}

#[derive(Default)]
struct Reader {
    functions: Vec<SassFunction>,
    current: Option<SassFunction>,
    /// Labels seen since the last instruction: they mean the next one.
    pending_labels: Vec<String>,
    labels: HashMap<String, u64>,
    ptx_line: Option<u32>,
    source: Option<String>,
}

impl Reader {
    fn take_line(&mut self, number: usize, line: &str) -> Result<(), ParseError> {
        let trimmed = line.trim();
        if let Some(instruction) = parse_instruction(trimmed) {
            return self.take_instruction(number, line, instruction);
        }
        if let Some((file, line)) = line_info_of(trimmed) {
            if file.starts_with(PTX_FILE) {
                self.ptx_line = Some(line);
            } else {
                self.source = Some(format!("{file}:{line}"));
            }
        } else if let Some(name) = function_name_of(trimmed) {
            self.finish_function()?;
            self.current = Some(SassFunction {
                name: name.to_owned(),
                instructions: Vec::new(),
            });
        } else if let Some(label) = trimmed.strip_suffix(':').filter(|label| label.starts_with(".L")) {
            self.pending_labels.push(label.to_owned());
        }
        Ok(())
    }

    fn take_instruction(&mut self, line: usize, text: &str, mut found: Instruction) -> Result<(), ParseError> {
        let Some(function) = self.current.as_mut() else {
            return Err(ParseError::NoFunction {
                line,
                text: text.to_owned(),
            });
        };
        found.ptx_line = self.ptx_line;
        found.source.clone_from(&self.source);
        for label in self.pending_labels.drain(..) {
            self.labels.insert(label, found.address);
        }
        function.instructions.push(found);
        Ok(())
    }

    fn finish_function(&mut self) -> Result<(), ParseError> {
        let labels = std::mem::take(&mut self.labels);
        self.pending_labels.clear();
        self.ptx_line = None;
        self.source = None;
        let Some(mut function) = self.current.take() else {
            return Ok(());
        };
        for instruction in &mut function.instructions {
            resolve_target(&function.name, instruction, &labels)?;
        }
        if !function.instructions.is_empty() {
            self.functions.push(function);
        }
        Ok(())
    }
}

/// `.text.attn:` of `nvdisasm`, `Function : attn` of `cuobjdump`.
fn function_name_of(line: &str) -> Option<&str> {
    let labelled = line.strip_prefix(".text.").and_then(|rest| rest.strip_suffix(':'));
    labelled.or_else(|| line.strip_prefix("Function : ")).map(str::trim)
}

/// The section that stands for the PTX text in line information.
const PTX_FILE: &str = ".nv_debug_ptx_txt";

/// `//## File ".nv_debug_ptx_txt", line 8` or `//## File "src/attention.rs", line 66`.
fn line_info_of(line: &str) -> Option<(&str, u32)> {
    let (file, tail) = line.strip_prefix("//## File \"")?.split_once("\", line ")?;
    let digits = tail.split(|c: char| !c.is_ascii_digit()).next()?;
    Some((file, digits.parse().ok()?))
}

/// `/*00d0*/  @P1 BRA target ;` without a resolved target.
fn parse_instruction(line: &str) -> Option<Instruction> {
    let (address, rest) = line.strip_prefix("/*")?.split_once("*/")?;
    let address = u64::from_str_radix(address, 16).ok()?;
    let (body, _) = rest.split_once(';')?;
    let body = body.trim();
    let (predicate, body) = match body.split_once(char::is_whitespace) {
        Some((guard, rest)) if guard.starts_with('@') => (Some(guard.to_owned()), rest.trim_start()),
        _ => (None, body),
    };
    let (opcode, operands) = body.split_once(char::is_whitespace).unwrap_or((body, ""));
    if !opcode.starts_with(|c: char| c.is_ascii_uppercase()) {
        return None;
    }
    Some(Instruction {
        address,
        predicate,
        opcode: opcode.to_owned(),
        operands: split_operands(operands),
        target: None,
        ptx_line: None,
        source: None,
    })
}

/// Splits at commas outside brackets; drops notes in `(* *)`.
fn split_operands(text: &str) -> Vec<String> {
    let text = text.split("(*").next().unwrap_or_default();
    let mut operands = Vec::new();
    let (mut depth, mut start) = (0_u32, 0);
    for (index, character) in text.char_indices() {
        match character {
            '[' | '(' | '{' => depth += 1,
            ']' | ')' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                operands.push(text[start..index].trim().to_owned());
                start = index + 1;
            }
            _ => {}
        }
    }
    operands.push(text[start..].trim().to_owned());
    operands.retain(|operand| !operand.is_empty());
    operands
}

/// Operations whose last operand is an address in the same function.
fn names_an_address(base: &str) -> bool {
    matches!(base, "BRA" | "JMP" | "BSSY" | "SSY" | "CALL")
}

fn resolve_target(
    function: &str,
    instruction: &mut Instruction,
    labels: &HashMap<String, u64>,
) -> Result<(), ParseError> {
    if !names_an_address(instruction.base()) {
        return Ok(());
    }
    let Some(operand) = instruction.operands.last() else {
        return Ok(());
    };
    if let Some(label) = operand.strip_prefix("`(").and_then(|rest| rest.strip_suffix(')')) {
        // A call may leave the function; its label is then another section's.
        instruction.target = labels.get(label).copied();
        if instruction.target.is_none() && instruction.base() != "CALL" {
            return Err(ParseError::UnknownLabel {
                function: function.to_owned(),
                address: instruction.address,
                label: label.to_owned(),
            });
        }
    } else if let Some(digits) = operand.strip_prefix("0x") {
        instruction.target = u64::from_str_radix(digits, 16).ok();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NVDISASM: &str = "\
attn:
.text.attn:
\t//## File \".nv_debug_ptx_txt\", line 8
        /*0000*/                   LDC R1, c[0x0][0x28] ;
.L_x_4:
        /*0010*/               @P0 ELECT P1, URZ, PT ;
\t//## File \"kernels-rs/src/attention.rs\", line 66
\t//## File \".nv_debug_ptx_txt\", line 9
        /*0020*/                   UTMALDG.4D [UR24], [UR16] ;
        /*0030*/              @!P0 BRA.U.ANY `(.L_x_4) ;
        /*0040*/                   EXIT ;
.L_x_5:
";

    #[test]
    fn nvdisasm_text_gives_labels_and_lines() {
        let functions = parse(NVDISASM).unwrap();
        let instructions = &functions[0].instructions;
        assert_eq!((functions[0].name.as_str(), instructions.len()), ("attn", 5));
        assert_eq!(instructions[0].operands, ["R1", "c[0x0][0x28]"]);
        assert_eq!((instructions[1].ptx_line, instructions[2].ptx_line), (Some(8), Some(9)));
        assert_eq!(instructions[1].source, None);
        assert_eq!(
            instructions[2].source.as_deref(),
            Some("kernels-rs/src/attention.rs:66")
        );
        assert_eq!(instructions[3].predicate.as_deref(), Some("@!P0"));
        assert_eq!(instructions[3].target, Some(0x10));
        assert_eq!(instructions[4].base(), "EXIT");
    }

    #[test]
    fn cuobjdump_text_gives_addresses_and_no_encodings() {
        let text = "\t\tFunction : attn\n\
            \t.headerflags\t@\"EF_CUDA_SM90\"\n\
            \t/*0050*/                   BSSY B0, 0x230 ;       /* 0x000001d000007945 */\n\
            \t                                                  /* 0x000fe20003800000 */\n";
        let functions = parse(text).unwrap();
        assert_eq!(functions[0].instructions.len(), 1);
        assert_eq!(functions[0].instructions[0].target, Some(0x230));
    }

    #[test]
    fn a_branch_to_nowhere_is_an_error() {
        let text = NVDISASM.replace("`(.L_x_4)", "`(.L_x_9)");
        assert!(matches!(
            parse(&text),
            Err(ParseError::UnknownLabel { address: 0x30, .. })
        ));
    }

    #[test]
    fn text_without_instructions_is_an_error() {
        assert_eq!(parse("\t.target sm_90a\n"), Err(ParseError::Empty));
        assert!(matches!(
            parse("/*0000*/ EXIT ;"),
            Err(ParseError::NoFunction { line: 1, .. })
        ));
    }
}

//! The highest general register an instruction touches, read from its text.
//!
//! An operand names only the first register of a group, so the width comes from the operation: accumulators and A
//! fragments of HGMMA, `.64` and `.128` accesses, four-way matrix stores, wide multiplies, f64. Widths that the text does
//! not show count as one register, so the result is a lower bound that is exact for what our kernels contain.

use crate::sass::Instruction;

/// The highest register index an instruction touches, e.g. 87 for `R24` holding 64 accumulators; nothing when it touches
/// none.
#[must_use]
pub fn highest(instruction: &Instruction) -> Option<u32> {
    let last = instruction.operands.len().saturating_sub(1);
    instruction
        .operands
        .iter()
        .enumerate()
        .filter_map(|(index, operand)| {
            let width = width(instruction, index, index == last);
            highest_in(operand, width)
        })
        .max()
}

/// How many registers an operand outside brackets stands for.
fn width(instruction: &Instruction, index: usize, is_last: bool) -> u32 {
    let opcode = instruction.opcode.as_str();
    let base = instruction.base();
    let has = |modifier: &str| opcode.split('.').any(|part| part == modifier);
    if base.ends_with("GMMA") {
        let is_a_fragment = index == 1
            && instruction
                .operands
                .get(1)
                .is_some_and(|operand| operand.starts_with('R'));
        return if is_a_fragment {
            4
        } else {
            accumulator_registers(opcode)
        };
    }
    match base {
        "CS2R" if !has("32") => 2,
        "DADD" | "DMUL" | "DFMA" => 2,
        "LDG" | "STG" | "LDS" | "STS" | "LDL" | "STL" | "LD" | "ST" | "LDC" | "ATOMG" if has("128") => 4,
        "LDG" | "STG" | "LDS" | "STS" | "LDL" | "STL" | "LD" | "ST" | "LDC" | "ATOMG" if has("64") => 2,
        "STSM" | "LDSM" if has("4") => 4,
        "STSM" | "LDSM" if has("2") => 2,
        "IMAD" if has("WIDE") && (index == 0 || is_last) => 2,
        _ => 1,
    }
}

/// Registers per thread of a 64xN accumulator: 64·N elements over 128 threads, two to a register unless f32 or s32.
fn accumulator_registers(opcode: &str) -> u32 {
    let columns = opcode
        .split('.')
        .find_map(|part| part.strip_prefix("64x"))
        .and_then(|shape| shape.split('x').next())
        .and_then(|columns| columns.parse::<u32>().ok())
        .unwrap_or(2);
    // HGMMA.64x80x16.F32.BF16: the first type is the accumulator's.
    let is_half = opcode.split('.').nth(2) == Some("F16");
    (columns / if is_half { 4 } else { 2 }).max(1)
}

/// The highest register an operand names, given the width of one outside brackets; `[R4.64]` is a pair.
fn highest_in(operand: &str, width: u32) -> Option<u32> {
    let mut highest = None;
    let mut depth = 0_u32;
    let mut previous = ' ';
    for (position, character) in operand.char_indices() {
        match character {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            'R' if !previous.is_ascii_alphanumeric() && previous != '_' => {
                let tail = operand.get(position + 1..).unwrap_or_default();
                let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
                if let Ok(first) = tail.get(..digits).unwrap_or_default().parse::<u32>() {
                    let after = tail.get(digits..).unwrap_or_default();
                    let count = if depth == 0 {
                        width
                    } else {
                        1 + u32::from(after.starts_with(".64"))
                    };
                    highest = highest.max(first.checked_add(count - 1));
                }
            }
            _ => {}
        }
        previous = character;
    }
    highest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse::parse;

    fn highest_of(instruction: &str) -> Option<u32> {
        let function = parse(&format!("Function : k\n/*0000*/ {instruction} ;\n"))
            .unwrap()
            .remove(0);
        highest(&function.instructions[0])
    }

    #[test]
    fn groups_of_registers_count_to_their_end() {
        assert_eq!(
            highest_of("HGMMA.64x80x16.F32.BF16 R88, gdesc[UR20], RZ, !UPT"),
            Some(127)
        );
        assert_eq!(
            highest_of("HGMMA.64x128x16.F32.BF16 R24, R132, gdesc[UR20].tnspB, R24"),
            Some(135)
        );
        assert_eq!(highest_of("HGMMA.64x128x16.F16 R24, gdesc[UR20], R24"), Some(55));
        assert_eq!(highest_of("STSM.16.M88.4 [R0], R24"), Some(27));
        assert_eq!(highest_of("LDG.E.128 R4, desc[UR4][R8.64]"), Some(9));
        assert_eq!(highest_of("IMAD.WIDE.U32 R6, R2, R3, R10"), Some(11));
    }

    #[test]
    fn uniform_and_special_registers_do_not_count() {
        assert_eq!(highest_of("UMOV UR24, 0x400"), None);
        assert_eq!(highest_of("S2R R0, SR_TID.X"), Some(0));
        assert_eq!(highest_of("FADD R3, -RZ, |R7|"), Some(7));
    }
}

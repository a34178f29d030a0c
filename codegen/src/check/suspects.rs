//! What the assembler's complaints are likely about: the place where tiles hold the most registers.
//!
//! The assembler says that a function spills, or that its tensor-core groups are serialised, and no more. Both come from too
//! many registers held at once, nearly always at one statement.

use std::collections::BTreeMap;

use super::pressure::Peak;
use super::violation::{At, Sink};

/// One line for the place, one for each tile that lives there (register tiles of one name together), largest first.
pub(super) fn of(sink: &Sink<'_, '_>, peak: &Peak) -> Vec<String> {
    let program = sink.flat.program;
    let Some(site) = peak.site else { return vec![] };
    let mut held: BTreeMap<&str, u32> = BTreeMap::new();
    for tile in peak.tiles.iter().map(|t| &program.tiles[*t as usize]) {
        *held.entry(&tile.name).or_default() += tile.layout.registers();
    }
    let mut held: Vec<_> = held.into_iter().filter(|(_, n)| *n > 0).collect();
    held.sort_by_key(|(name, n)| (std::cmp::Reverse(*n), *name));
    let mut lines = vec![format!(
        "{}: tiles hold {} registers of the {} of a consumer thread",
        sink.path(At::Site(site)),
        peak.registers,
        program.consumer_registers
    )];
    lines.extend(held.into_iter().map(|(name, registers)| {
        let source = program.source(name).map(|s| format!(" ({s})")).unwrap_or_default();
        format!("`{name}`{source}: {registers} registers")
    }));
    lines
}

//! The shared-memory map of a CTA.

use codegen::role::RoleProgram;
use serde::Serialize;

/// One piece of shared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Region {
    pub offset_bytes: u32,
    pub bytes: u32,
    pub name: String,
    /// What lies there.
    pub holds: String,
}

/// Every piece, by rising offset. Pieces that share their bytes are told by their offsets.
#[must_use]
pub fn map(program: &RoleProgram) -> Vec<Region> {
    let mut regions = vec![];
    let mut add = |offset_bytes: u32, bytes: u32, name: String, holds: String| {
        regions.push(Region {
            offset_bytes,
            bytes,
            name,
            holds,
        });
    };
    for ring in &program.rings {
        let bytes = ring.slot_bytes.saturating_mul(ring.stages);
        let holds = format!("ring: {} slot(s) of {} bytes", ring.stages, ring.slot_bytes);
        add(ring.offset, bytes, ring.name.clone(), holds);
        let barriers = ring.stages.saturating_mul(8);
        add(
            ring.full,
            barriers,
            format!("{}.full", ring.name),
            format!("{} mbarrier(s)", ring.stages),
        );
        add(
            ring.empty,
            barriers,
            format!("{}.empty", ring.name),
            format!("{} mbarrier(s)", ring.stages),
        );
    }
    for (name, offset, bytes) in &program.buffers {
        add(*offset, *bytes, name.clone(), "staging of a store".to_owned());
    }
    if let Some(mailbox) = program.mailbox {
        add(mailbox.full, 8, "mailbox.full".into(), "1 mbarrier(s)".into());
        add(mailbox.empty, 8, "mailbox.empty".into(), "1 mbarrier(s)".into());
        add(mailbox.word, 4, "mailbox.word".into(), "the next block".into());
    }
    regions.sort_by(|a, b| (a.offset_bytes, &a.name).cmp(&(b.offset_bytes, &b.name)));
    regions
}

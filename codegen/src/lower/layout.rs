//! Shared memory: rings, staging buffers, barriers, mailbox, in this order.

use dsl::schedule::Persistence;

use crate::error::Refusal;
use crate::role::{Mailbox, OperandA, Place, SmemOperand, Stmt};

use super::{Lower, to_u32};

/// Assigns every offset and refuses what does not fit.
pub fn shared_memory(l: &mut Lower<'_>) -> Result<(), Refusal> {
    let align = l.target.tile_alignment_bytes;
    let mut at: u64 = 0;
    let mut place = |bytes: u64, unit: u64| -> u64 {
        let start = at.next_multiple_of(unit);
        at = start + bytes;
        start
    };
    let as_u32 = |v: u64| u32::try_from(v).unwrap_or(u32::MAX);
    let mut map = vec![];
    for ring in &mut l.program.rings {
        ring.slot_bytes = ring.slot_bytes.next_multiple_of(align);
        let bytes = u64::from(ring.slot_bytes) * u64::from(ring.stages);
        ring.offset = as_u32(place(bytes, u64::from(align)));
        map.push(format!("{} {} x {} B", ring.name, ring.stages, ring.slot_bytes));
    }
    let mut buffers = vec![];
    for (name, tile) in &l.staging {
        let bytes = tile.bytes();
        buffers.push((name.clone(), as_u32(place(u64::from(bytes), u64::from(align))), bytes));
        map.push(format!("staging of {name} {bytes} B"));
    }
    for ring in &mut l.program.rings {
        ring.full = as_u32(place(8 * u64::from(ring.stages), 8));
        ring.empty = as_u32(place(8 * u64::from(ring.stages), 8));
    }
    if l.program.grid.persistence == Persistence::Dynamic {
        let (full, empty, word) = (place(8, 8), place(8, 8), place(8, 8));
        l.program.mailbox = Some(Mailbox {
            word: as_u32(word),
            full: as_u32(full),
            empty: as_u32(empty),
        });
    }
    if at > u64::from(l.target.shared_bytes) {
        let fact = format!("{} may take {} B per CTA", l.target.name, l.target.shared_bytes);
        return Err(Refusal::new(
            "tiles",
            format!("{at} B of shared memory ({})", map.join(", ")),
            fact,
            "smaller tiles, fewer stages, or a store staged over a load",
        ));
    }
    l.program.shared_bytes = as_u32(at);
    l.program.buffers = buffers;
    fix_buffers(l);
    Ok(())
}

/// Staging places were numbered while lowering; now their offsets are known.
fn fix_buffers(l: &mut Lower<'_>) {
    let offsets: Vec<u32> = l.program.buffers.iter().map(|b| b.1).collect();
    let mut consumer = std::mem::take(&mut l.program.consumer);
    visit(&mut consumer, &mut |stmt| {
        let place = match stmt {
            Stmt::Stage { place, .. } | Stmt::StoreStaged { place, .. } => place,
            Stmt::Issue(dot) => match &mut dot.a {
                OperandA::Shared(SmemOperand { place, .. }) => place,
                OperandA::Regs(_) => return,
            },
            _ => return,
        };
        if let Place::Fixed(n) = place {
            *n = offsets.get(*n as usize).copied().unwrap_or(0);
        }
    });
    l.program.consumer = consumer;
}

fn visit(stmts: &mut [Stmt], f: &mut dyn FnMut(&mut Stmt)) {
    for stmt in stmts {
        f(stmt);
        if let Stmt::Loop { body, .. } | Stmt::Repair { body, .. } = stmt {
            visit(body, f);
        }
    }
}

/// The placeholder of the next staging buffer.
pub fn staging_index(l: &Lower<'_>) -> u32 {
    to_u32(l.staging.len())
}

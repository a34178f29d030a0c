//! A ring must have a slot for every tile held at once, or its producer waits for ever.

use std::collections::BTreeMap;

use crate::error::Refusal;
use crate::role::{HandleId, RingId, RoleProgram, Stmt};

/// Refuses rings with fewer slots than a consumer holds at once.
pub fn capacity(program: &RoleProgram) -> Result<(), Refusal> {
    let mut count = Count::default();
    count.block(&program.consumer);
    if let Some(handle) = count.blocking {
        let (name, ring) = &program.handles[handle.0 as usize];
        let ring = &program.rings[ring.0 as usize].name;
        let fact = format!(
            "`{name}` keeps its slot across a loop that takes slots of the same ring, which come back in order"
        );
        let key = format!("loads.{name}.ring");
        return Err(Refusal::new(key, format!("`{ring}`"), fact, "a ring of its own"));
    }
    for (ring, most) in count.most {
        let r = &program.rings[ring.0 as usize];
        // With turns, a consumer that waits for its turn may hold what the one whose turn it is needs next.
        let shared = program.handles.iter().filter(|h| h.1 == ring).count() > 1;
        let most = most + u32::from(program.ping_pong && shared);
        if most > r.stages {
            let fact = format!("consumers hold {most} of its slots at once");
            let mut loads = program.handles.iter().filter(|h| h.1 == ring).map(|h| h.0.as_str());
            let key = format!("loads.{}.stages", loads.next().unwrap_or(&r.name));
            let others: Vec<_> = loads.map(|l| format!("`{l}`")).collect();
            let asked = match others.is_empty() {
                true => r.stages.to_string(),
                false => format!("{} for ring `{}`, shared with {}", r.stages, r.name, others.join(", ")),
            };
            return Err(Refusal::new(key, asked, fact, format!("{most} or more")));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Count {
    /// Handles held now, each with its ring.
    handles: BTreeMap<HandleId, RingId>,
    /// A handle that is held across a loop over its own ring.
    blocking: Option<HandleId>,
    held: BTreeMap<RingId, u32>,
    most: BTreeMap<RingId, u32>,
}

impl Count {
    fn block(&mut self, stmts: &[Stmt]) {
        for s in stmts {
            match s {
                Stmt::Acquire { ring, handle, .. } => {
                    self.handles.insert(*handle, *ring);
                    let held = self.held.entry(*ring).or_default();
                    *held += 1;
                    let most = self.most.entry(*ring).or_default();
                    *most = (*most).max(*held);
                }
                Stmt::Release { ring, handle } => {
                    self.handles.remove(handle);
                    let held = self.held.entry(*ring).or_default();
                    *held = held.saturating_sub(1);
                }
                Stmt::Loop { body, .. } => {
                    let kept = self
                        .handles
                        .iter()
                        .find(|(h, ring)| !releases(body, **h) && acquires(body, **ring));
                    self.blocking = self.blocking.or(kept.map(|(h, _)| *h));
                    self.block(body);
                }
                _ => {}
            }
        }
    }
}

fn acquires(body: &[Stmt], ring: RingId) -> bool {
    body.iter()
        .any(|s| matches!(s, Stmt::Acquire { ring: r, .. } if *r == ring))
}

fn releases(body: &[Stmt], handle: HandleId) -> bool {
    body.iter()
        .any(|s| matches!(s, Stmt::Release { handle: h, .. } if *h == handle))
}

//! The history of each shared word: last write, reads since.
//!
//! Histories are interned: a cell holds the index of its state. A bulk operation touches
//! thousands of cells with few distinct histories, so each history is checked and advanced once
//! per operation and the rest is a table look-up.

use super::Clocks;

/// Bytes of a shadow cell.
pub(crate) const CELL_BYTES: u32 = 4;
/// State of bytes that nobody has written.
pub(crate) const UNINIT: u32 = 0;
/// State of bytes that hold an mbarrier.
pub(crate) const MBARRIER: u32 = 1;
/// Interned states beyond which unused ones are dropped.
const COLLECT_AT: usize = 1 << 17;

/// How an access was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventKind {
    Load,
    Store,
    Atomic,
    /// `cp.async.bulk` into shared memory.
    AsyncLoad,
    /// `cp.async.bulk` out of shared memory.
    BulkStore,
    Wgmma,
    /// Non-bulk `cp.async`: asynchronous, but in the generic proxy.
    CpAsync,
}

impl EventKind {
    fn async_proxy(self) -> bool {
        matches!(self, Self::AsyncLoad | Self::BulkStore | Self::Wgmma)
    }
}

/// One access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub actor: u32,
    pub epoch: u32,
    pub line: u32,
    pub kind: EventKind,
    /// The access covers part of the cell only.
    pub partial: bool,
}

#[derive(Clone, Debug, Default)]
struct State {
    write: Option<Event>,
    reads: Vec<Event>,
}

/// Why an access is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Problem {
    Uninit,
    MbarrierBytes,
    /// Not ordered after this event.
    Unordered(Event),
    /// Ordered after this generic write, which no proxy fence covers.
    Unfenced(Event),
}

/// All histories of a cluster.
#[derive(Debug)]
pub(crate) struct States {
    states: Vec<State>,
    collect_at: usize,
}

impl Default for States {
    fn default() -> Self {
        Self {
            states: vec![State::default(), State::default()],
            collect_at: COLLECT_AT,
        }
    }
}

/// An access about to be made.
pub(crate) struct Touch<'a> {
    pub event: Event,
    pub write: bool,
    /// The clocks that must have seen earlier accesses: those of the issuing warp.
    pub clocks: &'a [&'a Clocks],
    /// The event of each issuer, when several warps issue one operation together.
    pub events: &'a [Event],
}

impl States {
    /// Checks and records an access to `cells`; problems come with the cell index.
    pub fn touch(
        &mut self,
        shadow: &mut [u32],
        cells: impl Iterator<Item = usize>,
        touch: &Touch,
        problems: &mut Vec<(usize, Problem)>,
    ) {
        let mut memo: Vec<(u32, u32)> = Vec::new();
        let mut last = (u32::MAX, 0);
        for cell in cells {
            let old = shadow[cell];
            if old != last.0 {
                last = match memo.iter().find(|(from, _)| *from == old) {
                    Some(found) => *found,
                    None => {
                        let new = self.advance(old, touch, cell, problems);
                        memo.push((old, new));
                        (old, new)
                    }
                };
            }
            shadow[cell] = last.1;
        }
    }

    fn advance(&mut self, old: u32, touch: &Touch, cell: usize, problems: &mut Vec<(usize, Problem)>) -> u32 {
        if old == MBARRIER {
            problems.push((cell, Problem::MbarrierBytes));
            return old;
        }
        if old == UNINIT && !touch.write {
            problems.push((cell, Problem::Uninit));
            return old;
        }
        for clocks in touch.clocks {
            if let Some(problem) = self.problem(old, touch, clocks) {
                problems.push((cell, problem));
                break;
            }
        }
        if touch.write {
            return self.push(State {
                write: Some(touch.event),
                reads: Vec::new(),
            });
        }
        let state = &self.states[old as usize];
        let known = |event: &Event| {
            state
                .reads
                .iter()
                .any(|r| r.actor == event.actor && r.epoch == event.epoch)
        };
        if touch.events.iter().all(known) {
            return old;
        }
        let mut next = state.clone();
        next.reads.retain(|r| touch.events.iter().all(|e| e.actor != r.actor));
        next.reads.extend_from_slice(touch.events);
        self.push(next)
    }

    fn problem(&self, old: u32, touch: &Touch, clocks: &Clocks) -> Option<Problem> {
        let state = &self.states[old as usize];
        let harmless = |e: &Event| {
            (e.partial && touch.event.partial) || (e.kind == EventKind::Atomic && touch.event.kind == EventKind::Atomic)
        };
        let unordered = |e: &Event| clocks.seen.get(e.actor) < e.epoch && !harmless(e);
        if let Some(write) = &state.write {
            if unordered(write) {
                return Some(Problem::Unordered(*write));
            }
            let crosses = touch.event.kind.async_proxy() && !write.kind.async_proxy();
            if crosses && clocks.fenced.get(write.actor) < write.epoch {
                return Some(Problem::Unfenced(*write));
            }
        }
        if !touch.write {
            return None;
        }
        state
            .reads
            .iter()
            .find(|r| unordered(r))
            .map(|r| Problem::Unordered(*r))
    }

    fn push(&mut self, state: State) -> u32 {
        self.states.push(state);
        (self.states.len() - 1) as u32
    }

    /// Whether it is time to drop unused states.
    pub fn is_full(&self) -> bool {
        self.states.len() >= self.collect_at
    }

    /// Drops states that no cell names any more.
    pub fn collect(&mut self, shadows: &mut [&mut [u32]]) {
        let mut moved = vec![u32::MAX; self.states.len()];
        let mut kept = vec![State::default(), State::default()];
        moved[UNINIT as usize] = UNINIT;
        moved[MBARRIER as usize] = MBARRIER;
        for cell in shadows.iter_mut().flat_map(|s| s.iter_mut()) {
            let old = *cell as usize;
            if moved[old] == u32::MAX {
                moved[old] = kept.len() as u32;
                kept.push(std::mem::take(&mut self.states[old]));
            }
            *cell = moved[old];
        }
        self.states = kept;
        self.collect_at = COLLECT_AT.max(self.states.len() * 2);
    }
}

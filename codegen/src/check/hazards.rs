//! What one warp does to its own registers, slots and staged tiles, followed along every trace of a block.
//!
//! Tensor-core groups are asynchronous: a group owns its accumulator, its register operand and the slots it reads from
//! issue to the wait that retires it (PTX ISA 9.7.15.7). All warps of all consumers run the same statements, so one
//! warp stands for them; what different warps do to each other is the business of `simulate`.

use crate::role::{Dot, HandleId, OperandA, Place, SmemTile, Stmt};

use super::access;
use super::trace::{BACK_EDGE, Case, Trace};
use super::violation::{At, Rule, Sink};

/// A group between issue and wait.
struct Group {
    acc: u32,
    a: Option<u32>,
    /// What it reads from shared memory.
    places: [Option<Place>; 2],
    site: u32,
    /// Back edges taken when it was issued.
    edges: u32,
    narrow: bool,
}

/// A tile written to shared memory.
struct Staged {
    place: Place,
    tile: SmemTile,
    site: u32,
    visible: bool,
    stored: bool,
    read: bool,
}

/// One warp within a block.
struct Warp {
    groups: Vec<Group>,
    edges: u32,
    /// Touched by ordinary code since the last fence, or never fenced.
    touched: Vec<bool>,
    /// Retired by a partial wait after a back edge.
    partial: Vec<bool>,
    /// Held slots: the site of the acquire.
    held: Vec<Option<u32>>,
    staged_over: Vec<bool>,
    staged: Vec<Staged>,
    /// Bulk stores that may still read.
    stores: Vec<Place>,
    turn: Option<u32>,
}

/// Follows every trace; returns the sites of waits that retired something.
pub(super) fn check(sink: &mut Sink<'_, '_>, cases: &[Case]) {
    let mut useful = vec![false; sink.flat.sites.len()];
    for case in cases {
        block(sink, &case.consumer, &mut useful);
    }
    for (site, stmt) in sink.flat.all() {
        if matches!(stmt, Stmt::Wait { .. }) && !useful[site as usize] {
            sink.warn(At::Site(site), "this wait never retires a group");
        }
    }
}

fn block(sink: &mut Sink<'_, '_>, trace: &Trace, useful: &mut [bool]) {
    let p = sink.flat.program;
    let mut w = Warp {
        groups: vec![],
        edges: 0,
        touched: vec![true; p.tiles.len()],
        partial: vec![false; p.tiles.len()],
        held: vec![None; p.handles.len()],
        staged_over: vec![false; p.handles.len()],
        staged: vec![],
        stores: vec![],
        turn: None,
    };
    for site in &trace.events {
        if *site == BACK_EDGE {
            w.edges += 1;
        } else {
            w.step(sink, *site, useful);
        }
    }
    w.finish(sink);
}

impl Warp {
    fn step(&mut self, sink: &mut Sink<'_, '_>, site: u32, useful: &mut [bool]) {
        let stmt = sink.flat.sites[site as usize].stmt;
        match stmt {
            Stmt::Issue(d) => self.issue(sink, site, d),
            Stmt::Wait { pending } => useful[site as usize] |= self.wait(*pending),
            Stmt::Fence => self.touched.fill(false),
            Stmt::Acquire { handle, .. } => {
                let h = handle.0 as usize;
                if let Some(before) = self.held[h].replace(site) {
                    let found = format!("the slot of `{}` still held", sink.text(before));
                    sink.fail(
                        Rule::SlotNotReleased,
                        At::Site(site),
                        "a handle that holds no slot",
                        found,
                    );
                }
                self.staged_over[h] = false;
            }
            Stmt::Release { handle, .. } => self.release(sink, site, *handle),
            Stmt::StagingFree => self.stores.clear(),
            Stmt::StagedVisible => self.staged.iter_mut().for_each(|s| s.visible = true),
            Stmt::Repair { .. } => {
                self.ordinary(sink, site, stmt);
                if let Some(g) = self.groups.first() {
                    sink.fail(
                        Rule::RepairInFlight,
                        At::Site(site),
                        "a wait for every group",
                        format!("`{}` in flight", sink.text(g.site)),
                    );
                }
            }
            Stmt::TurnWait => {
                if self.turn.replace(site).is_some() {
                    sink.fail(
                        Rule::TurnBalance,
                        At::Site(site),
                        "a turn to wait for",
                        "this warpgroup already has the turn",
                    );
                }
            }
            Stmt::TurnPass => {
                if self.turn.take().is_none() {
                    sink.fail(
                        Rule::TurnBalance,
                        At::Site(site),
                        "a turn to pass",
                        "this warpgroup does not have it",
                    );
                }
            }
            _ => {
                self.ordinary(sink, site, stmt);
                self.memory(sink, site, stmt);
            }
        }
    }

    /// Ordinary code touches registers.
    fn ordinary(&mut self, sink: &mut Sink<'_, '_>, site: u32, stmt: &Stmt) {
        access::reads(stmt, &mut |t| {
            self.touch(sink, site, t);
            if self.partial[t as usize] {
                let required = "a full wait before reading an accumulator issued in an earlier trip";
                sink.fail(
                    Rule::PartialWaitAcrossBackEdge,
                    At::Site(site),
                    required,
                    format!("`{}` after a partial wait", name(sink, t)),
                );
            }
        });
        if let Some(t) = access::written(stmt) {
            self.touch(sink, site, t);
            self.partial[t as usize] = false;
        }
    }

    fn touch(&mut self, sink: &mut Sink<'_, '_>, site: u32, t: u32) {
        for g in &self.groups {
            let (rule, what) = if g.acc == t {
                (Rule::AccumulatorInFlight, "accumulator")
            } else if g.a == Some(t) {
                (Rule::OperandInFlight, "register operand")
            } else {
                continue;
            };
            let found = format!(
                "`{}`, {what} of `{}`, still in flight",
                name(sink, t),
                sink.text(g.site)
            );
            sink.fail(rule, At::Site(site), "a wait that retires the group first", found);
        }
        self.touched[t as usize] = true;
    }

    fn memory(&mut self, sink: &mut Sink<'_, '_>, site: u32, stmt: &Stmt) {
        match stmt {
            Stmt::ReadShared { handle, .. } => self.use_slot(sink, site, *handle),
            Stmt::WarpDot { a, b, .. } => [a.place, b.place]
                .into_iter()
                .for_each(|p| self.read_place(sink, site, p)),
            Stmt::Stage { place, tile, .. } => self.stage(sink, site, *place, *tile),
            Stmt::StoreStaged { place, tile, .. } => {
                match self
                    .staged
                    .iter_mut()
                    .find(|s| s.place == *place && s.tile == *tile && !s.stored)
                {
                    Some(s) => s.stored = true,
                    None => sink.fail(
                        Rule::StoreWithoutStage,
                        At::Site(site),
                        "a tile staged there, of that shape, not stored yet",
                        "none",
                    ),
                }
                if let Place::Slot(h) = place
                    && self.held[h.0 as usize].is_none()
                {
                    sink.fail(
                        Rule::SlotUnheld,
                        At::Site(site),
                        "a held slot",
                        "a slot that was released or never acquired",
                    );
                }
                self.stores.push(*place);
            }
            _ => {}
        }
    }

    /// A read of shared memory, now or by a group.
    fn read_place(&mut self, sink: &mut Sink<'_, '_>, site: u32, place: Place) {
        if let Place::Slot(h) = place {
            return self.use_slot(sink, site, h);
        }
        match self.staged.iter_mut().find(|s| s.place == place) {
            Some(s) if s.visible => s.read = true,
            Some(_) => sink.fail(
                Rule::StagedNotVisible,
                At::Site(site),
                "`staged visible` between the stage and the dot",
                "none",
            ),
            None => sink.fail(
                Rule::StagedNotVisible,
                At::Site(site),
                "a tile staged there in this block",
                "none",
            ),
        }
    }

    /// A read of a slot, now or by a group.
    fn use_slot(&mut self, sink: &mut Sink<'_, '_>, site: u32, h: HandleId) {
        let slot = &sink.flat.program.handles[h.0 as usize].0;
        if self.held[h.0 as usize].is_none() {
            sink.fail(
                Rule::SlotUnheld,
                At::Site(site),
                "a held slot",
                format!("the slot of `{slot}` was released or never acquired"),
            );
        }
        if self.staged_over[h.0 as usize] {
            sink.fail(
                Rule::ReadAfterStage,
                At::Site(site),
                "the tile that was loaded",
                format!("the slot of `{slot}` was staged over"),
            );
        }
    }

    fn stage(&mut self, sink: &mut Sink<'_, '_>, site: u32, place: Place, tile: SmemTile) {
        if let Place::Slot(h) = place {
            let slot = &sink.flat.program.handles[h.0 as usize].0;
            if self.held[h.0 as usize].is_none() {
                sink.fail(
                    Rule::SlotUnheld,
                    At::Site(site),
                    "a held slot to stage over",
                    format!("the slot of `{slot}` was released or never acquired"),
                );
            }
            self.staged_over[h.0 as usize] = true;
        }
        if let Some(g) = self.groups.iter().find(|g| g.places.contains(&Some(place))) {
            sink.fail(
                Rule::StageWhileRead,
                At::Site(site),
                "a wait for the readers of the place",
                format!("`{}` in flight", sink.text(g.site)),
            );
        }
        if self.staged.iter().any(|s| s.place == place && !s.stored && !s.read) {
            sink.fail(
                Rule::StageWithoutUse,
                At::Site(site),
                "the tile staged before to be stored or read",
                "two tiles staged in one place",
            );
        }
        self.staged.retain(|s| s.place != place);
        self.staged.push(Staged {
            place,
            tile,
            site,
            visible: false,
            stored: false,
            read: false,
        });
    }

    fn release(&mut self, sink: &mut Sink<'_, '_>, site: u32, h: HandleId) {
        if self.held[h.0 as usize].take().is_none() {
            sink.fail(
                Rule::ReleaseUnheld,
                At::Site(site),
                "a held slot, released once",
                "a slot that was released or never acquired",
            );
        }
        if let Some(g) = self.groups.iter().find(|g| g.places.contains(&Some(Place::Slot(h)))) {
            sink.fail(
                Rule::ReleaseWhileRead,
                At::Site(site),
                "a wait for the readers of the slot",
                format!("`{}` in flight", sink.text(g.site)),
            );
        }
        if self.stores.contains(&Place::Slot(h)) {
            sink.fail(
                Rule::ReleaseWhileRead,
                At::Site(site),
                "`staging free` before the slot goes back",
                "a store that may still read it",
            );
        }
        if let Some(s) = self.staged.iter().find(|s| s.place == Place::Slot(h) && !s.stored) {
            sink.fail(
                Rule::StageWithoutUse,
                At::Site(s.site),
                "a store before the slot goes back",
                "none",
            );
        }
        self.staged.retain(|s| s.place != Place::Slot(h));
    }

    fn issue(&mut self, sink: &mut Sink<'_, '_>, site: u32, d: &Dot) {
        let (acc, a) = (d.acc.0, if let OperandA::Regs(a) = d.a { Some(a.0) } else { None });
        for t in [Some(acc), a].into_iter().flatten() {
            if self.touched[t as usize] {
                sink.fail(
                    Rule::FenceMissing,
                    At::Site(site),
                    "a fence after ordinary code touched its registers",
                    format!("`{}` touched since the last fence, or never fenced", name(sink, t)),
                );
            }
        }
        for g in &self.groups {
            if Some(g.acc) == a {
                sink.fail(
                    Rule::AccumulatorInFlight,
                    At::Site(site),
                    "a finished left operand",
                    format!("`{}` in flight", sink.text(g.site)),
                );
            }
            if g.a == Some(acc) {
                sink.fail(
                    Rule::OperandInFlight,
                    At::Site(site),
                    "an accumulator that nothing in flight reads",
                    format!("`{}` in flight", sink.text(g.site)),
                );
            }
        }
        if let Some(a) = a
            && self.partial[a as usize]
        {
            sink.fail(
                Rule::PartialWaitAcrossBackEdge,
                At::Site(site),
                "a full wait before reading what an earlier trip issued",
                format!("`{}`", name(sink, a)),
            );
        }
        let left = if let OperandA::Shared(o) = d.a {
            Some(o.place)
        } else {
            None
        };
        let places = [left, Some(d.b.place)];
        places
            .into_iter()
            .flatten()
            .for_each(|p| self.read_place(sink, site, p));
        self.partial[acc as usize] = false;
        if let Some(g) = self.groups.iter().find(|g| d.narrow.is_some() || g.narrow) {
            sink.fail(
                Rule::NarrowForm,
                At::Site(site),
                "a dot with a narrow form alone in flight, since it is one group or two",
                format!("`{}` in flight", sink.text(g.site)),
            );
        }
        self.groups.push(Group {
            acc,
            a,
            places,
            site,
            edges: self.edges,
            narrow: d.narrow.is_some(),
        });
    }

    /// Retires all but the youngest groups; whether there was one to retire.
    fn wait(&mut self, pending: u32) -> bool {
        let retired = self.groups.len().saturating_sub(pending as usize);
        for g in self.groups.drain(..retired) {
            if pending > 0 && g.edges < self.edges {
                self.partial[g.acc as usize] = true;
            }
        }
        if pending == 0 {
            self.partial.fill(false);
        }
        retired > 0
    }

    fn finish(self, sink: &mut Sink<'_, '_>) {
        for g in &self.groups {
            sink.fail(
                Rule::InFlightAtExit,
                At::Site(g.site),
                "a wait before the block ends",
                "a group in flight",
            );
        }
        for site in self.held.into_iter().flatten() {
            sink.fail(
                Rule::SlotNotReleased,
                At::Site(site),
                "a release before the block ends",
                "a slot that is never handed back",
            );
        }
        for s in self.staged.iter().filter(|s| !s.stored && !s.read) {
            sink.fail(
                Rule::StageWithoutUse,
                At::Site(s.site),
                "a store or a read of the staged tile",
                "none before the block ends",
            );
        }
        if let Some(site) = self.turn {
            sink.fail(
                Rule::TurnBalance,
                At::Site(site),
                "the turn to be passed before the block ends",
                "a turn that is kept",
            );
        }
    }
}

fn name(sink: &Sink<'_, '_>, t: u32) -> String {
    format!("{}#{t}", sink.flat.program.tiles[t as usize].name)
}

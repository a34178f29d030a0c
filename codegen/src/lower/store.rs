//! Stores: tiles go through shared memory and the copy engine, vectors go straight to memory.

use dsl::ir::{At, Shape, TensorId, ValueId};
use dsl::schedule::Placement;

use crate::error::{CompileError, Refusal};
use crate::index::never_negative;
use crate::plan::{Staging, mat};
use crate::role::{Coord, Place, Stmt};

use super::fold::Local;
use super::{Lower, MapRequest, Sink, layout};

/// One store of the kernel.
pub(super) struct StoreOf<'s> {
    pub id: ValueId,
    pub tensor: TensorId,
    pub at: &'s [At],
    pub src: ValueId,
    /// Whose loop counter its coordinates mean.
    pub stage: u32,
}

impl Lower<'_> {
    /// Lowers one store; what must wait for the end of the block goes there.
    pub(super) fn store(&mut self, of: &StoreOf<'_>, local: &Local, sink: &mut Sink) -> Result<(), CompileError> {
        let StoreOf {
            id,
            tensor,
            at,
            src,
            stage,
        } = *of;
        let reg = self.tile(src, local)?;
        if matches!(self.kernel.value(src).ty.shape, Shape::Row(_)) {
            let at = self.global_at(tensor, at, stage);
            sink.now.push(Stmt::WriteGlobal { src: reg, at });
            return Ok(());
        }
        self.begins_inside(id, tensor, at)?;
        let name = self.kernel.tensor(tensor).name.clone();
        let (rows, cols) = mat(self.kernel, src);
        let tile = self.smem_tile(src)?;
        let staging = self
            .scheduled
            .choices
            .stores
            .get(&tensor)
            .cloned()
            .unwrap_or(Staging::Own);
        let place = match staging {
            Staging::Own => {
                let index = layout::staging_index(self);
                self.staging.push((name.clone(), tile));
                sink.now.push(Stmt::StagingFree);
                Place::Fixed(index)
            }
            Staging::Over(load) => {
                self.may_stage_over(&name, load, (rows, cols))?;
                self.outlives_its_readers(&name, id, load)?;
                // Whoever reads the load is done before anyone writes over it.
                sink.now.push(Stmt::StagingFree);
                if self.is_read_across(load) || mat(self.kernel, load) != (rows, cols) {
                    sink.now.push(Stmt::ConsumersMeet);
                }
                sink.late.insert(0, Stmt::StagingFree);
                Place::Slot(self.handles[&load])
            }
        };
        let rows_per_consumer = self.program.rows_per_consumer;
        let map = self.map(&MapRequest {
            tensor,
            label: &name,
            at,
            span: [rows_per_consumer, 64],
            l2_promotion: 0,
        });
        let coords: Vec<Coord> = self.coords(at, stage);
        sink.now.push(Stmt::Stage { src: reg, place, tile });
        sink.now.push(Stmt::StoreStaged {
            map,
            place,
            tile,
            coords,
            name,
        });
        Ok(())
    }

    /// The copy engine clips a stored box at its end only: one that begins below zero is an illegal instruction on the
    /// H200 (docs/log.md, 2026-12-01). Loads may.
    fn begins_inside(&self, store: ValueId, tensor: TensorId, at: &[At]) -> Result<(), Refusal> {
        let below = |a: &At| {
            let (At::Point(start) | At::Span { start, .. }) = a;
            !never_negative(start)
        };
        let Some(d) = at.iter().position(below) else {
            return Ok(());
        };
        let name = &self.kernel.tensor(tensor).name;
        Err(Refusal::new(
            "kernel",
            format!("`{name}` stored from an index of dimension {d} that may be below zero"),
            "the copy engine clips what it stores at the end of a tensor only",
            "an index that is built from sizes, blocks and trips without a subtraction, or `.max(0)` of it; vectors may begin anywhere",
        )
        .at(&self.kernel.value(store).site))
    }

    /// A store fits over a load outside the folds of its own shape, or over the last slot of a stage-1 load.
    fn may_stage_over(&self, name: &str, load: ValueId, tile: (u32, u32)) -> Result<(), Refusal> {
        let (label, shape) = (self.kernel.label(load), mat(self.kernel, load));
        let slot = self.program.rings[self.program.handles[self.handles[&load].0 as usize].1.0 as usize].slot_bytes;
        let (inside, fits) = (self.in_fold(load), tile.0 * tile.1.div_ceil(64) * 128 <= slot);
        let held = if inside {
            self.last_trip_holds(load) && fits
        } else {
            shape == tile
        };
        if held {
            return Ok(());
        }
        let fact = format!(
            "`{label}` is {shape:?}{}, its slot {slot} B, the tile {tile:?}",
            if inside { " inside a fold" } else { "" }
        );
        Err(Refusal::new(
            format!("stores.{name}.buffer"),
            format!("over `{label}`"),
            fact,
            "own, a load of the same shape outside the folds, or a load at stage 1 with room",
        ))
    }

    /// A tile goes over a load once nobody reads that any more, and over one of a fold only after the whole fold.
    fn outlives_its_readers(&self, name: &str, store: ValueId, load: ValueId) -> Result<(), Refusal> {
        let place = |id: ValueId| {
            let mut body = self.kernel.body.iter();
            body.position(|v| *v == id || self.kernel.fold(*v).is_some_and(|f| f.body.contains(&id)))
        };
        let in_registers = self.scheduled.choices.operands.get(&load) == Some(&Placement::Registers);
        // A repair reads the slot again.
        let read_once = in_registers && self.scheduled.fixed.is_empty();
        let last = self.last_reader(load).filter(|_| !read_once);
        let every_trip = self.in_fold(load) && self.in_fold(store);
        let reader = last.filter(|last| every_trip || place(*last) >= place(store));
        let Some(reader) = reader else { return Ok(()) };
        let (label, reader) = (self.kernel.label(load), self.kernel.label(reader));
        let fact = if every_trip {
            format!("`{label}` is loaded in fold `{reader}`, and this tile is stored on every trip of a fold")
        } else {
            format!("`{reader}` reads `{label}` after this store")
        };
        let allowed = "own, or a load that nothing reads after the store";
        let key = format!("stores.{name}.buffer");
        Err(Refusal::new(key, format!("over `{label}`"), fact, allowed).at(&self.kernel.value(store).site))
    }

    /// Whether the fold's last emitted trip, stage 1 alone, is the last to read `load`.
    fn last_trip_holds(&self, load: ValueId) -> bool {
        let stage_one = |f: &dsl::ir::Fold, id: ValueId| {
            let stages = &self.scheduled.choices.folds[&id].stages;
            f.body.iter().any(|v| {
                self.kernel.op(*v).operands().contains(&load) && stages.get(&self.kernel.label(*v)) == Some(&1)
            })
        };
        self.scheduled.choices.folds.keys().any(|id| {
            self.kernel
                .fold(*id)
                .is_some_and(|f| f.body.contains(&load) && stage_one(f, *id))
        })
    }

    /// Whether consumers read more of a load than their own rows: a right operand whole, a transposed left one by columns.
    fn is_read_across(&self, load: ValueId) -> bool {
        let across = |op: &dsl::ir::Op| match op {
            dsl::ir::Op::Dot { a, b } => b.value == load || (a.value == load && a.transposed),
            _ => false,
        };
        self.kernel.values.iter().any(|v| across(&v.op))
    }

    pub(super) fn in_fold(&self, id: ValueId) -> bool {
        self.kernel
            .values
            .iter()
            .any(|v| matches!(&v.op, dsl::ir::Op::Fold(f) if f.body.contains(&id)))
    }
}

//! Stores: tiles go through shared memory and the copy engine, vectors go straight to memory.

use dsl::ir::{At, Shape, TensorId, ValueId};

use crate::error::{CompileError, Refusal};
use crate::plan::{Staging, mat};
use crate::role::{Coord, Place, Stmt};

use super::fold::Local;
use super::{Lower, MapRequest, Sink, layout};

/// One store of the kernel.
pub(super) struct StoreOf<'s> {
    pub tensor: TensorId,
    pub at: &'s [At],
    pub src: ValueId,
    /// Whose loop counter its coordinates mean.
    pub stage: u32,
}

impl Lower<'_> {
    /// Lowers one store; what must wait for the end of the block goes there.
    pub(super) fn store(&mut self, of: &StoreOf<'_>, local: &Local, sink: &mut Sink) -> Result<(), CompileError> {
        let StoreOf { tensor, at, src, stage } = *of;
        let reg = self.tile(src, local)?;
        if matches!(self.kernel.value(src).ty.shape, Shape::Row(_)) {
            let at = self.global_at(tensor, at, stage);
            sink.now.push(Stmt::WriteGlobal { src: reg, at });
            return Ok(());
        }
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

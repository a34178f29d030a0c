//! Stores: tiles go through shared memory and the copy engine, vectors go straight to memory.

use std::collections::BTreeMap;

use dsl::ir::{At, Shape, TensorId, ValueId};

use crate::error::{CompileError, Refusal};
use crate::plan::{Staging, mat};
use crate::role::{Coord, Expr, Place, RegTileId, Stmt};

use super::{Lower, layout};

impl Lower<'_> {
    /// Lowers one store; what must wait for the end of the block goes to `late`.
    pub(super) fn store(
        &mut self,
        tensor: TensorId,
        at: &[At],
        src: ValueId,
        local: &BTreeMap<ValueId, RegTileId>,
        out: &mut Vec<Stmt>,
        late: &mut Vec<Stmt>,
    ) -> Result<(), CompileError> {
        let reg = self.tile(src, local)?;
        if matches!(self.kernel.value(src).ty.shape, Shape::Row(_)) {
            let at = self.global_at(tensor, at, 0);
            out.push(Stmt::WriteGlobal { src: reg, at });
            return Ok(());
        }
        let name = self.kernel.tensor(tensor).name.clone();
        let (rows, cols) = mat(self.kernel, src);
        let tile = self.smem_tile(&name, rows, cols, self.kernel.value(src).ty.dtype)?;
        let staging = self.scheduled.choices.stores.get(&tensor).cloned().unwrap_or(Staging::Own);
        let place = match staging {
            Staging::Own => {
                let index = layout::staging_index(self);
                self.staging.push((name.clone(), tile));
                out.push(Stmt::StagingFree);
                Place::Fixed(index)
            }
            Staging::Over(load) => {
                let (lr, lc) = mat(self.kernel, load);
                if (lr, lc) != (rows, cols) || self.in_fold(load) {
                    let fact = format!("`{}` is [{lr}, {lc}]{}, the tile is [{rows}, {cols}]", self.kernel.label(load), if self.in_fold(load) { " inside a fold" } else { "" });
                    return Err(Refusal::new(format!("stores.{name}.buffer"), format!("over `{}`", self.kernel.label(load)), fact, "own, or a load of the same shape outside the folds").into());
                }
                // Every warp of the warpgroup has read its rows of the load before any writes over them.
                out.push(Stmt::StagingFree);
                late.insert(0, Stmt::StagingFree);
                Place::Slot(self.handles[&load])
            }
        };
        let rows_per_consumer = self.program.rows_per_consumer;
        let map = self.map(tensor, &name, at, [rows_per_consumer, 64], 0);
        let coords: Vec<Coord> = self.coords(at, 0);
        out.push(Stmt::Stage { src: reg, place, tile });
        out.push(Stmt::StoreStaged { map, place, tile, coords, name });
        Ok(())
    }

    pub(super) fn in_fold(&self, id: ValueId) -> bool {
        self.kernel.values.iter().any(|v| matches!(&v.op, dsl::ir::Op::Fold(f) if f.body.contains(&id)))
    }
}

/// The coordinate expression that rows are added to.
pub fn row_start(coords: &[Coord]) -> Option<&Expr> {
    coords.iter().find_map(|c| if let Coord::Rows(e) = c { Some(e) } else { None })
}

//! Lowering of folds: sums of dots over a ring of slots.

use dsl::ir::{CarryKind, Fold as IrFold, Op, Operand as IrOperand, ValueId};
use dsl::schedule::Direction;

use crate::error::{CompileError, Refusal};
use crate::lower::calc;
use crate::plan::about::{Side, told};
use crate::plan::mat;
use crate::role::{Calc, Src};

use super::lower::{Build, tile};
use super::{Copy, Dot, Fold, Operand, Step};

/// Slots of a ring: one is read while the others are filled.
const STAGES: std::ops::RangeInclusive<u32> = 2..=8;

impl Build<'_> {
    pub(super) fn fold(&mut self, id: ValueId, f: &IrFold) -> Result<(), CompileError> {
        let choice = self.l.scheduled.choices.folds[&id].clone();
        let ahead = self.l.var(&format!("{}_ahead", f.name));
        self.l.iters.insert((f.iter, 0), ahead);
        let loads: Vec<ValueId> = f
            .body
            .iter()
            .copied()
            .filter(|v| matches!(self.l.kernel.op(*v), Op::Load { .. }))
            .collect();
        let stages = self.stages(f, &loads)?;
        let mut copies = vec![];
        let mut bytes = 0u64;
        for load in &loads {
            let mut copy = self.copy(*load)?;
            copy.offset = u32::try_from(bytes).unwrap_or(u32::MAX);
            bytes += u64::from(copy.tile.bytes()) * u64::from(stages);
            copies.push(copy);
        }
        self.shared_bytes = self.shared_bytes.max(u32::try_from(bytes).unwrap_or(u32::MAX));
        let trips = self.l.expr(&f.trips, 0);
        let mut out = vec![];
        let mut dots = vec![];
        for c in &f.carries {
            let layout = self.l.layout_of(c.arg)?;
            let acc = self.l.reg(&c.name, layout);
            self.l.regs.insert(c.arg, acc);
            calc(&mut out, acc, Calc::Copy(Src::Const(c.init)));
            if let CarryKind::Sum { contribution, .. } = c.kind {
                dots.push((contribution, self.dot(contribution, acc, &loads)?));
            }
        }
        // Ids grow in program order.
        dots.sort_by_key(|(id, _)| *id);
        let dots = dots.into_iter().map(|(_, dot)| dot).collect();
        self.steps.extend(out.into_iter().map(Step::Plain));
        let descending = choice.direction == Direction::Descending;
        self.steps.push(Step::Fold(Fold {
            name: f.name.clone(),
            trips,
            ahead,
            descending,
            stages,
            copies,
            dots,
        }));
        Ok(())
    }

    /// One `cp.async` group holds a trip's tiles, so they move through their slots together.
    fn stages(&self, f: &IrFold, loads: &[ValueId]) -> Result<u32, Refusal> {
        let mut found: Option<(u32, ValueId)> = None;
        for id in loads {
            let stages = self.l.scheduled.choices.loads.get(id).map_or(2, |c| c.stages);
            let key = || format!("loads.{}.stages", self.l.kernel.label(*id));
            if !STAGES.contains(&stages) {
                return Err(Refusal::new(
                    key(),
                    stages.to_string(),
                    "a slot is filled while another is read, and the ring's start is unrolled",
                    "2 to 8",
                ));
            }
            match found {
                Some((have, first)) if have != stages => {
                    let fact = format!(
                        "`{}` has {have}, and one copy group holds the tiles of a whole trip",
                        self.l.kernel.label(first)
                    );
                    return Err(Refusal::new(
                        key(),
                        stages.to_string(),
                        fact,
                        "the same stages for every load of a fold",
                    ));
                }
                _ => found = Some((stages, *id)),
            }
        }
        found.map(|(s, _)| s).ok_or_else(|| {
            Refusal::new(
                format!("folds.{}", f.name),
                "a fold without loads",
                "there is nothing to pipeline",
                "at least one dot of loaded tiles",
            )
        })
    }

    fn copy(&mut self, id: ValueId) -> Result<Copy, Refusal> {
        let Op::Load { tensor, at } = self.l.kernel.op(id).clone() else {
            return Err(self.refuse(id, "a copy", "it is no load", "a load"));
        };
        let name = self.l.kernel.label(id);
        let tile = tile(self.l.scheduled, id)?;
        let from = self.matrix(&name, tensor, &at, 8)?;
        let l2_prefetch = self.l.scheduled.choices.loads.get(&id).map_or(0, |c| c.l2_promotion);
        Ok(Copy {
            name,
            from,
            tile,
            offset: 0,
            l2_prefetch,
        })
    }

    fn dot(&self, id: ValueId, acc: crate::role::RegTileId, loads: &[ValueId]) -> Result<Dot, Refusal> {
        let Op::Dot { a, b } = *self.l.kernel.op(id) else {
            return Err(self.refuse(id, "a sum", "it is no dot", "a dot"));
        };
        let at = |o: IrOperand| {
            loads.iter().position(|l| *l == o.value).ok_or_else(|| {
                self.refuse(
                    id,
                    &format!("`{}` as an operand", self.l.kernel.label(o.value)),
                    "operands are tiles loaded in the same trip",
                    "loads of this fold",
                )
            })
        };
        let (_, cols) = mat(self.l.kernel, id);
        let (rows, depth) = mat(self.l.kernel, a.value);
        let depth = if a.transposed { rows } else { depth };
        if !cols.is_multiple_of(16) || !depth.is_multiple_of(16) {
            let side = if a.transposed { Side::Rows } else { Side::Cols };
            let of = if cols.is_multiple_of(16) {
                (a.value, side)
            } else {
                (id, Side::Cols)
            };
            let asked = format!("{} of {cols} columns over a depth of {depth}", told(self.l.kernel, id));
            let why = [
                "ldmatrix reads 16 by 16 elements at a time (PTX ISA 9.7.14.5.15)",
                "multiples of 16",
            ];
            let scheduled = self.l.scheduled;
            return Err(scheduled.refuse(id, scheduled.symbols.key(of.0, of.1), asked, why));
        }
        Ok(Dot {
            name: self.l.kernel.label(id),
            acc,
            a: Operand {
                copy: at(a)?,
                mn_major: a.transposed,
            },
            b: Operand {
                copy: at(b)?,
                mn_major: !b.transposed,
            },
            rows: self.l.program.rows_per_consumer,
            cols,
            depth,
            dtype: self.l.kernel.value(a.value).ty.dtype,
        })
    }
}

//! One block of the grid, as a consumer warpgroup runs it.

use std::collections::BTreeMap;

use dsl::ir::{Op, Shape, ValueId};

use crate::error::CompileError;
use crate::plan::about::told;
use crate::role::{Calc, Layout, Stmt};

use super::store::StoreOf;
use super::{Form, Lower, Sink, calc};

impl Lower<'_> {
    /// Lowers the kernel's body.
    pub(super) fn block(&mut self) -> Result<Vec<Stmt>, CompileError> {
        let mut sink = Sink::default();
        for id in self.kernel.body.clone() {
            self.value(id, &mut sink)?;
        }
        sink.now.append(&mut sink.late);
        Ok(sink.now)
    }

    fn value(&mut self, id: ValueId, sink: &mut Sink) -> Result<(), CompileError> {
        match self.kernel.op(id).clone() {
            Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } | Op::Rebase { .. } => {}
            Op::Load { .. } if matches!(self.kernel.value(id).ty.shape, Shape::Mat(..)) => {}
            Op::Fold(f) => self.fold(id, &f, sink)?,
            Op::FoldOut { fold, carry } => self.fold_out(id, fold, carry, &mut sink.now)?,
            Op::Store { tensor, at, src } => self.store(
                &StoreOf {
                    id,
                    tensor,
                    at: &at,
                    src,
                    stage: 0,
                },
                &BTreeMap::new(),
                sink,
            )?,
            Op::Dot { .. } => {
                let asked = format!("{}, a dot outside a fold", told(self.kernel, id));
                let why = ["dots are pipelined as part of a fold", "a fold of one trip"];
                return Err(self.scheduled.refuse(id, "kernel", asked, why).into());
            }
            _ => {
                let mut local = BTreeMap::new();
                self.calc(id, Form { masked: true, stage: 0 }, &mut local, &mut sink.now)?;
                self.regs.append(&mut local);
            }
        }
        Ok(())
    }

    fn fold_out(&mut self, id: ValueId, fold: ValueId, carry: u32, out: &mut Vec<Stmt>) -> Result<(), CompileError> {
        let Some(f) = self.kernel.fold(fold) else { return Ok(()) };
        let arg = f.carries[carry as usize].arg;
        let reg = self.tile(arg, &BTreeMap::new())?;
        let partial = matches!(self.program.tiles[reg.0 as usize].layout, Layout::RowPartial { .. });
        if !partial {
            self.regs.insert(id, reg);
            return Ok(());
        }
        let name = format!("{}.total", self.program.tiles[reg.0 as usize].name);
        let whole = self.reg(&name, Layout::Row { slabs: self.slabs() });
        calc(out, whole, Calc::QuadSum(reg));
        self.regs.insert(id, whole);
        Ok(())
    }
}

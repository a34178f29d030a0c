//! Calculations on register tiles: one value of the tile IR each.

use dsl::ir::{Op, ValueId};

use crate::error::{CompileError, Refusal};
use crate::plan::about::told;
use crate::role::{Calc, RegTileId, Stmt};

use super::fold::Local;
use super::{Form, Lower, calc};

impl Lower<'_> {
    /// The register tile a value is computed into.
    pub(super) fn destination(&mut self, id: ValueId, local: &mut Local) -> Result<RegTileId, CompileError> {
        if let Some(reg) = self.regs.get(&id).or(local.get(&id)) {
            return Ok(*reg);
        }
        let layout = self.layout_of(id)?;
        let reg = self.reg(&self.kernel.label(id), layout);
        local.insert(id, reg);
        Ok(reg)
    }

    /// Emits one calculation.
    pub(crate) fn calc(
        &mut self,
        id: ValueId,
        form: Form,
        local: &mut Local,
        out: &mut Vec<Stmt>,
    ) -> Result<(), CompileError> {
        let Form { masked, stage } = form;
        let op = self.kernel.op(id).clone();
        let crossing = self.regs.contains_key(&id);
        if let Op::Mask { src, .. } = &op
            && !masked
            && !crossing
        {
            let same = self.tile(*src, local)?;
            local.insert(id, same);
            return Ok(());
        }
        let what = match op {
            Op::Load { tensor, at } => {
                let at = self.global_at(tensor, &at, stage);
                let dst = self.destination(id, local)?;
                out.push(Stmt::ReadGlobal { dst, at });
                return Ok(());
            }
            Op::Unary(f, a) => Calc::Unary(f, self.src(a, local)?),
            Op::Binary(f, a, b) => Calc::Binary(f, self.src(a, local)?, self.src(b, local)?),
            Op::Fma(a, b, c) => Calc::Fma(self.src(a, local)?, self.src(b, local)?, self.src(c, local)?),
            Op::Select {
                cmp,
                lhs,
                rhs,
                then,
                otherwise,
            } => Calc::Select {
                cmp,
                lhs: self.src(lhs, local)?,
                rhs: self.src(rhs, local)?,
                then: self.src(then, local)?,
                otherwise: self.src(otherwise, local)?,
            },
            Op::Cast(a) => self.cast(id, a, local)?,
            Op::Mask { src, mask, fill } if masked => {
                let terms = mask
                    .terms
                    .iter()
                    .map(|t| crate::role::Term {
                        row_coef: t.row_coef,
                        col_coef: t.col_coef,
                        base: self.expr(&t.base, stage),
                    })
                    .collect();
                Calc::Mask {
                    src: self.tile(src, local)?,
                    terms,
                    fill,
                }
            }
            Op::Mask { src, .. } => Calc::Copy(self.src(src, local)?),
            Op::Reduce(op, a) => Calc::Reduce {
                op,
                src: self.tile(a, local)?,
                quad: !self.partial.contains(&id),
            },
            _ => {
                let asked = format!("{} here", told(self.kernel, id));
                let why = [
                    "it has no place among register calculations",
                    "loads, dots, stores and folds at their own places",
                ];
                return Err(self.scheduled.refuse(id, "kernel", asked, why).into());
            }
        };
        let dst = self.destination(id, local)?;
        calc(out, dst, what);
        Ok(())
    }

    fn cast(&self, id: ValueId, from: ValueId, local: &Local) -> Result<Calc, Refusal> {
        let (to, have) = (self.kernel.value(id).ty.dtype, self.kernel.value(from).ty.dtype);
        match (have.is_16_bit(), to.is_16_bit()) {
            (false, true) => Ok(Calc::Pack(self.tile(from, local)?)),
            (true, false) => Ok(Calc::Unpack(self.tile(from, local)?)),
            (false, false) => Ok(Calc::Copy(self.src(from, local)?)),
            (true, true) => {
                let asked = format!("{}, a cast from {have} to {to}", told(self.kernel, id));
                let why = ["16-bit values are converted through f32", "cast to f32 first"];
                Err(self.scheduled.refuse(id, "kernel", asked, why))
            }
        }
    }
}

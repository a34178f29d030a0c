//! Issuing a dot: its operands acquired, checked against the tensor core's limits, and placed.

use dsl::ir::{Op, Operand, ValueId};

use crate::error::{CompileError, Refusal};
use crate::plan::about::{Side, told};
use crate::plan::mat;
use crate::role::{Dot, OperandA, Place, SmemOperand, Stmt};

use super::Lower;
use super::trip::{State, Turn};
use super::trip_plan::{Node, Work};

impl Lower<'_> {
    pub(super) fn issue(&mut self, s: &mut State<'_>, n: usize, acc: Option<usize>) -> Result<(), CompileError> {
        let node = s.plan.nodes[n].clone();
        let Op::Dot { a, b } = *self.kernel.op(node.id) else {
            return Ok(());
        };
        let outer = |l: &Self, v: ValueId| l.loads.contains_key(&v) && !l.in_fold(v);
        for operand in [a.value, b.value] {
            if self.loads.contains_key(&operand) && !s.held.contains(&operand) && !outer(self, operand) {
                s.out.push(self.acquire(operand, node.stage));
                s.held.push(operand);
            }
        }
        if s.trip.turns && s.turn == Turn::NotYet {
            s.out.push(Stmt::TurnWait);
            s.turn = Turn::Mine;
        }
        let mut dot = self.dot(s, &node, acc)?;
        if s.trip.narrow && acc.is_none() {
            dot.narrow = self.narrow_form(node.id, node.stage).map(Box::new);
        }
        let alone = dot.narrow.is_some();
        if alone && let Some(last) = s.in_flight.last().copied() {
            self.wait_for(s, last);
        }
        s.out.push(Stmt::Fence);
        s.out.push(Stmt::Issue(Box::new(dot)));
        s.in_flight.push(n);
        if alone {
            self.wait_for(s, n);
        }
        let more = s
            .pending()
            .any(|x| x != n && matches!(s.plan.nodes[x].work, Work::Dot { .. }));
        if s.turn == Turn::Mine && !more {
            s.out.push(Stmt::TurnPass);
            s.turn = Turn::Passed;
        }
        Ok(())
    }

    fn dot(&mut self, s: &mut State<'_>, node: &Node, acc: Option<usize>) -> Result<Dot, CompileError> {
        let Op::Dot { a, b } = *self.kernel.op(node.id) else {
            let why = ["it is another operation", "a dot"];
            return Err(self.scheduled.refuse(node.id, "kernel", "a dot", why).into());
        };
        let (rows, cols) = mat(self.kernel, node.id);
        let (ar, ac) = mat(self.kernel, a.value);
        let depth = if a.transposed { ar } else { ac };
        self.dot_limits(node.id, a, [cols, depth])?;
        debug_assert_eq!(rows, self.program.rows_per_consumer * self.program.consumers);
        let left = if self.loads.contains_key(&a.value) && !self.regs.contains_key(&a.value) {
            OperandA::Shared(self.shared_operand(a, a.transposed))
        } else if let Some(buffer) = self.operand_buffers.get(&a.value) {
            OperandA::Shared(SmemOperand {
                place: Place::Fixed(buffer.0),
                tile: buffer.1,
                mn_major: false,
            })
        } else if a.transposed {
            let key = self.operand_key(a.value);
            let asked = format!("{} in registers, transposed", told(self.kernel, a.value));
            let why = [
                "registers hold the operand as it was computed",
                "transpose the product, or load the operand",
            ];
            return Err(self.scheduled.refuse(node.id, key, asked, why).into());
        } else {
            OperandA::Regs(self.tile(a.value, &s.local)?)
        };
        if !self.loads.contains_key(&b.value) {
            let asked = format!("{}, computed, as a right operand", told(self.kernel, b.value));
            let why = [
                "wgmma reads its right operand from shared memory",
                "a loaded right operand, or the transposed product",
            ];
            return Err(self.scheduled.refuse(node.id, "kernel", asked, why).into());
        }
        // Right operands lie [n, k] for the tensor core; stored [k, n] they are read N-major.
        let right = self.shared_operand(b, !b.transposed);
        let accumulator = match acc {
            Some(carry) => self.tile(s.plan.carries[carry].0, &s.local)?,
            None => {
                let mut local = std::mem::take(&mut s.local);
                let dst = self.destination(node.id, &mut local);
                s.local = local;
                dst?
            }
        };
        Ok(Dot {
            name: node.name.clone(),
            acc: accumulator,
            a: left,
            b: right,
            rows: self.program.rows_per_consumer,
            cols,
            depth,
            dtype: self.kernel.value(a.value).ty.dtype,
            accumulate: acc.is_some(),
            narrow: None,
        })
    }

    fn dot_limits(&self, dot: ValueId, a: Operand, [cols, depth]: [u32; 2]) -> Result<(), Refusal> {
        let n = self.target.mma_n;
        let cols_fit = cols > 0 && cols.is_multiple_of(8) && cols <= n;
        if cols_fit && depth > 0 && depth.is_multiple_of(16) {
            return Ok(());
        }
        let (of, side) = match (cols_fit, a.transposed) {
            (false, _) => (dot, Side::Cols),
            (true, false) => (a.value, Side::Cols),
            (true, true) => (a.value, Side::Rows),
        };
        let asked = format!("{} of {cols} columns over a depth of {depth}", told(self.kernel, dot));
        let fact = format!("wgmma takes N in steps of 8 up to {n} and K in steps of 16 (PTX ISA 9.7.15.2)");
        let why = [fact.as_str(), "tile sizes that give such N and K"];
        Err(self
            .scheduled
            .refuse(dot, self.scheduled.symbols.key(of, side), asked, why))
    }

    /// Who decides where a left operand lives: the schedule, when the operand has a name.
    fn operand_key(&self, id: ValueId) -> String {
        let name = self.kernel.value(id).name.as_ref();
        name.map_or_else(|| "kernel".to_owned(), |n| format!("operands.{n}"))
    }

    pub(super) fn shared_operand(&self, o: Operand, mn_major: bool) -> SmemOperand {
        SmemOperand {
            place: Place::Slot(self.handles[&o.value]),
            tile: self.loads[&o.value].tile,
            mn_major,
        }
    }
}

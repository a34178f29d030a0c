//! Issuing a dot: its operands acquired, checked against the tensor core's limits, and placed.

use dsl::ir::{Op, Operand, ValueId};

use crate::error::{CompileError, Refusal};
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
            return Err(Refusal::new(&node.name, "a dot", "it is another operation", "a dot").into());
        };
        let (rows, cols) = mat(self.kernel, node.id);
        let (ar, ac) = mat(self.kernel, a.value);
        let depth = if a.transposed { ar } else { ac };
        self.dot_limits(&node.name, cols, depth)?;
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
            return Err(Refusal::new(
                &node.name,
                "a transposed left operand in registers",
                "registers hold the operand as it was computed",
                "transpose the product, or load the operand",
            )
            .into());
        } else {
            OperandA::Regs(self.tile(a.value, &s.local)?)
        };
        if !self.loads.contains_key(&b.value) {
            return Err(Refusal::new(
                &node.name,
                "a computed right operand",
                "wgmma reads its right operand from shared memory",
                "a loaded right operand, or the transposed product",
            )
            .into());
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

    fn dot_limits(&self, name: &str, cols: u32, depth: u32) -> Result<(), Refusal> {
        let n = self.target.mma_n;
        if cols == 0 || !cols.is_multiple_of(8) || cols > n || depth == 0 || !depth.is_multiple_of(16) {
            return Err(Refusal::new(
                name,
                format!("{cols} columns over a depth of {depth}"),
                format!("wgmma takes N in steps of 8 up to {n} and K in steps of 16 (PTX ISA 9.7.15.2)"),
                "tile sizes that give such N and K",
            ));
        }
        Ok(())
    }

    pub(super) fn shared_operand(&self, o: Operand, mn_major: bool) -> SmemOperand {
        SmemOperand {
            place: Place::Slot(self.handles[&o.value]),
            tile: self.loads[&o.value].tile,
            mn_major,
        }
    }
}

//! Lowering: a rewritten kernel becomes a program without roles, or is refused with every reason at hand.

use std::collections::BTreeMap;

use dsl::ir::{At, CarryKind, Fold as IrFold, Op, Operand as IrOperand, Shape, TensorId, ValueId};
use dsl::schedule::{Direction, Persistence};
use dsl::{DType, Ix};

use crate::error::{CompileError, Refusal};
use crate::lower::{Lower, calc, to_u32};
use crate::plan::{Scheduled, mat};
use crate::role::{Calc, Expr, Layout, Pointer, SmemTile, Src, Stmt};
use crate::target::Target;

use super::{Copy, Dot, Fold, Matrix, Operand, Program, Step, Store, index, refuse};

/// Slots of a ring: one is read while the others are filled.
const STAGES: std::ops::RangeInclusive<u32> = 2..=8;
/// Registers a thread needs besides its sums (fragments, addresses, counters) for ptxas not to spill.
const OTHER_REGISTERS: u32 = 80;

/// Lowers a rewritten kernel.
///
/// # Errors
/// What the kernel or its schedule asks that this target cannot do.
pub fn lower(scheduled: &Scheduled, target: &Target) -> Result<Program, CompileError> {
    let refusals = refuse::schedule(&scheduled.schedule);
    if !refusals.is_empty() {
        return Err(CompileError::Refused(refusals));
    }
    let mut b = Build { l: Lower::new(scheduled, target), steps: vec![], shared_bytes: 0 };
    for id in b.l.kernel.body.clone() {
        b.value(id)?;
    }
    b.shared_fits()?;
    b.registers_fit()?;
    let mut shell = b.l.program;
    shell.grid.persistence = Persistence::None;
    (shell.producer_registers, shell.consumer_registers) = (0, 0);
    Ok(Program { shell, shared_bytes: b.shared_bytes, steps: b.steps })
}

struct Build<'a> {
    l: Lower<'a>,
    steps: Vec<Step>,
    /// Folds run one after the other and share their slots.
    shared_bytes: u32,
}

impl Build<'_> {
    fn value(&mut self, id: ValueId) -> Result<(), CompileError> {
        let is_matrix = matches!(self.l.kernel.value(id).ty.shape, Shape::Mat(..));
        match self.l.kernel.op(id).clone() {
            Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } => {}
            Op::Fold(f) => self.fold(id, &f)?,
            Op::FoldOut { fold, carry } => {
                if let Some(arg) = self.l.kernel.fold(fold).and_then(|f| f.carries.get(carry as usize)).map(|c| c.arg) {
                    let reg = self.l.tile(arg, &BTreeMap::new())?;
                    self.l.regs.insert(id, reg);
                }
            }
            Op::Store { tensor, at, src } => self.store(tensor, &at, src)?,
            Op::Load { .. } if is_matrix => return Err(self.refuse(id, "a tile loaded outside a fold", "tiles are copied as operands of a fold's dots", "a load inside the fold").into()),
            Op::Dot { .. } => return Err(self.refuse(id, "a dot outside a fold", "dots are pipelined as part of a fold", "a fold of one trip").into()),
            _ => {
                let (mut local, mut out) = (BTreeMap::new(), vec![]);
                self.l.calc(id, true, 0, &mut local, &mut out)?;
                self.l.regs.append(&mut local);
                self.steps.extend(out.into_iter().map(Step::Plain));
            }
        }
        Ok(())
    }

    fn refuse(&self, id: ValueId, asked: &str, fact: &str, allowed: &str) -> Refusal {
        Refusal::new(self.l.kernel.label(id), asked, format!("on {} {fact}", self.l.target.name), allowed)
    }

    fn fold(&mut self, id: ValueId, f: &IrFold) -> Result<(), CompileError> {
        self.plain_sums(f)?;
        let choice = self.l.scheduled.choices.folds[&id].clone();
        let ahead = self.l.var(&format!("{}_ahead", f.name));
        self.l.iters.insert((f.iter, 0), ahead);
        let loads: Vec<ValueId> = f.body.iter().copied().filter(|v| matches!(self.l.kernel.op(*v), Op::Load { .. })).collect();
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
        self.steps.push(Step::Fold(Fold { name: f.name.clone(), trips, ahead, descending, stages, copies, dots }));
        Ok(())
    }

    /// Every carry is a sum of one dot, and the body holds nothing else.
    fn plain_sums(&self, f: &IrFold) -> Result<(), CompileError> {
        let key = |name: &str| format!("folds.{}.{name}", f.name);
        let allowed = "sums of dots of loaded tiles, with calculations after the fold";
        let mut refusals = vec![];
        for c in &f.carries {
            let fact = match &c.kind {
                CarryKind::Sum { rescaled: true, .. } | CarryKind::Reference => Some("a rescaled fold moves its sums between the dots of a trip"),
                CarryKind::Next(_) => Some("a carried value is computed between the dots of a trip"),
                CarryKind::Sum { contribution, .. } if !matches!(self.l.kernel.op(*contribution), Op::Dot { .. }) => Some("its contribution is not a dot"),
                CarryKind::Sum { .. } => None,
            };
            if let Some(fact) = fact {
                refusals.push(Refusal::new(key(&c.name), "this carry", format!("{fact}, which {} does not do", self.l.target.name), allowed));
            }
        }
        for v in &f.body {
            let contribution = f.carries.iter().any(|c| matches!(c.kind, CarryKind::Sum { contribution, .. } if contribution == *v));
            let fine = match self.l.kernel.op(*v) {
                Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } => true,
                Op::Load { .. } => matches!(self.l.kernel.value(*v).ty.shape, Shape::Mat(..)),
                Op::Dot { .. } => contribution,
                _ => false,
            };
            if !fine {
                refusals.push(Refusal::new(key(&self.l.kernel.label(*v)), "this operation inside the fold", format!("on {} a fold body holds loads and the dots that are summed", self.l.target.name), allowed));
            }
        }
        if refusals.is_empty() { Ok(()) } else { Err(CompileError::Refused(refusals)) }
    }

    /// One `cp.async` group holds a trip's tiles, so they move through their slots together.
    fn stages(&self, f: &IrFold, loads: &[ValueId]) -> Result<u32, Refusal> {
        let mut found: Option<(u32, ValueId)> = None;
        for id in loads {
            let stages = self.l.scheduled.choices.loads.get(id).map_or(2, |c| c.stages);
            let key = || format!("loads.{}.stages", self.l.kernel.label(*id));
            if !STAGES.contains(&stages) {
                return Err(Refusal::new(key(), stages.to_string(), "a slot is filled while another is read, and the ring's start is unrolled", "2 to 8"));
            }
            match found {
                Some((have, first)) if have != stages => {
                    let fact = format!("`{}` has {have}, and one copy group holds the tiles of a whole trip", self.l.kernel.label(first));
                    return Err(Refusal::new(key(), stages.to_string(), fact, "the same stages for every load of a fold"));
                }
                _ => found = Some((stages, *id)),
            }
        }
        found.map(|(s, _)| s).ok_or_else(|| Refusal::new(format!("folds.{}", f.name), "a fold without loads", "there is nothing to pipeline", "at least one dot of loaded tiles"))
    }

    fn copy(&mut self, id: ValueId) -> Result<Copy, Refusal> {
        let Op::Load { tensor, at } = self.l.kernel.op(id).clone() else { return Err(self.refuse(id, "a copy", "it is no load", "a load")) };
        let (rows, cols) = mat(self.l.kernel, id);
        let name = self.l.kernel.label(id);
        let tile = tile(&name, rows, cols, self.l.kernel.value(id).ty.dtype)?;
        let from = self.matrix(&name, tensor, &at, 8)?;
        let l2_prefetch = self.l.scheduled.choices.loads.get(&id).map_or(0, |c| c.l2_promotion);
        Ok(Copy { name, from, tile, offset: 0, l2_prefetch })
    }

    /// A tile of a tensor whose columns are contiguous and start at a multiple of `aligned` elements.
    fn matrix(&mut self, name: &str, tensor: TensorId, at: &[At], aligned: i64) -> Result<Matrix, Refusal> {
        let spans: Vec<(usize, Ix)> = at.iter().enumerate().filter_map(|(d, a)| if let At::Span { start, .. } = a { Some((d, start.clone())) } else { None }).collect();
        let [(row_dim, row), (col_dim, col)] = spans.as_slice() else {
            return Err(Refusal::new(name, format!("{} spans", spans.len()), "a tile has rows and columns", "two spans"));
        };
        if col_dim + 1 != at.len() {
            return Err(Refusal::new(name, format!("columns along dimension {col_dim}"), "copies of 16 bytes need contiguous columns", "a span of the last dimension"));
        }
        if !index::never_negative(row) || !index::never_negative(col) || !index::is_multiple(col, aligned) {
            return Err(Refusal::new(name, "this start of its spans", "it may be negative, or its column is not known to be aligned", format!("starts of at least 0, columns at multiples of {aligned}")));
        }
        let size = |l: &Lower<'_>, d: usize| l.program.tensors[tensor.0 as usize].dims.get(d).cloned().unwrap_or(Expr::Const(0));
        let points = at.iter().enumerate().filter_map(|(d, a)| if let At::Point(ix) = a { Some((to_u32(d), self.l.expr(ix, 0))) } else { None }).collect();
        let (row_size, col_size) = (size(&self.l, *row_dim), size(&self.l, *col_dim));
        let pointer = self.pointer(tensor);
        Ok(Matrix { pointer, points, row_dim: to_u32(*row_dim), row: (self.l.expr(row, 0), row_size), col: (self.l.expr(col, 0), col_size) })
    }

    fn pointer(&mut self, tensor: TensorId) -> u32 {
        let pointers = &mut self.l.program.pointers;
        let known = pointers.iter().position(|p| p.tensor == tensor.0);
        to_u32(known.unwrap_or_else(|| {
            pointers.push(Pointer { tensor: tensor.0 });
            pointers.len() - 1
        }))
    }

    fn dot(&self, id: ValueId, acc: crate::role::RegTileId, loads: &[ValueId]) -> Result<Dot, Refusal> {
        let Op::Dot { a, b } = *self.l.kernel.op(id) else { return Err(self.refuse(id, "a sum", "it is no dot", "a dot")) };
        let at = |o: IrOperand| {
            loads.iter().position(|l| *l == o.value).ok_or_else(|| self.refuse(id, &format!("`{}` as an operand", self.l.kernel.label(o.value)), "operands are tiles loaded in the same trip", "loads of this fold"))
        };
        let (_, cols) = mat(self.l.kernel, id);
        let (rows, depth) = mat(self.l.kernel, a.value);
        let depth = if a.transposed { rows } else { depth };
        if !cols.is_multiple_of(16) || !depth.is_multiple_of(16) {
            return Err(self.refuse(id, &format!("{cols} columns over a depth of {depth}"), "ldmatrix reads 16 by 16 elements at a time (PTX ISA 9.7.14.5.15)", "multiples of 16"));
        }
        Ok(Dot {
            name: self.l.kernel.label(id),
            acc,
            a: Operand { copy: at(a)?, mn_major: a.transposed },
            b: Operand { copy: at(b)?, mn_major: !b.transposed },
            rows: self.l.program.rows_per_consumer,
            cols,
            depth,
            dtype: self.l.kernel.value(a.value).ty.dtype,
        })
    }

    fn store(&mut self, tensor: TensorId, at: &[At], src: ValueId) -> Result<(), CompileError> {
        let reg = self.l.tile(src, &BTreeMap::new())?;
        match self.l.program.tiles[reg.0 as usize].layout {
            Layout::Row { .. } => {
                let at = self.l.global_at(tensor, at, 0);
                self.steps.push(Step::Plain(Stmt::WriteGlobal { src: reg, at }));
            }
            Layout::Acc { .. } | Layout::Packed { .. } => {
                let name = self.l.kernel.tensor(tensor).name.clone();
                let to = self.matrix(&name, tensor, at, 2)?;
                self.steps.push(Step::Store(Store { name, src: reg, to }));
            }
            _ => return Err(self.refuse(src, "a store of it", "rows and matrices are stored", "a row or a matrix").into()),
        }
        Ok(())
    }

    fn shared_fits(&self) -> Result<(), Refusal> {
        if self.shared_bytes <= self.l.target.shared_bytes {
            return Ok(());
        }
        let slots: Vec<String> = self.steps.iter().filter_map(|s| if let Step::Fold(f) = s { Some(f) } else { None })
            .flat_map(|f| f.copies.iter().map(|c| format!("{} {} x {} B", c.name, f.stages, c.tile.bytes()))).collect();
        let fact = format!("{} may take {} B per CTA", self.l.target.name, self.l.target.shared_bytes);
        Err(Refusal::new("tiles", format!("{} B of shared memory ({})", self.shared_bytes, slots.join(", ")), fact, "smaller tiles or fewer stages"))
    }

    /// The sums of one fold are live together.
    fn registers_fit(&self) -> Result<(), Refusal> {
        let threads = 128 * self.l.program.consumers;
        let have = (self.l.target.registers / threads / 8 * 8).min(self.l.target.registers_per_thread);
        let layout = |d: &Dot| self.l.program.tiles[d.acc.0 as usize].layout.registers();
        for step in &self.steps {
            let Step::Fold(f) = step else { continue };
            let sums: u32 = f.dots.iter().map(layout).sum();
            if sums.saturating_add(OTHER_REGISTERS) > have {
                let fact = format!("a thread has {have} registers and needs about {OTHER_REGISTERS} for everything else");
                return Err(Refusal::new("tiles", format!("{sums} registers of sums per thread in fold `{}`", f.name), fact, "more consumers, or a smaller row or column tile"));
            }
        }
        Ok(())
    }
}

fn tile(name: &str, rows: u32, cols: u32, dtype: DType) -> Result<SmemTile, Refusal> {
    if !dtype.is_16_bit() {
        return Err(Refusal::new(name, format!("a {dtype} tile in shared memory"), "tiles are swizzled for 16-bit operands", "bf16, f16"));
    }
    if !cols.is_multiple_of(64) || !rows.is_multiple_of(8) || cols == 0 || rows == 0 {
        return Err(Refusal::new(name, format!("a tile of [{rows}, {cols}]"), "a 128-byte swizzle holds 64 columns of 8 rows", "rows a multiple of 8, columns a multiple of 64"));
    }
    Ok(SmemTile { rows, cols })
}

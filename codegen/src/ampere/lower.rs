//! Lowering: a rewritten kernel becomes a program without roles, or is refused with every reason at hand.

use std::collections::BTreeMap;

use dsl::Ix;
use dsl::ir::{At, Op, TensorId, ValueId};
use dsl::schedule::Persistence;

use crate::error::{CompileError, Refusal};
use crate::index;
use crate::lower::{Form, Lower, to_u32};
use crate::plan::about::{Side, told};
use crate::plan::{Scheduled, mat};
use crate::role::{Expr, Layout, Pointer, SmemTile, Stmt};
use crate::target::Target;

use super::{Dot, Matrix, Program, Step, Store, refuse};

/// Registers a thread needs besides its sums (fragments, addresses, counters) for ptxas not to spill.
const OTHER_REGISTERS: u32 = 80;

/// Lowers a rewritten kernel.
///
/// # Errors
/// What the kernel or its schedule asks that this target cannot do.
pub fn lower(scheduled: &Scheduled, target: &Target) -> Result<Program, CompileError> {
    refuse::kernel(&scheduled.kernel, target)?;
    let refusals = refuse::schedule(&scheduled.schedule);
    if !refusals.is_empty() {
        return Err(CompileError::Refused(refusals));
    }
    let mut b = Build {
        l: Lower::new(scheduled, target),
        steps: vec![],
        shared_bytes: 0,
    };
    for id in b.l.kernel.body.clone() {
        b.value(id)?;
    }
    b.shared_fits()?;
    b.registers_fit()?;
    let mut shell = b.l.program;
    shell.grid.persistence = Persistence::None;
    (shell.producer_registers, shell.consumer_registers) = (0, 0);
    Ok(Program {
        shell,
        shared_bytes: b.shared_bytes,
        steps: b.steps,
    })
}

/// A program in the making.
pub(super) struct Build<'a> {
    pub l: Lower<'a>,
    pub steps: Vec<Step>,
    /// Folds run one after the other and share their slots.
    pub shared_bytes: u32,
}

impl Build<'_> {
    fn value(&mut self, id: ValueId) -> Result<(), CompileError> {
        match self.l.kernel.op(id).clone() {
            Op::Const(_) | Op::Param(_) | Op::FoldArg { .. } => {}
            Op::Fold(f) => self.fold(id, &f)?,
            Op::FoldOut { fold, carry } => {
                if let Some(arg) = self
                    .l
                    .kernel
                    .fold(fold)
                    .and_then(|f| f.carries.get(carry as usize))
                    .map(|c| c.arg)
                {
                    let reg = self.l.tile(arg, &BTreeMap::new())?;
                    self.l.regs.insert(id, reg);
                }
            }
            Op::Store { tensor, at, src } => self.store(tensor, &at, src)?,
            _ => {
                let (mut local, mut out) = (BTreeMap::new(), vec![]);
                self.l.calc(id, Form { masked: true, stage: 0 }, &mut local, &mut out)?;
                self.l.regs.append(&mut local);
                self.steps.extend(out.into_iter().map(Step::Plain));
            }
        }
        Ok(())
    }

    pub(super) fn refuse(&self, id: ValueId, asked: &str, fact: &str, allowed: &str) -> Refusal {
        let fact = format!("on {} {fact}", self.l.target.name);
        let asked = format!("{}: {asked}", told(self.l.kernel, id));
        self.l.scheduled.refuse(id, "kernel", asked, [&fact, allowed])
    }

    /// A tile of a tensor whose columns are contiguous and start at a multiple of `aligned` elements.
    pub(super) fn matrix(&mut self, name: &str, tensor: TensorId, at: &[At], aligned: i64) -> Result<Matrix, Refusal> {
        let spans: Vec<(usize, Ix)> = at
            .iter()
            .enumerate()
            .filter_map(|(d, a)| {
                if let At::Span { start, .. } = a {
                    Some((d, start.clone()))
                } else {
                    None
                }
            })
            .collect();
        let [(row_dim, row), (col_dim, col)] = spans.as_slice() else {
            return Err(Refusal::new(
                "kernel",
                format!("{} spans for `{name}`", spans.len()),
                "a tile has rows and columns",
                "two spans",
            ));
        };
        if col_dim + 1 != at.len() {
            return Err(Refusal::new(
                "kernel",
                format!("columns of `{name}` along dimension {col_dim}"),
                "copies of 16 bytes need contiguous columns",
                "a span of the last dimension",
            ));
        }
        self.starts_inside(tensor, at, (row, col), aligned)?;
        let decl = &mut self.l.program.tensors[tensor.0 as usize];
        decl.piece_bytes = decl
            .piece_bytes
            .max(decl.dtype.bytes() * u32::try_from(aligned).unwrap_or(1));
        let size = |l: &Lower<'_>, d: usize| {
            l.program.tensors[tensor.0 as usize]
                .dims
                .get(d)
                .cloned()
                .unwrap_or(Expr::Const(0))
        };
        let points = at
            .iter()
            .enumerate()
            .filter_map(|(d, a)| {
                if let At::Point(ix) = a {
                    Some((to_u32(d), self.l.expr(ix, 0)))
                } else {
                    None
                }
            })
            .collect();
        let (row_size, col_size) = (size(&self.l, *row_dim), size(&self.l, *col_dim));
        let pointer = self.pointer(tensor);
        Ok(Matrix {
            pointer,
            points,
            row_dim: to_u32(*row_dim),
            row: (self.l.expr(row, 0), row_size),
            col: (self.l.expr(col, 0), col_size),
        })
    }

    /// Copies test only where a tile ends: it starts inside, aligned, at points that exist.
    fn starts_inside(&self, tensor: TensorId, at: &[At], (row, col): (&Ix, &Ix), aligned: i64) -> Result<(), Refusal> {
        let name = &self.l.kernel.tensor(tensor).name;
        if !index::never_negative(row) || !index::never_negative(col) || !index::is_multiple(col, aligned) {
            return Err(Refusal::new(
                "kernel",
                format!("`{name}` from where its spans start"),
                "it may be negative, or its column is not known to be aligned",
                format!("starts of at least 0, columns at multiples of {aligned}"),
            ));
        }
        let outside = |(d, a): (usize, &At)| matches!(a, At::Point(ix) if !index::inside(self.l.kernel, tensor, d, ix));
        if at.iter().enumerate().any(outside) {
            return Err(Refusal::new(
                "kernel",
                format!("`{name}` at points that may lie outside"),
                "copies of 16 bytes do not test them",
                "points that are a grid axis over their dimension",
            ));
        }
        Ok(())
    }

    fn pointer(&mut self, tensor: TensorId) -> u32 {
        let pointers = &mut self.l.program.pointers;
        let known = pointers.iter().position(|p| p.tensor == tensor.0);
        to_u32(known.unwrap_or_else(|| {
            pointers.push(Pointer { tensor: tensor.0 });
            pointers.len() - 1
        }))
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
            _ => {
                return Err(self
                    .refuse(
                        src,
                        "a store of it",
                        "rows and matrices are stored",
                        "a row or a matrix",
                    )
                    .into());
            }
        }
        Ok(())
    }

    fn shared_fits(&self) -> Result<(), Refusal> {
        if self.shared_bytes <= self.l.target.shared_bytes {
            return Ok(());
        }
        let slots: Vec<String> = self
            .steps
            .iter()
            .filter_map(|s| if let Step::Fold(f) = s { Some(f) } else { None })
            .flat_map(|f| {
                f.copies
                    .iter()
                    .map(|c| format!("{} {} x {} B", c.name, f.stages, c.tile.bytes()))
            })
            .collect();
        let fact = format!(
            "{} may take {} B per CTA",
            self.l.target.name, self.l.target.shared_bytes
        );
        Err(Refusal::new(
            "tiles",
            format!("{} B of shared memory ({})", self.shared_bytes, slots.join(", ")),
            fact,
            "smaller tiles or fewer stages",
        ))
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
                let fact =
                    format!("a thread has {have} registers and needs about {OTHER_REGISTERS} for everything else");
                return Err(Refusal::new(
                    "tiles",
                    format!("{sums} registers of sums per thread in fold `{}`", f.name),
                    fact,
                    "more consumers, or a smaller row or column tile",
                ));
            }
        }
        Ok(())
    }
}

/// How a loaded value lies in shared memory.
pub(super) fn tile(scheduled: &Scheduled, id: ValueId) -> Result<SmemTile, Refusal> {
    let kernel = &scheduled.kernel;
    let ((rows, cols), dtype) = (mat(kernel, id), kernel.value(id).ty.dtype);
    if !dtype.is_16_bit() {
        let asked = format!("{} in shared memory as {dtype}", told(kernel, id));
        let why = ["tiles are swizzled for 16-bit operands", "bf16, f16"];
        return Err(scheduled.refuse(id, "kernel", asked, why));
    }
    let rows_fit = rows > 0 && rows.is_multiple_of(8);
    if !cols.is_multiple_of(64) || cols == 0 || !rows_fit {
        let key = scheduled
            .symbols
            .key(id, if rows_fit { Side::Cols } else { Side::Rows });
        let asked = format!("{} as a tile of [{rows}, {cols}]", told(kernel, id));
        let why = [
            "a 128-byte swizzle holds 64 columns of 8 rows",
            "rows a multiple of 8, columns a multiple of 64",
        ];
        return Err(scheduled.refuse(id, key, asked, why));
    }
    Ok(SmemTile { rows, cols })
}

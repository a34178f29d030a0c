//! The machine: one environment of tile values, walked block by block.

use super::arith::{Arith, holds};
use super::bindings::{Position, Sizes};
use super::error::InterpError;
use super::fold::FoldState;
use super::memory::{self, Entry, MAX_ELEMS};
use super::tensor::{TensorData, round};
use super::tile::TileData;
use super::{Memory, Tensors};
use crate::dtype::DType;
use crate::index::Ix;
use crate::ir::{At, CmpOp, Kernel, Mask, Op, Operand, TensorId, Value, ValueId};
use crate::print::Names;

pub(super) struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub sizes: &'a Sizes,
    pub arith: Arith,
    pub at: Position,
    /// By value id: the tile computed last.
    pub env: Vec<Option<TileData>>,
    /// The rebase of the current trip, if it has run.
    pub moved: Option<FoldState>,
    memory: Vec<Memory<'a>>,
}

impl<'a> Machine<'a> {
    pub fn new(kernel: &'a Kernel, sizes: &'a Sizes, arith: Arith, memory: Vec<Memory<'a>>) -> Self {
        let env = vec![None; kernel.values.len()];
        Self {
            kernel,
            sizes,
            arith,
            at: Position::default(),
            env,
            moved: None,
            memory,
        }
    }

    /// The outputs, rounded as their tensors store them.
    pub fn into_outputs(self) -> Tensors {
        let mut outputs = Tensors::new();
        for (tensor, memory) in self.kernel.tensors.iter().zip(self.memory) {
            if let Memory::Output(output) = memory
                && let Ok(data) = TensorData::dense(tensor.dtype, &output.dims, output.data)
            {
                outputs.insert(tensor.name.clone(), data);
            }
        }
        outputs
    }

    /// Runs every block, the first axis fastest.
    pub fn run_grid(&mut self) -> Result<(), InterpError> {
        let counts = self.grid_counts()?;
        if counts.contains(&0) {
            return Ok(());
        }
        self.at = Position {
            axes: vec![0; counts.len()],
            iter: None,
        };
        loop {
            self.block(&self.kernel.body)?;
            let Some(axis) = (0..counts.len()).find(|a| self.at.axes[*a] + 1 < counts[*a]) else {
                return Ok(());
            };
            self.at.axes[..axis].fill(0);
            self.at.axes[axis] += 1;
        }
    }

    fn grid_counts(&self) -> Result<Vec<i64>, InterpError> {
        let count = |axis: &crate::ir::Axis| {
            let problem = match self.sizes.eval(&axis.count, &Position::default()) {
                Some(count) if count >= 0 => return Ok(count),
                Some(count) => format!("is {count} here; allowed: at least 0"),
                None => "overflows or divides by a number that is not positive".to_owned(),
            };
            let ix = Names::new(self.kernel).ix(&axis.count);
            Err(InterpError::GridCount {
                axis: axis.name.clone(),
                ix,
                problem,
            })
        };
        self.kernel.grid.iter().map(count).collect()
    }

    pub fn block(&mut self, ids: &[ValueId]) -> Result<(), InterpError> {
        let kernel = self.kernel;
        for &id in ids {
            let value = kernel.value(id);
            match &value.op {
                Op::Fold(fold) => self.fold(id, fold)?,
                Op::Store { tensor, at, src } => self.store(id, *tensor, at, *src)?,
                _ => {
                    let tile = self.compute(id, value)?;
                    self.env[id.0 as usize] = Some(tile);
                }
            }
        }
        Ok(())
    }

    /// The tile of an operand of `user`.
    pub fn get(&self, user: ValueId, operand: ValueId) -> Result<&TileData, InterpError> {
        self.env
            .get(operand.0 as usize)
            .and_then(Option::as_ref)
            .ok_or_else(|| InterpError::NoValue {
                value: self.kernel.label(user),
                operand: self.kernel.label(operand),
                site: self.kernel.value(user).site.clone(),
            })
    }

    fn all<const N: usize>(&self, user: ValueId, ids: [ValueId; N]) -> Result<[&TileData; N], InterpError> {
        // Every operand is asked for first, so that the lookup below cannot miss.
        let found: Vec<&TileData> = ids.iter().map(|id| self.get(user, *id)).collect::<Result<_, _>>()?;
        Ok(std::array::from_fn(|n| found[n]))
    }

    fn compute(&mut self, id: ValueId, value: &Value) -> Result<TileData, InterpError> {
        let (shape, arith) = (self.shape_of(id, value)?, self.arith);
        Ok(match &value.op {
            Op::Load { tensor, at } => self.load(id, *tensor, at, shape)?,
            Op::Const(v) => TileData::filled(shape, f64::from(*v)),
            Op::Param(p) => {
                let value = self.sizes.scalars.get(p.0 as usize).copied().unwrap_or(f64::NAN);
                TileData::filled(shape, round(value, DType::F32))
            }
            Op::Unary(op, a) => TileData::map(shape, self.all(id, [*a])?, |[x]| arith.unary(*op, x)),
            Op::Binary(op, a, b) => TileData::map(shape, self.all(id, [*a, *b])?, |[x, y]| arith.binary(*op, x, y)),
            Op::Fma(a, b, c) => TileData::map(shape, self.all(id, [*a, *b, *c])?, |[x, y, z]| arith.fma(x, y, z)),
            Op::Cast(a) => TileData::map(shape, self.all(id, [*a])?, |[x]| arith.cast(x, value.ty.dtype)),
            Op::Mask { src, mask, fill } => self.mask(id, *src, mask, *fill)?,
            Op::Select {
                cmp,
                lhs,
                rhs,
                then,
                otherwise,
            } => select(shape, *cmp, self.all(id, [*lhs, *rhs, *then, *otherwise])?),
            Op::Reduce(op, a) => arith.reduce(*op, self.get(id, *a)?),
            Op::Dot { a, b } => self.dot(id, *a, *b)?,
            Op::Rebase { scores } => self.rebase(id, *scores)?,
            Op::FoldOut { fold, carry } => self.total(id, *fold, *carry)?,
            // These are handled by the block and by the fold, and never computed.
            Op::FoldArg { .. } | Op::Fold(_) | Op::Store { .. } => self.get(id, id)?.clone(),
        })
    }

    fn shape_of(&self, id: ValueId, value: &Value) -> Result<(usize, usize), InterpError> {
        let (rows, cols) = self.sizes.shape(value.ty.shape);
        match rows.checked_mul(cols) {
            Some(elems) if elems <= MAX_ELEMS => Ok((rows, cols)),
            _ => Err(InterpError::TooLarge {
                what: self.kernel.label(id),
                elems: format!("{rows} * {cols}"),
                limit: MAX_ELEMS,
            }),
        }
    }

    fn dot(&self, id: ValueId, a: Operand, b: Operand) -> Result<TileData, InterpError> {
        let [left, right] = self.all(id, [a.value, b.value])?;
        let turned = [(a, left), (b, right)].map(|(o, t)| o.transposed.then(|| t.transposed()));
        Ok(self
            .arith
            .dot(turned[0].as_ref().unwrap_or(left), turned[1].as_ref().unwrap_or(right)))
    }

    fn mask(&self, id: ValueId, src: ValueId, mask: &Mask, fill: f32) -> Result<TileData, InterpError> {
        let mut tile = self.get(id, src)?.clone();
        let value = self.kernel.value(id);
        for term in &mask.terms {
            let of = (&*self.kernel.label(id), &value.site);
            let base = i128::from(self.sizes.eval_at(self.kernel, &term.base, &self.at, of)?);
            // Coefficients and bases of 64 bits, positions of 28: no step of this overflows 128 bits.
            for r in 0..tile.rows {
                let row = base + i128::from(term.row_coef) * r as i128;
                for c in 0..tile.cols {
                    if row + i128::from(term.col_coef) * (c as i128) < 0 {
                        tile.data[r * tile.cols + c] = f64::from(fill);
                    }
                }
            }
        }
        Ok(tile)
    }

    fn entries(&self, id: ValueId, at: &[At]) -> Result<Vec<Entry>, InterpError> {
        let label = self.kernel.label(id);
        let eval = |ix: &Ix| {
            self.sizes
                .eval_at(self.kernel, ix, &self.at, (&label, &self.kernel.value(id).site))
        };
        let entry = |at: &At| match at {
            At::Point(ix) => eval(ix).map(Entry::Point),
            At::Span { start, len } => eval(start).map(|start| Entry::Span {
                start,
                len: self.sizes.extent(*len),
            }),
        };
        at.iter().map(entry).collect()
    }

    fn load(&self, id: ValueId, tensor: TensorId, at: &[At], shape: (usize, usize)) -> Result<TileData, InterpError> {
        let entries = self.entries(id, at)?;
        Ok(match self.memory.get(tensor.0 as usize) {
            Some(Memory::Input(data)) => memory::load(data, &entries, shape),
            _ => TileData::filled(shape, f64::NAN),
        })
    }

    fn store(&mut self, id: ValueId, tensor: TensorId, at: &[At], src: ValueId) -> Result<(), InterpError> {
        let entries = self.entries(id, at)?;
        // Taken out for the write, since the output and the environment belong to the same machine.
        let tile = self.get(id, src)?.clone();
        match self.memory.get_mut(tensor.0 as usize) {
            Some(Memory::Output(output)) => output.store(&entries, &tile, &self.kernel.value(id).site),
            _ => Ok(()),
        }
    }

    fn total(&self, id: ValueId, fold: ValueId, carry: u32) -> Result<TileData, InterpError> {
        // After a fold its carry arguments hold the final values.
        let arg = self
            .kernel
            .fold(fold)
            .and_then(|f| f.carries.get(carry as usize))
            .map_or(id, |c| c.arg);
        self.get(id, arg).cloned()
    }
}

fn select(shape: (usize, usize), cmp: CmpOp, args: [&TileData; 4]) -> TileData {
    TileData::map(
        shape,
        args,
        |[lhs, rhs, then, otherwise]| if holds(cmp, lhs, rhs) { then } else { otherwise },
    )
}

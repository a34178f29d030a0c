//! Lowering: a scheduled kernel becomes a role program.
//!
//! One straight list: declare parameters, rings and registers; lower the block of a consumer; project the producer out
//! of it (the producer fills what the consumer acquires, in the same order); lay out shared memory.

mod block;
mod calc;
mod fold;
mod forms;
mod issue;
mod layout;
mod mask;
mod narrow;
mod producer;
mod repair;
mod rings;
pub mod sites;
mod store;
mod trip;
mod trip_order;
mod trip_plan;

use std::collections::{BTreeMap, BTreeSet};

use dsl::index::{IterId, Ix};
use dsl::ir::{Access, At, CarryKind, Dim, Fold, Op, ReduceOp, Shape, TensorId, ValueId};
use dsl::schedule::Placement;
use dsl::{DType, Kernel};

use crate::error::{CompileError, Refusal};
use crate::index;
use crate::plan::about::{Side, told};
use crate::plan::{Scheduled, lit, mat};
use crate::role::{
    Coord, Expr, GlobalAt, GridAxis, GridPlan, HandleId, Layout, Load, MapId, Pointer, RegTile, RegTileId, Ring,
    RingId, RoleProgram, SmemTile, Src, Stmt, TensorMap, TensorParam, VarId,
};
use crate::target::Target;

/// Lowers a rewritten kernel.
///
/// # Errors
/// What the kernel or its schedule asks that cannot be met.
pub fn lower(scheduled: &Scheduled, target: &Target) -> Result<RoleProgram, CompileError> {
    let mut l = Lower::new(scheduled, target);
    l.declare_loads()?;
    l.declare_operands()?;
    let consumer = l.block()?;
    l.program.producer = producer::project(&consumer);
    l.program.consumer = consumer;
    rings::capacity(&l.program)?;
    layout::shared_memory(&mut l)?;
    Ok(l.program)
}

pub(crate) struct Lower<'a> {
    pub scheduled: &'a Scheduled,
    pub kernel: &'a Kernel,
    pub target: &'a Target,
    pub program: RoleProgram,
    /// Values that live in registers from where they are computed to the end of the block.
    pub regs: BTreeMap<ValueId, RegTileId>,
    pub handles: BTreeMap<ValueId, HandleId>,
    pub loads: BTreeMap<ValueId, Load>,
    pub iters: BTreeMap<(IterId, u32), VarId>,
    /// Row sums kept per lane until the fold ends.
    pub partial: BTreeSet<ValueId>,
    pub users: BTreeMap<ValueId, Vec<ValueId>>,
    /// Buffers asked for: name, tile per CTA.
    pub staging: Vec<(String, SmemTile)>,
    /// Computed operands that live in shared memory: their buffer and tile.
    pub operand_buffers: BTreeMap<ValueId, (u32, SmemTile)>,
}

impl<'a> Lower<'a> {
    pub(crate) fn new(scheduled: &'a Scheduled, target: &'a Target) -> Self {
        let (kernel, c) = (&scheduled.kernel, &scheduled.choices);
        let mut l = Lower {
            scheduled,
            kernel,
            target,
            program: empty_program(scheduled),
            regs: BTreeMap::new(),
            handles: BTreeMap::new(),
            loads: BTreeMap::new(),
            iters: BTreeMap::new(),
            partial: BTreeSet::new(),
            users: users(kernel),
            staging: vec![],
            operand_buffers: BTreeMap::new(),
        };
        for (i, axis) in kernel.grid.iter().enumerate() {
            let var = l.var(&axis.name);
            let count = l.expr(&axis.count, 0);
            l.program.grid.axes.push(GridAxis {
                name: axis.name.clone(),
                count,
                var,
                descending: c.descending[i],
            });
        }
        l
    }

    pub fn var(&mut self, name: &str) -> VarId {
        self.program.vars.push(name.to_owned());
        VarId(to_u32(self.program.vars.len()) - 1)
    }

    pub fn reg(&mut self, name: &str, layout: Layout) -> RegTileId {
        self.program.tiles.push(RegTile {
            name: name.to_owned(),
            layout,
        });
        RegTileId(to_u32(self.program.tiles.len()) - 1)
    }

    pub fn slabs(&self) -> u32 {
        self.program.rows_per_consumer / 64
    }

    /// The register layout of a value.
    pub fn layout_of(&self, id: ValueId) -> Result<Layout, Refusal> {
        let ty = self.kernel.value(id).ty;
        let slabs = self.slabs();
        match (ty.shape, ty.dtype) {
            (Shape::Scalar, _) => Ok(Layout::Scalar),
            (Shape::Row(_), DType::F32) if self.partial.contains(&id) => Ok(Layout::RowPartial { slabs }),
            (Shape::Row(_), DType::F32) => Ok(Layout::Row { slabs }),
            (Shape::Col(c), DType::F32) => Ok(Layout::Col { cols: lit(c) }),
            (Shape::Mat(_, c), DType::F32) => Ok(Layout::Acc { slabs, cols: lit(c) }),
            (Shape::Mat(_, c), dtype) => Ok(Layout::Packed {
                slabs,
                cols: lit(c),
                dtype,
            }),
            (shape, dtype) => {
                let asked = format!("a {dtype} vector {shape:?} in registers");
                let why = ["vectors are held as f32", "cast it to f32"];
                Err(self.scheduled.refuse(id, "kernel", asked, why))
            }
        }
    }

    /// Converts an index expression; loop counters are those of `stage`.
    pub fn expr(&self, ix: &Ix, stage: u32) -> Expr {
        match ix {
            Ix::Const(v) => Expr::Const(*v),
            Ix::Runtime(r) => Expr::Runtime(r.0),
            Ix::Tile(_) => Expr::Const(0),
            Ix::Axis(a) => Expr::Var(self.program.grid.axes[a.0 as usize].var),
            Ix::Iter(i) => self.iters.get(&(*i, stage)).map_or(Expr::Const(0), |v| Expr::Var(*v)),
            Ix::Bin(op, ab) => Expr::bin(*op, self.expr(&ab.0, stage), self.expr(&ab.1, stage)),
        }
    }

    pub fn coords(&self, at: &[At], stage: u32) -> Vec<Coord> {
        let spans = at.iter().filter(|a| matches!(a, At::Span { .. })).count();
        let mut seen = 0;
        let mut out = vec![];
        for a in at {
            out.push(match a {
                At::Point(ix) => Coord::Point(self.expr(ix, stage)),
                At::Span { start, .. } => {
                    seen += 1;
                    let start = self.expr(start, stage);
                    if seen == 1 && spans > 1 || spans == 1 {
                        Coord::Rows(start)
                    } else {
                        Coord::Cols(start)
                    }
                }
            });
        }
        out
    }

    /// The source operand for a value: an immediate, a parameter, or a register tile.
    pub fn src(&self, id: ValueId, local: &BTreeMap<ValueId, RegTileId>) -> Result<Src, Refusal> {
        match self.kernel.op(id) {
            Op::Const(v) => Ok(Src::Const(*v)),
            Op::Param(p) => Ok(Src::Param(p.0)),
            _ => self.tile(id, local).map(Src::Tile),
        }
    }

    pub fn tile(&self, id: ValueId, local: &BTreeMap<ValueId, RegTileId>) -> Result<RegTileId, Refusal> {
        local.get(&id).or_else(|| self.regs.get(&id)).copied().ok_or_else(|| {
            if matches!(self.kernel.op(id), Op::Load { .. }) && self.kernel.body.contains(&id) {
                let asked = format!(
                    "the elements of {}, a tile loaded outside a fold",
                    told(self.kernel, id)
                );
                let why = [
                    "outside folds, loaded tiles are operands of dots only",
                    "a fold of one trip around it",
                ];
                return self.scheduled.refuse(id, "kernel", asked, why);
            }
            let asked = format!("{} in registers here", told(self.kernel, id));
            let why = [
                "it is not computed at this point of the pipeline",
                "stages and an order in which it is computed first",
            ];
            self.scheduled.refuse(id, self.scheduled.stage_key(id), asked, why)
        })
    }

    /// Declares ring, handle and tensor map of every matrix load.
    fn declare_loads(&mut self) -> Result<(), CompileError> {
        let choices = self.scheduled.choices.loads.clone();
        for (id, choice) in choices {
            let Op::Load { tensor, at } = self.kernel.op(id).clone() else {
                continue;
            };
            let rows = mat(self.kernel, id).0;
            let label = self.kernel.label(id);
            let tile = self.smem_tile(id)?;
            let ring = self.ring(&label, &choice.ring, choice.stages, tile)?;
            self.program.handles.push((label.clone(), ring));
            self.handles
                .insert(id, HandleId(to_u32(self.program.handles.len()) - 1));
            let map = self.map(&MapRequest {
                tensor,
                label: &label,
                at: &at,
                span: [rows, 64],
                l2_promotion: choice.l2_promotion,
            });
            let load = Load {
                name: label,
                map,
                tile,
                coords: vec![],
                cache: choice.cache,
            };
            self.loads.insert(id, load);
        }
        Ok(())
    }

    /// Buffers of computed operands that the schedule puts into shared memory.
    fn declare_operands(&mut self) -> Result<(), CompileError> {
        for (id, placement) in self.scheduled.choices.operands.clone() {
            if placement != Placement::Shared || self.loads.contains_key(&id) {
                continue;
            }
            let label = self.kernel.label(id);
            let tile = self.smem_tile(id)?;
            self.operand_buffers.insert(id, (layout::staging_index(self), tile));
            self.staging.push((label, tile));
        }
        Ok(())
    }

    /// How a value lies in shared memory.
    pub fn smem_tile(&self, id: ValueId) -> Result<SmemTile, Refusal> {
        let ((rows, cols), dtype) = (mat(self.kernel, id), self.kernel.value(id).ty.dtype);
        let what = told(self.kernel, id);
        if !dtype.is_16_bit() {
            let asked = format!("{what} in shared memory as {dtype}");
            let why = ["tiles are swizzled for 16-bit operands", "bf16, f16"];
            return Err(self.scheduled.refuse(id, "kernel", asked, why));
        }
        let rows_fit = rows.is_multiple_of(8) && rows <= self.target.box_extent;
        if !cols.is_multiple_of(64) || !rows_fit {
            let fact = format!(
                "a 128-byte swizzle holds 64 columns of 8 rows, and a box at most {} rows",
                self.target.box_extent
            );
            let key = self
                .scheduled
                .symbols
                .key(id, if rows_fit { Side::Cols } else { Side::Rows });
            let asked = format!("{what} as a tile of [{rows}, {cols}]");
            let why = [
                fact.as_str(),
                "rows a multiple of 8 up to 256, columns a multiple of 64",
            ];
            return Err(self.scheduled.refuse(id, key, asked, why));
        }
        Ok(SmemTile { rows, cols })
    }

    fn ring(&mut self, label: &str, name: &str, stages: u32, tile: SmemTile) -> Result<RingId, Refusal> {
        if let Some(i) = self.program.rings.iter().position(|r| r.name == name) {
            let ring = &mut self.program.rings[i];
            if ring.stages != stages {
                return Err(Refusal::new(
                    format!("loads.{label}.stages"),
                    stages.to_string(),
                    format!("ring `{name}` has {} stages", ring.stages),
                    ring.stages.to_string(),
                ));
            }
            ring.slot_bytes = ring.slot_bytes.max(tile.bytes());
            return Ok(RingId(to_u32(i)));
        }
        self.program.rings.push(Ring {
            name: name.to_owned(),
            stages,
            slot_bytes: tile.bytes(),
            offset: 0,
            full: 0,
            empty: 0,
        });
        Ok(RingId(to_u32(self.program.rings.len()) - 1))
    }

    /// Declares a tensor map parameter.
    pub fn map(&mut self, r: &MapRequest<'_>) -> MapId {
        let mut spans = r.span.iter();
        let extent = |a: &At| {
            if matches!(a, At::Span { .. }) {
                *spans.next().unwrap_or(&1)
            } else {
                1
            }
        };
        let boxes = r.at.iter().map(extent).collect();
        let name = format!("{}_map", r.label);
        self.program.maps.push(TensorMap {
            name,
            tensor: r.tensor.0,
            boxes,
            l2_promotion: r.l2_promotion,
        });
        MapId(to_u32(self.program.maps.len()) - 1)
    }

    /// Vector access to a tensor.
    pub fn global_at(&mut self, tensor: TensorId, at: &[At], stage: u32) -> GlobalAt {
        let known = self.program.pointers.iter().position(|p| p.tensor == tensor.0);
        let pointer = known.unwrap_or_else(|| {
            self.program.pointers.push(Pointer { tensor: tensor.0 });
            self.program.pointers.len() - 1
        });
        let spanned = at.iter().position(|a| matches!(a, At::Span { .. })).unwrap_or(0);
        let bound = self.program.tensors[tensor.0 as usize]
            .dims
            .get(spanned)
            .cloned()
            .unwrap_or(Expr::Const(0));
        let unproven = |(d, a): (usize, &At)| match a {
            At::Point(ix) if !index::inside(self.kernel, tensor, d, ix) => {
                let size = self.program.tensors[tensor.0 as usize].dims.get(d)?;
                Some((self.expr(ix, stage), size.clone()))
            }
            _ => None,
        };
        GlobalAt {
            pointer: to_u32(pointer),
            coords: self.coords(at, stage),
            bound,
            points: at.iter().enumerate().filter_map(unproven).collect(),
        }
    }
}

/// Where statements go: here, or to the end of the block.
#[derive(Default)]
pub(crate) struct Sink {
    pub now: Vec<Stmt>,
    pub late: Vec<Stmt>,
}

/// The form of a trip that a calculation belongs to.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    /// Masks are applied; elsewhere they are known to hold.
    pub masked: bool,
    /// Whose loop counter its expressions mean.
    pub stage: u32,
}

/// A tensor map to declare: the box is `span` over the two spanned dimensions of `at`, and 1 elsewhere.
pub(crate) struct MapRequest<'r> {
    pub tensor: TensorId,
    pub label: &'r str,
    pub at: &'r [At],
    pub span: [u32; 2],
    pub l2_promotion: u32,
}

pub(crate) fn to_u32(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

fn users(kernel: &Kernel) -> BTreeMap<ValueId, Vec<ValueId>> {
    let mut out: BTreeMap<ValueId, Vec<ValueId>> = BTreeMap::new();
    let mut block = |ids: &[ValueId]| {
        for id in ids {
            for operand in kernel.op(*id).operands() {
                out.entry(operand).or_default().push(*id);
            }
        }
    };
    block(&kernel.body);
    for id in &kernel.body {
        if let Op::Fold(f) = kernel.op(*id) {
            block(&f.body);
        }
    }
    for id in &kernel.body {
        let Op::Fold(f) = kernel.op(*id) else { continue };
        for carry in &f.carries {
            match carry.kind {
                CarryKind::Sum { contribution: v, .. } | CarryKind::Next(v) => out.entry(v).or_default().push(*id),
                CarryKind::Reference => {}
            }
        }
    }
    out
}

/// Whether `contribution` is a row sum of the fold's own that only the carry reads: it can stay per lane.
pub(crate) fn stays_partial(l: &Lower<'_>, fold: &Fold, kind: &CarryKind) -> Option<ValueId> {
    let CarryKind::Sum { contribution, .. } = kind else {
        return None;
    };
    let alone = l.users.get(contribution).is_none_or(|u| u.len() <= 1) && fold.body.contains(contribution);
    (alone && matches!(l.kernel.op(*contribution), Op::Reduce(ReduceOp::Sum, _))).then_some(*contribution)
}

fn empty_program(s: &Scheduled) -> RoleProgram {
    let (k, c) = (&s.kernel, &s.choices);
    let dim = |d: &Dim| match d {
        Dim::Lit(v) => Expr::Const(i64::from(*v)),
        Dim::Runtime(r) => Expr::Runtime(r.0),
    };
    let tensors = k.tensors.iter().map(|t| TensorParam {
        name: t.name.clone(),
        dtype: t.dtype,
        dims: t.dims.iter().map(dim).collect(),
        written: t.access == Access::Write,
        piece_bytes: t.dtype.bytes(),
    });
    RoleProgram {
        name: k.name.clone(),
        consumers: c.consumers,
        rows_per_consumer: c.rows_per_consumer,
        producer_warps: c.producer_warps,
        producer_registers: c.producer_registers,
        consumer_registers: c.consumer_registers,
        runtime: k.runtime.clone(),
        scalars: k.scalars.iter().map(|s| (s.name.clone(), s.positive)).collect(),
        tensors: tensors.collect(),
        maps: vec![],
        pointers: vec![],
        rings: vec![],
        buffers: vec![],
        mailbox: None,
        shared_bytes: 0,
        grid: GridPlan {
            persistence: c.persistence,
            axes: vec![],
            inner: c.inner,
            section: c.section,
        },
        vars: vec![],
        tiles: vec![],
        handles: vec![],
        sites: sites::of(k),
        ping_pong: c.folds.values().any(|f| f.handoff == dsl::schedule::Handoff::PingPong) && c.consumers > 1,
        producer: vec![],
        consumer: vec![],
    }
}

/// Appends a calculation.
pub(crate) fn calc(out: &mut Vec<Stmt>, dst: RegTileId, calc: crate::role::Calc) {
    out.push(Stmt::Calc { dst, calc });
}

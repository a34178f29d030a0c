//! Tiles to shared memory: every thread copies 16-byte chunks by `cp.async` (PTX ISA 9.7.9.25.3), zero outside the tensor.

use dsl::IxBin;

use crate::emit::Emitter;
use crate::ptx::{Addr, Class, Cmp, IntOp, Kind, Opd, Reg};
use crate::role::Expr;

use super::{Copy, Matrix};

/// What stays the same over the trips of a fold.
pub(super) struct Copier {
    tid_row: Reg,
    /// First column of this thread's chunk within a box.
    tid_col: Reg,
    /// Address of this thread's first chunk in slot 0.
    dst: Reg,
    /// Rows between two chunks of a thread in one box.
    step: u32,
}

/// A thread's first chunk of a tile, and the way to its next one.
#[derive(Clone, Copy)]
struct Chunk {
    src: Reg,
    dst: Reg,
    step_bytes: Reg,
    /// Rows below the first chunk.
    down: u32,
}

/// How much of a tile lies inside its tensor.
struct Inside {
    /// Rows from this thread's first one to the end of the tensor.
    rows_left: Reg,
    /// Of this thread's chunk in each box.
    bytes: Vec<Reg>,
}

impl Emitter<'_> {
    /// Thread `t` takes chunk `t % 8` of rows `t / 8`, `t / 8 + threads / 8`, ...: the swizzle is the same for all of them.
    pub(super) fn copier(&mut self, copy: &Copy, tid: Reg, threads: u32) -> Copier {
        self.locate_name(&copy.name);
        self.note(format!("addresses of {}", copy.name));
        let tid_row = self.int(IntOp::ShrU, tid, 3u32);
        let chunk = self.int(IntOp::And, tid, 7u32);
        let low = self.int(IntOp::And, tid_row, 7u32);
        let swizzled = self.int(IntOp::Xor, chunk, low);
        let dst = self.int(IntOp::Add, self.at.smem, copy.offset);
        let dst = self.mad(tid_row, 128u32, dst);
        let dst = self.mad(swizzled, 16u32, dst);
        Copier {
            tid_row,
            tid_col: self.int(IntOp::Shl, chunk, 3u32),
            dst,
            step: threads / 8,
        }
    }

    /// Address of the tensor's first element with every point added.
    pub(super) fn matrix_base(&mut self, m: &Matrix, elem_bytes: u32) -> Reg {
        let tensor = self.p.tensors[self.p.pointers[m.pointer as usize].tensor as usize]
            .name
            .clone();
        let raw = self.reg(Class::B64);
        self.push(Kind::LdParam {
            dst: raw,
            param: format!("{tensor}_ptr"),
        });
        let mut base = self.reg(Class::B64);
        self.push(Kind::ToGlobal { dst: base, src: raw });
        for (dim, index) in &m.points {
            let stride = self.stride_bytes(m, *dim, elem_bytes);
            base = self.along(base, index, stride);
        }
        base
    }

    /// `base + index * stride`.
    fn along(&mut self, base: Reg, index: &Expr, stride: Reg) -> Reg {
        let index = self.expr(index);
        let index = self.mov(Class::B32, index);
        self.offset(base, index, stride)
    }

    /// `base + index * stride` for an index in a register.
    pub(super) fn offset(&mut self, base: Reg, index: Reg, stride: impl Into<Opd>) -> Reg {
        let wide = self.reg(Class::B64);
        self.push(Kind::Widen { dst: wide, src: index });
        let bytes = self.int64(IntOp::MulLo, wide, stride);
        self.int64(IntOp::Add, base, bytes)
    }

    pub(super) fn stride_bytes(&mut self, m: &Matrix, dim: u32, elem_bytes: u32) -> Reg {
        let tensor = self.p.tensors[self.p.pointers[m.pointer as usize].tensor as usize]
            .name
            .clone();
        let stride = self.reg(Class::B64);
        self.push(Kind::LdParam {
            dst: stride,
            param: format!("{tensor}_stride{dim}"),
        });
        self.int64(IntOp::MulLo, stride, elem_bytes)
    }

    /// Issues this thread's share of one tile into `slot`.
    ///
    /// Base and strides are read from the parameters again in every trip: registers are scarcer than that.
    pub(super) fn copy_tile(&mut self, copy: &Copy, c: &Copier, slot: Reg) {
        self.locate_name(&copy.name);
        self.note(format!("copy {}", copy.name));
        let (row, col) = (
            self.first_index(c.tid_row, &copy.from.row.0),
            self.first_index(c.tid_col, &copy.from.col.0),
        );
        let base = self.matrix_base(&copy.from, 2);
        let row_bytes = self.stride_bytes(&copy.from, copy.from.row_dim, 2);
        let step_bytes = self.int64(IntOp::MulLo, row_bytes, i64::from(c.step));
        let src = self.offset(base, row, row_bytes);
        let src = self.offset(src, col, 2u32);
        let dst = self.mad(slot, copy.tile.bytes(), c.dst);
        let chunk = Chunk {
            src,
            dst,
            step_bytes,
            down: 0,
        };
        let (edge, done) = (self.label(), self.label());
        let outside = self.reaches_outside(copy);
        self.push_if(outside, true, Kind::Bra(edge));
        self.copy_rows(copy, c, chunk, None);
        self.push(Kind::Bra(done));
        self.push(Kind::Label(edge));
        self.locate_name(&copy.name);
        self.note(format!("{} at the edge of its tensor", copy.name));
        let rows_left = self.indices_left(row, &copy.from.row.1);
        let cols_left = self.indices_left(col, &copy.from.col.1);
        let bytes = (0..copy.tile.boxes())
            .map(|b| self.bytes_inside(cols_left, b))
            .collect();
        self.copy_rows(copy, c, chunk, Some(&Inside { rows_left, bytes }));
        self.push(Kind::Label(done));
    }

    /// Whether any element of the tile lies outside the tensor; the same for all threads.
    fn reaches_outside(&mut self, copy: &Copy) -> Reg {
        let mut over = |(start, size): &(Expr, Expr), extent: u32| {
            let end = self.expr(&Expr::bin(IxBin::Add, start.clone(), Expr::Const(i64::from(extent))));
            let (end, size) = (self.mov(Class::B32, end), self.expr(size));
            let p = self.reg(Class::Pred);
            self.push(Kind::SetpI {
                cmp: Cmp::Gt,
                dst: p,
                a: end.into(),
                b: size,
            });
            p
        };
        let (a, b) = (
            over(&copy.from.row, copy.tile.rows),
            over(&copy.from.col, copy.tile.cols),
        );
        let dst = self.reg(Class::Pred);
        self.push(Kind::PredOr { dst, a, b });
        dst
    }

    fn copy_rows(&mut self, copy: &Copy, c: &Copier, mut chunk: Chunk, inside: Option<&Inside>) {
        for n in 0..copy.tile.rows.div_ceil(c.step) {
            if n > 0 {
                chunk.src = self.int64(IntOp::Add, chunk.src, chunk.step_bytes);
            }
            chunk.down = n * c.step;
            self.copy_row(copy, c, chunk, inside);
        }
    }

    /// The chunks of one row, a box each.
    fn copy_row(&mut self, copy: &Copy, c: &Copier, chunk: Chunk, inside: Option<&Inside>) {
        let down = chunk.down;
        let row_inside = inside.map(|i| {
            let p = self.reg(Class::Pred);
            self.push(Kind::SetpI {
                cmp: Cmp::Gt,
                dst: p,
                a: i.rows_left.into(),
                b: down.into(),
            });
            p
        });
        // Threads whose row lies past the tile have no chunk.
        let guard = (down + c.step > copy.tile.rows).then(|| {
            let mine = self.reg(Class::Pred);
            self.push(Kind::SetpI {
                cmp: Cmp::Lt,
                dst: mine,
                a: c.tid_row.into(),
                b: (copy.tile.rows - down).into(),
            });
            mine
        });
        for b in 0..copy.tile.boxes() {
            let bytes = inside.zip(row_inside).map(|(i, pred)| {
                let size = self.reg(Class::B32);
                self.push(Kind::SelpI {
                    dst: size,
                    a: i.bytes[b as usize].into(),
                    b: Opd::Int(0),
                    pred,
                });
                Opd::Reg(size)
            });
            let dst = Addr {
                base: chunk.dst.into(),
                offset: i64::from(b * copy.tile.box_bytes() + down * 128),
            };
            let src = Addr {
                base: chunk.src.into(),
                offset: i64::from(b * 128),
            };
            let kind = Kind::CpAsync16 {
                dst,
                src,
                bytes,
                l2_prefetch: copy.l2_prefetch,
            };
            match guard {
                Some(mine) => self.push_if(mine, true, kind),
                None => self.push(kind),
            }
        }
    }

    fn first_index(&mut self, own: Reg, start: &Expr) -> Reg {
        let start = self.expr(start);
        self.int(IntOp::Add, own, start)
    }

    /// Indices from `at` to the end of the dimension; not positive when `at` is outside.
    pub(super) fn indices_left(&mut self, at: Reg, size: &Expr) -> Reg {
        let size = self.expr(size);
        let size = self.mov(Class::B32, size);
        self.int(IntOp::Sub, size, at)
    }

    /// Bytes of this thread's chunk of box `b` that lie inside the tensor: 0 to 16.
    fn bytes_inside(&mut self, cols_left: Reg, b: u32) -> Reg {
        let left = if b == 0 {
            cols_left
        } else {
            self.int(IntOp::Sub, cols_left, 64 * b)
        };
        let left = self.int(IntOp::MinS, left, 8u32);
        let left = self.int(IntOp::MaxS, left, 0u32);
        self.int(IntOp::Shl, left, 1u32)
    }
}

//! Register tiles to memory: pairs of columns as they lie over a thread, each written only where it is inside the tensor.

use crate::emit::{Emitter, nth};
use crate::ptx::{Addr, Class, Cmp, IntOp, Kind, Label, Opd, Reg};
use crate::role::Layout;

use super::Store;

/// The rows a thread holds: address of its first column, and columns left there (none when the row is outside).
struct Rows {
    at: Vec<Reg>,
    left: Vec<Reg>,
}

impl Emitter<'_> {
    pub(super) fn store_matrix(&mut self, s: &Store) {
        self.locate_store(&s.name);
        self.note(format!("store {}", s.name));
        match self.p.tiles[s.src.0 as usize].layout {
            Layout::Packed { slabs, cols, .. } => self.store_packed(s, slabs, cols),
            Layout::Acc { slabs, cols } => self.store_floats(s, slabs, cols),
            _ => {}
        }
    }

    fn rows(&mut self, s: &Store, slabs: u32, elem_bytes: u32) -> Rows {
        let base = self.matrix_base(&s.to, elem_bytes);
        let stride = self.stride_bytes(&s.to, s.to.row_dim, elem_bytes);
        let (row, col) = (self.expr(&s.to.row.0), self.expr(&s.to.col.0));
        let (row, col) = (
            self.int(IntOp::Add, self.at.row, row),
            self.int(IntOp::Add, self.at.col, col),
        );
        let (rows_left, cols_left) = (self.indices_left(row, &s.to.row.1), self.indices_left(col, &s.to.col.1));
        let first = self.offset(base, col, elem_bytes);
        let mut out = Rows {
            at: vec![],
            left: vec![],
        };
        for r in 0..2 * slabs {
            let down = r / 2 * 64 + r % 2 * 8;
            let here = self.int(IntOp::Add, row, down);
            out.at.push(self.offset(first, here, stride));
            let (inside, left) = (self.reg(Class::Pred), self.reg(Class::B32));
            self.push(Kind::SetpI {
                cmp: Cmp::Gt,
                dst: inside,
                a: rows_left.into(),
                b: down.into(),
            });
            self.push(Kind::SelpI {
                dst: left,
                a: cols_left.into(),
                b: Opd::Int(0),
                pred: inside,
            });
            out.left.push(left);
        }
        out
    }

    /// Pairs of 16-bit values as one word; an odd last column alone.
    fn store_packed(&mut self, s: &Store, slabs: u32, cols: u32) {
        let (src, rows) = (self.tile(s.src), self.rows(s, slabs, 2));
        let place = |r: u32, group: u32| r / 2 * cols / 4 + 2 * group + r % 2;
        let each = |e: &mut Self, cmp: Cmp, make: &dyn Fn(Addr, Reg) -> Kind| {
            for (r, (at, left)) in (0u32..).zip(rows.at.iter().zip(&rows.left)) {
                for group in 0..cols / 8 {
                    let p = e.reg(Class::Pred);
                    e.push(Kind::SetpI {
                        cmp,
                        dst: p,
                        a: (*left).into(),
                        b: (8 * group + 1).into(),
                    });
                    let at = Addr {
                        base: Opd::Reg(*at),
                        offset: i64::from(16 * group),
                    };
                    e.push_if(p, true, make(at, nth(src, place(r, group))));
                }
            }
        };
        each(self, Cmp::Gt, &|at, src| Kind::StGlobal32 { at, src: src.into() });
        let even = self.skip_unless_odd(s);
        each(self, Cmp::Eq, &|at, src| Kind::StGlobal16 { at, src });
        self.push(Kind::Label(even));
    }

    /// Jumps when the columns of the tensor are even: starts are, so no pair is split.
    fn skip_unless_odd(&mut self, s: &Store) -> Label {
        let size = self.expr(&s.to.col.1);
        let size = self.mov(Class::B32, size);
        let odd = self.int(IntOp::And, size, 1u32);
        let (p, label) = (self.reg(Class::Pred), self.label());
        self.push(Kind::SetpI {
            cmp: Cmp::Eq,
            dst: p,
            a: odd.into(),
            b: Opd::Int(0),
        });
        self.push_if(p, true, Kind::Bra(label));
        label
    }

    fn store_floats(&mut self, s: &Store, slabs: u32, cols: u32) {
        let (src, rows) = (self.tile(s.src), self.rows(s, slabs, 4));
        for (r, (at, left)) in (0u32..).zip(rows.at.iter().zip(&rows.left)) {
            for i in 0..cols / 4 {
                let (group, side) = (i / 2, i % 2);
                let p = self.reg(Class::Pred);
                self.push(Kind::SetpI {
                    cmp: Cmp::Gt,
                    dst: p,
                    a: (*left).into(),
                    b: (8 * group + side).into(),
                });
                let at = Addr {
                    base: Opd::Reg(*at),
                    offset: i64::from(32 * group + 4 * side),
                };
                let value = nth(src, r / 2 * cols / 2 + 4 * group + 2 * (r % 2) + side);
                self.push_if(p, true, Kind::StGlobalF32 { at, src: value.into() });
            }
        }
    }
}

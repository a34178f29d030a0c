//! A dot of one warp for itself, by `ldmatrix` and `mma.sync` (PTX ISA 9.7.14.5): rare repairs need no warpgroup.

use dsl::DType;

use crate::ptx::{Addr, Class, IntOp, Kind, Opd, Reg};
use crate::role::{RegTileId, SmemOperand};

use super::dot::half;
use super::{Emitter, nth};

/// Addresses of the four chunk pairs of a swizzled row: chunk `c` of row `r` lies at `c ^ (r & 7)`.
struct Rows {
    chunks: [Reg; 4],
}

impl Emitter<'_> {
    /// `acc = a · bᵀ` with `extents = [rows per warpgroup, cols, depth]`.
    pub fn warp_dot(&mut self, acc: RegTileId, (a, b): (&SmemOperand, &SmemOperand), extents: [u32; 3], dtype: DType) {
        let [rows, cols, depth] = extents;
        self.note(format!("warp dot [{rows} x {cols} x {depth}]"));
        let acc = self.tile(acc);
        for i in 0..rows / 64 * cols / 2 {
            self.push(Kind::Mov {
                dst: nth(acc, i),
                src: Opd::Float(0.0),
            });
        }
        let (left, right) = (self.left_rows(a, rows), self.right_rows(b));
        for k in 0..depth / 16 {
            for slab in 0..rows / 64 {
                let fragment = self.ld_matrix(&left, a, slab * 64, k);
                for pair in 0..cols / 16 {
                    let columns = self.ld_matrix(&right, b, pair * 16, k);
                    for side in 0..2u32 {
                        let first = slab * cols / 2 + pair * 8 + side * 4;
                        let c = [
                            nth(acc, first),
                            nth(acc, first + 1),
                            nth(acc, first + 2),
                            nth(acc, first + 3),
                        ];
                        let operand = [columns[2 * side as usize], columns[2 * side as usize + 1]];
                        self.push(Kind::MmaSync {
                            half: half(dtype),
                            acc: c,
                            a: fragment,
                            b: operand,
                        });
                    }
                }
            }
        }
    }

    /// Lane l addresses row l % 8 of matrix l / 8: rows 0-7, rows 8-15, then both again 8 columns on.
    fn left_rows(&mut self, a: &SmemOperand, rows: u32) -> Rows {
        let lane = self.at.lane;
        let row = self.int(IntOp::And, lane, 15u32);
        let row = self.mad(self.at.warp, 16u32, row);
        let row = self.mad(self.at.consumer, rows, row);
        let right = self.int(IntOp::ShrU, lane, 4u32);
        self.swizzled_rows(a, row, right)
    }

    /// Lane l addresses row l % 8 of matrix l / 8: columns 0-7, 8 columns on, then both again 8 rows on.
    fn right_rows(&mut self, b: &SmemOperand) -> Rows {
        let lane = self.at.lane;
        let low = self.int(IntOp::And, lane, 7u32);
        let high = self.int(IntOp::ShrU, lane, 4u32);
        let row = self.mad(high, 8u32, low);
        let right = self.int(IntOp::ShrU, lane, 3u32);
        let right = self.int(IntOp::And, right, 1u32);
        self.swizzled_rows(b, row, right)
    }

    fn swizzled_rows(&mut self, o: &SmemOperand, row: Reg, right: Reg) -> Rows {
        let base = self.place(o.place);
        let at = self.mad(row, 128u32, base);
        let low = self.int(IntOp::And, row, 7u32);
        let chunks = [0u32, 1, 2, 3].map(|k| {
            let chunk = self.int(IntOp::Add, right, 2 * k);
            let swizzled = self.int(IntOp::Xor, chunk, low);
            self.mad(swizzled, 16u32, at)
        });
        Rows { chunks }
    }

    fn ld_matrix(&mut self, rows: &Rows, o: &SmemOperand, first_row: u32, k: u32) -> [Reg; 4] {
        let first = self.block(Class::B32, 4);
        let dst = [first, nth(first, 1), nth(first, 2), nth(first, 3)];
        let offset = k / 4 * o.tile.box_bytes() + first_row * 128;
        let at = Addr {
            base: rows.chunks[(k % 4) as usize].into(),
            offset: i64::from(offset),
        };
        self.push(Kind::LdMatrix { dst, at });
        dst
    }
}

//! Dots: fragments by `ldmatrix` (PTX ISA 9.7.14.5.15), products by `mma.sync.m16n8k16` (PTX ISA 9.7.14.5.8).

use crate::emit::{Emitter, half, nth};
use crate::ptx::{Addr, Class, IntOp, Kind, Opd, Reg};

use super::{Copy, Dot};

/// Addresses in slot 0 of the rows this lane gives to `ldmatrix`, one for each chunk pair of a swizzled row that is used.
pub(super) struct Lanes {
    a: Vec<Reg>,
    b: Vec<Reg>,
}

/// The three bits of a lane that place its row: `lane & 8` and `lane & 16` pick one of four 8 x 8 matrices.
struct Bits {
    low: Reg,
    eight: Reg,
    sixteen: Reg,
}

impl Emitter<'_> {
    /// Addresses that hold for every trip.
    pub(super) fn dot_lanes(&mut self, dot: &Dot, copies: &[Copy]) -> Lanes {
        self.locate_name(&dot.name);
        self.note(format!("rows of {}", dot.name));
        let lane = self.at.lane;
        let low = self.int(IntOp::And, lane, 7u32);
        let eight = self.int(IntOp::ShrU, lane, 3u32);
        let eight = self.int(IntOp::And, eight, 1u32);
        let sixteen = self.int(IntOp::ShrU, lane, 4u32);
        let bits = Bits { low, eight, sixteen };
        Lanes {
            a: self.left_lanes(dot, &copies[dot.a.copy], &bits),
            b: self.right_lanes(dot, &copies[dot.b.copy], &bits),
        }
    }

    /// Matrices of A: rows 0-7, rows 8-15, then both again 8 deep.
    fn left_lanes(&mut self, dot: &Dot, copy: &Copy, bits: &Bits) -> Vec<Reg> {
        if dot.a.mn_major {
            // Stored [k, m]: the warp's 16 rows are two chunks of the box that is its slab.
            let row = self.mad(bits.sixteen, 8u32, bits.low);
            let boxes = self.int(IntOp::MulLo, self.at.consumer, dot.rows / 64 * copy.tile.box_bytes());
            let at = self.row_address(copy, row);
            let at = self.int(IntOp::Add, at, boxes);
            let chunk = self.mad(self.at.warp, 2u32, bits.eight);
            return vec![self.chunk_address(at, chunk, bits.low)];
        }
        let row = self.mad(bits.eight, 8u32, bits.low);
        let row = self.mad(self.at.warp, 16u32, row);
        let row = self.mad(self.at.consumer, dot.rows, row);
        self.chunk_pairs(copy, row, bits.sixteen, bits.low)
    }

    /// Matrices of B: columns 0-7, the same 8 deep, then both again for columns 8-15.
    fn right_lanes(&mut self, dot: &Dot, copy: &Copy, bits: &Bits) -> Vec<Reg> {
        let (row, chunk) = if dot.b.mn_major {
            (bits.eight, bits.sixteen)
        } else {
            (bits.sixteen, bits.eight)
        };
        let row = self.mad(row, 8u32, bits.low);
        self.chunk_pairs(copy, row, chunk, bits.low)
    }

    fn row_address(&mut self, copy: &Copy, row: Reg) -> Reg {
        let at = self.int(IntOp::Add, self.at.smem, copy.offset);
        self.mad(row, 128u32, at)
    }

    fn chunk_address(&mut self, at: Reg, chunk: Reg, low: Reg) -> Reg {
        let swizzled = self.int(IntOp::Xor, chunk, low);
        self.mad(swizzled, 16u32, at)
    }

    fn chunk_pairs(&mut self, copy: &Copy, row: Reg, right: Reg, low: Reg) -> Vec<Reg> {
        let at = self.row_address(copy, row);
        (0..4u32)
            .map(|pair| {
                let chunk = self.int(IntOp::Add, right, 2 * pair);
                self.chunk_address(at, chunk, low)
            })
            .collect()
    }

    /// `acc += a · b` on the tiles in `slot`; a B fragment serves every slab.
    pub(super) fn dot_sync(&mut self, dot: &Dot, lanes: &Lanes, copies: &[Copy], slot: Reg) {
        self.locate_name(&dot.name);
        self.note(format!(
            "dot {} [{} x {} x {}]",
            dot.name, dot.rows, dot.cols, dot.depth
        ));
        let (left, right) = (&copies[dot.a.copy], &copies[dot.b.copy]);
        let a = self.in_slot(&lanes.a, left, slot);
        let b = self.in_slot(&lanes.b, right, slot);
        for k in 0..dot.depth / 16 {
            let fragments: Vec<[Reg; 4]> = (0..dot.rows / 64)
                .map(|slab| {
                    let (at, offset) = match dot.a.mn_major {
                        true => (a[0], slab * left.tile.box_bytes() + k * 16 * 128),
                        false => (a[(k % 4) as usize], k / 4 * left.tile.box_bytes() + slab * 64 * 128),
                    };
                    self.fragment(at, offset, dot.a.mn_major)
                })
                .collect();
            for pair in 0..dot.cols / 16 {
                let (at, offset) = match dot.b.mn_major {
                    true => (b[(pair % 4) as usize], pair / 4 * right.tile.box_bytes() + k * 16 * 128),
                    false => (b[(k % 4) as usize], k / 4 * right.tile.box_bytes() + pair * 16 * 128),
                };
                let columns = self.fragment(at, offset, dot.b.mn_major);
                self.multiply(dot, pair, &fragments, columns);
            }
        }
    }

    /// All slabs of this warp with 16 columns: two instructions each.
    fn multiply(&mut self, dot: &Dot, pair: u32, fragments: &[[Reg; 4]], columns: [Reg; 4]) {
        let acc = self.tile(dot.acc);
        for (slab, a) in (0u32..).zip(fragments) {
            for (side, b) in (0u32..).zip([[columns[0], columns[1]], [columns[2], columns[3]]]) {
                let first = slab * dot.cols / 2 + pair * 8 + side * 4;
                let c = [0, 1, 2, 3].map(|i| nth(acc, first + i));
                self.push(Kind::MmaSync {
                    half: half(dot.dtype),
                    acc: c,
                    a: *a,
                    b,
                });
            }
        }
    }

    fn in_slot(&mut self, lanes: &[Reg], copy: &Copy, slot: Reg) -> Vec<Reg> {
        let offset = self.int(IntOp::MulLo, slot, copy.tile.bytes());
        lanes.iter().map(|at| self.int(IntOp::Add, *at, offset)).collect()
    }

    fn fragment(&mut self, at: Reg, offset: u32, transposed: bool) -> [Reg; 4] {
        let first = self.block(Class::B32, 4);
        let dst = [0, 1, 2, 3].map(|i| nth(first, i));
        let at = Addr {
            base: Opd::Reg(at),
            offset: i64::from(offset),
        };
        self.push(if transposed {
            Kind::LdMatrixTrans { dst, at }
        } else {
            Kind::LdMatrix { dst, at }
        });
        dst
    }
}

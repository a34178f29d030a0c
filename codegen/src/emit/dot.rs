//! Tensor-core groups: descriptors and the instructions of one dot (PTX ISA 9.7.15).

use std::ops::Range;

use dsl::DType;

use crate::ptx::{Class, Half, IntOp, Kind, Opd, Reg, WgmmaA};
use crate::role::{Dot, OperandA, Place, SmemOperand};

use super::{Emitter, nth};

/// High word of every descriptor: stride 1024 B between groups of 8 rows, 128-byte swizzle (PTX ISA 9.7.15.5.1).
const DESCRIPTOR_HIGH: i64 = 0x4000_0040;

/// The register format of a 16-bit type.
#[must_use]
pub fn half(dtype: DType) -> Half {
    if dtype == DType::F16 { Half::F16 } else { Half::Bf16 }
}

/// Where the operands of a dot start: a descriptor's low word, or the first register of the left one.
pub(super) struct Operands {
    a: Reg,
    b: Reg,
}

impl Emitter<'_> {
    /// Low word of the descriptor of an operand's first element, in 16-byte units.
    fn descriptor(&mut self, o: &SmemOperand) -> Reg {
        // Leading distance: between 64-column boxes when N-major; unused (1) when K-major.
        let leading = if o.mn_major { o.tile.box_bytes() / 16 } else { 1 };
        let smem = self.int(IntOp::ShrU, self.at.smem, 4u32);
        let (slot, offset, step) = match o.place {
            Place::Fixed(offset) => (None, offset, 0),
            Place::Slot(h) => {
                let ring = &self.p.rings[self.p.handles[h.0 as usize].1.0 as usize];
                (self.handles[h.0 as usize], ring.offset, ring.slot_bytes)
            }
        };
        let base = self.int(
            IntOp::Add,
            smem,
            Opd::Int(i64::from(offset / 16) + (i64::from(leading) << 16)),
        );
        match slot {
            Some(slot) => self.mad(slot, step / 16, base),
            None => base,
        }
    }

    fn step(&mut self, low: Reg, units: u32) -> Reg {
        let low = if units == 0 {
            low
        } else {
            self.int(IntOp::Add, low, units)
        };
        let dst = self.reg(Class::B64);
        self.push(Kind::Pack64 {
            dst,
            lo: low.into(),
            hi: Opd::Int(DESCRIPTOR_HIGH),
        });
        dst
    }

    /// Issues and commits one dot.
    pub fn issue(&mut self, dot: &Dot) {
        self.note(format!(
            "issue {} [{} x {} x {}]",
            dot.name, dot.rows, dot.cols, dot.depth
        ));
        let b = self.descriptor(&dot.b);
        let a = match dot.a {
            OperandA::Regs(tile) => self.tile(tile),
            OperandA::Shared(o) => {
                let base = self.descriptor(&o);
                // This warpgroup's rows: 128 B each when K-major, a box of 64 columns each when M-major.
                let per_group = if o.mn_major {
                    dot.rows / 64 * o.tile.box_bytes() / 16
                } else {
                    dot.rows * 8
                };
                self.mad(self.at.consumer, per_group, base)
            }
        };
        let operands = Operands { a, b };
        match &dot.narrow {
            None => self.group(dot, 0..dot.cols, &operands),
            Some(narrow) => self.issue_narrow(dot, narrow, &operands),
        }
    }

    /// The instructions of a dot over some of its columns, and the commit that closes them.
    pub(super) fn group(&mut self, dot: &Dot, cols: Range<u32>, operands: &Operands) {
        let (acc, per_slab) = (self.tile(dot.acc), dot.cols / 2);
        // Columns are rows of 128 B in a K-major operand, boxes of 64 in an N-major one.
        let first = if dot.b.mn_major {
            cols.start / 64 * dot.b.tile.box_bytes() / 16
        } else {
            cols.start * 8
        };
        for slab in 0..dot.rows / 64 {
            let regs: Vec<Reg> = (cols.start / 2..cols.end / 2)
                .map(|i| nth(acc, slab * per_slab + i))
                .collect();
            for k in 0..dot.depth / 16 {
                let lhs = self.left(dot, operands.a, slab, k);
                let rhs = self.step(operands.b, first + k_step(&dot.b, k));
                let accumulate = Opd::Int(i64::from(dot.accumulate || k > 0));
                self.push(Kind::Wgmma {
                    n: cols.end - cols.start,
                    half: half(dot.dtype),
                    acc: regs.clone(),
                    a: lhs,
                    b: rhs,
                    b_transposed: dot.b.mn_major,
                    accumulate,
                });
            }
        }
        self.push(Kind::WgmmaCommit);
    }

    fn left(&mut self, dot: &Dot, a: Reg, slab: u32, k: u32) -> WgmmaA {
        match dot.a {
            OperandA::Regs(_) => {
                let first = slab * dot.depth / 4 + 4 * k;
                WgmmaA::Regs([nth(a, first), nth(a, first + 1), nth(a, first + 2), nth(a, first + 3)])
            }
            OperandA::Shared(o) => {
                let rows = if o.mn_major {
                    slab * o.tile.box_bytes() / 16
                } else {
                    slab * 64 * 8
                };
                WgmmaA::Shared {
                    descriptor: self.step(a, rows + k_step(&o, k)),
                    transposed: o.mn_major,
                }
            }
        }
    }
}

/// Distance of the k-th step of 16 from the first, in 16-byte units.
fn k_step(o: &SmemOperand, k: u32) -> u32 {
    if o.mn_major {
        // 16 rows of 128 B.
        k * 128
    } else {
        // 32 B within a box of 64 columns, then the next box.
        k / 4 * (o.tile.box_bytes() / 16) + k % 4 * 2
    }
}

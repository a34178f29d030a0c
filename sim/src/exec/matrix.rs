//! `ldmatrix`, `stmatrix`, `mma.sync` (PTX ISA 9.7.14.5) and small register functions.

use super::access::{Need, Place, SharedAccess};
use super::load_store::Touched;
use super::machine::{Exec, Machine};
use super::warp::{Lanes, Lanes64, Warp};
use crate::decode::op::{Addr, Dst, MatrixMove, Mma, PSrc, R, Space, Src};
use crate::exec::half::decode;
use crate::fault::FindingKind;
use crate::hb::shadow::EventKind;
use crate::memory::{RANK_SHIFT, window_base};

/// Bytes of a row of an 8x8 matrix of 16-bit elements.
const ROW_BYTES: usize = 16;

impl Machine<'_> {
    /// Places of the rows of `count` matrices: lane 8 m + r gives row r of matrix m.
    fn matrix_rows(&mut self, w: usize, addr: &Addr, count: usize, exec: u32) -> Exec<Vec<(usize, usize)>> {
        let addresses = self.addresses(w, addr, exec);
        let need = Need {
            what: "matrix row",
            bytes: ROW_BYTES as u64,
            align: ROW_BYTES as u64,
        };
        let mut rows = Vec::with_capacity(count * 8);
        for address in &addresses[..count * 8] {
            match self.place(w, Space::SharedCta, address & u64::from(u32::MAX), need)? {
                Place::Shared(cta, at) => rows.push((cta, at)),
                _ => {
                    return Err(Box::new(FindingKind::Illegal {
                        what: "matrix rows lie in shared memory".to_owned(),
                    }));
                }
            }
        }
        Ok(rows)
    }

    pub fn ldmatrix(&mut self, w: usize, load: &MatrixMove, exec: u32) -> Exec {
        let MatrixMove { regs: d, addr, trans } = load;
        let rows = self.matrix_rows(w, addr, d.len(), exec)?;
        let mut touched = Touched::default();
        for (matrix, slot) in d.iter().enumerate() {
            let tile = &rows[matrix * 8..matrix * 8 + 8];
            let element = |row: usize, col: usize| {
                let (cta, at) = tile[row];
                let smem = &self.ctas[cta].smem;
                u32::from(u16::from_le_bytes([smem[at + 2 * col], smem[at + 2 * col + 1]]))
            };
            let value: Lanes = std::array::from_fn(|lane| {
                let (row, col) = (lane / 4, 2 * (lane % 4));
                if *trans {
                    element(col, row) | element(col + 1, row) << 16
                } else {
                    element(row, col) | element(row, col + 1) << 16
                }
            });
            tile.iter().for_each(|(cta, at)| touched.add(*cta, *at, ROW_BYTES));
            self.warps[w].put(*slot, exec, &value);
        }
        let access = SharedAccess {
            kind: EventKind::Load,
            write: false,
            partial: false,
            engine: None,
        };
        touched.record(self, w, access);
        Ok(())
    }

    pub fn stmatrix(&mut self, w: usize, store: &MatrixMove, exec: u32) -> Exec {
        let MatrixMove { regs: a, addr, trans } = store;
        let rows = self.matrix_rows(w, addr, a.len(), exec)?;
        let mut touched = Touched::default();
        for (matrix, slot) in a.iter().enumerate() {
            let value = self.warps[w].get(Src::Reg(*slot), exec);
            let tile = &rows[matrix * 8..matrix * 8 + 8];
            for (lane, bits) in value.iter().enumerate() {
                for half in 0..2 {
                    let (mut row, mut col) = (lane / 4, 2 * (lane % 4) + half);
                    if *trans {
                        std::mem::swap(&mut row, &mut col);
                    }
                    let (cta, at) = tile[row];
                    let element = (bits >> (16 * half)) as u16;
                    self.ctas[cta].smem[at + 2 * col..at + 2 * col + 2].copy_from_slice(&element.to_le_bytes());
                }
            }
            tile.iter().for_each(|(cta, at)| touched.add(*cta, *at, ROW_BYTES));
        }
        self.progress += 1;
        self.warps[w].unfenced_lanes |= exec;
        let access = SharedAccess {
            kind: EventKind::Store,
            write: true,
            partial: false,
            engine: None,
        };
        touched.record(self, w, access);
        Ok(())
    }
}

impl Warp {
    /// D = A B + C, A 16 x k row major, B k x 8 column major; sums run in order of k in f32.
    pub fn mma(&mut self, mma: &Mma) {
        let exec = self.exec;
        let k_extent = mma.a.len() * 4;
        let mut a = [[0f32; 16]; 16];
        for (r, slot) in mma.a.iter().enumerate() {
            let reg = self.get(Src::Reg(*slot), exec);
            for (lane, bits) in reg.iter().enumerate() {
                let (row, col) = (lane / 4 + 8 * (r & 1), 8 * (r >> 1) + 2 * (lane % 4));
                a[row][col] = decode(mma.bf16, *bits as u16);
                a[row][col + 1] = decode(mma.bf16, (*bits >> 16) as u16);
            }
        }
        let mut b = [[0f32; 8]; 16];
        for (r, slot) in mma.b.iter().enumerate() {
            let reg = self.get(Src::Reg(*slot), exec);
            for (lane, bits) in reg.iter().enumerate() {
                let (k, col) = (8 * r + 2 * (lane % 4), lane / 4);
                b[k][col] = decode(mma.bf16, *bits as u16);
                b[k + 1][col] = decode(mma.bf16, (*bits >> 16) as u16);
            }
        }
        for (i, (d, c)) in mma.d.iter().zip(&mma.c).enumerate() {
            let c = self.get(*c, exec);
            let value: Lanes = std::array::from_fn(|lane| {
                let (row, col) = (lane / 4 + 8 * (i >> 1), 2 * (lane % 4) + (i & 1));
                let start = f32::from_bits(c[lane]);
                (0..k_extent)
                    .fold(start, |sum, k| sum + a[row][k] * b[k][col])
                    .to_bits()
            });
            self.put(*d, exec, &value);
        }
    }

    pub fn selp(&mut self, bits: u32, d: R, operands: [Src; 2], p: PSrc) {
        let exec = self.exec;
        let p = self.pred(p, exec);
        let [a, b] = operands;
        let (x, y) = (self.get_bits(a, bits, exec), self.get_bits(b, bits, exec));
        let value: Lanes64 = std::array::from_fn(|lane| if p >> lane & 1 != 0 { x[lane] } else { y[lane] });
        self.put_dst(Dst { slot: d, bits }, exec, &value);
    }

    pub fn cvta(&mut self, space: Space, to_space: bool, d: R, a: Src) {
        let exec = self.exec;
        let base = window_base(space);
        let value = self.get64(a, exec).map(|v| {
            if to_space {
                v.wrapping_sub(base)
            } else {
                v.wrapping_add(base)
            }
        });
        self.put64(d, exec, &value);
    }

    /// The same offset in the window of another CTA of the cluster.
    pub fn mapa(&mut self, space_in: Space, d: Dst, a: Src, rank: Src) {
        let exec = self.exec;
        let base = if space_in == Space::Generic {
            window_base(Space::SharedCluster)
        } else {
            0
        };
        let rank = self.get(rank, exec);
        let address = self.get_bits(a, d.bits, exec);
        let offset = (1u64 << RANK_SHIFT) - 1;
        let value: Lanes64 = std::array::from_fn(|lane| {
            (address[lane].wrapping_sub(base) & offset | u64::from(rank[lane]) << RANK_SHIFT).wrapping_add(base)
        });
        self.put_dst(d, exec, &value);
    }
}

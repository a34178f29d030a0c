//! Copies: TMA fills and stores, staging through shared memory, vector accesses.

use crate::ptx::{Addr, Class, Cmp, IntOp, Kind, Opd, Reg};
use crate::role::{Coord, Expr, GlobalAt, HandleId, Layout, Load, MapId, Place, RegTileId, RingId, SmemTile};

use super::frame::Barrier;
use super::{Emitter, nth};

/// L2 eviction policies as `createpolicy` encodes them.
const EVICT_FIRST: i64 = 0x12F0_0000_0000_0000;
const EVICT_LAST: i64 = 0x14F0_0000_0000_0000;

/// A vector of a tensor.
#[derive(Clone, Copy)]
struct Vector {
    /// Byte address of index 0 of the spanned dimension.
    base: Reg,
    /// Byte stride along it.
    along: Reg,
    /// Whether the points lie inside, where that is not known before.
    points: Option<Reg>,
}

impl Emitter<'_> {
    fn policy(&mut self, cache: dsl::schedule::Cache) -> Option<Reg> {
        use dsl::schedule::Cache;
        let bits = match cache {
            Cache::Normal => return None,
            Cache::EvictFirst => EVICT_FIRST,
            Cache::EvictLast => EVICT_LAST,
        };
        Some(self.mov(Class::B64, bits))
    }

    /// Waits for a free slot and fills it.
    pub fn fill(&mut self, ring: RingId, load: &Load) {
        if ring.0 % self.p.producer_warps != self.filling {
            return;
        }
        self.note(format!("fill {}", load.name));
        let (state, r) = (self.rings[ring.0 as usize], self.p.rings[ring.0 as usize].clone());
        let empty = self.slot_bar(state.slot, r.empty);
        self.wait_mbar(empty, state.phase.into());
        let full = self.slot_bar(state.slot, r.full);
        self.push(Kind::MbarExpect {
            at: full,
            bytes: load.tile.bytes(),
        });
        let bar = self.int(IntOp::Add, full.base, full.offset);
        let base = match state.slot {
            Some(slot) => self.mad(slot, r.slot_bytes, self.at.smem),
            None => self.at.smem,
        };
        let (map, cache) = (self.maps[load.map.0 as usize], self.policy(load.cache));
        let starts = self.starts(&load.coords);
        for b in 0..load.tile.boxes() {
            let dst = self.int(IntOp::Add, base, r.offset + b * load.tile.box_bytes());
            let coords = self.box_coords(&load.coords, &starts, None, 64 * b);
            self.push(Kind::TmaLoad {
                dst,
                map,
                coords,
                bar,
                cache,
            });
        }
        self.advance(ring);
    }

    fn starts(&mut self, coords: &[Coord]) -> Vec<Opd> {
        coords
            .iter()
            .map(|c| match c {
                Coord::Point(e) | Coord::Rows(e) | Coord::Cols(e) => self.coord(e),
            })
            .collect()
    }

    fn coord(&mut self, e: &Expr) -> Opd {
        let v = self.expr(e);
        // Coordinates of a copy are registers; a moved constant costs nothing.
        if matches!(v, Opd::Int(_)) {
            self.mov(Class::B32, v).into()
        } else {
            v
        }
    }

    /// Coordinates of one box, innermost first.
    fn box_coords(&mut self, coords: &[Coord], starts: &[Opd], rows: Option<Reg>, cols: u32) -> Vec<Opd> {
        let mut out = vec![];
        for (c, start) in coords.iter().zip(starts) {
            out.push(match (c, rows) {
                (Coord::Rows(_), Some(r)) => self.int(IntOp::Add, *start, r).into(),
                (Coord::Cols(_), _) if cols > 0 => self.int(IntOp::Add, *start, cols).into(),
                _ => *start,
            });
        }
        out.reverse();
        out
    }

    /// Address of a place.
    pub fn place(&mut self, place: Place) -> Reg {
        match place {
            Place::Fixed(offset) => self.int(IntOp::Add, self.at.smem, offset),
            Place::Slot(h) => {
                let ring = self.p.rings[self.p.handles[h.0 as usize].1.0 as usize].clone();
                let base = self.int(IntOp::Add, self.at.smem, ring.offset);
                match self.handles[h.0 as usize] {
                    Some(slot) => self.mad(slot, ring.slot_bytes, base),
                    None => base,
                }
            }
        }
    }

    pub fn group_barrier(&mut self) {
        let id = self.int(IntOp::Add, self.at.consumer, Barrier::Group.id());
        self.push(Kind::BarSync {
            id: id.into(),
            threads: 128,
        });
    }

    /// The lane that issued the stores waits until they have read; the warpgroup waits for it.
    pub fn staging_free(&mut self) {
        self.push(Kind::BulkWaitRead { pending: 0 });
        self.group_barrier();
    }

    /// Writes packed registers with the 128-byte swizzle: 16-byte chunk `c` of row `r` lies at `c ^ (r & 7)`.
    pub fn stage(&mut self, src: RegTileId, place: Place, tile: SmemTile) {
        let Layout::Packed { slabs, cols, .. } = self.p.tiles[src.0 as usize].layout else {
            return;
        };
        let (src, base) = (self.tile(src), self.place(place));
        // Lane l gives row l % 8 of matrix l / 8: rows 0-7 and 8-15, then the next 8 columns.
        let lane = self.at.lane;
        let low = self.int(IntOp::And, lane, 7u32);
        let half = self.int(IntOp::ShrU, lane, 3u32);
        let half = self.int(IntOp::And, half, 1u32);
        let row = self.mad(half, 8u32, low);
        let row = self.mad(self.at.warp, 16u32, row);
        let row = self.mad(self.at.consumer, slabs * 64, row);
        let at = self.mad(row, 128u32, base);
        let right = self.int(IntOp::ShrU, lane, 4u32);
        let chunks: Vec<Reg> = (0..4u32)
            .map(|q| {
                let chunk = self.int(IntOp::Add, right, 2 * q);
                let swizzled = self.int(IntOp::Xor, chunk, low);
                self.mad(swizzled, 16u32, at)
            })
            .collect();
        for slab in 0..slabs {
            for group in 0..cols / 16 {
                let first = slab * cols / 4 + 4 * group;
                let offset = group / 4 * tile.box_bytes() + slab * 64 * 128;
                let at = Addr {
                    base: chunks[(group % 4) as usize].into(),
                    offset: i64::from(offset),
                };
                self.push(Kind::StMatrix {
                    at,
                    regs: [
                        nth(src, first),
                        nth(src, first + 1),
                        nth(src, first + 2),
                        nth(src, first + 3),
                    ],
                });
            }
        }
    }

    /// One lane stores this warpgroup's rows, box by box.
    pub fn store_staged(&mut self, map: MapId, place: Place, tile: SmemTile, coords: &[Coord]) {
        self.push(Kind::FenceProxyAsync);
        self.group_barrier();
        let skip = self.label();
        let p = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Ne,
            dst: p,
            a: self.at.warp.into(),
            b: Opd::Int(0),
        });
        self.push_if(p, true, Kind::Bra(skip));
        let elected = self.reg(Class::Pred);
        self.push(Kind::Elect { dst: elected });
        self.push_if(elected, false, Kind::Bra(skip));
        let rows = self.int(IntOp::MulLo, self.at.consumer, self.p.rows_per_consumer);
        let base = self.place(place);
        let base = self.mad(rows, 128u32, base);
        let (map, starts) = (self.maps[map.0 as usize], self.starts(coords));
        for b in 0..tile.boxes() {
            let src = self.int(IntOp::Add, base, b * tile.box_bytes());
            let coords = self.box_coords(coords, &starts, Some(rows), 64 * b);
            self.push(Kind::TmaStore { map, coords, src });
        }
        self.push(Kind::BulkCommit);
        self.push(Kind::Label(skip));
    }

    /// Reads a slot into packed registers in the accumulator's places.
    pub fn read_shared(&mut self, dst: RegTileId, handle: HandleId, tile: SmemTile) {
        let Layout::Packed { slabs, cols, .. } = self.p.tiles[dst.0 as usize].layout else {
            return;
        };
        let (dst, base) = (self.tile(dst), self.place(Place::Slot(handle)));
        let at = self.mad(self.at.row, 128u32, base);
        let at = self.mad(self.at.col, 2u32, at);
        let low = self.int(IntOp::ShrU, self.at.lane, 2u32);
        let chunks: Vec<Reg> = (0..8u32)
            .map(|c| {
                let swizzled = self.int(IntOp::Xor, low, c);
                self.mad(swizzled, 16u32, at)
            })
            .collect();
        for slab in 0..slabs {
            for group in 0..cols / 8 {
                for half in 0..2 {
                    let offset = group / 8 * tile.box_bytes() + (slab * 64 + 8 * half) * 128;
                    let at = Addr {
                        base: chunks[(group % 8) as usize].into(),
                        offset: i64::from(offset),
                    };
                    self.push(Kind::LdShared32 {
                        dst: nth(dst, slab * cols / 4 + 2 * group + half),
                        at,
                    });
                }
            }
        }
    }

    /// What all accesses to a vector share.
    fn vector(&mut self, at: &GlobalAt) -> Vector {
        let tensor = self.p.tensors[self.p.pointers[at.pointer as usize].tensor as usize]
            .name
            .clone();
        let raw = self.reg(Class::B64);
        self.push(Kind::LdParam {
            dst: raw,
            param: format!("{tensor}_ptr"),
        });
        let mut base = self.reg(Class::B64);
        self.push(Kind::ToGlobal { dst: base, src: raw });
        let mut along = base;
        for (d, c) in at.coords.iter().enumerate() {
            let stride = self.reg(Class::B64);
            self.push(Kind::LdParam {
                dst: stride,
                param: format!("{tensor}_stride{d}"),
            });
            let stride = self.int64(IntOp::Shl, stride, 2u32);
            match c {
                Coord::Point(e) => {
                    let index = self.coord(e);
                    let Opd::Reg(index) = index else { continue };
                    let wide = self.reg(Class::B64);
                    self.push(Kind::Widen { dst: wide, src: index });
                    let offset = self.int64(IntOp::MulLo, wide, stride);
                    base = self.int64(IntOp::Add, base, offset);
                }
                Coord::Rows(_) | Coord::Cols(_) => along = stride,
            }
        }
        let points: Vec<Reg> = at.points.iter().map(|(index, size)| self.below(index, size)).collect();
        Vector {
            base,
            along,
            points: points.into_iter().reduce(|a, b| self.both(a, b)),
        }
    }

    /// Whether `0 <= index < size`.
    fn below(&mut self, index: &Expr, size: &Expr) -> Reg {
        let (a, b) = (self.coord(index), self.expr(size));
        let (dst, cmp) = (self.reg(Class::Pred), Cmp::Lt);
        self.push(Kind::SetpU { cmp, dst, a, b });
        dst
    }

    fn both(&mut self, a: Reg, b: Reg) -> Reg {
        let dst = self.reg(Class::Pred);
        self.push(Kind::PredAnd { dst, a, b });
        dst
    }

    fn span_start(&mut self, at: &GlobalAt) -> Opd {
        let found = at.coords.iter().find_map(|c| {
            if let Coord::Rows(e) | Coord::Cols(e) = c {
                Some(e.clone())
            } else {
                None
            }
        });
        self.expr(&found.unwrap_or(Expr::Const(0)))
    }

    /// Address of `start + own + extra`, and whether it lies inside the tensor.
    fn element(&mut self, at: &GlobalAt, vector: Vector, own: Reg, extra: u32) -> (Addr, Reg) {
        let start = self.span_start(at);
        let index = self.int(IntOp::Add, own, start);
        let index = self.int(IntOp::Add, index, extra);
        let bound = self.expr(&at.bound);
        let mut inside = self.reg(Class::Pred);
        self.push(Kind::SetpU {
            cmp: Cmp::Lt,
            dst: inside,
            a: index.into(),
            b: bound,
        });
        if let Some(points) = vector.points {
            inside = self.both(inside, points);
        }
        let wide = self.reg(Class::B64);
        self.push(Kind::Widen { dst: wide, src: index });
        let offset = self.int64(IntOp::MulLo, wide, vector.along);
        let address = self.int64(IntOp::Add, vector.base, offset);
        (
            Addr {
                base: address.into(),
                offset: 0,
            },
            inside,
        )
    }

    /// One lane of each quad writes its rows.
    pub fn write_global(&mut self, src: RegTileId, at: &GlobalAt) {
        let Layout::Row { slabs } = self.p.tiles[src.0 as usize].layout else {
            return;
        };
        let (src, vector) = (self.tile(src), self.vector(at));
        let skip = self.label();
        let p = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Ne,
            dst: p,
            a: self.at.col.into(),
            b: Opd::Int(0),
        });
        self.push_if(p, true, Kind::Bra(skip));
        for i in 0..2 * slabs {
            let row = self.at.row;
            let (addr, inside) = self.element(at, vector, row, i / 2 * 64 + i % 2 * 8);
            self.push_if(
                inside,
                true,
                Kind::StGlobalF32 {
                    at: addr,
                    src: nth(src, i).into(),
                },
            );
        }
        self.push(Kind::Label(skip));
    }

    /// Reads one f32 per row or column; zero outside.
    pub fn read_global(&mut self, dst: RegTileId, at: &GlobalAt) {
        let layout = self.p.tiles[dst.0 as usize].layout;
        let (dst, vector) = (self.tile(dst), self.vector(at));
        for i in 0..layout.registers() {
            let (own, extra) = match layout {
                Layout::Col { .. } => (self.at.col, i / 2 * 8 + i % 2),
                _ => (self.at.row, i / 2 * 64 + i % 2 * 8),
            };
            let (addr, inside) = self.element(at, vector, own, extra);
            self.push(Kind::Mov {
                dst: nth(dst, i),
                src: Opd::Float(0.0),
            });
            self.push_if(
                inside,
                true,
                Kind::LdGlobalF32 {
                    dst: nth(dst, i),
                    at: addr,
                },
            );
        }
    }
}

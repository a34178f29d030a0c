//! Issuing bulk copies (PTX ISA 9.7.9.25-27).

use std::ops::Range;

use super::map::{Swizzle, TENSOR_MAP_BYTES, decode};
use super::pending::{Action, Pending, Target, swizzled};
use crate::decode::op::{Addr, AtomOp, BulkKind, Space, Src};
use crate::decode::ty::Ty;
use crate::exec::access::{Need, Place, SharedAccess};
use crate::exec::machine::{Exec, Machine, Stop};
use crate::exec::warp::lanes;
use crate::fault::FindingKind;
use crate::hb::shadow::EventKind;
use crate::memory::RANK_SHIFT;

/// Alignment of a tensor box in shared memory.
const BOX_ALIGN: u64 = 128;
/// Alignment and granularity of plain bulk copies.
const BULK_ALIGN: u64 = 16;
/// CTAs that a multicast mask can name.
const MULTICAST_BITS: u32 = 16;

pub(super) fn refuse(what: String) -> Stop {
    Box::new(FindingKind::TensorCopy { what })
}

/// The thread that issues a copy.
#[derive(Clone, Copy)]
struct Issuer {
    w: usize,
    lane: usize,
}

impl Issuer {
    fn mask(self) -> u32 {
        1 << self.lane
    }
}

/// Shape of the shared side of a copy.
#[derive(Clone, Copy)]
struct Piece {
    bytes: u64,
    align: u64,
    swizzle: Swizzle,
}

impl Piece {
    fn plain(bytes: u64) -> Self {
        Self {
            bytes,
            align: BULK_ALIGN,
            swizzle: Swizzle::None,
        }
    }
}

impl Machine<'_> {
    /// Each executing lane issues one copy.
    pub fn bulk(&mut self, w: usize, kind: &BulkKind, exec: u32) -> Exec {
        for lane in lanes(exec) {
            let by = Issuer { w, lane };
            match kind {
                BulkKind::TensorLoad {
                    map,
                    coords,
                    dst,
                    mbar,
                    multicast,
                } => {
                    let (map, coords, piece) = self.tensor(by, map, coords)?;
                    let targets = self.targets(by, (dst, mbar), *multicast, piece)?;
                    self.push(by, Action::TensorLoad { map, coords, targets }, piece, None);
                }
                BulkKind::Load {
                    src,
                    dst,
                    bytes,
                    mbar,
                    multicast,
                } => {
                    let piece = self.plain_piece(by, *bytes)?;
                    let global = self.global_address(by, src, piece)?;
                    let targets = self.targets(by, (dst, mbar), *multicast, piece)?;
                    self.push(
                        by,
                        Action::Load {
                            global,
                            bytes: piece.bytes as usize,
                            targets,
                        },
                        piece,
                        None,
                    );
                }
                BulkKind::Peer { src, dst, bytes, mbar } => self.peer_copy(by, (src, dst, mbar), *bytes)?,
                BulkKind::TensorStore {
                    map,
                    coords,
                    src,
                    reduce,
                } => {
                    self.tensor_store(by, (map, coords), src, *reduce)?;
                }
                BulkKind::Store {
                    src,
                    dst,
                    bytes,
                    reduce,
                } => self.plain_store(by, (src, dst), *bytes, *reduce)?,
            }
        }
        self.progress += 1;
        Ok(())
    }

    fn peer_copy(&mut self, by: Issuer, (src, dst, mbar): (&Addr, &Addr, &Addr), bytes: Src) -> Exec {
        let piece = self.plain_piece(by, bytes)?;
        let from = self.source(by, src, piece)?;
        let target = self.target_at(by, (dst, mbar), piece)?;
        let barrier = &self.ctas[target.cta].mbarriers[target.mbarrier];
        let engine = (barrier.actor, barrier.epoch());
        self.read_async(by, from, piece, engine);
        self.push(
            by,
            Action::Peer {
                from,
                bytes: piece.bytes as usize,
                target,
            },
            piece,
            None,
        );
        Ok(())
    }

    fn tensor_store(&mut self, by: Issuer, map: (&Addr, &[Src]), src: &Addr, reduce: Option<AtomOp>) -> Exec {
        let (map, coords, piece) = self.tensor(by, map.0, map.1)?;
        if let Some(below) = coords.iter().find(|c| **c < 0) {
            return Err(refuse(format!(
                "a tensor store begins at {below}: boxes are clipped at the end of a tensor, and a store below zero is an illegal instruction"
            )));
        }
        let (cta, at) = self.source(by, src, piece)?;
        self.fits(cta, at, piece)?;
        let (actor, group) = self.open_group(by.w, by.lane as u32);
        self.read_async(by, (cta, at), piece, (actor, group + 1));
        self.push(
            by,
            Action::TensorStore {
                map,
                coords,
                cta,
                at,
                reduce,
            },
            piece,
            Some(group),
        );
        Ok(())
    }

    fn plain_store(
        &mut self,
        by: Issuer,
        (src, dst): (&Addr, &Addr),
        bytes: Src,
        reduce: Option<(AtomOp, Ty)>,
    ) -> Exec {
        let piece = self.plain_piece(by, bytes)?;
        let global = self.global_address(by, dst, piece)?;
        let (cta, at) = self.source(by, src, piece)?;
        let (actor, group) = self.open_group(by.w, by.lane as u32);
        self.read_async(by, (cta, at), piece, (actor, group + 1));
        let bytes = piece.bytes as usize;
        self.push(
            by,
            Action::Store {
                global,
                cta,
                at,
                bytes,
                reduce,
            },
            piece,
            Some(group),
        );
        Ok(())
    }

    fn push(&mut self, by: Issuer, action: Action, piece: Piece, group: Option<u32>) {
        self.counts.bulk_copies += 1;
        self.counts.bulk_bytes += piece.bytes;
        let cta = self.warps[by.w].cta;
        let group = group.map(|group| (by.lane as u32, group));
        self.pending.push(Pending {
            action,
            now: self.now,
            cta,
            group,
        });
    }

    /// The map at an address, the coordinates, and the shape of the box.
    fn tensor(&mut self, by: Issuer, map: &Addr, coords: &[Src]) -> Exec<(usize, Vec<i64>, Piece)> {
        let address = self.address(by.w, map, by.mask());
        let need = Need {
            what: "tensor map",
            bytes: TENSOR_MAP_BYTES as u64,
            align: 64,
        };
        let bytes = match self.place(by.w, Space::Generic, address, need)? {
            Place::Param(at) => self.params[at..at + TENSOR_MAP_BYTES].to_vec(),
            Place::Global(address) => {
                self.read_global(address, TENSOR_MAP_BYTES, "a tensor copy reads its map from")?
            }
            Place::Shared(..) => return Err(refuse("the tensor map lies in shared memory".to_owned())),
        };
        let found = decode(&bytes).filter(|index| *index < self.maps.len());
        let Some(index) = found else {
            return Err(refuse(format!(
                "the 128 bytes at {address:#x} are no tensor map of this device"
            )));
        };
        let map = &self.maps[index];
        let rank = map.spec.dims.len();
        if rank != coords.len() {
            let what = format!(
                "the map has {rank} dimensions, the instruction gives {} coordinates",
                coords.len()
            );
            return Err(refuse(what));
        }
        let piece = Piece {
            bytes: map.box_bytes(),
            align: BOX_ALIGN,
            swizzle: map.spec.swizzle,
        };
        let warp = &mut self.warps[by.w];
        let coords = coords
            .iter()
            .map(|c| i64::from(warp.get(*c, by.mask())[by.lane] as i32))
            .collect();
        Ok((index, coords, piece))
    }

    fn plain_piece(&mut self, by: Issuer, bytes: Src) -> Exec<Piece> {
        let bytes = u64::from(self.warps[by.w].get(bytes, by.mask())[by.lane]);
        if bytes == 0 || !bytes.is_multiple_of(BULK_ALIGN) {
            return Err(refuse(format!("{bytes} bytes; a positive multiple of 16 is required")));
        }
        Ok(Piece::plain(bytes))
    }

    fn global_address(&mut self, by: Issuer, addr: &Addr, piece: Piece) -> Exec<u64> {
        let address = self.address(by.w, addr, by.mask());
        let need = Need {
            what: "bulk copy",
            bytes: piece.bytes,
            align: BULK_ALIGN,
        };
        self.place(by.w, Space::Global, address, need)?;
        Ok(address)
    }

    fn source(&mut self, by: Issuer, addr: &Addr, piece: Piece) -> Exec<(usize, usize)> {
        let address = self.address(by.w, addr, by.mask());
        let need = Need {
            what: "bulk copy source",
            bytes: piece.bytes,
            align: piece.align,
        };
        match self.place(by.w, Space::SharedCta, address, need)? {
            Place::Shared(cta, at) => Ok((cta, at)),
            _ => Err(refuse("the source is not in shared memory".to_owned())),
        }
    }

    /// A swizzled box may use the whole of its last 128-byte line.
    fn fits(&self, cta: usize, at: usize, piece: Piece) -> Exec {
        let end = (at + piece.bytes as usize).next_multiple_of(BOX_ALIGN as usize);
        if piece.swizzle != Swizzle::None && end > self.ctas[cta].smem.len() {
            return Err(refuse(
                "the swizzled box ends in a 128-byte line that shared memory does not hold".to_owned(),
            ));
        }
        Ok(())
    }

    /// Destinations: one, or the same offsets in every CTA of a multicast mask.
    fn targets(
        &mut self,
        by: Issuer,
        addrs: (&Addr, &Addr),
        multicast: Option<Src>,
        piece: Piece,
    ) -> Exec<Vec<Target>> {
        let Some(mask) = multicast else {
            return Ok(vec![self.target_at(by, addrs, piece)?]);
        };
        let mask = self.warps[by.w].get(mask, by.mask())[by.lane];
        let (dst, mbar) = (
            self.address(by.w, addrs.0, by.mask()),
            self.address(by.w, addrs.1, by.mask()),
        );
        let ranks: Vec<u32> = (0..MULTICAST_BITS).filter(|rank| mask >> rank & 1 != 0).collect();
        if ranks.is_empty() {
            return Err(refuse("the multicast mask is empty".to_owned()));
        }
        let within = |address: u64, rank: u32| address & ((1 << RANK_SHIFT) - 1) | u64::from(rank) << RANK_SHIFT;
        ranks
            .iter()
            .map(|rank| self.target(by, (within(dst, *rank), within(mbar, *rank)), piece))
            .collect()
    }

    fn target_at(&mut self, by: Issuer, (dst, mbar): (&Addr, &Addr), piece: Piece) -> Exec<Target> {
        let addresses = (self.address(by.w, dst, by.mask()), self.address(by.w, mbar, by.mask()));
        self.target(by, addresses, piece)
    }

    fn target(&mut self, by: Issuer, addresses: (u64, u64), piece: Piece) -> Exec<Target> {
        let need = Need {
            what: "bulk copy destination",
            bytes: piece.bytes,
            align: piece.align,
        };
        let Place::Shared(cta, at) = self.place(by.w, Space::SharedCluster, addresses.0, need)? else {
            return Err(refuse("the destination is not in shared memory".to_owned()));
        };
        self.fits(cta, at, piece)?;
        let (mbar_cta, index) = self.mbar(by.w, Space::SharedCluster, addresses.1, "the completion of a bulk copy")?;
        if mbar_cta != cta {
            return Err(refuse("destination and mbarrier lie in different CTAs".to_owned()));
        }
        self.mbar_check_init(by.w, (cta, index), true);
        let barrier = &mut self.ctas[cta].mbarriers[index];
        barrier.in_flight += 1;
        let (phase, engine) = (barrier.phase, (barrier.actor, barrier.epoch()));
        let access = SharedAccess {
            kind: EventKind::AsyncLoad,
            write: true,
            partial: false,
            engine: Some(engine),
        };
        self.touch(by.w, cta, &covered(at, piece), access);
        Ok(Target {
            cta,
            at,
            mbarrier: index,
            phase,
        })
    }

    fn read_async(&mut self, by: Issuer, from: (usize, usize), piece: Piece, engine: (u32, u32)) {
        let access = SharedAccess {
            kind: EventKind::BulkStore,
            write: false,
            partial: false,
            engine: Some(engine),
        };
        self.touch(by.w, from.0, &covered(from.1, piece), access);
    }
}

/// Byte ranges of a box: whole, or chunk by chunk where a swizzle leaves holes in its last line.
fn covered(at: usize, piece: Piece) -> Vec<Range<usize>> {
    let (line, bytes) = (BOX_ALIGN as usize, piece.bytes as usize);
    if piece.swizzle == Swizzle::None || (at.is_multiple_of(line) && bytes.is_multiple_of(line)) {
        return std::iter::once(at..at + bytes).collect();
    }
    (0..bytes.div_ceil(16))
        .map(|chunk| swizzled(piece.swizzle, at + chunk * 16))
        .map(|s| s..s + 16)
        .collect()
}

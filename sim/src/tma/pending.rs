//! Copies in flight: they land at a later step that the seed chooses.

use super::boxes::rows;
use super::map::Swizzle;
use crate::decode::SHARED_START;
use crate::decode::op::AtomOp;
use crate::decode::ty::Ty;
use crate::exec::atomic::{combine, load_le};
use crate::exec::machine::{Exec, Machine, Now};
use crate::fault::FindingKind;

/// A destination of a copy into shared memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub cta: usize,
    /// Offset in the CTA's shared bytes.
    pub at: usize,
    pub mbarrier: usize,
    /// Phase of the barrier that was open at issue.
    pub phase: u64,
}

/// What lands.
#[derive(Clone, Debug)]
pub(crate) enum Action {
    TensorLoad {
        map: usize,
        coords: Vec<i64>,
        targets: Vec<Target>,
    },
    TensorStore {
        map: usize,
        coords: Vec<i64>,
        cta: usize,
        at: usize,
        reduce: Option<AtomOp>,
    },
    Load {
        global: u64,
        bytes: usize,
        targets: Vec<Target>,
    },
    Store {
        global: u64,
        cta: usize,
        at: usize,
        bytes: usize,
        reduce: Option<(AtomOp, Ty)>,
    },
    Peer {
        from: (usize, usize),
        bytes: usize,
        target: Target,
    },
    /// Non-bulk copies of one instruction: (global, shared offset, bytes read).
    CpAsync {
        cta: usize,
        bytes: usize,
        copies: Vec<(u64, usize, usize)>,
    },
}

/// A copy in flight and who waits for it how.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub action: Action,
    /// Issuing warp and place.
    pub now: Now,
    pub cta: usize,
    /// Lane and group number, for copies that complete by group.
    pub group: Option<(u32, u32)>,
}

impl Action {
    /// CTAs whose shared memory is written later.
    pub fn writes(&self) -> Vec<usize> {
        match self {
            Self::TensorLoad { targets, .. } | Self::Load { targets, .. } => targets.iter().map(|t| t.cta).collect(),
            Self::Peer { target, .. } => vec![target.cta],
            Self::CpAsync { cta, .. } => vec![*cta],
            Self::TensorStore { .. } | Self::Store { .. } => Vec::new(),
        }
    }

    /// The CTA whose shared memory is read later.
    pub fn reads(&self) -> Option<usize> {
        match self {
            Self::TensorStore { cta, .. } | Self::Store { cta, .. } => Some(*cta),
            Self::Peer { from, .. } => Some(from.0),
            _ => None,
        }
    }
}

impl Machine<'_> {
    /// Lands the copy at `index` of the pending list.
    pub fn land(&mut self, index: usize) -> Exec {
        let pending = self.pending.swap_remove(index);
        let before = std::mem::replace(&mut self.now, pending.now);
        self.progress += 1;
        // On an error the issuing instruction stays the current one: it is to blame.
        self.perform(pending.action)?;
        self.now = before;
        Ok(())
    }

    fn perform(&mut self, action: Action) -> Exec {
        if self.time.is_some() {
            self.arrive_only(&action);
            return Ok(());
        }
        match action {
            Action::TensorLoad { map, coords, targets } => self.land_tensor_load(map, &coords, &targets),
            Action::TensorStore {
                map,
                coords,
                cta,
                at,
                reduce,
            } => self.land_tensor_store(map, &coords, (cta, at), reduce),
            Action::Load { global, bytes, targets } => {
                let data = self.read_global(global, bytes, "cp.async.bulk reads")?;
                for target in targets {
                    self.ctas[target.cta].smem[target.at..target.at + bytes].copy_from_slice(&data);
                    self.mbar_complete_tx((target.cta, target.mbarrier), bytes as u64, target.phase);
                }
                Ok(())
            }
            Action::Store {
                global,
                cta,
                at,
                bytes,
                reduce,
            } => {
                let data = self.ctas[cta].smem[at..at + bytes].to_vec();
                self.land_row(global, &data, reduce)
            }
            Action::Peer { from, bytes, target } => {
                let data = self.ctas[from.0].smem[from.1..from.1 + bytes].to_vec();
                self.ctas[target.cta].smem[target.at..target.at + bytes].copy_from_slice(&data);
                self.mbar_complete_tx((target.cta, target.mbarrier), bytes as u64, target.phase);
                Ok(())
            }
            Action::CpAsync { cta, bytes, copies } => {
                for (global, at, read) in copies {
                    let mut data = vec![0; bytes];
                    if read > 0 {
                        data[..read].copy_from_slice(&self.read_global(global, read, "cp.async reads")?);
                    }
                    self.ctas[cta].smem[at..at + bytes].copy_from_slice(&data);
                }
                Ok(())
            }
        }
    }

    /// A timed run moves no bytes; barriers count them all the same.
    fn arrive_only(&mut self, action: &Action) {
        let (targets, bytes) = match action {
            Action::TensorLoad { map, targets, .. } => (targets.as_slice(), self.maps[*map].box_bytes()),
            Action::Load { bytes, targets, .. } => (targets.as_slice(), *bytes as u64),
            Action::Peer { bytes, target, .. } => (std::slice::from_ref(target), *bytes as u64),
            Action::TensorStore { .. } | Action::Store { .. } | Action::CpAsync { .. } => return,
        };
        for target in targets {
            self.mbar_complete_tx((target.cta, target.mbarrier), bytes, target.phase);
        }
    }

    fn land_tensor_load(&mut self, map: usize, coords: &[i64], targets: &[Target]) -> Exec {
        let map = &self.maps[map];
        let bytes = map.box_bytes();
        let swizzle = map.spec.swizzle;
        let mut missing = None;
        for row in rows(map, coords) {
            let mut data = vec![0u8; row.bytes];
            if row.inside_bytes > 0 {
                let (found, hole) = self.global.read(row.global, row.inside_bytes).map_err(|u| {
                    let what = "a tensor load from global memory".to_owned();
                    let (address, bytes) = (row.global, row.inside_bytes as u64);
                    Box::new(FindingKind::OutOfBounds {
                        what,
                        address,
                        bytes,
                        near: u.near,
                    })
                })?;
                missing = missing.or(hole);
                data[row.skip..row.skip + row.inside_bytes].copy_from_slice(found);
            }
            for target in targets {
                let smem = &mut self.ctas[target.cta].smem;
                for (chunk, bytes) in data.chunks(16).enumerate() {
                    let at = swizzled(swizzle, target.at + row.shared + chunk * 16);
                    smem[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
        }
        if let Some(address) = missing {
            self.find(FindingKind::UninitGlobal {
                who: "a tensor load".to_owned(),
                address,
            });
        }
        for target in targets {
            self.mbar_complete_tx((target.cta, target.mbarrier), bytes, target.phase);
        }
        Ok(())
    }

    fn land_tensor_store(&mut self, map: usize, coords: &[i64], from: (usize, usize), reduce: Option<AtomOp>) -> Exec {
        let map = &self.maps[map];
        let ty = match map.spec.elem {
            super::map::ElemType::F32 => Ty::F32,
            super::map::ElemType::F16 => Ty::F16,
            super::map::ElemType::Bf16 => Ty::Bf16,
            super::map::ElemType::S32 => Ty::S32,
            super::map::ElemType::U64 => Ty::U64,
            super::map::ElemType::U8 => Ty::U8,
            super::map::ElemType::U16 => Ty::U16,
            super::map::ElemType::U32 => Ty::U32,
        };
        let swizzle = map.spec.swizzle;
        for row in rows(map, coords) {
            let mut data = vec![0u8; row.bytes];
            for (chunk, bytes) in data.chunks_mut(16).enumerate() {
                let at = swizzled(swizzle, from.1 + row.shared + chunk * 16);
                bytes.copy_from_slice(&self.ctas[from.0].smem[at..at + bytes.len()]);
            }
            if row.inside_bytes > 0 {
                let inside = data[row.skip..row.skip + row.inside_bytes].to_vec();
                self.land_row(row.global, &inside, reduce.map(|op| (op, ty)))?;
            }
        }
        Ok(())
    }

    fn land_row(&mut self, address: u64, data: &[u8], reduce: Option<(AtomOp, Ty)>) -> Exec {
        let who = "a bulk store to";
        let Some((op, ty)) = reduce else {
            return self.store_global(address, data, who);
        };
        let mut old = self.read_global(address, data.len(), "a bulk reduction on")?;
        let elem = ty.bytes() as usize;
        for (old, new) in old.chunks_mut(elem).zip(data.chunks(elem)) {
            let value = combine(op, ty, load_le(old), load_le(new), 0);
            old.copy_from_slice(&value.to_le_bytes()[..old.len()]);
        }
        self.write_global(address, &old, who)
    }
}

/// The swizzle works on addresses of the shared window, not on offsets.
pub(crate) fn swizzled(swizzle: Swizzle, at: usize) -> usize {
    swizzle.apply(at + SHARED_START as usize) - SHARED_START as usize
}

//! From addresses to places, and the happens-before record of shared accesses.

use super::machine::{Exec, Machine};
use super::warp::{Lanes64, lanes};
use crate::decode::SHARED_START;
use crate::decode::op::{Addr, AddrBase, Space};
use crate::fault::FindingKind;
use crate::hb::shadow::{CELL_BYTES, Event, EventKind, Problem, Touch};
use crate::memory::{RANK_SHIFT, classify};

/// Where an address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Index of the CTA, offset into its shared bytes.
    Shared(usize, usize),
    Global(u64),
    Param(usize),
}

/// An access of the current warp to shared cells.
#[derive(Clone, Copy)]
pub(crate) struct SharedAccess {
    pub kind: EventKind,
    pub write: bool,
    pub partial: bool,
    /// Actor and epoch, when they are not those of the warp.
    pub engine: Option<(u32, u32)>,
}

impl Machine<'_> {
    /// Address of each lane; the base register is checked for `exec`.
    pub fn addresses(&mut self, w: usize, addr: &Addr, exec: u32) -> Lanes64 {
        let warp = &mut self.warps[w];
        match addr.base {
            AddrBase::None => [addr.offset as u64; 32],
            AddrBase::Shared => [u64::from(warp.shared_address(addr.offset as u32)); 32],
            AddrBase::Reg64(slot) => warp.reg64(slot, exec).map(|v| v.wrapping_add(addr.offset as u64)),
            AddrBase::Reg32(slot) => {
                warp.check_read(slot, exec);
                warp.regs[slot as usize].map(|v| u64::from(v.wrapping_add(addr.offset as u32)))
            }
        }
    }

    /// The address of the first executing lane.
    pub fn address(&mut self, w: usize, addr: &Addr, exec: u32) -> u64 {
        let all = self.addresses(w, addr, exec);
        all[first_lane(exec)]
    }

    /// Finds the place of `bytes` bytes at `address`, and refuses what is misaligned or outside.
    pub fn place(&self, w: usize, space: Space, address: u64, need: Need) -> Exec<Place> {
        let (space, address) = match space {
            Space::Generic => classify(address),
            other => (other, address),
        };
        if !address.is_multiple_of(need.align) {
            let what = format!("{} in {}", need.what, name(space));
            return Err(Box::new(FindingKind::Misaligned {
                what,
                address,
                align: need.align,
            }));
        }
        match space {
            Space::Global | Space::Generic => Ok(Place::Global(address)),
            Space::Param => {
                let end = address
                    .checked_add(need.bytes)
                    .filter(|end| *end <= self.params.len() as u64);
                let near = || format!("the parameters take {} bytes", self.params.len());
                end.map(|_| Place::Param(address as usize))
                    .ok_or_else(|| outside(space, address, need, near()))
            }
            Space::SharedCta | Space::SharedCluster => self.shared_place(w, space, address, need),
        }
    }

    fn shared_place(&self, w: usize, space: Space, address: u64, need: Need) -> Exec<Place> {
        let own = self.warps[w].env.rank;
        let rank = (address >> RANK_SHIFT) as u32;
        if space == Space::SharedCta && rank != own {
            let near = format!("this CTA has rank {own}, the address belongs to rank {rank}; use .shared::cluster");
            return Err(outside(space, address, need, near));
        }
        let Some(cta) = self.peer(w, rank) else {
            let near = format!("the cluster has {} CTAs", self.clusters[self.cta_of(w).cluster].n_ctas);
            return Err(outside(space, address, need, near));
        };
        let len = self.ctas[cta].smem.len() as u64;
        let offset = address & ((1 << RANK_SHIFT) - 1);
        let start = u64::from(SHARED_START);
        if offset < start || offset - start + need.bytes > len {
            let near = format!("shared memory spans {start:#x}..{:#x}, {len} bytes", start + len);
            return Err(outside(space, address, need, near));
        }
        Ok(Place::Shared(cta, (offset - start) as usize))
    }

    /// Records an access of warp `w` to byte ranges of one CTA's shared memory.
    pub fn touch(&mut self, w: usize, cta: usize, ranges: &[std::ops::Range<usize>], access: SharedAccess) {
        if self.time.is_some() {
            return;
        }
        let cell = CELL_BYTES as usize;
        let cells = ranges.iter().flat_map(|r| r.start / cell..r.end.div_ceil(cell));
        let mut problems = Vec::new();
        let Self {
            warps,
            ctas,
            clusters,
            now,
            ..
        } = self;
        let warp = &warps[w];
        let (actor, epoch) = access.engine.unwrap_or((warp.actor, warp.epoch()));
        let event = Event {
            actor,
            epoch,
            line: now.line,
            kind: access.kind,
            partial: access.partial,
        };
        let states = &mut clusters[ctas[cta].cluster].hb.states;
        let touch = Touch {
            event,
            write: access.write,
            clocks: &[&warp.clocks],
            events: &[event],
        };
        states.touch(&mut ctas[cta].shadow, cells, &touch, &mut problems);
        for (at, problem) in problems {
            let kind = self.problem((cta, at), problem, &event, access.write);
            self.find(kind);
        }
        self.collect(cta);
    }

    fn cell_address(&self, cta: usize, cell: usize) -> u32 {
        (SHARED_START + cell as u32 * CELL_BYTES) | self.ctas[cta].rank << RANK_SHIFT
    }

    /// Bounds the memory of shadow states.
    pub fn collect(&mut self, cta: usize) {
        let cluster = self.ctas[cta].cluster;
        if !self.clusters[cluster].hb.states.is_full() {
            return;
        }
        let (first, count) = (self.clusters[cluster].first_cta, self.clusters[cluster].n_ctas);
        let mut shadows: Vec<&mut [u32]> = self.ctas[first..first + count]
            .iter_mut()
            .map(|c| c.shadow.as_mut_slice())
            .collect();
        self.clusters[cluster].hb.states.collect(&mut shadows);
    }

    /// The finding that a shadow problem amounts to.
    pub fn problem(&self, (cta, cell): (usize, usize), problem: Problem, event: &Event, write: bool) -> FindingKind {
        let address = self.cell_address(cta, cell);
        let hb = &self.clusters[self.ctas[cta].cluster].hb;
        let mine = hb.describe(event);
        match problem {
            Problem::Uninit => FindingKind::UninitShared { who: mine.who, address },
            Problem::MbarrierBytes => FindingKind::MbarrierBytes { who: mine.who, address },
            Problem::Unfenced(old) => FindingKind::MissingProxyFence {
                address,
                writer: hb.describe(&old),
                reader: mine,
            },
            Problem::Unordered(old) => {
                let theirs = hb.describe(&old);
                match old.kind {
                    EventKind::AsyncLoad | EventKind::CpAsync if !write => FindingKind::ReadBeforeArrival {
                        address,
                        writer: theirs,
                        reader: mine,
                    },
                    EventKind::BulkStore => FindingKind::StagingReuse {
                        address,
                        reader: theirs,
                        writer: mine,
                    },
                    EventKind::Wgmma => FindingKind::OverwriteInUse {
                        address,
                        reader: theirs,
                        writer: mine,
                    },
                    EventKind::Load if event.kind == EventKind::AsyncLoad => FindingKind::OverwriteInUse {
                        address,
                        reader: theirs,
                        writer: mine,
                    },
                    _ => FindingKind::Race {
                        address,
                        earlier: theirs,
                        later: mine,
                    },
                }
            }
        }
    }

    /// Bytes of global memory; bytes without a value are a finding.
    pub fn read_global(&mut self, address: u64, bytes: usize, who: &str) -> Exec<Vec<u8>> {
        match self.global.read(address, bytes) {
            Ok((data, missing)) => {
                let data = data.to_vec();
                if let Some(address) = missing {
                    self.find(FindingKind::UninitGlobal {
                        who: who.to_owned(),
                        address,
                    });
                }
                Ok(data)
            }
            Err(unmapped) => Err(unmapped_stop(who, address, bytes, unmapped.near)),
        }
    }

    /// A plain store; a byte of an output that this launch has stored before is a finding.
    pub fn store_global(&mut self, address: u64, data: &[u8], who: &str) -> Exec {
        let stored = self.global.store(address, data);
        let twice = stored.map_err(|u| unmapped_stop(who, address, data.len(), u.near))?;
        if let Some(address) = twice {
            let who = who.to_owned();
            self.find(FindingKind::StoredTwice { who, address });
        }
        Ok(())
    }

    /// The write of an atomic or a reduction.
    pub fn write_global(&mut self, address: u64, data: &[u8], who: &str) -> Exec {
        self.global
            .write(address, data)
            .map_err(|u| unmapped_stop(who, address, data.len(), u.near))
    }
}

fn unmapped_stop(who: &str, address: u64, bytes: usize, near: String) -> Box<FindingKind> {
    Box::new(FindingKind::OutOfBounds {
        what: format!("{who} global memory"),
        address,
        bytes: bytes as u64,
        near,
    })
}

/// Size and alignment that an access needs, and its name.
#[derive(Clone, Copy)]
pub(crate) struct Need {
    pub what: &'static str,
    pub bytes: u64,
    pub align: u64,
}

fn outside(space: Space, address: u64, need: Need, near: String) -> Box<FindingKind> {
    let what = format!("{} in {}", need.what, name(space));
    Box::new(FindingKind::OutOfBounds {
        what,
        address,
        bytes: need.bytes,
        near,
    })
}

fn name(space: Space) -> &'static str {
    match space {
        Space::Generic => "generic memory",
        Space::Global => "global memory",
        Space::SharedCta => "shared memory",
        Space::SharedCluster => "cluster shared memory",
        Space::Param => "parameter memory",
    }
}

/// The lowest lane of a mask; 0 for none.
pub(crate) fn first_lane(exec: u32) -> usize {
    lanes(exec).next().unwrap_or(0)
}

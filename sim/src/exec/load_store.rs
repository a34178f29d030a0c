//! `ld` and `st` (PTX ISA 9.7.9.8-12).

use super::access::{Need, Place, SharedAccess};
use super::machine::{Exec, Machine};
use super::warp::{Lanes64, lanes};
use crate::decode::op::{Dst, Mem, Space};
use crate::hb::shadow::EventKind;

impl Machine<'_> {
    pub fn load(&mut self, w: usize, mem: &Mem, exec: u32) -> Exec {
        let elem = mem.ty.bytes() as usize;
        let total = elem * mem.regs.len();
        let addresses = self.addresses(w, &mem.addr, exec);
        let need = Need {
            what: "load",
            bytes: total as u64,
            align: total as u64,
        };
        let mut values = vec![[0u64; 32]; mem.regs.len()];
        let mut touched = Touched::default();
        for lane in lanes(exec) {
            let place = self.place(w, mem.space, addresses[lane], need)?;
            let mut bytes = [0u8; 32];
            match place {
                Place::Shared(cta, at) => {
                    bytes[..total].copy_from_slice(&self.ctas[cta].smem[at..at + total]);
                    touched.add(cta, at, total);
                }
                Place::Param(at) => bytes[..total].copy_from_slice(&self.params[at..at + total]),
                Place::Global(address) => {
                    let data = self.read_global(address, total, "a load from")?;
                    bytes[..total].copy_from_slice(&data);
                }
            }
            for (index, value) in values.iter_mut().enumerate() {
                value[lane] = element(&bytes[index * elem..(index + 1) * elem]);
            }
        }
        if mem.acquire {
            self.acquire(w, mem.space, addresses[super::access::first_lane(exec)]);
        }
        let access = SharedAccess {
            kind: EventKind::Load,
            write: false,
            partial: total < 4,
            engine: None,
        };
        touched.record(self, w, access);
        let warp = &mut self.warps[w];
        for (value, reg) in values.iter().zip(&mem.regs) {
            if let Some(reg) = reg {
                warp.put_dst(*reg, exec, &extend(value, elem as u32 * 8, mem.ty.signed(), *reg));
            }
        }
        Ok(())
    }

    pub fn store(&mut self, w: usize, mem: &Mem, exec: u32) -> Exec {
        let elem = mem.ty.bytes() as usize;
        let total = elem * mem.srcs.len();
        let addresses = self.addresses(w, &mem.addr, exec);
        let need = Need {
            what: "store",
            bytes: total as u64,
            align: total as u64,
        };
        let warp = &mut self.warps[w];
        let values: Vec<Lanes64> = mem
            .srcs
            .iter()
            .map(|src| warp.get_bits(*src, mem.ty.bits().max(8), exec))
            .collect();
        let mut touched = Touched::default();
        for lane in lanes(exec) {
            let place = self.place(w, mem.space, addresses[lane], need)?;
            let mut bytes = [0u8; 32];
            for (index, value) in values.iter().enumerate() {
                bytes[index * elem..(index + 1) * elem].copy_from_slice(&value[lane].to_le_bytes()[..elem]);
            }
            match place {
                Place::Shared(cta, at) => {
                    self.ctas[cta].smem[at..at + total].copy_from_slice(&bytes[..total]);
                    touched.add(cta, at, total);
                }
                Place::Global(address) => self.store_global(address, &bytes[..total], "a store to")?,
                Place::Param(_) => {
                    let what = "a store to parameter memory: parameters are read only".to_owned();
                    return Err(Box::new(crate::fault::FindingKind::Illegal { what }));
                }
            }
        }
        self.progress += 1;
        if !touched.is_empty() {
            self.warps[w].unfenced_lanes |= exec;
        }
        let access = SharedAccess {
            kind: EventKind::Store,
            write: true,
            partial: total < 4,
            engine: None,
        };
        touched.record(self, w, access);
        if mem.release {
            self.release(w, mem.space, addresses[super::access::first_lane(exec)]);
        }
        Ok(())
    }

    /// An acquire at an address: what was released there is seen now.
    pub fn acquire(&mut self, w: usize, space: Space, address: u64) {
        let cluster = self.cta_of(w).cluster;
        if let Some(clocks) = self.clusters[cluster].released.get(&key(space, address)) {
            self.warps[w].clocks.join(clocks);
        }
    }

    /// A release at an address.
    pub fn release(&mut self, w: usize, space: Space, address: u64) {
        let cluster = self.cta_of(w).cluster;
        let slot = self.clusters[cluster].released.entry(key(space, address)).or_default();
        slot.join(&self.warps[w].clocks);
        self.warps[w].tick();
    }
}

fn key(space: Space, address: u64) -> (u8, u64) {
    let shared = matches!(space, Space::SharedCta | Space::SharedCluster);
    (u8::from(shared), address)
}

fn element(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |out, byte| out << 8 | u64::from(*byte))
}

/// Extends to the width of the register, with the sign for signed types.
fn extend(value: &Lanes64, bits: u32, signed: bool, reg: Dst) -> Lanes64 {
    if !signed || bits >= reg.bits {
        return *value;
    }
    value.map(|v| ((v << (64 - bits)) as i64 >> (64 - bits)) as u64)
}

/// Shared byte ranges of one instruction, by CTA.
#[derive(Default)]
pub(crate) struct Touched {
    ranges: Vec<(usize, Vec<std::ops::Range<usize>>)>,
}

impl Touched {
    pub fn add(&mut self, cta: usize, at: usize, bytes: usize) {
        match self.ranges.iter_mut().find(|(c, _)| *c == cta) {
            Some((_, ranges)) => match ranges.last_mut() {
                Some(last) if last.end == at => last.end = at + bytes,
                _ => ranges.push(at..at + bytes),
            },
            None => self.ranges.push((cta, std::iter::once(at..at + bytes).collect())),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    pub fn record(&self, machine: &mut Machine, w: usize, access: SharedAccess) {
        for (cta, ranges) in &self.ranges {
            machine.touch(w, *cta, ranges, access);
        }
    }
}

//! Global memory: separate allocations, so that any access outside of them is seen.

use std::sync::atomic::{AtomicBool, Ordering};

use super::bits::ByteSet;

/// Address of the first allocation.
const FIRST_ADDRESS: u64 = 0x2_0000_0000;
/// Unmapped bytes between two allocations.
const GUARD_BYTES: u64 = 1 << 16;
/// Alignment of allocations, as of cuMemAlloc.
const ALIGN_BYTES: u64 = 256;

#[derive(Clone, Debug)]
struct Allocation {
    start: u64,
    bytes: Vec<u8>,
    /// Bytes with a value.
    init: ByteSet,
    /// Bytes that a kernel has written since the host last did.
    by_kernel: ByteSet,
    /// Of an output: bytes that this launch has stored.
    stored: Option<ByteSet>,
    read: Flag,
}

/// Whether something happened; set through shared references.
#[derive(Debug, Default)]
struct Flag(AtomicBool);

impl Clone for Flag {
    fn clone(&self) -> Self {
        Self(AtomicBool::new(self.0.load(Ordering::Relaxed)))
    }
}

/// An access that no allocation holds.
#[derive(Clone, Debug)]
pub(crate) struct Unmapped {
    pub near: String,
}

/// All allocations, by address.
#[derive(Clone, Debug, Default)]
pub(crate) struct GlobalMemory {
    allocations: Vec<Allocation>,
}

impl GlobalMemory {
    /// A new allocation; its bytes have no value yet and read as a quiet NaN pattern.
    pub fn alloc(&mut self, bytes: usize) -> u64 {
        let end = self
            .allocations
            .last()
            .map_or(FIRST_ADDRESS, |a| a.start + a.bytes.len() as u64 + GUARD_BYTES);
        let start = end.next_multiple_of(ALIGN_BYTES);
        self.allocations.push(Allocation {
            start,
            bytes: vec![0xff; bytes],
            init: ByteSet::new(bytes),
            by_kernel: ByteSet::new(bytes),
            stored: None,
            read: Flag::default(),
        });
        start
    }

    fn find(&self, address: u64, bytes: usize) -> Result<(usize, usize), Unmapped> {
        let after = self.allocations.partition_point(|a| a.start <= address);
        let Some(index) = after.checked_sub(1) else {
            return Err(Unmapped {
                near: self.nearest(None),
            });
        };
        let allocation = &self.allocations[index];
        let offset = (address - allocation.start) as usize;
        if offset < allocation.bytes.len() && bytes <= allocation.bytes.len() - offset {
            Ok((index, offset))
        } else {
            Err(Unmapped {
                near: self.nearest(Some(index)),
            })
        }
    }

    fn nearest(&self, below: Option<usize>) -> String {
        let index = below.unwrap_or(0);
        match self.allocations.get(index) {
            Some(a) => format!(
                "the nearest allocation (number {index}) spans {:#x}..{:#x}, {} bytes",
                a.start,
                a.start + a.bytes.len() as u64,
                a.bytes.len()
            ),
            None => "nothing is allocated".to_owned(),
        }
    }

    /// Bytes at `address`, and the first of them without a value.
    pub fn read(&self, address: u64, bytes: usize) -> Result<(&[u8], Option<u64>), Unmapped> {
        let (index, offset) = self.find(address, bytes)?;
        let a = &self.allocations[index];
        a.read.0.store(true, Ordering::Relaxed);
        let missing = a
            .init
            .first_missing(offset, offset + bytes)
            .map(|at| a.start + at as u64);
        Ok((&a.bytes[offset..offset + bytes], missing))
    }

    /// Declares the allocation around `address` an output: a launch stores each byte of it at most once.
    pub fn declare_output(&mut self, address: u64) -> Result<(), Unmapped> {
        let (index, _) = self.find(address, 0)?;
        let a = &mut self.allocations[index];
        a.stored = Some(ByteSet::new(a.bytes.len()));
        Ok(())
    }

    /// Forgets what the last launch stored.
    pub fn begin_launch(&mut self) {
        let outputs = self.allocations.iter_mut().filter_map(|a| a.stored.as_mut());
        outputs.for_each(ByteSet::clear);
    }

    /// Bytes of all allocations.
    pub fn bytes(&self) -> usize {
        self.allocations.iter().map(|a| a.bytes.len()).sum()
    }

    /// A copy for a part of a launch: what it has read and written is counted from here on.
    pub fn fork(&self) -> Self {
        let mut out = self.clone();
        for a in &mut out.allocations {
            a.by_kernel.clear();
            a.read = Flag::default();
        }
        out
    }

    /// Takes over what the parts of a launch wrote into their copies. Gives false and changes nothing where a part may have
    /// seen or overwritten what another wrote: only a run of all of them together can tell.
    pub fn merge(&mut self, parts: &[&Self]) -> bool {
        let apart = |(index, a): (usize, &Allocation)| {
            let written: Vec<_> = parts
                .iter()
                .map(|p| p.allocations[index].by_kernel.ranges(a.bytes.len()))
                .collect();
            if written.iter().all(Vec::is_empty) {
                return true;
            }
            let read = parts
                .iter()
                .any(|p| p.allocations[index].read.0.load(Ordering::Relaxed));
            let mut seen = ByteSet::new(a.bytes.len());
            !read
                && written.iter().all(|ranges| {
                    let free = ranges.iter().all(|r| seen.first_present(r.start, r.end).is_none());
                    ranges.iter().for_each(|r| seen.insert(r.start, r.end));
                    free
                })
        };
        if !self.allocations.iter().enumerate().all(apart) {
            return false;
        }
        for part in parts {
            for (a, from) in self.allocations.iter_mut().zip(&part.allocations) {
                for r in from.by_kernel.ranges(a.bytes.len()) {
                    a.bytes[r.clone()].copy_from_slice(&from.bytes[r.clone()]);
                    a.init.insert(r.start, r.end);
                    a.by_kernel.insert(r.start, r.end);
                    if let Some(stored) = &mut a.stored {
                        stored.insert(r.start, r.end);
                    }
                }
            }
        }
        true
    }

    /// A plain store by a kernel: as a write, and the first byte of an output that this launch had stored already.
    pub fn store(&mut self, address: u64, data: &[u8]) -> Result<Option<u64>, Unmapped> {
        self.write(address, data)?;
        let (index, offset) = self.find(address, data.len())?;
        let a = &mut self.allocations[index];
        let Some(stored) = &mut a.stored else { return Ok(None) };
        let twice = stored.first_present(offset, offset + data.len());
        stored.insert(offset, offset + data.len());
        Ok(twice.map(|at| a.start + at as u64))
    }

    /// A write by a kernel.
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        let (index, offset) = self.find(address, data.len())?;
        let a = &mut self.allocations[index];
        a.bytes[offset..offset + data.len()].copy_from_slice(data);
        a.init.insert(offset, offset + data.len());
        a.by_kernel.insert(offset, offset + data.len());
        Ok(())
    }

    /// A write by the host.
    pub fn host_write(&mut self, address: u64, data: &[u8]) -> Result<(), Unmapped> {
        self.write(address, data)?;
        let (index, offset) = self.find(address, data.len())?;
        self.allocations[index].by_kernel.remove(offset, offset + data.len());
        Ok(())
    }

    /// Ranges, relative to `address`, that no kernel has written.
    pub fn unwritten(&self, address: u64, bytes: usize) -> Result<Vec<std::ops::Range<usize>>, Unmapped> {
        let (index, offset) = self.find(address, bytes)?;
        let gaps = self.allocations[index].by_kernel.gaps(offset + bytes);
        Ok(gaps
            .into_iter()
            .filter(|g| g.end > offset)
            .map(|g| g.start.max(offset) - offset..g.end - offset)
            .collect())
    }
}

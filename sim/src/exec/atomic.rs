//! `atom` and `red` (PTX ISA 9.7.13.5-6).

use super::access::{Need, Place, SharedAccess};
use super::load_store::Touched;
use super::machine::{Exec, Machine};
use super::warp::{Lanes64, lanes};
use crate::decode::op::{Atom, AtomOp, FloatBin, FloatMode};
use crate::decode::ty::Ty;
use crate::exec::{float, half};
use crate::fault::FindingKind;
use crate::hb::shadow::EventKind;

/// The new value of one element.
pub(crate) fn combine(op: AtomOp, ty: Ty, old: u64, b: u64, c: u64) -> u64 {
    let mask = if ty.bits() == 64 {
        u64::MAX
    } else {
        (1 << ty.bits()) - 1
    };
    match op {
        AtomOp::Exch => b,
        AtomOp::Cas => {
            if old == b & mask {
                c
            } else {
                old
            }
        }
        AtomOp::And => old & b,
        AtomOp::Or => old | b,
        AtomOp::Xor => old ^ b,
        AtomOp::Inc => {
            if old >= b {
                0
            } else {
                old + 1
            }
        }
        AtomOp::Dec => {
            if old == 0 || old > b {
                b
            } else {
                old - 1
            }
        }
        AtomOp::Add | AtomOp::Min | AtomOp::Max if ty.is_float() => float_combine(op, ty, old, b),
        AtomOp::Add => old.wrapping_add(b) & mask,
        AtomOp::Min | AtomOp::Max => {
            let extend = |v: u64| ((v << (64 - ty.bits())) as i64) >> (64 - ty.bits());
            let less = if ty.signed() {
                extend(b) < extend(old)
            } else {
                b & mask < old & mask
            };
            if less == (op == AtomOp::Min) { b & mask } else { old }
        }
    }
}

fn float_combine(op: AtomOp, ty: Ty, old: u64, b: u64) -> u64 {
    let f = match op {
        AtomOp::Add => FloatBin::Add,
        AtomOp::Min => FloatBin::Min,
        _ => FloatBin::Max,
    };
    let f32_of = |v: u64| f32::from_bits(v as u32);
    match ty {
        Ty::F32 => {
            let (x, y) = (f32_of(old), f32_of(b));
            let r = match f {
                FloatBin::Add => x + y,
                _ => float::min_max(f == FloatBin::Max, false, x, y),
            };
            u64::from(r.to_bits())
        }
        Ty::F64 => {
            let (x, y) = (f64::from_bits(old), f64::from_bits(b));
            match f {
                FloatBin::Add => x + y,
                FloatBin::Min => x.min(y),
                _ => x.max(y),
            }
            .to_bits()
        }
        _ => {
            let is_bf16 = matches!(ty, Ty::Bf16 | Ty::Bf16x2);
            let parts = ty.bits() / 16;
            (0..parts).fold(0, |out, i| {
                let part = |v: u64| half::decode(is_bf16, (v >> (16 * i)) as u16);
                let r = half::encode(is_bf16, half::binary(f, FloatMode::default(), part(old), part(b)));
                out | u64::from(r) << (16 * i)
            })
        }
    }
}

pub(crate) fn load_le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |out, byte| out << 8 | u64::from(*byte))
}

impl Machine<'_> {
    /// Lanes take part one after another, lowest first.
    pub fn atom(&mut self, w: usize, atom: &Atom, exec: u32) -> Exec {
        let elem = atom.ty.bytes() as usize;
        let total = elem * atom.b.len();
        let addresses = self.addresses(w, &atom.addr, exec);
        let need = Need {
            what: "atomic",
            bytes: total as u64,
            align: total as u64,
        };
        let bits = atom.ty.bits();
        let warp = &mut self.warps[w];
        let b: Vec<Lanes64> = atom.b.iter().map(|src| warp.get_bits(*src, bits, exec)).collect();
        let c = atom.c.map_or([0; 32], |src| warp.get_bits(src, bits, exec));
        if atom.acquire {
            self.acquire(w, atom.space, addresses[super::access::first_lane(exec)]);
        }
        let mut old = [0u64; 32];
        let mut touched = Touched::default();
        for lane in lanes(exec) {
            let place = self.place(w, atom.space, addresses[lane], need)?;
            let mut bytes = match place {
                Place::Shared(cta, at) => {
                    touched.add(cta, at, total);
                    self.ctas[cta].smem[at..at + total].to_vec()
                }
                Place::Global(address) => self.read_global(address, total, "an atomic on")?,
                Place::Param(_) => {
                    let what = "an atomic on parameter memory: parameters are read only".to_owned();
                    return Err(Box::new(FindingKind::Illegal { what }));
                }
            };
            old[lane] = load_le(&bytes[..elem]);
            for (index, b) in b.iter().enumerate() {
                let part = &mut bytes[index * elem..(index + 1) * elem];
                let new = combine(atom.op, atom.ty, load_le(part), b[lane], c[lane]);
                part.copy_from_slice(&new.to_le_bytes()[..elem]);
            }
            match place {
                Place::Shared(cta, at) => self.ctas[cta].smem[at..at + total].copy_from_slice(&bytes),
                Place::Global(address) => self.write_global(address, &bytes, "an atomic on")?,
                Place::Param(_) => {}
            }
        }
        self.progress += 1;
        let access = SharedAccess {
            kind: EventKind::Atomic,
            write: true,
            partial: false,
            engine: None,
        };
        touched.record(self, w, access);
        if atom.release {
            self.release(w, atom.space, addresses[super::access::first_lane(exec)]);
        }
        if let Some(d) = atom.d {
            self.warps[w].put_dst(d, exec, &old);
        }
        Ok(())
    }
}

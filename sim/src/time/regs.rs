//! Which registers an instruction reads and writes: the operands of the scoreboard.
//!
//! Predicates are numbered behind the 32-bit slots.

use crate::decode::op::{Addr, AddrBase, BulkKind, Dst, Inst, Op, P, PSrc, R, Src, VoteMode, WgmmaA};
use crate::decode::ty::Ty;

/// Registers of one instruction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Regs {
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
    /// Number of the first predicate.
    preds_at: u32,
}

impl Regs {
    /// Registers of `inst` in a kernel with `slots` register slots.
    pub fn of(inst: &Inst, slots: u32) -> Self {
        let mut regs = Self {
            preds_at: slots,
            ..Self::default()
        };
        if let Some((p, _)) = inst.guard {
            regs.read_p(p);
        }
        regs.op(&inst.op);
        regs
    }

    fn read_p(&mut self, p: P) {
        self.reads.push(self.preds_at + p);
    }

    fn write_p(&mut self, p: P) {
        self.writes.push(self.preds_at + p);
    }

    fn psrc(&mut self, p: PSrc) {
        if let PSrc::Reg { slot, .. } = p {
            self.read_p(slot);
        }
    }

    fn src(&mut self, src: Src) {
        if let Src::Reg(r) = src {
            self.reads.push(r);
        }
    }

    fn srcs(&mut self, srcs: &[Src]) {
        srcs.iter().for_each(|s| self.src(*s));
    }

    fn addr(&mut self, addr: &Addr) {
        match addr.base {
            AddrBase::Reg32(r) => self.reads.push(r),
            AddrBase::Reg64(r) => self.reads.extend([r, r + 1]),
            AddrBase::None | AddrBase::Shared => {}
        }
    }

    fn addrs(&mut self, addrs: &[&Addr]) {
        addrs.iter().for_each(|a| self.addr(a));
    }

    fn write(&mut self, d: R) {
        self.writes.push(d);
    }

    fn write_wide(&mut self, d: Dst) {
        self.writes.push(d.slot);
        if d.bits == 64 {
            self.writes.push(d.slot + 1);
        }
    }

    fn write_ty(&mut self, ty: Ty, d: R) {
        self.write_wide(Dst {
            slot: d,
            bits: ty.bits(),
        });
    }

    fn op(&mut self, op: &Op) {
        match op {
            Op::IntUn { d, a, .. } => self.wide([*a], *d),
            Op::IntBin { ty, d, a, b, .. } => {
                self.srcs(&[*a, *b]);
                self.write_ty(*ty, *d);
            }
            Op::IntTri { ty, d, a, b, c, .. } => {
                self.srcs(&[*a, *b, *c]);
                self.write_ty(*ty, *d);
            }
            Op::Wide { d, a, b, c, .. } => {
                self.srcs(&[*a, *b]);
                c.iter().for_each(|c| self.src(*c));
                self.writes.extend([*d, *d + 1]);
            }
            Op::F32Un { d, a, .. } | Op::F64Un { d, a, .. } | Op::HalfUn { d, a, .. } | Op::Redux { d, a, .. } => {
                self.narrow([*a], *d);
            }
            Op::F32Bin { d, a, b, .. } | Op::F64Bin { d, a, b, .. } | Op::HalfBin { d, a, b, .. } => {
                self.narrow([*a, *b], *d);
            }
            Op::F32Fma { d, a, b, c, .. } | Op::F64Fma { d, a, b, c, .. } | Op::HalfFma { d, a, b, c, .. } => {
                self.narrow([*a, *b, *c], *d);
            }
            Op::CvtPack { d, hi, lo, .. } => self.narrow([*hi, *lo], *d),
            Op::Cvta { d, a, .. } => {
                self.src(*a);
                self.writes.extend([*d, *d + 1]);
            }
            Op::Cvt(cvt) => self.wide([cvt.a], cvt.d),
            Op::Mapa { d, a, rank, .. } => self.wide([*a, *rank], *d),
            Op::Shfl { d, p, a, b, c, .. } => {
                self.narrow([*a, *b, *c], *d);
                p.iter().for_each(|p| self.write_p(*p));
            }
            Op::ActiveMask { d } => self.write(*d),
            _ => self.predicates(op),
        }
    }

    fn narrow<const N: usize>(&mut self, srcs: [Src; N], d: R) {
        self.srcs(&srcs);
        self.write(d);
    }

    fn wide<const N: usize>(&mut self, srcs: [Src; N], d: Dst) {
        self.srcs(&srcs);
        self.write_wide(d);
    }

    fn predicates(&mut self, op: &Op) {
        match op {
            Op::MovPred { d, a } => {
                self.psrc(*a);
                self.write_p(*d);
            }
            Op::PredBin { d, a, b, .. } => {
                self.psrc(*a);
                self.psrc(*b);
                self.write_p(*d);
            }
            Op::Setp(setp) => {
                self.srcs(&[setp.a, setp.b]);
                if let Some((_, p)) = setp.with {
                    self.psrc(p);
                }
                [setp.d, setp.d2].iter().flatten().for_each(|p| self.write_p(*p));
            }
            Op::Selp { bits, d, a, b, p } => {
                self.psrc(*p);
                self.wide([*a, *b], Dst { slot: *d, bits: *bits });
            }
            Op::Vote { mode, d, a, .. } => {
                self.psrc(*a);
                if *mode == VoteMode::Ballot {
                    self.write(*d);
                } else {
                    self.write_p(*d);
                }
            }
            Op::Match { d, p, a, .. } => {
                self.narrow([*a], *d);
                p.iter().for_each(|p| self.write_p(*p));
            }
            Op::Elect { d, p, .. } => {
                d.iter().for_each(|d| self.write(*d));
                self.write_p(*p);
            }
            Op::Pack { d, parts, .. } => {
                self.srcs(parts);
                self.write_wide(*d);
            }
            Op::Unpack { a, parts, .. } => {
                self.src(*a);
                parts.iter().flatten().for_each(|d| self.writes.push(*d));
            }
            _ => self.memory(op),
        }
    }

    fn memory(&mut self, op: &Op) {
        match op {
            Op::Ld(mem) => {
                self.addr(&mem.addr);
                mem.regs.iter().flatten().for_each(|d| self.write_wide(*d));
            }
            Op::St(mem) => {
                self.addr(&mem.addr);
                self.srcs(&mem.srcs);
            }
            Op::Atom(atom) => {
                self.addr(&atom.addr);
                self.srcs(&atom.b);
                atom.c.iter().for_each(|c| self.src(*c));
                atom.d.iter().for_each(|d| self.write_wide(*d));
            }
            Op::Ldmatrix(m) => {
                self.addr(&m.addr);
                self.writes.extend(&m.regs);
            }
            Op::Stmatrix(m) => {
                self.addr(&m.addr);
                self.reads.extend(&m.regs);
            }
            Op::Mma(mma) => {
                self.reads.extend(mma.a.iter().chain(&mma.b));
                self.srcs(&mma.c);
                self.writes.extend(mma.d);
            }
            Op::Wgmma(op) => {
                match &op.a {
                    WgmmaA::Desc(src) => self.src(*src),
                    WgmmaA::Regs(regs) => self.reads.extend(regs),
                }
                self.src(op.b);
                self.psrc(op.scale_d);
            }
            Op::MbarArrive(a) => self.addr(&a.addr),
            Op::MbarWait(wait) => {
                self.addr(&wait.addr);
                self.src(wait.value);
                self.write_p(wait.d);
            }
            Op::MbarInit { addr, .. } | Op::MbarInval { addr } | Op::MbarExpectTx { addr, .. } => self.addr(addr),
            Op::Barrier(b) => self.src(b.id),
            Op::Bulk(kind) => self.bulk(kind),
            Op::CpAsync(copy) => self.addrs(&[&copy.dst, &copy.src]),
            _ => {}
        }
    }

    fn bulk(&mut self, kind: &BulkKind) {
        match kind {
            BulkKind::TensorLoad { coords, dst, mbar, .. } => {
                self.addrs(&[dst, mbar]);
                self.srcs(coords);
            }
            BulkKind::TensorStore { coords, src, .. } => {
                self.addr(src);
                self.srcs(coords);
            }
            BulkKind::Load {
                src, dst, bytes, mbar, ..
            } => {
                self.addrs(&[src, dst, mbar]);
                self.src(*bytes);
            }
            BulkKind::Store { src, dst, bytes, .. } => {
                self.addrs(&[src, dst]);
                self.src(*bytes);
            }
            BulkKind::Peer { src, dst, bytes, mbar } => {
                self.addrs(&[src, dst, mbar]);
                self.src(*bytes);
            }
        }
    }
}

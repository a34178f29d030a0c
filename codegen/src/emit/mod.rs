//! Instruction selection: a role program becomes a PTX module.
//!
//! Tile statements unroll over the registers of a thread; everything that decides an address is uniform, so that
//! descriptors live in uniform registers.

mod calc;
mod copy;
mod dot;
mod expr;
pub(crate) mod frame;
mod loc;
mod mask;
mod narrow;
pub mod stamps;
mod stmt;
mod warp_dot;

use crate::check::Checked;
use crate::ptx::{Class, FloatFn, FloatOp, Inst, IntOp, Kind, Label, Module, Opd, ParamKind, Reg};
use crate::role::{RegTileId, RoleProgram};

pub(crate) use dot::half;

/// Selects instructions for a program that passed the checker.
#[must_use]
pub fn emit(checked: &Checked<'_>, header: Vec<String>, target: &'static str) -> Module {
    emit_with(checked, header, target, stamps::Instrument::Off)
}

/// The same; an instrumented kernel stamps the clock into a buffer ([`stamps`]).
#[must_use]
pub fn emit_with(
    checked: &Checked<'_>,
    header: Vec<String>,
    target: &'static str,
    instrument: stamps::Instrument,
) -> Module {
    let program = checked.program();
    let mut e = Emitter::new(program);
    e.instrument = instrument;
    frame::kernel(&mut e);
    let registers = [Class::Pred, Class::B32, Class::B64, Class::F32]
        .iter()
        .map(|c| (*c, e.counts[*c as usize].max(1)))
        .collect();
    Module {
        header,
        target,
        entry: program.name.clone(),
        params: {
            let stamps = (instrument != stamps::Instrument::Off).then(|| (stamps::PARAM.to_owned(), ParamKind::U64));
            params(program).into_iter().chain(stamps).collect()
        },
        threads: program.threads(),
        registers,
        files: e.files,
        body: e.body,
    }
}

/// The parameters in order: maps, pointers with their strides, sizes, scalars, scratch.
#[must_use]
pub fn params(p: &RoleProgram) -> Vec<(String, ParamKind)> {
    let mut out: Vec<_> = p.maps.iter().map(|m| (m.name.clone(), ParamKind::TensorMap)).collect();
    for pointer in &p.pointers {
        let tensor = &p.tensors[pointer.tensor as usize];
        out.push((format!("{}_ptr", tensor.name), ParamKind::U64));
        out.extend((0..tensor.dims.len()).map(|d| (format!("{}_stride{d}", tensor.name), ParamKind::U64)));
    }
    out.extend(p.runtime.iter().map(|n| (n.clone(), ParamKind::S32)));
    out.extend(p.scalars.iter().map(|(n, _)| (n.clone(), ParamKind::F32)));
    if p.mailbox.is_some() {
        out.push(("scratch".to_owned(), ParamKind::U64));
    }
    out
}

/// Slot and phase of a ring, as one role sees it.
#[derive(Clone, Copy)]
pub(crate) struct RingState {
    /// Absent for a ring of one slot.
    pub slot: Option<Reg>,
    pub phase: Reg,
}

pub(crate) struct Emitter<'p> {
    pub p: &'p RoleProgram,
    pub body: Vec<Inst>,
    pub counts: [u32; 4],
    pub labels: u32,
    pub vars: Vec<Reg>,
    pub tiles: Vec<Option<Reg>>,
    pub handles: Vec<Option<Reg>>,
    pub runtime: Vec<Reg>,
    pub scalars: Vec<Reg>,
    pub maps: Vec<Reg>,
    pub rings: Vec<RingState>,
    pub at: Thread,
    /// The producer warp being emitted.
    pub filling: u32,
    /// Source files of the kernel, in the order of their numbers.
    pub files: Vec<String>,
    /// File number, line and column of what is being emitted.
    pub line: Option<(u32, u32, u32)>,
    pub instrument: stamps::Instrument,
    pub stamps: Option<stamps::Stamps>,
}

/// Where a thread stands; filled in by the frame.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    pub smem: Reg,
    /// Warpgroup index: 0 is the producer.
    pub group: Reg,
    /// Consumer index, uniform.
    pub consumer: Reg,
    /// Warp within the warpgroup, uniform.
    pub warp: Reg,
    pub lane: Reg,
    pub lane_zero: Reg,
    /// Row of the first accumulator element within the CTA's tile.
    pub row: Reg,
    /// Column of the first accumulator element.
    pub col: Reg,
    pub leader: Reg,
}

impl<'p> Emitter<'p> {
    pub(crate) fn new(p: &'p RoleProgram) -> Self {
        let zero = Reg {
            class: Class::B32,
            number: 0,
        };
        let pred = Reg {
            class: Class::Pred,
            number: 0,
        };
        let at = Thread {
            smem: zero,
            group: zero,
            consumer: zero,
            warp: zero,
            lane: zero,
            lane_zero: pred,
            row: zero,
            col: zero,
            leader: pred,
        };
        Emitter {
            p,
            body: vec![],
            counts: [0; 4],
            labels: 0,
            vars: vec![],
            tiles: vec![None; p.tiles.len()],
            handles: vec![None; p.handles.len()],
            runtime: vec![],
            scalars: vec![],
            maps: vec![],
            rings: vec![],
            at,
            filling: 0,
            files: vec![],
            line: None,
            instrument: stamps::Instrument::Off,
            stamps: None,
        }
    }

    pub fn reg(&mut self, class: Class) -> Reg {
        let n = &mut self.counts[class as usize];
        *n += 1;
        Reg { class, number: *n - 1 }
    }

    /// `count` registers with consecutive numbers; the first one.
    pub fn block(&mut self, class: Class, count: u32) -> Reg {
        let n = &mut self.counts[class as usize];
        let first = *n;
        *n += count;
        Reg { class, number: first }
    }

    pub fn label(&mut self) -> Label {
        self.labels += 1;
        Label(self.labels - 1)
    }

    pub fn push(&mut self, kind: Kind) {
        self.body.push(Inst { guard: None, kind });
    }

    pub fn push_if(&mut self, pred: Reg, when: bool, kind: Kind) {
        self.body.push(Inst {
            guard: Some((pred, when)),
            kind,
        });
    }

    pub fn note(&mut self, text: impl Into<String>) {
        self.push(Kind::Comment(text.into()));
    }

    pub fn int(&mut self, op: IntOp, a: impl Into<Opd>, b: impl Into<Opd>) -> Reg {
        let dst = self.reg(Class::B32);
        self.push(Kind::Int {
            op,
            wide: false,
            dst,
            a: a.into(),
            b: b.into(),
        });
        dst
    }

    pub fn int64(&mut self, op: IntOp, a: impl Into<Opd>, b: impl Into<Opd>) -> Reg {
        let dst = self.reg(Class::B64);
        self.push(Kind::Int {
            op,
            wide: true,
            dst,
            a: a.into(),
            b: b.into(),
        });
        dst
    }

    /// `a * b + c` on 32 bits.
    pub fn mad(&mut self, a: impl Into<Opd>, b: impl Into<Opd>, c: impl Into<Opd>) -> Reg {
        let dst = self.reg(Class::B32);
        self.push(Kind::MadLo {
            dst,
            a: a.into(),
            b: b.into(),
            c: c.into(),
        });
        dst
    }

    pub fn mov(&mut self, class: Class, src: impl Into<Opd>) -> Reg {
        let dst = self.reg(class);
        self.push(Kind::Mov { dst, src: src.into() });
        dst
    }

    pub fn float(&mut self, op: FloatOp, a: impl Into<Opd>, b: impl Into<Opd>) -> Reg {
        let dst = self.reg(Class::F32);
        self.push(Kind::Float {
            op,
            dst,
            a: a.into(),
            b: b.into(),
        });
        dst
    }

    pub fn float_fn(&mut self, f: FloatFn, a: impl Into<Opd>) -> Reg {
        let dst = self.reg(Class::F32);
        self.push(Kind::FloatFn { f, dst, a: a.into() });
        dst
    }

    /// The first register of a tile; allocated on first use.
    pub fn tile(&mut self, id: RegTileId) -> Reg {
        let at = id.0 as usize;
        if let Some(reg) = self.tiles[at] {
            return reg;
        }
        let layout = self.p.tiles[at].layout;
        let class = if matches!(layout, crate::role::Layout::Packed { .. }) {
            Class::B32
        } else {
            Class::F32
        };
        let reg = self.block(class, layout.registers());
        self.tiles[at] = Some(reg);
        reg
    }
}

/// The register `n` after `first`.
pub(crate) fn nth(first: Reg, n: u32) -> Reg {
    Reg {
        class: first.class,
        number: first.number + n,
    }
}

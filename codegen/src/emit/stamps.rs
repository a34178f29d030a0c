//! Clock stamps of an instrumented kernel: when each CTA, role and block began and ended.
//!
//! A CTA owns [`cta_bytes`] of the buffer, 64-bit words:
//!
//! | word | what |
//! |---|---|
//! | 0, 1, 2 | `%clock64` and `%globaltimer` at the start, `%smid` |
//! | 4 + r (2 + 2 B) | role r: `%clock64` at its end, number of its blocks, then begin and end of the first B blocks |
//!
//! Role 0 is the producer warp that draws blocks, role g consumer warpgroup g; one thread of each writes. `%clock64` counts
//! the cycles of one SM (PTX ISA 10), so only stamps of one SM can be compared.

use crate::launch::{STAMP_HEAD_WORDS, STAMPED_BLOCKS, stamp_role_words};
use crate::ptx::{Addr, Class, Cmp, IntOp, Kind, Opd, Reg, Special};

use super::Emitter;

const WORD_BYTES: u32 = 8;
/// Where a role's pairs begin.
const PAIRS_AT: i64 = 16;

/// Name of the parameter.
pub const PARAM: &str = "stamps";

/// Bytes of one CTA.
#[must_use]
pub fn cta_bytes(consumers: u32) -> u32 {
    WORD_BYTES * (STAMP_HEAD_WORDS + (consumers + 1) * stamp_role_words())
}

/// How much is stamped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Instrument {
    /// Nothing.
    #[default]
    Off,
    /// Begin of the CTA and end of each role: no register lives longer for it.
    Ctas,
    /// Blocks too.
    Blocks,
}

/// Registers of the stamping thread while blocks go by.
#[derive(Clone, Copy)]
pub(crate) struct Stamps {
    /// The next pair.
    cursor: Reg,
    blocks: Reg,
    /// Threads that write nothing.
    skip: Reg,
}

/// An edge of a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edge {
    Begin,
    End,
}

impl Emitter<'_> {
    /// The CTA's own stamps, and the state of the blocks' stamps.
    pub(crate) fn stamps_begin(&mut self) {
        if self.instrument == Instrument::Off {
            return;
        }
        self.note("clock stamps");
        let at = self.stamps_base();
        let leader = self.at.leader;
        for (word, special) in [(0, Special::Clock64), (1, Special::GlobalTimer)] {
            let value = self.mov(Class::B64, Opd::Special(special));
            self.store_word(leader, true, (at, word * 8), value.into());
        }
        let sm = self.mov(Class::B32, Opd::Special(Special::SmId));
        let addr = Addr {
            base: at.into(),
            offset: 16,
        };
        self.push_if(
            leader,
            true,
            Kind::StGlobal32 {
                at: addr,
                src: sm.into(),
            },
        );
        if self.instrument == Instrument::Blocks {
            let role = self.stamps_role();
            let cursor = self.int64(IntOp::Add, role, PAIRS_AT);
            let blocks = self.mov(Class::B32, Opd::Int(0));
            let skip = self.stamps_skip();
            self.stamps = Some(Stamps { cursor, blocks, skip });
        }
    }

    /// Start of the CTA's words.
    fn stamps_base(&mut self) -> Reg {
        let param = self.reg(Class::B64);
        self.push(Kind::LdParam {
            dst: param,
            param: PARAM.into(),
        });
        let global = self.reg(Class::B64);
        self.push(Kind::ToGlobal {
            dst: global,
            src: param,
        });
        let cta = self.mov(Class::B32, Opd::Special(Special::CtaidX));
        self.stamps_at(global, cta, cta_bytes(self.p.consumers))
    }

    /// Start of the role's words.
    fn stamps_role(&mut self) -> Reg {
        let base = self.stamps_base();
        let head = self.int64(IntOp::Add, base, WORD_BYTES * STAMP_HEAD_WORDS);
        let group = self.at.group;
        self.stamps_at(head, group, WORD_BYTES * stamp_role_words())
    }

    /// Whether a thread writes nothing. Group 0 comes here with one thread, the elected one, wherever it is.
    fn stamps_skip(&mut self) -> Reg {
        let skip = self.reg(Class::Pred);
        let tid = self.mov(Class::B32, Opd::Special(Special::TidX));
        let own = self.int(IntOp::And, tid, 127u32);
        let group = self.at.group;
        let consumer = self.int(IntOp::MinS, group, 1u32);
        let wrong = self.int(IntOp::MulLo, own, consumer);
        self.push(Kind::SetpI {
            cmp: Cmp::Ne,
            dst: skip,
            a: wrong.into(),
            b: Opd::Int(0),
        });
        skip
    }

    /// `base + index * bytes`.
    fn stamps_at(&mut self, base: Reg, index: Reg, bytes: u32) -> Reg {
        let offset = self.int(IntOp::MulLo, index, bytes);
        let wide = self.reg(Class::B64);
        self.push(Kind::Widen { dst: wide, src: offset });
        self.int64(IntOp::Add, base, wide)
    }

    fn store_word(&mut self, pred: Reg, when: bool, (base, offset): (Reg, i64), src: Opd) {
        let at = Addr {
            base: base.into(),
            offset,
        };
        self.push_if(pred, when, Kind::StGlobal64 { at, src });
    }

    /// A block begins or ends.
    pub(crate) fn stamp_block(&mut self, edge: Edge) {
        let Some(s) = self.stamps else { return };
        let full = self.reg(Class::Pred);
        self.push(Kind::SetpI {
            cmp: Cmp::Ge,
            dst: full,
            a: s.blocks.into(),
            b: Opd::Int(STAMPED_BLOCKS.into()),
        });
        let skip = self.reg(Class::Pred);
        self.push(Kind::PredOr {
            dst: skip,
            a: full,
            b: s.skip,
        });
        let clock = self.mov(Class::B64, Opd::Special(Special::Clock64));
        let offset = if edge == Edge::Begin { 0 } else { 8 };
        self.store_word(skip, false, (s.cursor, offset), clock.into());
        if edge == Edge::End {
            for (wide, dst, by) in [(true, s.cursor, 16), (false, s.blocks, 1)] {
                self.push(Kind::Int {
                    op: IntOp::Add,
                    wide,
                    dst,
                    a: dst.into(),
                    b: Opd::Int(by),
                });
            }
        }
    }

    /// The role ends.
    pub(crate) fn stamps_end(&mut self) {
        if self.instrument == Instrument::Off {
            return;
        }
        let role = self.stamps_role();
        let skip = self.stamps_skip();
        let clock = self.mov(Class::B64, Opd::Special(Special::Clock64));
        self.store_word(skip, false, (role, 0), clock.into());
        if let Some(s) = self.stamps {
            let blocks = self.reg(Class::B64);
            self.push(Kind::Widen {
                dst: blocks,
                src: s.blocks,
            });
            self.store_word(skip, false, (role, 8), blocks.into());
        }
    }
}

//! Instructions across the lanes of a warp (PTX ISA 9.7.9.6, 9.7.13.6-12).

use super::access::first_lane;
use super::integer::reduce;
use super::warp::{Warp, lanes};
use crate::decode::op::{IntBin, P, PSrc, R, ShflMode, Src, VoteMode};
use crate::decode::ty::Ty;

impl Warp {
    pub fn shfl(&mut self, mode: ShflMode, d: (R, Option<P>), operands: [Src; 3]) {
        let exec = self.exec;
        let [a, b, c] = operands.map(|src| self.get(src, exec));
        let mut value = a;
        let mut in_range = 0u32;
        for lane in lanes(exec) {
            let (amount, clamp, segment) = (b[lane] & 0x1f, c[lane] & 0x1f, c[lane] >> 8 & 0x1f);
            let me = lane as u32;
            let max = (me & segment) | (clamp & !segment);
            let min = me & segment;
            let (from, ok) = match mode {
                ShflMode::Up => (me.wrapping_sub(amount), me as i64 - i64::from(amount) >= i64::from(max)),
                ShflMode::Down => (me + amount, me + amount <= max),
                ShflMode::Bfly => (me ^ amount, me ^ amount <= max),
                ShflMode::Idx => (min | (amount & !segment), min | (amount & !segment) <= max),
            };
            let from = if ok { from } else { me };
            in_range |= u32::from(ok) << lane;
            value[lane] = a[from as usize & 31];
        }
        self.put(d.0, exec, &value);
        if let Some(p) = d.1 {
            self.put_pred(p, exec, in_range);
        }
    }

    pub fn vote(&mut self, mode: VoteMode, d: u32, a: PSrc, members: u32) {
        let exec = self.exec;
        let value = self.pred(a, exec) & members;
        let all = value == members;
        let truth = match mode {
            VoteMode::Ballot => {
                self.put(d, exec, &[value; 32]);
                return;
            }
            VoteMode::All => all,
            VoteMode::Any => value != 0,
            VoteMode::Uni => all || value == 0,
        };
        self.put_pred(d, exec, if truth { u32::MAX } else { 0 });
    }

    pub fn matching(&mut self, all: bool, bits: u32, d: (R, Option<P>), a: Src) {
        let exec = self.exec;
        let value = self.get_bits(a, bits, exec);
        let mut out = [0u32; 32];
        for lane in lanes(exec) {
            out[lane] = lanes(exec)
                .filter(|&other| value[other] == value[lane])
                .fold(0, |m, other| m | 1 << other);
        }
        let agree = out[first_lane(exec)] == exec;
        if all && !agree {
            out = [0; 32];
        }
        self.put(d.0, exec, &out);
        if let Some(p) = d.1 {
            self.put_pred(p, exec, if agree { u32::MAX } else { 0 });
        }
    }

    /// The leader is the lowest member.
    pub fn elect(&mut self, d: Option<R>, p: P, members: u32) {
        let exec = self.exec;
        let leader = first_lane(members);
        if let Some(d) = d {
            self.put(d, exec, &[leader as u32; 32]);
        }
        self.put_pred(p, exec, 1 << leader);
    }

    pub fn redux(&mut self, f: IntBin, ty: Ty, d: R, a: Src) {
        let exec = self.exec;
        let value = self.get(a, exec);
        let mut members = lanes(exec).map(|lane| value[lane]);
        let first = members.next().unwrap_or(0);
        let result = members.fold(first, |x, y| reduce(f, ty, x, y));
        self.put(d, exec, &[result; 32]);
    }
}

//! Divergent groups of lanes: selection, splitting, merging.
//!
//! The group with the lowest program counter runs first, so that lanes which left a branch or loop
//! wait, further down, for those that have not: structured code reconverges where its branches end.

use super::machine::{Exec, Machine, Now, Stop};
use super::warp::{Blocked, Group};
use crate::fault::FindingKind;

impl Machine<'_> {
    /// Merges groups that meet, and picks the one with the lowest program counter.
    pub(crate) fn select(&mut self, w: usize) -> Exec<Option<usize>> {
        let groups = &mut self.warps[w].groups;
        if groups.len() == 1 {
            let group = &mut groups[0];
            if group.blocked == Blocked::Together {
                // The lanes it waited for are gone; the instruction itself reports that.
                group.blocked = Blocked::Ready;
            }
            return Ok((group.blocked == Blocked::Ready).then_some(0));
        }
        merge(groups);
        if groups.len() == 1 {
            return self.select(w);
        }
        let ready = groups.iter().enumerate().filter(|(_, g)| g.blocked == Blocked::Ready);
        if let Some((index, _)) = ready.min_by_key(|(_, g)| g.pc) {
            return Ok(Some(index));
        }
        if !groups.is_empty() && groups.iter().all(|g| g.blocked == Blocked::Together) {
            return Err(self.divergence(w));
        }
        Ok(None)
    }

    fn divergence(&mut self, w: usize) -> Stop {
        let code = &self.kernel.code;
        let groups = &self.warps[w].groups;
        let what: Vec<String> = groups
            .iter()
            .map(|g| format!("lanes {:#010x} at line {}", g.mask, code[g.pc as usize].line))
            .collect();
        let first = groups[0].clone();
        self.now = Now {
            warp: w,
            line: code[first.pc as usize].line,
            exec: first.mask,
            pc: first.pc,
        };
        Box::new(FindingKind::AlignedDivergence { what: what.join(", ") })
    }

    /// When only part of a group executes an instruction that changes its fate, the rest goes on
    /// as a group of its own. Gives the index of the executing part.
    pub(super) fn split_off(&mut self, w: usize, index: usize, exec: u32) -> usize {
        let groups = &mut self.warps[w].groups;
        let rest = groups[index].mask & !exec;
        if rest == 0 {
            return index;
        }
        let pc = groups[index].pc + 1;
        groups[index].mask = exec;
        groups.push(Group {
            pc,
            mask: rest,
            blocked: Blocked::Ready,
            timed_out: false,
        });
        index
    }

    pub(super) fn branch(&mut self, w: usize, index: usize, target: u32, taken: u32) {
        let groups = &mut self.warps[w].groups;
        let group = &mut groups[index];
        let rest = group.mask & !taken;
        if rest == 0 {
            group.pc = target;
            return;
        }
        group.mask = rest;
        group.pc += 1;
        groups.push(Group {
            pc: target,
            mask: taken,
            blocked: Blocked::Ready,
            timed_out: false,
        });
    }
}

/// Joins groups with one program counter that can run, or wait for just each other.
fn merge(groups: &mut Vec<Group>) {
    let meets = |g: &Group| matches!(g.blocked, Blocked::Ready | Blocked::Together);
    let mut at = 0;
    while at < groups.len() {
        let mut other = at + 1;
        while other < groups.len() {
            if groups[at].pc == groups[other].pc && meets(&groups[at]) && meets(&groups[other]) {
                groups[at].mask |= groups[other].mask;
                groups[at].blocked = Blocked::Ready;
                groups.swap_remove(other);
            } else {
                other += 1;
            }
        }
        at += 1;
    }
}

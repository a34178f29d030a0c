//! `setmaxnreg` and the register pool of a CTA (PTX ISA 9.7.19.5).

use crate::exec::machine::{Exec, Machine};
use crate::exec::warp::Blocked;
use crate::fault::FindingKind;
use crate::parse::ast::EntryLimits;

/// Registers of an SM.
const SM_REGISTERS: u32 = 65_536;
/// Most registers of a thread at entry.
const MAX_AT_ENTRY: u32 = 255;

/// Registers per thread at entry, when the directives fix them; ptxas ignores `setmaxnreg`
/// otherwise.
pub(crate) fn entry_registers(limits: &EntryLimits, threads: u32) -> Option<u32> {
    if let Some(regs) = limits.max_nreg {
        return Some(regs.min(MAX_AT_ENTRY));
    }
    let ctas = u64::from(limits.min_ctas_per_sm?.max(1));
    let shape = limits.req_ntid.or(limits.max_ntid)?;
    let declared = shape.iter().fold(1u64, |n, axis| n.saturating_mul(u64::from(*axis)));
    let wanted = declared.max(u64::from(threads)).max(1).saturating_mul(ctas);
    let share = u64::from(SM_REGISTERS) / wanted;
    Some((share / 8 * 8).min(u64::from(MAX_AT_ENTRY)) as u32)
}

impl Machine<'_> {
    /// Gives registers back, or takes them when the pool has enough.
    pub fn set_max_nreg(&mut self, w: usize, inc: bool, regs: u32) -> Exec<Option<Blocked>> {
        let has = self.warps[w].max_regs;
        if has == 0 {
            let what = "ptxas ignores it (C7508): the entry needs .minnctapersm with .maxntid or .reqntid, or .maxnreg";
            self.find(FindingKind::RegisterPool { what: what.to_owned() });
            return Ok(None);
        }
        let wrong = if inc { regs < has } else { regs > has };
        if wrong {
            let verb = if inc { "inc" } else { "dec" };
            let what = format!("{verb} to {regs} while the warp has {has} registers per thread");
            return Err(Box::new(FindingKind::RegisterPool { what }));
        }
        let cta = self.warps[w].cta;
        let pool = &mut self.ctas[cta].pool_free;
        if inc {
            let need = (regs - has) * 32;
            if need > *pool {
                return Ok(Some(Blocked::Pool));
            }
            *pool -= need;
        } else {
            *pool += (has - regs) * 32;
        }
        self.warps[w].max_regs = regs;
        self.progress += 1;
        Ok(None)
    }

    /// At a deadlock: whether warps wait for registers that nobody will give back.
    pub fn pool_starved(&mut self) {
        for w in 0..self.warps.len() {
            let warp = &self.warps[w];
            let Some(group) = warp.groups.iter().find(|g| g.blocked == Blocked::Pool) else {
                continue;
            };
            let has = warp.max_regs;
            let line = self.kernel.code[group.pc as usize].line;
            let cta = &self.ctas[warp.cta];
            let what = format!(
                "the warp has {has} registers per thread and asks for more; {} registers are free in the CTA's pool of {}",
                cta.pool_free,
                self.pool_size(cta.threads)
            );
            self.now.warp = w;
            self.now.line = line;
            self.find(FindingKind::RegisterPool { what });
        }
    }

    /// Registers of the CTA at launch.
    fn pool_size(&self, threads: u32) -> u32 {
        entry_registers(&self.kernel.limits, threads).unwrap_or(0) * threads
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_counts_of_the_usual_shapes() {
        let limits = |n| EntryLimits {
            max_ntid: Some([n, 1, 1]),
            min_ctas_per_sm: Some(1),
            ..EntryLimits::default()
        };
        assert_eq!(entry_registers(&limits(384), 384), Some(168));
        assert_eq!(entry_registers(&limits(512), 512), Some(128));
        assert_eq!(entry_registers(&EntryLimits::default(), 384), None);
    }
}

//! Counts of one function: in all, per loop, and per role.
//!
//! A *role* is what a `setmaxnreg` dominates: the code that runs under that register budget. A loop's *own* counts leave
//! out the loops inside it.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::sass::flow::{Flow, NaturalLoop};
use crate::sass::group::{OpCounts, OpGroup};
use crate::sass::registers;
use crate::sass::{Instruction, SassFunction};

/// What a loop is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoopKind {
    /// Work.
    Work,
    /// Repeats until an mbarrier's phase is over.
    BarrierWait,
    /// Repeats until every lane was elected once: what ptxas makes of an instruction that only one thread may issue when it
    /// cannot tell that one thread is left.
    ElectRetry,
    /// Repeats until `setmaxnreg.inc` gets its registers.
    RegisterWait,
}

/// One loop.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LoopReport {
    /// The address of its first instruction.
    pub address: u64,
    /// The highest address in it.
    pub last_address: u64,
    /// What it is for.
    pub kind: LoopKind,
    /// 0 for an outermost loop.
    pub depth: u32,
    /// The innermost loop around it, as an index into [`SassReport::loops`].
    pub parent: Option<usize>,
    /// Counts without inner loops.
    pub own: OpCounts,
    /// Counts with inner loops.
    pub all: OpCounts,
    /// The highest register in it.
    pub max_register: Option<u32>,
    /// Waits for wgmma per wgmma, inner loops left out; about 1 where wgmma is serialised. Nothing without wgmma.
    pub waits_per_hgmma: Option<f64>,
}

/// The code under one register budget.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RoleReport {
    /// The address of its `setmaxnreg`.
    pub address: u64,
    /// Whether it takes registers or gives them back.
    pub takes_registers: bool,
    /// Registers per thread from there on.
    pub budget_registers: Option<u32>,
    /// The highest register used under the budget.
    pub max_register: Option<u32>,
    /// Its instructions.
    pub all: OpCounts,
}

/// An access to local memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SpillSite {
    /// Where.
    pub address: u64,
    /// `LDL` or `STL` with its modifiers.
    pub opcode: String,
    /// The PTX line it serves, when line information is there.
    pub ptx_line: Option<u32>,
    /// `FILE:LINE` of the source it serves, when the PTX has `.loc` lines.
    pub source: Option<String>,
}

/// What one function's machine code holds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SassReport {
    /// The function.
    pub function: String,
    /// All instructions that can be reached.
    pub all: OpCounts,
    /// The highest register of all.
    pub max_register: Option<u32>,
    /// By address.
    pub roles: Vec<RoleReport>,
    /// By address.
    pub loops: Vec<LoopReport>,
    /// TMA loads and stores inside elect-and-retry loops: each should have been one instruction of an elected thread.
    pub tma_in_elect_retry: u32,
    /// Every access to local memory.
    pub spills: Vec<SpillSite>,
    /// A cycle exists that is in no loop of the list.
    pub is_irreducible: bool,
    /// Branches that could not be followed; what is behind them is not counted.
    pub indirect_branches: u32,
}

impl SassReport {
    /// Counts one function.
    #[must_use]
    pub fn of(function: &SassFunction) -> Self {
        let flow = Flow::of(function);
        let reachable: Vec<&Instruction> = indexed(function)
            .filter(|(index, _)| flow.is_reachable(*index))
            .map(|(_, found)| found)
            .collect();
        let loops: Vec<LoopReport> = (0..flow.loops.len())
            .filter_map(|at| loop_report(function, &flow, at))
            .collect();
        Self {
            function: function.name.clone(),
            all: reachable.iter().copied().collect(),
            max_register: max_register(reachable.iter().copied()),
            roles: roles(function, &flow),
            tma_in_elect_retry: tma_in_elect_retry(&loops),
            loops,
            spills: reachable.iter().copied().filter_map(spill_site).collect(),
            is_irreducible: flow.is_irreducible,
            indirect_branches: flow.indirect_branches,
        }
    }

    /// The loops that do work, by address.
    pub fn work_loops(&self) -> impl Iterator<Item = &LoopReport> {
        self.loops.iter().filter(|found| found.kind == LoopKind::Work)
    }
}

fn indexed(function: &SassFunction) -> impl Iterator<Item = (usize, &Instruction)> {
    function.instructions.iter().enumerate()
}

fn max_register<'a>(instructions: impl Iterator<Item = &'a Instruction>) -> Option<u32> {
    instructions.filter_map(registers::highest).max()
}

fn loop_report(function: &SassFunction, flow: &Flow, at: usize) -> Option<LoopReport> {
    let found = flow.loops.get(at)?;
    let header = function.instructions.get(found.header)?;
    let in_body = |body: &NaturalLoop, index: usize| body.body.contains(&index);
    let all: Vec<&Instruction> = indexed(function)
        .filter(|(index, _)| in_body(found, *index))
        .map(|(_, instruction)| instruction)
        .collect();
    let inner: Vec<&NaturalLoop> = flow.loops.iter().filter(|inner| inner.parent == Some(at)).collect();
    let own: OpCounts = indexed(function)
        .filter(|(index, _)| in_body(found, *index) && !inner.iter().any(|inner| in_body(inner, *index)))
        .map(|(_, instruction)| instruction)
        .collect();
    let hgmma = own.get(OpGroup::Hgmma);
    Some(LoopReport {
        address: header.address,
        last_address: all.iter().map(|instruction| instruction.address).max()?,
        kind: kind_of(&all),
        depth: found.depth,
        parent: found.parent,
        max_register: max_register(all.iter().copied()),
        waits_per_hgmma: (hgmma > 0).then(|| f64::from(own.get(OpGroup::WarpgroupDepbar)) / f64::from(hgmma)),
        all: all.into_iter().collect(),
        own,
    })
}

fn kind_of(instructions: &[&Instruction]) -> LoopKind {
    let has = |lead: &str| {
        instructions
            .iter()
            .any(|instruction| instruction.opcode.starts_with(lead))
    };
    // A whole role may sit in a loop; what only retries is short.
    let is_short = instructions.len() <= 24;
    if !is_short || has("HGMMA") {
        LoopKind::Work
    } else if has("BRA.U.ANY") || has("ELECT") {
        LoopKind::ElectRetry
    } else if has("USETMAXREG") {
        LoopKind::RegisterWait
    } else if has("SYNCS.PHASECHK") {
        LoopKind::BarrierWait
    } else {
        LoopKind::Work
    }
}

fn tma_in_elect_retry(loops: &[LoopReport]) -> u32 {
    let retries = loops.iter().filter(|found| found.kind == LoopKind::ElectRetry);
    retries
        .map(|found| found.own.get(OpGroup::Utmaldg) + found.own.get(OpGroup::Utmastg))
        .sum()
}

fn spill_site(instruction: &Instruction) -> Option<SpillSite> {
    let (address, ptx_line) = (instruction.address, instruction.ptx_line);
    matches!(instruction.base(), "LDL" | "STL").then(|| SpillSite {
        address,
        opcode: instruction.opcode.clone(),
        ptx_line,
        source: instruction.source.clone(),
    })
}

/// How many local accesses each source line has, in the order of the lines.
fn spills_by_source(spills: &[SpillSite]) -> BTreeMap<&str, usize> {
    let mut out = BTreeMap::new();
    for source in spills.iter().filter_map(|spill| spill.source.as_deref()) {
        *out.entry(source).or_default() += 1;
    }
    out
}

fn roles(function: &SassFunction, flow: &Flow) -> Vec<RoleReport> {
    let starts: Vec<usize> = indexed(function)
        .filter(|(index, instruction)| instruction.base() == "USETMAXREG" && flow.is_reachable(*index))
        .map(|(index, _)| index)
        .collect();
    starts
        .iter()
        .filter_map(|start| role(function, flow, &starts, *start))
        .collect()
}

fn role(function: &SassFunction, flow: &Flow, starts: &[usize], start: usize) -> Option<RoleReport> {
    let instruction = function.instructions.get(start)?;
    // A later setmaxnreg on the same path begins a budget of its own.
    let later: Vec<usize> = starts
        .iter()
        .copied()
        .filter(|other| *other != start && flow.dominates(start, *other))
        .collect();
    let covered: Vec<&Instruction> = indexed(function)
        .filter(|(index, _)| flow.dominates(start, *index))
        .filter(|(index, _)| !later.iter().any(|later| flow.dominates(*later, *index)))
        .map(|(_, instruction)| instruction)
        .collect();
    let budget = instruction
        .operands
        .last()
        .and_then(|operand| operand.strip_prefix("0x"));
    Some(RoleReport {
        address: instruction.address,
        takes_registers: instruction.opcode.contains("ALLOC") && !instruction.opcode.contains("DEALLOC"),
        budget_registers: budget.and_then(|digits| u32::from_str_radix(digits, 16).ok()),
        max_register: max_register(covered.iter().copied()),
        all: covered.into_iter().collect(),
    })
}

fn register_name(register: Option<u32>) -> String {
    register.map_or_else(|| "none".to_owned(), |register| format!("R{register}"))
}

impl fmt::Display for SassReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} instructions, highest register {}, {} local accesses, {} TMA in elect-retry loops",
            self.function,
            self.all.total(),
            register_name(self.max_register),
            self.spills.len(),
            self.tma_in_elect_retry
        )?;
        writeln!(f, "  all: {}", self.all)?;
        for (source, count) in spills_by_source(&self.spills) {
            writeln!(f, "  local accesses of {source}: {count}")?;
        }
        self.roles.iter().try_for_each(|role| write!(f, "{role}"))?;
        self.loops.iter().try_for_each(|found| write!(f, "{found}"))
    }
}

impl fmt::Display for RoleReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let budget = self
            .budget_registers
            .map_or_else(|| "?".to_owned(), |budget| budget.to_string());
        let highest = register_name(self.max_register);
        writeln!(
            f,
            "  role {:#06x}: budget {budget}, highest register {highest}: {}",
            self.address, self.all
        )
    }
}

impl fmt::Display for LoopReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indent = 2 + 2 * self.depth as usize;
        write!(
            f,
            "{:indent$}loop {:#06x}..{:#06x}",
            "", self.address, self.last_address
        )?;
        match self.kind {
            LoopKind::Work => write!(f, " ({} instructions): {}", self.own.total(), self.own)?,
            LoopKind::BarrierWait => write!(f, " barrier wait")?,
            LoopKind::ElectRetry => write!(f, " elect retry: {}", self.own)?,
            LoopKind::RegisterWait => write!(f, " register wait")?,
        }
        self.waits_per_hgmma
            .iter()
            .try_for_each(|ratio| write!(f, "  waits/HGMMA {ratio:.3}"))?;
        writeln!(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse::parse;

    fn report_of(lines: &[&str]) -> SassReport {
        let mut text = "Function : k\n".to_owned();
        for (index, line) in lines.iter().enumerate() {
            text.push_str(&format!("/*{:04x}*/ {line} ;\n", index * 16));
        }
        SassReport::of(&parse(&text).unwrap()[0])
    }

    #[test]
    fn a_roles_registers_are_those_under_its_budget() {
        let report = report_of(&[
            "@P0 BRA 0x30",
            "USETMAXREG.DEALLOC.CTAPOOL 0x20",
            "EXIT",
            "USETMAXREG.TRY_ALLOC.CTAPOOL UP0, 0xa0",
            "@!P0 BRA 0x30",
            "HGMMA.64x80x16.F32.BF16 R88, gdesc[UR20], RZ, !UPT",
            "EXIT",
        ]);
        let roles: Vec<_> = report
            .roles
            .iter()
            .map(|r| (r.takes_registers, r.budget_registers, r.max_register))
            .collect();
        assert_eq!(roles, [(false, Some(32), None), (true, Some(160), Some(127))]);
        assert_eq!(report.loops[0].kind, LoopKind::RegisterWait);
    }

    #[test]
    fn outer_loops_do_not_count_inner_instructions_as_their_own() {
        let report = report_of(&[
            "FADD R0, R0, R1",
            "HGMMA.64x80x16.F32.BF16 R88, gdesc[UR20], RZ, !UPT",
            "HGMMA.64x80x16.F32.BF16 R88, gdesc[UR20], R88, gsb0",
            "WARPGROUP.DEPBAR.LE gsb0, 0x0",
            "@P0 BRA 0x10",
            "@P1 BRA 0x0",
            "EXIT",
        ]);
        let (outer, inner) = (&report.loops[0], &report.loops[1]);
        assert_eq!((outer.own.get(OpGroup::Hgmma), outer.all.get(OpGroup::Hgmma)), (0, 2));
        assert_eq!((outer.waits_per_hgmma, inner.waits_per_hgmma), (None, Some(0.5)));
        assert_eq!(inner.parent, Some(0));
    }

    #[test]
    fn tma_in_a_retry_loop_is_counted_and_outside_it_is_not() {
        let report = report_of(&[
            "@P0 ELECT P1, URZ, PT",
            "UTMALDG.4D [UR24], [UR16]",
            "@P0 BRA.U.ANY 0x0",
            "UTMALDG.4D [UR24], [UR16]",
            "EXIT",
        ]);
        assert_eq!(report.tma_in_elect_retry, 1);
        assert_eq!(report.all.get(OpGroup::Utmaldg), 2);
    }

    #[test]
    fn local_accesses_are_listed() {
        let report = report_of(&["STL [R1], R2", "LDL.LU R2, [R1]", "EXIT"]);
        let sites: Vec<_> = report
            .spills
            .iter()
            .map(|site| (site.address, site.opcode.as_str()))
            .collect();
        assert_eq!(sites, [(0, "STL"), (16, "LDL.LU")]);
    }
}

//! The groups of operations a schedule's author thinks in, and counts over them.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use crate::sass::Instruction;

macro_rules! op_groups {
    ($($(#[$doc:meta])* $variant:ident = $label:literal,)*) => {
        /// A group of operations that stand for one kind of work.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
        pub enum OpGroup {
            $($(#[$doc])* #[serde(rename = $label)] $variant,)*
        }

        impl OpGroup {
            /// Every group, in the order reports print them.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The group's name in reports: the operation itself where it is one.
            #[must_use]
            pub const fn label(self) -> &'static str {
                match self { $(Self::$variant => $label,)* }
            }
        }
    };
}

op_groups! {
    /// Warpgroup matrix multiply of any type.
    Hgmma = "HGMMA",
    /// `wgmma.wait_group`.
    WarpgroupDepbar = "WARPGROUP.DEPBAR",
    /// `wgmma.fence`.
    WarpgroupArrive = "WARPGROUP.ARRIVE",
    /// Special functions: exp2, reciprocal.
    Mufu = "MUFU",
    /// Fused multiply-add.
    Ffma = "FFMA",
    /// Addition.
    Fadd = "FADD",
    /// Multiplication.
    Fmul = "FMUL",
    /// Minimum and maximum.
    Fmnmx = "FMNMX",
    /// Packing f32 pairs into 16-bit types.
    F2fp = "F2FP",
    /// Exchange between lanes.
    Shfl = "SHFL",
    /// Shared load.
    Lds = "LDS",
    /// Shared matrix load.
    Ldsm = "LDSM",
    /// Shared store.
    Sts = "STS",
    /// Shared matrix store.
    Stsm = "STSM",
    /// Global load.
    Ldg = "LDG",
    /// Global store.
    Stg = "STG",
    /// TMA tensor load.
    Utmaldg = "UTMALDG",
    /// TMA tensor store.
    Utmastg = "UTMASTG",
    /// mbarrier operations.
    Syncs = "SYNCS",
    /// Named barriers.
    Bar = "BAR",
    /// From a register to a uniform register: a stall of its own, a sign of values that should have been uniform.
    R2ur = "R2UR",
    /// `setmaxnreg`.
    Usetmaxreg = "USETMAXREG",
    /// Local load: a spill read back, or a stack array.
    Ldl = "LDL",
    /// Local store: a spill, or a stack array.
    Stl = "STL",
    /// Branches, calls and returns.
    Branch = "branch",
    /// Operations on uniform registers.
    Uniform = "uniform",
    /// Everything else.
    Other = "other",
}

impl OpGroup {
    /// The group of an operation.
    #[must_use]
    pub fn of(instruction: &Instruction) -> Self {
        let base = instruction.base();
        match base {
            "WARPGROUP" if instruction.opcode.starts_with("WARPGROUP.DEPBAR") => Self::WarpgroupDepbar,
            "WARPGROUP" if instruction.opcode.starts_with("WARPGROUP.ARRIVE") => Self::WarpgroupArrive,
            "HGMMA" | "QGMMA" | "IGMMA" | "BGMMA" => Self::Hgmma,
            "BRA" | "BRX" | "BRXU" | "JMP" | "JMX" | "JMXU" | "CALL" | "RET" | "EXIT" => Self::Branch,
            "FADD32I" => Self::Fadd,
            "FMUL32I" => Self::Fmul,
            "FFMA32I" => Self::Ffma,
            _ => Self::ALL
                .iter()
                .copied()
                .find(|group| group.label() == base)
                .unwrap_or_else(|| {
                    if base.starts_with('U') {
                        Self::Uniform
                    } else {
                        Self::Other
                    }
                }),
        }
    }
}

impl fmt::Display for OpGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.label())
    }
}

/// How many instructions of each group; groups without any are absent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct OpCounts(BTreeMap<OpGroup, u32>);

impl OpCounts {
    /// The count of one group.
    #[must_use]
    pub fn get(&self, group: OpGroup) -> u32 {
        self.0.get(&group).copied().unwrap_or(0)
    }

    /// All instructions.
    #[must_use]
    pub fn total(&self) -> u32 {
        self.0.values().sum()
    }

    /// The groups that occur, in report order.
    pub fn iter(&self) -> impl Iterator<Item = (OpGroup, u32)> + '_ {
        self.0.iter().map(|(group, count)| (*group, *count))
    }
}

impl<'a> FromIterator<&'a Instruction> for OpCounts {
    fn from_iter<I: IntoIterator<Item = &'a Instruction>>(instructions: I) -> Self {
        let mut counts = BTreeMap::new();
        for instruction in instructions {
            *counts.entry(OpGroup::of(instruction)).or_insert(0) += 1;
        }
        Self(counts)
    }
}

impl fmt::Display for OpCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (group, count)) in self.iter().enumerate() {
            let gap = if index == 0 { "" } else { "  " };
            write!(f, "{gap}{group} {count}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sass::parse::parse;

    #[test]
    fn operations_fall_into_their_groups() {
        let text = "Function : k\n\
            /*0000*/ HGMMA.64x80x16.F32.BF16 R88, gdesc[UR20], RZ, !UPT ;\n\
            /*0010*/ WARPGROUP.DEPBAR.LE gsb0, 0x0 ;\n\
            /*0020*/ WARPGROUP.ARRIVE ;\n\
            /*0030*/ SYNCS.ARRIVE.TRANS64 RZ, [UR24+0x20000], R2 ;\n\
            /*0040*/ UIADD3 UR8, URZ, -UR20, URZ ;\n\
            /*0050*/ STSM.16.M88.4 [R0], R24 ;\n\
            /*0060*/ BRA.U.ANY 0x0 ;\n\
            /*0070*/ DEPBAR.LE SB0, 0x0 ;\n";
        let function = parse(text).unwrap().remove(0);
        let groups: Vec<_> = function.instructions.iter().map(OpGroup::of).collect();
        use OpGroup::*;
        assert_eq!(
            groups,
            [
                Hgmma,
                WarpgroupDepbar,
                WarpgroupArrive,
                Syncs,
                Uniform,
                Stsm,
                Branch,
                Other
            ]
        );
        let counts: OpCounts = function.instructions.iter().collect();
        assert_eq!((counts.get(Hgmma), counts.get(Ldl), counts.total()), (1, 0, 8));
    }
}

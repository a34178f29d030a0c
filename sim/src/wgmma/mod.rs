//! Warpgroup matrix multiplication (PTX ISA 9.7.15).
//!
//! Each of the four warps of a warpgroup issues its part; when all four have, the operation is
//! complete and runs at a time that the seed chooses, at the latest when a warp waits for it.

pub(crate) mod descriptor;
pub(crate) mod engine;
pub(crate) mod math;

use std::collections::VecDeque;

use crate::hb::Clocks;

/// Warps of a warpgroup.
pub(crate) const WARPS: usize = 4;

/// One operation of a warpgroup.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub pc: u32,
    pub line: u32,
    pub desc_a: u64,
    pub desc_b: u64,
    pub scale_d: bool,
    /// The clocks of each warp at its issue.
    pub issued: [Option<Clocks>; WARPS],
}

impl Operation {
    pub fn complete(&self) -> bool {
        self.issued.iter().all(Option::is_some)
    }
}

/// Operations of a warpgroup that have not run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warpgroup {
    /// Operations that have run.
    pub executed: u32,
    pub queue: VecDeque<Operation>,
}

//! The schedule: every hardware decision of one kernel, as data.
//!
//! A schedule names the kernel's tiles, loads, dots, folds and stores, and says how each meets the hardware. It changes
//! no maths beyond the stated class of its rewrites. The plain form is TOML; [`Schedule`] is the one data type behind
//! both the text and the fluent builder.

mod build;
pub mod text;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Every hardware decision for one kernel. Everything left out takes a default of the compiler's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Schedule {
    /// The kernel this schedule is for; empty fits any.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel: String,
    /// Tile sizes by name, in elements.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub tiles: BTreeMap<String, u32>,
    pub roles: Roles,
    pub grid: Grid,
    /// By load name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub loads: BTreeMap<String, LoadPlan>,
    /// By value name: where a left dot operand lives.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub operands: BTreeMap<String, Placement>,
    /// By fold name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub folds: BTreeMap<String, FoldPlan>,
    /// By output tensor name.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stores: BTreeMap<String, StorePlan>,
    pub assembler: Assembler,
}

/// Warp roles and their registers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Roles {
    /// Consumer warpgroups (128 threads each), 1 to 3.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumers: Option<u32>,
    /// Rows of the row tile per consumer warpgroup; a multiple of 64. Default: the row tile divided among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_per_consumer: Option<u32>,
    /// Warps of the producer warpgroup that stay after start-up, 1 to 4; loads are dealt out among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_warps: Option<u32>,
    /// Registers per producer thread after `setmaxnreg`: a multiple of 8 in 24..=256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_registers: Option<u32>,
    /// Registers per consumer thread after `setmaxnreg`: a multiple of 8 in 24..=256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer_registers: Option<u32>,
}

/// How blocks of the grid reach the CTAs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grid {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub persistence: Option<Persistence>,
    /// Axis walked inside a section, or first when there are no sections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inner: Option<String>,
    /// Axes walked from their last block to their first ("longest first").
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub descending: Vec<String>,
    /// Blocks of the other axes that share the L2: a section holds this many of them times the whole inner axis.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section: Option<u32>,
}

/// Who hands out blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Persistence {
    /// One CTA per block.
    None,
    /// One CTA per SM, strided over the blocks.
    Static,
    /// One CTA per SM, drawing blocks from a counter.
    Dynamic,
}

/// One load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LoadPlan {
    /// Slots of the ring. Loads that share a ring must agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stages: Option<u32>,
    /// The ring's name; loads that give the same name share its slots. Default: the load's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ring: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<Release>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<Cache>,
    /// L2 promotion of the tensor map, bytes: 0, 64, 128 or 256.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub l2_promotion: Option<u32>,
}

/// When a ring slot goes back to the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Release {
    /// Right after the wait that retires its last reader.
    Early,
    /// At the end of the trip (or of the block, for loads outside folds).
    Late,
}

/// L2 eviction priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cache {
    Normal,
    EvictFirst,
    EvictLast,
}

/// Where a dot's left operand lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    Registers,
    Shared,
}

/// One fold.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FoldPlan {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// Whether trips are split by what the masks can prove.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Pipeline stage by value name, 0 or 1: a value at stage 1 runs one trip later.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub stages: BTreeMap<String, u32>,
    /// Events in the order wanted, each once: `issue X`, `wait X` (after it) or a value name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub order: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handoff: Option<Handoff>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rescale: Option<Rescale>,
    /// Threshold of lazy rescaling, in powers of two: 0 to 16, of f16 weights 0 to 15.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lazy_threshold: Option<f32>,
    /// Every n-th `exp2` of the fold is a polynomial on the FMA pipe; 0 is none. A NaN that reaches such an `exp2` gives 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exp2_polynomial_every: Option<u32>,
    /// Emits the first trip apart, even where pipelining or the rescale policy does not ask for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peel: Option<bool>,
    /// In the first trip, a warpgroup whose rows keep none of the right half of the columns computes masked dots over
    /// the left half alone: the narrower diagonal step of causal masks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub narrow: Option<bool>,
    /// Trips per loop iteration of the emitted code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unroll: Option<u32>,
}

/// Which way a fold walks its trips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    Ascending,
    Descending,
}

/// How masks are applied over the trips of a fold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Split {
    /// Every trip is masked.
    Never,
    /// Masked trips and trips where every mask holds are loops of their own.
    ByMask,
}

/// How consumer warpgroups share the tensor core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handoff {
    /// The hardware arbitrates.
    Free,
    /// Warpgroups take turns to issue.
    PingPong,
}

/// When the reference of a rescaled fold moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rescale {
    /// To the running maximum, every trip.
    Exact,
    /// Only for rows whose maximum outgrew it by the threshold.
    Lazy,
    /// Stays where the first trips put it; overflow is repaired.
    Fixed,
}

impl Rescale {
    /// As it is written in TOML.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Exact => "exact",
            Self::Lazy => "lazy",
            Self::Fixed => "fixed",
        }
    }
}

/// One output.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StorePlan {
    /// The load whose slot stages the tile, or `own`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub buffer: Option<String>,
}

/// The assembler run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Assembler {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

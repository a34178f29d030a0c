//! What the checker reports: rules, places, violations and warnings.

use std::collections::BTreeSet;
use std::fmt;

use crate::role::print;

use super::flat::Flat;

macro_rules! rules {
    ($($(#[doc = $doc:literal])* $name:ident = $id:literal,)*) => {
        /// A rule; its text form is stable and names it in reports and tests.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Rule { $($(#[doc = $doc])* $name,)* }

        impl Rule {
            /// Every rule.
            pub const ALL: &'static [Rule] = &[$(Rule::$name,)*];

            /// The stable name.
            #[must_use]
            pub fn id(self) -> &'static str {
                match self { $(Rule::$name => $id,)* }
            }
        }
    };
}

rules! {
    /// Every id names something that the program declares.
    UnknownId = "unknown-id",
    /// Extents of tiles are small enough to be meant.
    Extent = "extent",
    /// The producer fills; consumers do everything else; a repair only calculates.
    RoleStatement = "role-statement",
    /// Loops nest at most four deep.
    LoopNesting = "loop-nesting",
    /// Shared memory fits the target, and everything lies inside it.
    SharedSize = "shared-size",
    /// No two objects share bytes.
    SharedOverlap = "shared-overlap",
    /// Swizzled tiles on 1024 bytes, barriers on 8, words on 4.
    SharedAlignment = "shared-alignment",
    /// A slot holds every tile loaded into it.
    SlotSize = "slot-size",
    /// 1 to 3 consumer warpgroups of a multiple of 64 rows, 1 to 4 producer warps.
    Warpgroups = "warpgroups",
    /// `setmaxnreg` takes a multiple of 8 in 24..=256 (PTX ISA 9.7.19.5).
    RegisterCount = "register-count",
    /// The roles' registers come from what the CTA holds at entry.
    RegisterPool = "register-pool",
    /// The producer may only give registers away, consumers may only take some.
    RegisterDirection = "register-direction",
    /// A mailbox exists exactly when blocks are drawn from a counter.
    Mailbox = "mailbox",
    /// Turns need two consumers and the first turn that ping-pong programs hand out.
    TurnPlan = "turn-plan",
    /// The bytes a full barrier expects are those its boxes bring.
    ExpectBytes = "expect-bytes",
    /// A box extent is 1..=256 (`cuTensorMapEncodeTiled`).
    BoxExtent = "box-extent",
    /// A box spans 64 elements of the contiguous dimension, the tile's rows, and one index elsewhere.
    BoxShape = "box-shape",
    /// A tile has rows in steps of 8 up to 256 and columns in steps of 64.
    TileShape = "tile-shape",
    /// One coordinate per tensor dimension.
    CoordRank = "coord-rank",
    /// Element types and access of tensors fit what is done with them.
    TensorAccess = "tensor-access",
    /// Legal wgmma extents (PTX ISA 9.7.15.2).
    MmaShape = "mma-shape",
    /// The accumulator holds the product.
    AccumulatorLayout = "accumulator-layout",
    /// A left operand in registers has the fragment layout.
    OperandLayout = "operand-layout",
    /// An operand in shared memory has the extents and the majorness of its side.
    OperandExtent = "operand-extent",
    /// Operands lie in slots loaded with that tile, or buffers staged with it.
    OperandPlace = "operand-place",
    /// A matrix descriptor reaches 2^18 bytes (PTX ISA 9.7.15.5.1).
    DescriptorRange = "descriptor-range",
    /// The layouts of a calculation agree.
    CalcLayout = "calc-layout",
    /// A register tile is written before it is read, on every path.
    TileUnset = "tile-unset",
    /// A variable is set before it is read, on every path.
    VarUnset = "var-unset",
    /// A handle is used with its own ring.
    HandleRing = "handle-ring",
    /// A loop runs equally often in both roles.
    LoopCount = "loop-count",
    /// A ring is filled as often as it is acquired from.
    FillCount = "fill-count",
    /// A ring is filled with the tiles that are acquired, in that order, at the same coordinates.
    FillOrder = "fill-order",
    /// Only a held slot is released, once.
    ReleaseUnheld = "release-unheld",
    /// Every acquired slot is released before its handle is reused and before the block ends.
    SlotNotReleased = "slot-not-released",
    /// Only a held slot is used.
    SlotUnheld = "slot-unheld",
    /// No slot is released while something of this warp reads it.
    ReleaseWhileRead = "release-while-read",
    /// `wgmma.fence` between ordinary accesses of registers and their use by a dot (PTX ISA 9.7.15.7.1).
    FenceMissing = "fence-missing",
    /// No accumulator is touched between issue and wait.
    AccumulatorInFlight = "accumulator-in-flight",
    /// No register operand is touched between issue and wait.
    OperandInFlight = "operand-in-flight",
    /// No accumulator issued before a back edge is read after a partial wait (the assembler would serialise).
    PartialWaitAcrossBackEdge = "partial-wait-across-back-edge",
    /// Every group is waited for before the block ends.
    InFlightAtExit = "in-flight-at-exit",
    /// Every staged tile is stored or read.
    StageWithoutUse = "stage-without-use",
    /// Only a staged tile is stored.
    StoreWithoutStage = "store-without-stage",
    /// A buffer is staged into after earlier stores have read it.
    StagingBusy = "staging-busy",
    /// A slot is staged over after everything else has read it.
    StageWhileRead = "stage-while-read",
    /// A dot reads a staged tile after it was made visible to the tensor core.
    StagedNotVisible = "staged-not-visible",
    /// No group is in flight where a warp may leave the others for a repair.
    RepairInFlight = "repair-in-flight",
    /// A narrow form leaves out columns on the right of a dot that is alone in flight.
    NarrowForm = "narrow-form",
    /// A slot is not read after a tile was staged over it.
    ReadAfterStage = "read-after-stage",
    /// A slot is filled after everything has read it.
    SlotOverwritten = "slot-overwritten",
    /// Turns are taken and passed alternately, once each.
    TurnBalance = "turn-balance",
    /// Everybody gets to the end.
    Deadlock = "deadlock",
}

/// Where in a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// `producer`, `consumer`, or empty for declarations.
    pub role: &'static str,
    /// Names of the loops around the statement, outermost first.
    pub loops: Vec<String>,
    /// Position within the innermost body.
    pub index: Option<usize>,
    /// The statement as text, or the declared object.
    pub what: String,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.role.is_empty() {
            write!(f, "{}", self.role)?;
            self.loops.iter().try_for_each(|l| write!(f, " / {l}"))?;
            self.index.map_or(Ok(()), |i| write!(f, " [{i}]"))?;
            write!(f, ": ")?;
        }
        write!(f, "`{}`", self.what)
    }
}

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {at}: required: {required}; found: {found}", .rule.id())]
pub struct Violation {
    pub rule: Rule,
    pub at: Path,
    pub required: String,
    pub found: String,
}

/// Something legal that is likely to be slow or unintended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub at: Path,
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.at, self.text)
    }
}

/// The place a report is about.
#[derive(Clone, Copy)]
pub(super) enum At<'s> {
    Site(u32),
    Item(&'s str),
}

/// Collects reports; a rule is reported once per statement.
pub(super) struct Sink<'a, 'p> {
    pub flat: &'a Flat<'p>,
    pub violations: Vec<Violation>,
    pub warnings: Vec<Warning>,
    seen: BTreeSet<(Rule, u32)>,
}

impl<'a, 'p> Sink<'a, 'p> {
    pub fn new(flat: &'a Flat<'p>) -> Self {
        Self {
            flat,
            violations: vec![],
            warnings: vec![],
            seen: BTreeSet::new(),
        }
    }

    pub fn fail(&mut self, rule: Rule, at: At<'_>, required: impl Into<String>, found: impl Into<String>) {
        if let At::Site(site) = at
            && !self.seen.insert((rule, site))
        {
            return;
        }
        let (at, required, found) = (self.path(at), required.into(), found.into());
        self.violations.push(Violation {
            rule,
            at,
            required,
            found,
        });
    }

    pub fn warn(&mut self, at: At<'_>, text: impl Into<String>) {
        let at = self.path(at);
        self.warnings.push(Warning { at, text: text.into() });
    }

    pub fn path(&self, at: At<'_>) -> Path {
        match at {
            At::Item(what) => Path {
                role: "",
                loops: vec![],
                index: None,
                what: what.to_owned(),
            },
            At::Site(site) => {
                let s = &self.flat.sites[site as usize];
                Path {
                    role: if s.producer { "producer" } else { "consumer" },
                    loops: s.loops.iter().map(|l| (*l).to_owned()).collect(),
                    index: Some(s.index),
                    what: print::statement(self.flat.program, s.stmt),
                }
            }
        }
    }

    /// The text of the statement at a site.
    pub fn text(&self, site: u32) -> String {
        print::statement(self.flat.program, self.flat.sites[site as usize].stmt)
    }
}

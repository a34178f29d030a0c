//! The catalogue of rules: one variant each, with the facts that its text shows.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

/// One side of an ordering problem: who touched the bytes, how, and at which PTX line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Access {
    /// For example `warp 5 of CTA rank 0` or `TMA load`.
    pub who: String,
    /// PTX line of the access or of the instruction that issued it.
    pub line: u32,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {})", self.who, self.line)
    }
}

/// A blocked group of lanes, for the report of a deadlock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// `%ctaid`.
    pub cta: [u32; 3],
    /// Warp within the CTA.
    pub warp: u32,
    /// PTX line of the waiting instruction.
    pub line: u32,
    /// `FILE:LINE` of the source behind it, where the text says so by `.loc`.
    pub source: Option<Arc<str>>,
    /// What it waits for, and what is true of that.
    pub on: String,
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [x, y, z] = self.cta;
        write!(f, "CTA ({x}, {y}, {z}) warp {} at line {}", self.warp, self.line)?;
        if let Some(source) = &self.source {
            write!(f, " ({source})")?;
        }
        write!(f, " waits for {}", self.on)
    }
}

fn lines(waits: &[Wait]) -> String {
    waits.iter().map(|w| format!("\n  {w}")).collect()
}

/// What was found.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum FindingKind {
    /// A register is read before any write.
    #[error("register `{register}` is read before it was written")]
    UninitRegister {
        /// Its name in the PTX text.
        register: String,
    },
    /// Shared bytes are read before any write.
    #[error("{who} reads shared memory at {address:#x} that nobody has written")]
    UninitShared {
        /// Reader.
        who: String,
        /// Address in the shared window.
        address: u32,
    },
    /// Global bytes are read that neither the host nor the kernel has written.
    #[error("{who} reads global memory at {address:#x} that neither host nor kernel has written")]
    UninitGlobal {
        /// Reader.
        who: String,
        /// First such byte.
        address: u64,
    },
    /// A second store to an output.
    #[error(
        "{who} global memory at {address:#x}, which this launch has stored before: an element of an output has one writer"
    )]
    StoredTwice {
        /// Who.
        who: String,
        /// First such byte.
        address: u64,
    },
    /// An access outside every allocation.
    #[error("{what} of {bytes} bytes at {address:#x} is out of bounds: {near}")]
    OutOfBounds {
        /// Access and state space.
        what: String,
        /// First byte.
        address: u64,
        /// Size.
        bytes: u64,
        /// What lies there.
        near: String,
    },
    /// An address that is not a multiple of its access size.
    #[error("{what} at {address:#x} is misaligned: a multiple of {align} bytes is required")]
    Misaligned {
        /// Access and state space.
        what: String,
        /// Address.
        address: u64,
        /// Requirement.
        align: u64,
    },
    /// An accumulator or A register is touched while a wgmma uses it.
    #[error(
        "register `{register}` is {touched} while the wgmma of line {wgmma_line} still has it in flight; \
         wgmma.wait_group must come first"
    )]
    RegisterInFlight {
        /// Its name.
        register: String,
        /// `read` or `written`.
        touched: &'static str,
        /// Line of the wgmma.
        wgmma_line: u32,
    },
    /// Ordinary accesses to wgmma registers without a fence.
    #[error(
        "register `{register}` was {touched} by ordinary code after the last wgmma.fence; a wgmma.fence must stand \
         between that and this wgmma"
    )]
    MissingWgmmaFence {
        /// Its name.
        register: String,
        /// `read` (accumulators) or `written`.
        touched: &'static str,
    },
    /// Generic writes read by the async proxy without a proxy fence.
    #[error(
        "shared {address:#x} was written by {writer} through the generic proxy and is now accessed by {reader} through \
         the async proxy: fence.proxy.async by the writer, then a barrier, must stand between them"
    )]
    MissingProxyFence {
        /// Address in the shared window.
        address: u32,
        /// Writer.
        writer: Access,
        /// The asynchronous access.
        reader: Access,
    },
    /// Two unordered accesses of which one writes.
    #[error("data race at shared {address:#x}: {later} is not ordered after {earlier}")]
    Race {
        /// Address in the shared window.
        address: u32,
        /// The access seen first.
        earlier: Access,
        /// The access that is not ordered after it.
        later: Access,
    },
    /// Bytes of an asynchronous copy are read before its completion was waited for.
    #[error("shared {address:#x} is read by {reader} without waiting for {writer} to complete")]
    ReadBeforeArrival {
        /// Address in the shared window.
        address: u32,
        /// The copy in flight.
        writer: Access,
        /// The early reader.
        reader: Access,
    },
    /// A slot is overwritten while an asynchronous operation may still read it.
    #[error(
        "shared {address:#x} is overwritten by {writer} while {reader} may still read it: the release must follow the \
         reader's wait"
    )]
    OverwriteInUse {
        /// Address in the shared window.
        address: u32,
        /// The reader that is not known to be done.
        reader: Access,
        /// The write.
        writer: Access,
    },
    /// A staging buffer is written before its bulk store has read it.
    #[error(
        "shared {address:#x} is overwritten by {writer} while {reader} may still read it: cp.async.bulk.wait_group.read \
         by the storing thread, then a barrier, must come first"
    )]
    StagingReuse {
        /// Address in the shared window.
        address: u32,
        /// The bulk store.
        reader: Access,
        /// The write.
        writer: Access,
    },
    /// The bytes announced to an mbarrier are not the bytes that arrive.
    #[error("{mbarrier}: {what}")]
    ExpectTx {
        /// Which barrier.
        mbarrier: String,
        /// Announced against arrived.
        what: String,
    },
    /// More arrivals than a phase has room for.
    #[error("{mbarrier}: {arrivals} arrivals come where {pending} are pending in phase {phase} (count {count})")]
    OverArrival {
        /// Which barrier.
        mbarrier: String,
        /// Arrivals of the instruction.
        arrivals: u64,
        /// Pending count before it.
        pending: u64,
        /// Phase index.
        phase: u64,
        /// Count given at init.
        count: u64,
    },
    /// A waiter was passed by two phases.
    #[error(
        "{mbarrier}: phase {waited} was waited for, and phase {now} is open already: the barrier ran on without this \
         waiter"
    )]
    MissedPhase {
        /// Which barrier.
        mbarrier: String,
        /// Phase whose end was awaited.
        waited: u64,
        /// Phase that is open now.
        now: u64,
    },
    /// An operation on bytes that are no mbarrier.
    #[error("{what} at shared {address:#x}, where no mbarrier is initialised")]
    NoMbarrier {
        /// Operation.
        what: String,
        /// Address.
        address: u32,
    },
    /// A bad init: count out of range or a barrier that is in use.
    #[error("mbarrier.init at shared {address:#x}: {what}")]
    BadMbarrierInit {
        /// Address.
        address: u32,
        /// What is wrong.
        what: String,
    },
    /// An mbarrier is used without being ordered after its init.
    #[error("{user} uses {mbarrier} without being ordered after its mbarrier.init (line {init_line}): {need}")]
    MbarrierInitUnordered {
        /// Which barrier.
        mbarrier: String,
        /// Who uses it.
        user: String,
        /// Line of the init.
        init_line: u32,
        /// What is missing.
        need: &'static str,
    },
    /// Ordinary access to the bytes of an mbarrier.
    #[error("{who} accesses the bytes of the mbarrier at shared {address:#x}")]
    MbarrierBytes {
        /// Who.
        who: String,
        /// Address.
        address: u32,
    },
    /// Participants of a named barrier disagree.
    #[error("named barrier {id}: {what}")]
    NamedBarrier {
        /// Barrier number.
        id: u64,
        /// What disagrees.
        what: String,
    },
    /// An `.aligned` instruction under divergent control flow.
    #[error("`.aligned` instruction under divergence: {what}")]
    AlignedDivergence {
        /// Which lanes are where.
        what: String,
    },
    /// A member mask names lanes that do not take part.
    #[error("member mask {mask:#010x}: {what}")]
    MemberMask {
        /// The mask.
        mask: u32,
        /// What is wrong.
        what: String,
    },
    /// setmaxnreg against the rules of the register pool.
    #[error("setmaxnreg: {what}")]
    RegisterPool {
        /// What is wrong.
        what: String,
    },
    /// A CTA or thread ends with asynchronous work that nobody waited for.
    #[error("exit with {what} still in flight")]
    ExitInFlight {
        /// Which work.
        what: String,
    },
    /// Nobody can go on.
    #[error("deadlock: no warp can go on{}", lines(.waits))]
    Deadlock {
        /// Who waits for what.
        waits: Vec<Wait>,
    },
    /// More instructions than allowed.
    #[error("instruction budget of {budget} warp instructions is used up{}", lines(.waits))]
    Budget {
        /// The limit.
        budget: u64,
        /// Who waits for what at that time.
        waits: Vec<Wait>,
    },
    /// `trap`.
    #[error("trap")]
    Trap,
    /// A wgmma operand or its collective execution is illegal.
    #[error("wgmma: {what}")]
    Wgmma {
        /// What is wrong.
        what: String,
    },
    /// A tensor copy is illegal.
    #[error("tensor copy: {what}")]
    TensorCopy {
        /// What is wrong.
        what: String,
    },
    /// Any other illegal operand.
    #[error("{what}")]
    Illegal {
        /// What was asked and what would be allowed.
        what: String,
    },
}

//! Faults to plant: text edits of the two good kernels, and what must be found.
//!
//! The example `planted_faults` of `runner` reads this file too.

use warpwright_sim::{ARows, DeviceConfig, FindingKind};

use super::attention::{CAUSAL, FULL, Problem, Sample};

/// One edit: the `nth` occurrence (from 0) of `from` becomes `to`.
pub struct Edit {
    from: &'static str,
    nth: usize,
    to: &'static str,
}

/// A planted fault.
pub struct Case {
    pub name: &'static str,
    pub sample: &'static Sample,
    edits: &'static [Edit],
    /// Accepts the finding that must be there.
    pub wanted: fn(&FindingKind) -> bool,
}

/// The last fault: output bytes that nobody stores, which is no finding but what `unwritten` of a buffer says.
pub const UNWRITTEN: &str = "half of the columns is never stored";

const fn edit(from: &'static str, nth: usize, to: &'static str) -> Edit {
    Edit { from, nth, to }
}

/// The text of the kernel with the fault in it.
pub fn mutate(case: &Case) -> String {
    let mut text = case.sample.text.to_owned();
    for Edit { from, nth, to } in case.edits {
        let found = text.match_indices(from).nth(*nth);
        let (at, _) = found.unwrap_or_else(|| panic!("{}: `{from}` number {nth} is not in the text", case.name));
        text.replace_range(at..at + from.len(), to);
    }
    text
}

macro_rules! kind {
    ($pattern:pat) => {
        |kind| matches!(kind, $pattern)
    };
}

use FindingKind as F;

const WAIT_K_CAUSAL: &str =
    "{ .reg .pred pw; W7: mbarrier.try_wait.parity.shared::cta.b64 pw,[%r31+196624],%r21; @!pw bra W7; }";
const WAIT_MAILBOX: &str =
    "{ .reg .pred pw; W12: mbarrier.try_wait.parity.shared::cta.b64 pw,[%r2+196688],%r41; @!pw bra W12; }";
const WAIT_MAILBOX_FREE: &str =
    "{ .reg .pred pw; W4: mbarrier.try_wait.parity.shared::cta.b64 pw,[%r2+196696],%r41; @!pw bra W4; }";
const WAIT_SLOT: &str =
    "{ .reg .pred pw; W2: mbarrier.try_wait.parity.shared::cta.b64 pw,[%r23+131104],%r21; @!pw bra W2; }";
const RELEASE_K: &str =
    "{ .reg .b32 t; shl.b32 t,%r20,3; add.u32 t,t,%r2; @%p5 mbarrier.arrive.shared::cta.b64 _,[t+131104]; }";
const RELEASE_V: &str =
    "{ .reg .b32 t; shl.b32 t,%r28,3; add.u32 t,t,%r2; @%p5 mbarrier.arrive.shared::cta.b64 _,[t+131136]; }";
const EPILOGUE_BARRIER: &str = "{ .reg .b32 t; add.u32 t,%r25,5; bar.sync t,128; }";

/// Every fault.
#[rustfmt::skip]
pub const CASES: &[Case] = &[
    Case { name: "no proxy fence before the TMA store", sample: &FULL,
        edits: &[edit("fence.proxy.async.shared::cta;", 0, "")], wanted: kind!(F::MissingProxyFence { .. }) },
    Case { name: "no proxy fence, own O buffer", sample: &CAUSAL,
        edits: &[edit("fence.proxy.async.shared::cta;", 0, "")], wanted: kind!(F::MissingProxyFence { .. }) },
    Case { name: "no barrier between stmatrix and TMA store", sample: &FULL,
        edits: &[edit(EPILOGUE_BARRIER, 0, "")],
        wanted: kind!(F::Race { .. } | F::MissingProxyFence { .. } | F::StagingReuse { .. }) },
    Case { name: "expect-tx of K announces half", sample: &FULL,
        edits: &[edit("_,[%r23+131088],20480", 0, "_,[%r23+131088],10240")], wanted: kind!(F::ExpectTx { .. }) },
    Case { name: "expect-tx of Q announces too much", sample: &FULL,
        edits: &[edit("_,[%r2+131072],49152", 0, "_,[%r2+131072],49168")], wanted: kind!(F::ExpectTx { .. }) },
    Case { name: "expect-tx too large hangs", sample: &FULL,
        edits: &[edit("_,[%r23+131120],20480", 0, "_,[%r23+131120],20496")], wanted: kind!(F::Deadlock { .. }) },
    Case { name: "V signals the barrier of K", sample: &FULL,
        edits: &[edit("add.u32 b,%r23,131120", 1, "add.u32 b,%r23,131088")],
        wanted: kind!(F::ExpectTx { .. } | F::ReadBeforeArrival { .. }) },
    Case { name: "release of K dropped", sample: &FULL,
        edits: &[edit(RELEASE_K, 1, "")], wanted: kind!(F::Deadlock { .. }) },
    Case { name: "release of V twice", sample: &FULL,
        edits: &[edit(RELEASE_V, 0, "{ .reg .b32 t; shl.b32 t,%r28,3; add.u32 t,t,%r2; @%p5 mbarrier.arrive.shared::cta.b64 _,[t+131136]; \
            @%p5 mbarrier.arrive.shared::cta.b64 _,[t+131136]; }")],
        wanted: kind!(F::OverwriteInUse { .. } | F::OverArrival { .. } | F::MissedPhase { .. }) },
    Case { name: "release of V before the wait", sample: &FULL,
        edits: &[edit(RELEASE_V, 0, ""), edit("wgmma.wait_group.sync.aligned 0;", 1, "{ .reg .b32 t; shl.b32 t,%r28,3; add.u32 t,t,%r2; \
            @%p5 mbarrier.arrive.shared::cta.b64 _,[t+131136]; } wgmma.wait_group.sync.aligned 0;")],
        wanted: kind!(F::OverwriteInUse { .. }) },
    Case { name: "empty barrier of K counts one warp fewer", sample: &FULL,
        edits: &[edit("[%r2+131104],12", 0, "[%r2+131104],11")],
        wanted: kind!(F::OverwriteInUse { .. } | F::OverArrival { .. } | F::MissedPhase { .. }) },
    Case { name: "empty barrier of K counts one warp more", sample: &FULL,
        edits: &[edit("[%r2+131104],12", 0, "[%r2+131104],13")], wanted: kind!(F::Deadlock { .. }) },
    Case { name: "all lanes release where one should", sample: &FULL,
        edits: &[edit("@%p5 mbarrier.arrive.shared::cta.b64 _,[t+131104]", 1, "mbarrier.arrive.shared::cta.b64 _,[t+131104]")],
        wanted: kind!(F::OverArrival { .. }) },
    Case { name: "consumer starts with the wrong parity", sample: &FULL,
        edits: &[edit("mov.u32 %r21,0;", 0, "mov.u32 %r21,1;")],
        wanted: kind!(F::ReadBeforeArrival { .. } | F::UninitShared { .. } | F::Deadlock { .. }) },
    Case { name: "producer starts with the wrong parity", sample: &FULL,
        edits: &[edit("mov.u32 %r21,1;", 0, "mov.u32 %r21,0;")], wanted: kind!(F::Deadlock { .. }) },
    Case { name: "producer does not wait for a free slot", sample: &FULL,
        edits: &[edit(WAIT_SLOT, 0, "")],
        wanted: kind!(F::OverwriteInUse { .. } | F::Race { .. } | F::OverArrival { .. }) },
    Case { name: "consumer does not wait for K", sample: &CAUSAL,
        edits: &[edit(WAIT_K_CAUSAL, 0, "")], wanted: kind!(F::ReadBeforeArrival { .. } | F::UninitShared { .. }) },
    Case { name: "wait_group before the first softmax removed", sample: &FULL,
        edits: &[edit("wgmma.wait_group.sync.aligned 0;", 0, "")], wanted: kind!(F::RegisterInFlight { touched: "read", .. }) },
    Case { name: "wait_group before the A registers are written removed", sample: &FULL,
        edits: &[edit("wgmma.wait_group.sync.aligned 0;", 1, "")], wanted: kind!(F::RegisterInFlight { touched: "written", .. }) },
    Case { name: "partial wait leaves QK pending", sample: &FULL,
        edits: &[edit("wgmma.wait_group.sync.aligned 1;", 0, "wgmma.wait_group.sync.aligned 2;")],
        wanted: kind!(F::RegisterInFlight { .. }) },
    Case { name: "no wgmma.fence in the loop", sample: &FULL,
        edits: &[edit("wgmma.fence.sync.aligned;", 1, ""), edit("wgmma.fence.sync.aligned;", 1, "")],
        wanted: kind!(F::MissingWgmmaFence { .. }) },
    Case { name: "no wgmma.fence in the tail", sample: &CAUSAL,
        edits: &[edit("wgmma.fence.sync.aligned;", 2, "")], wanted: kind!(F::MissingWgmmaFence { .. }) },
    Case { name: "no wgmma.commit_group", sample: &FULL,
        edits: &[edit("wgmma.commit_group.sync.aligned;", 0, "")], wanted: kind!(F::RegisterInFlight { .. }) },
    Case { name: "staging reused without wait_group.read", sample: &FULL,
        edits: &[edit("cp.async.bulk.wait_group.read 0;", 0, "")], wanted: kind!(F::StagingReuse { .. }) },
    Case { name: "own O buffer reused without wait_group.read", sample: &CAUSAL,
        edits: &[edit("@z cp.async.bulk.wait_group.read 0;", 0, "")], wanted: kind!(F::StagingReuse { .. }) },
    Case { name: "only the storing thread waits for the store", sample: &CAUSAL,
        edits: &[edit(EPILOGUE_BARRIER, 0, "")], wanted: kind!(F::StagingReuse { .. }) },
    Case { name: "exit without draining the stores", sample: &CAUSAL,
        edits: &[edit("CDONE: cp.async.bulk.wait_group 0;", 0, "CDONE:")], wanted: kind!(F::ExitInFlight { .. }) },
    Case { name: "no commit of the stores", sample: &CAUSAL,
        edits: &[edit("cp.async.bulk.commit_group;", 0, "")], wanted: kind!(F::StagingReuse { .. } | F::ExitInFlight { .. }) },
    Case { name: "barrier counts one warp more", sample: &FULL,
        edits: &[edit("bar.sync t,128", 0, "bar.sync t,160")], wanted: kind!(F::Deadlock { .. } | F::NamedBarrier { .. }) },
    Case { name: "barrier counts one warp fewer", sample: &FULL,
        edits: &[edit("bar.sync t,128", 0, "bar.sync t,96")], wanted: kind!(F::Deadlock { .. } | F::NamedBarrier { .. }) },
    Case { name: "barrier count is no multiple of a warp", sample: &FULL,
        edits: &[edit("bar.sync t,128", 0, "bar.sync t,100")], wanted: kind!(F::NamedBarrier { .. }) },
    Case { name: "barrier number out of range", sample: &FULL,
        edits: &[edit("add.u32 t,%r25,5; bar.sync t,128", 0, "add.u32 t,%r25,16; bar.sync t,128")], wanted: kind!(F::NamedBarrier { .. }) },
    Case { name: "aligned barrier for one lane", sample: &FULL,
        edits: &[edit("INITDONE: bar.sync 0;", 0, "INITDONE: @%p0 bar.sync 0;")], wanted: kind!(F::AlignedDivergence { .. }) },
    Case { name: "setmaxnreg asks for more than the pool holds", sample: &FULL,
        edits: &[edit("inc.sync.aligned.u32 160", 0, "inc.sync.aligned.u32 168")], wanted: kind!(F::RegisterPool { .. }) },
    Case { name: "producer keeps its registers", sample: &FULL,
        edits: &[edit("setmaxnreg.dec.sync.aligned.u32 32;", 0, "")], wanted: kind!(F::RegisterPool { .. } | F::Deadlock { .. }) },
    Case { name: "setmaxnreg without .minnctapersm", sample: &FULL,
        edits: &[edit(".minnctapersm 1", 0, "")], wanted: kind!(F::RegisterPool { .. }) },
    Case { name: "inits are not fenced", sample: &FULL,
        edits: &[edit("fence.mbarrier_init.release.cluster;", 0, "")], wanted: kind!(F::MbarrierInitUnordered { .. }) },
    Case { name: "inits are not published by a barrier", sample: &FULL,
        edits: &[edit("INITDONE: bar.sync 0;", 0, "INITDONE:")],
        wanted: kind!(F::MbarrierInitUnordered { .. } | F::NoMbarrier { .. }) },
    Case { name: "one barrier is not initialised", sample: &FULL,
        edits: &[edit("mbarrier.init.shared::cta.b64 [%r2+131136],12;", 0, "")], wanted: kind!(F::NoMbarrier { .. }) },
    Case { name: "barrier initialised twice", sample: &FULL,
        edits: &[edit("[%r2+131104],12;", 0, "[%r2+131088],12;")], wanted: kind!(F::BadMbarrierInit { .. }) },
    Case { name: "box not aligned to 128 bytes", sample: &FULL,
        edits: &[edit("add.u32 a,%r24,49152", 0, "add.u32 a,%r24,49168")], wanted: kind!(F::Misaligned { .. }) },
    Case { name: "stmatrix over a barrier", sample: &FULL,
        edits: &[edit("[ad+24576],{%e28", 0, "[ad+106656],{%e28")], wanted: kind!(F::MbarrierBytes { .. }) },
    Case { name: "stmatrix past shared memory", sample: &FULL,
        edits: &[edit("[ad+24576],{%e28", 0, "[ad+240000],{%e28")], wanted: kind!(F::OutOfBounds { .. }) },
    Case { name: "descriptor past shared memory", sample: &FULL,
        edits: &[edit("add.u32 t,%r2,90112;", 0, "add.u32 t,%r2,131072;")], wanted: kind!(F::Wgmma { .. } | F::MbarrierBytes { .. }) },
    Case { name: "accumulator never initialised", sample: &CAUSAL,
        edits: &[edit("mov.f32 %o5,0f00000000;", 0, "")], wanted: kind!(F::UninitRegister { .. }) },
    Case { name: "scale-d accumulates on nothing", sample: &FULL,
        edits: &[edit("setp.ne.b32 z,0,0;", 0, "setp.ne.b32 z,1,0;")], wanted: kind!(F::UninitRegister { .. }) },
    Case { name: "mailbox read without waiting", sample: &CAUSAL,
        edits: &[edit(WAIT_MAILBOX, 0, "")], wanted: kind!(F::Race { .. } | F::UninitShared { .. }) },
    Case { name: "mailbox written without waiting", sample: &CAUSAL,
        edits: &[edit(WAIT_MAILBOX_FREE, 0, "")], wanted: kind!(F::Race { .. } | F::OverArrival { .. } | F::MissedPhase { .. }) },
    Case { name: "shuffle with lanes that are elsewhere", sample: &FULL,
        edits: &[edit("shfl.sync.bfly.b32 b,%f10,1,31,-1;", 0, "@%p5 shfl.sync.bfly.b32 b,%f10,1,31,-1;")],
        wanted: kind!(F::MemberMask { .. }) },
    Case { name: "endless loop", sample: &FULL,
        edits: &[edit("CT: setp.ge.u32", 0, "CT: bra CT; setp.ge.u32")], wanted: kind!(F::Budget { .. }) },
    Case { name: "trap", sample: &FULL,
        edits: &[edit("CDONE: ", 0, "CDONE: trap; ")], wanted: kind!(F::Trap) },
    Case { name: "one warp of a warpgroup leaves", sample: &FULL,
        edits: &[edit("CT: setp.ge.u32", 0, "{ .reg .pred z; setp.eq.u32 z,%r27,3; @z bra CDONE; } CT: setp.ge.u32")],
        wanted: kind!(F::Deadlock { .. }) },
    Case { name: "one half of the columns is stored twice", sample: &FULL,
        edits: &[edit("[%d3,{64,y,", 0, "[%d3,{0,y,")], wanted: kind!(F::StoredTwice { .. }) },
    Case { name: "a tile is drawn again and again", sample: &CAUSAL,
        edits: &[edit("atom.global.add.u32 %r40,[a],1;", 0, "atom.global.add.u32 %r40,[a],0;")],
        wanted: kind!(F::StoredTwice { .. } | F::Budget { .. }) },
    Case { name: "the counter of tiles lies behind its buffer", sample: &CAUSAL,
        edits: &[edit("atom.global.add.u32 %r40,[a],1;", 0, "atom.global.add.u32 %r40,[a+4096],1;")],
        wanted: kind!(F::OutOfBounds { .. }) },
    Case { name: "the tile number is written two bytes off", sample: &CAUSAL,
        edits: &[edit("st.shared.u32 [%r2+196704]", 0, "st.shared.u32 [%r2+196706]")], wanted: kind!(F::Misaligned { .. }) },
    Case { name: "two buffers on one place", sample: &FULL,
        edits: &[edit("add.u32 a,%r24,49152", 0, "add.u32 a,%r24,90112"), edit("add.u32 a,%r24,59392", 0, "add.u32 a,%r24,100352")],
        wanted: kind!(F::UninitShared { .. } | F::OverwriteInUse { .. } | F::Race { .. } | F::ReadBeforeArrival { .. }) },
    Case { name: "aligned wgmma.fence for one lane", sample: &FULL,
        edits: &[edit("wgmma.fence.sync.aligned;", 1, "@%p5 wgmma.fence.sync.aligned;")], wanted: kind!(F::AlignedDivergence { .. }) },
    Case { name: UNWRITTEN, sample: &FULL,
        edits: &[edit("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%d3,{64,y,%r15,%r14}],[a];", 0, "")], wanted: |_| false },
];

const PROBLEM_FULL: Problem = Problem {
    batch: 1,
    heads: 1,
    kv_heads: 1,
    q_len: 384,
    k_len: 320,
    causal: false,
};
const PROBLEM_CAUSAL: Problem = Problem {
    batch: 1,
    heads: 8,
    kv_heads: 8,
    q_len: 256,
    k_len: 256,
    causal: true,
};

pub fn config(seed: u64) -> DeviceConfig {
    // One SM for the full kernel, so that its CTA handles several tiles.
    DeviceConfig {
        seed,
        sm_count: 1,
        instruction_budget: 500_000,
        a_rows: ARows::OwnWarp,
        ..DeviceConfig::default()
    }
}

/// What a kernel is run on.
pub fn problem(sample: &Sample) -> Problem {
    if sample.dynamic { PROBLEM_CAUSAL } else { PROBLEM_FULL }
}

//! The snippets.

use std::fmt::Write;

use super::SOURCE_AT;

/// Operations of a snippet, unless it says otherwise.
const COUNT: usize = 64;
/// Registers `%f` and `%r` that a snippet may change: neighbours in a stream use different ones.
const CHAINS: usize = 32;
/// Products between two waits.
const TURN: usize = 16;

/// What one warpgroup executes.
#[derive(Clone, Debug)]
pub struct Group {
    pub what: String,
    pub body: String,
    /// How often: short bodies in loops, or a stream would run at the speed at which cold instructions are fetched.
    trips: usize,
    /// Operations in all trips.
    pub ops: usize,
    /// Accumulators of its products: registers `%f` after those of the chains.
    accumulators: usize,
}

/// One snippet.
#[derive(Clone, Debug)]
pub struct Micro {
    pub name: String,
    pub groups: Vec<Group>,
    /// CTAs on the GPU, one an SM.
    pub ctas: u32,
}

impl Micro {
    fn new(name: &str, groups: Vec<Group>) -> Self {
        Self {
            name: name.to_owned(),
            groups,
            ctas: 1,
        }
    }

    pub fn threads(&self) -> u32 {
        128 * self.groups.len() as u32
    }
}

/// One instruction of a stream, on chain `i`.
fn instruction(op: &str, i: usize) -> String {
    let f = format!("%f{}", i % CHAINS);
    match op {
        "fma" => format!("fma.rn.f32 {f},{f},%f190,%f191;\n"),
        "add" => format!("add.f32 {f},{f},%f190;\n"),
        "mul" => format!("mul.f32 {f},{f},%f190;\n"),
        "max" => format!("max.f32 {f},{f},%f190;\n"),
        "ex2" => format!("ex2.approx.ftz.f32 {f},{f};\n"),
        "pack" => format!(
            "cvt.rn.bf16x2.f32 %r{},{f},%f190; xor.b32 %r0,%r0,%r{0};\n",
            1 + i % CHAINS
        ),
        "int" => format!("add.s32 %r{0},%r{0},%r{1};\n", i % CHAINS, (i + 7) % CHAINS),
        "shl" => format!("shf.l.wrap.b32 %r{0},%r{0},%r{1},3;\n", i % CHAINS, (i + 7) % CHAINS),
        other => format!("// no instruction {other}\n"),
    }
}

/// A stream that repeats `ops` until it has at least `count` instructions: each on its own chain.
fn stream(ops: &str, count: usize) -> Group {
    let names: Vec<&str> = ops.split(' ').collect();
    let trips = count.div_ceil(COUNT);
    Group {
        what: ops.to_owned(),
        body: (0..COUNT).map(|i| instruction(names[i % names.len()], i)).collect(),
        trips,
        ops: COUNT * trips,
        accumulators: 0,
    }
}

/// One chain of dependent instructions.
fn chain(op: &str) -> Group {
    Group {
        what: op.to_owned(),
        body: (0..COUNT).map(|_| instruction(op, 0)).collect(),
        trips: 1,
        ops: COUNT,
        accumulators: 0,
    }
}

fn lines(what: &str, line: impl Fn(usize) -> String) -> Group {
    Group {
        what: what.to_owned(),
        body: (0..COUNT).map(line).collect(),
        trips: 1,
        ops: COUNT,
        accumulators: 0,
    }
}

/// `count` products with A from shared memory or from registers.
fn products(n: usize, registers: bool, count: usize) -> Group {
    let acc: Vec<String> = (0..n / 2).map(|i| format!("%f{}", 32 + i)).collect();
    let a = if registers { "{%r40,%r41,%r42,%r43}" } else { "%d8" };
    let more = if registers { "1" } else { "0, 1" };
    // Set here: from before a branch, the assembler finds no registers in a row for them.
    let mut body: String = (0..4).map(|i| format!("add.u32 %r4{i},%r60,{i};\n")).collect();
    body += "mov.u32 %r50,smem; shr.u32 %r50,%r50,4; mov.b64 %d8,{%r50,1073741888}; mov.b64 %d9,{%r50,1073741888};\n";
    body += "wgmma.fence.sync.aligned;\n";
    let (trips, each) = if count > TURN { (count / TURN, TURN) } else { (1, count) };
    for _ in 0..each {
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{}}}, {a}, %d9, 1, 1, 1, {more};",
            acc.join(",")
        );
    }
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    Group {
        what: format!("{count} wgmma n{n}"),
        body,
        trips,
        ops: count,
        accumulators: n / 2,
    }
}

/// Products that are waited for one by one.
fn awaited(n: usize) -> Group {
    let one = products(n, true, 1).body;
    Group {
        what: format!("wgmma n{n}, wait"),
        body: one.repeat(COUNT),
        trips: 1,
        ops: COUNT,
        accumulators: n / 2,
    }
}

/// One bulk load of `bytes` by one thread of each CTA, from another place of global memory.
fn bulk(bytes: usize, count: usize) -> Group {
    let mut body = format!(
        "{{ .reg .pred %pl; .reg .b32 %m; .reg .b64 %src; .reg .b32 %c; .reg .b32 %w; .reg .b64 %off;\n\
         mov.u32 %c,%ctaid.x; mul.lo.u32 %c,%c,{bytes}; cvt.u64.u32 %off,%c; add.u64 %src,%d0,%off; add.u64 %src,%src,{SOURCE_AT};\n\
         mov.u32 %m,smem; add.u32 %w,%m,1024; setp.eq.u32 %pl,%r60,0;\n"
    );
    for phase in 0..count {
        let _ = write!(
            body,
            "@%pl mbarrier.arrive.expect_tx.shared::cta.b64 _,[%m],{bytes};\n\
             @%pl cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%w],[%src],{bytes},[%m];\n\
             W{phase}_{bytes}: mbarrier.try_wait.parity.shared::cta.b64 %p3,[%m],{}; @!%p3 bra W{phase}_{bytes};\n",
            phase % 2
        );
    }
    body += "}\n";
    Group {
        what: format!("bulk load {bytes}"),
        body,
        trips: 1,
        ops: count,
        accumulators: 0,
    }
}

/// Every snippet.
pub fn all() -> Vec<Micro> {
    let single = |name: &str, group: Group| Micro::new(name, vec![group]);
    let mut out = vec![
        single("empty", lines("", |_| String::new())),
        single("fma_chain", chain("fma")),
        single("ex2_chain", chain("ex2")),
        single("int_chain", chain("int")),
        single(
            "shuffle_chain",
            lines("shuffle", |_| {
                "shfl.sync.bfly.b32 %r0,%r0,1,31,0xffffffff;\n".to_owned()
            }),
        ),
        single(
            "try_wait",
            lines("", |i| {
                format!("T{i}: mbarrier.try_wait.parity.shared::cta.b64 %p3,[%r53],1; @!%p3 bra T{i};\n")
            }),
        ),
        single("bar_one", lines("", |_| "bar.sync 1,128;\n".to_owned())),
        single(
            "branch",
            lines("", |i| format!("bra T{i}; T{i}: add.s32 %r0,%r0,%r1;\n")),
        ),
        Micro::new("bar_pair", vec![lines("bar", |_| "bar.sync 1,256;\n".to_owned()); 2]),
    ];
    for op in ["fma", "add", "mul", "max", "ex2", "pack", "int", "shl"] {
        out.push(single(&format!("{op}_rate"), stream(op, 256)));
    }
    out.extend(mixed());
    for n in [64, 80, 128, 176] {
        if n < 176 {
            out.push(single(&format!("wgmma_rs_n{n}"), products(n, true, COUNT)));
            out.push(single(&format!("wgmma_wait_n{n}"), awaited(n)));
        }
        out.push(single(&format!("wgmma_ss_n{n}"), products(n, false, COUNT)));
    }
    out.extend(turns());
    out.extend(beside());
    for (bytes, count) in [(1024, 8), (16384, 8), (65536, 4)] {
        out.push(single(&format!("bulk_{bytes}"), bulk(bytes, count)));
        out.push(Micro {
            ctas: 132,
            ..single(&format!("bulk_{bytes}_all"), bulk(bytes, count))
        });
    }
    out
}

/// Streams of several pipes, by one, two and three warps of each sub-partition.
fn mixed() -> Vec<Micro> {
    let mut out = Vec::new();
    for ops in [
        "fma max",
        "fma ex2",
        "max ex2",
        "fma max ex2 add",
        "fma int",
        "fma shl",
        "max shl",
    ] {
        for groups in 1..=3 {
            let name = format!("{}_x{groups}", ops.replace(' ', "_"));
            out.push(Micro::new(&name, vec![stream(ops, 240); groups]));
        }
    }
    for (a, b) in [("fma", "max"), ("fma", "ex2"), ("max", "ex2")] {
        out.push(Micro::new(
            &format!("{a}_beside_{b}"),
            vec![stream(a, 240), stream(b, 240)],
        ));
    }
    out
}

/// Which warpgroup's product is next.
fn turns() -> Vec<Micro> {
    let of = |name: &str, counts: &[usize], n| {
        Micro::new(name, counts.iter().map(|count| products(n, true, *count)).collect())
    };
    vec![
        of("turns_two", &[64, 64], 128),
        of("turns_three", &[64, 64, 64], 128),
        of("turns_long_short", &[64, 8], 128),
        of("turns_short_long", &[8, 64], 128),
        of("turns_three_short", &[64, 8, 8], 128),
        of("turns_n80", &[64, 8], 80),
    ]
}

/// Arithmetic of other warps while the tensor core is busy: 64 products of 64 cycles.
fn beside() -> Vec<Micro> {
    let mut out = Vec::new();
    for (op, counts) in [
        ("fma", &[1024, 4096][..]),
        ("add", &[4096]),
        ("mul", &[4096]),
        ("max", &[1024, 2048]),
        ("ex2", &[512]),
        ("pack", &[1024]),
        ("int", &[4096]),
        ("shl", &[2048]),
    ] {
        for count in counts {
            let groups = vec![products(128, true, COUNT), stream(op, *count)];
            out.push(Micro::new(&format!("wgmma_beside_{op}_{count}"), groups));
        }
    }
    for ops in [
        "fma",
        "fma ex2",
        "fma fma fma ex2",
        "fma max ex2 add",
        "fma ex2 max add pack",
    ] {
        let groups = vec![products(128, true, 64), products(128, true, 64), stream(ops, 3200)];
        out.push(Micro::new(
            &format!("two_wgmma_beside_{}", ops.replace(' ', "_")),
            groups,
        ));
    }
    for registers in [false, true] {
        let kind = if registers { "rs" } else { "ss" };
        let groups = vec![
            products(128, registers, COUNT),
            stream("fma", 2048),
            stream("fma", 2048),
        ];
        out.push(Micro::new(&format!("wgmma_{kind}_beside_two_fma"), groups));
    }
    for ops in [
        "fma ex2",
        "fma max",
        "fma fma fma ex2",
        "fma fma max",
        "fma ex2 max add pack",
    ] {
        for others in [1, 2] {
            let mut groups = vec![products(128, true, 128)];
            groups.extend(vec![stream(ops, 3200); others]);
            out.push(Micro::new(
                &format!("wgmma_beside_{}_x{others}", ops.replace(' ', "_")),
                groups,
            ));
        }
    }
    let softmax = stream("fma max ex2 add", 1280);
    out.push(Micro::new(
        "wgmma_beside_softmax",
        vec![products(128, true, COUNT), softmax.clone()],
    ));
    out.push(Micro::new(
        "wgmma_beside_softmax_two",
        vec![products(128, true, COUNT), softmax.clone(), softmax],
    ));
    out
}

/// The whole module around a snippet.
pub fn text(micro: &Micro) -> String {
    let floats = CHAINS + micro.groups.iter().map(|g| g.accumulators).max().unwrap_or(0);
    let first = |i| format!("fma.rn.f32 %f{i},%f200,0f3F8{i:05x},%f200;\n");
    let start: String = (0..floats).chain([190, 191]).map(first).collect();
    let start_r: String = (0..36).map(|i| format!("add.u32 %r{i},%r60,{i};\n")).collect();
    let sum: String = (0..floats).map(|i| format!("add.f32 %f200,%f200,%f{i};\n")).collect();
    let sum_r: String = (1..36).map(|i| format!("xor.b32 %r0,%r0,%r{i};\n")).collect();
    let mut body = String::new();
    for (g, group) in micro.groups.iter().enumerate() {
        let _ = writeln!(
            body,
            "setp.ne.u32 %p0,%r62,{g}; @%p0 bra G{g};\nmov.u32 %r63,{};\n.pragma \"nounroll\";\nL{g}:\n{}\
             sub.s32 %r63,%r63,1; setp.ne.s32 %p0,%r63,0; @%p0 bra L{g};\nbar.sync {},128;\nG{g}:",
            group.trips,
            group.body,
            g + 2
        );
    }
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry micro(.param .u64 out) .maxntid {threads},1,1 .minnctapersm 1 {{\n\
         .reg .b32 %r<64>; .reg .b64 %d<16>; .reg .f32 %f<208>; .reg .pred %p<4>;\n\
         ld.param.u64 %d0,[out]; cvta.to.global.u64 %d0,%d0; mov.u32 %r60,%tid.x; shr.u32 %r61,%r60,5; shr.u32 %r62,%r60,7; shfl.sync.idx.b32 %r62,%r62,0,31,0xffffffff;\n\
         cvt.rn.f32.u32 %f200,%r60;\n{start}{start_r}\
         mov.u32 %r50,smem; shr.u32 %r50,%r50,4; mov.b64 %d8,{{%r50,1073741888}}; mov.b64 %d9,{{%r50,1073741888}};\n\
         mov.u32 %r53,smem; shl.b32 %r52,%r60,2; add.u32 %r53,%r53,%r52; mov.u32 %r54,0;\n\
         Z: st.shared.u32 [%r53],%r54; add.u32 %r53,%r53,{stride}; add.u32 %r54,%r54,1; setp.lt.u32 %p1,%r54,8; @%p1 bra Z;\n\
         bar.sync 0; mov.u32 %r53,smem; setp.eq.u32 %p0,%r60,0; @%p0 mbarrier.init.shared::cta.b64 [%r53],1;\n\
         fence.mbarrier_init.release.cluster; fence.proxy.async; bar.sync 0; mov.u64 %d1,%clock64;\n{body}\
         mov.u64 %d2,%clock64; sub.u64 %d3,%d2,%d1; mov.u32 %r55,%ctaid.x; and.b32 %r56,%r60,31; or.b32 %r55,%r55,%r56;\n\
         setp.eq.u32 %p0,%r55,0; mul.wide.u32 %d4,%r61,8; add.u64 %d4,%d4,%d0; @%p0 st.global.u64 [%d4],%d3;\n{sum}{sum_r}\
         cvt.rn.f32.u32 %f201,%r0; add.f32 %f200,%f200,%f201; setp.eq.f32 %p2,%f200,0f7F000001; @%p2 st.global.f32 [%d0+2048],%f200;\nret;\n}}\n",
        threads = micro.threads(),
        stride = 4 * micro.threads(),
    )
}

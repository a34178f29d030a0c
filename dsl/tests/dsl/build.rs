//! The builder says the same as the text.

use warpwright_dsl::schedule::text::parse;
use warpwright_dsl::schedule::{Cache, Direction, Handoff, Persistence, Placement, Release, Rescale, Schedule, Split};

const TEXT: &str = r#"
        kernel = "sample"
        [tiles]
        m_tile = 128
        [roles]
        consumers = 2
        rows_per_consumer = 64
        producer_warps = 1
        producer_registers = 24
        consumer_registers = 240
        [grid]
        persistence = "dynamic"
        inner = "head"
        descending = ["block"]
        section = 8
        [loads.k]
        stages = 2
        ring = "kv"
        release = "early"
        cache = "evict-last"
        l2_promotion = 128
        [operands]
        p16 = "registers"
        [folds.kv]
        direction = "descending"
        split = "by-mask"
        stages = { o = 1 }
        order = ["issue s", "wait o"]
        handoff = "ping-pong"
        rescale = "lazy"
        lazy_threshold = 8
        exp2_polynomial_every = 4
        unroll = 2
        [stores]
        o = { buffer = "q" }
        lse = { buffer = "own" }
        [assembler]
        version = "13.0"
        options = ["-O3"]
    "#;

#[test]
fn builder_and_text_agree() {
    let built = Schedule::for_kernel("sample")
        .tile("m_tile", 128)
        .consumers(2)
        .rows_per_consumer(64)
        .producer_warps(1)
        .registers(24, 240)
        .persistence(Persistence::Dynamic)
        .inner("head")
        .descending("block")
        .section(8)
        .load("k", |l| {
            l.stages(2)
                .ring("kv")
                .release(Release::Early)
                .cache(Cache::EvictLast)
                .l2_promotion(128)
        })
        .operand("p16", Placement::Registers)
        .fold("kv", |f| {
            f.direction(Direction::Descending)
                .split(Split::ByMask)
                .stage("o", 1)
                .lazy(8.0)
        })
        .fold("kv", |f| {
            f.then("issue s")
                .then("wait o")
                .handoff(Handoff::PingPong)
                .exp2_polynomial_every(4)
                .unroll(2)
        })
        .store("o", |s| s.over("q"))
        .store("lse", |s| s.own())
        .assembler("13.0")
        .assembler_option("-O3");
    assert_eq!(parse(TEXT).unwrap(), built);
    let other = Schedule::default().fold("f", |f| f.exact().fixed());
    assert_eq!(other.folds["f"].rescale, Some(Rescale::Fixed));
}

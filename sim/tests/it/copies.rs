//! Tensor and bulk copies: swizzles, edges, reductions, multicast, groups.

use warpwright_sim::{Arg, Device, ElemType, FindingKind, Swizzle, TensorMapSpec};

use super::kernel::{Outcome, Run, module};

/// A module whose entry takes one more parameter, a tensor map `m`.
fn with_map(body: &str) -> String {
    module(body).replace(".param .u64 out)", ".param .u64 out,.param .align 64 .b8 m[128])")
}

const MAP: &str = "mov.b64 %d20,m; cvta.param.u64 %d20,%d20;";
/// Thread 0 makes a barrier at smem+32768.
const INIT: &str = "setp.eq.u32 %p1,%lane,0; @%p1 mbarrier.init.shared::cta.b64 [%smem+32768],1; \
    @%p1 fence.mbarrier_init.release.cluster; bar.sync 0; add.u32 %r20,%smem,32768;";
const WAIT: &str = "W: mbarrier.try_wait.parity.shared::cta.b64 %p2,[%smem+32768],0; @!%p2 bra W;";
/// Copies `bytes` of shared memory to the output, word by word.
fn dump(bytes: usize) -> String {
    format!(
        "shl.b32 %r1,%lane,2; D: add.u32 %r2,%smem,%r1; ld.shared.u32 %r3,[%r2]; cvt.u64.u32 %d0,%r1; add.u64 %d0,%out,%d0;\n\
         st.global.u32 [%d0],%r3; add.u32 %r1,%r1,128; setp.lt.u32 %p3,%r1,{bytes}; @%p3 bra D;"
    )
}

fn words(count: usize) -> Vec<u8> {
    (0..count as u32).flat_map(|i| (i + 1).to_le_bytes()).collect()
}

/// `[rows 40][cols 64]` u32, boxes of `inner` x 16.
fn spec(address: u64, inner: u32, swizzle: Swizzle) -> TensorMapSpec {
    TensorMapSpec {
        elem: ElemType::U32,
        address,
        dims: vec![64, 40],
        strides_bytes: vec![256],
        box_dims: vec![inner, 16],
        swizzle,
    }
}

fn load(swizzle: Swizzle, inner: u32, at: (i32, i32), seed: u64) -> Vec<u32> {
    let bytes = inner as usize * 16 * 4;
    let body = format!(
        "{MAP}{INIT}\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _,[%r20],{bytes};\n\
         mov.u32 %r21,{}; @%p1 cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%smem],[%d20,{{%r21,{}}}],[%r20];\n\
         {WAIT}\n{}",
        at.0,
        at.1,
        dump(bytes)
    );
    let extra = |device: &mut Device, input, _| vec![device.tensor_map(spec(input, inner, swizzle)).unwrap()];
    Run { seed, ..Run::default() }
        .text(&with_map(&body), &words(64 * 40), bytes, extra)
        .words()
}

#[test]
fn every_swizzle_and_edge() {
    let cases = [
        (Swizzle::None, 32, 0),
        (Swizzle::B32, 8, 1),
        (Swizzle::B64, 16, 3),
        (Swizzle::B128, 32, 7),
    ];
    for (index, (swizzle, inner, mask)) in cases.into_iter().enumerate() {
        for at in [(0, 0), (32, 8), (56, 32), (-4, -3), (100, 0)] {
            let found = load(swizzle, inner, at, index as u64);
            for row in 0..16 {
                for col in 0..inner as i32 {
                    let (x, y) = (at.0 + col, at.1 + row);
                    let inside = (0..64).contains(&x) && (0..40).contains(&y);
                    let wanted = if inside { (y * 64 + x + 1) as u32 } else { 0 };
                    let linear = (row as usize * inner as usize + col as usize) * 4;
                    let place = linear ^ ((linear >> 7 & mask) << 4);
                    assert_eq!(found[place / 4], wanted, "{swizzle:?} {at:?} row {row} col {col}");
                }
            }
        }
    }
}

/// Each thread fills words of shared memory with `seed + index`, then thread 0 stores the box.
fn store(instruction: &str, elem: ElemType, swizzle: Swizzle, input: &[u8]) -> Vec<u32> {
    store_at((48, 32), instruction, (elem, swizzle), input).words()
}

fn store_at((x, y): (i32, i32), instruction: &str, (elem, swizzle): (ElemType, Swizzle), input: &[u8]) -> Outcome {
    let body = format!(
        "{MAP} shl.b32 %r1,%lane,2; L: add.u32 %r2,%smem,%r1; shr.u32 %r3,%r1,2; cvt.rn.f32.u32 %f0,%r3; {}\n\
         st.shared.b32 [%r2],%r4; add.u32 %r1,%r1,128; setp.lt.u32 %p3,%r1,2048; @%p3 bra L;\n\
         fence.proxy.async.shared::cta; bar.sync 0; setp.eq.u32 %p1,%lane,0; @!%p1 bra E;\n\
         {instruction} [%d20,{{{x},{y}}}],[%smem]; cp.async.bulk.commit_group; cp.async.bulk.wait_group 0; E:",
        if elem == ElemType::F32 {
            "mov.b32 %r4,%f0;"
        } else {
            "mov.u32 %r4,%r3;"
        }
    );
    let extra = move |device: &mut Device, _, out| {
        vec![
            device
                .tensor_map(TensorMapSpec {
                    elem,
                    ..spec(out, 32, swizzle)
                })
                .unwrap(),
        ]
    };
    let text = with_map(&body);
    // The output starts as the input, so that a reduction has something to add to.
    let copy = "shl.b32 %r1,%lane,2; C: cvt.u64.u32 %d0,%r1; add.u64 %d1,%in,%d0; ld.global.u32 %r3,[%d1]; add.u64 %d1,%out,%d0;\n\
        st.global.u32 [%d1],%r3; add.u32 %r1,%r1,128; setp.lt.u32 %p3,%r1,10240; @%p3 bra C;\n";
    Run::default().text(&text.replacen(MAP, &format!("{copy}{MAP}"), 1), input, 10_240, extra)
}

#[test]
fn tensor_store_skips_what_is_outside() {
    let input = words(64 * 40);
    let found = store(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group",
        ElemType::U32,
        Swizzle::B128,
        &input,
    );
    for (index, word) in found.iter().enumerate() {
        let (x, y) = (index as i32 % 64 - 48, index as i32 / 64 - 32);
        let inside = x >= 0 && y >= 0;
        let linear = (y * 32 + x).max(0) as usize * 4;
        let place = linear ^ ((linear >> 7 & 7) << 4);
        let wanted = if inside { place as u32 / 4 } else { index as u32 + 1 };
        assert_eq!(*word, wanted, "({x}, {y})");
    }
}

/// Seen on an H200 (docs/log.md, 2026-12-01): loads take any coordinates.
#[test]
fn a_tensor_store_below_zero_is_an_illegal_instruction() {
    let instruction = "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group";
    let at = |place| store_at(place, instruction, (ElemType::U32, Swizzle::B128), &words(64 * 40)).findings();
    assert_eq!(at((0, 0)), []);
    for place in [(-1, 0), (0, -32), (i32::MIN, 0)] {
        let found = at(place);
        assert!(
            found
                .iter()
                .any(|f| f.to_string().contains("a tensor store begins at -")),
            "{found:?}"
        );
    }
}

#[test]
fn tensor_reduction_adds() {
    let input: Vec<u8> = (0..64 * 40).flat_map(|_| 0.5f32.to_le_bytes()).collect();
    let instruction = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group";
    let found = store(instruction, ElemType::F32, Swizzle::None, &input);
    assert_eq!(f32::from_bits(found[33 * 64 + 50]), 0.5 + 34.0);
    assert_eq!(f32::from_bits(found[0]), 0.5);
}

#[test]
fn plain_bulk_copies_there_and_back() {
    let body = format!(
        "{INIT}\n@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _,[%r20],1024;\n\
         @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%smem],[%in],1024,[%r20];\n{WAIT}\n\
         @%p1 cp.async.bulk.global.shared::cta.bulk_group [%out],[%smem],512; @%p1 cp.async.bulk.commit_group;\n\
         @%p1 cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%out],[%smem],512; @%p1 cp.async.bulk.commit_group;\n\
         @%p1 cp.async.bulk.wait_group 0;"
    );
    for seed in 0..4 {
        let run = Run { seed, ..Run::default() };
        // The order of a store and a reduction to one place is free unless the first is waited for.
        let ordered = body.replacen("@%p1 cp.reduce", "@%p1 cp.async.bulk.wait_group 0; @%p1 cp.reduce", 1);
        let found = run.body(&ordered, &words(256), 512).words();
        assert_eq!(found, (0..128).map(|i| 2 * (i + 1)).collect::<Vec<u32>>());
    }
}

#[test]
fn non_bulk_copies() {
    let body = format!(
        "mul.wide.u32 %d0,%lane,16; add.u64 %d0,%in,%d0; mad.lo.u32 %r1,%lane,16,%smem;\n\
         cp.async.cg.shared.global [%r1],[%d0],16; cp.async.commit_group;\n\
         setp.lt.u32 %p0,%lane,16; selp.b32 %r2,16,0,%p0; cp.async.cg.shared.global [%r1+512],[%d0],16,%r2; cp.async.commit_group;\n\
         cp.async.wait_group 1; bar.sync 0; ld.shared.u32 %r3,[%smem+16]; cp.async.wait_all; bar.sync 0;\n{}",
        dump(1024)
    );
    let found = Run::default().body(&body, &words(128), 1024).words();
    assert_eq!(found[..128], (1..=128).collect::<Vec<u32>>());
    assert_eq!(found[128..192], (1..=64).collect::<Vec<u32>>());
    assert_eq!(found[192..], [0; 64]);
}

#[test]
fn cp_async_read_too_early_is_found() {
    let body = "mul.wide.u32 %d0,%lane,16; add.u64 %d0,%in,%d0; mad.lo.u32 %r1,%lane,16,%smem;\n\
        cp.async.cg.shared.global [%r1],[%d0],16; cp.async.commit_group; ld.shared.u32 %r3,[%r1]; cp.async.wait_all;";
    let findings = Run::default().body(body, &words(128), 4).findings();
    assert!(
        findings
            .iter()
            .any(|f| matches!(f.kind, FindingKind::ReadBeforeArrival { .. })),
        "{findings:?}"
    );
}

/// Two CTAs each load half of a tile into both.
const MULTICAST: &str = "mov.u32 %r30,%cluster_ctarank; setp.eq.u32 %p1,%lane,0;\n\
    @%p1 mbarrier.init.shared::cta.b64 [%smem+32768],1; @%p1 fence.mbarrier_init.release.cluster;\n\
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;\n\
    @!%p1 bra GO; mbarrier.arrive.expect_tx.shared::cta.b64 _,[%smem+32768],2048; add.u32 %r20,%smem,32768;\n\
    mul.lo.u32 %r21,%r30,1024; add.u32 %r22,%smem,%r21; cvt.u64.u32 %d1,%r21; add.u64 %d1,%in,%d1; mov.b16 %h0,3;\n\
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r22],[%d1],1024,[%r20],%h0;\n\
    GO: W: mbarrier.try_wait.parity.shared::cta.b64 %p2,[%smem+32768],0; @!%p2 bra W;\n\
    mul.lo.u32 %r31,%r30,2048; cvt.u64.u32 %d2,%r31; add.u64 %out,%out,%d2;\n";

#[test]
fn multicast_reaches_both_ctas() {
    let body = format!(
        "{MULTICAST}{}\nbarrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        dump(2048)
    );
    for seed in 0..8 {
        let run = Run {
            grid: 2,
            cluster: 2,
            seed,
            ..Run::default()
        };
        let found = run.body(&body, &words(512), 4096).words();
        let half: Vec<u32> = (1..=512).collect();
        assert_eq!(found, [half.clone(), half].concat());
    }
}

#[test]
fn multicast_to_a_barrier_nobody_published() {
    let body = format!("{MULTICAST}{}", dump(2048)).replacen(
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "",
        1,
    );
    let found = (0..8).any(|seed| {
        let findings = Run {
            grid: 2,
            cluster: 2,
            seed,
            ..Run::default()
        }
        .body(&body, &words(512), 4096)
        .findings();
        findings.iter().any(|f| {
            matches!(
                f.kind,
                FindingKind::MbarrierInitUnordered { .. } | FindingKind::NoMbarrier { .. }
            )
        })
    });
    assert!(found);
}

#[test]
fn remote_arrive_and_peer_copy() {
    // CTA 1 sends 512 bytes into CTA 0 and arrives there; CTA 0 shows them.
    let body = format!(
        "mov.u32 %r30,%cluster_ctarank; setp.eq.u32 %p1,%lane,0; setp.eq.u32 %p4,%r30,0;\n\
         @%p1 mbarrier.init.shared::cta.b64 [%smem+32768],2; @%p1 fence.mbarrier_init.release.cluster;\n\
         shl.b32 %r1,%lane,4; add.u32 %r1,%r1,%smem; add.u32 %r2,%lane,1; st.shared.v4.u32 [%r1+1024],{{%r2,%r2,%r2,%r2}};\n\
         fence.proxy.async; barrier.cluster.arrive; barrier.cluster.wait;\n\
         @%p4 bra RECEIVE;\n\
         @!%p1 bra JOIN; mapa.shared::cluster.u32 %r3,%smem,0; add.u32 %r4,%r3,32768; add.u32 %r5,%smem,1024;\n\
         cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r3],[%r5],512,[%r4];\n\
         mbarrier.arrive.release.cluster.shared::cluster.b64 _,[%r4]; bra JOIN;\n\
         RECEIVE: @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _,[%smem+32768],512;\n\
         {WAIT}\n{}\nJOIN: barrier.cluster.arrive; barrier.cluster.wait;",
        dump(512)
    );
    for seed in 0..8 {
        let found = Run {
            grid: 2,
            cluster: 2,
            seed,
            ..Run::default()
        }
        .body(&body, &[0; 4], 512)
        .words();
        assert_eq!(found, (0..128).map(|i| i / 4 + 1).collect::<Vec<u32>>());
    }
}

#[test]
fn maps_are_checked() {
    let mut device = Device::new(warpwright_sim::DeviceConfig::default());
    let mut refused = |spec: TensorMapSpec, text: &str| {
        let error = device.tensor_map(spec).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    let good = spec(0x2_0000_0000, 32, Swizzle::B128);
    refused(
        TensorMapSpec {
            box_dims: vec![64, 16],
            ..good.clone()
        },
        "this swizzle allows at most 128",
    );
    refused(
        TensorMapSpec {
            strides_bytes: vec![100],
            ..good.clone()
        },
        "multiple of 16",
    );
    refused(
        TensorMapSpec {
            box_dims: vec![32, 300],
            ..good.clone()
        },
        "1 to 256",
    );
    refused(TensorMapSpec { dims: vec![64], ..good }, "need 0 strides");
    let no_map = with_map(&format!(
        "{MAP}{INIT}@%p1 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%smem],[%d20,{{0,0}}],[%r20];"
    ));
    let findings = Run::default()
        .text(&no_map, &[0; 16], 16, |_, _, _| vec![Arg::Bytes(vec![0; 128])])
        .findings();
    assert!(
        matches!(findings[0].kind, FindingKind::TensorCopy { .. }),
        "{findings:?}"
    );
}

//! Scalar and warp instructions by expected result.

use super::kernel::{Run, STORE, map};

fn lanes(f: impl Fn(u32) -> u32) -> Vec<u32> {
    (0..32).map(f).collect()
}

fn floats(f: impl Fn(u32) -> f32) -> Vec<u32> {
    lanes(|i| f(i).to_bits())
}

#[test]
fn integer_arithmetic() {
    let x = lanes(|i| i.wrapping_mul(0x9e37_79b9));
    let same = |body: &str, f: &dyn Fn(u32) -> u32| {
        assert_eq!(map(&x, body), x.iter().map(|v| f(*v)).collect::<Vec<_>>(), "{body}");
    };
    same("add.u32 %r0,%r1,-3;", &|v| v.wrapping_sub(3));
    same("mad.lo.s32 %r0,%r1,7,%r1;", &|v| v.wrapping_mul(8));
    same("mul.hi.u32 %r0,%r1,%r1;", &|v| {
        ((u64::from(v) * u64::from(v)) >> 32) as u32
    });
    same("div.s32 %r0,%r1,-7;", &|v| ((v as i32) / -7) as u32);
    same("rem.u32 %r0,%r1,10;", &|v| v % 10);
    same("shr.s32 %r0,%r1,4;", &|v| ((v as i32) >> 4) as u32);
    same("shl.b32 %r0,%r1,40;", &|_| 0);
    same("min.s32 %r0,%r1,5;", &|v| (v as i32).min(5) as u32);
    same("max.u32 %r0,%r1,5;", &|v| v.max(5));
    same("not.b32 %r2,%r1; xor.b32 %r0,%r2,0xff;", &|v| !v ^ 0xff);
    same("popc.b32 %r0,%r1;", &|v| v.count_ones());
    same("abs.s32 %r0,%r1;", &|v| (v as i32).wrapping_abs() as u32);
    same(
        "mul.wide.s32 %d0,%r1,-5; shr.u64 %d0,%d0,8; cvt.u32.u64 %r0,%d0;",
        &|v| ((i64::from(v as i32) * -5) as u64 >> 8) as u32,
    );
    same("mov.b64 %d0,{%r1,%lane}; mov.b64 {%r2,%r0},%d0;", &|v| {
        x.iter().position(|w| *w == v).unwrap() as u32
    });
    same("mov.b32 {%h0,%h1},%r1; mov.b32 %r0,{%h1,%h0};", &|v| v.rotate_right(16));
}

#[test]
fn predicates_and_selection() {
    let x = lanes(|i| i);
    let out = map(
        &x,
        "setp.gt.u32 %p2,%r1,4; setp.lt.and.u32 %p0,%r1,16,%p2; selp.b32 %r0,1,0,%p0;",
    );
    assert_eq!(out, lanes(|i| u32::from(i > 4 && i < 16)));
    let out = map(
        &x,
        "setp.ge.u32 %p0,%r1,8; setp.lt.or.u32 %p1|%p2,%r1,4,%p0; selp.b32 %r0,1,0,%p2;",
    );
    assert_eq!(
        out,
        lanes(|i| u32::from(i >= 4)),
        "the second result is the negated comparison, or-ed"
    );
    let out = map(
        &x,
        "setp.eq.u32 %p0,%r1,3; not.pred %p1,%p0; mov.u32 %r0,0; @!%p1 mov.u32 %r0,9;",
    );
    assert_eq!(out, lanes(|i| if i == 3 { 9 } else { 0 }));
}

#[test]
fn float_arithmetic() {
    let x = floats(|i| i as f32 * 0.37 - 3.0);
    let same = |body: &str, f: &dyn Fn(f32) -> f32| {
        let wanted: Vec<u32> = x.iter().map(|v| f(f32::from_bits(*v)).to_bits()).collect();
        assert_eq!(
            map(&x, &format!("mov.b32 %f1,%r1; {body} mov.b32 %r0,%f0;")),
            wanted,
            "{body}"
        );
    };
    same("fma.rn.f32 %f0,%f1,%f1,0f3F800000;", &|v| v.mul_add(v, 1.0));
    same("mul.f32 %f0,%f1,0fC0000000;", &|v| v * -2.0);
    same("max.f32 %f0,%f1,0f00000000;", &|v| v.max(0.0) + 0.0);
    same("ex2.approx.ftz.f32 %f0,%f1;", &|v| f64::from(v).exp2() as f32);
    same("abs.f32 %f2,%f1; sqrt.rn.f32 %f0,%f2;", &|v| v.abs().sqrt());
    same("rcp.approx.ftz.f32 %f0,%f1;", &|v| 1.0 / v);
    same("tanh.approx.f32 %f0,%f1;", &|v| f64::from(v).tanh() as f32);
    same("neg.f32 %f0,%f1;", &|v| -v);
    same("add.sat.f32 %f0,%f1,0f00000000;", &|v| v.clamp(0.0, 1.0));
}

#[test]
fn subnormals_flush_only_when_asked() {
    let x = floats(|_| f32::from_bits(7));
    let body = |op: &str| map(&x, &format!("mov.b32 %f1,%r1; {op} %f0,%f1,%f1; mov.b32 %r0,%f0;"))[0];
    assert_eq!(body("add.f32"), 14);
    assert_eq!(body("add.ftz.f32"), 0);
}

#[test]
fn conversions() {
    let x = floats(|i| i as f32 * 1.3 - 20.0);
    let from_f32 = |body: &str| map(&x, &format!("mov.b32 %f1,%r1; {body}"));
    let wanted = |f: &dyn Fn(f32) -> u32| x.iter().map(|v| f(f32::from_bits(*v))).collect::<Vec<_>>();
    assert_eq!(from_f32("cvt.rzi.s32.f32 %r0,%f1;"), wanted(&|v| (v as i32) as u32));
    assert_eq!(
        from_f32("cvt.rni.s32.f32 %r0,%f1;"),
        wanted(&|v| (v.round_ties_even() as i32) as u32)
    );
    assert_eq!(from_f32("cvt.rzi.u32.f32 %r0,%f1;"), wanted(&|v| v as u32));
    assert_eq!(
        from_f32("cvt.rmi.f32.f32 %f0,%f1; mov.b32 %r0,%f0;"),
        wanted(&|v| v.floor().to_bits())
    );
    let pack = |v: f32| u32::from(half::bf16::from_f32(v).to_bits());
    assert_eq!(
        from_f32("cvt.rn.bf16x2.f32 %r0,0f3F800000,%f1;"),
        wanted(&|v| 0x3f80_0000 | pack(v))
    );
    let half_bits = |v: f32| u32::from(half::f16::from_f32(v).to_bits());
    assert_eq!(
        from_f32("cvt.rn.f16.f32 %h0,%f1; mov.b32 %r0,{%h0,%h0};"),
        wanted(&|v| half_bits(v) * 0x1_0001)
    );
    assert_eq!(
        from_f32("cvt.rn.bf16.f32 %h0,%f1; cvt.f32.bf16 %f0,%h0; mov.b32 %r0,%f0;"),
        wanted(&|v| half::bf16::from_f32(v).to_f32().to_bits())
    );
    let ints = lanes(|i| i.wrapping_mul(0x0fff_fff1));
    assert_eq!(
        map(&ints, "cvt.rn.f32.s32 %f0,%r1; mov.b32 %r0,%f0;"),
        ints.iter().map(|v| (*v as i32 as f32).to_bits()).collect::<Vec<_>>()
    );
    assert_eq!(
        map(&ints, "cvt.s32.s8 %r0,%r1;"),
        ints.iter().map(|v| i32::from(*v as i8) as u32).collect::<Vec<_>>()
    );
}

#[test]
fn packed_halves() {
    let pair = |a: f32, b: f32| {
        u32::from(half::bf16::from_f32(a).to_bits()) | u32::from(half::bf16::from_f32(b).to_bits()) << 16
    };
    let x = lanes(|i| pair(i as f32, -0.5));
    assert_eq!(
        map(&x, "mul.rn.bf16x2 %r0,%r1,%r1;"),
        lanes(|i| pair((i * i) as f32, 0.25))
    );
    assert_eq!(
        map(&x, "mov.b32 %r2,0; max.bf16x2 %r0,%r1,%r2;"),
        lanes(|i| pair(i as f32, 0.0))
    );
    assert_eq!(
        map(&x, "fma.rn.bf16x2 %r0,%r1,%r1,%r1;"),
        lanes(|i| pair((i * i + i) as f32, -0.25))
    );
    assert_eq!(map(&x, "neg.bf16x2 %r0,%r1;"), lanes(|i| pair(-(i as f32), 0.5)));
}

#[test]
fn shuffles() {
    let x = lanes(|i| 100 + i);
    assert_eq!(map(&x, "shfl.sync.bfly.b32 %r0,%r1,2,31,-1;"), lanes(|i| 100 + (i ^ 2)));
    assert_eq!(map(&x, "shfl.sync.idx.b32 %r0,%r1,5,31,-1;"), lanes(|_| 105));
    assert_eq!(
        map(&x, "shfl.sync.up.b32 %r0,%r1,3,0,-1;"),
        lanes(|i| 100 + if i >= 3 { i - 3 } else { i })
    );
    let down = "shfl.sync.down.b32 %r2|%p0,%r1,4,0x1807,-1; selp.b32 %r0,%r2,0,%p0;";
    // Segments of 8 lanes: the upper four of each have no source.
    assert_eq!(map(&x, down), lanes(|i| if i % 8 < 4 { 104 + i } else { 0 }));
}

#[test]
fn votes_and_reductions() {
    let x = lanes(|i| i);
    assert_eq!(
        map(&x, "setp.lt.u32 %p0,%r1,4; vote.sync.ballot.b32 %r0,%p0,-1;"),
        lanes(|_| 0xf)
    );
    assert_eq!(
        map(
            &x,
            "setp.lt.u32 %p0,%r1,4; vote.sync.any.pred %p1,%p0,-1; selp.b32 %r0,1,0,%p1;"
        ),
        lanes(|_| 1)
    );
    assert_eq!(
        map(
            &x,
            "setp.lt.u32 %p0,%r1,4; vote.sync.all.pred %p1,!%p0,-1; selp.b32 %r0,1,0,%p1;"
        ),
        lanes(|_| 0)
    );
    assert_eq!(map(&x, "redux.sync.add.u32 %r0,%r1,-1;"), lanes(|_| 496));
    assert_eq!(
        map(&x, "and.b32 %r2,%r1,1; match.any.sync.b32 %r0,%r2,-1;"),
        lanes(|i| 0x5555_5555 << (i & 1))
    );
    assert_eq!(
        map(&x, "elect.sync _|%p0,-1; selp.b32 %r0,1,0,%p0;"),
        lanes(|i| u32::from(i == 0))
    );
    assert_eq!(map(&x, "activemask.b32 %r0;"), lanes(|_| u32::MAX));
}

#[test]
fn divergence_reconverges() {
    // Each lane loops its own number of times; then all lanes vote together.
    let body = "mov.u32 %r2,0; L: add.u32 %r2,%r2,2; setp.lt.u32 %p0,%r2,%r1; @%p0 bra L;\n\
        setp.gt.u32 %p1,%r1,40; @%p1 bra ODD; add.u32 %r2,%r2,1000; ODD:\n\
        vote.sync.ballot.b32 %r3,1,-1; add.u32 %r0,%r2,%r3;";
    let x = lanes(|i| i * 3);
    let wanted = lanes(|i| {
        let loops = (i * 3).max(1).next_multiple_of(2);
        loops.wrapping_add(if i * 3 > 40 { 0 } else { 1000 }).wrapping_sub(1)
    });
    assert_eq!(map(&x, body), wanted);
}

#[test]
fn memory_forms() {
    let x = lanes(|i| 0x0102_0300 + i);
    assert_eq!(map(&x, "ld.global.u8 %r0,[%d31+1];"), lanes(|_| 3));
    assert_eq!(
        map(&x, "ld.global.v2.u16 {%h0,%h1},[%d31]; mov.b32 %r0,{%h1,%h0};"),
        lanes(|i| (0x0300 + i) << 16 | 0x0102)
    );
    assert_eq!(
        map(
            &x,
            "shl.b32 %r2,%lane,2; add.u32 %r2,%r2,%smem; st.shared.u32 [%r2],%r1; bar.warp.sync -1; ld.shared.u32 %r0,[%r2];"
        ),
        x
    );
    assert_eq!(
        map(
            &x,
            "cvt.u64.u32 %d0,%smem; cvta.shared.u64 %d0,%d0; mul.wide.u32 %d1,%lane,4; add.u64 %d0,%d0,%d1; \
            st.u32 [%d0],%r1; ld.u32 %r0,[%d0];"
        ),
        x
    );
}

#[test]
fn atomics() {
    let body = format!(
        "mov.u32 %r2,0; setp.eq.u32 %p0,%lane,0; @%p0 st.shared.u32 [%smem],%r2; bar.sync 0;\n\
         atom.shared.add.u32 %r3,[%smem],1; bar.sync 0; ld.shared.u32 %r0,[%smem];\n{STORE}"
    );
    let out = Run {
        threads: 128,
        ..Run::default()
    }
    .body(&body, &[0; 4], 512)
    .words();
    assert_eq!(out, vec![128; 128]);
    let x = lanes(|_| 5);
    assert_eq!(map(&x, "atom.global.cas.b32 %r0,[%d31],5,9;"), lanes(|_| 5));
    assert_eq!(
        map(&x, "atom.global.exch.b32 %r2,[%d31],9; ld.global.u32 %r0,[%d31];"),
        lanes(|_| 9)
    );
    assert_eq!(
        map(&x, "red.global.max.s32 [%d31],7; ld.global.u32 %r0,[%d31];"),
        lanes(|_| 7)
    );
    let add = "mov.b32 %f1,0f3F800000; red.global.add.v4.f32 [%in],{%f1,%f1,%f1,%f1}; bar.warp.sync -1; ld.global.u32 %r0,[%in+8];";
    assert_eq!(map(&[0; 32], add), lanes(|_| 32f32.to_bits()));
}

#[test]
fn special_registers() {
    let body = format!(
        "mov.u32 %r1,%ctaid.x; mul.lo.u32 %r1,%r1,64; add.u32 %r1,%r1,%lane; mov.u32 %r2,%laneid; mov.u32 %r3,%warpid;\n\
         mad.lo.u32 %r0,%r3,100,%r2; mov.u32 %lane,%r1;\n{STORE}"
    );
    let out = Run {
        threads: 64,
        grid: 3,
        ..Run::default()
    }
    .body(&body, &[0; 4], 3 * 64 * 4)
    .words();
    let wanted: Vec<u32> = (0..192).map(|i| i % 64 / 32 * 100 + i % 32).collect();
    assert_eq!(out, wanted);
}

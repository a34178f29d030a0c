//! mbarriers, named barriers, divergence, memory faults: small kernels by expected result.

use warpwright_sim::{DeviceConfig, FindingKind, LaunchConfig, Module};

use super::kernel::{Run, STORE, module};

fn kinds(run: Run, body: &str) -> Vec<FindingKind> {
    run.body(body, &[0; 1024], 1024)
        .findings()
        .into_iter()
        .map(|f| f.kind)
        .collect()
}

#[track_caller]
fn found(run: Run, body: &str, wanted: impl Fn(&FindingKind) -> bool) {
    let kinds = kinds(run, body);
    assert!(kinds.iter().any(wanted), "{kinds:#?}");
}

#[test]
fn mbarrier_phases_and_states() {
    let body = format!(
        "setp.eq.u32 %p0,%lane,0; @%p0 mbarrier.init.shared::cta.b64 [%smem],32; bar.sync 0;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1,[%smem],1; selp.b32 %r1,1,0,%p1;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1,[%smem],0; selp.b32 %r2,2,0,%p1;\n\
         mbarrier.arrive.shared::cta.b64 %d0,[%smem];\n\
         W: mbarrier.try_wait.shared::cta.b64 %p1,[%smem],%d0; @!%p1 bra W;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1,[%smem],0; selp.b32 %r3,4,0,%p1;\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1,[%smem],1; selp.b32 %r4,8,0,%p1;\n\
         add.u32 %r0,%r1,%r2; add.u32 %r0,%r0,%r3; add.u32 %r0,%r0,%r4;\n{STORE}"
    );
    assert_eq!(Run::default().body(&body, &[0; 4], 128).words(), vec![1 + 4; 32]);
}

#[test]
fn a_wait_that_times_out_may_do_other_work() {
    // Warp 0 waits for what it must itself send after giving up once.
    let body = format!(
        "setp.eq.u32 %p0,%lane,0; @%p0 mbarrier.init.shared::cta.b64 [%smem],1; bar.sync 0; mov.u32 %r0,0;\n\
         mbarrier.try_wait.parity.shared::cta.b64 %p1,[%smem],0; @%p1 bra E; add.u32 %r0,%r0,1;\n\
         @%p0 mbarrier.arrive.shared::cta.b64 _,[%smem];\n\
         W: mbarrier.try_wait.parity.shared::cta.b64 %p1,[%smem],0; @!%p1 bra W; E:\n{STORE}"
    );
    assert_eq!(Run::default().body(&body, &[0; 4], 128).words(), vec![1; 32]);
}

#[test]
fn named_barrier_hand_over() {
    // Warp 0 produces, warp 1 consumes: arrive on one side, sync on the other.
    let body = format!(
        "and.b32 %r9,%lane,31; mad.lo.u32 %r1,%r9,4,%smem; setp.lt.u32 %p0,%lane,32; mov.u32 %r0,0; @!%p0 bra C;\n\
         add.u32 %r2,%lane,7; st.shared.u32 [%r1],%r2; bar.arrive 3,64; bra E;\n\
         C: bar.sync 3,64; ld.shared.u32 %r0,[%r1]; E:\n{STORE}"
    );
    for seed in 0..5 {
        let out = Run {
            threads: 64,
            seed,
            ..Run::default()
        }
        .body(&body, &[0; 4], 256)
        .words();
        assert_eq!(out[32..], (7..39).collect::<Vec<u32>>());
    }
    found(
        Run {
            threads: 64,
            ..Run::default()
        },
        &body.replace("bar.sync 3,64;", ""),
        |k| matches!(k, FindingKind::Race { .. } | FindingKind::UninitShared { .. }),
    );
}

#[test]
fn unaligned_barrier_from_two_branches() {
    let body = |op: &str| {
        format!(
            "setp.lt.u32 %p0,%lane,16; mov.u32 %r0,1; @%p0 bra A; {op} 0; bra E; A: {op} 0; mov.u32 %r0,2; E:\n{STORE}"
        )
    };
    let out = Run::default().body(&body("barrier.sync"), &[0; 4], 128).words();
    assert_eq!(out, [[2; 16], [1; 16]].concat());
    found(Run::default(), &body("bar.sync"), |k| {
        matches!(k, FindingKind::AlignedDivergence { .. })
    });
}

#[test]
fn exited_warps_do_not_hold_up_the_others() {
    let body = format!("setp.ge.u32 %p0,%lane,32; @%p0 exit; bar.sync 0; mov.u32 %r0,5;\n{STORE}");
    assert_eq!(
        Run {
            threads: 128,
            ..Run::default()
        }
        .body(&body, &[0; 4], 128)
        .words(),
        vec![5; 32]
    );
}

#[test]
fn deadlock_says_who_waits_for_what() {
    let body = "setp.lt.u32 %p0,%lane,32; @%p0 bra E; bar.sync 1,64; E:";
    let outcome = Run {
        threads: 64,
        ..Run::default()
    }
    .body(body, &[0; 4], 4);
    let text = outcome.result.unwrap_err().to_string();
    assert!(
        text.contains("warp 1 at line 8 waits for named barrier 1: 32 of 64 threads arrived"),
        "{text}"
    );
}

#[test]
fn bounds_and_alignment() {
    let run = Run::default();
    found(run, "ld.global.u32 %r0,[%in+1024];", |k| {
        matches!(k, FindingKind::OutOfBounds { .. })
    });
    found(run, "st.global.u32 [%out+1022],%lane;", |k| {
        matches!(k, FindingKind::Misaligned { .. })
    });
    found(run, "ld.global.u32 %r0,[%out];", |k| {
        matches!(k, FindingKind::UninitGlobal { .. })
    });
    found(run, "ld.shared.u32 %r0,[%smem+65536];", |k| {
        matches!(k, FindingKind::OutOfBounds { .. })
    });
    found(run, "ld.shared.u32 %r0,[0];", |k| {
        matches!(k, FindingKind::OutOfBounds { .. })
    });
    found(run, "ld.shared.u32 %r0,[%smem];", |k| {
        matches!(k, FindingKind::UninitShared { .. })
    });
    found(run, "add.u32 %r0,%r1,1;", |k| {
        matches!(k, FindingKind::UninitRegister { .. })
    });
    found(run, "@%p0 mov.u32 %r0,1;", |k| {
        matches!(k, FindingKind::UninitRegister { .. })
    });
    found(run, "mbarrier.arrive.shared::cta.b64 _,[%smem];", |k| {
        matches!(k, FindingKind::NoMbarrier { .. })
    });
}

#[test]
fn a_register_set_in_some_lanes_only() {
    let body = "setp.lt.u32 %p0,%lane,7; @%p0 mov.u32 %r1,3; add.u32 %r2,%r1,1;";
    found(
        Run::default(),
        body,
        |k| matches!(k, FindingKind::UninitRegister { register } if register == "%r1"),
    );
    assert!(kinds(Run::default(), &body.replace("add.u32 %r2", "@%p0 add.u32 %r2")).is_empty());
}

#[test]
fn neighbouring_words_of_two_warps_are_no_race() {
    let body = "shr.u32 %r1,%lane,5; shl.b32 %r2,%r1,2; add.u32 %r2,%r2,%smem; setp.eq.u32 %p0,%lane,%r1; \
        st.shared.u32 [%r2],%r1; add.u32 %r3,%r1,%smem; st.shared.u8 [%r3+1024],%r1;";
    assert!(
        kinds(
            Run {
                threads: 128,
                ..Run::default()
            },
            body
        )
        .is_empty()
    );
    let same = "st.shared.u32 [%smem],%lane;";
    found(
        Run {
            threads: 64,
            ..Run::default()
        },
        same,
        |k| matches!(k, FindingKind::Race { .. }),
    );
}

#[test]
fn release_and_acquire_order_shared_data() {
    let body = |release: &str, acquire: &str| {
        format!(
            "setp.eq.u32 %p0,%lane,0; mov.u32 %r5,0; @%p0 st.shared.u32 [%smem+64],%r5; bar.sync 0;\n\
             setp.eq.u32 %p0,%lane,0; setp.eq.u32 %p1,%lane,32; mov.u32 %r0,9; @%p0 bra P; @!%p1 bra E;\n\
             W: atom.shared{acquire}.or.b32 %r3,[%smem+64],0; setp.eq.u32 %p2,%r3,0; @%p2 bra W;\n\
             ld.shared.u32 %r0,[%smem]; bra E;\n\
             P: mov.u32 %r4,42; st.shared.u32 [%smem],%r4; atom.shared{release}.exch.b32 %r6,[%smem+64],1; E:\n{STORE}"
        )
        .replace(".shared.acquire", ".acquire.cta.shared")
        .replace(".shared.release", ".release.cta.shared")
    };
    for seed in 0..5 {
        let run = Run {
            threads: 64,
            seed,
            ..Run::default()
        };
        assert_eq!(run.body(&body(".release", ".acquire"), &[0; 4], 256).words()[32], 42);
    }
    found(
        Run {
            threads: 64,
            ..Run::default()
        },
        &body("", ""),
        |k| matches!(k, FindingKind::Race { .. }),
    );
}

#[test]
fn launches_are_checked() {
    let module = Module::parse(&module("")).unwrap();
    let mut device = warpwright_sim::Device::new(DeviceConfig::default());
    let mut refused = |entry: &str, config, args: &[warpwright_sim::Arg], text: &str| {
        let error = device.launch(&module, entry, config, args).unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };
    let args = [warpwright_sim::Arg::U64(0), warpwright_sim::Arg::U64(0)];
    refused("x", LaunchConfig::linear(1, 32, 0), &args, "it has: k");
    refused("k", LaunchConfig::linear(1, 2048, 0), &args, "1 to 1024 are allowed");
    refused(
        "k",
        LaunchConfig::linear(1, 32, 300_000),
        &args,
        "232448 are allowed in all",
    );
    refused(
        "k",
        LaunchConfig::linear(1, 32, 0),
        &args[1..],
        "1 arguments for 2 parameters",
    );
    let bad = LaunchConfig {
        cluster: [2, 1, 1],
        ..LaunchConfig::linear(3, 32, 0)
    };
    refused("k", bad, &args, "does not divide grid");
}

#[test]
fn same_seed_same_run() {
    let body = format!("atom.global.add.u32 %r1,[%in],1; add.u32 %r0,%r1,0;\n{STORE}");
    let order = |seed| {
        Run {
            threads: 256,
            grid: 1,
            seed,
            ..Run::default()
        }
        .body(&body, &[0; 4], 1024)
        .words()
    };
    assert_eq!(order(5), order(5));
    assert!(
        (0..8).any(|seed| order(seed) != order(5)),
        "the seed changes the interleaving"
    );
}

#[test]
fn exploring_gives_what_each_seed_gives_alone() {
    let text = module(&format!("atom.global.add.u32 %r1,[%in],1; add.u32 %r0,%r1,0;\n{STORE}"));
    let module = Module::parse(&text).unwrap();
    let mut device = warpwright_sim::Device::new(DeviceConfig {
        threads: 2,
        ..DeviceConfig::default()
    });
    let (input, out) = (device.upload(&[0; 4]), device.alloc(1024));
    let args = [warpwright_sim::Arg::Buffer(input), warpwright_sim::Arg::Buffer(out)];
    let config = LaunchConfig::linear(1, 256, 0);
    let seeds: Vec<u64> = (0..6).collect();
    for run in device.explore(&module, "k", config, (&args, &seeds)).unwrap() {
        let mut alone = device.clone();
        alone.config.seed = run.seed;
        assert_eq!(run.result, alone.launch(&module, "k", config, &args));
        assert_eq!(run.device.read(out), alone.read(out));
    }
}

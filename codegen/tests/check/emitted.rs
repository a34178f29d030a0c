//! What the emitter writes after the check: counts of mbarriers, expected bytes and threads of named barriers in the PTX tree,
//! against the role program, recomputed from other facts than the emitter uses.

use std::collections::BTreeMap;

use warpwright_codegen::check::check;
use warpwright_codegen::emit::emit;
use warpwright_codegen::ptx::{Kind, Module, Opd};
use warpwright_codegen::role::{Load, RoleProgram, Stmt};

use warpwright_codegen::target::SM_90A;

use crate::programs;

fn module(p: &RoleProgram) -> Module {
    emit(&check(p, &SM_90A).unwrap(), vec![], "sm_90a")
}

/// How often every consumer warp arrives on an empty barrier, and the one arrival of the producer on a full one.
fn counts(p: &RoleProgram) -> BTreeMap<i64, u32> {
    let consumer_warps = (p.threads() - 128) / 32;
    let mut out = BTreeMap::new();
    for ring in &p.rings {
        for stage in 0..i64::from(ring.stages) {
            out.insert(i64::from(ring.full) + 8 * stage, 1);
            out.insert(i64::from(ring.empty) + 8 * stage, consumer_warps);
        }
    }
    if let Some(m) = p.mailbox {
        out.insert(i64::from(m.full), 1);
        // The warp that draws does not read its own letter.
        out.insert(i64::from(m.empty), consumer_warps + p.producer_warps - 1);
    }
    out
}

#[test]
fn every_mbarrier_is_initialised_once_with_its_arrivals() {
    for (name, p) in programs::all() {
        let mut seen = BTreeMap::new();
        for inst in module(p).body {
            if let Kind::MbarInit { at, count } = inst.kind {
                assert!(seen.insert(at.offset, count).is_none(), "{name}: {} twice", at.offset);
            }
        }
        assert_eq!(seen, counts(p), "{name}");
    }
}

/// The bytes that the tensor map of each fill moves: its box, as the host encodes it, for every copy that follows.
#[test]
fn expected_bytes_are_those_of_the_copies_that_follow() {
    for (name, p) in programs::all() {
        let mut fills = vec![];
        collect(&p.producer, &mut |stmt| {
            if let Stmt::Fill { load, .. } = stmt {
                fills.push(load.clone());
            }
        });
        let moved = |load: &Load| p.maps[load.map.0 as usize].boxes.iter().product::<u32>() * 2;
        let (mut expected, mut copies) = (None, 0u32);
        let mut body = module(p).body;
        body.push(warpwright_codegen::ptx::Inst {
            guard: None,
            kind: Kind::MbarInitFence,
        });
        for inst in body {
            let ends = matches!(inst.kind, Kind::MbarExpect { .. } | Kind::MbarInitFence);
            if ends && let Some(bytes) = expected.take() {
                let whole = |load: &&Load| load.tile.bytes() == bytes && copies * moved(load) == bytes;
                assert!(fills.iter().any(|l| whole(&l)), "{name}: {bytes} B for {copies} copies");
                copies = 0;
            }
            match inst.kind {
                Kind::MbarExpect { bytes, .. } => expected = Some(bytes),
                Kind::TmaLoad { .. } => copies += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn named_barriers_count_whole_groups() {
    for (name, p) in programs::all() {
        for inst in module(p).body {
            let (Kind::BarSync { id, threads } | Kind::BarArrive { id, threads }) = inst.kind else {
                continue;
            };
            let legal = match id {
                Opd::Int(0) => p.threads(),
                Opd::Int(7) => p.threads() - 128,
                // The first turn, which nobody passed.
                Opd::Int(4) => 256,
                Opd::Int(_) => panic!("{name}: barrier {id:?} is nobody's"),
                // One warpgroup, or a warpgroup and the one whose turn it was.
                _ if threads == 256 => 256,
                _ => 128,
            };
            assert_eq!(threads, legal, "{name}: {id:?}");
        }
    }
}

fn collect(body: &[Stmt], f: &mut dyn FnMut(&Stmt)) {
    for stmt in body {
        f(stmt);
        if let Stmt::Loop { body, .. } = stmt {
            collect(body, f);
        }
    }
}

/// One lane arrives for its warp on an empty barrier: where lanes read the slot one by one, a barrier of the warp stands before.
#[test]
fn a_slot_that_lanes_read_is_released_behind_a_barrier_of_the_warp() {
    for name in ["row softmax", "attention 64 q in registers", "attention 128 full"] {
        let p = programs::named(name);
        let read = p.consumer.iter().any(|s| format!("{s:?}").contains("ReadShared"));
        let mut last = None;
        let mut guarded = 0;
        for inst in module(&p).body {
            match inst.kind {
                Kind::Comment(_) => continue,
                Kind::MbarArrive { .. } if last == Some(true) => guarded += 1,
                _ => {}
            }
            last = Some(matches!(inst.kind, Kind::WarpSync));
        }
        assert_eq!(guarded > 0, read, "{name}: {guarded}");
    }
}

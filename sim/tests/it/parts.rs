//! Grids whose clusters run in parts: the same as a whole, on any number of threads, and whole where parts cannot tell.

use warpwright_sim::{Device, Finding, FindingKind};

use super::kernel::{Outcome, Run, module};

/// `%r40`: the CTA's number; `%d5`: where word `%r40` of the output lies.
const OWN: &str = "mov.u32 %r40,%ctaid.x; mul.wide.u32 %d5,%r40,4; add.u64 %d5,%out,%d5; setp.eq.u32 %p1,%lane,0;\n";

/// A grid over 64 words of zeros and an output of 64 words, of which each is stored once.
fn run(grid: u32, body: &str) -> Outcome {
    let output = |device: &mut Device, _, address| {
        device.declare_output(address).unwrap();
        Vec::new()
    };
    let run = Run { grid, ..Run::default() };
    run.text(&module(&format!("{OWN}{body}")), &[0; 256], 256, output)
}

fn on_threads<T: Send>(threads: usize, work: impl FnOnce() -> T + Send) -> T {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
    pool.install(work)
}

#[test]
fn every_cluster_runs_once_on_any_number_of_threads() {
    let body = "add.u32 %r41,%r40,7; @%p1 st.global.u32 [%d5],%r41;";
    let (one, four) = (on_threads(1, || run(37, body)), on_threads(4, || run(37, body)));
    let (a, b) = (one.result.clone().unwrap(), four.result.clone().unwrap());
    assert_eq!((a.ctas, &a), (37, &b));
    let wanted: Vec<u32> = (0..37).map(|i| i + 7).collect();
    assert_eq!((&one.words()[..37], &four.words()[..37]), (&wanted[..], &wanted[..]));
}

#[test]
fn stores_of_two_clusters_to_one_place_are_found() {
    let found = run(8, "@%p1 st.global.u32 [%out],%r40;").findings();
    assert!(
        matches!(&found[..], [f] if matches!(f.kind, FindingKind::StoredTwice { .. })),
        "{found:?}"
    );
}

#[test]
fn what_clusters_share_is_shared() {
    // The input is the counter: it starts at zero. Every CTA stores what it drew.
    let body = "@%p1 atom.global.add.u32 %r41,[%in],1; @%p1 st.global.u32 [%d5],%r41;";
    let mut drawn = run(16, body).words()[..16].to_vec();
    drawn.sort_unstable();
    assert_eq!(drawn, (0..16).collect::<Vec<u32>>());
    // What is read is also written: only the whole grid knows who was first.
    let body = "mul.wide.u32 %d6,%r40,4; add.u64 %d6,%in,%d6; @%p1 ld.global.u32 %r41,[%d6]; @%p1 add.u32 %r41,%r41,5;\n\
        @%p1 st.global.u32 [%d6],%r41; @%p1 ld.global.u32 %r42,[%d6]; @%p1 st.global.u32 [%d5],%r42;";
    assert_eq!(run(16, body).words()[..16], [5; 16]);
}

#[test]
fn a_fault_in_one_part_is_the_fault_of_the_launch() {
    let found = run(8, "setp.eq.u32 %p2,%r40,6; @%p2 trap;").findings();
    assert!(found.iter().any(|f| f.site.cta == [6, 0, 0]), "{found:?}");
    let body = "setp.ne.u32 %p2,%r40,6; @%p2 bra E; @%p1 mbarrier.init.shared::cta.b64 [%smem],1; bar.sync 0;\n\
        W: mbarrier.try_wait.parity.shared::cta.b64 %p3,[%smem],0; @!%p3 bra W; E:";
    let hung = run(8, body).findings();
    let deadlock = |f: &Finding| matches!(f.kind, FindingKind::Deadlock { .. });
    assert!(hung.iter().any(deadlock), "{hung:?}");
}

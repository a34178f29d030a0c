//! Timed runs: small kernels whose cycles follow from the parameter table.

use std::collections::BTreeSet;

use warpwright_sim::time::TimeOptions;
use warpwright_sim::time::params::{Params, Power};
use warpwright_sim::time::report::{Lane, TimeReport, WaitKind};
use warpwright_sim::time::trace::chrome_json;
use warpwright_sim::{Arg, Device, DeviceConfig, Fault, LaunchConfig, Module};

use super::kernel::{STORE, module};

struct Timed {
    result: Result<TimeReport, Fault>,
    out: Vec<u32>,
}

fn time_with(body: &str, threads: u32, options: &TimeOptions) -> Timed {
    let module = Module::parse(&module(body)).unwrap_or_else(|e| panic!("{e}\n{body}"));
    let mut device = Device::new(DeviceConfig {
        sm_count: 1,
        instruction_budget: 500_000,
        ..DeviceConfig::default()
    });
    let (input, out) = (device.upload(&[0; 4096]), device.alloc(4096));
    let args = [Arg::Buffer(input), Arg::Buffer(out)];
    let config = LaunchConfig::linear(1, threads, 65_536);
    let result = device.time(&module, "k", (config, &args), options);
    let bytes = device.read(out).unwrap();
    let out = bytes
        .chunks(4)
        .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
        .collect();
    Timed { result, out }
}

fn time(body: &str, threads: u32) -> TimeReport {
    let timed = time_with(body, threads, &TimeOptions::default());
    timed.result.unwrap_or_else(|fault| panic!("{fault}\n{body}"))
}

fn repeat(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect()
}

/// Cycles that `body` adds to an empty kernel of as many threads.
fn cycles(body: &str, threads: u32) -> u64 {
    time(body, threads).cycles - time("", threads).cycles
}

#[track_caller]
fn about(found: u64, wanted: f64, slack: f64) {
    let found = found as f64;
    assert!((found - wanted).abs() <= slack, "{found} cycles, {wanted} wanted");
}

#[test]
fn a_chain_takes_latencies_and_independent_work_takes_slots() {
    let p = Params::default();
    let chain = repeat(100, |_| "fma.rn.f32 %f0,%f0,%f1,%f2;\n".to_owned());
    about(cycles(&chain, 32), 100.0 * p.arithmetic_latency, 10.0);
    let free = repeat(100, |i| format!("fma.rn.f32 %f{},%f0,%f1,%f2;\n", 3 + i));
    about(cycles(&free, 32), 100.0, 10.0);
}

#[test]
fn the_mufu_is_shared_by_the_warps_of_a_sub_partition_only() {
    let p = Params::default();
    let body = repeat(64, |i| format!("ex2.approx.ftz.f32 %f{},%f0;\n", 1 + i));
    let one = cycles(&body, 32);
    about(one, 64.0 * p.mufu_cycles, 20.0);
    about(cycles(&body, 128), one as f64, 20.0);
    about(cycles(&body, 256), 2.0 * one as f64, 40.0);
    let report = time(&body, 256);
    let used = report.occupancy(p.smem_bytes_per_cycle)["MUFU"];
    assert!(used > 0.9, "{used}");
}

#[test]
fn a_barrier_waits_for_the_slowest_and_the_report_says_so() {
    let slow = repeat(100, |_| "fma.rn.f32 %f0,%f0,%f1,%f2;\n".to_owned());
    let body = format!("setp.lt.u32 %p0,%lane,32; @!%p0 bra B;\n{slow} B:\n// meet\nbar.sync 1,64;\n");
    let report = time(&body, 64);
    let wait = report.waits.first().unwrap();
    assert_eq!((wait.warp, wait.kind), (1, WaitKind::Barrier));
    assert_eq!(report.labels[wait.label as usize], "meet");
    about(wait.cycles, 100.0 * Params::default().arithmetic_latency, 60.0);
}

#[test]
fn the_clock_is_the_models() {
    let chain = repeat(50, |_| "fma.rn.f32 %f0,%f0,%f1,%f2;\n".to_owned());
    let body = format!(
        "mov.u64 %d0,%clock64;\n{chain} mov.b32 %r5,%f0; bar.sync 0; mov.u64 %d1,%clock64; sub.u64 %d2,%d1,%d0;\n\
         cvt.u32.u64 %r0,%d2;\n{STORE}"
    );
    let timed = time_with(&body, 32, &TimeOptions::default());
    timed.result.unwrap();
    about(
        u64::from(timed.out[0]),
        50.0 * Params::default().arithmetic_latency,
        60.0,
    );
}

#[test]
fn waits_that_nobody_ends_are_reported_and_loops_are_stopped() {
    let hang = "mbarrier.init.shared::cta.b64 [%smem],2; bar.sync 0;\n\
                W: mbarrier.try_wait.parity.shared::cta.b64 %p1,[%smem],0; @!%p1 bra W;";
    let first = "setp.eq.u32 %p0,%lane,0; @!%p0 bra E;\n";
    let fault = time_with(&format!("{first}{hang} E:"), 1, &TimeOptions::default());
    assert!(fault.result.unwrap_err().to_string().contains("deadlock"));
    let endless = time_with("L: bra L;", 32, &TimeOptions::default()).result.unwrap_err();
    assert!(endless.to_string().contains("500000"), "{endless}");
}

#[test]
fn same_input_same_timeline_and_the_trace_is_labelled() {
    let body = "// work\nadd.f32 %f0,%f0,%f1;\n// \"quoted\"\nbar.sync 0;\nex2.approx.ftz.f32 %f2,%f0;";
    let options = TimeOptions {
        trace: true,
        ..TimeOptions::default()
    };
    let text = || {
        let report = time_with(body, 128, &options).result.unwrap();
        let lanes: BTreeSet<Lane> = report.spans.iter().map(|s| s.lane).collect();
        assert_eq!(lanes.len(), 4);
        assert!(report.spans.iter().all(|s| s.start <= s.end && s.end <= report.cycles));
        chrome_json(&report, &|w| format!("warp {w}"))
    };
    let json = text();
    assert_eq!(json, text());
    assert!(
        json.starts_with("{\"simulated\":true") && json.contains("\\\"quoted\\\""),
        "{json}"
    );
}

#[test]
fn every_parameter_has_a_unit_a_source_and_a_meaning() {
    let mut params = Params::default();
    let rows = [params.table(), Power::default().table()].concat();
    let names: BTreeSet<&str> = rows.iter().map(|r| r.name).collect();
    assert_eq!(names.len(), rows.len());
    for row in &rows {
        assert!(!row.unit.is_empty() && !row.meaning.is_empty(), "{row:?}");
        let graded = ["CUDA guide", "whitepaper", "H200 records", "fit", "assumed"];
        assert!(graded.iter().any(|g| row.source.starts_with(g)), "{row:?}");
        assert!(row.value.is_finite() && row.value >= 0.0, "{row:?}");
    }
    assert!(params.set("mufu_cycles", 4.0) && !params.set("no_such", 1.0));
    assert_eq!(params.mufu_cycles, 4.0);
}

//! The simulator reads or refuses any text as PTX, and runs or stops whatever it has read: no panic, no hang.
//!
//! Run with `cargo +nightly fuzz run ptx_text`; the kernels of `sim/tests/foreign` and the goldens are good seeds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sim::{Arg, Device, DeviceConfig, ElemType, LaunchConfig, Module, Swizzle, TensorMapSpec};

/// Warp instructions of one launch: enough to get past a prologue.
const BUDGET: u64 = 3_000;

fuzz_target!(|text: &str| {
    match Module::parse(text) {
        Ok(module) => {
            for entry in module.entries() {
                for threads in [32, 128, 384] {
                    launch(&module, entry, threads);
                }
            }
        }
        Err(error) => {
            let lines = text.lines().count().max(1) as u32 + 1;
            assert!((1..=lines).contains(&error.pos.line) && error.pos.col >= 1, "{error}");
        }
    }
});

/// Every 8-byte parameter is the address of a buffer, every 128-byte one a tensor map over it, any other is one.
fn launch(module: &Module, entry: &str, threads: u32) {
    let mut device = Device::new(DeviceConfig { sm_count: 1, instruction_budget: BUDGET, ..DeviceConfig::default() });
    let buffer = device.upload(&[0; 4096]);
    let map = device.tensor_map(TensorMapSpec {
        elem: ElemType::Bf16,
        address: buffer.address,
        dims: vec![64, 1, 8, 1],
        strides_bytes: vec![128, 128, 1024],
        box_dims: vec![64, 1, 8, 1],
        swizzle: Swizzle::B128,
    });
    let Ok(map) = map else { return };
    let args: Vec<Arg> = module
        .params(entry)
        .unwrap_or_default()
        .iter()
        .map(|(_, bytes)| match bytes {
            8 => Arg::Buffer(buffer),
            128 => map.clone(),
            4 => Arg::U32(1),
            n => Arg::Bytes(vec![1; (*n).min(1 << 16) as usize]),
        })
        .collect();
    // A fault is an answer; only a panic or a hang is not.
    let _ = device.launch(module, entry, LaunchConfig::linear(1, threads, 65_536), &args);
}

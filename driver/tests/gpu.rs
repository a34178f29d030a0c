//! The driver layer on a real GPU (Hopper or newer: the kernels use TMA and clusters).
//!
//! Without a GPU each test prints `SKIP: test: reason` and returns; with `WARPWRIGHT_REQUIRE_GPU=1` it fails instead.
//! Faults and hangs end a process's use of the device: those tests are in `gpu/lost.rs` and use children.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first thing that is wrong, in its helpers too"
)]

#[path = "gpu/lost.rs"]
mod lost;

use std::io::Write;
use std::time::{Duration, Instant};
use warpwright_driver::{
    Context, DeviceBuffer, Driver, DriverError, ErrorClass, Event, Function, Health, KernelArg, L2Flush, L2Promotion,
    LaunchSpec, Module, PackedArgs, PinnedBuffer, Poison, Side, Stream, Swizzle, TensorDtype, TensorMap, TensorMapSpec,
    nvml,
};

const PTX: &str = include_str!("data/kernels.ptx");
const CUBIN: &[u8] = include_bytes!("data/kernels.sm_90.cubin");

/// A context and a stream, or none (said aloud) when there is no suitable GPU.
fn gpu() -> Option<(Context, Stream)> {
    let reason = match Driver::open().and_then(|driver| driver.context(0)) {
        Ok(context) if context.device().compute_capability >= (9, 0) => {
            let stream = Stream::new(&context).unwrap();
            return Some((context, stream));
        }
        Ok(context) => format!("{} is older than Hopper", context.device().name),
        Err(e) => e.to_string(),
    };
    assert!(
        std::env::var("WARPWRIGHT_REQUIRE_GPU").as_deref() != Ok("1"),
        "WARPWRIGHT_REQUIRE_GPU=1, but no CUDA device: {reason}"
    );
    let short = reason.split(". ").next().unwrap_or_default();
    skip(&format!("no CUDA device ({short})"));
    None
}

/// Says that something was not tested, past the test runner's capture of output.
fn skip(why: &str) {
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // One write, so that lines of parallel tests do not mix.
    let line = format!("SKIP {test}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
    // The test command shows the lines of this file in its summary.
    if let Some(log) = std::env::var_os("WARPWRIGHT_SKIP_LOG") {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(log);
        let _ = file.and_then(|mut file| file.write_all(line.as_bytes()));
    }
}

/// The test kernels: the cubin where it fits the device, else through the JIT.
fn module(context: &Context) -> Module {
    if context.device().compute_capability.0 == 9 {
        return Module::load_cubin(context, CUBIN).unwrap();
    }
    let (module, report) = Module::load_ptx_jit(context, PTX).unwrap();
    println!("{}", report.notice);
    module
}

fn kernel(context: &Context, name: &str) -> Function {
    module(context).function(name).unwrap()
}

fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_ne_bytes()).collect()
}

fn floats_of(bytes: &[u8]) -> Vec<f32> {
    let (words, []) = bytes.as_chunks::<4>() else {
        panic!("{} bytes are no whole floats", bytes.len());
    };
    words.iter().map(|w| f32::from_ne_bytes(*w)).collect()
}

fn buffer_of(context: &Context, stream: &Stream, bytes: &[u8]) -> DeviceBuffer {
    let buffer = DeviceBuffer::alloc(context, bytes.len() as u64).unwrap();
    buffer.copy_from_host(stream, bytes).unwrap();
    buffer
}

fn u32_at(buffer: &DeviceBuffer, stream: &Stream) -> u32 {
    let mut word = [0; 4];
    buffer.read(stream, 0, &mut word).unwrap();
    u32::from_ne_bytes(word)
}

fn add_args(a: &DeviceBuffer, b: &DeviceBuffer, out: &DeviceBuffer, n: u32) -> PackedArgs {
    let address = |buffer: &DeviceBuffer| KernelArg::DevicePtr(buffer.address());
    PackedArgs::pack(&[address(a), address(b), address(out), KernelArg::U32(n)]).unwrap()
}

/// Runs `vector_add` on 1000 elements and checks the result and the red zones.
fn add_and_check(context: &Context, stream: &Stream, add: &Function) {
    let a: Vec<f32> = (0..1000_u16).map(f32::from).collect();
    let b: Vec<f32> = a.iter().map(|x| 2.0 * x + 0.5).collect();
    let [a_dev, b_dev] = [&a, &b].map(|v| buffer_of(context, stream, &bytes_of(v)));
    let out = DeviceBuffer::alloc(context, 4000).unwrap();
    out.poison(stream, Poison::F32Nan).unwrap();
    let args = add_args(&a_dev, &b_dev, &out, 1000);
    add.launch(stream, &LaunchSpec::linear(8, 128), &args).unwrap();
    let sum = floats_of(&out.to_host(stream).unwrap());
    let wanted: Vec<f32> = a.iter().zip(&b).map(|(x, y)| x + y).collect();
    assert_eq!(sum, wanted);
    for buffer in [&a_dev, &b_dev, &out] {
        buffer.check_red_zones(stream).unwrap();
    }
}

#[test]
fn device_facts_are_plausible() {
    let Some((context, _)) = gpu() else { return };
    let device = context.device();
    println!("{device:?}, CUDA {}", context.version());
    assert!(device.sm_count > 0 && device.l2_bytes > 1 << 20);
    assert!(device.max_shared_optin_bytes >= 100 * 1024);
    assert!(device.uuid.starts_with("GPU-") && device.uuid.len() == 40);
    assert!(device.tensor_maps && device.cluster_launch);
    let memory = context.memory_info().unwrap();
    assert!(memory.free_bytes > 0 && memory.free_bytes <= memory.total_bytes);
    let absent = Driver::open().unwrap().device(4096).unwrap_err();
    assert!(absent.to_string().contains("asked for device 4096"));
}

#[test]
fn a_jit_load_is_announced_and_runs() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let (module, report) = Module::load_ptx_jit(&context, PTX).unwrap();
    assert!(report.notice.contains("compiled by the driver"));
    println!("{report:?}");
    add_and_check(&context, &stream, &module.function("vector_add").unwrap());
}

#[test]
fn a_cubin_loads_and_runs() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let add = kernel(&context, "vector_add");
    let facts = add.facts();
    assert!(facts.registers_per_thread > 0 && facts.local_bytes == 0);
    assert!(add.blocks_per_sm(128, 0).unwrap() > 0);
    if let Some(params) = add.params() {
        let sizes: Vec<usize> = params.iter().map(|p| p.size_bytes).collect();
        assert_eq!(sizes, [8, 8, 8, 4]);
    } else {
        skip("the driver cannot tell parameters (older than CUDA 12.4)");
    }
    add_and_check(&context, &stream, &add);
}

#[test]
fn bad_images_and_names_are_refused_with_the_drivers_log() {
    let Some((context, _)) = gpu() else { return };
    let bad_ptx = PTX.replace("add.f32 %f3", "add.f99 %f3");
    let Err(DriverError::Load(failure)) = Module::load_ptx_jit(&context, &bad_ptx) else {
        panic!("bad PTX was loaded");
    };
    assert!(!failure.error_log.trim().is_empty(), "{failure:?}");
    let cut = Module::load_cubin(&context, &CUBIN[..CUBIN.len() / 2]).err();
    assert_eq!(cut.map(|e| e.class()), Some(ErrorClass::Refused));
    let absent = module(&context).function("no_such_kernel").unwrap_err();
    assert!(absent.to_string().contains("cuModuleGetFunction"));
    assert_eq!(context.health(), Health::Good);
}

#[test]
fn wrong_arguments_and_shapes_are_refused_before_the_launch() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let add = kernel(&context, "vector_add");
    let class = |spec: LaunchSpec, args: &[KernelArg]| {
        let refused = add.launch_with(&stream, &spec, args);
        refused.err().map(|e| e.class())
    };
    let good = [
        KernelArg::U64(0),
        KernelArg::U64(0),
        KernelArg::U64(0),
        KernelArg::U32(0),
    ];
    let shape = LaunchSpec::linear(1, 32);
    assert_eq!(class(shape, &good), None);
    if add.params().is_some() {
        assert_eq!(class(shape, &good[..3]), Some(ErrorClass::Refused));
        let mut wide = good.clone();
        wide[3] = KernelArg::U64(0);
        assert_eq!(class(shape, &wide), Some(ErrorClass::Refused));
    }
    assert_eq!(class(LaunchSpec::linear(1, 1025), &good), Some(ErrorClass::Refused));
    assert_eq!(class(LaunchSpec::linear(0, 32), &good), Some(ErrorClass::Refused));
    stream.synchronize().unwrap();
}

#[test]
fn writes_past_a_buffer_are_seen() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let add = kernel(&context, "vector_add");
    let ones = buffer_of(&context, &stream, &bytes_of(&[1.0; 64]));
    let out = DeviceBuffer::alloc(&context, 50 * 4).unwrap();
    let args = add_args(&ones, &ones, &out, 53);
    add.launch(&stream, &LaunchSpec::linear(1, 64), &args).unwrap();
    let Err(DriverError::RedZone(breach)) = out.check_red_zones(&stream) else {
        panic!("three elements too far were not seen");
    };
    assert_eq!((breach.side, breach.distance_bytes), (Side::After, 0));
    assert_eq!(breach.changed_bytes, 12);
    ones.check_red_zones(&stream).unwrap();
    let poke = kernel(&context, "poke");
    let below = KernelArg::DevicePtr(ones.address() - 8);
    poke.launch_with(&stream, &LaunchSpec::linear(1, 1), &[below]).unwrap();
    let Err(DriverError::RedZone(breach)) = ones.check_red_zones(&stream) else {
        panic!("a write below was not seen");
    };
    assert_eq!((breach.side, breach.distance_bytes), (Side::Before, 4));
}

#[test]
fn fills_copies_and_empty_buffers_work() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let buffer = DeviceBuffer::alloc_with_zones(&context, 4096, 100).unwrap();
    assert_eq!(buffer.address() % 1024, 0);
    buffer.poison(&stream, Poison::F32Nan).unwrap();
    let nans = floats_of(&buffer.to_host(&stream).unwrap());
    assert!(nans.iter().all(|x| x.is_nan()));
    for (poison, word) in [(Poison::Bf16Nan, 0x7fc1_7fc1), (Poison::F16Nan, 0x7e01_7e01)] {
        buffer.poison(&stream, poison).unwrap();
        assert_eq!(u32_at(&buffer, &stream), word);
    }
    buffer.fill_u8(&stream, 3).unwrap();
    buffer.write(&stream, 1000, &[1, 2]).unwrap();
    let copy = DeviceBuffer::alloc(&context, 4096).unwrap();
    copy.copy_from_device(&stream, &buffer).unwrap();
    let mut four = [0; 4];
    copy.read(&stream, 999, &mut four).unwrap();
    assert_eq!(four, [3, 1, 2, 3]);
    assert!(copy.read(&stream, 4093, &mut four).is_err());
    assert!(copy.copy_from_host(&stream, &four).is_err());
    let odd = DeviceBuffer::alloc(&context, 7).unwrap();
    assert!(odd.fill_u16(&stream, 0).is_err());
    let empty = DeviceBuffer::alloc(&context, 0).unwrap();
    empty.fill_u32(&stream, 1).unwrap();
    assert!(empty.to_host(&stream).unwrap().is_empty());
    for watched in [&buffer, &copy, &odd, &empty] {
        watched.check_red_zones(&stream).unwrap();
    }
}

#[test]
fn asynchronous_copies_give_the_host_buffer_back() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let mut host = PinnedBuffer::new(&context, 1 << 20).unwrap();
    host.as_mut_slice()
        .iter_mut()
        .zip(0_u8..=255)
        .for_each(|(place, value)| *place = value);
    let wanted = host.as_slice().to_vec();
    let device = DeviceBuffer::alloc(&context, 1 << 20).unwrap();
    let limit = Duration::from_secs(20);
    let host = device.copy_from_pinned(&stream, host).unwrap();
    host.wait(limit).unwrap();
    let back = PinnedBuffer::new(&context, 1 << 20).unwrap();
    let back = device.copy_to_pinned(&stream, back).unwrap();
    assert_eq!(back.wait(limit).unwrap().as_slice(), wanted);
    let short = PinnedBuffer::new(&context, 5).unwrap();
    assert!(device.copy_to_pinned(&stream, short).is_err());
}

#[test]
fn asking_for_too_much_memory_is_no_fault() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let total = context.memory_info().unwrap().total_bytes;
    let error = DeviceBuffer::alloc(&context, 2 * total).unwrap_err();
    assert_eq!(error.class(), ErrorClass::OutOfMemory);
    add_and_check(&context, &stream, &kernel(&context, "vector_add"));
}

/// A row-major `[rows 32, cols 256]` 16-bit tensor, boxes of 8 rows by 64 columns.
fn matrix_map(base: u64, swizzle: Swizzle) -> TensorMapSpec {
    TensorMapSpec {
        base,
        dtype: TensorDtype::Bf16,
        dims_elems: vec![256, 32],
        strides_bytes: vec![512],
        box_elems: vec![64, 8],
        swizzle,
        l2_promotion: L2Promotion::B128,
    }
}

#[test]
fn tensor_maps_encode_and_a_kernel_reads_through_one() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let values: Vec<u16> = (0..32 * 256).collect();
    let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_ne_bytes()).collect();
    let matrix = buffer_of(&context, &stream, &bytes);
    let encode = |swizzle| TensorMap::encode(&context, &matrix_map(matrix.address(), swizzle));
    let (plain, swizzled) = (encode(Swizzle::None).unwrap(), encode(Swizzle::B128).unwrap());
    assert_ne!(plain, swizzled);
    let out = DeviceBuffer::alloc(&context, 1024).unwrap();
    let load = |map: TensorMap, x: i32, y: i32| -> Vec<u16> {
        out.fill_u8(&stream, 0xff).unwrap();
        let args = [
            KernelArg::TensorMap(map),
            KernelArg::DevicePtr(out.address()),
            KernelArg::I32(x),
            KernelArg::I32(y),
        ];
        let kernel = kernel(&context, "tma_box");
        kernel.launch_with(&stream, &LaunchSpec::linear(1, 32), &args).unwrap();
        let bytes = out.to_host(&stream).unwrap();
        bytes
            .as_chunks::<2>()
            .0
            .iter()
            .map(|w| u16::from_ne_bytes(*w))
            .collect()
    };
    // 4 rows and 32 columns hang over the edges and read as zero.
    for (x, y) in [(64, 8), (224, 28)] {
        let element = |row: i32, col: i32| {
            let inside = y + row < 32 && x + col < 256;
            if inside {
                values[((y + row) * 256 + x + col) as usize]
            } else {
                0
            }
        };
        let rows = 0..8;
        let wanted: Vec<u16> = rows.clone().flat_map(|r| (0..64).map(move |c| element(r, c))).collect();
        assert_eq!(load(plain, x, y), wanted, "box at {x}, {y}");
        // Swizzle 128B: the 16-byte unit `c / 8` of row `r` lies at unit `(c / 8) ^ (r % 8)`.
        let permuted: Vec<u16> = rows
            .flat_map(|r| (0..64).map(move |c| element(r, ((c / 8) ^ (r % 8)) * 8 + c % 8)))
            .collect();
        assert_eq!(load(swizzled, x, y), permuted, "swizzled box at {x}, {y}");
    }
    out.check_red_zones(&stream).unwrap();
}

#[test]
fn clusters_and_dynamic_shared_memory_reach_the_kernel() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let out = DeviceBuffer::alloc(&context, 64).unwrap();
    let address = [KernelArg::DevicePtr(out.address())];
    let cluster = kernel(&context, "cluster_size");
    let mut spec = LaunchSpec::linear(4, 32);
    for (dims, size) in [(None, 1), (Some([2, 1, 1]), 2), (Some([4, 1, 1]), 4)] {
        spec.cluster = dims;
        cluster.launch_with(&stream, &spec, &address).unwrap();
        assert_eq!(u32_at(&out, &stream), size);
    }
    assert!(cluster.max_active_clusters(&spec).unwrap() > 0);
    let dynamic = kernel(&context, "dynamic_shared");
    let mut spec = LaunchSpec::linear(1, 1);
    spec.dynamic_shared_bytes = 100 * 1024;
    assert!(dynamic.launch_with(&stream, &spec, &address).is_err());
    dynamic.set_max_dynamic_shared_bytes(100 * 1024).unwrap();
    dynamic.launch_with(&stream, &spec, &address).unwrap();
    assert_eq!(u32_at(&out, &stream), 100 * 1024 + 7);
    let optin = context.device().max_shared_optin_bytes;
    assert!(dynamic.set_max_dynamic_shared_bytes(optin).is_err());
    dynamic.set_max_dynamic_shared_bytes(optin - 16).unwrap();
}

#[test]
fn events_time_and_order_streams() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let other = Stream::new(&context).unwrap();
    let flush = L2Flush::new(&context).unwrap();
    let [start, end] = [0; 2].map(|_| Event::new(&context).unwrap());
    assert!(start.elapsed_ms(&end).is_err(), "never recorded");
    start.record(&stream).unwrap();
    for _ in 0..20 {
        flush.flush(&stream).unwrap();
    }
    end.record(&stream).unwrap();
    other.wait_event(&end).unwrap();
    other.synchronize_deadline(Duration::from_secs(20)).unwrap();
    assert!(end.is_passed().unwrap());
    let ms = start.elapsed_ms(&end).unwrap();
    let gb_per_s = 20.0 * flush.len_bytes() as f64 / f64::from(ms) / 1e6;
    println!("20 flushes of {} bytes: {ms} ms, {gb_per_s:.0} GB/s", flush.len_bytes());
    assert!(ms > 0.0 && gb_per_s < 50_000.0);
}

#[test]
fn a_captured_graph_replays() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let one = buffer_of(&context, &stream, &bytes_of(&[1.0; 32]));
    let sum = buffer_of(&context, &stream, &bytes_of(&[0.0; 32]));
    let graph = {
        // The function goes before the launch: the graph keeps its module.
        let add = kernel(&context, "vector_add");
        let args = add_args(&one, &sum, &sum, 32);
        let launch = |s: &Stream| add.launch(s, &LaunchSpec::linear(1, 32), &args);
        let three = stream.capture(|s| (0..3).try_for_each(|_| launch(s)));
        three.unwrap()
    };
    assert_eq!(graph.node_count().unwrap(), 3);
    let ready = graph.instantiate().unwrap();
    drop(graph);
    assert_eq!(floats_of(&sum.to_host(&stream).unwrap()), [0.0; 32]);
    for _ in 0..4 {
        ready.launch(&stream).unwrap();
    }
    assert_eq!(floats_of(&sum.to_host(&stream).unwrap()), [12.0; 32]);
    // A failed recording ends too, and the stream works on.
    let failed = stream.capture(|_| Err(DriverError::OtherContext { what: "a test" }));
    assert!(failed.is_err());
    ready.launch(&stream).unwrap();
    stream.synchronize().unwrap();
}

#[test]
fn threads_launch_on_their_own_streams() {
    let Some((context, _)) = gpu() else { return };
    let add = kernel(&context, "vector_add");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let stream = Stream::new(&context).unwrap();
                for _ in 0..20 {
                    add_and_check(&context, &stream, &add);
                }
            });
        }
    });
}

#[test]
fn the_monitor_sees_the_device() {
    let Some((context, stream)) = gpu() else {
        return;
    };
    let monitor = match nvml::Monitor::start(context.device(), Duration::from_millis(5)) {
        Ok(monitor) => monitor,
        Err(e) => {
            skip(&format!("no NVML ({e})"));
            return;
        }
    };
    let flush = L2Flush::new(&context).unwrap();
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(300) {
        flush.flush(&stream).unwrap();
        stream.synchronize().unwrap();
    }
    let report = monitor.stop();
    println!("{:?}", report.summary);
    assert!(report.samples.len() > 2);
    assert!(report.summary.sm_clock.is_some_and(|c| c.max_mhz > 100));
}

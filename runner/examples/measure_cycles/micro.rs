//! Micro-benchmarks: what one entry of the parameter table is, on a GPU and in the model.
//!
//! Each is a PTX snippet between two reads of the SM's clock, in one CTA. The parameter table names them.

use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

use codegen::launch::{GridRule, LaunchFacts};
use codegen::target::SM_90A;
use driver::LaunchSpec;
use dsl::schedule::Assembler as Choice;
use serde_json::json;
use sim::time::TimeOptions;
use tools::{ResolveOptions, ToolSet};
use warpwright_runner::device::Image;
use warpwright_runner::launch::Arg;
use warpwright_runner::{Assembler, CubinCache, CudaDevice, Device, SimDevice, SimOptions};

use super::AnyError;
use super::set::append;

const DEADLINE: Duration = Duration::from_secs(10);
const SMEM_BYTES: u32 = 131_072;
/// Repetitions of a snippet's operation.
const COUNT: usize = 64;

/// One snippet.
struct Micro {
    name: String,
    threads: u32,
    body: String,
}

fn each(name: &str, threads: u32, line: impl Fn(usize) -> String) -> Micro {
    Micro {
        name: name.to_owned(),
        threads,
        body: (0..COUNT).map(line).collect(),
    }
}

/// Products of each warpgroup, with A from shared memory or from registers.
fn wgmma(name: &str, groups: u32, (n, registers): (usize, bool)) -> Micro {
    let acc: Vec<String> = (0..n / 2).map(|i| format!("%f{i}")).collect();
    let a = if registers { "{%r10,%r11,%r12,%r13}" } else { "%d8" };
    let more = if registers { "1" } else { "0, 1" };
    let mut body = String::from("wgmma.fence.sync.aligned;\n");
    for _ in 0..COUNT {
        // Writing to a string cannot fail.
        let _ = writeln!(
            body,
            "wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {{{}}}, {a}, %d9, 1, 1, 1, {more};",
            acc.join(",")
        );
    }
    body += "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n";
    Micro {
        name: name.to_owned(),
        threads: 128 * groups,
        body,
    }
}

fn all() -> Vec<Micro> {
    let mut out = vec![
        each("empty", 128, |_| String::new()),
        each("fma_chain", 32, |_| "fma.rn.f32 %f0,%f0,%f1,%f2;\n".to_owned()),
        each("fma_rate", 128, |i| {
            format!("fma.rn.f32 %f{},%f{},%f1,%f2;\n", 3 + i, 3 + i)
        }),
        each("max_rate", 128, |i| format!("max.f32 %f{},%f{},%f1;\n", 3 + i, 3 + i)),
        each("ex2_chain", 32, |_| "ex2.approx.ftz.f32 %f0,%f0;\n".to_owned()),
        each("ex2_rate", 128, |i| {
            format!("ex2.approx.ftz.f32 %f{},%f{};\n", 3 + i, 3 + i)
        }),
        each("shuffle_chain", 32, |_| {
            "shfl.sync.bfly.b32 %r0,%r0,1,31,0xffffffff;\n".to_owned()
        }),
        each("bar_pair", 256, |_| "bar.sync 1,256;\n".to_owned()),
        each("uniform_chain", 32, |_| "mad.lo.s32 %r0,%r0,%r1,%r2;\n".to_owned()),
    ];
    for n in [64, 80, 128, 256] {
        out.push(wgmma(&format!("wgmma_ss_n{n}"), 1, (n, false)));
        out.push(wgmma(&format!("wgmma_rs_n{n}"), 1, (n, true)));
    }
    out.push(wgmma("wgmma_two_groups_ss_n128", 2, (128, false)));
    out.push(wgmma("wgmma_three_groups_rs_n128", 3, (128, true)));
    out
}

/// The whole module around a snippet.
fn text(micro: &Micro) -> String {
    let sum: String = (0..136).map(|i| format!("add.f32 %f200,%f200,%f{i};\n")).collect();
    let start: String = (0..136).map(|i| format!("mov.f32 %f{i},%f200;\n")).collect();
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry micro(.param .u64 out) .maxntid {threads},1,1 .minnctapersm 1 {{\n\
         .reg .b32 %r<32>; .reg .b64 %d<16>; .reg .f32 %f<208>; .reg .pred %p<4>;\n\
         ld.param.u64 %d0,[out]; cvta.to.global.u64 %d0,%d0; mov.u32 %r20,%tid.x; mov.u32 %r0,%r20; mov.u32 %r1,%r20;\n\
         mov.u32 %r2,%r20; mov.u32 %r10,0; mov.u32 %r11,0; mov.u32 %r12,0; mov.u32 %r13,0; cvt.rn.f32.u32 %f200,%r20;\n{start}\
         mov.u32 %r21,smem; shr.u32 %r21,%r21,4; mov.b64 %d8,{{%r21,1073741888}}; mov.b64 %d9,{{%r21,1073741888}};\n\
         shl.b32 %r22,%r20,4; mov.u32 %r23,smem; add.u32 %r23,%r23,%r22; mov.u32 %r24,0;\n\
         Z: st.shared.u32 [%r23],%r24; add.u32 %r23,%r23,4; add.u32 %r24,%r24,0; and.b32 %r25,%r23,15; setp.ne.u32 %p1,%r25,0; @%p1 bra Z;\n\
         fence.proxy.async.shared::cta; bar.sync 0; mov.u64 %d1,%clock64;\n{body}bar.sync 0; mov.u64 %d2,%clock64;\n\
         sub.u64 %d3,%d2,%d1; setp.eq.u32 %p0,%r20,0; @%p0 st.global.u64 [%d0],%d3;\n{sum}\
         cvt.rn.f32.u32 %f201,%r0; add.f32 %f200,%f200,%f201; setp.eq.f32 %p2,%f200,0f7F000001; @%p2 st.global.f32 [%d0+8],%f200;\nret;\n}}\n",
        threads = micro.threads,
        body = micro.body
    )
}

fn facts(micro: &Micro) -> LaunchFacts {
    LaunchFacts {
        version: 1,
        entry: "micro".to_owned(),
        target: SM_90A.name.to_owned(),
        block: [micro.threads, 1, 1],
        shared_bytes: SMEM_BYTES,
        grid: GridRule {
            kind: "blocks".to_owned(),
            blocks: vec![],
        },
        runtime: vec![],
        tensors: vec![],
        params: vec![],
    }
}

/// Puts the cubins of all snippets into the folder.
///
/// # Errors
/// No assembler, or a folder that cannot be written.
pub fn prepare(folder: &Path) -> Result<(), AnyError> {
    let assembler = Assembler::new(
        vec![ToolSet::resolve(&ResolveOptions::default())?.ptxas],
        Some(CubinCache::open(folder)?),
    );
    for micro in all() {
        assembler.assemble(&text(&micro), SM_90A.name, &Choice::default())?;
    }
    Ok(())
}

/// Runs all snippets: in the model, and on the GPU when `cubins` is given. Prints and appends cycles per operation.
///
/// # Errors
/// No device, or a snippet that does not run.
pub fn run(out: &Path, cubins: Option<(&Path, u32)>) -> Result<(), AnyError> {
    let gpu = match cubins {
        Some((folder, ordinal)) => {
            let device = CudaDevice::open(ordinal, DEADLINE)?;
            Some((device, Assembler::new(vec![], Some(CubinCache::open(folder)?))))
        }
        None => None,
    };
    let sim = SimDevice::new(SimOptions {
        multiprocessors: 1,
        ..SimOptions::default()
    });
    println!("{:<28} {:>10} {:>10}", "cycles per operation", "simulated", "measured");
    for micro in all() {
        let ptx = text(&micro);
        let simulated = one(&sim, &micro, &Image { ptx: &ptx, cubin: None }, &|bound| {
            sim.time(bound, &TimeOptions::default()).map(|_| ())
        })?;
        let measured = match &gpu {
            Some((device, assembler)) => {
                let image = assembler.assemble(&ptx, SM_90A.name, &Choice::default())?;
                let code = Image {
                    ptx: &ptx,
                    cubin: Some(&image.cubin),
                };
                let launch = |bound: &_| device.launch(bound).and_then(|()| device.synchronize());
                Some(one(device, &micro, &code, &launch)?)
            }
            None => None,
        };
        let shown = measured.map_or("-".to_owned(), |m| format!("{m:.2}"));
        println!("{:<28} {simulated:>10.2} {shown:>10}", micro.name);
        append(
            out,
            &json!({ "micro": micro.name, "simulated": simulated, "measured": measured }),
        )?;
    }
    Ok(())
}

/// Cycles per operation of the second launch.
fn one<D: Device>(
    device: &D,
    micro: &Micro,
    code: &Image<'_>,
    launch: &dyn Fn(&D::Bound) -> Result<(), warpwright_runner::device::DeviceError>,
) -> Result<f64, AnyError> {
    let kernel = device.load(code, &facts(micro))?;
    let buffer = device.alloc(256)?;
    let spec = LaunchSpec {
        grid: [1, 1, 1],
        block: [micro.threads, 1, 1],
        cluster: None,
        dynamic_shared_bytes: SMEM_BYTES,
    };
    let bound = device.bind(&kernel, &spec, &[Arg::Address(device.address(&buffer))])?;
    launch(&bound)?;
    launch(&bound)?;
    let bytes = device.read(&buffer)?;
    let cycles = bytes[..8].iter().rev().fold(0u64, |w, b| w << 8 | u64::from(*b));
    Ok(cycles as f64 / COUNT as f64)
}

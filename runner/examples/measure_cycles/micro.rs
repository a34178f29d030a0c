//! Micro-benchmarks: what one entry of the parameter table is, on a GPU and in the model.
//!
//! Each is a PTX snippet a warpgroup, between two reads of the SM's clock by every warp. The parameter table names them.

mod snippets;

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
use snippets::{Micro, all, text};

const DEADLINE: Duration = Duration::from_secs(10);
const SMEM_BYTES: u32 = 131_072;
/// Global memory of a snippet: stamps of the warps of the first CTA, then what copies read.
const BUFFER_BYTES: u64 = 16 << 20;
/// Where the second part begins.
const SOURCE_AT: usize = 4096;
const WARPS_PER_GROUP: usize = 4;

fn facts(micro: &Micro) -> LaunchFacts {
    LaunchFacts {
        version: 1,
        entry: "micro".to_owned(),
        target: SM_90A.name.to_owned(),
        block: [micro.threads(), 1, 1],
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
        std::fs::write(folder.join(format!("{}.ptx", micro.name)), text(&micro))?;
        let done = assembler.assemble(&text(&micro), SM_90A.name, &Choice::default());
        done.map_err(|e| format!("{}: {e}", micro.name))?;
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
    println!("{:<34} {:>10} {:>10}", "cycles per operation", "simulated", "measured");
    for micro in all() {
        let ptx = text(&micro);
        // The model has one SM, and the L2 share of one.
        let alone = Micro {
            ctas: 1,
            ..micro.clone()
        };
        let simulated = one(&sim, &alone, &Image { ptx: &ptx, cubin: None }, &|bound| {
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
        for (g, group) in micro.groups.iter().enumerate() {
            let name = match micro.groups.len() {
                1 => micro.name.clone(),
                _ => format!("{}.{g} {}", micro.name, group.what),
            };
            let (simulated, measured) = (simulated[g], measured.as_ref().map(|m| m[g]));
            let shown = measured.map_or("-".to_owned(), |m| format!("{m:.2}"));
            println!("{name:<34} {simulated:>10.2} {shown:>10}");
            append(
                out,
                &json!({ "micro": name, "simulated": simulated, "measured": measured }),
            )?;
        }
    }
    Ok(())
}

/// Cycles per operation of each warpgroup, of the second launch.
fn one<D: Device>(
    device: &D,
    micro: &Micro,
    code: &Image<'_>,
    launch: &dyn Fn(&D::Bound) -> Result<(), warpwright_runner::device::DeviceError>,
) -> Result<Vec<f64>, AnyError> {
    let kernel = device.load(code, &facts(micro))?;
    let buffer = device.alloc(BUFFER_BYTES)?;
    let spec = LaunchSpec {
        grid: [micro.ctas, 1, 1],
        block: [micro.threads(), 1, 1],
        cluster: None,
        dynamic_shared_bytes: SMEM_BYTES,
    };
    let bound = device.bind(&kernel, &spec, &[Arg::Address(device.address(&buffer))])?;
    launch(&bound)?;
    launch(&bound)?;
    let bytes = device.read(&buffer)?;
    let stamp = |warp: usize| {
        bytes[8 * warp..8 * warp + 8]
            .iter()
            .rev()
            .fold(0_u64, |w, b| w << 8 | u64::from(*b))
    };
    let group = |g: usize| {
        (0..WARPS_PER_GROUP)
            .map(|w| stamp(g * WARPS_PER_GROUP + w))
            .max()
            .unwrap_or(0) as f64
    };
    Ok(micro
        .groups
        .iter()
        .enumerate()
        .map(|(g, of)| group(g) / of.ops as f64)
        .collect())
}

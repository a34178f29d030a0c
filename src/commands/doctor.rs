//! `warpwright doctor`: what this machine has, what is missing, how to get it.

use driver::{CudaFound, Finding, NvmlFound, Probe};
use serde::Serialize;
use serde_json::json;
use tools::{ResolveOptions, Tool, ToolKind};

use crate::answer::Answer;
use crate::failure::Failure;

pub const EXAMPLES: &str = "\
Examples:
  warpwright doctor
  warpwright doctor --json

The exit code is 0 whatever is missing; `ready` in the JSON form tells what can be done here.
Nothing is fetched.";

#[derive(clap::Args, Debug)]
pub struct Args {}

/// An assembler program, or why it is not there.
#[derive(Debug, Serialize)]
#[serde(tag = "status", rename_all = "snake_case")]
enum Program {
    Found(Tool),
    Missing { tool: ToolKind, reason: String },
}

pub fn run(_: &Args) -> Result<Answer, Failure> {
    let probe = driver::probe();
    let programs: Vec<Program> = ToolKind::ALL.into_iter().map(look_for).collect();
    let can_assemble = programs
        .iter()
        .any(|p| matches!(p, Program::Found(tool) if tool.kind == ToolKind::Ptxas));
    let can_run = matches!(&probe.cuda, Finding::Found(cuda) if cuda.devices.iter().any(is_hopper));
    let ready = json!({ "lower": true, "assemble": can_assemble, "run": can_run && can_assemble });
    let text = [
        tools_text(&programs),
        cuda_text(&probe),
        nvml_text(&probe),
        ready_text(can_assemble, can_run),
    ]
    .concat();
    Ok(Answer::text(text)
        .field("programs", programs)
        .field("probe", probe)
        .field("ready", ready))
}

fn look_for(kind: ToolKind) -> Program {
    // A report must not change the machine, so nothing is fetched.
    let options = ResolveOptions {
        offline: true,
        ..ResolveOptions::default()
    };
    match tools::resolve::resolve(kind, &options) {
        Ok(tool) => Program::Found(tool),
        Err(error) => Program::Missing {
            tool: kind,
            reason: error.to_string(),
        },
    }
}

fn is_hopper(device: &driver::Device) -> bool {
    device.compute_capability == (9, 0)
}

fn tools_text(programs: &[Program]) -> String {
    let line = |program: &Program| match program {
        Program::Found(tool) => {
            let hazard = if tool.has_register_operand_hazard() {
                " (older than 13.3: see `assembler.version`)"
            } else {
                ""
            };
            row(
                true,
                &format!("{} {} at {}{hazard}", tool.kind, tool.version, tool.path.display()),
            )
        }
        Program::Missing { tool, reason } => row(false, &format!("{tool}: {reason}")),
    };
    format!("Assembler\n{}", programs.iter().map(line).collect::<String>())
}

fn cuda_text(probe: &Probe) -> String {
    let body = match &probe.cuda {
        Finding::Missing { reason } => row(false, reason),
        Finding::Found(found) => cuda_found(found),
    };
    format!("CUDA driver\n{body}")
}

fn cuda_found(found: &CudaFound) -> String {
    let path = found.path.as_deref().unwrap_or(found.library);
    let mut out = row(true, &format!("CUDA {} from {path}", found.version));
    if found.devices.is_empty() {
        out += &row(false, "no visible device; see CUDA_VISIBLE_DEVICES");
    }
    for d in &found.devices {
        let (major, minor) = d.compute_capability;
        let gib = d.total_memory_bytes >> 30;
        let facts = format!(
            "cuda:{} {}, sm_{major}{minor}, {} SMs, {gib} GiB",
            d.ordinal, d.name, d.sm_count
        );
        let wanted = if is_hopper(d) {
            ""
        } else {
            "; kernels need sm_90 (H100, H200)"
        };
        out += &row(is_hopper(d), &format!("{facts}{wanted}"));
    }
    out + &found.device_errors.iter().map(|e| row(false, e)).collect::<String>()
}

fn nvml_text(probe: &Probe) -> String {
    let body = match &probe.nvml {
        Finding::Missing { reason } => row(false, reason),
        Finding::Found(found) => nvml_found(found),
    };
    format!("NVML (clocks, power, throttling; needed to trust a timing)\n{body}")
}

fn nvml_found(found: &NvmlFound) -> String {
    let mut out = row(true, &format!("driver {}", found.driver_version));
    for state in &found.states {
        if let Finding::Missing { reason } = &state.state {
            out += &row(false, &format!("{}: {reason}", state.uuid));
        }
    }
    out
}

fn ready_text(can_assemble: bool, can_run: bool) -> String {
    let mut out = "Ready for\n".to_owned();
    out += &row(true, "check, explain, compile to PTX");
    out += &row(
        can_assemble,
        "compile to cubin, SASS, resources (fetched on first use unless --offline; `cargo xtask tools`)",
    );
    out += &row(can_assemble && can_run, "run, bench (an sm_90 GPU with its driver)");
    out
}

fn row(is_there: bool, text: &str) -> String {
    format!("  {}  {text}\n", if is_there { "ok     " } else { "missing" })
}

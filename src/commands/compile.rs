//! `warpwright compile`: one stage of one kernel, as text or as machine code.

use std::path::PathBuf;

use clap::ValueEnum;
use codegen::Compiled;
use serde_json::json;
use tools::Assembled;

use crate::answer::Answer;
use crate::failure::Failure;
use crate::program::{self, AssemblerArgs};
use crate::render;
use crate::subject::{Subject, SubjectArgs};

pub const EXAMPLES: &str = "\
Examples:
  warpwright compile --problem \"fwd bf16 b2 s4096 h16 d128 causal\" --emit ptx
  warpwright compile --problem \"gemm bf16 m4096 n4096 k4096 nt\" --schedule mine.toml --emit cubin --out gemm.cubin
  warpwright compile --problem \"fwd bf16 b1 s1024 h8 d64 full\" --schedule none --emit scheduled --out start.toml
  warpwright compile --problem \"fwd bf16 b1 s1024 h8 d64 full\" --emit resources --json

One cubin serves every batch, length, head count and group; `launch` tells a foreign loader how to run it.
Only cubin, sass and resources need the assembler. `scheduled` is a legal schedule file with every decision spelt out.";

/// What to print.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Emit {
    /// The traced kernel, tile sizes open.
    Tile,
    /// Every decision as TOML, and the kernel with its tile sizes bound.
    Scheduled,
    /// The role program: warps, rings, barriers, wgmma groups.
    Role,
    /// PTX text.
    Ptx,
    /// Machine code.
    Cubin,
    /// Disassembly of the machine code, with counts.
    Sass,
    /// Registers, spills, shared memory, and what the assembler said.
    Resources,
    /// Launch facts as JSON: entry, parameters, grid, block, shared memory, scratch, tensor maps.
    Launch,
}

/// What `--instrument` stamps.
#[derive(ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instrument {
    /// Begin of each CTA and end of each of its roles.
    Ctas,
    /// Begin and end of each block of each role too.
    Blocks,
}

impl From<Instrument> for codegen::Instrument {
    fn from(what: Instrument) -> Self {
        match what {
            Instrument::Ctas => Self::Ctas,
            Instrument::Blocks => Self::Blocks,
        }
    }
}

#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    subject: SubjectArgs,
    /// The stage to print.
    #[arg(long, value_enum)]
    emit: Emit,
    /// Stamp the SM's clock at the edges of CTAs, or of blocks too, into a buffer parameter (see `--emit launch`).
    #[arg(long, value_enum, value_name = "WHAT")]
    instrument: Option<Instrument>,
    /// Write the result to a file instead of standard output.
    #[arg(long, value_name = "FILE")]
    pub(super) out: Option<PathBuf>,
    #[command(flatten)]
    assembler: AssemblerArgs,
}

pub fn run(args: &Args) -> Result<Answer, Failure> {
    let subject = args.subject.load()?;
    // A refused schedule is refused for every stage, also for those before it.
    let mut compiled = program::compile(&subject)?;
    if let Some(what) = args.instrument {
        subject.require_roles("`--instrument`")?;
        compiled = program::compile_instrumented(&subject, what.into())?;
    }
    if args.emit == Emit::Role {
        subject.require_roles("`--emit role`")?;
    }
    let answer = match args.emit {
        Emit::Tile => text(dsl::print(subject.kernel())),
        Emit::Scheduled => text(render::scheduled::text(subject.kernel(), &compiled.scheduled)?),
        Emit::Role => text(codegen::role::print::print(&compiled.program)),
        Emit::Ptx => text(compiled.ptx.to_string()),
        Emit::Launch => launch(&compiled),
        Emit::Cubin => cubin(program::assemble(&subject, &compiled, &args.assembler)?),
        Emit::Sass => sass(&subject, &compiled, &args.assembler)?,
        Emit::Resources => resources(&compiled, &program::assemble(&subject, &compiled, &args.assembler)?),
    };
    let emit = args.emit.to_possible_value().map(|v| v.get_name().to_owned());
    Ok(answer
        .field("subject", subject.json())
        .field("emit", emit)
        .out(args.out.clone()))
}

fn text(text: String) -> Answer {
    Answer::text(text.clone()).field("text", text)
}

fn launch(compiled: &Compiled) -> Answer {
    let value = json!(compiled.launch);
    Answer::text(format!("{value:#}\n")).field("launch", value)
}

fn cubin(assembled: Assembled) -> Answer {
    let (bytes, version) = (assembled.cubin.len(), assembled.ptxas_version.clone());
    let diagnostics = assembled.diagnostics.clone();
    Answer::bytes(assembled.cubin)
        .field("bytes", bytes)
        .field("ptxas_version", version)
        .field("diagnostics", diagnostics)
}

fn sass(subject: &Subject, compiled: &Compiled, args: &AssemblerArgs) -> Result<Answer, Failure> {
    let assembled = program::assemble(subject, compiled, args)?;
    let sass = program::disassemble(subject, &assembled, args)?;
    let reports = sass.reports();
    Ok(Answer::text(sass.text.clone())
        .field("text", sass.text)
        .field("reports", reports)
        .field("ptxas_version", assembled.ptxas_version))
}

fn resources(compiled: &Compiled, assembled: &Assembled) -> Answer {
    let mut out = format!("ptxas {}\n", assembled.ptxas_version);
    for f in &assembled.resources.functions {
        out += &format!(
            "{}\n  registers at entry     {}\n  named barriers         {}\n  stack frame            {} bytes\n",
            f.name, f.registers, f.barriers, f.stack_frame_bytes
        );
        out += &format!(
            "  spill stores, loads    {}, {} bytes\n  static shared memory   {} bytes\n  constant memory        {} bytes\n",
            f.spill_store_bytes, f.spill_load_bytes, f.static_shared_bytes, f.constant_bytes
        );
    }
    let p = &compiled.program;
    out += &format!("dynamic shared memory    {} bytes\n", compiled.launch.shared_bytes);
    if p.producer_registers > 0 {
        let (producer, consumer) = (p.producer_registers, p.consumer_registers);
        out += &format!("registers after start-up {producer} per producer thread, {consumer} per consumer thread\n");
    }
    for diagnostic in assembled
        .diagnostics
        .iter()
        .filter(|d| d.class != tools::DiagnosticClass::Statistics)
    {
        out += &format!("ptxas: {}\n", diagnostic.text);
    }
    Answer::text(out)
        .field("resources", &assembled.resources)
        .field("ptxas_version", &assembled.ptxas_version)
        .field("diagnostics", &assembled.diagnostics)
        .field("cubin_bytes", assembled.cubin.len())
        .field("dynamic_shared_bytes", compiled.launch.shared_bytes)
        .field(
            "registers",
            json!({ "producer": p.producer_registers, "consumer": p.consumer_registers }),
        )
}

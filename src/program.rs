//! From a subject to a compiled kernel and to machine code.

use std::path::PathBuf;
use std::time::Duration;

use codegen::Compiled;
use dsl::schedule::Schedule;
use runner::assemble::Assembler;
use tools::resolve::{self, Tool};
use tools::{AssembleRequest, Assembled, PtxasVersion, ResolveOptions, Sass, ToolError, ToolKind, ToolSet};

use crate::failure::Failure;
use crate::shape;
use crate::subject::Subject;

const DISASSEMBLE_DEADLINE: Duration = Duration::from_secs(60);

/// Which assembler to use.
#[derive(clap::Args, Clone, Debug)]
pub struct AssemblerArgs {
    /// An assembler to use instead of the pinned one.
    #[arg(long, value_name = "PATH")]
    pub ptxas: Option<PathBuf>,
    /// Fetch nothing; without an assembler the command fails and says how to get one.
    #[arg(long)]
    pub offline: bool,
}

impl AssemblerArgs {
    fn options(&self, schedule: &Schedule) -> Result<ResolveOptions, Failure> {
        let asked = schedule.assembler.version.as_deref();
        let ptxas_version = asked.map(version).transpose()?;
        Ok(ResolveOptions {
            ptxas_path: self.ptxas.clone(),
            ptxas_version,
            offline: self.offline,
            folder: None,
        })
    }
}

impl AssemblerArgs {
    /// The assemblers that these schedules name, for the runner; where none can be fetched, the driver's own compiler.
    pub fn assembler<'s>(&self, schedules: impl IntoIterator<Item = &'s Schedule>) -> Result<Assembler, Failure> {
        let mut sets: Vec<Tool> = vec![];
        // The runner takes the first set for schedules that name no version.
        let mut asked: Vec<&Schedule> = schedules.into_iter().collect();
        asked.sort_by_key(|schedule| schedule.assembler.version.is_some());
        for schedule in asked {
            let version = schedule.assembler.version.as_deref();
            if sets.is_empty() || version.is_some_and(|v| sets.iter().all(|set| set.version != v)) {
                let set = match resolve::resolve(ToolKind::Ptxas, &self.options(schedule)?) {
                    Ok(set) => set,
                    Err(error @ ToolError::NotFound { .. })
                        if sets.is_empty() && version.is_none() && !self.offline =>
                    {
                        crate::answer::note(&format!(
                            "note: {error}\nnote: no assembler here, so the driver compiles the PTX: code and timings \
                             differ from the pinned assembler's (name one with --ptxas, or fetch it with `cargo xtask tools`)"
                        ));
                        return Ok(Assembler::driver_jit());
                    }
                    Err(other) => return Err(other.into()),
                };
                warn_of_hazard(&set);
                sets.push(set);
            }
        }
        Ok(Assembler::new(sets, None))
    }
}

fn version(asked: &str) -> Result<PtxasVersion, Failure> {
    asked.parse().map_err(|_| {
        let known = PtxasVersion::ALL.map(PtxasVersion::as_str).join(", ");
        Failure::refused("the schedule was refused").reason(
            "assembler.version",
            asked,
            "no pinned assembler has this version",
            known,
        )
    })
}

/// Compiles, and refuses a problem that the result cannot serve.
pub fn compile(subject: &Subject) -> Result<Compiled, Failure> {
    check_assembler(&subject.schedule)?;
    let compiled = codegen::compile(subject.kernel(), &subject.schedule, subject.target)?;
    shape::check(&compiled.launch, subject.case.sizes())?;
    Ok(compiled)
}

/// As [`compile`], with clock stamps.
pub fn compile_instrumented(subject: &Subject, instrument: codegen::Instrument) -> Result<Compiled, Failure> {
    let options = codegen::Options { instrument };
    Ok(codegen::compile_with(
        subject.kernel(),
        &subject.schedule,
        subject.target,
        options,
    )?)
}

/// The assembler section of a schedule is for the assembler's run, but its faults are the schedule's.
fn check_assembler(schedule: &Schedule) -> Result<(), Failure> {
    if let Some(asked) = &schedule.assembler.version {
        version(asked)?;
    }
    for option in &schedule.assembler.options {
        tools::options::check(option).map_err(|e| {
            Failure::refused("the schedule was refused").reason("assembler.options", e.asked, e.reason, e.allowed)
        })?;
    }
    Ok(())
}

/// Assembles; serialised wgmma and ignored register budgets count as not assembled.
pub fn assemble(subject: &Subject, compiled: &Compiled, args: &AssemblerArgs) -> Result<Assembled, Failure> {
    let ptxas = resolve::resolve(ToolKind::Ptxas, &args.options(&subject.schedule)?)?;
    warn_of_hazard(&ptxas);
    let text = compiled.ptx.to_string();
    let request = AssembleRequest {
        extra_options: &subject.schedule.assembler.options,
        ..AssembleRequest::new(&text, subject.target.name)
    };
    let assembled = tools::assemble::assemble(&ptxas, &request).and_then(tools::assemble::Assembled::accept);
    assembled.map_err(|error| Failure::from(error).suspects(compiled))
}

fn warn_of_hazard(ptxas: &Tool) {
    if ptxas.has_register_operand_hazard() {
        let version = &ptxas.version;
        crate::answer::note(&format!(
            "warning: ptxas {version} may break pipelined wgmma whose A operand is in registers; use 13.3 or later"
        ));
    }
}

/// Disassembles.
pub fn disassemble(subject: &Subject, assembled: &Assembled, args: &AssemblerArgs) -> Result<Sass, Failure> {
    let tools = ToolSet::resolve(&args.options(&subject.schedule)?)?;
    Ok(tools.disassemble(&assembled.cubin, DISASSEMBLE_DEADLINE)?)
}

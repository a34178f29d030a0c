//! The whole path from a kernel and a schedule to PTX, in one straight function.

use dsl::Kernel;
use dsl::schedule::Schedule;

use crate::emit::stamps::Instrument;
use crate::error::CompileError;
use crate::launch::{self, LaunchFacts};
use crate::plan::Scheduled;
use crate::ptx::{self, Ptx};
use crate::role::RoleProgram;
use crate::target::{Family, Target};
use crate::{ampere, check, emit, lower, plan, rewrite};

/// Every stage of one compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub scheduled: Scheduled,
    /// On a target without warp roles: the names, tensors, grid and registers, with empty roles.
    pub program: RoleProgram,
    /// On a target without warp roles: the whole program.
    pub ampere: Option<ampere::Program>,
    pub ptx: Ptx,
    pub launch: LaunchFacts,
    /// What the checker finds legal but likely slow or unintended.
    pub warnings: Vec<String>,
    /// What to look at first when the assembler spills or serialises; see [`check::Checked::suspects`].
    pub suspects: Vec<String>,
}

impl Compiled {
    /// The suspects as the end of a message about what the assembler said; empty where there are none.
    #[must_use]
    pub fn look_first(&self) -> String {
        if self.suspects.is_empty() {
            return String::new();
        }
        format!("\nlook first at {}", self.suspects.join("\n  "))
    }
}

/// Compiles `kernel` under `schedule` for `target`.
///
/// # Errors
/// A refusal with its reasons, or a rule that the lowered program breaks.
pub fn compile(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<Compiled, CompileError> {
    compile_with(kernel, schedule, target, Options::default())
}

/// What to compile besides the kernel itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Clock stamps of CTAs, roles and blocks; only targets with warp roles write them.
    pub instrument: Instrument,
}

/// As [`compile`], with options.
///
/// # Errors
/// As [`compile`].
pub fn compile_with(
    kernel: &Kernel,
    schedule: &Schedule,
    target: &Target,
    options: Options,
) -> Result<Compiled, CompileError> {
    let valid = dsl::validate(kernel.clone()).map_err(CompileError::Invalid)?;
    if target.family == Family::CpAsync {
        // What no schedule can change is refused once, before its keys.
        ampere::check_kernel(valid.kernel(), target)?;
    }
    let mut refused = None;
    for candidate in plan::defaults::candidates(valid.kernel(), schedule) {
        match complete(valid.kernel(), &candidate, target, options) {
            Ok(compiled) => return Ok(compiled),
            // Another tile may be legal; a fault of ours stays one.
            Err(error @ CompileError::Refused(_)) => refused = refused.or(Some(error)),
            Err(fault) => return Err(fault),
        }
    }
    Err(refused.unwrap_or(CompileError::Refused(vec![])))
}

/// Compiles under a schedule that names every tile size.
fn complete(kernel: &Kernel, schedule: &Schedule, target: &Target, options: Options) -> Result<Compiled, CompileError> {
    let scheduled = plan::apply(kernel, schedule, target)?;
    let scheduled = rewrite::run(scheduled);
    if target.family == Family::CpAsync {
        return without_roles(scheduled, target);
    }
    let program = lower::lower(&scheduled, target)?;
    let checked = check::check(&program, target)
        .map_err(|v| CompileError::Unsafe(v.iter().map(ToString::to_string).collect()))?;
    let warnings = checked.warnings().iter().map(ToString::to_string).collect();
    let suspects = checked.suspects().to_vec();
    let mut launch = launch::facts(&program, target.name);
    if options.instrument != Instrument::Off {
        launch.params.push(launch::Param::Stamps {
            name: emit::stamps::PARAM.to_owned(),
            cta_bytes: emit::stamps::cta_bytes(program.consumers),
            roles: program.consumers + 1,
        });
    }
    let module = emit::emit_with(
        &checked,
        vec![format!("warpwright {}: {}", env!("CARGO_PKG_VERSION"), program.name)],
        target.name,
        options.instrument,
    );
    let ptx = ptx::write(&module);
    Ok(Compiled {
        scheduled,
        program,
        ampere: None,
        ptx,
        launch,
        warnings,
        suspects,
    })
}

/// The path of targets whose warps are all alike.
fn without_roles(scheduled: Scheduled, target: &Target) -> Result<Compiled, CompileError> {
    let program = ampere::lower(&scheduled, target)?;
    let launch = program.facts(target.name);
    let header = vec![format!(
        "warpwright {}: {}",
        env!("CARGO_PKG_VERSION"),
        program.shell.name
    )];
    let ptx = ptx::write(&ampere::emit(&program, header, target.name));
    Ok(Compiled {
        scheduled,
        program: program.shell.clone(),
        ampere: Some(program),
        ptx,
        launch,
        warnings: vec![],
        suspects: vec![],
    })
}

//! The whole path from a kernel and a schedule to PTX, in one straight function.

use dsl::Kernel;
use dsl::schedule::Schedule;

use crate::error::CompileError;
use crate::launch::{self, LaunchFacts};
use crate::plan::Scheduled;
use crate::ptx::{self, Ptx};
use crate::role::RoleProgram;
use crate::target::Target;
use crate::{emit, lower, plan, rewrite};

/// Every stage of one compilation.
#[derive(Clone, Debug)]
pub struct Compiled {
    pub scheduled: Scheduled,
    pub program: RoleProgram,
    pub ptx: Ptx,
    pub launch: LaunchFacts,
}

/// Compiles `kernel` under `schedule` for `target`.
///
/// # Errors
/// A refusal with its reasons, or a rule that the lowered program breaks.
pub fn compile(kernel: &Kernel, schedule: &Schedule, target: &Target) -> Result<Compiled, CompileError> {
    let scheduled = plan::apply(kernel, schedule, target)?;
    let scheduled = rewrite::run(scheduled);
    let program = lower::lower(&scheduled, target)?;
    let launch = launch::facts(&program, target.name);
    let module = emit::emit(&program, vec![format!("warpwright {}: {}", env!("CARGO_PKG_VERSION"), program.name)], target.name);
    let ptx = ptx::write(&module);
    Ok(Compiled { scheduled, program, ptx, launch })
}

//! The independent checker: is this role program legal on the target, and does its protocol hold?
//!
//! It reads the program and the limits of the target, and nothing of the passes that made it. Two kinds of rules:
//! budgets and shapes, checked statement by statement; and the protocol, checked by running the producer and the
//! consumer warps over blocks of several trip counts, with vector clocks in place of luck (`check/simulate`).
//! Not followed here: the mailbox of a dynamic grid, which the emitter alone writes, and whether the value that one form of a
//! loop's trips leaves in a register is the one that another form expects (`lower/forms.rs` refuses such folds). The
//! simulator runs both on the PTX. Counts of barriers and expected bytes are compared with the PTX in `tests/check/emitted.rs`.
//! What it relies on is the meaning of the statements as the emitter gives it: a full barrier counts the producer, an
//! empty barrier every consumer warp, a fill waits one phase ahead, staging statements carry warpgroup barriers.

mod access;
mod budget;
mod copies;
mod defined;
mod dots;
mod flat;
mod hazards;
mod ids;
mod layouts;
mod memory;
mod order;
mod pressure;
mod simulate;
mod suspects;
mod trace;
mod violation;

use crate::role::RoleProgram;
use crate::target::Target;

pub use violation::{Path, Rule, Violation, Warning};

use violation::{At, Sink};

/// Proof that a program passed every rule.
#[derive(Clone, Debug)]
pub struct Checked<'p> {
    program: &'p RoleProgram,
    warnings: Vec<Warning>,
    peak_registers: u32,
    suspects: Vec<String>,
}

impl<'p> Checked<'p> {
    /// The program that was checked.
    #[must_use]
    pub fn program(&self) -> &'p RoleProgram {
        self.program
    }

    /// What is legal but likely slow or unintended.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// What to look at first when the assembler spills or serialises: where tiles hold the most registers, and the tiles that
    /// live there, largest first, each with its Rust line.
    #[must_use]
    pub fn suspects(&self) -> &[String] {
        &self.suspects
    }

    /// A program that no rule was asked about. The emitter takes it, which is for tests that break programs on purpose.
    #[doc(hidden)]
    #[must_use]
    pub fn unproven(program: &'p RoleProgram) -> Self {
        Self {
            program,
            warnings: vec![],
            peak_registers: 0,
            suspects: vec![],
        }
    }

    /// Registers that the tiles of a consumer thread hold at most: an estimate.
    #[must_use]
    pub fn peak_registers(&self) -> u32 {
        self.peak_registers
    }
}

/// Checks a program.
///
/// # Errors
/// Every rule that is broken, once per statement. When ids or extents are broken, only those: nothing else has a meaning.
pub fn check<'p>(program: &'p RoleProgram, target: &Target) -> Result<Checked<'p>, Vec<Violation>> {
    let flat = flat::Flat::new(program);
    let mut sink = Sink::new(&flat);
    ids::check(&mut sink);
    if !sink.violations.is_empty() {
        return Err(sink.violations);
    }
    budget::check(&mut sink, target);
    memory::check(&mut sink, target);
    copies::check(&mut sink, target);
    dots::check(&mut sink, target);
    layouts::check(&mut sink);
    defined::check(&mut sink);
    let cases = trace::cases(&flat);
    order::check(&mut sink, &cases);
    hazards::check(&mut sink, &cases);
    simulate::check(&mut sink, &cases);
    let peak = pressure::peak(&flat);
    if let Some(site) = peak.site
        && peak.registers + pressure::RESERVE > program.consumer_registers
    {
        let text = format!(
            "tiles hold {} registers here, with {} for addresses more than the {} of a consumer",
            peak.registers,
            pressure::RESERVE,
            program.consumer_registers
        );
        sink.warn(At::Site(site), text);
    }
    let suspects = suspects::of(&sink, &peak);
    if sink.violations.is_empty() {
        Ok(Checked {
            program,
            warnings: sink.warnings,
            peak_registers: peak.registers,
            suspects,
        })
    } else {
        Err(sink.violations)
    }
}

//! One candidate from problem and schedule to an outcome. [`evaluate`] lists every stage.

use codegen::target::Target;
use codegen::{Compiled, compile};
use dsl::schedule::Schedule;
use oracle::Problem;

use crate::assemble::{AssembledImage, Assembler, AssemblyFacts};
use crate::case::{Case, LayoutRule};
use crate::device::{Device, Image, Timing};
use crate::launch::Prepared;
use crate::outcome::{Outcome, Stage};
use crate::time::{TimePlan, time};
use crate::verify::{Truths, VerifyPlan, verify};

/// What is to be evaluated.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    pub problem: Problem,
    pub schedule: Schedule,
    /// Strides of the tensors.
    pub layout: LayoutRule,
    /// A kernel traced elsewhere; none for the project's own.
    pub kernel: Option<dsl::Kernel>,
}

impl Candidate {
    /// The project's kernel for the problem, on dense tensors.
    #[must_use]
    pub const fn new(problem: Problem, schedule: Schedule) -> Self {
        Self {
            problem,
            schedule,
            layout: LayoutRule::Dense,
            kernel: None,
        }
    }
}

/// Where and how candidates are evaluated.
pub struct Bench<'a, D> {
    pub device: &'a D,
    pub assembler: &'a Assembler,
    pub target: &'a Target,
    pub verify: &'a VerifyPlan,
}

/// What an evaluation found on its way, and how it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Evaluation {
    /// BLAKE3 of the PTX, where the candidate was compiled.
    pub ptx_blake3: Option<String>,
    /// What the assembler said, where there is a cubin.
    pub assembly: Option<AssemblyFacts>,
    pub outcome: Outcome,
}

/// A compiled candidate.
#[derive(Clone, Debug)]
pub struct Build {
    pub case: Case,
    pub compiled: Compiled,
    /// None for a device that takes PTX.
    pub image: Option<AssembledImage>,
}

impl Build {
    /// The code in both forms.
    #[must_use]
    pub fn code(&self) -> Image<'_> {
        Image {
            ptx: &self.compiled.ptx.0,
            cubin: self
                .image
                .as_ref()
                .map(|image| image.cubin.as_slice())
                .filter(|cubin| !cubin.is_empty()),
        }
    }

    fn note(&self, evaluation: &mut Evaluation) {
        evaluation.ptx_blake3 = Some(crate::assemble::hex(self.compiled.ptx.0.as_bytes()));
        evaluation.assembly = self.image.as_ref().map(|image| image.facts.clone());
    }
}

/// Evaluates a candidate to the end: trace, compile, assemble, load, verify, time.
pub fn evaluate<D: Timing>(
    bench: &Bench<'_, D>,
    candidate: &Candidate,
    plan: &TimePlan,
    truths: &mut Truths,
) -> Evaluation {
    finish(|evaluation| {
        let build = build(
            candidate,
            bench.assembler,
            bench.target,
            arch_for(bench.device, bench.target).as_deref(),
        )?;
        build.note(evaluation);
        let prepared = load(bench.device, &build)?;
        let verified = verify(bench.device, (&prepared, &build.case), bench.verify, truths)?;
        let timing = Box::new(time(bench.device, &verified, plan)?);
        let report = Box::new(verified.report().clone());
        Ok(Outcome::Timed { report, timing })
    })
}

/// The same without times: for devices that have none, and for tables of results.
pub fn evaluate_untimed<D: Device>(bench: &Bench<'_, D>, candidate: &Candidate, truths: &mut Truths) -> Evaluation {
    finish(|evaluation| {
        let build = build(
            candidate,
            bench.assembler,
            bench.target,
            arch_for(bench.device, bench.target).as_deref(),
        )?;
        build.note(evaluation);
        let prepared = load(bench.device, &build)?;
        let verified = verify(bench.device, (&prepared, &build.case), bench.verify, truths)?;
        Ok(Outcome::Verified {
            report: Box::new(verified.report().clone()),
            simulated: bench.device.facts().simulated,
        })
    })
}

/// Traces, compiles and assembles; touches no device.
///
/// # Errors
/// The outcome of the stage that failed.
pub fn compile_only(candidate: &Candidate, assembler: &Assembler, target: &Target) -> Result<Build, Outcome> {
    build(candidate, assembler, target, Some(target.name))
}

/// What to assemble for: a target of its own architecture for itself (`sm_90a`); a baseline one (`sm_80`) for the device, whose
/// cubins serve no other generation. None for a device that takes PTX.
pub fn arch_for<D: Device>(device: &D, target: &Target) -> Option<String> {
    if !device.needs_cubin() {
        return None;
    }
    if target.name.ends_with('a') {
        return Some(target.name.to_owned());
    }
    let (major, minor) = device.facts().compute_capability;
    Some(format!("sm_{major}{minor}"))
}

/// Loads a build.
///
/// # Errors
/// The outcome of a device that refuses it.
pub fn load<D: Device>(device: &D, build: &Build) -> Result<Prepared<D>, Outcome> {
    let loaded = Prepared::load(device, &build.code(), &build.compiled.launch);
    loaded.map_err(|error| Outcome::of_device(Stage::Load, &error))
}

/// Traces and compiles, and assembles for `arch` if there is one.
///
/// # Errors
/// The outcome of the stage that failed.
pub fn build(
    candidate: &Candidate,
    assembler: &Assembler,
    target: &Target,
    arch: Option<&str>,
) -> Result<Build, Outcome> {
    let case = match &candidate.kernel {
        Some(kernel) => Case::with_kernel(&candidate.problem, kernel.clone())?,
        None => Case::new(&candidate.problem)?,
    };
    let case = case.with_layouts(candidate.layout)?;
    let compiled = compile(case.kernel(), &candidate.schedule, target)?;
    let image = match arch {
        Some(arch) => {
            let image = assembler.assemble(&compiled.ptx.0, arch, &candidate.schedule.assembler);
            Some(image.map_err(|error| Outcome::from(error).suspects(&compiled))?)
        }
        None => None,
    };
    Ok(Build { case, compiled, image })
}

/// Runs the stages; the outcome of a failed stage ends them.
fn finish(stages: impl FnOnce(&mut Evaluation) -> Result<Outcome, Outcome>) -> Evaluation {
    let placeholder = crate::outcome::ended(Stage::Trace, "not begun");
    let mut evaluation = Evaluation {
        ptx_blake3: None,
        assembly: None,
        outcome: Outcome::Bug(placeholder),
    };
    evaluation.outcome = stages(&mut evaluation).unwrap_or_else(|ended| ended);
    evaluation
}

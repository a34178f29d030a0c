//! Schedules against each other on one problem: each verified, the right ones timed in the same windows.

use codegen::target::Target;
use oracle::Problem;
use runner::assemble::Assembler;
use runner::device::{CudaDevice, Device};
use runner::evaluate::{Build, Candidate, arch_for, build, load};
use runner::launch::Prepared;
use runner::outcome::Outcome;
use runner::record::{ComparisonRecord, Origin, schedule_text};
use runner::time::{Contestant, TimePlan, compare};
use runner::verify::{QuickTruths, Truths, Verified, VerifyPlan, verify, verify_quick};

use crate::subject::Subject;

/// A schedule under the name of its row.
pub struct Entry {
    pub name: String,
    pub subject: Subject,
}

/// One problem and the schedules to compare on it.
pub struct Contest {
    pub problem: Problem,
    pub entries: Vec<Entry>,
}

/// What came of one problem.
pub struct Standing {
    pub problem: Problem,
    /// The times, where at least one schedule was right.
    pub record: Option<ComparisonRecord>,
    /// By schedule name; `*` where the timing itself failed.
    pub failures: Vec<(String, Outcome)>,
}

impl Standing {
    /// Whether this process can no longer use the device.
    pub fn ends_process(&self) -> bool {
        self.failures.iter().any(|(_, outcome)| outcome.ends_process())
    }
}

/// What every contest of a run shares.
pub struct Ring<'a> {
    pub device: &'a CudaDevice,
    pub assembler: &'a Assembler,
    pub target: &'static Target,
    pub plan: &'a TimePlan,
    /// Whether every family runs on the problem itself.
    pub verifies_fully: bool,
}

/// References of one problem.
#[derive(Default)]
struct References {
    full: Truths,
    quick: QuickTruths,
}

/// A schedule that was compiled and loaded.
struct Loaded<'e> {
    entry: &'e Entry,
    build: Build,
    prepared: Prepared<CudaDevice>,
}

impl Ring<'_> {
    /// Runs one contest to its end.
    pub fn hold(&self, contest: &Contest) -> Standing {
        let mut standing = Standing {
            problem: contest.problem,
            record: None,
            failures: vec![],
        };
        let mut loaded = vec![];
        for entry in &contest.entries {
            match self.load(entry) {
                Ok(ready) => loaded.push(ready),
                Err(outcome) => standing.failures.push((entry.name.clone(), outcome)),
            }
        }
        let mut right = vec![];
        let mut truths = References::default();
        for ready in &loaded {
            if standing.ends_process() {
                return standing;
            }
            let kernel = (&ready.prepared, &ready.build.case);
            let checked = if self.verifies_fully {
                verify(self.device, kernel, &VerifyPlan::default(), &mut truths.full)
            } else {
                verify_quick(self.device, kernel, &mut truths.quick)
            };
            match checked {
                Ok(verified) => right.push((ready, verified)),
                Err(error) => standing.failures.push((ready.entry.name.clone(), error.into())),
            }
        }
        if !right.is_empty() && !standing.ends_process() {
            match self.time(contest, &right) {
                Ok(record) => standing.record = Some(record),
                Err(outcome) => standing.failures.push(("*".to_owned(), outcome)),
            }
        }
        standing
    }

    fn load<'e>(&self, entry: &'e Entry) -> Result<Loaded<'e>, Outcome> {
        let candidate = Candidate::new(*entry.subject.problem(), entry.subject.schedule.clone());
        let build = build(
            &candidate,
            self.assembler,
            self.target,
            arch_for(self.device, self.target).as_deref(),
        )?;
        let prepared = load(self.device, &build)?;
        Ok(Loaded { entry, build, prepared })
    }

    fn time(
        &self,
        contest: &Contest,
        right: &[(&Loaded<'_>, Verified<'_, CudaDevice>)],
    ) -> Result<ComparisonRecord, Outcome> {
        let mut contestants = vec![];
        for (ready, verified) in right {
            contestants.push(Contestant {
                name: ready.entry.name.clone(),
                verified,
            });
        }
        let comparison = compare(self.device, &contestants, self.plan)?;
        let origins: Vec<Origin> = right.iter().map(|(ready, _)| origin(ready)).collect();
        Ok(ComparisonRecord::new(
            self.device.facts(),
            &contest.problem,
            &comparison,
            &origins,
            false,
        ))
    }
}

fn origin(ready: &Loaded<'_>) -> Origin {
    let facts = ready.build.image.as_ref().map(|image| &image.facts);
    Origin {
        schedule: schedule_text(&ready.entry.subject.schedule),
        ptx_blake3: facts.map(|f| f.ptx_blake3.clone()),
        ptxas_version: facts.map(|f| f.ptxas_version.clone()),
    }
}

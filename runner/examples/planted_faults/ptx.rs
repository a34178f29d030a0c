//! Edits of PTX text, judged by the simulator.

use std::time::Instant;

use rayon::prelude::*;
use warpwright_sim::{Fault, Finding, FindingKind};

use super::planted::{CASES, Case, UNWRITTEN, config, mutate, problem};
use super::{Row, Verdict, attention};

/// A row for every edit.
pub fn rows() -> Vec<Row> {
    CASES.par_iter().map(row).collect()
}

fn row(case: &Case) -> Row {
    let start = Instant::now();
    let text = mutate(case);
    let run = attention::run(case.sample, &text, &problem(case.sample), config(0));
    let seconds = start.elapsed().as_secs_f64();
    let findings: Vec<Finding> = match &run.result {
        Ok(report) => report.findings.clone(),
        Err(fault) => fault.all().into_iter().cloned().collect(),
    };
    let named = findings.iter().find(|f| (case.wanted)(&f.kind));
    let simulator = match (named, findings.first(), &run.result) {
        (Some(finding), ..) => Verdict::Named(line(finding)),
        _ if case.name == UNWRITTEN && run.unwritten > 0 => {
            Verdict::Named(format!("{} bytes of the output are not written", run.unwritten))
        }
        (None, Some(finding), _) => Verdict::Found(line(finding)),
        (None, None, Err(Fault::Launch { reason, .. })) => Verdict::Found(reason.clone()),
        (None, None, _) => Verdict::Unseen("no finding"),
    };
    Row {
        kind: "PTX",
        place: if case.sample.dynamic {
            "foreign causal"
        } else {
            "foreign full"
        }
        .to_owned(),
        name: case.name,
        simulator,
        checker: Verdict::NotAsked("PTX only"),
        seconds,
    }
}

/// Kind and line of a finding.
fn line(finding: &Finding) -> String {
    format!("{} at line {}", kind(&finding.kind), finding.site.line)
}

/// The name of the rule.
fn kind(kind: &FindingKind) -> String {
    let text = format!("{kind:?}");
    text.split([' ', '{']).next().unwrap_or_default().to_owned()
}

//! Which checks there are.

use oracle::Problem;
use testkit::examples::Example;

use super::agreement;
use super::random::{Draw, draws};
use super::subject::Subject;
use super::supervise::AnyError;
use super::{Args, Kind};

/// Problems whose shipped schedule has a dynamic grid: more blocks than any GPU has multiprocessors, fewer keys than
/// queries and more, every head size, both types.
const GRAPHS: [&str; 4] = [
    "fwd bf16 b2 s2048x3000 h12/4 d128 causal",
    "fwd f16 b1 s3000x2100 h16/2 d64 causal",
    "fwd bf16 b1 s2500x2500 h16 d256 causal",
    "fwd bf16 b1 s9000x4000 h8/2 d128 causal",
];

/// The same for two streams. A grid of the first two leaves room for the other stream's on an H200, so that all their CTAs
/// are resident together; grids of the last two fill the GPU, and overlap where one ends and the other begins.
const STREAMS: [&str; 4] = [
    "fwd bf16 b1 s700x9000 h8/2 d128 causal",
    "fwd f16 b1 s500x8000 h12/4 d64 causal",
    "fwd bf16 b2 s2048x3000 h12/4 d128 causal",
    "fwd bf16 b1 s1500x2500 h16/4 d256 causal",
];

/// One check.
#[derive(Clone, Debug)]
pub enum Check {
    Graph(Problem),
    Streams(Problem),
    Random(Draw),
    Generic(Box<Example>),
    Agreement(Box<Subject>),
}

impl Check {
    /// Name of the kind, and what it is about.
    #[must_use]
    pub fn names(&self) -> (&'static str, String) {
        match self {
            Self::Graph(problem) => ("graph", problem.to_string()),
            Self::Streams(problem) => ("streams", problem.to_string()),
            Self::Random(draw) => ("random", format!("{} #{}", draw.problem, draw.number)),
            Self::Generic(example) => ("generic", example.label.clone()),
            Self::Agreement(subject) => ("agreement", subject.label.clone()),
        }
    }
}

/// The checks asked for, in order.
///
/// # Errors
/// A cubin folder that was not prepared.
pub fn checks(args: &Args) -> Result<Vec<Check>, AnyError> {
    let mut checks = Vec::new();
    if args.wants(Kind::Generic) {
        let examples = testkit::examples::all()?;
        checks.extend(examples.into_iter().map(|example| Check::Generic(Box::new(example))));
    }
    if args.wants(Kind::Random) {
        checks.extend(draws(args)?.into_iter().map(Check::Random));
    }
    if args.wants(Kind::Agreement) {
        let subjects = agreement::subjects(args)?.into_iter();
        checks.extend(subjects.map(|subject| Check::Agreement(Box::new(subject))));
    }
    if args.sim {
        return Ok(checks);
    }
    if args.wants(Kind::Graph) {
        checks.extend(parsed(&GRAPHS)?.into_iter().map(Check::Graph));
    }
    if args.wants(Kind::Streams) {
        checks.extend(parsed(&STREAMS)?.into_iter().map(Check::Streams));
    }
    Ok(checks)
}

/// Every problem of the graph and stream checks.
///
/// # Errors
/// Never: the texts are right.
pub fn launched() -> Result<Vec<Problem>, AnyError> {
    let mut problems = parsed(&GRAPHS)?;
    problems.extend(parsed(&STREAMS)?);
    Ok(problems)
}

fn parsed(texts: &[&str]) -> Result<Vec<Problem>, AnyError> {
    Ok(texts.iter().map(|text| text.parse()).collect::<Result<_, _>>()?)
}

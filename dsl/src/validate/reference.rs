//! What leaves a rescaled fold must not show where its running reference stood.
//!
//! The reference may be the maximum so far, one that lags behind it, or the first trip's: by a choice of the schedule,
//! and by the order of the trips. Raising it by `r` multiplies the weights, and with them every sum, by `2^-r`. So each
//! value is classed by how it answers: not at all, scaled by a power of that factor, or shifted by a multiple of its
//! logarithm. Sums take what is scaled once; stores, carried values and the scores themselves must not answer at all.
//! `acc / l` and `reference + log2(l)` do not; `acc` alone, or the sum of squared weights, would.

use std::fmt;

use super::error::{Invalid, Report};
use super::structure::Placed;
use crate::ir::{BinaryOp, CarryKind, Fold, Kernel, Op, ReduceOp, UnaryOp, ValueId};

/// How a value answers when the reference is raised by `r`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Answer {
    /// Not at all.
    Free,
    /// As `Free`, and zero: it may stand beside anything scaled.
    Zero,
    /// As `Free`, and infinite: it may stand beside anything.
    Infinite,
    /// Multiplied by `2^(-r n)`.
    Scaled(f64),
    /// `r n` is subtracted.
    Shifted(f64),
    /// In no such way.
    Mixed,
}

use Answer::{Free, Infinite, Mixed, Scaled, Shifted, Zero};

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Free | Zero | Infinite => write!(f, "does not depend on it"),
            Scaled(n) => write!(f, "is multiplied by 2^-{n} when it rises by 1"),
            Shifted(n) => write!(f, "moves by {} when it rises by 1", -n),
            Mixed => write!(f, "mixes what follows it with what does not"),
        }
    }
}

impl Answer {
    fn is_free(self) -> bool {
        matches!(self, Free | Zero | Infinite)
    }

    fn scaled(n: f64) -> Self {
        if n == 0.0 { Free } else { Scaled(n) }
    }

    fn shifted(n: f64) -> Self {
        if n == 0.0 { Free } else { Shifted(n) }
    }

    fn constant(v: f32) -> Self {
        match v {
            0.0 => Zero,
            v if v.is_infinite() => Infinite,
            _ => Free,
        }
    }

    /// One of the two, element by element.
    fn beside(self, other: Self) -> Self {
        match (self, other) {
            (a, b) if a == b => a,
            (Zero, Scaled(n)) | (Scaled(n), Zero | Infinite) | (Infinite, Scaled(n)) => Scaled(n),
            (Infinite, Shifted(n)) | (Shifted(n), Infinite) => Shifted(n),
            (a, b) if a.is_free() && b.is_free() => Free,
            _ => Mixed,
        }
    }

    fn plus(self, other: Self) -> Self {
        match (self, other) {
            (Shifted(a), Shifted(b)) => Self::shifted(a + b),
            (Shifted(a), b) | (b, Shifted(a)) if b.is_free() => Shifted(a),
            (a, b) => a.beside(b),
        }
    }

    fn times(self, other: Self) -> Self {
        match (self, other) {
            (Scaled(a), Scaled(b)) => Self::scaled(a + b),
            (Scaled(a), b) | (b, Scaled(a)) if b.is_free() => Scaled(a),
            (Zero, Zero) => Zero,
            (a, b) if a.is_free() && b.is_free() => Free,
            _ => Mixed,
        }
    }

    fn negated(self) -> Self {
        if let Shifted(n) = self { Shifted(-n) } else { self }
    }

    fn inverse(self) -> Self {
        match self {
            Scaled(n) => Scaled(-n),
            a if a.is_free() => Free,
            _ => Mixed,
        }
    }

    fn unary(self, op: UnaryOp) -> Self {
        match (op, self) {
            (UnaryOp::Neg, a) => a.negated(),
            (UnaryOp::Abs, Zero | Infinite | Scaled(_)) | (UnaryOp::Sqrt, Zero | Infinite) => self,
            (UnaryOp::Sqrt, Scaled(n)) => Scaled(n / 2.0),
            (UnaryOp::Recip, a) => a.inverse(),
            (UnaryOp::Exp2, Shifted(n)) => Scaled(n),
            (UnaryOp::Log2, Scaled(n)) => Shifted(n),
            (_, a) if a.is_free() => Free,
            _ => Mixed,
        }
    }
}

/// The answers of every value to one rescaled fold.
struct Answers<'k> {
    kernel: &'k Kernel,
    fold: ValueId,
    name: &'k str,
    of: Vec<Answer>,
}

pub(super) fn check(report: &mut Report<'_>, program: &[Placed]) {
    let kernel = report.kernel;
    let rescaled = program.iter().filter_map(|p| Some((p.id, kernel.fold(p.id)?)));
    for (id, fold) in rescaled.filter(|(_, f)| f.reference().is_some()) {
        let mut answers = Answers {
            kernel,
            fold: id,
            name: &fold.name,
            of: vec![Free; kernel.values.len()],
        };
        for carry in &fold.carries {
            answers.of[carry.arg.0 as usize] = match carry.kind {
                CarryKind::Reference => Shifted(-1.0),
                CarryKind::Sum { rescaled: true, .. } => Scaled(1.0),
                CarryKind::Sum { .. } | CarryKind::Next(_) => Free,
            };
            // Carries of other folds stay free: a body cannot read a running sum, and `total` looks at what was added.
        }
        for placed in program {
            answers.of[placed.id.0 as usize] = answers.op(placed.id);
        }
        answers.fold(report, fold);
        answers.stores(report, program);
    }
}

impl Answers<'_> {
    fn at(&self, id: ValueId) -> Answer {
        self.of.get(id.0 as usize).copied().unwrap_or(Mixed)
    }

    fn op(&self, id: ValueId) -> Answer {
        match self.kernel.op(id) {
            Op::Const(v) => Answer::constant(*v),
            Op::Load { .. } | Op::Param(_) | Op::Fold(_) => Free,
            Op::FoldArg { .. } => self.at(id),
            Op::Unary(op, a) => self.at(*a).unary(*op),
            Op::Binary(op, a, b) => self.binary(*op, *a, *b),
            Op::Fma(a, b, c) => self.product(*a, *b).plus(self.at(*c)),
            Op::Cast(a) => self.at(*a),
            Op::Mask { src, fill, .. } => self.at(*src).beside(Answer::constant(*fill)),
            Op::Select {
                lhs,
                rhs,
                then,
                otherwise,
                ..
            } => {
                let (lhs, rhs) = (self.at(*lhs), self.at(*rhs));
                if comparable(lhs, rhs) {
                    self.at(*then).beside(self.at(*otherwise))
                } else {
                    Mixed
                }
            }
            Op::Reduce(op, a) => summed(*op, self.at(*a)),
            Op::Dot { a, b } => self.at(a.value).times(self.at(b.value)),
            // A source that follows the reference is refused where it stands.
            Op::Rebase { .. } => {
                let own = self.kernel.fold(self.fold).is_some_and(|f| f.body.contains(&id));
                if own { Scaled(1.0) } else { Free }
            }
            Op::FoldOut { fold, carry } => self.total(*fold, *carry),
            Op::Store { src, .. } => self.at(*src),
        }
    }

    fn binary(&self, op: BinaryOp, a: ValueId, b: ValueId) -> Answer {
        let (x, y) = (self.at(a), self.at(b));
        match op {
            BinaryOp::Add => x.plus(y),
            BinaryOp::Sub => x.plus(y.negated()),
            BinaryOp::Mul => self.product(a, b),
            BinaryOp::Div => x.times(y.inverse()),
            BinaryOp::Max | BinaryOp::Min => x.beside(y),
        }
    }

    /// A multiple by a constant scales a shift; by anything else it has no name.
    fn product(&self, a: ValueId, b: ValueId) -> Answer {
        match (self.at(a), self.kernel.op(b), self.at(b), self.kernel.op(a)) {
            (Shifted(n), Op::Const(c), ..) | (_, _, Shifted(n), Op::Const(c)) => Answer::shifted(n * f64::from(*c)),
            (x, _, y, _) => x.times(y),
        }
    }

    /// What a fold leaves: its own reference and sums by their kind; of another fold, what it was made from.
    fn total(&self, fold: ValueId, carry: u32) -> Answer {
        let Some(carry) = self.kernel.fold(fold).and_then(|f| f.carries.get(carry as usize)) else {
            return Mixed;
        };
        match carry.kind {
            _ if fold == self.fold => self.at(carry.arg),
            CarryKind::Sum { contribution, .. } => summed(ReduceOp::Sum, self.at(contribution)),
            CarryKind::Next(next) if !self.at(next).is_free() => Mixed,
            CarryKind::Next(_) | CarryKind::Reference => Free,
        }
    }

    fn fold(&self, report: &mut Report<'_>, fold: &Fold) {
        for carry in &fold.carries {
            let (value, wanted, allowed) = match carry.kind {
                CarryKind::Sum {
                    contribution,
                    rescaled: true,
                } => (contribution, Scaled(1.0), "a sum of values proportional to the weights"),
                CarryKind::Sum { contribution, .. } => (contribution, Free, "a sum of values without the weights"),
                CarryKind::Next(next) => (next, Free, "a value without the weights"),
                CarryKind::Reference => continue,
            };
            let found = self.at(value);
            if found == wanted || found == Zero || (wanted.is_free() && found.is_free()) {
                continue;
            }
            let what = format!("`{}` of fold `{}`", carry.name, fold.name);
            report.at(value, self.shows(value, what, allowed));
        }
    }

    fn stores(&self, report: &mut Report<'_>, program: &[Placed]) {
        for placed in program {
            let (value, what) = match self.kernel.op(placed.id) {
                Op::Store { src, tensor, .. } => (*src, format!("the store to `{}`", self.kernel.tensor(*tensor).name)),
                Op::Rebase { scores } => (*scores, format!("the rebase `{}`", report.label(placed.id))),
                _ => continue,
            };
            if !self.at(value).is_free() {
                let allowed = "a quotient of two sums, or the reference plus the log2 of a sum";
                report.at(placed.id, self.shows(value, what, allowed));
            }
        }
    }

    fn shows(&self, value: ValueId, what: String, allowed: &'static str) -> Invalid {
        Invalid::ReferenceShows {
            what,
            fold: self.name.to_owned(),
            answer: self.at(value).to_string(),
            allowed,
        }
    }
}

/// Whether a comparison comes out the same wherever the reference stands.
fn comparable(lhs: Answer, rhs: Answer) -> bool {
    lhs.beside(rhs) != Mixed
}

fn summed(op: ReduceOp, of: Answer) -> Answer {
    match (op, of) {
        (ReduceOp::Sum, Shifted(_)) => Mixed,
        (ReduceOp::Sum, Infinite) => Free,
        (_, of) => of,
    }
}

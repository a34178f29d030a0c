//! Straight-line traces of a block: every loop runs a chosen number of trips, the same in both roles.
//!
//! Loop counts depend on runtime sizes, so a few small counts stand for all of them: none, one, two and three trips of
//! every loop, in every combination (a bounded sample when there are too many). Variables are evaluated on a few fixed
//! points of the runtime sizes, so that the coordinates of a fill and of its acquire can be compared as numbers.

use dsl::IxBin;

use crate::role::{Coord, Expr, Load, Stmt};

use super::flat::{Flat, Node};

/// An entry of a trace that stands for the jump back to a loop's head.
pub(super) const BACK_EDGE: u32 = u32::MAX;
/// Trip counts of a loop.
const COUNTS: u32 = 4;
/// Combinations of trip counts that are enumerated.
const CASES: u32 = 64;
/// Points at which expressions are evaluated.
const POINTS: usize = 3;

/// One role's block under one choice of trip counts.
pub(super) struct Trace {
    /// Sites in order, with [`BACK_EDGE`] between the trips of a loop.
    pub events: Vec<u32>,
    /// Fills or acquires in order, with a digest of their coordinates.
    pub copies: Vec<(u32, u64)>,
    /// Loops entered: key, site, digest of the count.
    pub loops: Vec<(u32, u32, u64)>,
}

/// Both roles under one choice.
pub(super) struct Case {
    pub producer: Trace,
    pub consumer: Trace,
}

/// The traces of every choice.
pub(super) fn cases(flat: &Flat<'_>) -> Vec<Case> {
    choices(flat.keys)
        .iter()
        .map(|counts| Case {
            producer: trace(flat, &flat.producer, counts),
            consumer: trace(flat, &flat.consumer, counts),
        })
        .collect()
}

/// The consumer's trace with `trips` trips of every loop.
pub(super) fn uniform(flat: &Flat<'_>, trips: u32) -> Trace {
    trace(flat, &flat.consumer, &vec![trips; flat.keys as usize])
}

fn choices(keys: u32) -> Vec<Vec<u32>> {
    let all = COUNTS.checked_pow(keys).unwrap_or(u32::MAX);
    if all <= CASES {
        return (0..all)
            .map(|n| (0..keys).map(|k| n / COUNTS.pow(k) % COUNTS).collect())
            .collect();
    }
    // All equal, one loop apart from the others, then a fixed pseudo-random sample.
    let mut out: Vec<Vec<u32>> = (0..COUNTS).map(|c| vec![c; keys as usize]).collect();
    let mut state = 1;
    while out.len() < CASES as usize {
        out.push(
            (0..keys)
                .map(|_| u32::try_from(next(&mut state) % u64::from(COUNTS)).unwrap_or(0))
                .collect(),
        );
    }
    out
}

/// A step of `SplitMix64`.
pub(super) fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mix(*state)
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

type Values = [i64; POINTS];

struct Walker<'f, 'p> {
    flat: &'f Flat<'p>,
    counts: &'f [u32],
    vars: Vec<Values>,
    out: Trace,
}

fn trace(flat: &Flat<'_>, body: &[Node], counts: &[u32]) -> Trace {
    let mut vars = vec![[0; POINTS]; flat.program.vars.len()];
    for (n, axis) in (0u64..).zip(&flat.program.grid.axes) {
        vars[axis.var.0 as usize] = sample(1 << 32 | n, 50);
    }
    let out = Trace {
        events: vec![],
        copies: vec![],
        loops: vec![],
    };
    let mut w = Walker {
        flat,
        counts,
        vars,
        out,
    };
    w.body(body);
    w.out
}

/// Fixed values in `1..=limit`.
fn sample(seed: u64, limit: i64) -> Values {
    let mut state = seed;
    std::array::from_fn(|_| i64::try_from(next(&mut state) >> 33).unwrap_or(0) % limit + 1)
}

impl Walker<'_, '_> {
    fn body(&mut self, body: &[Node]) {
        for node in body {
            match node {
                Node::Leaf(site) => self.leaf(*site),
                // Run every time: that touches the most.
                Node::Repair { site, body } => {
                    self.leaf(*site);
                    self.body(body);
                }
                Node::Loop { site, key, body } => self.repeat(*site, *key, body),
            }
        }
    }

    fn repeat(&mut self, site: u32, key: u32, body: &[Node]) {
        if let Stmt::Loop { count, .. } = self.flat.sites[site as usize].stmt {
            let digest = digest(0, self.eval(count));
            self.out.loops.push((key, site, digest));
        }
        for trip in 0..self.counts.get(key as usize).copied().unwrap_or(1) {
            if trip > 0 {
                self.out.events.push(BACK_EDGE);
            }
            self.body(body);
        }
    }

    fn leaf(&mut self, site: u32) {
        match self.flat.sites[site as usize].stmt {
            Stmt::Note(_) => return,
            Stmt::Set { var, value } => {
                self.vars[var.0 as usize] = self.eval(value);
                return;
            }
            Stmt::Fill { load, .. } | Stmt::Acquire { load, .. } => {
                let digest = self.place(load);
                self.out.copies.push((site, digest));
            }
            _ => {}
        }
        self.out.events.push(site);
    }

    fn place(&self, load: &Load) -> u64 {
        load.coords.iter().fold(0, |h, c| {
            let (kind, e) = match c {
                Coord::Point(e) => (1, e),
                Coord::Rows(e) => (2, e),
                Coord::Cols(e) => (3, e),
            };
            digest(h.wrapping_add(kind), self.eval(e))
        })
    }

    fn eval(&self, e: &Expr) -> Values {
        match e {
            Expr::Const(v) => [*v; POINTS],
            Expr::Runtime(i) => sample(u64::from(*i), 5000),
            Expr::Var(v) => self.vars[v.0 as usize],
            Expr::Bin(op, ab) => {
                let (a, b) = (self.eval(&ab.0), self.eval(&ab.1));
                std::array::from_fn(|i| bin(*op, a[i], b[i]))
            }
        }
    }
}

fn digest(start: u64, values: Values) -> u64 {
    values
        .iter()
        .fold(start, |h, v| mix(h ^ v.cast_unsigned()).wrapping_add(1))
}

fn bin(op: IxBin, a: i64, b: i64) -> i64 {
    let floor = |a: i64, b: i64| {
        a.checked_div_euclid(b).map_or(0, |q| {
            if b < 0 && a.wrapping_rem(b) != 0 {
                q.wrapping_sub(1)
            } else {
                q
            }
        })
    };
    match op {
        IxBin::Add => a.wrapping_add(b),
        IxBin::Sub => a.wrapping_sub(b),
        IxBin::Mul => a.wrapping_mul(b),
        IxBin::FloorDiv => floor(a, b),
        IxBin::CeilDiv => floor(a.wrapping_add(b).wrapping_sub(1), b),
        IxBin::Rem => a.wrapping_sub(floor(a, b).wrapping_mul(b)),
        IxBin::Min => a.min(b),
        IxBin::Max => a.max(b),
    }
}

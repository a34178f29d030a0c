//! Draws schedules of attention forward: mutations of the shipped one, and free draws. The same on every run.

use dsl::schedule::{Cache, Direction, FoldPlan, Handoff, Persistence, Placement, Release, Rescale, Schedule, Split};

/// A small generator of choices.
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.roll(from.len())]
    }
}

/// Tile pairs (rows of Q, rows of K and V) worth trying for a head size.
fn tiles(head_dim: u32) -> &'static [(u32, u32)] {
    match head_dim {
        64 => &[
            (192, 128),
            (192, 96),
            (192, 64),
            (128, 128),
            (128, 192),
            (128, 96),
            (192, 80),
            (128, 160),
            (64, 128),
            (192, 112),
        ],
        128 => &[
            (192, 80),
            (192, 64),
            (128, 128),
            (128, 176),
            (128, 160),
            (128, 96),
            (128, 112),
            (192, 48),
            (128, 64),
            (128, 144),
        ],
        _ => &[
            (128, 80),
            (128, 64),
            (128, 48),
            (128, 32),
            (64, 64),
            (64, 80),
            (128, 72),
        ],
    }
}

/// A change of one knob.
const KNOBS: usize = 15;

fn turn(s: &mut Schedule, head_dim: u32, knob: usize, d: &mut Dice) {
    match knob {
        0 => {
            let (q, kv) = d.pick(tiles(head_dim));
            s.tiles.insert("q_tile".to_owned(), q);
            s.tiles.insert("kv_tile".to_owned(), kv);
        }
        1 => s.grid.persistence = Some(d.pick(&[Persistence::None, Persistence::Static, Persistence::Dynamic])),
        2 => {
            s.grid.inner = Some("q_block".to_owned());
            s.grid.section = d.pick(&[None, Some(2), Some(4), Some(8)]);
        }
        3 => s.stores.entry("o".to_owned()).or_default().buffer = Some(d.pick(&["own", "q", "v"]).to_owned()),
        4 => {
            let placed = d.pick(&[("q", Placement::Registers), ("p16", Placement::Shared)]);
            s.operands.insert(placed.0.to_owned(), placed.1);
        }
        5..=8 => turn_loads(s, knob, d),
        _ => turn_fold(s.folds.entry("kv".to_owned()).or_default(), knob, d),
    }
}

/// A change of one knob of the loads of keys and values.
fn turn_loads(s: &mut Schedule, knob: usize, d: &mut Dice) {
    let stages = d.roll(4) as u32;
    let (release, cache) = (
        d.pick(&[Release::Early, Release::Late]),
        d.pick(&[Cache::Normal, Cache::EvictLast]),
    );
    for load in ["k", "v"] {
        let plan = s.loads.entry(load.to_owned()).or_default();
        match knob {
            5 => (plan.stages, plan.ring) = (Some(1 + stages), None),
            6 => (plan.stages, plan.ring) = (Some(2 + stages), Some("kv".to_owned())),
            7 => plan.release = Some(release),
            _ => plan.cache = Some(cache),
        }
    }
}

/// A change of one knob of the fold over keys.
fn turn_fold(f: &mut FoldPlan, knob: usize, d: &mut Dice) {
    match knob {
        9 => f.rescale = Some(d.pick(&[Rescale::Exact, Rescale::Lazy, Rescale::Fixed])),
        10 => f.handoff = Some(d.pick(&[Handoff::Free, Handoff::PingPong])),
        11 => f.exp2_polynomial_every = Some(d.pick(&[0, 4, 8, 16])),
        12 => order_of(f, d.roll(4)),
        13 => {
            f.direction = Some(d.pick(&[Direction::Ascending, Direction::Descending]));
            f.unroll = Some(d.pick(&[1, 2]));
        }
        _ => f.split = Some(d.pick(&[Split::ByMask, Split::Never])),
    }
}

/// Event orders: serial, or the softmax beside the second product, or the second product first.
fn order_of(f: &mut FoldPlan, which: usize) {
    let events = |list: [&str; 3]| list.map(str::to_owned).to_vec();
    f.stages.clear();
    f.order.clear();
    match which {
        0 => f.order = events(["issue s", "wait s", "issue o"]),
        1 => f.order = events(["issue s", "issue o", "wait s"]),
        2 => f.order = events(["issue o", "issue s", "wait o"]),
        _ => {}
    }
    if matches!(which, 1 | 2) {
        f.stages.insert("o".to_owned(), 1);
    }
}

/// A mutation of `base`: one or two knobs.
pub fn near(base: &Schedule, head_dim: u32, d: &mut Dice) -> Schedule {
    let mut out = base.clone();
    for _ in 0..1 + d.roll(2) {
        let knob = d.roll(KNOBS);
        turn(&mut out, head_dim, knob, d);
    }
    out
}

/// Every knob turned once or not at all, from the empty schedule.
pub fn free(kernel: &str, head_dim: u32, d: &mut Dice) -> Schedule {
    let mut out = Schedule {
        kernel: kernel.to_owned(),
        ..Schedule::default()
    };
    turn(&mut out, head_dim, 0, d);
    for knob in 1..KNOBS {
        if d.roll(2) == 0 {
            turn(&mut out, head_dim, knob, d);
        }
    }
    out
}

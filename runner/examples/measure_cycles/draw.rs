//! Draws schedules of attention forward: mutations of the shipped one, and free draws. The same on every run.

use dsl::schedule::{Cache, Direction, Handoff, Persistence, Placement, Release, Rescale, Schedule, Split};

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
const KNOBS: usize = 14;

fn turn(s: &mut Schedule, head_dim: u32, knob: usize, d: &mut Dice) {
    let fold =
        |s: &mut Schedule, f: &dyn Fn(&mut dsl::schedule::FoldPlan)| f(s.folds.entry("kv".to_owned()).or_default());
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
        3 => {
            let rescale = d.pick(&[Rescale::Exact, Rescale::Lazy, Rescale::Fixed]);
            fold(s, &|f| f.rescale = Some(rescale));
        }
        4 => {
            let handoff = d.pick(&[Handoff::Free, Handoff::PingPong]);
            fold(s, &|f| f.handoff = Some(handoff));
        }
        5 => {
            let stages = 1 + d.roll(4) as u32;
            for load in ["k", "v"] {
                let plan = s.loads.entry(load.to_owned()).or_default();
                plan.stages = Some(stages);
                plan.ring = None;
            }
        }
        6 => {
            let stages = 2 + d.roll(4) as u32;
            for load in ["k", "v"] {
                let plan = s.loads.entry(load.to_owned()).or_default();
                plan.stages = Some(stages);
                plan.ring = Some("kv".to_owned());
            }
        }
        7 => s.stores.entry("o".to_owned()).or_default().buffer = Some(d.pick(&["own", "q", "v"]).to_owned()),
        8 => {
            let release = d.pick(&[Release::Early, Release::Late]);
            for load in ["k", "v"] {
                s.loads.entry(load.to_owned()).or_default().release = Some(release);
            }
        }
        9 => {
            let every = d.pick(&[0, 4, 8, 16]);
            fold(s, &|f| f.exp2_polynomial_every = Some(every));
        }
        10 => {
            let order = d.roll(4);
            fold(s, &|f| order_of(f, order));
        }
        11 => {
            let placed = d.pick(&[("q", Placement::Registers), ("p16", Placement::Shared)]);
            s.operands.insert(placed.0.to_owned(), placed.1);
        }
        12 => {
            let (direction, unroll) = (d.pick(&[Direction::Ascending, Direction::Descending]), d.pick(&[1, 2]));
            fold(s, &|f| (f.direction, f.unroll) = (Some(direction), Some(unroll)));
        }
        _ => {
            let (split, cache) = (
                d.pick(&[Split::ByMask, Split::Never]),
                d.pick(&[Cache::Normal, Cache::EvictLast]),
            );
            fold(s, &|f| f.split = Some(split));
            for load in ["k", "v"] {
                s.loads.entry(load.to_owned()).or_default().cache = Some(cache);
            }
        }
    }
}

/// Event orders: serial, or the softmax beside the second product, or the second product first.
fn order_of(f: &mut dsl::schedule::FoldPlan, which: usize) {
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

/// A mutation of `base`: one to three knobs.
pub fn near(base: &Schedule, head_dim: u32, d: &mut Dice) -> Schedule {
    let mut out = base.clone();
    for _ in 0..1 + d.roll(3) {
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

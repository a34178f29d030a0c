//! Schedule text: faults with path, line and suggestion; exact round trips; no panic for any text.

use std::collections::BTreeMap;

use proptest::collection::{btree_map, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;
use warpwright_dsl::index::Ix;
use warpwright_dsl::ir::span;
use warpwright_dsl::schedule::text::{check_names, parse, parse_for, to_text};
use warpwright_dsl::schedule::{
    Assembler, Cache, Direction, FoldPlan, Grid, Handoff, LoadPlan, Persistence, Placement, Release, Rescale, Roles,
    Schedule, Split, StorePlan,
};
use warpwright_dsl::{DType, Kernel, Trace};

#[track_caller]
fn faults(text: &str, wanted: &[&str]) {
    let errors = parse(text).expect_err("the text must be refused").errors;
    let found: Vec<_> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(found.len(), wanted.len(), "{found:#?}");
    for (found, wanted) in found.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "found `{found}`, wanted `{wanted}`");
    }
}

#[test]
fn unknown_keys_are_refused_with_a_suggestion() {
    faults(
        "\n[load.k]\nstages = 2\n",
        &["line 2: load: unknown key `load` (did you mean `loads`?); known: kernel, tiles"],
    );
    faults(
        "[loads.k]\nstagse = 2\n",
        &["line 2: loads.k.stagse: unknown key `stagse` (did you mean `stages`?)"],
    );
    faults(
        "[roles]\nwarpgroups = 2\n",
        &["line 2: roles.warpgroups: unknown key `warpgroups`; known: consumers"],
    );
}

#[test]
fn unknown_choices_are_refused_with_a_suggestion() {
    faults(
        "[folds.kv]\nhandoff = \"pingpong\"\n",
        &["line 2: folds.kv.handoff: unknown choice `pingpong` (did you mean `ping-pong`?); allowed: free, ping-pong"],
    );
    faults(
        "[operands]\np = \"smem\"\n",
        &["line 2: operands.p: unknown choice `smem`; allowed: registers, shared"],
    );
}

#[test]
fn wrong_types_are_named() {
    faults(
        "[tiles]\nq = \"64\"\n",
        &["line 2: tiles.q: found string \"64\"; expected a whole number, 0 to 4294967295"],
    );
    faults(
        "[tiles]\nq = -64\n",
        &["line 2: tiles.q: found integer `-64`; expected a whole number, 0 to 4294967295"],
    );
    faults("tiles = 3\n", &["line 1: tiles: found integer `3`; expected a map"]);
    faults(
        "[folds.kv]\norder = [\"issue a\", 3]\n",
        &["line 2: folds.kv.order.1: found integer `3`; expected a string"],
    );
    faults(
        "[folds.kv]\nunroll = 2.5\n",
        &["line 2: folds.kv.unroll: found floating point `2.5`; expected a whole number, 0 to 4294967295"],
    );
    faults(
        "[grid]\npersistence = true\n",
        &["line 2: grid.persistence: found boolean `true`; expected"],
    );
    faults(
        "[tiles]\nq = 99999999999999999999\n",
        &["line 2: tiles.q: found an integer beyond 64 bits; expected a whole number, 0 to 4294967295"],
    );
    faults(
        "kernel = 1979-05-27\n",
        &["line 1: kernel: found a date or time; expected a string"],
    );
}

#[test]
fn all_faults_come_together_in_order() {
    faults(
        "kernal = \"x\"\n[roles]\nconsumers = \"two\"\n[loads.k]\nrelease = \"erly\"\n[folds.kv]\nunrol = 2\n",
        &[
            "line 1: kernal: ",
            "line 3: roles.consumers: ",
            "line 5: loads.k.release: unknown choice `erly` (did you mean `early`?)",
            "line 7: folds.kv.unrol: ",
        ],
    );
}

#[test]
fn faults_of_interleaved_sections_are_in_order_of_lines() {
    faults(
        "[loads.a]\nx = 1\n[folds.f]\nx = 1\n[loads.b]\nx = 1\n",
        &["line 2: loads.a.x: ", "line 4: folds.f.x: ", "line 6: loads.b.x: "],
    );
}

#[test]
fn syntax_faults_have_a_line() {
    faults("[tiles]\nq = = 3\n", &["line 2: not TOML: "]);
    faults("[tiles]\nq = 3\nq = 4\n", &["line 3: not TOML: "]);
}

fn kernel() -> Kernel {
    let k = Trace::new("product");
    let m = k.runtime("m");
    let (m_tile, k_tile) = (k.tile("m_tile"), k.tile("k_tile"));
    let a = k.input("a", DType::F16, [m.clone(), m.clone()]);
    let c = k.output("c", DType::F32, [m.clone(), 64.into()]);
    let row = k.grid("block", m.clone().ceil_div(m_tile)) * m_tile;
    let sums = k.fold("depth", m.ceil_div(k_tile), |fold, j| {
        let left = fold
            .load(&a, [span(&row, m_tile), span(&j * k_tile, k_tile)])
            .named("left");
        let right = fold.load(&a, [span(j * k_tile, k_tile), span(0, 64)]).named("right");
        let doubled = (left.cast(DType::F32) * 2.0).cast(DType::F16).named("doubled");
        fold.accumulate("acc", &doubled.dot(&right).named("ab"));
    });
    k.store(&c, [span(row, m_tile), span(Ix::from(0), 64)], &sums.total("acc"));
    k.finish().unwrap()
}

#[track_caller]
fn name_fault(text: &str, wanted: &str) {
    let found = parse_for(text, &kernel())
        .expect_err("the name must be refused")
        .to_string();
    let wanted = format!("the schedule has 1 error(s)\n  {wanted}");
    assert!(found.starts_with(&wanted), "found `{found}`, wanted `{wanted}`");
}

#[test]
fn names_are_checked_against_the_kernel() {
    name_fault(
        "kernel = \"produkt\"\n",
        "line 1: kernel: the schedule is for kernel `produkt`; this kernel is `product`",
    );
    name_fault(
        "[tiles]\nm_tiel = 64\n",
        "line 2: tiles.m_tiel: the kernel has no tile size `m_tiel` (did you mean `m_tile`?); it has: m_tile, k_tile",
    );
    name_fault(
        "\n[loads.letf]\n",
        "line 2: loads.letf: the kernel has no load `letf` (did you mean `left`?)",
    );
    name_fault(
        "[operands]\nleft = \"shared\"\n",
        "line 2: operands.left: the kernel has no left dot operand `left`; it has: doubled",
    );
    name_fault(
        "[folds.dept]\nunroll = 2\n",
        "line 1: folds.dept: the kernel has no fold `dept` (did you mean `depth`?)",
    );
    name_fault(
        "[folds.depth.stages]\nba = 1\n",
        "line 2: folds.depth.stages.ba: the kernel has no value in this fold called `ba` (did you mean `ab`?)",
    );
    name_fault(
        "[folds.depth]\norder = [\"issue ab\",\n\"wait abb\"]\n",
        "line 3: folds.depth.order.1: the kernel has no dot in this fold called `abb` (did you mean `ab`?)",
    );
    name_fault(
        "[folds.depth]\norder = [\"issue left\"]\n",
        "line 2: folds.depth.order.0: the kernel has no dot in this fold called `left`",
    );
    name_fault(
        "[folds.depth]\norder = [\"start the ab\"]\n",
        "line 2: folds.depth.order.0: `start the ab` is not an event",
    );
    name_fault(
        "[stores]\nd = {}\n",
        "line 2: stores.d: the kernel has no output `d` (did you mean `c`?)",
    );
    name_fault(
        "[stores.c]\nbuffer = \"rigth\"\n",
        "line 2: stores.c.buffer: the kernel has no load `rigth` (did you mean `right`?)",
    );
    name_fault(
        "[grid]\ninner = \"blok\"\n",
        "line 2: grid.inner: the kernel has no grid axis `blok` (did you mean `block`?)",
    );
    name_fault(
        "[grid]\ndescending = [\"block\", \"x\"]\n",
        "line 2: grid.descending.1: the kernel has no grid axis `x`",
    );
}

#[test]
fn right_names_pass() {
    let text = "kernel = \"product\"\n[tiles]\nm_tile = 64\nk_tile = 32\n[grid]\ninner = \"block\"\n[loads.left]\n[operands]\ndoubled = \"registers\"\n[folds.depth]\nstages = { ab = 1 }\norder = [\"issue ab\", \"doubled\", \"wait ab\"]\n[stores.c]\nbuffer = \"own\"\n";
    let schedule = parse_for(text, &kernel()).unwrap();
    assert_eq!(check_names(&schedule, &kernel()), Ok(()));
}

#[test]
fn defaults_write_nothing() {
    assert_eq!(to_text(&Schedule::default()).unwrap(), "");
    assert_eq!(parse("").unwrap(), Schedule::default());
}

fn name() -> impl Strategy<Value = String> {
    // Any string is a legal TOML key when quoted; most names are plain.
    prop_oneof!["[a-z0-9_]{1,6}", any::<String>()]
}

fn choice<T: Clone + std::fmt::Debug + 'static>(all: Vec<T>) -> impl Strategy<Value = Option<T>> {
    of(select(all))
}

fn load() -> impl Strategy<Value = LoadPlan> {
    let release = choice(vec![Release::Early, Release::Late]);
    let cache = choice(vec![Cache::Normal, Cache::EvictFirst, Cache::EvictLast]);
    (of(any::<u32>()), of(name()), release, cache, of(any::<u32>())).prop_map(
        |(stages, ring, release, cache, l2_promotion)| LoadPlan {
            stages,
            ring,
            release,
            cache,
            l2_promotion,
        },
    )
}

fn fold() -> impl Strategy<Value = FoldPlan> {
    let flags = (
        choice(vec![Direction::Ascending, Direction::Descending]),
        choice(vec![Split::Never, Split::ByMask]),
        choice(vec![Handoff::Free, Handoff::PingPong]),
        choice(vec![Rescale::Exact, Rescale::Lazy, Rescale::Fixed]),
    );
    let numbers = (
        of(any::<f32>().prop_filter("a number", |x| !x.is_nan())),
        of(any::<u32>()),
        of(any::<u32>()),
        of(any::<bool>()),
        of(any::<bool>()),
    );
    (flags, btree_map(name(), any::<u32>(), 0..3), vec(name(), 0..3), numbers).prop_map(
        |(
            (direction, split, handoff, rescale),
            stages,
            order,
            (lazy_threshold, exp2_polynomial_every, unroll, peel, narrow),
        )| {
            FoldPlan {
                direction,
                split,
                stages,
                order,
                handoff,
                rescale,
                lazy_threshold,
                exp2_polynomial_every,
                unroll,
                peel,
                narrow,
            }
        },
    )
}

fn grid() -> impl Strategy<Value = Grid> {
    let persistence = choice(vec![Persistence::None, Persistence::Static, Persistence::Dynamic]);
    (persistence, of(name()), vec(name(), 0..3), of(any::<u32>())).prop_map(
        |(persistence, inner, descending, section)| Grid {
            persistence,
            inner,
            descending,
            section,
        },
    )
}

fn roles() -> impl Strategy<Value = Roles> {
    [
        of(any::<u32>()),
        of(any::<u32>()),
        of(any::<u32>()),
        of(any::<u32>()),
        of(any::<u32>()),
    ]
    .prop_map(|n| Roles {
        consumers: n[0],
        rows_per_consumer: n[1],
        producer_warps: n[2],
        producer_registers: n[3],
        consumer_registers: n[4],
    })
}

fn schedule() -> impl Strategy<Value = Schedule> {
    let maps = (
        btree_map(name(), any::<u32>(), 0..3),
        btree_map(name(), load(), 0..3),
        btree_map(name(), select(vec![Placement::Registers, Placement::Shared]), 0..3),
        btree_map(name(), fold(), 0..3),
        btree_map(name(), of(name()).prop_map(|buffer| StorePlan { buffer }), 0..3),
    );
    let assembler = (of(name()), vec(name(), 0..3)).prop_map(|(version, options)| Assembler { version, options });
    (
        prop_oneof![Just(String::new()), name()],
        maps,
        roles(),
        grid(),
        assembler,
    )
        .prop_map(
            |(kernel, (tiles, loads, operands, folds, stores), roles, grid, assembler)| Schedule {
                kernel,
                tiles,
                roles,
                grid,
                loads,
                operands,
                folds,
                stores,
                assembler,
            },
        )
}

/// TOML-shaped noise, which reaches deeper than arbitrary strings.
fn noise() -> impl Strategy<Value = String> {
    let words = vec![
        "[",
        "]",
        "[[",
        "]]",
        "=",
        "\n",
        "\"",
        ".",
        "{",
        "}",
        ",",
        " ",
        "tiles",
        "folds",
        "kv",
        "stages",
        "roles",
        "order",
        "1",
        "-2",
        "0x",
        "1e999",
        "nan",
        "true",
        "1979-05-27",
        "\u{0}",
        "ü",
    ];
    vec(select(words), 0..40).prop_map(|words| words.concat())
}

proptest! {
    #[test]
    fn text_round_trips(schedule in schedule()) {
        let text = to_text(&schedule).unwrap();
        prop_assert_eq!(parse(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?, schedule);
    }

    #[test]
    fn no_text_panics(text in prop_oneof![any::<String>(), noise()]) {
        let kernel = kernel();
        let _ = parse_for(&text, &kernel);
    }

    #[test]
    fn no_schedule_panics_the_name_check(schedule in schedule()) {
        let _ = check_names(&schedule, &kernel());
    }
}

#[test]
fn thresholds_keep_every_bit() {
    for bits in (0..=u32::MAX).step_by(65_521).chain([(-0.0f32).to_bits()]) {
        let x = f32::from_bits(bits);
        if x.is_nan() {
            continue;
        }
        let schedule = Schedule {
            folds: BTreeMap::from([(
                "f".to_owned(),
                FoldPlan {
                    lazy_threshold: Some(x),
                    ..FoldPlan::default()
                },
            )]),
            ..Schedule::default()
        };
        let again = parse(&to_text(&schedule).unwrap()).unwrap();
        assert_eq!(again.folds["f"].lazy_threshold.map(f32::to_bits), Some(bits), "{x}");
    }
}

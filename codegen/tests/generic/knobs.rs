//! Every knob changes what is emitted and not what is computed.
//!
//! One kernel, one base schedule, one change at a time: the PTX or the launch facts must differ from the base's, and the
//! simulated result must agree with the interpreter of the tile IR. A knob of the schedule that has no row here fails.

use std::collections::{BTreeMap, BTreeSet};

use dsl::schedule::{
    Assembler, Cache, Direction, FoldPlan, Grid, Handoff, LoadPlan, Persistence, Placement, Release, Rescale, Roles,
    Schedule, Split, StorePlan,
};
use dsl::{DType, Kernel};
use kernels::attention;
use warpwright_codegen::{compile, target};

use crate::harness::{Case, schedule};

/// What is changed, in which context: the key of the knob, the text that both schedules share, and the text of one.
type Row = (&'static str, &'static str, &'static str);

/// A row tile of two consumers and a column tile, for rows that do not bring their own.
const TILES: &str = "tiles = { q_tile = 128, kv_tile = 64 }\n";
const ONE: &str = "tiles = { q_tile = 64, kv_tile = 64 }\n";

const ROWS: &[Row] = &[
    ("tiles.kv_tile", "tiles.q_tile = 64\n", "tiles.kv_tile = 48\n"),
    ("tiles.q_tile", "tiles.kv_tile = 64\n", "tiles.q_tile = 192\n"),
    ("roles.consumers", TILES, "roles.consumers = 1\n"),
    ("roles.rows_per_consumer", TILES, "roles.rows_per_consumer = 128\n"),
    ("roles.producer_warps", TILES, "roles.producer_warps = 2\n"),
    (
        "roles.producer_registers",
        "tiles = { q_tile = 128, kv_tile = 64 }\nroles.consumer_registers = 208\n",
        "roles.producer_registers = 40\n",
    ),
    ("roles.consumer_registers", TILES, "roles.consumer_registers = 208\n"),
    ("grid.persistence", ONE, "grid.persistence = \"none\"\n"),
    ("grid.persistence", ONE, "grid.persistence = \"static\"\n"),
    ("grid.inner", ONE, "grid.inner = \"head\"\n"),
    (
        "grid.descending",
        "tiles = { q_tile = 64, kv_tile = 64 }\ngrid.persistence = \"static\"\n",
        "grid.descending = [\"q_block\"]\n",
    ),
    ("grid.section", ONE, "grid.section = 2\n"),
    ("loads.k.stages", ONE, "loads.k.stages = 3\n"),
    (
        "loads.k.ring",
        "tiles = { q_tile = 64, kv_tile = 64 }\nloads.k.stages = 4\nloads.v.stages = 4\n",
        "loads.k.ring = \"kv\"\nloads.v.ring = \"kv\"\n",
    ),
    ("loads.k.release", ONE, "loads.k.release = \"late\"\n"),
    ("loads.q.cache", ONE, "loads.q.cache = \"evict-first\"\n"),
    ("loads.k.cache", ONE, "loads.k.cache = \"evict-last\"\n"),
    ("loads.k.l2_promotion", ONE, "loads.k.l2_promotion = 256\n"),
    ("operands.q", ONE, "operands.q = \"registers\"\n"),
    ("operands.p16", ONE, "operands.p16 = \"shared\"\n"),
    ("folds.kv.direction", ONE, "folds.kv.direction = \"ascending\"\n"),
    ("folds.kv.split", ONE, "folds.kv.split = \"never\"\n"),
    // No overlap, and the scores of block j before the product of block j - 1.
    ("folds.kv.stages", ONE, "folds.kv.stages = { o = 0 }\n"),
    (
        "folds.kv.order",
        ONE,
        "folds.kv.stages = { o = 1 }\nfolds.kv.order = [\"issue o\", \"issue s\", \"wait o\"]\n",
    ),
    ("folds.kv.handoff", TILES, "folds.kv.handoff = \"ping-pong\"\n"),
    ("folds.kv.rescale", ONE, "folds.kv.rescale = \"exact\"\n"),
    ("folds.kv.rescale", ONE, "folds.kv.rescale = \"fixed\"\n"),
    ("folds.kv.lazy_threshold", ONE, "folds.kv.lazy_threshold = 2.0\n"),
    (
        "folds.kv.exp2_polynomial_every",
        ONE,
        "folds.kv.exp2_polynomial_every = 4\n",
    ),
    (
        "folds.kv.peel",
        "tiles = { q_tile = 64, kv_tile = 64 }\nfolds.kv.stages = { o = 0 }\n",
        "folds.kv.peel = true\n",
    ),
    ("folds.kv.narrow", TILES, "folds.kv.narrow = true\n"),
    ("folds.kv.unroll", ONE, "folds.kv.unroll = 2\n"),
    ("stores.o.buffer", ONE, "stores.o.buffer = \"q\"\n"),
    ("stores.o.buffer", ONE, "stores.o.buffer = \"v\"\n"),
];

/// Keys that reach no device: they name the kernel, or the assembler and its options.
const NOT_EMITTED: [&str; 3] = ["kernel", "assembler.version", "assembler.options"];

fn kernel() -> Kernel {
    attention::forward(attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal: true,
    })
    .unwrap()
}

/// PTX and launch facts.
fn emitted(kernel: &Kernel, text: &str) -> (String, String) {
    let compiled = compile(kernel, &schedule(text), &target::SM_90A).unwrap_or_else(|e| panic!("{text}: {e}"));
    (compiled.ptx.0.clone(), serde_json::to_string(&compiled.launch).unwrap())
}

fn agrees(kernel: &Kernel, text: &str, label: &str) {
    let (q, kv) = (150, 210);
    let sizes = [
        ("batch", 1),
        ("q_len", q),
        ("kv_len", kv),
        ("heads", 4),
        ("kv_heads", 2),
        ("group", 2),
    ];
    let case = Case::new(kernel, &schedule(text));
    let case = sizes.iter().fold(case, |c, (n, v)| c.runtime(n, *v as i64));
    let case = case.scalar("scale_log2", 0.18).input("q", &[1, q, 4, 64], 4.0);
    let case = case.input("k", &[1, kv, 2, 64], 1.0).input("v", &[1, kv, 2, 64], 1.0);
    case.output("o", &[1, q, 4, 64])
        .output("lse", &[1, 4, q])
        .check_seeds(label, 6e-3, 1);
}

#[test]
fn a_knob_changes_the_program_and_not_the_result() {
    let kernel = kernel();
    let mut bases = BTreeMap::new();
    for (key, base, change) in ROWS {
        let before = bases.entry(*base).or_insert_with(|| emitted(&kernel, base));
        let text = format!("{base}{change}");
        let after = emitted(&kernel, &text);
        assert!(*before != after, "{key}: nothing changes\n{text}");
        agrees(&kernel, &text, key);
    }
}

#[test]
fn the_values_of_one_knob_are_programs_of_their_own() {
    let kernel = kernel();
    for (key, values) in [
        ("grid.persistence", ["\"none\"", "\"static\"", "\"dynamic\""]),
        ("folds.kv.rescale", ["\"exact\"", "\"lazy\"", "\"fixed\""]),
        ("tiles.q_tile", ["64", "128", "192"]),
    ] {
        let programs: BTreeSet<_> = values
            .iter()
            .map(|v| emitted(&kernel, &format!("tiles.kv_tile = 64\n{key} = {v}\n")).0)
            .collect();
        assert_eq!(programs.len(), values.len(), "{key}");
        for v in values {
            agrees(&kernel, &format!("tiles.kv_tile = 64\n{key} = {v}\n"), key);
        }
    }
}

/// A schedule with every field set; a new field does not compile until it stands here.
fn everything() -> Schedule {
    let load = LoadPlan {
        stages: Some(2),
        ring: Some("k".into()),
        release: Some(Release::Early),
        cache: Some(Cache::Normal),
        l2_promotion: Some(128),
    };
    let fold = FoldPlan {
        direction: Some(Direction::Ascending),
        split: Some(Split::Never),
        stages: BTreeMap::from([("o".into(), 1)]),
        order: vec!["issue s".into()],
        handoff: Some(Handoff::Free),
        rescale: Some(Rescale::Exact),
        lazy_threshold: Some(8.0),
        exp2_polynomial_every: Some(0),
        peel: Some(true),
        narrow: Some(true),
        unroll: Some(1),
    };
    Schedule {
        kernel: "k".into(),
        tiles: BTreeMap::from([("q_tile".into(), 64)]),
        roles: Roles {
            consumers: Some(1),
            rows_per_consumer: Some(64),
            producer_warps: Some(1),
            producer_registers: Some(24),
            consumer_registers: Some(240),
        },
        grid: Grid {
            persistence: Some(Persistence::None),
            inner: Some("head".into()),
            descending: vec!["head".into()],
            section: Some(1),
        },
        loads: BTreeMap::from([("k".into(), load)]),
        operands: BTreeMap::from([("q".into(), Placement::Shared)]),
        folds: BTreeMap::from([("kv".into(), fold)]),
        stores: BTreeMap::from([(
            "o".into(),
            StorePlan {
                buffer: Some("own".into()),
            },
        )]),
        assembler: Assembler {
            version: Some("13".into()),
            options: vec!["-v".into()],
        },
    }
}

#[test]
fn every_knob_has_a_row() {
    let tree = serde_json::to_value(everything()).unwrap();
    let mut keys = BTreeSet::new();
    leaves(&tree, String::new(), &mut keys);
    let rows: BTreeSet<String> = ROWS.iter().map(|r| r.0.to_owned()).collect();
    for key in keys {
        let key = if key.starts_with("folds.kv.stages") {
            "folds.kv.stages".to_owned()
        } else {
            key
        };
        assert!(
            rows.contains(&key) || NOT_EMITTED.contains(&key.as_str()),
            "no row for `{key}`"
        );
    }
}

fn leaves(value: &serde_json::Value, path: String, out: &mut BTreeSet<String>) {
    let Some(map) = value.as_object() else {
        out.insert(path);
        return;
    };
    for (key, inner) in map {
        let path = if path.is_empty() {
            key.clone()
        } else {
            format!("{path}.{key}")
        };
        leaves(inner, path, out);
    }
}

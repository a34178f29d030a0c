//! Every knob of a schedule: what `list knobs` prints.
//!
//! The table says what the data types' docs say, in one place and with values to copy; a test holds it against the
//! schedule parser, so that no key is missing and none is made up.

use serde::Serialize;

/// One key of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Knob {
    /// Where it stands; upper-case words are names of the kernel.
    pub key: &'static str,
    pub values: &'static str,
    /// What stands where the schedule says nothing.
    pub default: &'static str,
    pub meaning: &'static str,
    /// A line to copy, with its heading.
    pub example: &'static str,
}

const fn knob(
    key: &'static str,
    values: &'static str,
    default: &'static str,
    meaning: &'static str,
    example: &'static str,
) -> Knob {
    Knob {
        key,
        values,
        default,
        meaning,
        example,
    }
}

/// Every knob, in the order of a schedule file.
pub const KNOBS: [Knob; 31] = [
    knob(
        "kernel",
        "a kernel's name",
        "any kernel",
        "the kernel this schedule is for",
        "kernel = \"gemm\"",
    ),
    knob(
        "tiles.TILE",
        "a multiple of 8, 8 to 4096",
        "the largest that fit",
        "a tile size in elements",
        "[tiles]\nq_tile = 128",
    ),
    knob(
        "roles.consumers",
        "1, 2 or 3",
        "1 for 64 rows, 3 for 192, else 2",
        "consumer warpgroups",
        "[roles]\nconsumers = 2",
    ),
    knob(
        "roles.rows_per_consumer",
        "a multiple of 64",
        "row tile / consumers",
        "rows of the row tile per consumer warpgroup",
        "[roles]\nrows_per_consumer = 64",
    ),
    knob(
        "roles.producer_warps",
        "1 to 4",
        "1",
        "warps of the producer warpgroup that stay",
        "[roles]\nproducer_warps = 1",
    ),
    knob(
        "roles.producer_registers",
        "a multiple of 8, 24 to 256",
        "56, 24 or 32 for 1, 2 or 3 consumers",
        "registers per producer thread",
        "[roles]\nproducer_registers = 24",
    ),
    knob(
        "roles.consumer_registers",
        "a multiple of 8, 24 to 256",
        "256, 240 or 160",
        "registers per consumer thread",
        "[roles]\nconsumer_registers = 240",
    ),
    knob(
        "grid.persistence",
        "none, static, dynamic",
        "dynamic for uneven blocks, else static",
        "who hands out blocks",
        "[grid]\npersistence = \"static\"",
    ),
    knob(
        "grid.inner",
        "a grid axis",
        "the uneven axis, or the first",
        "the axis walked first, or inside a section",
        "[grid]\ninner = \"q_block\"",
    ),
    knob(
        "grid.descending",
        "grid axes",
        "the uneven axis, without a [grid]",
        "axes walked from their last block to their first",
        "[grid]\ndescending = [\"q_block\"]",
    ),
    knob(
        "grid.section",
        "blocks",
        "8 for uneven blocks, without a [grid]",
        "blocks of the other axes that share the L2",
        "[grid]\nsection = 8",
    ),
    knob(
        "loads.LOAD.stages",
        "1 to 16",
        "2 in folds (3 with tiles left out and room), else 1",
        "slots of the ring",
        "[loads.k]\nstages = 2",
    ),
    knob(
        "loads.LOAD.ring",
        "a name",
        "its own",
        "loads with the same ring share its slots",
        "[loads.k]\nring = \"kv\"",
    ),
    knob(
        "loads.LOAD.release",
        "early, late",
        "early",
        "when a slot goes back to the producer",
        "[loads.k]\nrelease = \"early\"",
    ),
    knob(
        "loads.LOAD.cache",
        "normal, evict-first, evict-last",
        "normal",
        "L2 eviction priority",
        "[loads.k]\ncache = \"evict-last\"",
    ),
    knob(
        "loads.LOAD.l2_promotion",
        "0, 64, 128, 256",
        "128",
        "L2 promotion of the tensor map in bytes",
        "[loads.k]\nl2_promotion = 256",
    ),
    knob(
        "operands.VALUE",
        "registers, shared",
        "shared if loaded, registers if computed",
        "where a computed dot operand lives",
        "[operands]\np16 = \"registers\"",
    ),
    knob(
        "folds.FOLD.direction",
        "ascending, descending",
        "descending with masks, if the order is free",
        "which way the trips are walked",
        "[folds.kv]\ndirection = \"descending\"",
    ),
    knob(
        "folds.FOLD.split",
        "never, by-mask",
        "by-mask with masks",
        "whether trips without masking are a loop of their own",
        "[folds.kv]\nsplit = \"by-mask\"",
    ),
    knob(
        "folds.FOLD.stages.VALUE",
        "0 or 1",
        "see meaning",
        "a value at stage 1 runs one trip later; without `stages` and `order`, dots of a value of their own trip do",
        "[folds.kv.stages]\no = 1",
    ),
    knob(
        "folds.FOLD.order",
        "`issue X`, `wait X`, `X`",
        "as operands become ready",
        "order of events inside a trip; where it is given, values that `stages` does not name are at stage 0",
        "[folds.kv]\norder = [\"issue s\", \"issue o\", \"wait s\"]",
    ),
    knob(
        "folds.FOLD.handoff",
        "free, ping-pong",
        "free",
        "how consumer warpgroups share the tensor core",
        "[folds.kv]\nhandoff = \"ping-pong\"",
    ),
    knob(
        "folds.FOLD.rescale",
        "exact, lazy, fixed",
        "lazy",
        "when the reference of a rescaled fold moves",
        "[folds.kv]\nrescale = \"lazy\"",
    ),
    knob(
        "folds.FOLD.lazy_threshold",
        "0 to 16",
        "8 (0 for f16 of more than weights)",
        "growth that lazy rescaling lets pass, in powers of two",
        "[folds.kv]\nlazy_threshold = 8.0",
    ),
    knob(
        "folds.FOLD.exp2_polynomial_every",
        "0 (none) or n",
        "0",
        "every n-th exp2 is a polynomial",
        "[folds.kv]\nexp2_polynomial_every = 4",
    ),
    knob(
        "folds.FOLD.peel",
        "true, false",
        "false, or as the pipeline needs",
        "emit the first trip apart",
        "[folds.kv]\npeel = true",
    ),
    knob(
        "folds.FOLD.narrow",
        "true, false",
        "false",
        "warpgroups that keep only the left half of the first trip's columns compute that half alone",
        "[folds.kv]\nnarrow = true",
    ),
    knob(
        "folds.FOLD.unroll",
        "1 to 8",
        "1",
        "trips per iteration of the emitted loop",
        "[folds.kv]\nunroll = 2",
    ),
    knob(
        "stores.OUTPUT.buffer",
        "own, or a load",
        "own (a load with tiles left out and no room)",
        "the slot that stages an output tile",
        "[stores.o]\nbuffer = \"q\"",
    ),
    knob(
        "assembler.version",
        "a pinned version",
        "13.5.37",
        "the assembler",
        "[assembler]\nversion = \"13.5.37\"",
    ),
    knob(
        "assembler.options",
        "a list",
        "none",
        "assembler options, from the allowed list",
        "[assembler]\noptions = [\"--register-usage-level=5\"]",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use dsl::schedule::text::{Fault, parse};

    #[test]
    fn every_example_is_a_schedule() {
        for knob in KNOBS {
            parse(knob.example).unwrap_or_else(|e| panic!("{}: {e}", knob.key));
        }
    }

    /// The keys the parser knows under a heading, as it lists them when it refuses a key.
    fn known(heading: &str) -> BTreeSet<String> {
        let errors = parse(&format!("{heading}\nno_such_key = 1"))
            .expect_err("the key is unknown")
            .errors;
        let lists = errors.into_iter().find_map(|e| match e.kind {
            Fault::UnknownKey { known, .. } => Some(known),
            _ => None,
        });
        lists.expect("the parser lists its keys").into_iter().collect()
    }

    #[test]
    fn the_table_has_exactly_the_parsers_keys() {
        let of = |prefix: &str| -> BTreeSet<String> {
            let rest = KNOBS
                .iter()
                .filter_map(|k| k.key.strip_prefix(prefix).map(str::to_owned));
            rest.map(|k| k.split('.').next().unwrap_or_default().to_owned())
                .collect()
        };
        assert_eq!(of(""), known(""));
        assert_eq!(of("roles."), known("[roles]"));
        assert_eq!(of("grid."), known("[grid]"));
        assert_eq!(of("assembler."), known("[assembler]"));
        assert_eq!(of("loads.LOAD."), known("[loads.k]"));
        assert_eq!(of("folds.FOLD."), known("[folds.kv]"));
        assert_eq!(of("stores.OUTPUT."), known("[stores.o]"));
    }
}

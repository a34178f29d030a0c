//! Fault × family: a right kernel passes everywhere, every planted fault is caught, and by the families that are meant
//! to catch it.

use rayon::prelude::*;
use warpwright_oracle::inputs::Family::{
    self, Alternating, ConstantRows, GrowingMax, LateSpike, NearOverflow, Normal, OneHot, Tiny,
};

use crate::candidate::{Case, Fault, Style};

const FORWARD: Style = Style {
    block: 128,
    reverse: false,
};
const REVERSE: Style = Style {
    block: 96,
    reverse: true,
};

const SHAPES: [&str; 8] = [
    "s200 h2/1 d64 full",
    "s200 h2/1 d64 causal",
    "s70x300 h1 d128 causal",
    "s300x70 h1 d64 causal",
    "s9x2049 h2 d128 full",
    "s1x1 h1 d8 full",
    "s17x1 h1 d16 causal",
    "s129x127 h2/2 d256 causal",
];

/// How many seeds right kernels are tried on; more by environment, to measure the rate of false alarms.
fn seeds() -> u64 {
    std::env::var("ORACLE_SEEDS")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(2)
}

#[test]
fn right_kernels_pass_on_every_family() {
    let of_shape = |shape: &&str| {
        let dtypes = ["bf16", "f16"].map(|dtype| format!("fwd {dtype} b1 {shape}"));
        let cases = dtypes
            .into_iter()
            .flat_map(|text| Family::ALL.map(|family| (text.clone(), family)));
        cases.collect::<Vec<_>>()
    };
    let cases = SHAPES.iter().flat_map(of_shape).collect::<Vec<_>>();
    let alarms = cases.par_iter().flat_map_iter(|(text, family)| {
        (1..=seeds()).flat_map(move |seed| {
            let case = Case::new(text, *family, seed);
            let measure = case.measure();
            [FORWARD, REVERSE].map(|style| {
                let report = case.judge(&measure, &case.run(style, Fault::None));
                (!report.passed()).then(|| format!("{text} {family} seed {seed}: {report}"))
            })
        })
    });
    let alarms = alarms.flatten().collect::<Vec<_>>();
    let runs = cases.len() as u64 * seeds() * 2;
    assert!(
        alarms.is_empty(),
        "{} false alarms in {runs} runs:\n{}",
        alarms.len(),
        alarms.join("\n")
    );
}

const LONG: &str = "fwd bf16 b1 s9x1000 h4/2 d64 full";
const LONG_F16: &str = "fwd f16 b1 s9x1000 h4/2 d64 full";
const CAUSAL: &str = "fwd bf16 b1 s260 h2 d64 causal";
const RAGGED: &str = "fwd bf16 b1 s17x145 h1 d64 full";
const BLIND: &str = "fwd bf16 b1 s64x40 h1 d64 causal";

/// A fault and the families that must see it.
type Expectation = (Fault, &'static [Family]);

/// A shape, and for each fault run on it the families that must see it. Others may.
const TABLE: &[(&str, &[Expectation])] = &[
    (
        LONG,
        &[
            (Fault::AccumulateInDtype, &[ConstantRows, Tiny, Normal, Alternating]),
            (Fault::SumInDtype, &[ConstantRows, Tiny, Normal]),
            (Fault::ScoresInF16, &[GrowingMax, LateSpike, NearOverflow]),
            (Fault::OutputNotRescaled, &[Normal, GrowingMax, LateSpike, OneHot]),
            (Fault::NothingRescaled, &[Normal, GrowingMax, LateSpike, OneHot]),
            (Fault::RescaleIgnoresSmallSteps, &[Normal]),
            (Fault::DropFirstBlock, &[Normal, GrowingMax, LateSpike, Alternating]),
            (Fault::DropMiddleBlock, &[Normal, OneHot, Alternating, NearOverflow]),
            (Fault::DropLastBlock, &[Normal, GrowingMax, LateSpike, Alternating]),
            (Fault::DropLastKey, &[LateSpike, GrowingMax, Alternating]),
            (Fault::WrongKeyHead, &[Normal, OneHot, GrowingMax]),
            (Fault::SwapsTwoValues, &[Normal, OneHot, Alternating, NearOverflow]),
            (Fault::MissingScale, &[Normal, GrowingMax]),
            (Fault::LseInBase2, &Family::ALL),
            (Fault::Zeros, &Family::ALL),
            (Fault::Constant, &Family::ALL),
            (Fault::StaleRows, &[Normal, GrowingMax, OneHot, NearOverflow]),
            (Fault::UnwrittenRow, &Family::ALL),
            (Fault::OneNan, &Family::ALL),
        ],
    ),
    (LONG_F16, &[(Fault::FlushesSubnormals, &[Tiny])]),
    (
        CAUSAL,
        &[
            (
                Fault::MissingMask,
                &[Normal, GrowingMax, ConstantRows, Alternating, Tiny],
            ),
            (Fault::CausalSeesOneMore, &[Normal, GrowingMax]),
            (Fault::CausalSeesOneLess, &[Normal, GrowingMax, LateSpike, OneHot]),
        ],
    ),
    (RAGGED, &[(Fault::CountsPaddingKeys, &[Normal, ConstantRows, Tiny])]),
    (BLIND, &[(Fault::BlindRowsGetMean, &Family::ALL)]),
];

/// For each family whether the fault is seen when the keys are walked forward, and backward.
fn seen(shape: &str, fault: Fault) -> Vec<[bool; 2]> {
    let of_family = |family: &Family| {
        let case = Case::new(shape, *family, 7);
        let measure = case.measure();
        [FORWARD, REVERSE].map(|style| !case.judge(&measure, &case.run(style, fault)).passed())
    };
    Family::ALL.par_iter().map(of_family).collect()
}

#[test]
fn every_fault_is_caught_by_the_families_meant_for_it() {
    let mut missed = Vec::new();
    for &(shape, faults) in TABLE {
        for &(fault, expected) in faults {
            let seen = seen(shape, fault);
            let marks = Family::ALL
                .iter()
                .zip(&seen)
                .map(|(f, [a, b])| format!(" {f}={}{}", u8::from(*a), u8::from(*b)));
            let line = format!("{fault:?}:{}", marks.collect::<String>());
            println!("{line}");
            let caught = |family: &Family| seen[*family as usize] == [true; 2];
            let absent = expected.iter().filter(|family| !caught(family)).collect::<Vec<_>>();
            if expected.is_empty() || !absent.is_empty() {
                missed.push(format!("{line}; expected but unseen: {absent:?}"));
            }
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

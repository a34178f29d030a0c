//! Predictions of the set, and their rank correlation with what was measured.

use std::collections::BTreeMap;
use std::path::Path;

use codegen::target::SM_90A;
use dsl::schedule::text;
use warpwright_runner::Case;
use warpwright_runner::predict::{self, Model, Prediction};

use super::set::{Drawn, Measured, Predicted, append, load, read};
use super::{AnyError, Args};

/// Predicts every schedule of a folder.
///
/// # Errors
/// Files that cannot be read or written.
pub fn predict(args: &Args, folder: &Path) -> Result<(), AnyError> {
    let mut model = Model::default();
    for setting in &args.set {
        let (name, value) = setting.split_once('=').ok_or("--set wants NAME=VALUE")?;
        let value = value.parse()?;
        if !model.params.set(name, value) && !model.power.set(name, value) {
            return Err(format!("there is no parameter `{name}`").into());
        }
    }
    predict_all(&load(folder)?, &model)
        .iter()
        .try_for_each(|p| append(&args.out, p))
}

/// Predicts schedules on two threads, in their order.
pub fn predict_all(drawn: &[Drawn], model: &Model) -> Vec<Predicted> {
    let halves = std::thread::scope(|scope| {
        let threads = [0, 1].map(|half| {
            let mine = drawn.iter().skip(half).step_by(2);
            scope.spawn(move || mine.map(|d| one(d, model)).collect::<Vec<_>>())
        });
        threads.map(|t| t.join().unwrap_or_default())
    });
    let mut all: Vec<Predicted> = halves.into_iter().flatten().collect();
    all.sort_by_key(|p| p.id);
    all
}

/// Mean over the rounds of a schedule whose output was right.
pub fn mean_of(measured: &[Measured], id: usize, pick: &dyn Fn(&Measured) -> Option<f64>) -> Option<f64> {
    let lines = measured.iter().filter(|m| m.id == id && m.agrees);
    let values: Vec<f64> = lines.filter_map(pick).collect();
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

fn one(drawn: &Drawn, model: &Model) -> Predicted {
    let mut out = Predicted {
        id: drawn.id,
        key: drawn.key.clone(),
        schedule: drawn.schedule.clone(),
        simulated: true,
        error: None,
        cycles: 0.0,
        trip_cycles: 0.0,
        sustained_us: 0.0,
        mhz: 0.0,
        activity: BTreeMap::new(),
        words: String::new(),
    };
    let prediction = || -> Result<Prediction, AnyError> {
        let problem = drawn.problem()?;
        let case = Case::new(&problem)?;
        let compiled = codegen::compile(case.kernel(), &text::parse(&drawn.schedule)?, &SM_90A)?;
        Ok(predict::predict(&problem, &compiled, model)?)
    };
    match prediction() {
        Ok(p) => {
            out.cycles = p.cycles;
            out.trip_cycles = p.trip_cycles;
            out.sustained_us = p.sustained_us;
            out.mhz = p.sustained_mhz;
            out.activity = p
                .activity
                .iter()
                .map(|(name, amount)| ((*name).to_owned(), *amount))
                .collect();
            out.words = p.words;
        }
        Err(error) => out.error = Some(error.to_string()),
    }
    out
}

/// Whether parameters may be fitted on a schedule; the others are for judging.
pub const fn is_fitted_on(id: usize) -> bool {
    id.is_multiple_of(2)
}

/// Prints the table of agreement.
///
/// # Errors
/// Files that cannot be read.
pub fn judge(measured: &Path, predicted: &Path) -> Result<(), AnyError> {
    let measured: Vec<Measured> = read(measured)?;
    let predicted: Vec<Predicted> = read(predicted)?;
    let mut keys: BTreeMap<&str, Vec<Pair>> = BTreeMap::new();
    for p in predicted.iter().filter(|p| p.error.is_none()) {
        let cycles = mean_of(&measured, p.id, &|m| m.burst.as_ref().map(|w| w.cycles_max as f64));
        let us = mean_of(&measured, p.id, &|m| m.sustained.as_ref().map(|w| w.us));
        if let (Some(cycles), Some(us)) = (cycles, us) {
            keys.entry(&p.key).or_default().push(Pair {
                id: p.id,
                cycles: (cycles, p.cycles),
                us: (us, p.sustained_us),
            });
        }
    }
    println!(
        "{:<12} {:>4} {:>7} {:>9} {:>9} {:>9} {:>9} {:>10} {:>10}",
        "key", "n", "near15", "rho cyc", "unseen", "rho us", "unseen", "best5 cyc", "best5 us"
    );
    for (key, pairs) in &keys {
        print_key(key, pairs);
    }
    Ok(())
}

/// (measured, predicted) of one schedule.
struct Pair {
    id: usize,
    cycles: (f64, f64),
    us: (f64, f64),
}

fn print_key(key: &str, pairs: &[Pair]) {
    let unseen: Vec<&Pair> = pairs.iter().filter(|p| !is_fitted_on(p.id)).collect();
    let all: Vec<&Pair> = pairs.iter().collect();
    let of = |from: &[&Pair], pick: fn(&Pair) -> (f64, f64)| {
        let both: Vec<(f64, f64)> = from.iter().map(|p| pick(p)).collect();
        (spearman(&both), best_of_five(&both))
    };
    let best = pairs.iter().map(|p| p.cycles.0).fold(f64::INFINITY, f64::min);
    let near = pairs.iter().filter(|p| p.cycles.0 <= 1.15 * best).count();
    let (cycles, us) = (of(&all, |p| p.cycles), of(&all, |p| p.us));
    let (cycles_unseen, us_unseen) = (of(&unseen, |p| p.cycles), of(&unseen, |p| p.us));
    println!(
        "{key:<12} {:>4} {near:>7} {:>9.3} {:>9.3} {:>9.3} {:>9.3} {:>9.1}% {:>9.1}%",
        pairs.len(),
        cycles.0,
        cycles_unseen.0,
        us.0,
        us_unseen.0,
        100.0 * cycles_unseen.1,
        100.0 * us_unseen.1
    );
}

/// How much slower than the measured best the best of the five that are predicted fastest is.
fn best_of_five(pairs: &[(f64, f64)]) -> f64 {
    let mut by_prediction = pairs.to_vec();
    by_prediction.sort_by(|a, b| a.1.total_cmp(&b.1));
    let best = |pairs: &[(f64, f64)]| pairs.iter().map(|p| p.0).fold(f64::INFINITY, f64::min);
    best(&by_prediction[..by_prediction.len().min(5)]) / best(pairs) - 1.0
}

/// Spearman's rank correlation; ties share their mean rank.
pub fn spearman(pairs: &[(f64, f64)]) -> f64 {
    let ranks = |values: Vec<f64>| -> Vec<f64> {
        let below = |v: f64| values.iter().filter(|x| **x < v).count() as f64;
        let equal = |v: f64| values.iter().filter(|x| **x == v).count() as f64;
        values.iter().map(|v| below(*v) + 0.5 * (equal(*v) - 1.0)).collect()
    };
    let (x, y) = (
        ranks(pairs.iter().map(|p| p.0).collect()),
        ranks(pairs.iter().map(|p| p.1).collect()),
    );
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(p, q)| (p - mean) * (q - mean)).sum::<f64>();
    let scale = (sum(&x, &x) * sum(&y, &y)).sqrt();
    if scale > 0.0 { sum(&x, &y) / scale } else { 0.0 }
}

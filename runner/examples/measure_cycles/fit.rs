//! Fits parameters of the model on the schedules with even numbers, or on all when another measurement judges: first times and rates on cycles, then energies on
//! sustained times. Prints settings for `--set`; the table itself is edited by hand.

use std::collections::BTreeMap;
use std::path::Path;

use warpwright_runner::predict::Model;

use super::AnyError;
use super::judge::{is_fitted_on, mean_of, predict_all, spearman};
use super::set::{Drawn, Measured, Predicted, load, read};

/// What is tried, with factors of the present value. Rates that a datasheet gives are not among them.
const TIMES: [(&str, &[f64]); 13] = [
    ("fma_delays_wgmma", &[0.0, 0.25, 0.5, 0.75, 1.5]),
    ("serial_beside_wgmma", &[0.0, 0.8, 0.9]),
    ("alu_on_fma", &[0.0, 0.5, 0.75, 1.4]),
    ("reorder_window", &[0.34, 0.67, 1.5, 2.5]),
    ("int_cycles", &[2.0]),
    ("store_read_latency", &[0.5, 2.0, 4.0]),
    ("try_wait_latency", &[0.0, 0.5, 1.5]),
    ("mbarrier_latency", &[0.5, 1.5, 2.0]),
    ("wgmma_done_latency", &[0.5, 1.5, 2.0]),
    ("wgmma_start_latency", &[0.5, 2.0, 3.0]),
    ("smem_copy_queue", &[0.1, 0.25, 0.5]),
    ("exit_latency", &[0.5, 2.0, 4.0]),
    ("l2_bytes_per_cycle", &[0.8, 1.3]),
];
const ENERGIES: [&str; 7] = [
    "flop_pj",
    "mufu_nj",
    "issue_nj",
    "smem_pj",
    "l2_pj",
    "static_w",
    "low_voltage",
];
const ENERGY_FACTORS: [f64; 6] = [0.6, 0.8, 0.95, 1.05, 1.25, 1.6];
const ENERGY_PASSES: usize = 12;

/// Measured cycles or microseconds by schedule.
type Truth = BTreeMap<usize, f64>;

/// Fits and prints.
///
/// # Errors
/// Files that cannot be read.
pub fn fit(measured: &Path, folder: &Path, (whole, energies_only): (bool, bool)) -> Result<(), AnyError> {
    let measured: Vec<Measured> = read(measured)?;
    let drawn: Vec<Drawn> = load(folder)?
        .into_iter()
        .filter(|d| whole || is_fitted_on(d.id))
        .collect();
    let truth = |pick: &dyn Fn(&Measured) -> Option<f64>| -> Truth {
        let of = |d: &Drawn| Some((d.id, mean_of(&measured, d.id, pick)?));
        drawn.iter().filter_map(of).collect()
    };
    let cycles = truth(&|m| m.burst.as_ref().map(|w| w.cycles_max as f64));
    let us = truth(&|m| m.sustained.as_ref().map(|w| w.us));
    let mut model = Model::default();
    let mut best = loss(&predict_all(&drawn, &model), &cycles, |p| p.cycles);
    println!("cycles: loss {best:.4} to begin with");
    for (name, factors) in if energies_only { &TIMES[..0] } else { &TIMES[..] } {
        let rows = model.params.table();
        let value = rows.iter().find(|r| r.name == *name).map_or(0.0, |r| r.value);
        let mut kept = value;
        for factor in *factors {
            let mut trial = model.clone();
            trial.params.set(name, value * factor);
            let found = loss(&predict_all(&drawn, &trial), &cycles, |p| p.cycles);
            if found < best {
                (best, kept) = (found, value * factor);
            }
        }
        model.params.set(name, kept);
        println!("--set {name}={kept} (was {value}), loss {best:.4}");
    }
    let predicted = predict_all(&drawn, &model);
    energies(&mut model, &predicted, &us);
    Ok(())
}

/// Coordinate descent on the energies: no simulation is needed for it.
fn energies(model: &mut Model, predicted: &[Predicted], us: &Truth) {
    let value = |model: &Model, name: &str| {
        model
            .power
            .table()
            .iter()
            .find(|r| r.name == name)
            .map_or(0.0, |r| r.value)
    };
    let mut best = loss(&repriced(model, predicted), us, |p| p.sustained_us);
    println!("sustained time: loss {best:.4} to begin with");
    for _ in 0..ENERGY_PASSES {
        for name in ENERGIES {
            let now = value(model, name);
            for factor in ENERGY_FACTORS {
                let mut trial = model.clone();
                trial.power.set(name, now * factor);
                let found = loss(&repriced(&trial, predicted), us, |p| p.sustained_us);
                if found < best {
                    best = found;
                    *model = trial;
                }
            }
        }
    }
    for name in ENERGIES {
        println!("--set {name}={:.4}", value(model, name));
    }
    println!("sustained time: loss {best:.4}");
}

/// The same predictions under other energies.
fn repriced(model: &Model, predicted: &[Predicted]) -> Vec<Predicted> {
    let price = |p: &Predicted| {
        let mut out = p.clone();
        let amounts: Vec<(&str, f64)> = p
            .activity
            .iter()
            .map(|(name, amount)| (name.as_str(), *amount))
            .collect();
        let whole = p.cycles + model.params.launch_cycles;
        let at = model.power.sustained(model.power.joules(&amounts), whole);
        (out.mhz, out.sustained_us) = (at.mhz, whole / at.mhz);
        out
    };
    predicted.iter().map(price).collect()
}

/// Mean over keys of what rank correlation lacks to 1, and of the spread of log ratios; a little for the mean ratio.
fn loss(predicted: &[Predicted], truth: &Truth, pick: impl Fn(&Predicted) -> f64) -> f64 {
    let mut keys: BTreeMap<&str, Vec<(f64, f64)>> = BTreeMap::new();
    for p in predicted.iter().filter(|p| p.error.is_none()) {
        if let Some(value) = truth.get(&p.id) {
            keys.entry(&p.key).or_default().push((*value, pick(p)));
        }
    }
    let of = |pairs: &Vec<(f64, f64)>| {
        let logs: Vec<f64> = pairs.iter().map(|(m, p)| (p / m).ln()).collect();
        let count = logs.len().max(1) as f64;
        let mean = logs.iter().sum::<f64>() / count;
        let spread = (logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / count).sqrt();
        1.0 - spearman(pairs) + 2.0 * spread + 0.5 * mean.abs()
    };
    keys.values().map(of).sum::<f64>() / keys.len().max(1) as f64
}

//! Predicted times: simulated, labelled so everywhere, and of a type that no record takes.

use codegen::Compiled;
use runner::predict::{self, Model, PredictError, Prediction};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::program;
use crate::render::table::table;
use crate::subject::Subject;

/// Predicts a subject's launch.
pub fn predict(subject: &Subject, compiled: &Compiled) -> Result<Prediction, Failure> {
    predict::predict(subject.problem(), compiled, &Model::default()).map_err(|e| refusal(subject, &e))
}

/// A prediction that cannot be had.
pub fn refusal(subject: &Subject, error: &PredictError) -> Failure {
    match error {
        PredictError::Target { .. } => Failure::refused("nothing was predicted").reason(
            "--target",
            subject.target.name,
            "kernels of this target have no warp roles, and the time model knows no other",
            "sm_90a",
        ),
        _ => Failure::refused(format!("nothing was predicted: {error}")),
    }
}

/// Predictions of the schedules of one problem, as text and as JSON.
pub fn rows(problem: &str, entries: &[(String, &Subject)]) -> Result<(String, Value), Failure> {
    let (mut rows, mut out) = (vec![], vec![]);
    for (name, subject) in entries {
        let compiled = program::compile(subject)?;
        let p = predict(subject, &compiled)?;
        let tflops = subject.case.work().flops as f64 / p.sustained_us * 1e-6;
        rows.push(vec![
            name.clone(),
            format!("{:.0}", p.cycles),
            format!("{:.0}", p.sustained_mhz),
            format!("{:.1}", p.sustained_us),
            format!("{tflops:.0}"),
            format!("{:.1}", p.burst_us),
        ]);
        out.push(json!({ "schedule": name, "prediction": p }));
    }
    let head = [
        "schedule",
        "SM cycles",
        "MHz",
        "sustained us",
        "TFLOP/s",
        "us at full clock",
    ];
    let text = format!("{problem}: simulated, predicted, not measured\n{}", table(&head, &rows));
    Ok((text, json!({ "problem": problem, "simulated": true, "schedules": out })))
}

/// A prediction in words.
pub fn text(p: &Prediction) -> String {
    let mut out = format!(
        "simulated: {:.0} SM cycles for {} blocks: {:.0} a trip, {:.0} a block besides, {:.0} to start; SMs busy {:.0} %\n",
        p.cycles,
        p.blocks,
        p.trip_cycles,
        p.block_cycles,
        p.start_cycles,
        p.balance * 100.0
    );
    out += &format!(
        "simulated: sustained {:.0} us at {:.0} MHz and {:.0} W; {:.0} us at full clock\n\n",
        p.sustained_us, p.sustained_mhz, p.sustained_w, p.burst_us
    );
    let share = |(name, share): &(String, f64)| vec![name.clone(), format!("{:.0} %", share * 100.0)];
    out += &table(&["unit", "used"], &p.occupancy.iter().map(share).collect::<Vec<_>>());
    out += "\n";
    out += &table(
        &["consumers wait for", "of their time"],
        &p.waits.iter().take(6).map(share).collect::<Vec<_>>(),
    );
    format!("{out}\n{}\n", p.words)
}

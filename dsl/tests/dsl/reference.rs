//! Where the running reference of a rescaled fold stands must not show in what a kernel computes.

use warpwright_dsl::ir::span;
use warpwright_dsl::{DType, FoldScope, FoldTotals, Kernel, Tile, Trace, TraceErrors, validate};

/// A rescaled fold of weights `p` with the sum `l`; the rest is the caller's.
fn fold_of(
    inside: impl FnOnce(&mut FoldScope, &Tile),
    outside: impl FnOnce(&Trace, &FoldTotals) -> Tile,
) -> Result<Kernel, TraceErrors> {
    let k = Trace::new("shown");
    let x = k.input("x", DType::F32, [4.into(), 8.into()]);
    let y = k.output("y", DType::F32, [4.into()]);
    let row = k.grid("block", 1.into()) * 4;
    let sums = k.rescaled_fold("f", 2.into(), |fold, j| {
        let p = fold.rebase(&fold.load(&x, [span(&row, 4), span(j * 4, 4)]));
        fold.accumulate("l", &p.row_sum());
        inside(fold, &p);
    });
    k.store(&y, [span(row, 4)], &outside(&k, &sums));
    k.finish()
}

fn after(outside: impl FnOnce(&Trace, &FoldTotals) -> Tile) -> Result<Kernel, TraceErrors> {
    fold_of(|_, _| {}, outside)
}

/// The fold also sums `s`; the output is `s / l`.
fn sum_of(s: impl FnOnce(&Tile) -> Tile) -> Result<Kernel, TraceErrors> {
    let outside = |_: &Trace, t: &FoldTotals| t.total("s") / t.total("l");
    fold_of(|fold, p| fold.accumulate("s", &s(p)), outside)
}

fn lse(t: &FoldTotals) -> Tile {
    t.reference() + t.total("l").log2()
}

fn checked(kernel: Result<Kernel, TraceErrors>) -> Result<(), String> {
    let kernel = kernel.map_err(|e| e.to_string())?;
    validate(kernel).map(|_| ()).map_err(|e| e.to_string())
}

#[test]
fn quotients_of_sums_and_the_log_of_a_sum_beside_the_reference_are_free_of_it() {
    let kernels = [
        after(|_, t| lse(t)),
        after(|_, t| lse(t) * 0.5),
        after(|_, t| (t.reference() * 0.5 + (t.total("l") * t.total("l")).log2() * 0.25).exp2()),
        after(|k, t| {
            let (zero, nothing) = (k.constant(0.0), k.constant(f32::NEG_INFINITY));
            t.total("l").gt(&zero).select(&lse(t), &nothing)
        }),
        sum_of(|p| (p * 3.0).row_sum()),
        sum_of(|p| p.row_max().abs()),
        sum_of(|p| (p * p).sqrt().row_sum()),
    ];
    for (n, kernel) in kernels.into_iter().enumerate() {
        assert_eq!(checked(kernel), Ok(()), "{n}");
    }
}

#[test]
fn everything_else_is_refused_at_the_line_that_lets_it_out() {
    let store = "the store to `y` shows";
    let sum = "`s` of fold `f` shows";
    let carried = fold_of(
        |fold, p| drop(fold.carry("s", &p.row_max(), 0.0, |old| old.max(&p.row_max()))),
        |_, t| t.total("s"),
    );
    let kernels = [
        (after(|_, t| t.total("l")), store),
        (after(|_, t| t.reference()), store),
        (after(|_, t| t.reference() - t.total("l").log2()), store),
        (after(|k, t| lse(t) + t.total("l").max(&k.constant(1.0))), store),
        (sum_of(|p| (p * p).row_sum()), sum),
        (sum_of(|p| (p + 1.0).row_sum()), sum),
        (sum_of(|p| p.exp2().row_sum()), sum),
        (sum_of(|p| p.gt(&(p * 0.0 + 1.0)).select(p, p).row_sum()), sum),
        (carried, sum),
    ];
    for (n, (kernel, wanted)) in kernels.into_iter().enumerate() {
        let refused = checked(kernel);
        let named = |e: &String| e.contains(wanted) && e.contains("reference.rs:");
        assert!(refused.as_ref().is_err_and(named), "{n}: {refused:?}");
    }
}

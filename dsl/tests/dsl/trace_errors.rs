//! Every kind of mistake gives its message and the line that made it.

use warpwright_dsl::index::Ix;
use warpwright_dsl::ir::{Extent, span};
use warpwright_dsl::trace::cols;
use warpwright_dsl::{DType, Tile, Trace};

/// Runs `body`, which makes one mistake on the line it returns.
#[track_caller]
fn mistake(message: &str, body: impl FnOnce(&Trace) -> u32) {
    let trace = Trace::new("wrong");
    let line = body(&trace);
    let errors = trace.finish().expect_err("the mistake must be noticed").errors;
    let found: Vec<_> = errors.iter().map(|e| format!("{}: {}", e.site, e.message)).collect();
    let hit = errors
        .iter()
        .any(|e| e.site.file.ends_with("trace_errors.rs") && e.site.line == line && e.message.contains(message));
    assert!(hit, "wanted `{message}` at line {line}; found {found:#?}");
}

/// A matrix `[rows, cols]` of the dtype, loaded.
fn matrix(k: &Trace, dtype: DType, rows: u32, cols: u32) -> Tile {
    let name = format!("t{rows}_{cols}_{dtype}");
    let tensor = k.input(&name, dtype, [Ix::from(256), Ix::from(256)]);
    k.load(&tensor, [span(0, rows), span(0, cols)])
}

fn row(k: &Trace, rows: u32) -> Tile {
    let tensor = k.input(&format!("r{rows}"), DType::F32, [Ix::from(256)]);
    k.load(&tensor, [span(0, rows)])
}

#[test]
fn dots() {
    mistake("inner extents must be equal", |k| {
        let (a, b) = (matrix(k, DType::F16, 8, 16), matrix(k, DType::F16, 8, 24));
        (a.dot(&b), line!()).1
    });
    mistake("allowed: bf16 with bf16", |k| {
        let (a, b) = (matrix(k, DType::F16, 8, 16), matrix(k, DType::Bf16, 16, 8));
        (a.dot(&b), line!()).1
    });
    mistake("allowed: bf16 with bf16", |k| {
        let (a, b) = (matrix(k, DType::F32, 8, 16), matrix(k, DType::F32, 16, 8));
        (a.dot(&b), line!()).1
    });
    mistake("not a matrix", |k| {
        let (a, b) = (matrix(k, DType::F32, 8, 16), row(k, 16));
        (a.dot(&b), line!()).1
    });
}

#[test]
fn arithmetic() {
    mistake("allowed: equal shapes", |k| {
        let (a, b) = (matrix(k, DType::F32, 8, 16), matrix(k, DType::F32, 16, 8));
        (&a + &b, line!()).1
    });
    mistake("allowed: equal shapes", |k| {
        let (a, b) = (matrix(k, DType::F32, 8, 16), row(k, 16));
        (a.max(&b), line!()).1
    });
    mistake("arithmetic is f32", |k| {
        let a = matrix(k, DType::F16, 8, 16);
        (&a * 2.0, line!()).1
    });
    mistake("arithmetic is f32", |k| {
        let a = matrix(k, DType::F16, 8, 16);
        (a.exp2(), line!()).1
    });
    mistake("only a matrix has columns", |k| {
        let r = row(k, 8);
        (r.row_sum(), line!()).1
    });
    mistake("speaks of rows and columns", |k| {
        let r = row(k, 8);
        (r.mask(&cols(0).lt(Ix::from(4)), 0.0), line!()).1
    });
}

#[test]
fn selects() {
    mistake("allowed: equal shapes", |k| {
        let (a, b) = (matrix(k, DType::F32, 8, 16), matrix(k, DType::F32, 16, 8));
        (a.lt(&a).select(&a, &b), line!()).1
    });
    mistake("one element type", |k| {
        let (a, b) = (matrix(k, DType::F32, 8, 16), matrix(k, DType::F16, 8, 16));
        (a.lt(&a).select(&a, &b), line!()).1
    });
    mistake("arithmetic is f32", |k| {
        let a = matrix(k, DType::F16, 8, 16);
        (a.gt(&a).select(&a, &a), line!()).1
    });
}

#[test]
fn names() {
    mistake("two values are called `x`", |k| {
        let a = k.constant(1.0).named("x");
        (a.exp2().named("x"), line!()).1
    });
    mistake("two tensors are called `x`", |k| {
        k.input("x", DType::F32, [Ix::from(4)]);
        (k.input("x", DType::F32, [Ix::from(4)]), line!()).1
    });
    mistake("two scalars are called `x`", |k| {
        let _ = k.scalar("x");
        (k.scalar("x"), line!()).1
    });
}

#[test]
fn tensors_and_places() {
    mistake("a dimension is a literal", |k| {
        let n = k.runtime("n");
        (k.input("x", DType::F32, [n + 1]), line!()).1
    });
    mistake("the dimension 0", |k| {
        (k.input("x", DType::F32, [Ix::from(0)]), line!()).1
    });
    mistake("gives 1 indices; the tensor has 2", |k| {
        let t = k.input("x", DType::F32, [Ix::from(4), Ix::from(4)]);
        (k.load(&t, [span(0, 4)]), line!()).1
    });
    mistake("spans 0 dimensions", |k| {
        let t = k.input("x", DType::F32, [Ix::from(4)]);
        (k.load(&t, [Ix::from(0).into()]), line!()).1
    });
    mistake("last, contiguous dimension", |k| {
        let t = k.input("x", DType::F32, [Ix::from(4), Ix::from(4), Ix::from(4)]);
        (k.load(&t, [span(0, 4), span(0, 4), Ix::from(0).into()]), line!()).1
    });
    mistake("spans must match the tile", |k| {
        let (t, a) = (
            k.output("y", DType::F32, [Ix::from(4), Ix::from(4)]),
            matrix(k, DType::F32, 4, 4),
        );
        (k.store(&t, [span(0, 4), span(0, 8)], &a), line!()).1
    });
    mistake("the tensor holds f16: cast it", |k| {
        let (t, a) = (
            k.output("y", DType::F16, [Ix::from(4), Ix::from(4)]),
            matrix(k, DType::F32, 4, 4),
        );
        (k.store(&t, [span(0, 4), span(0, 4)], &a), line!()).1
    });
    mistake("inputs are only read", |k| {
        let (t, a) = (
            k.input("y", DType::F32, [Ix::from(4), Ix::from(4)]),
            matrix(k, DType::F32, 4, 4),
        );
        (k.store(&t, [span(0, 4), span(0, 4)], &a), line!()).1
    });
    mistake("outputs are only written", |k| {
        let t = k.output("y", DType::F32, [Ix::from(4)]);
        (k.load(&t, [span(0, 4)]), line!()).1
    });
}

#[test]
fn folds() {
    mistake("never calls rebase", |k| {
        (k.rescaled_fold("f", Ix::from(2), |_, _| {}), line!()).1
    });
    mistake("rebase is legal once", |k| {
        let a = matrix(k, DType::F32, 8, 8);
        let mut at = 0;
        k.fold("f", Ix::from(2), |fold, _| {
            at = (fold.rebase(&a), line!()).1;
        });
        at
    });
    mistake("rebase is legal once", |k| {
        let a = matrix(k, DType::F32, 8, 8);
        let mut at = 0;
        k.rescaled_fold("f", Ix::from(2), |fold, _| {
            let _ = fold.rebase(&a);
            at = (fold.rebase(&a), line!()).1;
        });
        at
    });
    mistake("scores are a matrix", |k| {
        let r = row(k, 8);
        let mut at = 0;
        k.rescaled_fold("f", Ix::from(2), |fold, _| {
            at = (fold.rebase(&r), line!()).1;
        });
        at
    });
    mistake("already carries `l`", |k| {
        let a = matrix(k, DType::F32, 8, 8);
        let mut at = 0;
        k.fold("f", Ix::from(2), |fold, _| {
            fold.accumulate("l", &a);
            at = (fold.accumulate("l", &a), line!()).1;
        });
        at
    });
    mistake("the next value is", |k| {
        let a = matrix(k, DType::F32, 8, 8);
        let mut at = 0;
        k.fold("f", Ix::from(2), |fold, _| {
            at = (fold.carry("c", &a, 0.0, |_| a.row_sum()), line!()).1;
        });
        at
    });
    mistake("the fold carries no `m`; it carries l", |k| {
        let a = matrix(k, DType::F32, 8, 8);
        let totals = k.fold("f", Ix::from(2), |fold, _| fold.accumulate("l", &a));
        (totals.total("m"), line!()).1
    });
}

#[test]
fn all_mistakes_come_together() {
    let k = Trace::new("wrong");
    let a = matrix(&k, DType::F16, 8, 16);
    let _ = a.exp2();
    let _ = a.dot(&a);
    let errors = k.finish().unwrap_err();
    assert_eq!(errors.errors.len(), 2, "{errors}");
    assert!(
        errors
            .to_string()
            .starts_with("kernel `wrong` cannot be traced (2 error(s))\n  "),
        "{errors}"
    );
}

#[test]
fn tiles_of_another_trace_are_refused() {
    let other = Trace::new("other");
    let foreign = other.constant(1.0).exp2().exp2().exp2();
    mistake("another kernel", |k| {
        let one = k.constant(1.0);
        (&one + &foreign, line!()).1
    });
    mistake("another kernel", |k| {
        let y = k.output("y", DType::F32, [Ix::from(4)]);
        (k.store(&y, [span(0, Extent::Lit(4))], &foreign), line!()).1
    });
}

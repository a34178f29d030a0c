//! What single operations mean, and what the interpreter refuses.

use warpwright_dsl::index::Ix;
use warpwright_dsl::interp::{Bindings, InterpError, Interpreter, Precision, TensorData, Tensors};
use warpwright_dsl::ir::span;
use warpwright_dsl::trace::{cols, rows};
use warpwright_dsl::{DType, Kernel, Tile, Trace};

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// x `[m, 4]` to y `[m, 4]`, four rows per block, `f` between.
fn elementwise(f: impl FnOnce(&Trace, &Tile) -> Tile) -> Kernel {
    let k = Trace::new("map");
    let m = k.runtime("m");
    let (x, y) = (
        k.input("x", DType::F32, [m.clone(), 4.into()]),
        k.output("y", DType::F32, [m.clone(), 4.into()]),
    );
    let row = k.grid("block", m.ceil_div(4)) * 4;
    let at = [span(row, 4), span(0, 4)];
    let out = f(&k, &k.load(&x, at.clone()));
    k.store(&y, at, &out);
    k.finish().unwrap()
}

fn inputs(m: usize, data: Vec<f64>) -> Tensors {
    Tensors::from([("x".to_owned(), TensorData::dense(DType::F32, &[m, 4], data).unwrap())])
}

fn run(kernel: &Kernel, data: &[f64]) -> Vec<f64> {
    let m = data.len() / 4;
    let bindings = Bindings::new().runtime("m", m as i64);
    let out = Interpreter::new(Precision::F32)
        .run(kernel, &bindings, &inputs(m, data.to_vec()))
        .unwrap();
    out["y"].data().to_vec()
}

/// Equal, with NaN equal to itself and zeros told apart by their signs.
#[track_caller]
fn same(found: &[f64], wanted: &[f64]) {
    let bits = |v: &[f64]| {
        v.iter()
            .map(|x| if x.is_nan() { NAN.to_bits() } else { x.to_bits() })
            .collect::<Vec<_>>()
    };
    assert_eq!(bits(found), bits(wanted), "{found:?} is not {wanted:?}");
}

#[test]
fn maximum_ignores_what_is_not_a_number() {
    let kernel = elementwise(|k, x| x.max(&k.constant(0.0)));
    same(&run(&kernel, &[NAN, -1.0, 2.0, -0.0]), &[0.0, 0.0, 2.0, 0.0]);
    let kernel = elementwise(|k, x| x.min(&k.constant(0.0)));
    same(&run(&kernel, &[NAN, -1.0, 2.0, -0.0]), &[0.0, -1.0, 0.0, -0.0]);
    let kernel = elementwise(|k, x| k.constant(1.0).max(x));
    same(&run(&kernel, &[NAN, -1.0, 2.0, INF]), &[1.0, 1.0, 2.0, INF]);
    let kernel = elementwise(|_, x| x * 0.0 + x.row_max());
    same(&run(&kernel, &[3.0, NAN, 1.0, 2.0]), &[3.0, NAN, 3.0, 3.0]);
    same(&run(&kernel, &[1.0, NAN, 3.0, 2.0]), &[3.0, NAN, 3.0, 3.0]);
}

#[test]
fn every_operation_rounds_to_f32() {
    // 2^24 + 1 is no f32, and (2^24 + 1) - 2^24 is 0 when rounded in between.
    let kernel = elementwise(|_, x| (x + 1.0) - 16_777_216.0);
    same(&run(&kernel, &[16_777_216.0; 4]), &[0.0; 4]);
    let exact = Interpreter::new(Precision::F64);
    let out = exact
        .run(
            &kernel,
            &Bindings::new().runtime("m", 1),
            &inputs(1, vec![16_777_216.0; 4]),
        )
        .unwrap();
    same(out["y"].data(), &[1.0; 4]);
}

#[test]
fn casts_round_to_nearest_even_unless_ignored() {
    let kernel = elementwise(|_, x| x.cast(DType::Bf16).cast(DType::F32));
    // bf16 has 8 significant bits: 257 lies halfway between 256 and 258, 259 between 258 and 260.
    let data = [257.0, 259.0, 1e39, -0.1];
    same(&run(&kernel, &data), &[256.0, 260.0, INF, -0.10009765625]);
    let ignoring = Interpreter::new(Precision::F64).ignoring_casts();
    let out = ignoring
        .run(&kernel, &Bindings::new().runtime("m", 1), &inputs(1, data.to_vec()))
        .unwrap();
    same(&out["y"].data()[..2], &[257.0, 259.0]);
}

#[test]
fn loads_outside_give_zero_and_stores_outside_are_dropped() {
    let kernel = elementwise(|_, x| x + 1.0);
    let data: Vec<f64> = (0..20).map(f64::from).collect();
    same(&run(&kernel, &data), &data.iter().map(|x| x + 1.0).collect::<Vec<_>>());
    // A tile that begins before the tensor and ends behind it, and a block index that lies outside.
    let k = Trace::new("shift");
    let x = k.input("x", DType::F32, [1.into(), 3.into()]);
    let y = k.output("y", DType::F32, [1.into(), 8.into(), 1.into()]);
    let index = k.grid("index", 1.into());
    let outside = k.load(&x, [(index.clone() + 1).into(), span(0, 8)]);
    let shifted = k.load(&x, [Ix::from(0).into(), span(-2, 8)]) + outside;
    k.store(&y, [index.into(), span(0, 8), Ix::from(0).into()], &shifted);
    let x = TensorData::dense(DType::F32, &[1, 3], vec![1.0, 2.0, 3.0]).unwrap();
    let inputs = Tensors::from([("x".to_owned(), x)]);
    let out = Interpreter::new(Precision::F32)
        .run(&k.finish().unwrap(), &Bindings::new(), &inputs)
        .unwrap();
    same(out["y"].data(), &[0.0, 0.0, 1.0, 2.0, 3.0, 0.0, 0.0, 0.0]);
}

#[test]
fn masks_select_and_broadcast() {
    let kernel = elementwise(|_, x| x.mask(&cols(0).le(rows(0)), -1.0));
    let data: Vec<f64> = (0..16).map(f64::from).collect();
    let wanted: Vec<f64> = (0..16)
        .map(|i| if i % 4 <= i / 4 { f64::from(i) } else { -1.0 })
        .collect();
    same(&run(&kernel, &data), &wanted);
    let kernel = elementwise(|k, x| x.lt(&k.constant(2.0)).select(&x.row_sum(), x));
    same(&run(&kernel, &[0.0, 1.0, 2.0, NAN]), &[NAN, NAN, 2.0, NAN]);
    same(&run(&kernel, &[0.0, 1.0, 2.0, 3.0]), &[6.0, 6.0, 2.0, 3.0]);
}

#[test]
fn column_vectors_broadcast_over_rows() {
    let k = Trace::new("bias");
    let x = k.input("x", DType::F32, [2.into(), 3.into()]);
    let bias = k.input("bias", DType::F32, [3.into()]);
    let y = k.output("y", DType::F32, [2.into(), 3.into()]);
    let col = k.grid("block", 1.into());
    let out = k.load(&x, [span(0, 2), span(0, 3)]) + k.load_col(&bias, [span(&col, 3)]);
    k.store(&y, [span(0, 2), span(col, 3)], &out);
    let inputs = Tensors::from([
        (
            "x".to_owned(),
            TensorData::dense(DType::F32, &[2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap(),
        ),
        (
            "bias".to_owned(),
            TensorData::dense(DType::F32, &[3], vec![10.0, 20.0, 30.0]).unwrap(),
        ),
    ]);
    let out = Interpreter::new(Precision::F32)
        .run(&k.finish().unwrap(), &Bindings::new(), &inputs)
        .unwrap();
    same(out["y"].data(), &[10.0, 21.0, 32.0, 13.0, 24.0, 35.0]);
}

/// Three trips over `[1, 4]` pieces of x `[1, 12]`: log2 of the sum of their exp2, through a rescaled fold.
fn rescaled(pieces: [f64; 12]) -> f64 {
    let k = Trace::new("rescaled");
    let x = k.input("x", DType::F32, [1.into(), 12.into()]);
    let lse = k.output("lse", DType::F32, [1.into()]);
    let row = k.grid("row", 1.into());
    let sums = k.rescaled_fold("f", 3.into(), |fold, j| {
        let scores = fold.load(&x, [span(&row, 1), span(j * 4, 4)]);
        let weights = fold.rebase(&scores);
        fold.accumulate("l", &weights.row_sum());
    });
    k.store(&lse, [span(&row, 1)], &(sums.reference() + sums.total("l").log2()));
    let inputs = Tensors::from([(
        "x".to_owned(),
        TensorData::dense(DType::F32, &[1, 12], pieces.to_vec()).unwrap(),
    )]);
    let out = Interpreter::new(Precision::F32)
        .run(&k.finish().unwrap(), &Bindings::new(), &inputs)
        .unwrap();
    out["lse"].data()[0]
}

#[test]
fn rescaled_sums_follow_the_reference() {
    let (h, steps) = (-INF, [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0]);
    let lse = [
        rescaled(steps),
        // Nothing yet, then something: the first sums stay zero instead of becoming 0 * NaN.
        rescaled([h, h, h, h, h, h, h, 3.0, h, h, h, h]),
        rescaled([h; 12]),
        // What is not a number does not raise the reference, but reaches the sum.
        rescaled([NAN, 1.0, h, h, h, h, h, h, h, h, h, h]),
    ];
    same(&lse, &[f64::from(14_f32.log2()), 3.0, h, NAN]);
}

#[test]
fn carried_values_move_at_once() {
    // Fibonacci: both next values read the current ones.
    let k = Trace::new("fibonacci");
    let y = k.output("y", DType::F32, [1.into()]);
    let x = k.input("x", DType::F32, [1.into()]);
    let index = k.grid("index", 1.into());
    let one = k.load(&x, [span(&index, 1)]);
    let mut first = None;
    let totals = k.fold("f", 10.into(), |fold, _| {
        let _ = fold.carry("a", &one, 0.0, |a| {
            first = Some(a.clone());
            a.clone()
        });
        let _ = fold.carry("b", &one, 1.0, |b| b + first.as_ref().unwrap());
    });
    k.store(&y, [span(index, 1)], &totals.total("b"));
    let mut kernel = k.finish().unwrap();
    // `a` follows `b`, which the tracer cannot say, as `b` is declared after it.
    let fold = kernel.values.iter_mut().find_map(|v| match &mut v.op {
        warpwright_dsl::ir::Op::Fold(f) => Some(f),
        _ => None,
    });
    let fold = fold.unwrap();
    fold.carries[0].kind = warpwright_dsl::ir::CarryKind::Next(fold.carries[1].arg);
    let inputs = Tensors::from([("x".to_owned(), TensorData::dense(DType::F32, &[1], vec![1.0]).unwrap())]);
    let out = Interpreter::new(Precision::F32)
        .run(&kernel, &Bindings::new(), &inputs)
        .unwrap();
    same(out["y"].data(), &[89.0]);
}

#[test]
fn refusals_name_what_is_missing() {
    let kernel = elementwise(|_, x| x + 1.0);
    let run = |b: Bindings, t: Tensors| {
        Interpreter::new(Precision::F32)
            .run(&kernel, &b, &t)
            .unwrap_err()
            .to_string()
    };
    let good = || inputs(1, vec![0.0; 4]);
    let m = |v: i64| Bindings::new().runtime("m", v);
    assert_eq!(
        run(Bindings::new(), good()),
        "the runtime size `m` is not bound; the kernel needs: m"
    );
    assert_eq!(
        run(m(1).tile("rows", 4), good()),
        "the kernel has no tile size `rows`; it has: none"
    );
    assert_eq!(
        run(m(1), Tensors::new()),
        "the input `x` is not bound; the kernel needs: x"
    );
    assert_eq!(
        run(m(2), good()),
        "tensor `x` is f32 [1, 4]; the bindings make it f32 [2, 4]"
    );
    assert_eq!(
        run(m(1 << 40), good()),
        "the runtime size `m` is 1099511627776; allowed: a number that fits 32 bits, signed"
    );
    assert!(run(m(-1), good()).contains("dimension of a tensor"));
}

#[test]
fn sizes_beyond_memory_are_refused() {
    let k = Trace::new("large");
    let (n, tile) = (k.runtime("n"), k.tile("rows"));
    let (x, y) = (
        k.input("x", DType::F32, [4.into(), 4.into()]),
        k.output("y", DType::F32, [n.clone(), n]),
    );
    let row = k.grid("row", 1.into());
    k.store(
        &y,
        [span(&row, tile), span(0, 4)],
        &k.load(&x, [span(&row, tile), span(0, 4)]),
    );
    let kernel = k.finish().unwrap();
    let run = |n: i64, rows: u32| {
        let bindings = Bindings::new().runtime("n", n).tile("rows", rows);
        Interpreter::new(Precision::F32).run(&kernel, &bindings, &inputs(4, vec![0.0; 16]))
    };
    assert!(run(4, 4).is_ok());
    let output = run(i64::from(i32::MAX), 4).unwrap_err().to_string();
    assert!(
        output.starts_with("`y` has 2147483647 * 2147483647 elements"),
        "{output}"
    );
    let tile = run(4, u32::MAX).unwrap_err().to_string();
    assert!(tile.starts_with("`%0` has 4294967295 * 4 elements"), "{tile}");
    assert_eq!(
        run(4, 0).unwrap_err().to_string(),
        "the tile size `rows` is 0; allowed: at least 1"
    );
}

#[test]
fn folds_without_trips_and_bad_divisions_are_refused() {
    let k = Trace::new("empty");
    let n = k.runtime("n");
    let (x, y) = (
        k.input("x", DType::F32, [4.into()]),
        k.output("y", DType::F32, [4.into()]),
    );
    let row = k.grid("row", 1.into());
    let one = k.load(&x, [span(&row, 4)]);
    let line = line!() + 1;
    let sums = k.fold("f", Ix::from(8).floor_div(n.clone()) - 2, |f, _| {
        f.accumulate("l", &one)
    });
    k.store(&y, [span(row, 4)], &sums.total("l"));
    let kernel = k.finish().unwrap();
    let inputs = Tensors::from([(
        "x".to_owned(),
        TensorData::dense(DType::F32, &[4], vec![1.0; 4]).unwrap(),
    )]);
    let run = |n| Interpreter::new(Precision::F32).run(&kernel, &Bindings::new().runtime("n", n), &inputs);
    assert!(run(2).is_ok());
    match run(4).unwrap_err() {
        InterpError::NoTrips { fold, trips, site } => {
            assert_eq!((fold.as_str(), trips, site.line), ("f", 0, line));
        }
        other => panic!("{other}"),
    }
    let text = run(0).unwrap_err().to_string();
    assert!(
        text.starts_with("`8 / n - 2` in `f` overflows or divides by a number that is not positive"),
        "{text}"
    );
}

#[test]
fn elements_have_one_writer() {
    // Two blocks whose tiles overlap: the validator cannot know, the interpreter does.
    let k = Trace::new("overlap");
    let (x, y) = (
        k.input("x", DType::F32, [8.into()]),
        k.output("y", DType::F32, [8.into()]),
    );
    let row = k.grid("row", 2.into()) * 2;
    k.store(&y, [span(&row, 4)], &k.load(&x, [span(&row, 4)]));
    let inputs = Tensors::from([(
        "x".to_owned(),
        TensorData::dense(DType::F32, &[8], vec![1.0; 8]).unwrap(),
    )]);
    let error = Interpreter::new(Precision::F32)
        .run(&k.finish().unwrap(), &Bindings::new(), &inputs)
        .unwrap_err();
    assert!(
        error.to_string().starts_with("element [2] of `y` is written twice"),
        "{error}"
    );
}

#[test]
fn positive_scalars_are_checked_and_rounded() {
    let kernel = elementwise(|k, x| x * k.positive_scalar("s"));
    let run = |s: f64| {
        let bindings = Bindings::new().runtime("m", 1).scalar("s", s);
        Interpreter::new(Precision::F64).run(&kernel, &bindings, &inputs(1, vec![1.0; 4]))
    };
    for bad in [0.0, -1.0, NAN] {
        assert!(
            run(bad)
                .unwrap_err()
                .to_string()
                .ends_with("allowed: greater than zero")
        );
    }
    same(&run(0.1).unwrap()["y"].data()[..1], &[f64::from(0.1f32)]);
}

#[test]
fn layouts_are_checked() {
    let strided =
        |dims: &[usize], strides: &[usize], len| TensorData::strided(DType::F32, dims, strides, vec![0.0; len]);
    assert!(strided(&[2, 3], &[3, 1], 6).is_ok());
    assert!(strided(&[2, 3], &[3, 1], 5).is_err());
    assert!(strided(&[2, 3], &[3], 6).is_err());
    assert!(strided(&[2, usize::MAX], &[usize::MAX, 2], 6).is_err());
    assert!(strided(&[0, 9], &[usize::MAX, 1], 0).is_ok());
    assert!(TensorData::dense(DType::F32, &[usize::MAX, 2], vec![]).is_err());
}

//! Results on the simulated device against f64.

use std::collections::BTreeMap;

use dsl::DType;
use dsl::schedule::{Direction, Schedule};

use crate::device::{Matrix, Run, device, launch, run};
use crate::{all_products, compiled, kernels_of_ours, product, schedule};

/// Relative rounding of the output type, doubled, and of f32 sums over the magnitudes.
fn close(dtype: DType, got: f64, wanted: f64, magnitude: f64) -> bool {
    let ulp = if dtype == DType::F16 { 1.0 / 1024.0 } else { 1.0 / 128.0 };
    (got - wanted).abs() <= ulp * wanted.abs() + 1e-5 * magnitude + 1e-6
}

struct Case {
    sizes: [usize; 3],
    tiles: [u32; 3],
    seeds: std::ops::Range<u64>,
}

/// Runs one product and compares every element.
fn check(dtype: DType, a_t: bool, b_t: bool, s: &Schedule, case: &Case) {
    let [m, n, k] = case.sizes;
    let stored = |t: bool, r: usize, c: usize, seed| {
        if t {
            Matrix::random(dtype, c, r, seed)
        } else {
            Matrix::random(dtype, r, c, seed)
        }
    };
    let (a, b) = (stored(a_t, m, k, 1), stored(b_t, k, n, 2));
    let at = |x: &Matrix, t: bool, r: usize, c: usize| if t { x.at(c, r) } else { x.at(r, c) };
    let c = compiled(&product(dtype, a_t, b_t), s);
    for seed in case.seeds.clone() {
        let blocks = (case.sizes[0] as u32).div_ceil(case.tiles[0]) * (n as u32).div_ceil(case.tiles[1]);
        let sizes = BTreeMap::from([("m", m as u32), ("n", n as u32), ("k", k as u32)]);
        let output = ("c", Matrix::empty(dtype, m, n));
        let got = run(&Run {
            compiled: &c,
            blocks,
            sizes,
            inputs: vec![("a", &a), ("b", &b)],
            output,
            seed,
        });
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let terms = (0..k).map(|l| at(&a, a_t, i, l) * at(&b, b_t, l, j));
            let (wanted, magnitude) = terms.fold((0.0, 0.0), |(s, g), t| (s + t, g + f64::abs(t)));
            assert!(
                close(dtype, got.at(i, j), wanted, magnitude),
                "{dtype} {a_t} {b_t} [{i}, {j}] of {:?}: {} for {wanted}",
                case.sizes,
                got.at(i, j)
            );
        }
    }
}

#[test]
fn ragged_products_in_every_layout() {
    let tiles = [64, 64, 64];
    for (dtype, a, b) in all_products() {
        check(
            dtype,
            a,
            b,
            &schedule(tiles, 1, 3),
            &Case {
                sizes: [70, 77, 150],
                tiles,
                seeds: 0..1,
            },
        );
    }
}

#[test]
fn several_slabs_warpgroups_and_boxes() {
    for (tiles, consumers, stages) in [([128, 128, 64], 1, 2), ([256, 64, 128], 2, 2), ([192, 128, 64], 3, 3)] {
        for (a, b) in [(false, false), (true, true)] {
            check(
                DType::Bf16,
                a,
                b,
                &schedule(tiles, consumers, stages),
                &Case {
                    sizes: [200, 130, 200],
                    tiles,
                    seeds: 0..1,
                },
            );
        }
    }
}

#[test]
fn fewer_trips_than_stages_and_exact_fits() {
    let tiles = [64, 64, 64];
    for sizes in [[64, 64, 64], [64, 64, 8], [1, 1, 1], [3, 128, 65]] {
        check(
            DType::F16,
            false,
            false,
            &schedule(tiles, 1, 4),
            &Case {
                sizes,
                tiles,
                seeds: 0..1,
            },
        );
        check(
            DType::F16,
            true,
            true,
            &schedule(tiles, 1, 4),
            &Case {
                sizes,
                tiles,
                seeds: 0..1,
            },
        );
    }
}

#[test]
fn an_empty_contraction_gives_zero() {
    let c = compiled(&product(DType::F16, false, true), &schedule([64, 64, 64], 1, 3));
    let one = Matrix::random(DType::F16, 5, 8, 1);
    let sizes = BTreeMap::from([("m", 5), ("n", 5), ("k", 0)]);
    let got = run(&Run {
        compiled: &c,
        blocks: 1,
        sizes,
        inputs: vec![("a", &one), ("b", &one)],
        output: ("c", Matrix::empty(DType::F16, 5, 5)),
        seed: 0,
    });
    assert!((0..25).all(|i| got.at(i / 5, i % 5) == 0.0));
}

#[test]
fn no_interleaving_changes_the_result() {
    let tiles = [64, 64, 64];
    check(
        DType::Bf16,
        false,
        false,
        &schedule(tiles, 1, 2),
        &Case {
            sizes: [64, 64, 320],
            tiles,
            seeds: 0..6,
        },
    );
}

#[test]
fn every_order_of_blocks_and_trips_covers_the_output() {
    let tiles = [64, 64, 64];
    let base = || schedule(tiles, 1, 2);
    let orders = [
        base().inner("n_block"),
        base().inner("m_block").section(2).descending("n_block"),
        base().fold("k", |f| f.direction(Direction::Descending)),
    ];
    for s in orders {
        check(
            DType::F16,
            false,
            false,
            &s,
            &Case {
                sizes: [130, 200, 136],
                tiles,
                seeds: 0..1,
            },
        );
    }
}

#[test]
fn a_fold_walks_its_trips_in_the_order_asked_for() {
    // The three trips add 1, 2^26 and -2^26: what is left tells which came first.
    let (mut a, mut b) = (
        Matrix::random(DType::F16, 1, 192, 1),
        Matrix::random(DType::F16, 192, 1, 1),
    );
    a.bits[..192].fill(0);
    for (i, (left, right)) in [(1.0, 1.0), (8192.0, 8192.0), (-8192.0, 8192.0)]
        .into_iter()
        .enumerate()
    {
        a.bits[64 * i] = half::f16::from_f64(left).to_bits();
        b.bits[64 * i * b.stride] = half::f16::from_f64(right).to_bits();
    }
    for (direction, wanted) in [(Direction::Ascending, 0.0), (Direction::Descending, 1.0)] {
        let c = compiled(
            &product(DType::F16, false, false),
            &schedule([64, 64, 64], 1, 2).fold("k", |f| f.direction(direction)),
        );
        let sizes = BTreeMap::from([("m", 1), ("n", 1), ("k", 192)]);
        let got = run(&Run {
            compiled: &c,
            blocks: 1,
            sizes,
            inputs: vec![("a", &a), ("b", &b)],
            output: ("c", Matrix::empty(DType::F16, 1, 1)),
            seed: 0,
        });
        assert_eq!(got.at(0, 0), wanted, "{direction:?}");
    }
}

#[test]
fn a_kernel_no_pass_was_written_for() {
    let (m, n, k) = (70, 77, 150);
    let dtype = DType::F16;
    let [x, w1, w2] = [
        Matrix::random(dtype, m, k, 1),
        Matrix::random(dtype, k, n, 2),
        Matrix::random(dtype, k, n, 3),
    ];
    let s = Schedule::default()
        .tile("m_tile", 64)
        .tile("n_tile", 64)
        .tile("k_tile", 64);
    let c = compiled(&testkit::gated_mlp(dtype).unwrap(), &s);
    let sizes = BTreeMap::from([("m", m as u32), ("n", n as u32), ("k", k as u32)]);
    let got = run(&Run {
        compiled: &c,
        blocks: 4,
        sizes,
        inputs: vec![("x", &x), ("w1", &w1), ("w2", &w2)],
        output: ("y", Matrix::empty(dtype, m, n)),
        seed: 0,
    });
    let dot = |w: &Matrix, i: usize, j: usize| (0..k).map(|l| x.at(i, l) * w.at(l, j)).sum::<f64>();
    for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
        let (value, gate) = (dot(&w1, i, j), dot(&w2, i, j));
        let wanted = value * gate / (1.0 + (-gate).exp());
        let slack = 1e-3 * (value.abs() + 1.0) * (gate.abs() + 1.0);
        assert!(
            (got.at(i, j) - wanted).abs() <= wanted.abs() / 512.0 + slack,
            "[{i}, {j}]: {} for {wanted}",
            got.at(i, j)
        );
    }
}

#[test]
fn two_folds_share_their_slots() {
    // Three trips of two slots: the last one reads the slot that the next fold fills first.
    let (m, n, k) = (64, 64, 150);
    let dtype = DType::F16;
    let [a, b] = [Matrix::random(dtype, m, k, 1), Matrix::random(dtype, k, n, 2)];
    let c = compiled(
        &kernels_of_ours::sum_of_two_folds(dtype),
        &Schedule::default()
            .tile("m_tile", 64)
            .tile("n_tile", 64)
            .tile("k_tile", 64),
    );
    let sizes = BTreeMap::from([("m", m as u32), ("n", n as u32), ("k", k as u32)]);
    let output = || ("y", Matrix::empty(dtype, m, n));
    for seed in 0..3 {
        let got = run(&Run {
            compiled: &c,
            blocks: 1,
            sizes: sizes.clone(),
            inputs: vec![("a", &a), ("b", &b)],
            output: output(),
            seed,
        });
        for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
            let wanted = 3.0 * (0..k).map(|l| a.at(i, l) * b.at(l, j)).sum::<f64>();
            assert!(
                (got.at(i, j) - wanted).abs() <= wanted.abs() / 512.0 + 0.01,
                "[{i}, {j}]: {} for {wanted}",
                got.at(i, j)
            );
        }
    }
}

#[test]
fn batches_vectors_and_f32_outputs() {
    let (batch, m, n, k) = (3, 70, 37, 80);
    let dtype = DType::Bf16;
    let a: Vec<Matrix> = (0..batch).map(|z| Matrix::random(dtype, m, k, 1 + z as u64)).collect();
    let b: Vec<Matrix> = (0..batch).map(|z| Matrix::random(dtype, k, n, 9 + z as u64)).collect();
    let bias: Vec<f32> = (0..n).map(|j| j as f32 * 0.25 - 4.0).collect();
    // Each batch starts on 16 bytes; a step of whole padded rows keeps it so.
    let joined = |parts: &[Matrix], rows: usize| -> Vec<u8> {
        parts
            .iter()
            .flat_map(|p| [p.bits.clone(), vec![0x7fff; rows * p.stride - p.bits.len()]].concat())
            .collect::<Vec<u16>>()
            .iter()
            .flat_map(|v| v.to_le_bytes())
            .collect()
    };
    let mut d = device(0);
    let (y, peak) = (d.alloc(batch * m * n * 4), d.alloc(batch * m * 4));
    let tensors = BTreeMap::from([
        ("a", (d.upload(&joined(&a, m)), vec![m * a[0].stride, a[0].stride, 1])),
        ("b", (d.upload(&joined(&b, k)), vec![k * b[0].stride, b[0].stride, 1])),
        (
            "bias",
            (
                d.upload(&bias.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>()),
                vec![1],
            ),
        ),
        ("y", (y, vec![m * n, n, 1])),
        ("peak", (peak, vec![m, 1])),
    ]);
    let c = compiled(
        &kernels_of_ours::batched_with_bias(dtype),
        &Schedule::default()
            .tile("m_tile", 64)
            .tile("n_tile", 64)
            .tile("k_tile", 64),
    );
    let sizes = BTreeMap::from([
        ("batch", batch as u32),
        ("m", m as u32),
        ("n", n as u32),
        ("k", k as u32),
    ]);
    launch(&mut d, &c, 2 * batch as u32, &sizes, &tensors);
    let floats = |bytes: Vec<u8>| -> Vec<f64> {
        bytes
            .chunks_exact(4)
            .map(|b| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])))
            .collect()
    };
    let (y, peak) = (floats(d.read(y).unwrap()), floats(d.read(peak).unwrap()));
    for (z, i) in (0..batch).flat_map(|z| (0..m).map(move |i| (z, i))) {
        let wanted: Vec<f64> = (0..n)
            .map(|j| (0..k).map(|l| a[z].at(i, l) * b[z].at(l, j)).sum::<f64>() + f64::from(bias[j]))
            .collect();
        for (j, w) in wanted.iter().enumerate() {
            assert!(
                (y[(z * m + i) * n + j] - w).abs() < 1e-3,
                "[{z}, {i}, {j}]: {} for {w}",
                y[(z * m + i) * n + j]
            );
        }
        let most = wanted.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        assert!(
            (peak[z * m + i] - most).abs() < 1e-3,
            "[{z}, {i}]: {} for {most}",
            peak[z * m + i]
        );
    }
}

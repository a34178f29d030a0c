//! The forward kernel: full and causal, unequal lengths, grouped heads, rows that see nothing, ragged tails.

use dsl::DType;
use dsl::interp::{Bindings, Interpreter, Precision, TensorData, Tensors};
use warpwright_kernels::attention::{Spec, forward};

use crate::support::{Problem, assert_close, attention, dense, numbers, tensors};

const BASE: Problem = Problem {
    batch: 1,
    q_len: 96,
    kv_len: 80,
    heads: 2,
    kv_heads: 2,
    head_dim: 64,
    scale: 0.125,
};

fn inputs(p: Problem, dtype: DType) -> Tensors {
    let kv = [p.batch, p.kv_len, p.kv_heads, p.head_dim];
    let q = dense(dtype, &[p.batch, p.q_len, p.heads, p.head_dim], 1);
    tensors([("q", q), ("k", dense(dtype, &kv, 2)), ("v", dense(dtype, &kv, 3))])
}

fn bindings(p: Problem, tiles: (u32, u32)) -> Bindings {
    let sizes = [
        ("batch", p.batch),
        ("q_len", p.q_len),
        ("kv_len", p.kv_len),
        ("heads", p.heads),
        ("kv_heads", p.kv_heads),
        ("group", p.heads / p.kv_heads),
    ];
    let bound = sizes
        .into_iter()
        .fold(Bindings::new(), |b, (name, n)| b.runtime(name, n as i64));
    bound
        .tile("q_tile", tiles.0)
        .tile("kv_tile", tiles.1)
        .scalar("scale_log2", p.scale * std::f64::consts::LOG2_E)
}

fn run(p: Problem, causal: bool, tiles: (u32, u32), interpreter: Interpreter) -> Tensors {
    let kernel = forward(Spec {
        dtype: DType::Bf16,
        head_dim: p.head_dim as u32,
        causal,
    })
    .unwrap();
    interpreter
        .run(&kernel, &bindings(p, tiles), &inputs(p, DType::Bf16))
        .unwrap()
}

/// Runs in exact arithmetic (only inputs, scale and outputs round) and in f32 against the reference.
fn check(p: Problem, causal: bool, tiles: (u32, u32)) {
    let given = inputs(p, DType::Bf16);
    let seen = |i: usize, j: usize| !causal || j + p.q_len <= i + p.kv_len;
    let (o, lse) = attention(p, &given["q"], &given["k"], &given["v"], |i, j, s| {
        if seen(i, j) { s } else { f64::NEG_INFINITY }
    });
    let exact = run(p, causal, tiles, Interpreter::new(Precision::F64).ignoring_casts());
    // Half a unit in the last place of bf16, relative to one.
    assert_close("o, exact", exact["o"].data(), &o, 1.0 / 256.0);
    // The scale is an f32 parameter and lse an f32 tensor.
    assert_close("lse, exact", exact["lse"].data(), &lse, 1e-6);
    let f32s = run(p, causal, tiles, Interpreter::new(Precision::F32));
    assert_close("o, f32", f32s["o"].data(), &o, 3.0 / 256.0);
    assert_close("lse, f32", f32s["lse"].data(), &lse, 1e-5);
}

#[test]
fn full() {
    check(BASE, false, (32, 16));
}

#[test]
fn causal_with_equal_lengths() {
    check(Problem { kv_len: 96, ..BASE }, true, (32, 16));
}

#[test]
fn causal_with_more_keys_than_queries() {
    check(
        Problem {
            q_len: 40,
            kv_len: 100,
            ..BASE
        },
        true,
        (32, 32),
    );
}

#[test]
fn rows_that_see_no_key_give_zero_and_minus_infinity() {
    let p = Problem {
        q_len: 96,
        kv_len: 80,
        ..BASE
    };
    check(p, true, (32, 16));
    let out = run(p, true, (32, 16), Interpreter::new(Precision::F32));
    for i in 0..16 {
        assert_eq!(out["lse"].get(&[0, 1, i]), Some(f64::NEG_INFINITY), "row {i}");
        assert_eq!(out["o"].get(&[0, i, 1, 5]), Some(0.0), "row {i}");
    }
    assert!(
        out["lse"].get(&[0, 1, 16]).unwrap().is_finite(),
        "row 16 sees the first key"
    );
}

#[test]
fn grouped_heads_share_keys() {
    check(
        Problem {
            batch: 2,
            q_len: 20,
            kv_len: 24,
            heads: 6,
            kv_heads: 2,
            head_dim: 16,
            ..BASE
        },
        true,
        (8, 8),
    );
}

#[test]
fn ragged_tails() {
    for (q_len, kv_len) in [(1, 1), (33, 17), (31, 95)] {
        check(
            Problem {
                q_len,
                kv_len,
                head_dim: 16,
                ..BASE
            },
            false,
            (32, 16),
        );
        check(
            Problem {
                q_len,
                kv_len,
                head_dim: 16,
                ..BASE
            },
            true,
            (32, 16),
        );
    }
}

#[test]
fn tile_sizes_change_only_rounding() {
    let exact = Interpreter::new(Precision::F64).ignoring_casts();
    let wanted = run(BASE, true, (32, 16), exact);
    for tiles in [(128, 128), (1, 1), (7, 5), (96, 80)] {
        let found = run(BASE, true, tiles, exact);
        assert_close("lse", found["lse"].data(), wanted["lse"].data(), 1e-7);
        assert_close("o", found["o"].data(), wanted["o"].data(), 1.0 / 256.0);
    }
}

#[test]
fn strided_inputs_read_like_dense_ones() {
    let p = Problem {
        q_len: 24,
        kv_len: 24,
        head_dim: 16,
        ..BASE
    };
    let kernel = forward(Spec {
        dtype: DType::Bf16,
        head_dim: 16,
        causal: true,
    })
    .unwrap();
    // q, k and v interleaved in one storage `[q_len, 3, heads, head_dim]`.
    let storage = numbers(9, 24 * 3 * 2 * 16);
    let part = |i: usize| {
        TensorData::strided(
            DType::Bf16,
            &[1, 24, 2, 16],
            &[0, 96, 16, 1],
            storage[i * 32..].to_vec(),
        )
        .unwrap()
    };
    let copy = |t: &TensorData| {
        let elems = (0..24).flat_map(|r| (0..2).flat_map(move |h| (0..16).map(move |d| [0, r, h, d])));
        TensorData::dense(
            DType::Bf16,
            &[1, 24, 2, 16],
            elems.map(|i| t.get(&i).unwrap()).collect(),
        )
        .unwrap()
    };
    let strided = tensors([("q", part(0)), ("k", part(1)), ("v", part(2))]);
    let dense = tensors([("q", copy(&part(0))), ("k", copy(&part(1))), ("v", copy(&part(2)))]);
    let run = |t: &Tensors| {
        Interpreter::new(Precision::F32)
            .run(&kernel, &bindings(p, (16, 16)), t)
            .unwrap()
    };
    assert_eq!(run(&strided), run(&dense));
}

#[test]
fn large_scores_do_not_overflow() {
    check(
        Problem {
            scale: 300.0,
            head_dim: 16,
            ..BASE
        },
        true,
        (32, 16),
    );
}

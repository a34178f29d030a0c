//! References against cases computed by hand, and against each other.

use std::time::Instant;

use warpwright_oracle::inputs::{Family, Inputs, Operand};
use warpwright_oracle::norms::{judge, judge_gemm, judge_softmax};
use warpwright_oracle::problem::Problem;
use warpwright_oracle::reference::{
    AttentionData, GemmData, ReferenceError, RowId, SoftmaxData, every_row, forward_f64, forward_plain, gemm_f64,
    gemm_plain, sample_matrix, sample_rows, softmax_f64, softmax_plain, thinned,
};
use warpwright_oracle::{AttentionForward, Dtype, Gemm, Mask, MatLayout, RowSoftmax};

use crate::candidate::Case;

fn bits(dtype: Dtype, values: &[f32]) -> Vec<u16> {
    values.iter().map(|&x| dtype.encode(x)).collect()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * b.abs().max(1.0)
}

/// Two keys, one head: logits 0 and ln 3, so weights 1/4 and 3/4.
#[test]
fn attention_by_hand() {
    let dtype = Dtype::F16;
    let p = AttentionForward {
        dtype,
        batch: 1,
        q_len: 3,
        kv_len: 2,
        heads: 1,
        kv_heads: 1,
        head_dim: 8,
        mask: Mask::Causal,
    };
    // q·k = 0 and 1 in every row.
    let q = bits(dtype, &[[1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]; 3].concat());
    let mut k = [0.0; 16];
    k[8] = 1.0;
    let mut v = [4.0; 16];
    v[8..].fill(8.0);
    let (k, v) = (bits(dtype, &k), bits(dtype, &v));
    let scale_log2 = 3.0_f32.log2();
    let data = AttentionData::new(p, scale_log2, [&q, &k, &v]).unwrap();
    let rows = every_row(&p).collect::<Vec<_>>();
    let truth = forward_f64(&data, &rows).unwrap();
    let lse = truth.lse.unwrap();
    // kv_len is one short of q_len: row 0 sees nothing, row 1 the first key, row 2 both.
    assert!(truth.values[..8].iter().all(|&x| x == 0.0) && lse[0] == f64::NEG_INFINITY);
    assert!(truth.values[8..16].iter().all(|&x| x == 4.0) && lse[1] == 0.0);
    // scale_log2 is log2(3) rounded to f32, so 3 is met to about 1e-7.
    assert!(
        truth.values[16..].iter().all(|&x| (x - 7.0).abs() < 1e-6),
        "{:?}",
        &truth.values[16..]
    );
    assert!((lse[2] - 4.0_f64.ln()).abs() < 1e-6);
    // ‖P‖ = sqrt(1/16 + 9/16), ‖V‖ = sqrt(8)·8.
    assert!((truth.term_norm[2] - (10.0_f64 / 16.0).sqrt() * 8.0_f64.sqrt() * 8.0).abs() < 1e-5);
    assert!(truth.term_norm[0] == 0.0 && close(truth.term_norm[1], 8.0_f64.sqrt() * 4.0));
    let plain = forward_plain(&data, &rows).unwrap();
    assert_eq!(dtype.decode(plain.values[16]), 7.0);
    assert_eq!(plain.lse.unwrap()[0], f32::NEG_INFINITY);
}

/// Heads 0 and 1 read key head 0, heads 2 and 3 read key head 1; batches do not mix.
#[test]
fn grouped_heads_and_batches_read_their_own_keys() {
    let case = Case::new("fwd bf16 b2 s5x7 h4/2 d16 full", Family::Normal, 4);
    let rows = every_row(&case.p).collect::<Vec<_>>();
    let grouped = forward_f64(&case.data(), &rows).unwrap();
    for (i, row) in rows.iter().enumerate() {
        let single = AttentionForward {
            batch: 1,
            heads: 1,
            kv_heads: 1,
            q_len: 1,
            ..case.p
        };
        let q_at = ((row.batch * 5 + row.row) * 4 + row.head) as usize * 16;
        let keys = |t: &[u16]| {
            let key = |j: u32| ((row.batch * 7 + j) * 2 + row.head / 2) as usize * 16;
            (0..7).flat_map(|j| t[key(j)..][..16].to_vec()).collect::<Vec<_>>()
        };
        let (q, k, v) = (&case.q[q_at..][..16], keys(&case.k), keys(&case.v));
        let data = AttentionData::new(single, case.p.default_scale_log2(), [q, &k, &v]).unwrap();
        let alone = forward_f64(
            &data,
            &[RowId {
                batch: 0,
                head: 0,
                row: 0,
            }],
        )
        .unwrap();
        assert_eq!(alone.values, grouped.values[i * 16..][..16], "{row:?}");
    }
}

#[test]
fn sampled_rows_equal_those_of_the_whole_in_the_order_asked() {
    let case = Case::new("fwd f16 b2 s130x70 h4/2 d64 causal", Family::Normal, 5);
    let all = every_row(&case.p).collect::<Vec<_>>();
    let mut sample = sample_rows(&case.p, 9, 3);
    sample.reverse();
    let (whole, part) = (
        forward_f64(&case.data(), &all).unwrap(),
        forward_f64(&case.data(), &sample).unwrap(),
    );
    for (i, row) in sample.iter().enumerate() {
        let at = all.iter().position(|other| other == row).unwrap();
        assert_eq!(part.values[i * 64..][..64], whole.values[at * 64..][..64]);
        assert_eq!(part.term_norm[i], whole.term_norm[at]);
    }
    for head in 0..4 {
        let has = |row| sample.contains(&RowId { batch: 1, head, row });
        assert!(has(0) && has(129) && has(59) && has(60) && has(127) && has(128));
    }
}

/// The plain algorithm is close to f64 on every family, and not exact (or nothing would have been measured).
#[test]
fn plain_flash_is_within_bounds_of_f64() {
    for dtype in Dtype::ALL {
        for family in Family::ALL {
            let case = Case::new(&format!("fwd {dtype} b1 s40x700 h2/1 d128 causal"), family, 6);
            let rows = every_row(&case.p).collect::<Vec<_>>();
            let truth = forward_f64(&case.data(), &rows).unwrap();
            let plain = forward_plain(&case.data(), &rows).unwrap();
            let report = judge(dtype, &truth, &plain, &plain).unwrap();
            println!("{dtype} {family}: {report}");
            assert!(report.passed(), "{dtype} {family}: {report}");
            let bound = if family == Family::Alternating {
                1.0
            } else {
                dtype.unit_roundoff()
            };
            assert!(report.max.value <= bound, "{dtype} {family}: {report}");
            let copies = matches!(family, Family::OneHot | Family::NearOverflow);
            assert!(report.rms.value > 0.0 || copies, "{dtype} {family}: {report}");
        }
    }
}

#[test]
fn gemm_by_hand_in_every_layout() {
    // A = [[1, 2, 3], [4, 5, 6]], B = [[1, 0], [0, 1], [2, -1]], C = [[7, -1], [16, -1]].
    let (a, a_t) = ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    let (b, b_t) = ([1.0, 0.0, 0.0, 1.0, 2.0, -1.0], [1.0, 0.0, 2.0, 0.0, 1.0, -1.0]);
    for layout in MatLayout::ALL {
        let p = Gemm {
            dtype: Dtype::Bf16,
            m: 2,
            n: 2,
            k: 3,
            layout,
        };
        let a = bits(p.dtype, if layout.a_transposed() { &a_t } else { &a });
        let b = bits(p.dtype, if layout.b_transposed() { &b_t } else { &b });
        let data = GemmData::new(p, &a, &b).unwrap();
        let sample = sample_matrix(&p, 2, 2, 0);
        let truth = gemm_f64(&data, &sample).unwrap();
        assert_eq!(truth.values, [7.0, -1.0, 16.0, -1.0], "{layout:?}");
        // ‖a₀‖ = sqrt(14), largest row of B is [2, -1].
        assert!(close(truth.term_norm[0], 14.0_f64.sqrt() * 5.0_f64.sqrt()));
        assert_eq!(
            gemm_plain(&data, &sample).unwrap().values,
            bits(p.dtype, &[7.0, -1.0, 16.0, -1.0])
        );
    }
}

#[test]
fn gemm_gate_passes_plain_and_catches_dtype_accumulation_and_lost_tails() {
    for layout in MatLayout::ALL {
        let p = Gemm {
            dtype: Dtype::Bf16,
            m: 70,
            n: 50,
            k: 523,
            layout,
        };
        let mut seen = [false; 2];
        for family in Family::ALL {
            let inputs = Inputs::new(p, family, 2).unwrap();
            let (a, b) = (
                inputs.generate(Operand::A).unwrap(),
                inputs.generate(Operand::B).unwrap(),
            );
            let data = GemmData::new(p, &a, &b).unwrap();
            let all = sample_matrix(&p, p.m, p.n, 0);
            let sample = sample_matrix(&p, 20, 20, 1);
            let whole = gemm_plain(&data, &all).unwrap().values;
            let (truth, plain) = (gemm_f64(&data, &sample).unwrap(), gemm_plain(&data, &sample).unwrap());
            let verdict = |c: &[u16]| judge_gemm(&p, &sample, (&truth, &plain), c).unwrap();
            assert!(verdict(&whole).passed(), "{p} {family}: {}", verdict(&whole));
            seen[0] |= !verdict(&naive_gemm(&p, &a, &b, p.k, true)).passed();
            seen[1] |= !verdict(&naive_gemm(&p, &a, &b, p.k - 1, false)).passed();
            let right = verdict(&naive_gemm(&p, &a, &b, p.k, false));
            assert!(right.passed(), "{p} {family}: {right}");
        }
        assert_eq!(seen, [true; 2], "{p}");
    }
}

/// One multiply-add at a time, in order.
fn naive_gemm(p: &Gemm, a: &[u16], b: &[u16], k_used: u32, round_sums: bool) -> Vec<u16> {
    let [m, n, k] = [p.m, p.n, p.k].map(|x| x as usize);
    let a_at = |i: usize, kk: usize| {
        p.dtype.decode(
            a[if p.layout.a_transposed() {
                kk * m + i
            } else {
                i * k + kk
            }],
        )
    };
    let b_at = |kk: usize, j: usize| {
        p.dtype.decode(
            b[if p.layout.b_transposed() {
                j * k + kk
            } else {
                kk * n + j
            }],
        )
    };
    let element = |i, j| {
        (0..k_used as usize).fold(0.0, |sum, kk| {
            let sum = sum + a_at(i, kk) * b_at(kk, j);
            if round_sums { p.dtype.round(sum) } else { sum }
        })
    };
    (0..m)
        .flat_map(|i| (0..n).map(move |j| (i, j)))
        .map(|(i, j)| p.dtype.encode(element(i, j)))
        .collect()
}

#[test]
fn softmax_by_hand_and_by_gate() {
    let p = RowSoftmax {
        dtype: Dtype::F16,
        m: 1,
        n: 4,
    };
    let x = bits(p.dtype, &[0.0, 0.0, 0.0, 0.0]);
    let data = SoftmaxData::new(p, &x).unwrap();
    assert_eq!(softmax_f64(&data, &[0]).unwrap().values, [0.25; 4]);
    for dtype in Dtype::ALL {
        let p = RowSoftmax { dtype, m: 21, n: 1500 };
        for family in Family::ALL {
            let x = Inputs::new(p, family, 8).unwrap().generate(Operand::X).unwrap();
            let data = SoftmaxData::new(p, &x).unwrap();
            let rows = [0, 3, 20];
            let (truth, plain) = (softmax_f64(&data, &rows).unwrap(), softmax_plain(&data, &rows).unwrap());
            assert!(truth.values.chunks(1500).all(|row| close(row.iter().sum(), 1.0)));
            let all = (0..p.m).collect::<Vec<_>>();
            let mut y = softmax_plain(&data, &all).unwrap().values;
            let report = judge_softmax(&p, &truth, &plain, &y).unwrap();
            assert!(report.passed(), "{p} {family}: {report}");
            y.fill(0);
            assert!(!judge_softmax(&p, &truth, &plain, &y).unwrap().passed());
        }
    }
}

#[test]
fn refuses_wrong_lengths_rows_and_scales() {
    let case = Case::new("fwd bf16 b1 s4 h1 d8 full", Family::Normal, 0);
    let short = AttentionData::new(case.p, 1.0, [&case.q[1..], &case.k, &case.v]).unwrap_err();
    assert!(short.to_string().contains("Q was given with 31 elements"), "{short}");
    for scale in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let error = AttentionData::new(case.p, scale, [&case.q, &case.k, &case.v]).unwrap_err();
        assert!(matches!(error, ReferenceError::Scale { .. }));
    }
    let error = forward_f64(
        &case.data(),
        &[RowId {
            batch: 0,
            head: 0,
            row: 4,
        }],
    )
    .unwrap_err();
    assert!(matches!(error, ReferenceError::NoSuchRow { .. }));
    let illegal = AttentionForward { kv_heads: 0, ..case.p };
    assert!(matches!(
        AttentionData::new(illegal, 1.0, [&[], &[], &[]]),
        Err(ReferenceError::Problem(_))
    ));
}

/// The order of summation is fixed, so the number of threads cannot show.
#[test]
fn results_do_not_depend_on_the_number_of_rows_asked_together() {
    let Problem::Forward(p) = "fwd bf16 b1 s300 h2 d64 causal".parse().unwrap() else {
        panic!()
    };
    let case = Case::new(&p.to_string(), Family::Normal, 1);
    let rows = every_row(&p).collect::<Vec<_>>();
    let together = forward_plain(&case.data(), &rows).unwrap();
    let alone = rows
        .iter()
        .flat_map(|&row| forward_plain(&case.data(), &[row]).unwrap().values)
        .collect::<Vec<_>>();
    assert_eq!(together.values, alone);
}

/// 64 rows of 16384 keys: the time is printed, and bounded far above what it takes even without optimisation.
#[test]
fn sampled_rows_of_a_long_shape_are_affordable() {
    let case = Case::new("fwd bf16 b1 s64x16384 h1 d128 full", Family::Normal, 1);
    let rows = every_row(&case.p).collect::<Vec<_>>();
    let start = Instant::now();
    forward_f64(&case.data(), &rows).unwrap();
    let f64_ms = start.elapsed().as_secs_f64() * 1e3;
    let start = Instant::now();
    forward_plain(&case.data(), &rows).unwrap();
    let plain_ms = start.elapsed().as_secs_f64() * 1e3;
    println!("64 rows x 16384 keys: f64 {f64_ms:.0} ms, plain {plain_ms:.0} ms");
    assert!(f64_ms < 20_000.0 && plain_ms < 20_000.0);
}

#[test]
fn thinned_samples_stay_in_every_head_and_keep_different_edges() {
    let text = "fwd bf16 b1 s4096 h16/2 d64 full";
    let Problem::Forward(p) = text.parse().unwrap() else {
        panic!("{text} is attention")
    };
    let rows = sample_rows(&p, 4, 1);
    let few = thinned(rows.clone(), 32, 1);
    assert!(rows.len() == 16 * 12 && (32..=34).contains(&few.len()), "{}", few.len());
    assert!((0..16).all(|head| few.iter().any(|row| row.head == head)));
    assert!(few.iter().all(|row| rows.contains(row)));
    let edges: std::collections::BTreeSet<u32> = few.iter().map(|row| row.row).filter(|row| *row < 192).collect();
    assert!(edges.len() >= 4, "{edges:?}");
    assert_eq!(thinned(rows.clone(), 1000, 1), rows);
}

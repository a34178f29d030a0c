//! Work counts against counting one by one, and the roofline.

use warpwright_oracle::flops::{Limit, Machine, roofline, visible_pairs, work};
use warpwright_oracle::problem::{MAX_DIM, Problem};

#[test]
fn visible_pairs_equal_a_count() {
    for mask in ["full", "causal"] {
        for q in 1..12 {
            for kv in 1..12 {
                let Problem::Forward(p) = format!("fwd bf16 b1 s{q}x{kv} h1 d8 {mask}").parse().unwrap() else {
                    panic!()
                };
                let counted = (0..q).map(|row| u128::from(p.visible_kv(row))).sum::<u128>();
                assert_eq!(visible_pairs(&p), counted, "{p}");
            }
        }
    }
}

#[test]
fn work_term_by_term() {
    let problem = |text: &str| text.parse::<Problem>().unwrap();
    let p = work(&problem("fwd bf16 b2 s4x6 h4/2 d8 full"));
    assert_eq!(p.flops, 2 * 4 * (2 * 4 * 6 * 8 + 2 * 4 * 6 * 8));
    assert_eq!(p.exponentials, 2 * 4 * 4 * 6);
    assert_eq!(
        p.bytes,
        2 * (2 * 4 * 4 * 8) * 2 + 2 * (2 * 6 * 2 * 8) * 2 + 4 * 2 * 4 * 4
    );
    let g = work(&problem("gemm f16 m3 n5 k7 tn"));
    assert_eq!((g.flops, g.bytes), (2 * 3 * 5 * 7, 2 * (21 + 35 + 15)));
    assert_eq!(work(&problem("softmax f16 m3 n5")).bytes, 60);
    let long = work(&problem(&format!("fwd bf16 b1 s{MAX_DIM} h1 d512 causal")));
    assert!(long.flops > u128::from(u64::MAX));
}

#[test]
fn roofline_takes_the_larger_term() {
    let machine = Machine {
        flops_per_s: 1e15,
        bytes_per_s: 4e12,
    };
    let bound = |text: &str| roofline(&text.parse::<Problem>().unwrap(), machine).unwrap();
    let big = bound("gemm bf16 m8192 n8192 k8192 nn");
    assert_eq!(big.limit, Limit::Arithmetic);
    assert!((big.bound_tflops - 1000.0).abs() < 1e-6 && big.bound_us == big.arithmetic_us);
    let thin = bound("gemm bf16 m8192 n8192 k1 nn");
    assert!(thin.limit == Limit::Memory && thin.bound_tflops < 10.0);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        let machine = Machine {
            flops_per_s: bad,
            bytes_per_s: 1.0,
        };
        assert!(roofline(&"softmax bf16 m1 n1".parse().unwrap(), machine).is_err());
    }
}

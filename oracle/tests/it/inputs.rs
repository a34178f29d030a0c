//! Input families: determinism, ranges, finiteness, and that each has the property it is named for.

use proptest::prelude::*;
use warpwright_oracle::inputs::{Family, InputError, Inputs, Operand};
use warpwright_oracle::{Dtype, Problem};

const SHAPES: [&str; 8] = [
    "fwd bf16 b2 s37x65 h4/2 d24 causal",
    "fwd f16 b1 s65x37 h2 d64 causal",
    "fwd f16 b1 s3x200 h6/3 d8 full",
    "gemm bf16 m33 n17 k65 nn",
    "gemm f16 m33 n17 k65 nt",
    "gemm f16 m33 n17 k65 tn",
    "gemm bf16 m33 n17 k65 tt",
    "softmax f16 m19 n77",
];

fn inputs(text: &str, family: Family, seed: u64) -> Inputs {
    Inputs::new(text.parse::<Problem>().unwrap(), family, seed).unwrap()
}

fn values(text: &str, family: Family, operand: Operand) -> Vec<f32> {
    let dtype = text.parse::<Problem>().unwrap().dtype();
    let bits = inputs(text, family, 1).generate(operand).unwrap();
    bits.into_iter().map(|b| dtype.decode(b)).collect()
}

#[test]
fn every_family_is_finite_on_every_shape() {
    for text in SHAPES {
        let problem = text.parse::<Problem>().unwrap();
        for family in Family::ALL {
            for &operand in Operand::of(&problem) {
                let bits = inputs(text, family, 3).generate(operand).unwrap();
                assert!(
                    bits.iter().all(|&b| problem.dtype().decode(b).is_finite()),
                    "{text} {family} {operand:?}"
                );
                assert!(
                    bits.iter().any(|&b| problem.dtype().decode(b) != 0.0),
                    "{text} {family} {operand:?}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn any_range_equals_that_part_of_the_whole(
        shape in 0_usize..SHAPES.len(), family in 0_usize..8, start in 0_usize..5000, len in 0_usize..300,
    ) {
        let (text, family) = (SHAPES[shape], Family::ALL[family]);
        let gen_inputs = inputs(text, family, 9);
        for &operand in Operand::of(&text.parse().unwrap()) {
            let whole = gen_inputs.generate(operand).unwrap();
            let start = start.min(whole.len());
            let end = (start + len).min(whole.len());
            let mut part = vec![0; end - start];
            gen_inputs.fill(operand, start as u64, &mut part).unwrap();
            prop_assert_eq!(&part[..], &whole[start..end]);
        }
    }
}

#[test]
fn seeds_and_operands_differ_and_repeat() {
    let make = |seed, operand| inputs(SHAPES[0], Family::Normal, seed).generate(operand).unwrap();
    assert_eq!(make(1, Operand::Q), make(1, Operand::Q));
    assert_ne!(make(1, Operand::Q), make(2, Operand::Q));
    assert_ne!(make(1, Operand::K), make(1, Operand::V));
}

#[test]
fn normal_has_mean_0_and_variance_1() {
    let x = values("fwd bf16 b1 s512 h8 d64 full", Family::Normal, Operand::V);
    let mean = x.iter().sum::<f32>() / x.len() as f32;
    let variance = x.iter().map(|x| x * x).sum::<f32>() / x.len() as f32;
    assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
}

#[test]
fn four_layouts_hold_the_same_matrices() {
    let a_n = values("gemm f16 m5 n3 k7 nn", Family::Normal, Operand::A);
    let a_t = values("gemm f16 m5 n3 k7 tt", Family::Normal, Operand::A);
    let b_n = values("gemm f16 m5 n3 k7 nn", Family::Normal, Operand::B);
    let b_t = values("gemm f16 m5 n3 k7 tt", Family::Normal, Operand::B);
    for k in 0..7 {
        assert!((0..5).all(|i| a_n[i * 7 + k] == a_t[k * 5 + i]));
        assert!((0..3).all(|j| b_n[k * 3 + j] == b_t[j * 7 + k]));
    }
}

#[test]
fn tiny_f16_holds_subnormals_and_near_overflow_stays_legal() {
    let text = "fwd f16 b1 s64x256 h1 d128 full";
    let q = values(text, Family::Tiny, Operand::Q);
    assert!(q.iter().any(|x| x.abs() < 6.1e-5 && *x != 0.0));
    let (q, k) = (
        values(text, Family::NearOverflow, Operand::Q),
        values(text, Family::NearOverflow, Operand::K),
    );
    let dots = q
        .chunks(128)
        .flat_map(|q| k.chunks(128).map(|k| q.iter().zip(k).map(|(a, b)| a * b).sum::<f32>()));
    let largest = dots.map(f32::abs).fold(0.0, f32::max);
    assert!(largest > 50_000.0 && largest < 65_504.0, "{largest}");
}

#[test]
fn refuses_foreign_operands_and_ranges() {
    let gen_inputs = inputs(SHAPES[0], Family::Normal, 0);
    assert!(matches!(
        gen_inputs.generate(Operand::A),
        Err(InputError::NoSuchOperand { .. })
    ));
    let past = gen_inputs.fill(Operand::Q, u64::MAX, &mut [0; 4]);
    assert!(matches!(past, Err(InputError::OutOfRange { .. })), "{past:?}");
    assert!(
        "norml"
            .parse::<Family>()
            .unwrap_err()
            .to_string()
            .contains("allowed: normal")
    );
    for family in Family::ALL {
        assert_eq!(family.name().parse::<Family>().unwrap(), family);
        assert_eq!(serde_json::to_string(&family).unwrap(), format!("{:?}", family.name()));
    }
    assert_eq!(Dtype::Bf16.decode(Dtype::Bf16.encode(1.0)), 1.0);
}

//! Problems to cases: sizes, signatures, refusals.

use warpwright_runner::case::{Case, CaseError, LayoutRule, Role, trace};
use warpwright_runner::schedules::{key, q_len, shipped_for};

use oracle::Problem;

pub fn problem(text: &str) -> Problem {
    text.parse().unwrap()
}

pub fn case(text: &str) -> Case {
    Case::new(&problem(text)).unwrap()
}

#[test]
fn attention_gets_its_sizes_scalar_and_tensors() {
    let case = case("fwd bf16 b2 s100x300 h8/2 d128 causal");
    let sizes: Vec<_> = case
        .sizes()
        .iter()
        .map(|(name, value)| (name.as_str(), *value))
        .collect();
    assert_eq!(
        sizes,
        [
            ("batch", 2),
            ("group", 4),
            ("heads", 8),
            ("kv_heads", 2),
            ("kv_len", 300),
            ("q_len", 100)
        ]
    );
    let scale = f64::from(case.scalars()["scale_log2"]);
    assert!((scale - 128_f64.sqrt().recip() * std::f64::consts::LOG2_E).abs() < 1e-8);
    let tensors: Vec<_> = case
        .tensors()
        .iter()
        .map(|t| (t.name.as_str(), t.layout.dims.clone()))
        .collect();
    assert_eq!(tensors[1], ("k", vec![2, 300, 2, 128]));
    assert_eq!(tensors[4], ("lse", vec![2, 8, 100]));
    assert!(matches!(
        case.tensors()[2].role,
        Role::Input(oracle::inputs::Operand::V)
    ));
    assert_eq!(case.tensors()[3].role, Role::Output);
    assert_eq!(case.tensor_bytes(), 2 * (2 * 204_800 + 2 * 153_600) + 4 * 1600);
}

#[test]
fn transposed_operands_have_transposed_shapes() {
    let case = case("gemm f16 m32 n48 k64 tt");
    let dims: Vec<_> = case.tensors().iter().map(|t| t.layout.dims.clone()).collect();
    assert_eq!(dims, [vec![64, 32], vec![48, 64], vec![32, 48]]);
    let padded = case.with_layouts(LayoutRule::Padded).unwrap();
    assert_eq!(padded.tensors()[0].layout.strides, [40, 1]);
}

#[test]
fn refusals_say_what_would_be_allowed() {
    let refused = |text: &str| Case::new(&problem(text)).unwrap_err().to_string();
    assert!(refused("fwd bf16 b1 s64 h1 d96 full").contains("allowed: 64, 128, 256"));
    let mut broken = match problem("fwd bf16 b1 s64 h4 d128 full") {
        Problem::Forward(p) => p,
        other => panic!("{other}"),
    };
    broken.kv_heads = 3;
    assert!(matches!(Case::new(&broken.into()), Err(CaseError::Problem(_))));
    let none = shipped_for(&problem("fwd bf16 b1 s64 h1 d8 full"))
        .unwrap_err()
        .to_string();
    assert!(none.contains("allowed: one of"), "{none}");
}

#[test]
fn a_kernel_with_other_parameters_is_refused() {
    let wanted = problem("fwd bf16 b1 s64 h1 d128 full");
    let kernel = trace(&wanted).unwrap();
    let with = |change: &dyn Fn(&mut dsl::Kernel)| {
        let mut kernel = kernel.clone();
        change(&mut kernel);
        Case::with_kernel(&wanted, kernel).unwrap_err().to_string()
    };
    assert!(with(&|k| k.tensors.swap(1, 2)).contains("allowed there: `in k: dtype["));
    assert!(with(&|k| k.name = "gemm".into()).contains("needs `attention_forward`"));
    assert!(with(&|k| k.tensors[0].dtype = dsl::DType::F16).contains("tensor `q` is traced as f16"));
    assert!(with(&|k| k.runtime[0] = "batches".into()).contains("`batches`"));
    assert!(with(&|k| k.scalars.clear()).contains("5 parameters"));
    assert!(with(&|k| k.tensors[3].access = dsl::ir::Access::Read).contains("parameter 3"));
    assert!(Case::with_kernel(&wanted, kernel.clone()).is_ok());
    let other = trace(&problem("fwd bf16 b1 s64 h1 d64 full")).unwrap();
    assert!(
        Case::with_kernel(&wanted, other)
            .unwrap_err()
            .to_string()
            .contains("64")
    );
}

#[test]
fn every_shipped_schedule_is_for_its_kernel_and_compiles() {
    let mut seen = std::collections::BTreeSet::new();
    for text in [
        "fwd bf16 b1 s512 h2 d64 full",
        "fwd bf16 b1 s512 h2 d64 causal",
        "fwd bf16 b1 s512 h2 d128 full",
        "fwd f16 b1 s512 h2 d128 causal",
        "fwd bf16 b1 s32768 h2 d128 causal",
        "fwd bf16 b1 s512 h2 d256 full",
        "fwd bf16 b1 s512 h2 d256 causal",
        "gemm bf16 m512 n512 k512 nt",
        "softmax bf16 m64 n128",
    ] {
        let problem = problem(text);
        let schedule = shipped_for(&problem).unwrap();
        assert_eq!(schedule.kernel, problem.kernel(), "{text}");
        dsl::schedule::text::check_names(&schedule, case(text).kernel()).unwrap();
        let compiled = codegen::compile(case(text).kernel(), &schedule, &codegen::target::SM_90A);
        assert!(compiled.is_ok(), "{text}: {}", compiled.unwrap_err());
        let found = kernels::schedules::shipped(problem.kernel(), key(&problem), q_len(&problem));
        seen.insert(found.unwrap().name);
    }
    let table: std::collections::BTreeSet<_> = kernels::schedules::TABLE.iter().map(|s| s.name).collect();
    assert_eq!(seen, table, "a shipped schedule that this test does not reach");
}

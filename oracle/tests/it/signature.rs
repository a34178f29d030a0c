//! Signatures: every problem has one, and a different kernel is refused with the difference.

use warpwright_oracle::Problem;
use warpwright_oracle::signature::{Access, Elem, Param, ParamKind, of};

fn known(text: &str) -> &'static warpwright_oracle::signature::Signature {
    of(&text.parse::<Problem>().unwrap()).unwrap()
}

#[test]
fn every_problem_has_a_signature() {
    let attention = known("fwd bf16 b1 s8 h1 d8 full");
    let names = attention.params.iter().map(|p| p.name).collect::<Vec<_>>();
    assert_eq!(names, ["q", "k", "v", "o", "lse", "scale_log2"]);
    assert_eq!(attention.params[4].to_string(), "out lse: f32[batch, heads, q_len]");
    for (layout, a, b) in [
        ("nn", "m, k", "k, n"),
        ("nt", "m, k", "n, k"),
        ("tn", "k, m", "k, n"),
        ("tt", "k, m", "n, k"),
    ] {
        let gemm = known(&format!("gemm f16 m1 n1 k1 {layout}"));
        assert_eq!(gemm.params[0].to_string(), format!("in a: dtype[{a}]"));
        assert_eq!(gemm.params[1].to_string(), format!("in b: dtype[{b}]"));
    }
    assert_eq!(known("softmax f16 m1 n1").kernel, "row_softmax");
}

#[test]
fn differences_are_refused_and_named() {
    let attention = known("fwd bf16 b1 s8 h1 d8 full");
    assert!(attention.compare(attention.params).is_ok());
    let short = attention.compare(&attention.params[..5]).unwrap_err();
    assert!(
        short.to_string().contains("has 5 parameters; allowed: exactly 6"),
        "{short}"
    );
    let mut changed = attention.params.to_vec();
    let dims = &["batch", "heads", "q_len", "head_dim"][..];
    changed[0] = Param {
        name: "q",
        kind: ParamKind::Tensor {
            dims,
            elem: Elem::Storage,
            access: Access::In,
        },
    };
    let error = attention.compare(&changed).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("`in q: dtype[batch, heads, q_len, head_dim]`; allowed there: `in q: dtype[batch, q_len"),
        "{error}"
    );
    changed[0] = Param {
        name: "q",
        kind: ParamKind::Scalar { elem: Elem::F32 },
    };
    assert!(attention.compare(&changed).is_err());
}

//! The problem grammar: round trips, refusals with their message and span, and no panic on any text.

use proptest::prelude::*;
use warpwright_oracle::problem::{MAX_DIM, Problem, ragged};
use warpwright_oracle::{AttentionForward, Dtype, Gemm, Mask, MatLayout, RowSoftmax};

fn dtype() -> impl Strategy<Value = Dtype> {
    prop::sample::select(&Dtype::ALL[..])
}

fn dim() -> impl Strategy<Value = u32> {
    prop_oneof![1_u32..5000, Just(1), Just(MAX_DIM)]
}

fn problem() -> impl Strategy<Value = Problem> {
    let mask = prop::sample::select(&[Mask::Full, Mask::Causal][..]);
    let attention = (dtype(), dim(), dim(), dim(), (1_u32..9, 1_u32..9), 1_u32..=64, mask).prop_map(
        |(dtype, batch, q_len, kv_len, (kv_heads, group), d8, mask)| {
            let (heads, head_dim) = (kv_heads * group, d8 * 8);
            Problem::from(AttentionForward {
                dtype,
                batch,
                q_len,
                kv_len,
                heads,
                kv_heads,
                head_dim,
                mask,
            })
        },
    );
    let layout = prop::sample::select(&MatLayout::ALL[..]);
    let gemm = (dtype(), dim(), dim(), dim(), layout)
        .prop_map(|(dtype, m, n, k, layout)| Problem::from(Gemm { dtype, m, n, k, layout }));
    let softmax = (dtype(), dim(), dim()).prop_map(|(dtype, m, n)| Problem::from(RowSoftmax { dtype, m, n }));
    prop_oneof![attention, gemm, softmax].prop_filter("within the limits", |p| p.check().is_ok())
}

proptest! {
    #[test]
    fn canonical_text_round_trips(p in problem()) {
        let text = p.to_string();
        prop_assert_eq!(text.parse::<Problem>().unwrap(), p);
        let json = serde_json::to_string(&p).unwrap();
        prop_assert_eq!(&json, &format!("{text:?}"));
        prop_assert_eq!(serde_json::from_str::<Problem>(&json).unwrap(), p);
        let spaced = format!("  {}\t", text.replace(' ', " \n "));
        prop_assert_eq!(spaced.parse::<Problem>().unwrap(), p);
    }

    #[test]
    fn any_text_is_parsed_or_refused_within_bounds(text in "\\PC{0,60}") {
        refused_cleanly(&text)?;
    }

    #[test]
    fn damaged_texts_are_parsed_or_refused_within_bounds(p in problem(), at in 0_usize..60, junk in "[a-z0-9/ é]{0,3}") {
        let mut text = p.to_string();
        let at = at.min(text.len());
        text.replace_range(at..(at + 2).min(text.len()), &junk);
        refused_cleanly(&text)?;
    }

    #[test]
    fn visible_keys_count_the_mask(q in 1_u32..40, kv in 1_u32..40, row in 0_u32..40) {
        prop_assume!(row < q);
        let p = forward(&format!("fwd bf16 b1 s{q}x{kv} h1 d8 causal"));
        let by_definition = (0..kv).filter(|&j| i64::from(j) <= i64::from(row) + i64::from(kv) - i64::from(q)).count();
        prop_assert_eq!(p.visible_kv(row) as usize, by_definition);
    }
}

fn refused_cleanly(text: &str) -> Result<(), TestCaseError> {
    match text.parse::<Problem>() {
        Ok(p) => prop_assert_eq!(p.to_string().parse::<Problem>().unwrap(), p),
        Err(error) => {
            prop_assert!(
                text.get(error.span.start..error.span.end).is_some(),
                "span {:?} of {text:?}",
                error.span
            );
            prop_assert!(!error.to_string().is_empty() && !error.render().is_empty());
        }
    }
    Ok(())
}

fn forward(text: &str) -> AttentionForward {
    match text.parse().unwrap() {
        Problem::Forward(p) => p,
        other => panic!("{other} is no attention"),
    }
}

#[test]
fn names_the_fields() {
    let p = forward("fwd bf16 b2 s4096x1024 h32/8 d128 causal");
    let expected = AttentionForward {
        dtype: Dtype::Bf16,
        batch: 2,
        q_len: 4096,
        kv_len: 1024,
        heads: 32,
        kv_heads: 8,
        head_dim: 128,
        mask: Mask::Causal,
    };
    assert_eq!(p, expected);
    assert_eq!(p.group(), 4);
    assert_eq!(
        forward("fwd f16 b1 s8x8 h4/4 d8 full").to_string(),
        "fwd f16 b1 s8 h4 d8 full"
    );
}

/// Text, the part to blame, and what the message must say.
const REFUSED: &[(&str, &str, &str)] = &[
    ("", "", "the text ends where \"kernel\" is due"),
    ("fwd bf16 b2 s64 h8 d64 caussal", "caussal", "did you mean \"causal\"?"),
    (
        "forward bf16 b2 s64 h8 d64 full",
        "forward",
        "allowed: fwd, gemm, softmax",
    ),
    ("Fwd bf16 b2 s64 h8 d64 full", "Fwd", "did you mean \"fwd\"?"),
    ("fwd fp16 b2 s64 h8 d64 full", "fp16", "did you mean \"f16\"?"),
    ("fwd fp32 b2 s64 h8 d64 full", "fp32", "allowed: bf16, f16"),
    (
        "fwd bf16 b2 h8 s64 d64 full",
        "h8",
        "asked for \"h8\" where \"sQ[xKV]\" is due",
    ),
    ("fwd bf16 b+2 s64 h8 d64 full", "b+2", "\"bN\" is due"),
    ("fwd bf16 b s64 h8 d64 full", "b", "\"bN\" is due"),
    ("fwd bf16 b2 s64x h8 d64 full", "s64x", "\"sQ[xKV]\" is due"),
    ("fwd bf16 b2 s64x64x64 h8 d64 full", "s64x64x64", "\"sQ[xKV]\" is due"),
    ("fwd bf16 b2 s64 h8 d64", "", "the text ends where \"mask\" is due"),
    ("fwd bf16 b2 s64 h8 d64 full now", "now", "already complete"),
    ("fwd bf16 b0 s64 h8 d64 full", "0", "batch 0"),
    ("fwd bf16 b1 s64x0 h8 d64 full", "0", "kv_len 0"),
    (
        "fwd bf16 b1 s2147483648 h8 d64 full",
        "2147483648",
        "allowed: 1 to 1073741824",
    ),
    (
        "fwd bf16 b1 s99999999999999999999999 h8 d64 full",
        "99999999999999999999999",
        "signed 32-bit",
    ),
    (
        "fwd bf16 b1 s64 h32/6 d64 full",
        "6",
        "allowed kv_heads near it: 4 or 8",
    ),
    ("fwd bf16 b1 s64 h8/16 d64 full", "16", "allowed kv_heads near it: 8"),
    ("fwd bf16 b1 s64 h8 d100 full", "100", "allowed: 64, 128, 256"),
    ("fwd bf16 b1 s64 h8 d0 full", "0", "allowed: 64, 128, 256"),
    ("fwd bf16 b1 s64 h8 d520 full", "520", "allowed: 64, 128, 256"),
    (
        "fwd bf16 b9999 s999999 h999999 d512 full",
        "fwd bf16 b9999 s999999 h999999 d512 full",
        "the tensor Q would have",
    ),
    (
        "fwd bf16 b1 s64 h8 d99999999999 full",
        "99999999999",
        "head_dim 99999999999, but attention",
    ),
    ("gemm bf16 m64 n64 k64 nx", "nx", "allowed: nn, nt, tn, tt"),
    (
        "gemm bf16 m1073741824 n1073741824 k1 nn",
        "gemm bf16 m1073741824 n1073741824 k1 nn",
        "the tensor C",
    ),
    ("softmax bf16 m64 k64", "k64", "\"nN\" is due"),
    ("softmx bf16 m64 n64", "softmx", "did you mean \"softmax\"?"),
];

#[test]
fn refusals_point_at_the_token_and_say_what_is_allowed() {
    for &(text, blamed, message) in REFUSED {
        let error = text.parse::<Problem>().unwrap_err();
        assert_eq!(&text[error.span.start..error.span.end], blamed, "{text}");
        assert!(error.to_string().contains(message), "{text}: {error}");
    }
}

#[test]
fn one_limit_holds_for_every_extent() {
    for text in [
        "b0 s1 h1",
        "b1073741825 s1 h1",
        "b1 s4294967296 h1",
        "b1 s1 h1073741825",
    ] {
        let error = format!("fwd bf16 {text} d64 full").parse::<Problem>().unwrap_err();
        assert!(error.to_string().contains("allowed: 1 to 1073741824"), "{error}");
    }
    assert!("fwd bf16 b1073741824 s1 h1 d64 full".parse::<Problem>().is_ok());
}

#[test]
fn kernels_are_built_for_fewer_head_sizes_than_the_references_take() {
    let text = "fwd bf16 b1 s64 h8 d72 full";
    assert!(text.parse::<Problem>().is_ok());
    let error = Problem::parse_built(text).unwrap_err();
    assert_eq!(&text[error.span.start..error.span.end], "72");
    let other = "fwd bf16 b1 s64 h8 d63 full".parse::<Problem>().unwrap_err();
    assert_eq!(error.fault.to_string().replace("72", "63"), other.fault.to_string());
    assert!(Problem::parse_built("fwd bf16 b1 s64 h8 d256 full").is_ok());
}

#[test]
fn rendering_puts_carets_under_the_token() {
    let error = "gemm bf16 m64 n64 k64 ny".parse::<Problem>().unwrap_err();
    let lines = error.render();
    let lines = lines.lines().collect::<Vec<_>>();
    assert_eq!(lines[0], "gemm bf16 m64 n64 k64 ny");
    assert_eq!(lines[1], "                      ^^");
}

#[test]
fn rendering_is_short_and_safe_for_a_terminal() {
    let digits = "9".repeat(100_000);
    for text in [
        format!("fwd bf16 b1 s{digits} h1 d64 full"),
        format!("{} fwd", " ".repeat(100_000)),
        "gemm bf16 m64 n64 k64 nt\u{1b}[31m".to_owned(),
        format!("gemm bf16 m64 n64 k64 {}", "é".repeat(10_000)),
    ] {
        let rendered = text.parse::<Problem>().unwrap_err().render();
        let lines: Vec<&str> = rendered.lines().collect();
        assert!(lines.iter().all(|line| line.chars().count() <= 220), "{rendered}");
        assert!(lines.len() == 3 && !lines[0].contains('\u{1b}'), "{rendered:?}");
        let caret = lines[1].chars().position(|c| c == '^').unwrap();
        assert!(caret <= lines[0].chars().count(), "{rendered}");
    }
}

#[test]
fn ragged_set_is_legal_and_covers_both_sides() {
    let base = forward("fwd bf16 b1 s64 h4/2 d64 full");
    let set = ragged(&base, 4097);
    assert!(set.iter().all(|p| p.check().is_ok()));
    for mask in [Mask::Full, Mask::Causal] {
        assert!(set.iter().any(|p| p.mask == mask && p.q_len > p.kv_len));
        assert!(set.iter().any(|p| p.mask == mask && p.q_len < p.kv_len));
    }
    assert!(ragged(&base, 200).iter().all(|p| p.q_len <= 200 && p.kv_len <= 200));
}

//! What must hold on any machine, with or without a GPU: opening never panics, and tensor maps that break
//! a documented rule are refused with that rule.

use proptest::prelude::*;
use warpwright_driver::{
    Driver, DriverError, ErrorClass, Finding, L2Promotion, Swizzle, TensorDtype, TensorMapSpec, Unavailable, probe,
};

#[test]
fn without_a_driver_open_says_what_to_do() {
    match Driver::open() {
        Ok(driver) => println!("SKIP: this machine has a CUDA driver: {driver:?}"),
        Err(error) => {
            assert_eq!(error.class(), ErrorClass::Unavailable);
            assert!(!error.ends_process());
            if let DriverError::Unavailable(Unavailable::NoLibrary { tried, reason }) = &error {
                assert!(tried.contains("cuda") && !reason.is_empty());
                let text = error.to_string();
                assert!(text.contains("install the NVIDIA driver"), "{text}");
                assert!(text.contains("simulator"), "{text}");
            }
            // The answer holds: asking again neither panics nor changes it.
            assert_eq!(Driver::open().err(), Some(error));
        }
    }
}

#[test]
fn a_probe_agrees_with_open_and_is_json() {
    let probe = probe();
    let found = matches!(probe.cuda, Finding::Found(_));
    assert_eq!(found, Driver::open().is_ok());
    let json = serde_json::to_value(&probe).unwrap();
    let status = if found { "found" } else { "missing" };
    assert_eq!(json["cuda"]["status"], status);
    assert!(json["nvml"]["status"].is_string());
}

/// A legal map of `[batch 2, len 300, heads 8, head_dim 128]` bf16, boxes of 64 x 128 rows.
fn legal() -> TensorMapSpec {
    TensorMapSpec {
        base: 0x7f00_0000_0000,
        dtype: TensorDtype::Bf16,
        dims_elems: vec![128, 300, 8, 2],
        strides_bytes: vec![8 * 128 * 2, 128 * 2, 300 * 8 * 128 * 2],
        box_elems: vec![64, 128, 1, 1],
        swizzle: Swizzle::B128,
        l2_promotion: L2Promotion::B256,
    }
}

fn refusal(change: impl FnOnce(&mut TensorMapSpec)) -> String {
    let mut spec = legal();
    change(&mut spec);
    spec.validate().err().map(|e| e.to_string()).unwrap_or_default()
}

#[track_caller]
fn refused(text: &str, change: impl FnOnce(&mut TensorMapSpec)) {
    let found = refusal(change);
    assert!(found.contains(text), "wanted {text:?}, got {found:?}");
}

#[test]
fn legal_maps_pass() {
    assert_eq!(refusal(|_| ()), "");
    assert_eq!(legal().box_bytes(), 64 * 128 * 2);
    assert_eq!(refusal(|s| s.dims_elems[3] = 1 << 32), "");
    assert_eq!(refusal(|s| s.strides_bytes[2] = (1 << 40) - 16), "");
    assert_eq!(refusal(|s| s.box_elems[1] = 256), "");
    // Without swizzle the inner box may be as wide as 256 elements allow.
    assert_eq!(refusal(|s| (s.swizzle, s.box_elems[0]) = (Swizzle::None, 256)), "");
    // Rank 1 has no strides.
    let rank_1 = TensorMapSpec {
        dims_elems: vec![1000],
        strides_bytes: vec![],
        box_elems: vec![64],
        ..legal()
    };
    assert_eq!(rank_1.validate(), Ok(()));
}

#[test]
fn ranks_and_lengths_are_checked() {
    refused("has 0 dimensions; a tensor map has 1 to 5", |s| {
        s.dims_elems.clear();
    });
    refused("has 6 dimensions", |s| s.dims_elems = vec![64; 6]);
    refused(
        "the list of strides has 2 entries; for 4 dimensions it must have 3",
        |s| {
            s.strides_bytes.pop();
        },
    );
    refused("the box has 5 entries; for 4 dimensions it must have 4", |s| {
        s.box_elems.push(1)
    });
}

#[test]
fn the_base_and_dims_are_checked() {
    refused("0x7f0000000008 is not a multiple of 16", |s| s.base += 8);
    refused("dimension 1 has 0 elements", |s| s.dims_elems[1] = 0);
    refused("dimension 3 has 4294967297 elements", |s| {
        s.dims_elems[3] = (1 << 32) + 1;
    });
}

#[test]
fn strides_are_checked() {
    refused("stride of dimension 1 is 2056 bytes", |s| {
        s.strides_bytes[0] += 8;
    });
    refused("must be below 2^40", |s| s.strides_bytes[2] = 1 << 40);
    refused("past the 64-bit address space", |s| {
        s.base = u64::MAX - 15;
    });
    refused("past the 64-bit address space", |s| {
        s.base = 1 << 63;
        s.dims_elems = vec![64, 1 << 32, 1 << 32, 2];
        s.strides_bytes = vec![(1 << 40) - 16; 3];
    });
}

#[test]
fn boxes_are_checked() {
    refused("the box has 0 elements in dimension 2", |s| {
        s.box_elems[2] = 0;
    });
    refused("the box has 257 elements in dimension 1", |s| {
        s.box_elems[1] = 257;
    });
    refused("is 8 bytes wide in dimension 0; it must be a multiple of 16", |s| {
        s.box_elems[0] = 4
    });
    refused("is 144 bytes wide in dimension 0; a 128-byte swizzle", |s| {
        s.box_elems[0] = 72;
    });
    refused("a 64-byte swizzle allows 64", |s| s.swizzle = Swizzle::B64);
    refused("a 32-byte swizzle allows 32", |s| s.swizzle = Swizzle::B32);
    // The same box in f32 is twice as wide.
    refused("is 256 bytes wide in dimension 0; a 128-byte swizzle", |s| {
        s.dtype = TensorDtype::F32;
    });
    assert_eq!(refusal(|s| (s.dtype, s.box_elems[0]) = (TensorDtype::F32, 32)), "");
}

/// The rules once more, as one expression.
fn follows_the_rules(s: &TensorMapSpec) -> bool {
    let width = s.box_elems[0] * s.dtype.size_bytes();
    let strides_fit = |n: &u64| n.is_multiple_of(16) && *n < 1 << 40;
    s.base.is_multiple_of(16)
        && s.dims_elems.iter().all(|n| (1..=1 << 32).contains(n))
        && s.strides_bytes.iter().all(strides_fit)
        && s.box_elems.iter().all(|n| (1..=256).contains(n))
        && width.is_multiple_of(16)
        && s.swizzle.span_bytes().is_none_or(|span| width <= span)
}

fn spec() -> impl Strategy<Value = TensorMapSpec> {
    let mostly = |legal: u64, odd: u64| prop_oneof![30 => Just(legal), 1 => Just(odd)];
    let strides = prop_oneof![30 => (0_u64..1 << 20).prop_map(|n| n * 16), 1 => 1 << 39..1_u64 << 41];
    let boxes = prop_oneof![10 => Just(8_u32), 5 => 1_u32..=256, 1 => 0_u32..300];
    let inner = prop_oneof![(1_u32..=8).prop_map(|n| n * 8), 0_u32..300];
    let swizzles = [Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128];
    let dtypes = [TensorDtype::Bf16, TensorDtype::F16, TensorDtype::F32];
    (1_usize..=5)
        .prop_flat_map(move |rank| {
            (
                mostly(1 << 40, (1 << 40) + 8),
                proptest::collection::vec(
                    prop_oneof![30 => 1_u64..1 << 20, 1 => Just(0), 1 => Just((1 << 32) + 1)],
                    rank,
                ),
                proptest::collection::vec(strides.clone(), rank - 1),
                (inner.clone(), proptest::collection::vec(boxes.clone(), rank - 1)),
                proptest::sample::select(swizzles.to_vec()),
                proptest::sample::select(dtypes.to_vec()),
            )
        })
        .prop_map(|(base, dims_elems, strides_bytes, (inner, outer), swizzle, dtype)| {
            let box_elems = std::iter::once(inner).chain(outer).collect();
            TensorMapSpec {
                base,
                dtype,
                dims_elems,
                strides_bytes,
                box_elems,
                swizzle,
                ..legal()
            }
        })
}

proptest! {
    /// Addresses here are too small to overflow, so the rules alone decide.
    #[test]
    fn validation_is_the_rules(spec in spec()) {
        prop_assert_eq!(spec.validate().is_ok(), follows_the_rules(&spec), "{:?}", spec.validate());
    }

    /// No lists make validation panic.
    #[test]
    fn any_description_is_answered(
        base in any::<u64>(),
        dims in proptest::collection::vec(any::<u64>(), 0..7),
        strides in proptest::collection::vec(any::<u64>(), 0..7),
        boxes in proptest::collection::vec(any::<u32>(), 0..7),
    ) {
        let spec = TensorMapSpec {
            base, dims_elems: dims, strides_bytes: strides, box_elems: boxes, ..legal()
        };
        let _ = (spec.validate(), spec.box_bytes());
    }
}

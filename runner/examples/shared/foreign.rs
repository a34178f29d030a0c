//! The two kernels of `sim/tests/foreign`, which our writer did not make, with launch facts written by hand.

use std::collections::BTreeMap;

use codegen::launch::{GridRule, LaunchFacts, Param, TensorFact, VERSION};
use dsl::DType;
use dsl::schedule::Assembler as AssemblerChoice;

use super::subject::{Subject, Tensor};

const HEAD_DIM: usize = 128;

struct Sample {
    name: &'static str,
    ptx: &'static str,
    q_tile: u32,
    kv_tile: u32,
    threads: u32,
    shared_bytes: u32,
    /// `[batch, q_len, kv_len, heads, kv_heads]`.
    problems: [[usize; 5]; 2],
}

const SAMPLES: [Sample; 2] = [
    Sample {
        name: "fwd_d128_full_192x80",
        ptx: include_str!("../../../sim/tests/foreign/fwd_d128_full_192x80.ptx"),
        q_tile: 192,
        kv_tile: 80,
        threads: 512,
        shared_bytes: 131_184,
        problems: [[1, 384, 384, 2, 1], [2, 200, 333, 2, 2]],
    },
    Sample {
        name: "fwd_d128_causal_128x128_dynamic",
        ptx: include_str!("../../../sim/tests/foreign/fwd_d128_causal_128x128_dynamic.ptx"),
        q_tile: 128,
        kv_tile: 128,
        threads: 384,
        shared_bytes: 196_720,
        problems: [[1, 256, 256, 8, 8], [1, 512, 512, 8, 4]],
    },
];

/// Both kernels on two problems each.
#[must_use]
pub fn subjects() -> Vec<Subject> {
    let each = SAMPLES
        .iter()
        .flat_map(|s| s.problems.map(|problem| s.subject(problem)));
    each.collect()
}

impl Sample {
    fn subject(&self, [batch, q_len, kv_len, heads, kv_heads]: [usize; 5]) -> Subject {
        // In memory [batch, len, heads, 128]; the maps name the heads before the length.
        let tensor = |name: &str, len, heads| Tensor {
            name: name.to_owned(),
            dtype: DType::Bf16,
            dims: vec![batch, heads, len, HEAD_DIM],
            order: vec![0, 2, 1, 3],
        };
        let tiles = q_len.div_ceil(self.q_tile as usize) * heads * batch;
        let sizes = [
            ("SQ", q_len),
            ("SK", kv_len),
            ("NH", heads),
            ("RATIO", heads / kv_heads),
            ("NTILES", tiles),
            ("B", batch),
            ("HK", kv_heads),
        ];
        let inputs = [("q", q_len, heads), ("k", kv_len, kv_heads), ("v", kv_len, kv_heads)];
        let inputs = inputs.map(|(name, len, heads)| {
            let tensor = tensor(name, len, heads);
            let bytes = tensor.stored(&testkit::noise(name, tensor.dims.iter().product(), 1.0));
            (tensor, bytes)
        });
        let scale = std::f64::consts::LOG2_E / (HEAD_DIM as f64).sqrt();
        Subject {
            label: format!("foreign {} b{batch} s{q_len}x{kv_len} h{heads}/{kv_heads}", self.name),
            schedule: String::new(),
            ptx: self.ptx.to_owned(),
            facts: self.facts(),
            assembler: AssemblerChoice::default(),
            sizes: sizes.map(|(name, v)| (name.to_owned(), v as i64)).into(),
            scalars: BTreeMap::from([("SC".to_owned(), scale as f32)]),
            inputs: inputs.into(),
            outputs: vec![tensor("o", q_len, heads)],
            resets_scratch: false,
        }
    }

    fn facts(&self) -> LaunchFacts {
        let tensors = [
            ("q", "SQ", "NH"),
            ("k", "SK", "HK"),
            ("v", "SK", "HK"),
            ("o", "SQ", "NH"),
        ];
        let map = |name: &str, tensor: &str, rows| Param::TensorMap {
            name: name.to_owned(),
            tensor: tensor.to_owned(),
            r#box: vec![1, 1, rows, 64],
            swizzle: 128,
            l2_promotion: 128,
        };
        let mut params = vec![
            map("tq", "q", self.q_tile),
            map("tk", "k", self.kv_tile),
            map("tv", "v", self.kv_tile),
            map("to", "o", 64),
            // The counter of dynamic tiles; the full kernel takes and ignores it.
            Param::Scratch {
                name: "lse".to_owned(),
                bytes: 4,
                initial: 0,
            },
        ];
        let sizes = ["SQ", "SK", "NH", "RATIO", "NTILES"];
        params.extend(sizes.map(|name| Param::Size { name: name.to_owned() }));
        params.push(Param::Scalar {
            name: "SC".to_owned(),
            positive: true,
        });
        LaunchFacts {
            version: VERSION,
            entry: "attn".to_owned(),
            target: "sm_90a".to_owned(),
            block: [self.threads, 1, 1],
            shared_bytes: self.shared_bytes,
            grid: GridRule {
                kind: "persistent".to_owned(),
                blocks: vec!["NTILES".to_owned()],
            },
            runtime: ["SQ", "SK", "NH", "RATIO", "NTILES", "B", "HK"]
                .map(str::to_owned)
                .into(),
            tensors: tensors
                .map(|(name, len, heads)| TensorFact {
                    name: name.to_owned(),
                    dtype: "bf16".to_owned(),
                    dims: ["B", heads, len, "128"].map(str::to_owned).into(),
                    written: name == "o",
                    row_multiple_elems: 8,
                    align_bytes: 16,
                })
                .into(),
            params,
        }
    }
}

//! Launch facts of the plain kernels: what the hand-written text expects, in the form that the launch plan reads.

use codegen::launch::{GridRule, LaunchFacts, Param, TensorFact};
use oracle::{AttentionForward, Dtype, Gemm, Mask, Problem, RowSoftmax};

use super::BLOCK_THREADS;
use crate::case::Case;
use crate::expr::Sizes;

/// Elements that one thread holds of a head.
const ELEMS_PER_LANE: u32 = 8;

/// A plain kernel for one problem.
pub(super) struct Plain {
    pub facts: LaunchFacts,
    /// The case's sizes, and those that only the plain kernel knows.
    pub sizes: Sizes,
    /// Name and extents of each output, f32.
    pub outputs: Vec<(&'static str, Vec<u64>)>,
}

/// The plain kernel of a case's problem.
pub(super) fn of(case: &Case) -> Plain {
    let mut plain = match case.problem() {
        Problem::Forward(p) => attention(p),
        Problem::Gemm(p) => gemm(p),
        Problem::Softmax(p) => row_softmax(p),
    };
    let dtype = match case.problem().dtype() {
        Dtype::Bf16 => 1,
        Dtype::F16 => 2,
    };
    plain.sizes.extend(case.sizes().clone());
    plain.sizes.insert("dtype".to_owned(), dtype);
    plain
}

/// Facts from the parameters and tensors; the grid is one block per product of `blocks`.
fn facts(entry: &str, blocks: &[&str], params: Vec<Param>, tensors: Vec<TensorFact>) -> LaunchFacts {
    LaunchFacts {
        version: codegen::launch::VERSION,
        entry: entry.to_owned(),
        target: super::PLAIN_ARCH.to_owned(),
        block: [BLOCK_THREADS, 1, 1],
        shared_bytes: 0,
        grid: GridRule {
            kind: "blocks".to_owned(),
            blocks: blocks.iter().map(|&text| text.to_owned()).collect(),
        },
        runtime: params
            .iter()
            .filter_map(|param| match param {
                Param::Size { name } => Some(name.clone()),
                _ => None,
            })
            .collect(),
        tensors,
        params,
    }
}

fn tensor(name: &str, dtype: &str, dims: &[&str]) -> TensorFact {
    TensorFact {
        name: name.to_owned(),
        dtype: dtype.to_owned(),
        dims: dims.iter().map(|&dim| dim.to_owned()).collect(),
        written: dtype == "f32",
        row_multiple_elems: 1,
        align_bytes: if dtype == "f32" { 4 } else { 2 },
    }
}

fn pointer(tensor: &str) -> Param {
    Param::Pointer {
        name: format!("p_{tensor}"),
        tensor: tensor.to_owned(),
    }
}

fn stride(tensor: &str, dim: u32) -> Param {
    Param::Stride {
        name: format!("p_{tensor}_stride{dim}"),
        tensor: tensor.to_owned(),
        dim,
    }
}

fn size(name: &str) -> Param {
    Param::Size { name: name.to_owned() }
}

fn attention(p: &AttentionForward) -> Plain {
    let (dtype, dim) = (p.dtype.to_string(), p.head_dim.to_string());
    let lanes = (p.head_dim / ELEMS_PER_LANE).max(1);
    let mut params = Vec::new();
    for name in ["q", "k", "v"] {
        params.push(pointer(name));
        params.extend((0..3).map(|axis| stride(name, axis)));
    }
    params.extend(["plain_o", "plain_lse", "plain_weight_norm"].map(pointer));
    params.extend(["q_len", "kv_len", "heads", "group", "lanes", "mask", "dtype"].map(size));
    params.push(Param::Scalar {
        name: "scale_log2".to_owned(),
        positive: true,
    });
    let tensors = vec![
        tensor("q", &dtype, &["batch", "q_len", "heads", &dim]),
        tensor("k", &dtype, &["batch", "kv_len", "kv_heads", &dim]),
        tensor("v", &dtype, &["batch", "kv_len", "kv_heads", &dim]),
        tensor("plain_o", "f32", &["batch", "q_len", "heads", &dim]),
        tensor("plain_lse", "f32", &["batch", "heads", "q_len"]),
        tensor("plain_weight_norm", "f32", &["batch", "heads", "q_len"]),
    ];
    let [batch, q_len, heads, width] = [p.batch, p.q_len, p.heads, p.head_dim].map(u64::from);
    let per_row = vec![batch, heads, q_len];
    let mask = match p.mask {
        Mask::Full => 1,
        Mask::Causal => 2,
    };
    let own = [("lanes", lanes), ("rows", BLOCK_THREADS / lanes), ("mask", mask)];
    Plain {
        facts: facts(
            "plain_attention",
            &["ceil_div(q_len, rows)", "heads", "batch"],
            params,
            tensors,
        ),
        sizes: own.map(|(name, value)| (name.to_owned(), value.into())).into(),
        outputs: vec![
            ("plain_o", vec![batch, q_len, heads, width]),
            ("plain_lse", per_row.clone()),
            ("plain_weight_norm", per_row),
        ],
    }
}

fn gemm(p: &Gemm) -> Plain {
    let dtype = p.dtype.to_string();
    // A transposed operand is stored with its dimensions exchanged.
    let axes = |transposed: bool| if transposed { (1, 0) } else { (0, 1) };
    let (a_m, a_k) = axes(p.layout.a_transposed());
    let (b_k, b_n) = axes(p.layout.b_transposed());
    let dims = |transposed: bool, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
    let mut params = vec![pointer("a"), stride("a", a_m), stride("a", a_k)];
    params.extend([pointer("b"), stride("b", b_k), stride("b", b_n), pointer("plain_c")]);
    params.extend(["m", "n", "k", "dtype"].map(size));
    let tensors = vec![
        tensor("a", &dtype, &dims(p.layout.a_transposed(), "m", "k")),
        tensor("b", &dtype, &dims(p.layout.b_transposed(), "k", "n")),
        tensor("plain_c", "f32", &["m", "n"]),
    ];
    Plain {
        facts: facts("plain_gemm", &["ceil_div(n, 128)", "ceil_div(m, 4)"], params, tensors),
        sizes: Sizes::new(),
        outputs: vec![("plain_c", vec![p.m.into(), p.n.into()])],
    }
}

fn row_softmax(p: &RowSoftmax) -> Plain {
    let mut params = vec![pointer("x"), stride("x", 0), pointer("plain_y")];
    params.extend(["m", "n", "dtype"].map(size));
    let tensors = vec![
        tensor("x", &p.dtype.to_string(), &["m", "n"]),
        tensor("plain_y", "f32", &["m", "n"]),
    ];
    Plain {
        facts: facts("plain_row_softmax", &["ceil_div(m, 4)"], params, tensors),
        sizes: Sizes::new(),
        outputs: vec![("plain_y", vec![p.m.into(), p.n.into()])],
    }
}

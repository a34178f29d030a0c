//! Launch facts: everything a loader needs besides the cubin.

use dsl::schedule::Persistence;
use serde::{Deserialize, Serialize};

use crate::role::{Expr, RoleProgram};

/// Version of this format; 2 brought `row_multiple_elems`, 3 `align_bytes`.
pub const VERSION: u32 = 3;

/// Largest runtime size, and largest number of blocks: kernels compute with signed 32 bits, and round sizes up to tiles, step
/// past the last block by a whole grid, and add two sizes without a carry to spare.
pub const LARGEST: i64 = 1 << 30;

/// A bulk tensor store writes whole pieces of this many bytes (PTX ISA 9.7.9.27, `cp.async.bulk.tensor`): past a row
/// that is no multiple of them it writes into the padding, or past the tensor (seen on an H200 with 257 columns).
const STORE_PIECE_BYTES: u32 = 16;

/// How to launch a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LaunchFacts {
    /// Version of this format.
    pub version: u32,
    pub entry: String,
    pub target: String,
    /// Threads per CTA.
    pub block: [u32; 3],
    pub shared_bytes: u32,
    pub grid: GridRule,
    /// Sizes the caller gives, by name.
    pub runtime: Vec<String>,
    pub tensors: Vec<TensorFact>,
    /// In order.
    pub params: Vec<Param>,
}

/// How many CTAs to launch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GridRule {
    /// `persistent`: `min(blocks, multiprocessors)` CTAs; `blocks`: one each.
    pub kind: String,
    /// Number of blocks is the product of these expressions.
    pub blocks: Vec<String>,
}

/// A tensor: dimensions outermost first, the last one contiguous.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TensorFact {
    pub name: String,
    pub dtype: String,
    pub dims: Vec<String>,
    pub written: bool,
    /// The last dimension must be a multiple of this: rows of tensors that the copy engine writes hold whole 16-byte
    /// pieces; others may end anywhere (1). A loader must refuse other rows: the kernel would write behind them.
    pub row_multiple_elems: u32,
    /// Base address and every stride but the last are multiples of this: the kernel reads or writes pieces of so many bytes.
    pub align_bytes: u32,
}

/// One kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Param {
    /// A 128-byte tensor map by value: 128-byte swizzle, zero fill, element strides 1.
    TensorMap {
        name: String,
        tensor: String,
        /// Elements per tensor dimension, outermost first.
        r#box: Vec<u32>,
        swizzle: u32,
        l2_promotion: u32,
    },
    /// Device address of a tensor, `u64`.
    Pointer { name: String, tensor: String },
    /// Stride of a tensor dimension in elements, `i64`.
    Stride { name: String, tensor: String, dim: u32 },
    /// A runtime size, `i32`.
    Size { name: String },
    /// An `f32`.
    Scalar { name: String, positive: bool },
    /// Address of scratch memory owned by the launcher, `u64`. It holds `initial` (a u32 pattern) before the first launch,
    /// and every launch leaves it so; launches that may overlap need separate scratch.
    Scratch { name: String, bytes: u32, initial: u32 },
    /// Address of a buffer for clock stamps, `u64`: `cta_bytes` for each CTA of the grid; only in instrumented kernels.
    Stamps { name: String, cta_bytes: u32, roles: u32 },
}

/// 64-bit words of a CTA's stamps before those of its roles.
pub const STAMP_HEAD_WORDS: u32 = 4;
/// Blocks of a role that are stamped one by one.
pub const STAMPED_BLOCKS: u32 = 24;

/// 64-bit words of one role's stamps: its end, its number of blocks, begin and end of each.
#[must_use]
pub const fn stamp_role_words() -> u32 {
    2 + 2 * STAMPED_BLOCKS
}

/// The facts of a program.
#[must_use]
pub fn facts(p: &RoleProgram, target: &str) -> LaunchFacts {
    let kind = if p.grid.persistence == Persistence::None {
        "blocks"
    } else {
        "persistent"
    };
    let blocks = p.grid.axes.iter().map(|a| text(&a.count, p)).collect();
    let tensors = (0u32..).zip(&p.tensors).map(|(i, t)| TensorFact {
        name: t.name.clone(),
        dtype: t.dtype.to_string(),
        dims: t.dims.iter().map(|d| text(d, p)).collect(),
        written: t.written,
        row_multiple_elems: row_multiple(p, i),
        align_bytes: align(p, i),
    });
    LaunchFacts {
        version: VERSION,
        entry: p.name.clone(),
        target: target.to_owned(),
        block: [p.threads(), 1, 1],
        shared_bytes: p.shared_bytes,
        grid: GridRule {
            kind: kind.to_owned(),
            blocks,
        },
        runtime: p.runtime.clone(),
        tensors: tensors.collect(),
        params: params(p),
    }
}

/// What the last extent of a tensor must be a multiple of, in elements.
fn row_multiple(p: &RoleProgram, tensor: u32) -> u32 {
    let t = &p.tensors[tensor as usize];
    if t.written && p.maps.iter().any(|m| m.tensor == tensor) {
        STORE_PIECE_BYTES / t.dtype.bytes()
    } else {
        1
    }
}

/// Global strides of a tensor map are multiples of 16 bytes (CUDA driver API, `cuTensorMapEncodeTiled`).
const MAP_ALIGN_BYTES: u32 = 16;

fn align(p: &RoleProgram, tensor: u32) -> u32 {
    let own = p.tensors[tensor as usize].piece_bytes;
    if p.maps.iter().any(|m| m.tensor == tensor) {
        own.max(MAP_ALIGN_BYTES)
    } else {
        own
    }
}

fn params(p: &RoleProgram) -> Vec<Param> {
    let name = |t: u32| p.tensors[t as usize].name.clone();
    let mut out: Vec<Param> = p
        .maps
        .iter()
        .map(|m| Param::TensorMap {
            name: m.name.clone(),
            tensor: name(m.tensor),
            r#box: m.boxes.clone(),
            swizzle: 128,
            l2_promotion: m.l2_promotion,
        })
        .collect();
    for pointer in &p.pointers {
        let tensor = name(pointer.tensor);
        out.push(Param::Pointer {
            name: format!("{tensor}_ptr"),
            tensor: tensor.clone(),
        });
        for (dim, _) in (0u32..).zip(&p.tensors[pointer.tensor as usize].dims) {
            out.push(Param::Stride {
                name: format!("{tensor}_stride{dim}"),
                tensor: tensor.clone(),
                dim,
            });
        }
    }
    out.extend(p.runtime.iter().map(|n| Param::Size { name: n.clone() }));
    out.extend(p.scalars.iter().map(|(n, positive)| Param::Scalar {
        name: n.clone(),
        positive: *positive,
    }));
    if p.mailbox.is_some() {
        out.push(Param::Scratch {
            name: "scratch".into(),
            bytes: 8,
            initial: 0,
        });
    }
    out
}

/// An expression over runtime names: `+ - * / %` (rounding down), `ceil_div(a, b)`, `min(a, b)`, `max(a, b)`.
fn text(e: &Expr, p: &RoleProgram) -> String {
    match e {
        Expr::Const(v) => v.to_string(),
        Expr::Runtime(i) => p.runtime[*i as usize].clone(),
        Expr::Var(v) => p.vars[v.0 as usize].clone(),
        Expr::Bin(op, ab) => {
            let (a, b) = (text(&ab.0, p), text(&ab.1, p));
            match op {
                dsl::IxBin::CeilDiv | dsl::IxBin::Min | dsl::IxBin::Max => format!("{op}({a}, {b})"),
                _ => format!("({a} {op} {b})"),
            }
        }
    }
}

//! Arithmetic and traffic of a problem, term by term, and the roofline bound they give.
//!
//! A multiply and an add count as two FLOPs. Only useful work is counted: masked pairs are not, however a kernel
//! computes them, and exponentials are reported apart.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::problem::{AttentionForward, Gemm, Mask, Problem, RowSoftmax};

/// Bytes of a 16-bit element.
const ELEM_BYTES: u128 = 2;

/// Bytes of one LSE value, an f32.
const LSE_BYTES: u128 = 4;

/// Work of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Work {
    /// FLOPs of the matrix products; for a row softmax, of everything but the exponentials.
    pub flops: u128,
    /// Exponentials, one per visible pair.
    pub exponentials: u128,
    /// Bytes that must move if every operand is read once and every output written once.
    pub bytes: u128,
}

/// Pairs (query, key) of one head that the mask lets through.
#[must_use]
pub fn visible_pairs(p: &AttentionForward) -> u128 {
    let (q_len, kv_len) = (u128::from(p.q_len), u128::from(p.kv_len));
    match p.mask {
        Mask::Full => q_len * kv_len,
        Mask::Causal => {
            // The last query sees kv_len keys, each earlier one a key less, down to zero.
            let seeing = q_len.min(kv_len);
            let first_sees = kv_len - seeing + 1;
            // An arithmetic series: `seeing` terms from `first_sees` to `kv_len`; the product is even.
            seeing * (first_sees + kv_len) / 2
        }
    }
}

/// Attention forward.
#[must_use]
pub fn attention_forward(p: &AttentionForward) -> Work {
    let pairs = u128::from(p.batch) * u128::from(p.heads) * visible_pairs(p);
    let qk_flops = 2 * u128::from(p.head_dim) * pairs;
    let pv_flops = 2 * u128::from(p.head_dim) * pairs;
    let q_bytes = ELEM_BYTES * u128::from(p.q_elems());
    let kv_bytes = 2 * ELEM_BYTES * u128::from(p.kv_elems());
    let o_bytes = ELEM_BYTES * u128::from(p.q_elems());
    let lse_bytes = LSE_BYTES * u128::from(p.lse_elems());
    Work {
        flops: qk_flops + pv_flops,
        exponentials: pairs,
        bytes: q_bytes + kv_bytes + o_bytes + lse_bytes,
    }
}

/// GEMM.
#[must_use]
pub fn gemm(p: &Gemm) -> Work {
    let flops = 2 * u128::from(p.m) * u128::from(p.n) * u128::from(p.k);
    let bytes = ELEM_BYTES * (u128::from(p.a_elems()) + u128::from(p.b_elems()) + u128::from(p.c_elems()));
    Work {
        flops,
        exponentials: 0,
        bytes,
    }
}

/// Row softmax.
#[must_use]
pub fn row_softmax(p: &RowSoftmax) -> Work {
    let elems = u128::from(p.elems());
    let (max, subtract, sum, scale) = (elems, elems, elems, elems);
    Work {
        flops: max + subtract + sum + scale,
        exponentials: elems,
        bytes: 2 * ELEM_BYTES * elems,
    }
}

/// The work of any problem.
#[must_use]
pub fn work(problem: &Problem) -> Work {
    match problem {
        Problem::Forward(p) => attention_forward(p),
        Problem::Gemm(p) => gemm(p),
        Problem::Softmax(p) => row_softmax(p),
    }
}

/// What a machine can do at most. For a bound that no honest time may beat, give the arithmetic rate at the maximum
/// clock and the rate of the memory pins.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    pub flops_per_s: f64,
    pub bytes_per_s: f64,
}

/// Which term bounds the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    Arithmetic,
    Memory,
}

/// The least time a problem can take on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Roofline {
    pub arithmetic_us: f64,
    pub memory_us: f64,
    /// The larger of the two.
    pub bound_us: f64,
    pub limit: Limit,
    /// FLOP rate at the bound, in 10^12 per second.
    pub bound_tflops: f64,
}

/// A machine that no bound can be computed for.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("asked for a roofline with {name} = {asked}; allowed: finite rates above 0")]
pub struct BadRate {
    pub name: &'static str,
    pub asked: f64,
}

/// The roofline bound of a problem.
///
/// # Errors
/// If a rate is not a finite number above 0.
pub fn roofline(problem: &Problem, machine: Machine) -> Result<Roofline, BadRate> {
    for (name, asked) in [
        ("flops_per_s", machine.flops_per_s),
        ("bytes_per_s", machine.bytes_per_s),
    ] {
        if !(asked.is_finite() && asked > 0.0) {
            return Err(BadRate { name, asked });
        }
    }
    let work = work(problem);
    let arithmetic_us = work.flops as f64 / machine.flops_per_s * 1e6;
    let memory_us = work.bytes as f64 / machine.bytes_per_s * 1e6;
    let bound_us = arithmetic_us.max(memory_us);
    let limit = if arithmetic_us >= memory_us {
        Limit::Arithmetic
    } else {
        Limit::Memory
    };
    Ok(Roofline {
        arithmetic_us,
        memory_us,
        bound_us,
        limit,
        bound_tflops: tflops(&work, bound_us),
    })
}

/// FLOP rate of a measured time, in 10^12 per second; 0 for a time that is not above 0.
#[must_use]
pub fn tflops(work: &Work, time_us: f64) -> f64 {
    if time_us > 0.0 {
        work.flops as f64 / time_us / 1e6
    } else {
        0.0
    }
}

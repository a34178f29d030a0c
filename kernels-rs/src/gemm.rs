//! Matrix product: `c[m, n] = op(a) · op(b)`, 16-bit inputs, f32 accumulation, output in the input type.
//!
//! `n` stores an operand as the formula reads it (a `[m, k]`, b `[k, n]`), `t` stores it transposed.

use dsl::index::Ix;
use dsl::ir::{At, Extent, span};
use dsl::{DType, Kernel, Trace, TraceErrors};

/// What is fixed when the kernel is traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    pub dtype: DType,
    /// Whether `a` is stored `[k, m]`.
    pub a_transposed: bool,
    /// Whether `b` is stored `[n, k]`.
    pub b_transposed: bool,
}

/// Traces the product.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn gemm(spec: Spec) -> Result<Kernel, TraceErrors> {
    let kernel = Trace::new("gemm");
    let [m, n, k] = ["m", "n", "k"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile, k_tile] = ["m_tile", "n_tile", "k_tile"].map(|name| kernel.tile(name));
    let stored = |transposed: bool, rows: &Ix, cols: &Ix| {
        if transposed {
            [cols.clone(), rows.clone()]
        } else {
            [rows.clone(), cols.clone()]
        }
    };
    let a = kernel.input("a", spec.dtype, stored(spec.a_transposed, &m, &k));
    let b = kernel.input("b", spec.dtype, stored(spec.b_transposed, &k, &n));
    let c = kernel.output("c", spec.dtype, [m.clone(), n.clone()]);

    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let col = kernel.grid("n_block", n.ceil_div(n_tile)) * n_tile;
    let at = |transposed: bool, r: At, c: At| if transposed { [c, r] } else { [r, c] };
    let view = |t: dsl::Tile, transposed: bool| if transposed { t.t() } else { t.into() };
    let piece = |start: &Ix, len: Extent| span(start.clone(), len);

    let sums = kernel.fold("k", k.ceil_div(k_tile).max(1), |fold, step| {
        let depth = step * k_tile;
        let left = fold
            .load(&a, at(spec.a_transposed, piece(&row, m_tile), piece(&depth, k_tile)))
            .named("a");
        let right = fold
            .load(&b, at(spec.b_transposed, piece(&depth, k_tile), piece(&col, n_tile)))
            .named("b");
        fold.accumulate(
            "acc",
            &view(left, spec.a_transposed)
                .dot(view(right, spec.b_transposed))
                .named("ab"),
        );
    });
    kernel.store(
        &c,
        [piece(&row, m_tile), piece(&col, n_tile)],
        &sums.total("acc").cast(spec.dtype),
    );
    kernel.finish()
}

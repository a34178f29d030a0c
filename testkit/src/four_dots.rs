//! Four dots over transposed scores, the shape of a backward pass: two left operands are computed, column vectors come in.

use dsl::index::Ix;
use dsl::ir::span;
use dsl::{DType, Kernel, Trace, TraceErrors};

/// `pᵀ = 2^(k·qᵀ s − lse)`, `dv = pᵀ·g`, `dk = pᵀ∘(v·gᵀ − delta)·q`. q, g `[m, heads, d]`, k, v `[n, heads, d]`, lse, delta `[heads, m]`.
///
/// # Errors
/// Shape or type mistakes of the kernel source, with their lines.
pub fn four_dots(dim: u32) -> Result<Kernel, TraceErrors> {
    let (kernel, b16) = (Trace::new("four_dots"), DType::Bf16);
    let [m, n, heads] = ["m", "n", "heads"].map(|name| kernel.runtime(name));
    let (m_tile, n_tile) = (kernel.tile("m_tile"), kernel.tile("n_tile"));
    let (long, wide) = (
        [m.clone(), heads.clone(), Ix::from(dim)],
        [n.clone(), heads.clone(), Ix::from(dim)],
    );
    let [q, g] = ["q", "g"].map(|name| kernel.input(name, b16, long.clone()));
    let [k, v] = ["k", "v"].map(|name| kernel.input(name, b16, wide.clone()));
    let [lse, delta] = ["lse", "delta"].map(|name| kernel.input(name, DType::F32, [heads.clone(), m.clone()]));
    let [dk, dv] = ["dk", "dv"].map(|name| kernel.output(name, b16, wide.clone()));
    let scale_log2 = kernel.scalar("scale_log2");
    let first = kernel.grid("n_block", n.ceil_div(n_tile)) * n_tile;
    let head = kernel.grid("head", heads);
    let at = |start: &Ix, len| [span(start, len), (&head).into(), span(0, dim)];
    let (keys, values) = (
        kernel.load(&k, at(&first, n_tile)).named("keys"),
        kernel.load(&v, at(&first, n_tile)).named("values"),
    );
    let sums = kernel.fold("rows", m.ceil_div(m_tile).max(1), |fold, i| {
        let row = i * m_tile;
        let (queries, grads) = (
            fold.load(&q, at(&row, m_tile)).named("queries"),
            fold.load(&g, at(&row, m_tile)).named("grads"),
        );
        let [lse, delta] = [&lse, &delta].map(|t| fold.load_col(t, [(&head).into(), span(&row, m_tile)]));
        let p = (keys.dot(queries.t()).named("st") * &scale_log2 - lse).exp2();
        let ds = &p * &(values.dot(grads.t()).named("dpt") - delta);
        fold.accumulate("dv_sum", &p.cast(b16).dot(&grads));
        fold.accumulate("dk_sum", &ds.cast(b16).dot(&queries));
    });
    kernel.store(&dv, at(&first, n_tile), &sums.total("dv_sum").cast(b16));
    kernel.store(&dk, at(&first, n_tile), &sums.total("dk_sum").cast(b16));
    kernel.finish()
}

//! Kernels that exist for these tests only.

use dsl::ir::{At, span};
use dsl::trace::cols;
use dsl::{DType, Kernel, Trace};

/// `y = a·b + 2 (a·b)` in two folds, one after the other.
pub fn sum_of_two_folds(dtype: DType) -> Kernel {
    let kernel = Trace::new("two_folds");
    let [m, n, k] = ["m", "n", "k"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile, k_tile] = ["m_tile", "n_tile", "k_tile"].map(|name| kernel.tile(name));
    let a = kernel.input("a", dtype, [m.clone(), k.clone()]);
    let b = kernel.input("b", dtype, [k.clone(), n.clone()]);
    let y = kernel.output("y", dtype, [m.clone(), n.clone()]);
    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let col = kernel.grid("n_block", n.ceil_div(n_tile)) * n_tile;
    let [once, again] = ["once", "again"].map(|name| {
        let sums = kernel.fold(name, k.clone().ceil_div(k_tile).max(1), |fold, step| {
            let depth = step * k_tile;
            let left = fold.load(&a, [span(&row, m_tile), span(&depth, k_tile)]);
            let right = fold.load(&b, [span(&depth, k_tile), span(&col, n_tile)]);
            fold.accumulate("sum", &left.dot(&right));
        });
        sums.total("sum")
    });
    kernel.store(
        &y,
        [span(row, m_tile), span(col, n_tile)],
        &(once + again * 2.0).cast(dtype),
    );
    kernel.finish().unwrap()
}

/// `y[z] = a[z]·b[z] + bias`, kept in f32, and the largest element of each row; `bias` is one number per column.
pub fn batched_with_bias(dtype: DType) -> Kernel {
    let kernel = Trace::new("batched");
    let [batch, m, n, k] = ["batch", "m", "n", "k"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile, k_tile] = ["m_tile", "n_tile", "k_tile"].map(|name| kernel.tile(name));
    let a = kernel.input("a", dtype, [batch.clone(), m.clone(), k.clone()]);
    let b = kernel.input("b", dtype, [batch.clone(), k.clone(), n.clone()]);
    let bias = kernel.input("bias", DType::F32, [n.clone()]);
    let y = kernel.output("y", DType::F32, [batch.clone(), m.clone(), n.clone()]);
    let peak = kernel.output("peak", DType::F32, [batch.clone(), m.clone()]);
    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let z = kernel.grid("z", batch);
    let sums = kernel.fold("k", k.ceil_div(k_tile).max(1), |fold, step| {
        let depth = step * k_tile;
        let left = fold.load(&a, [At::from(&z), span(&row, m_tile), span(&depth, k_tile)]);
        let right = fold.load(&b, [At::from(&z), span(&depth, k_tile), span(0, n_tile)]);
        fold.accumulate("sum", &left.dot(&right));
    });
    let total = sums.total("sum") + kernel.load_col(&bias, [span(0, n_tile)]);
    let inside = total.mask(&cols(0).lt(&n), f32::NEG_INFINITY);
    kernel.store(&peak, [At::from(&z), span(&row, m_tile)], &inside.row_max());
    kernel.store(&y, [At::from(&z), span(row, m_tile), span(0, n_tile)], &total);
    kernel.finish().unwrap()
}

/// A sum of row sums: no dot.
pub fn row_sums(dtype: DType) -> Kernel {
    let kernel = Trace::new("row_sums");
    let [m, n] = ["m", "n"].map(|name| kernel.runtime(name));
    let [m_tile, n_tile] = ["m_tile", "n_tile"].map(|name| kernel.tile(name));
    let x = kernel.input("x", dtype, [m.clone(), n.clone()]);
    let y = kernel.output("y", DType::F32, [m.clone()]);
    let row = kernel.grid("m_block", m.ceil_div(m_tile)) * m_tile;
    let sums = kernel.fold("over", n.ceil_div(n_tile).max(1), |fold, step| {
        let piece = fold
            .load(&x, [span(&row, m_tile), span(step * n_tile, n_tile)])
            .named("x");
        fold.accumulate("sum", &piece.cast(DType::F32).row_sum());
    });
    kernel.store(&y, [span(row, m_tile)], &sums.total("sum"));
    kernel.finish().unwrap()
}

//! Dot products with a fixed order of summation: eight partial sums, then a tree. The order does not depend on the
//! machine or on the number of threads, and it lets the compiler use vector registers.

const LANES: usize = 8;

/// Products of 16-bit floats are exact in f64, so the only rounding is that of the sums.
pub(super) fn dot_f64(a: &[f32], b: &[f32]) -> f64 {
    let mut acc = [0.0_f64; LANES];
    let (a_main, a_tail) = a.as_chunks::<LANES>();
    let (b_main, b_tail) = b.as_chunks::<LANES>();
    for (x, y) in a_main.iter().zip(b_main) {
        for lane in 0..LANES {
            acc[lane] += f64::from(x[lane]) * f64::from(y[lane]);
        }
    }
    for (lane, (&x, &y)) in a_tail.iter().zip(b_tail).enumerate() {
        acc[lane] += f64::from(x) * f64::from(y);
    }
    ((acc[0] + acc[4]) + (acc[1] + acc[5])) + ((acc[2] + acc[6]) + (acc[3] + acc[7]))
}

/// The same in f32, as the plain algorithms accumulate.
pub(super) fn dot_f32(a: &[f32], b: &[f32]) -> f32 {
    let mut acc = [0.0_f32; LANES];
    let (a_main, a_tail) = a.as_chunks::<LANES>();
    let (b_main, b_tail) = b.as_chunks::<LANES>();
    for (x, y) in a_main.iter().zip(b_main) {
        for lane in 0..LANES {
            acc[lane] += x[lane] * y[lane];
        }
    }
    for (lane, (&x, &y)) in a_tail.iter().zip(b_tail).enumerate() {
        acc[lane] += x * y;
    }
    ((acc[0] + acc[4]) + (acc[1] + acc[5])) + ((acc[2] + acc[6]) + (acc[3] + acc[7]))
}

/// `acc += weight * row` in f64.
pub(super) fn axpy_f64(acc: &mut [f64], weight: f64, row: &[f32]) {
    for (sum, &x) in acc.iter_mut().zip(row) {
        *sum += weight * f64::from(x);
    }
}

/// `acc += weight * row` in f32.
pub(super) fn axpy_f32(acc: &mut [f32], weight: f32, row: &[f32]) {
    for (sum, &x) in acc.iter_mut().zip(row) {
        *sum += weight * x;
    }
}

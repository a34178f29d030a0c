//! What several crates test with: kernels that no pass was written for, noise, and random schedules.
//!
//! Nothing here ships. The kernels prove that the compiler is generic: each is at most 40 lines, and `kernels-rs` holds them
//! against formulas, `codegen` against the interpreter on the simulator, `runner` against the interpreter on a GPU.

pub mod examples;
mod four_dots;
mod gated_mlp;
pub mod schedules;
mod shifted;
mod windowed;

pub use four_dots::four_dots;
pub use gated_mlp::gated_mlp;
pub use shifted::shifted;
pub use windowed::windowed;

/// Numbers of about the given spread (the sum of three uniform ones), the same on every run and different for every name.
#[must_use]
pub fn noise(name: &str, count: usize, spread: f64) -> Vec<f64> {
    let mut state = name.bytes().fold(0x9e37_79b9_7f4a_7c15_u64, |s, b| {
        s.wrapping_mul(31).wrapping_add(u64::from(b))
    });
    let mut one = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    };
    (0..count).map(|_| spread * (one() + one() + one())).collect()
}

//! Integration tests of the runner, without a GPU: a fake device that misbehaves on demand, the simulator, and the
//! assembler where it can be had.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends at the first thing that is wrong"
)]

mod cases;
mod cubins;
mod evaluation;
mod fake;
mod plans;
mod predicted;
mod programs;
mod quick;
mod simulated;
mod tamper;
mod timing;
mod whole;

//! Evaluates one candidate: a problem and a schedule become a verified and timed kernel, or a value that says why not.
//!
//! ```text
//! Case::new(problem)                  -> Case         traced kernel, sizes, scalars, tensors
//! codegen::compile(kernel, schedule)  -> Compiled     PTX and launch facts
//! Assembler::assemble(ptx)            -> AssembledImage   from a folder of cubins, or by the assembler
//! Prepared::load(device, image)       -> Prepared     loaded kernel and its parameter recipe
//! verify(device, prepared, case)      -> Verified     every input family passed the oracle's gate
//! compare(device, verified …, plan)   -> Comparison   paired windows of verified kernels
//! ```
//!
//! [`evaluate`](evaluate::evaluate) lists these stages in one straight function; each failure is an
//! [`Outcome`]. The runner knows no database and proposes nothing.

pub mod assemble;
pub mod case;
pub mod device;
pub mod evaluate;
pub mod expr;
pub mod launch;
pub mod outcome;
pub mod predict;
pub mod record;
pub mod schedules;
pub mod stamps;
pub mod time;
pub mod verify;

pub use assemble::{Assembler, CubinCache};
pub use case::{Case, LayoutRule};
pub use device::{CudaDevice, Device, SimDevice, SimOptions, Timing};
pub use evaluate::{Bench, Candidate, Evaluation, compile_only, evaluate, evaluate_untimed};
pub use launch::{BindInput, Bound, Prepared, TensorArg};
pub use outcome::{Outcome, Stage};
pub use time::{Comparison, Contestant, TimePlan, compare};
pub use verify::{Truths, Verified, VerifyPlan, verify};

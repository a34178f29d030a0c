//! Text forms for people: a scheduled kernel, a role program, memory and barrier tables.

pub mod barriers;
pub mod memory;
pub mod pipeline;
pub mod scheduled;
pub mod table;

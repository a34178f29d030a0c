//! Planted faults.
use warpwright_codegen::check::Rule;
use warpwright_codegen::role::RoleProgram;
pub struct Fault { pub name: &'static str, pub base: &'static str, pub rule: Rule, pub plant: fn(&mut RoleProgram) -> bool }
pub fn all() -> Vec<Fault> { vec![] }
pub fn drop_fence(_: &mut RoleProgram) -> bool { false }

//! Asynchronous copies: tensor maps, the boxes they select, and copies in flight.

pub(crate) mod boxes;
mod group;
pub(crate) mod issue;
pub(crate) mod map;
pub(crate) mod pending;

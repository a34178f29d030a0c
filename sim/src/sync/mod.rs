//! Barriers: mbarriers, named barriers, cluster barriers, the register pool.

pub(crate) mod cluster;
pub(crate) mod mbarrier;
mod mbarrier_wait;
pub(crate) mod named;
pub(crate) mod pool;

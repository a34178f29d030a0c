//! warpwright sim

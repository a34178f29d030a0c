//! warpwright dsl

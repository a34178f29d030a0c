//! warpwright runner

//! warpwright driver

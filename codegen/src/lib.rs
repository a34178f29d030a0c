//! warpwright codegen

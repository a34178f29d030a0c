//! warpwright kernels

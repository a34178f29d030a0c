//! warpwright oracle

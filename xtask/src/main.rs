//! warpwright xtask
fn main() {}

//! Development aid: prints the PTX of a kernel.

//! The readable text form of a role program.

//! A thin facade over the workspace.

//! Integration tests by expected result: the command line as a user runs it, and goldens of every stage.

#![cfg(test)]

mod answers;
mod compile;
mod devices;
mod fuzz;
mod goldens;
mod hostile;
mod refusals;
mod support;

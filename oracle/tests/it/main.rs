//! The oracle's own tests, by module.

#[cfg(test)]
mod candidate;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod flops;
#[cfg(test)]
mod gate;
#[cfg(test)]
mod inputs;
#[cfg(test)]
mod parser;
#[cfg(test)]
mod references;
#[cfg(test)]
mod signature;

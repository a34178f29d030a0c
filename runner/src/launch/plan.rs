//! The pure part of binding: launch facts and arguments to a checked launch.

use std::collections::BTreeMap;

use codegen::launch::{self, GridRule, LARGEST, LaunchFacts, Param, TensorFact};
use driver::LaunchSpec;

use super::tensor::MapRecipe;
use super::{Arg, BindError, TensorArg};
use crate::expr::{Sizes, eval};

/// The grammar of problems and the kernels have one limit; they are crates that do not know each other.
const _: () = assert!(oracle::problem::MAX_DIM as i64 == LARGEST);

/// What a launch is given.
#[derive(Clone, Copy, Debug)]
pub struct BindInput<'a> {
    /// Runtime sizes by name.
    pub sizes: &'a Sizes,
    /// `f32` parameters by name.
    pub scalars: &'a BTreeMap<String, f32>,
    /// Tensors, in any order.
    pub tensors: &'a [TensorArg],
}

/// A checked launch; scratch has no address yet.
#[derive(Clone, Debug, PartialEq)]
pub struct LaunchPlan {
    pub spec: LaunchSpec,
    /// Independent blocks of work: the grid of a kernel that is not persistent.
    pub blocks: u32,
    /// In the order of the kernel's parameters.
    pub args: Vec<PlannedArg>,
    pub scratch: Vec<ScratchPlan>,
    /// Which scratch takes the clock stamps of an instrumented kernel.
    pub stamps: Option<usize>,
}

/// One argument.
#[derive(Clone, Debug, PartialEq)]
pub enum PlannedArg {
    Ready(Arg),
    /// The address of this entry of [`LaunchPlan::scratch`].
    Scratch(usize),
}

/// Memory that a kernel needs for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScratchPlan {
    pub bytes: u32,
    /// Repeated to fill it.
    pub initial: u32,
}

impl ScratchPlan {
    /// What the memory holds before the first launch and after every one.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        let pattern = self.initial.to_ne_bytes();
        pattern.iter().copied().cycle().take(self.bytes as usize).collect()
    }
}

/// Checks the arguments and computes grid and parameters.
///
/// # Errors
/// The first thing that does not fit.
pub fn plan(facts: &LaunchFacts, input: &BindInput<'_>, multiprocessors: u32) -> Result<LaunchPlan, BindError> {
    if facts.version != launch::VERSION {
        return Err(BindError::Version {
            found: facts.version,
            known: launch::VERSION,
        });
    }
    for name in &facts.runtime {
        size(input.sizes, name)?;
    }
    let (blocks, grid) = grid(&facts.grid, input.sizes, multiprocessors)?;
    let mut planner = Planner {
        facts,
        input,
        tensors: BTreeMap::new(),
        scratch: Vec::new(),
        stamps: None,
        ctas: grid,
    };
    // Also those that no parameter reads: a wrong tensor is wrong all the same.
    for fact in &facts.tensors {
        planner.tensor(&fact.name)?;
    }
    let args = facts
        .params
        .iter()
        .map(|param| planner.arg(param))
        .collect::<Result<_, _>>()?;
    Ok(LaunchPlan {
        spec: LaunchSpec {
            grid: [grid, 1, 1],
            block: facts.block,
            cluster: None,
            dynamic_shared_bytes: facts.shared_bytes,
        },
        blocks,
        args,
        scratch: planner.scratch,
        stamps: planner.stamps,
    })
}

struct Planner<'a> {
    facts: &'a LaunchFacts,
    input: &'a BindInput<'a>,
    /// Checked so far.
    tensors: BTreeMap<&'a str, TensorArg>,
    scratch: Vec<ScratchPlan>,
    stamps: Option<usize>,
    ctas: u32,
}

impl<'a> Planner<'a> {
    fn arg(&mut self, param: &'a Param) -> Result<PlannedArg, BindError> {
        let arg = match param {
            Param::TensorMap {
                tensor,
                r#box,
                swizzle,
                l2_promotion,
                ..
            } => {
                let fact = self.fact(tensor)?;
                let recipe = MapRecipe {
                    row_multiple_elems: fact.row_multiple_elems,
                    box_elems: r#box,
                    swizzle: *swizzle,
                    l2_promotion: *l2_promotion,
                };
                Arg::TensorMap(self.tensor(tensor)?.map(&recipe)?)
            }
            Param::Pointer { tensor, .. } => Arg::Address(self.tensor(tensor)?.address),
            Param::Stride { tensor, dim, .. } => Arg::Stride(self.stride(tensor, *dim)?),
            Param::Size { name } => Arg::Size(size(self.input.sizes, name)?),
            Param::Scalar { name, positive } => Arg::Scalar(self.scalar(name, *positive)?),
            Param::Scratch { bytes, initial, .. } => {
                self.scratch.push(ScratchPlan {
                    bytes: *bytes,
                    initial: *initial,
                });
                return Ok(PlannedArg::Scratch(self.scratch.len() - 1));
            }
            Param::Stamps { cta_bytes, .. } => {
                self.scratch.push(ScratchPlan {
                    bytes: cta_bytes.saturating_mul(self.ctas),
                    initial: 0,
                });
                self.stamps = Some(self.scratch.len() - 1);
                return Ok(PlannedArg::Scratch(self.scratch.len() - 1));
            }
        };
        Ok(PlannedArg::Ready(arg))
    }

    fn fact(&self, name: &str) -> Result<&'a TensorFact, BindError> {
        let found = self.facts.tensors.iter().find(|fact| fact.name == name);
        found.ok_or_else(|| missing(name, self.facts.tensors.iter().map(|fact| fact.name.as_str())))
    }

    fn tensor(&mut self, name: &'a str) -> Result<&TensorArg, BindError> {
        if !self.tensors.contains_key(name) {
            let fact = self.fact(name)?;
            let given = self.input.tensors.iter().find(|tensor| tensor.name == name);
            let given = given.ok_or_else(|| missing(name, self.input.tensors.iter().map(|t| t.name.as_str())))?;
            self.tensors.insert(name, given.checked(fact, self.input.sizes)?);
        }
        self.tensors.get(name).ok_or_else(|| missing(name, std::iter::empty()))
    }

    fn stride(&mut self, tensor: &'a str, dim: u32) -> Result<i64, BindError> {
        let checked = self.tensor(tensor)?;
        let stride = checked.strides.get(dim as usize).ok_or_else(|| BindError::Unknown {
            what: "stride",
            name: tensor.to_owned(),
            given: dim.to_string(),
            allowed: "its dimensions",
        })?;
        i64::try_from(*stride).map_err(|_| BindError::TooLarge {
            tensor: tensor.to_owned(),
        })
    }

    fn scalar(&self, name: &str, positive: bool) -> Result<f32, BindError> {
        let scalars = self.input.scalars;
        let value = *scalars
            .get(name)
            .ok_or_else(|| missing(name, scalars.keys().map(String::as_str)))?;
        if positive && !(value > 0.0 && value.is_finite()) {
            return Err(BindError::NotPositive {
                name: name.to_owned(),
                given: value.to_string(),
            });
        }
        Ok(value)
    }
}

fn missing<'a>(name: &str, given: impl Iterator<Item = &'a str>) -> BindError {
    BindError::Missing {
        name: name.to_owned(),
        given: given.collect::<Vec<_>>().join(", "),
    }
}

fn size(sizes: &Sizes, name: &str) -> Result<i32, BindError> {
    let given = *sizes
        .get(name)
        .ok_or_else(|| missing(name, sizes.keys().map(String::as_str)))?;
    let fits = i32::try_from(given).ok().filter(|_| (1..=LARGEST).contains(&given));
    fits.ok_or_else(|| BindError::Size {
        name: name.to_owned(),
        given,
    })
}

/// Blocks of work, and CTAs to launch.
fn grid(rule: &GridRule, sizes: &Sizes, multiprocessors: u32) -> Result<(u32, u32), BindError> {
    let mut product = 1_i64;
    for text in &rule.blocks {
        let count = eval(text, sizes).map_err(|error| BindError::Expr {
            name: "the grid".to_owned(),
            error,
        })?;
        product = product
            .checked_mul(count)
            .filter(|_| count > 0)
            .ok_or_else(|| BindError::Grid {
                blocks: format!("{product} x {count}"),
            })?;
    }
    let fits = u32::try_from(product).ok().filter(|_| product <= LARGEST);
    let blocks = fits.ok_or_else(|| BindError::Grid {
        blocks: product.to_string(),
    })?;
    match rule.kind.as_str() {
        "blocks" => Ok((blocks, blocks)),
        "persistent" => Ok((blocks, blocks.min(multiprocessors.max(1)))),
        other => Err(BindError::Unknown {
            what: "grid kind",
            name: "the grid".to_owned(),
            given: other.to_owned(),
            allowed: "blocks, persistent",
        }),
    }
}

//! Whether one compiled kernel can serve the sizes of one problem, before any GPU work.
//!
//! One cubin serves every runtime size, so this is apart from compiling: rows that the copy engine can address, and a
//! number of blocks that the kernel can count.

use codegen::launch::{LARGEST, LaunchFacts};
use runner::expr::{Sizes, eval};

use crate::failure::Failure;

/// Blocks per grid axis at the sizes of a problem; nothing where one cannot be told.
#[must_use]
pub fn blocks(launch: &LaunchFacts, sizes: &Sizes) -> Option<Vec<i64>> {
    launch.grid.blocks.iter().map(|rule| eval(rule, sizes).ok()).collect()
}

/// The product of the axes; nothing when it overflows.
#[must_use]
pub fn total(axes: &[i64]) -> Option<i64> {
    axes.iter().try_fold(1_i64, |product, n| product.checked_mul(*n))
}

/// Refuses a problem that the compiled kernel cannot serve.
pub fn check(launch: &LaunchFacts, sizes: &Sizes) -> Result<(), Failure> {
    let refused = Failure::refused("the problem was refused: the kernel cannot serve these sizes");
    let checked = [rows(launch, sizes), grid(launch, sizes)].concat();
    if checked.is_empty() {
        return Ok(());
    }
    Err(checked
        .into_iter()
        .fold(refused, |failure, [key, asked, fact, allowed]| {
            failure.reason(&key, asked, fact, allowed)
        }))
}

/// Dense rows of every tensor with strides.
fn rows(launch: &LaunchFacts, sizes: &Sizes) -> Vec<[String; 4]> {
    let mut out = vec![];
    for tensor in &launch.tensors {
        let (elem_bytes, align_bytes) = (if tensor.dtype == "f32" { 4 } else { 2 }, i64::from(tensor.align_bytes));
        let inner = tensor.dims.last().and_then(|rule| eval(rule, sizes).ok());
        let Some(row_bytes) = inner.and_then(|n| n.checked_mul(elem_bytes)) else {
            continue;
        };
        // A tensor of one dimension has no stride.
        if tensor.dims.len() > 1 && row_bytes % align_bytes != 0 {
            out.push([
                format!("tensor {}", tensor.name),
                format!("dense rows of {row_bytes} bytes"),
                format!("the kernel copies pieces of {align_bytes} bytes, so strides are multiples of them"),
                format!(
                    "a multiple of {} elements in {}",
                    align_bytes / elem_bytes,
                    tensor.dims.last().map_or("the last dimension", String::as_str)
                ),
            ]);
        }
    }
    out
}

fn grid(launch: &LaunchFacts, sizes: &Sizes) -> Vec<[String; 4]> {
    let found = blocks(launch, sizes).and_then(|axes| total(&axes));
    if found.is_some_and(|n| n <= LARGEST) {
        return vec![];
    }
    let asked = found.map_or_else(
        || "a number of blocks past 64 bits".to_owned(),
        |n| format!("{n} blocks"),
    );
    let allowed = format!("at most {LARGEST} blocks: larger tiles, or a smaller problem");
    vec![[
        "grid".to_owned(),
        asked,
        "kernels count blocks with signed 32 bits, past the last one by a grid".to_owned(),
        allowed,
    ]]
}

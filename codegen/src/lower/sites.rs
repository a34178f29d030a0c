//! The Rust lines of a kernel, by the names that a role program gives to its values.

use std::collections::BTreeMap;

use dsl::Kernel;
use dsl::ir::{Op, Site};

/// The name of the store of a tensor; no value is called so.
#[must_use]
pub fn store(tensor: &str) -> String {
    format!("%store {tensor}")
}

/// The line of every value, carry and store.
#[must_use]
pub fn of(kernel: &Kernel) -> BTreeMap<String, Site> {
    let mut out = BTreeMap::new();
    let mut add = |name: String, site: &Site| {
        out.entry(name).or_insert_with(|| site.clone());
    };
    for (i, value) in (0u32..).zip(&kernel.values) {
        add(kernel.label(dsl::ir::ValueId(i)), &value.site);
        if let Op::Store { tensor, .. } = &value.op {
            add(store(&kernel.tensor(*tensor).name), &value.site);
        }
    }
    // A carry may be called as a value is; the value's line is the nearer one.
    for value in &kernel.values {
        let Op::Fold(fold) = &value.op else { continue };
        fold.carries
            .iter()
            .for_each(|c| add(c.name.clone(), &kernel.value(c.arg).site));
    }
    out
}

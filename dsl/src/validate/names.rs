//! Names: non-empty, `[a-z0-9_]+`, unique within their kind.

use std::collections::BTreeSet;

use super::error::{Invalid, Report};
use super::structure::Placed;
use crate::ir::Op;

pub(super) fn check(report: &mut Report<'_>, program: &[Placed]) {
    let kernel = report.kernel;
    all(report, "kernel", [kernel.name.as_str()]);
    // Runtime sizes and tile sizes both print as bare words of an expression, so they share one set of names.
    let sizes = kernel.runtime.iter().chain(kernel.tiles.iter().map(|t| &t.name));
    all(report, "size", sizes.map(String::as_str));
    all(report, "scalar", kernel.scalars.iter().map(|s| s.name.as_str()));
    all(report, "tensor", kernel.tensors.iter().map(|t| t.name.as_str()));
    all(report, "grid axis", kernel.grid.iter().map(|a| a.name.as_str()));
    // Folds are named values too.
    let named = program.iter().filter_map(|p| match &kernel.value(p.id).op {
        Op::Fold(fold) => Some(fold.name.as_str()),
        _ => kernel.value(p.id).name.as_deref(),
    });
    all(report, "value", named);
    for placed in program {
        if let Op::Fold(fold) = &kernel.value(placed.id).op {
            all(report, "carry", fold.carries.iter().map(|c| c.name.as_str()));
        }
    }
}

fn all<'a>(report: &mut Report<'_>, what: &'static str, names: impl IntoIterator<Item = &'a str>) {
    let mut seen = BTreeSet::new();
    for name in names {
        let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(legal) {
            report.general(Invalid::BadName {
                what,
                name: name.to_owned(),
            });
        }
        if !seen.insert(name) {
            report.general(Invalid::DuplicateName {
                what,
                name: name.to_owned(),
            });
        }
    }
}

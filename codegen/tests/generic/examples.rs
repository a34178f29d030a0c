//! The kernels of `testkit` that no pass was written for agree with the interpreter.

use crate::harness::Case;

fn agree(kernel: &str) {
    let examples = testkit::examples::all().unwrap();
    let chosen = examples.iter().filter(|example| example.kernel.name == kernel);
    let checked = chosen.map(|example| Case::example(example).check(&example.label, example.tolerance));
    assert!(checked.count() > 0, "no example of {kernel}");
}

#[test]
fn gated_mlp() {
    agree("gated_mlp");
}

#[test]
fn windowed() {
    agree("windowed");
}

#[test]
fn shifted() {
    agree("shifted");
}

#[test]
fn four_dots() {
    agree("four_dots");
}

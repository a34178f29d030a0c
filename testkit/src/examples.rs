//! The kernels with a schedule, sizes and inputs each, ready to run anywhere.

use dsl::{DType, Kernel, TraceErrors};

use crate::{four_dots, gated_mlp, shifted, windowed};

/// One input tensor of noise.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    pub name: &'static str,
    /// Outermost first.
    pub dims: Vec<usize>,
    /// See [`crate::noise`].
    pub spread: f64,
}

/// A kernel and everything that a run of it needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Example {
    /// Different for each example.
    pub label: String,
    pub kernel: Kernel,
    /// TOML.
    pub schedule: String,
    /// Sizes by name.
    pub runtime: Vec<(&'static str, i64)>,
    pub scalars: Vec<(&'static str, f64)>,
    pub inputs: Vec<Input>,
    pub outputs: Vec<(&'static str, Vec<usize>)>,
    /// Largest ‖found - interpreted‖ / ‖interpreted‖ of an output: the rounding of 16-bit inputs to the dots.
    pub tolerance: f64,
}

fn inputs(list: &[(&'static str, &[usize], f64)]) -> Vec<Input> {
    let one = |&(name, dims, spread): &(&'static str, &[usize], f64)| Input {
        name,
        dims: dims.to_vec(),
        spread,
    };
    list.iter().map(one).collect()
}

/// Every example.
///
/// # Errors
/// Shape or type mistakes of a kernel's source.
pub fn all() -> Result<Vec<Example>, TraceErrors> {
    let mut examples = vec![gated()?, dots()?, early()?];
    for (index, (extra, window)) in [
        ("", 40),
        ("", 400),
        ("[folds.kv]\ndirection = \"ascending\"\n", 100),
        ("[folds.kv]\nrescale = \"exact\"\nsplit = \"never\"\n", 7),
    ]
    .into_iter()
    .enumerate()
    {
        examples.push(window_of(index, extra, window)?);
    }
    Ok(examples)
}

fn gated() -> Result<Example, TraceErrors> {
    Ok(Example {
        label: "gated_mlp".to_owned(),
        kernel: gated_mlp(DType::Bf16)?,
        schedule: "tiles = { m_tile = 128, n_tile = 64, k_tile = 64 }".to_owned(),
        runtime: vec![("m", 150), ("n", 72), ("k", 136)],
        scalars: vec![],
        inputs: inputs(&[
            ("x", &[150, 136], 1.0),
            ("w1", &[136, 72], 0.2),
            ("w2", &[136, 72], 0.2),
        ]),
        outputs: vec![("y", vec![150, 72])],
        tolerance: 6e-3,
    })
}

fn dots() -> Result<Example, TraceErrors> {
    Ok(Example {
        label: "four_dots".to_owned(),
        kernel: four_dots(64)?,
        schedule: "tiles = { m_tile = 64, n_tile = 128 }".to_owned(),
        runtime: vec![("m", 150), ("n", 200), ("heads", 2)],
        scalars: vec![("scale_log2", 0.1)],
        inputs: inputs(&[
            ("q", &[150, 2, 64], 1.0),
            ("g", &[150, 2, 64], 1.0),
            ("k", &[200, 2, 64], 1.0),
            ("v", &[200, 2, 64], 1.0),
            ("lse", &[2, 150], 1.0),
            ("delta", &[2, 150], 1.0),
        ]),
        outputs: vec![("dk", vec![200, 2, 64]), ("dv", vec![200, 2, 64])],
        tolerance: 8e-3,
    })
}

fn early() -> Result<Example, TraceErrors> {
    Ok(Example {
        label: "shifted".to_owned(),
        kernel: shifted()?,
        schedule: "tiles = { n_tile = 64 }".to_owned(),
        runtime: vec![
            ("n", 150),
            ("heads", 2),
            ("shift", 5),
            ("rows", 155),
            ("early_heads", 3),
        ],
        scalars: vec![],
        inputs: inputs(&[("x", &[150, 2, 64], 1.0), ("bias", &[2, 150], 1.0)]),
        outputs: vec![("y", vec![155, 3, 64]), ("sums", vec![2, 150])],
        tolerance: 6e-3,
    })
}

fn window_of(index: usize, extra: &str, window: i64) -> Result<Example, TraceErrors> {
    Ok(Example {
        label: format!("windowed {index}: window {window}"),
        kernel: windowed(64)?,
        schedule: format!("tiles = {{ q_tile = 64, kv_tile = 64 }}\n{extra}"),
        runtime: vec![("len", 230), ("heads", 2), ("window", window)],
        scalars: vec![("scale_over_cap", 0.05), ("cap_log2", 7.0)],
        inputs: inputs(&["q", "k", "v"].map(|name| (name, &[230, 2, 64][..], 1.0))),
        outputs: vec![("o", vec![230, 2, 64])],
        tolerance: 6e-3,
    })
}

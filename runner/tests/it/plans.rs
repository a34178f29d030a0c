//! Launch plans: what a launch is given, and every refusal before a device sees it.

use std::collections::BTreeMap;

use codegen::launch::{LaunchFacts, Param};
use warpwright_runner::case::{Case, LayoutRule};
use warpwright_runner::launch::{Arg, BindError, BindInput, LaunchPlan, PlannedArg, TensorArg, plan};
use warpwright_runner::schedules::shipped_for;

use crate::cases::case;

fn facts(case: &Case) -> LaunchFacts {
    let schedule = shipped_for(case.problem()).unwrap();
    codegen::compile(case.kernel(), &schedule, &codegen::target::SM_90A)
        .unwrap()
        .launch
}

/// Arguments of a launch, to be spoilt.
#[derive(Clone)]
struct Given {
    facts: LaunchFacts,
    sizes: BTreeMap<String, i64>,
    scalars: BTreeMap<String, f32>,
    tensors: Vec<TensorArg>,
}

impl Given {
    fn new(case: &Case) -> Self {
        let tensors = case.tensors().iter().enumerate().map(|(i, t)| TensorArg {
            name: t.name.clone(),
            address: 0x1_0000_0000 * (i as u64 + 1),
            dtype: t.dtype,
            dims: t.layout.dims.clone(),
            strides: t.layout.strides.clone(),
        });
        Self {
            facts: facts(case),
            sizes: case.sizes().clone(),
            scalars: case.scalars().clone(),
            tensors: tensors.collect(),
        }
    }

    fn plan(&self) -> Result<LaunchPlan, BindError> {
        let input = BindInput {
            sizes: &self.sizes,
            scalars: &self.scalars,
            tensors: &self.tensors,
        };
        plan(&self.facts, &input, 132)
    }

    fn refused<R>(&self, spoil: impl FnOnce(&mut Self) -> R) -> String {
        let mut given = self.clone();
        spoil(&mut given);
        given.plan().unwrap_err().to_string()
    }
}

const FWD: &str = "fwd bf16 b3 s1000x600 h8/2 d128 full";

#[test]
fn maps_are_innermost_first_with_strides_in_bytes() {
    let given = Given::new(&case(FWD));
    let plan = given.plan().unwrap();
    let Some(PlannedArg::Ready(Arg::TensorMap(k))) = plan.args.get(1) else {
        panic!("{:?}", plan.args)
    };
    assert!(matches!(&given.facts.params[1], Param::TensorMap { tensor, .. } if tensor == "k"));
    assert_eq!(k.base, 0x2_0000_0000);
    assert_eq!(k.dims_elems, [128, 2, 600, 3]);
    assert_eq!(k.strides_bytes, [256, 512, 512 * 600]);
    assert_eq!(k.box_elems[0], 64);
    assert_eq!(k.box_bytes() % 1024, 0);
    let strides = given
        .facts
        .params
        .iter()
        .zip(&plan.args)
        .filter_map(|(param, arg)| match (param, arg) {
            (Param::Stride { .. }, PlannedArg::Ready(Arg::Stride(elems))) => Some(*elems),
            _ => None,
        });
    assert_eq!(
        strides.collect::<Vec<_>>(),
        [8000, 1000, 1],
        "lse is [batch, heads, q_len]"
    );
    let blocks = 3 * 8 * 1000_u32.div_ceil(192);
    assert_eq!(plan.blocks, blocks);
    let grid = if given.facts.grid.kind == "persistent" {
        blocks.min(132)
    } else {
        blocks
    };
    assert_eq!(plan.spec.grid, [grid, 1, 1]);
    assert_eq!(plan.spec.dynamic_shared_bytes, given.facts.shared_bytes);
    let index = given
        .facts
        .params
        .iter()
        .position(|p| matches!(p, Param::Size { name } if name == "group"))
        .unwrap();
    assert_eq!(plan.args[index], PlannedArg::Ready(Arg::Size(4)));
}

#[test]
fn strided_tensors_keep_their_strides() {
    let permuted = case(FWD).with_layouts(LayoutRule::Permuted).unwrap();
    let plan = Given::new(&permuted).plan().unwrap();
    let Some(PlannedArg::Ready(Arg::TensorMap(k))) = plan.args.get(1) else {
        panic!("{:?}", plan.args)
    };
    assert_eq!(k.strides_bytes, [2 * 128 * 600, 256, 2 * 128 * 600 * 2]);
}

#[test]
fn strides_of_single_dimensions_do_not_matter() {
    let one = case("fwd bf16 b1 s64 h1 d128 full");
    let mut given = Given::new(&one);
    let wanted = given.plan().unwrap();
    for tensor in &mut given.tensors[..4] {
        (tensor.strides[0], tensor.strides[2]) = (1, 0);
    }
    assert_eq!(given.plan().unwrap().args[0], wanted.args[0]);
}

#[test]
fn illegal_arguments_are_refused_with_reasons() {
    let given = Given::new(&case(FWD));
    let says = |text: String, wanted: &str| assert!(text.contains(wanted), "{text}");
    says(given.refused(|g| g.tensors[0].address = 0), "tensor `q` has address 0");
    says(given.refused(|g| g.tensors[0].address += 8), "multiples of 16 bytes");
    says(given.refused(|g| g.tensors[4].address += 2), "multiples of 4 bytes");
    says(
        given.refused(|g| g.tensors[1].strides[1] += 4),
        "stride 1 of tensor `k` is 260 elements = 520 bytes",
    );
    says(given.refused(|g| g.tensors[1].strides[1] += 4), "for example 264");
    says(
        given.refused(|g| g.tensors[2].strides[3] = 2),
        "last stride of tensor `v` is 2",
    );
    says(
        given.refused(|g| g.tensors[3].strides[1] = 0),
        "rows overlap; allowed: at least 1",
    );
    says(
        given.refused(|g| g.tensors[3].strides[0] = 128),
        "overlap; allowed: at least",
    );
    says(
        given.refused(|g| g.tensors[1].strides[0] = u64::MAX),
        "past the end of 64-bit addresses",
    );
    says(
        given.refused(|g| g.tensors[1].strides.truncate(2)),
        "2 strides for 4 dimensions",
    );
    says(given.refused(|g| g.tensors[1].dims[1] = 599), "[3, 599, 2, 128]");
    says(
        given.refused(|g| g.tensors[0].dtype = dsl::DType::F16),
        "compiled for bf16",
    );
    says(given.refused(|g| g.tensors.pop()), "`lse`");
    says(given.refused(|g| g.sizes.remove("group")), "`group`");
    says(
        given.refused(|g| g.sizes.insert("batch".into(), 1 << 31)),
        "allowed: 1 to 1073741824",
    );
    says(given.refused(|g| g.sizes.insert("batch".into(), 0)), "`batch` is 0");
    for value in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        says(
            given.refused(|g| g.scalars.insert("scale_log2".into(), value)),
            "numbers above 0",
        );
    }
    says(given.refused(|g| g.scalars.clear()), "`scale_log2`");
    says(given.refused(|g| g.facts.version = 1), "version 1");
    says(
        given.refused(|g| g.facts.grid.kind = "spiral".into()),
        "allowed: blocks, persistent",
    );
    says(
        given.refused(|g| g.facts.grid.blocks = vec!["q_len *".into()]),
        "ends where",
    );
    says(
        given.refused(|g| g.facts.grid.blocks = vec!["2147483647".into(), "2".into()]),
        "4294967294 blocks",
    );
}

#[test]
fn rows_that_a_store_would_write_behind_are_refused_by_the_facts() {
    let case = case("gemm bf16 m64 n256 k64 nt");
    let given = Given::new(&case);
    let multiples: Vec<_> = given
        .facts
        .tensors
        .iter()
        .map(|t| (t.name.as_str(), t.row_multiple_elems))
        .collect();
    assert_eq!(multiples, [("a", 1), ("b", 1), ("c", 8)]);
    let odd = |g: &mut Given| {
        g.sizes.insert("n".to_owned(), 257);
        for tensor in &mut g.tensors {
            let (dims, strides) = match tensor.name.as_str() {
                "b" => (vec![257, 64], vec![64, 1]),
                "c" => (vec![64, 257], vec![264, 1]),
                _ => continue,
            };
            (tensor.dims, tensor.strides) = (dims, strides);
        }
    };
    let refused = given.refused(odd);
    assert!(
        refused.contains("`c` has rows of 257") && refused.contains("a multiple of 8"),
        "{refused}"
    );
    // The rule is the fact's, not the runner's.
    let mut free = given.clone();
    odd(&mut free);
    free.facts.tensors.iter_mut().for_each(|t| t.row_multiple_elems = 1);
    assert!(free.plan().is_ok(), "{:?}", free.plan());
    // Code that stores from registers ends where the row ends.
    let plain = codegen::compile(
        case.kernel(),
        &dsl::schedule::Schedule::default(),
        &codegen::target::SM_80,
    )
    .unwrap();
    assert!(plain.launch.tensors.iter().all(|t| t.row_multiple_elems == 1));
}

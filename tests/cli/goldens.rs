//! Goldens of every stage: the traced kernel, the scheduled kernel, the role program and the PTX of kernel × schedule
//! pairs, under `tests/snapshots`. `cargo xtask goldens` rewrites them. Every golden PTX goes through the assembler.
//!
//! Each pair turns a few knobs, and between them they turn all; tiles are small so that the PTX stays short.

use codegen::Compiled;
use codegen::target::SM_90A;
use dsl::Kernel;
use tools::AssembleRequest;
use tools::testing::tools_or_skip;
use warpwright::{codegen, dsl, runner, tools};

/// One pair; the name is that of its files.
struct Pair {
    name: &'static str,
    problem: &'static str,
    schedule: &'static str,
}

const SMALL: &str = "[tiles]\nq_tile = 64\nkv_tile = 32\n";

const PAIRS: [Pair; 15] = [
    Pair {
        name: "gemm_nn_small",
        problem: "gemm bf16 m64 n64 k64 nn",
        schedule: "[tiles]\nm_tile = 64\nn_tile = 64\nk_tile = 64\n",
    },
    Pair {
        name: "gemm_nt_two_consumers",
        problem: "gemm f16 m64 n64 k64 nt",
        schedule: "[tiles]\nm_tile = 128\nn_tile = 64\nk_tile = 64\n[loads.a]\nstages = 3\n[loads.b]\nstages = 3\n",
    },
    Pair {
        name: "gemm_tn_dynamic",
        problem: "gemm bf16 m64 n64 k64 tn",
        schedule: "[tiles]\nm_tile = 64\nn_tile = 64\nk_tile = 64\n[grid]\npersistence = \"dynamic\"\nsection = 8\n",
    },
    Pair {
        name: "gemm_tt_per_block",
        problem: "gemm f16 m64 n64 k64 tt",
        schedule: "[tiles]\nm_tile = 64\nn_tile = 64\nk_tile = 64\n[grid]\npersistence = \"none\"\ninner = \"n_block\"\n",
    },
    Pair {
        name: "softmax_small",
        problem: "softmax bf16 m64 n64",
        schedule: "[tiles]\nm_tile = 64\nn_tile = 64\n",
    },
    Pair {
        name: "softmax_exact",
        problem: "softmax f16 m64 n64",
        schedule: "[tiles]\nm_tile = 64\nn_tile = 64\n[folds.sum]\nrescale = \"exact\"\n",
    },
    Pair {
        name: "attention_full_serial",
        problem: "fwd bf16 b1 s64 h1 d64 full",
        schedule: "[folds.kv]\nrescale = \"exact\"\nstages = { o = 0 }\n",
    },
    Pair {
        name: "attention_full_overlap",
        problem: "fwd bf16 b1 s64 h1 d64 full",
        schedule: "[folds.kv]\nstages = { o = 1 }\norder = [\"issue s\", \"issue o\", \"wait s\"]\n",
    },
    Pair {
        name: "attention_causal_lazy",
        problem: "fwd f16 b1 s64 h1 d64 causal",
        schedule: "[folds.kv]\nrescale = \"lazy\"\nlazy_threshold = 4.0\n[grid]\ndescending = [\"q_block\"]\n",
    },
    Pair {
        name: "attention_causal_narrow",
        problem: "fwd bf16 b1 s128 h1 d64 causal",
        schedule: "tiles.q_tile = 128\n[folds.kv]\nnarrow = true\n",
    },
    Pair {
        name: "attention_causal_never_split",
        problem: "fwd bf16 b1 s64 h1 d64 causal",
        schedule: "[folds.kv]\nsplit = \"never\"\ndirection = \"ascending\"\nexp2_polynomial_every = 4\n",
    },
    Pair {
        name: "attention_full_fixed",
        problem: "fwd bf16 b1 s64 h1 d64 full",
        schedule: "[folds.kv]\nrescale = \"fixed\"\n",
    },
    Pair {
        name: "attention_ping_pong_dynamic",
        problem: "fwd bf16 b1 s64 h1 d64 full",
        schedule: "tiles.q_tile = 128\n[folds.kv]\nhandoff = \"ping-pong\"\n[grid]\npersistence = \"dynamic\"\n",
    },
    Pair {
        name: "attention_shared_ring",
        problem: "fwd bf16 b1 s64 h2/1 d64 causal",
        schedule: "[loads.k]\nring = \"kv\"\nstages = 4\nrelease = \"late\"\ncache = \"evict-last\"\n[loads.v]\nring = \"kv\"\nstages = 4\nrelease = \"late\"\n",
    },
    Pair {
        name: "attention_three_consumers",
        problem: "fwd bf16 b1 s64 h1 d64 full",
        schedule: "tiles.q_tile = 192\n[stores.o]\nbuffer = \"q\"\n[roles]\nproducer_registers = 32\nconsumer_registers = 160\n",
    },
];

impl Pair {
    fn schedule(&self) -> String {
        match (self.problem.starts_with("fwd"), self.schedule.strip_prefix("tiles.")) {
            // Names its row tile itself; dotted keys and the table cannot both be given.
            (true, Some(own)) => format!("tiles.kv_tile = 32\ntiles.{own}"),
            (true, None) => format!("{SMALL}{}", self.schedule),
            (false, _) => self.schedule.to_owned(),
        }
    }

    fn compile(&self) -> (Kernel, Compiled) {
        let problem = self.problem.parse().unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let kernel = runner::case::trace(&problem).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let schedule = dsl::schedule::text::parse_for(&self.schedule(), &kernel);
        let schedule = schedule.unwrap_or_else(|e| panic!("{}: {e}", self.name));
        let compiled = codegen::compile(&kernel, &schedule, &SM_90A).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        (kernel, compiled)
    }
}

/// Compares one text with its file; differences are gathered so that one run shows all of them.
fn golden(name: &str, stage: &str, text: &str) -> bool {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../snapshots");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let compare = || settings.bind(|| insta::assert_snapshot!(format!("{name}.{stage}"), text));
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)).is_ok()
}

fn goldens_of(stage: &str, text: impl Fn(&Kernel, &Compiled) -> String) {
    let differs = |pair: &&Pair| {
        let (kernel, compiled) = pair.compile();
        !golden(pair.name, stage, &text(&kernel, &compiled))
    };
    let different: Vec<_> = PAIRS.iter().filter(differs).map(|pair| pair.name).collect();
    assert!(different.is_empty(), "{stage} differs for {different:?}");
}

#[test]
fn golden_tile() {
    goldens_of("tile", |kernel, _| dsl::print(kernel));
}

#[test]
fn golden_scheduled() {
    goldens_of("scheduled", |_, compiled| dsl::print(&compiled.scheduled.kernel));
}

#[test]
fn golden_role() {
    goldens_of("role", |_, compiled| codegen::role::print::print(&compiled.program));
}

#[test]
fn golden_ptx() {
    goldens_of("ptx", |_, compiled| compiled.ptx.to_string());
}

#[test]
fn golden_ptx_assembles_as_written() {
    let Some(tools) = tools_or_skip("golden_ptx_assembles_as_written").expect("usable tools") else {
        return;
    };
    for pair in &PAIRS {
        let text = pair.compile().1.ptx.to_string();
        let assembled = tools
            .assemble(&AssembleRequest::new(&text, SM_90A.name))
            .unwrap_or_else(|e| panic!("{}: {e}", pair.name));
        let accepted = assembled.accept().unwrap_or_else(|e| panic!("{}: {e}", pair.name));
        let remarks: Vec<_> = accepted.remarks().map(|d| d.text.clone()).collect();
        assert!(
            remarks.is_empty(),
            "{}: the assembler put in what was missing: {remarks:?}",
            pair.name
        );
    }
}

/// Two goldens that are the same would test one thing twice.
#[test]
fn golden_pairs_differ_in_their_code() {
    let texts: Vec<(&str, String)> = PAIRS
        .iter()
        .map(|pair| (pair.name, pair.compile().1.ptx.to_string()))
        .collect();
    for (i, (name, text)) in texts.iter().enumerate() {
        for (other, same) in &texts[..i] {
            assert_ne!(text, same, "{name} and {other}");
        }
    }
}

/// Source lines are the kernel's, without a path of this machine, and change no machine code.
#[test]
fn golden_code_does_not_depend_on_source_lines() {
    let tools = tools_or_skip("golden_code_does_not_depend_on_source_lines").expect("usable tools");
    for pair in PAIRS.iter().step_by(5) {
        let text = pair.compile().1.ptx.to_string();
        let files: Vec<&str> = text.lines().filter(|l| l.starts_with(".file")).collect();
        assert!(
            files.len() == 1 && files[0].starts_with(".file 1 \"kernels-rs/src/"),
            "{}: {files:?}",
            pair.name
        );
        let Some(tools) = &tools else { continue };
        let code = |ptx: &str| {
            let assembled = tools
                .assemble(&AssembleRequest::new(ptx, SM_90A.name))
                .expect("assembles");
            let sass = tools.disassemble(&assembled.cubin, std::time::Duration::from_secs(60));
            sass.expect("disassembles").functions.remove(0).instructions
        };
        let bare = |code: &[tools::Instruction]| -> Vec<_> {
            let text = |i: &tools::Instruction| (i.predicate.clone(), i.opcode.clone(), i.operands.clone());
            code.iter().map(text).collect()
        };
        let located = code(&text);
        let without: Vec<&str> = text.lines().filter(|l| !l.starts_with("  .loc")).collect();
        assert_eq!(bare(&located), bare(&code(&without.join("\n"))), "{}", pair.name);
        let tensor_core = located.iter().filter(|i| i.base() == "HGMMA");
        assert!(tensor_core.clone().all(|i| i.source.is_some()), "{}", pair.name);
    }
}

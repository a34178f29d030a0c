//! Any legal schedule gives the same result: random schedules of the shipped kernels, simulated and compared.
//!
//! `WARPWRIGHT_RANDOM_SCHEDULES` sets how many legal schedules each kernel gets (default 10); CI keeps it small.

use dsl::schedule::Schedule;
use dsl::{DType, Kernel};
use kernels::{attention, gemm, row_softmax};

use crate::harness::Case;

/// A small generator of choices, the same on every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.roll(from.len())]
    }
}

fn wanted() -> usize {
    std::env::var("WARPWRIGHT_RANDOM_SCHEDULES")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(10)
}

/// Draws schedules until enough are legal; every refusal must say why.
fn every_legal_schedule(label: &str, kernel: &Kernel, draw: impl Fn(&mut Dice) -> String, run: impl Fn(Case, usize)) {
    let (mut dice, mut legal, mut refused) = (Dice(0x5eed), 0, 0);
    while legal < wanted() {
        let text = draw(&mut dice);
        let schedule: Schedule =
            dsl::schedule::text::parse_for(&text, kernel).unwrap_or_else(|e| panic!("{e}\n{text}"));
        match Case::legal(kernel, &schedule) {
            Ok(case) => {
                legal += 1;
                println!("{label} {legal}: {}", text.replace('\n', " "));
                run(case, legal);
            }
            Err(e) => {
                refused += 1;
                assert!(e.to_string().contains("allowed"), "{e}");
            }
        }
        assert!(
            refused < 40 * wanted(),
            "{label}: {refused} schedules refused, {legal} legal"
        );
    }
    println!("{label}: {legal} legal schedules agree, {refused} refused");
}

fn attention_schedule(d: &mut Dice) -> String {
    let mut s = format!(
        "[tiles]\nq_tile = {}\nkv_tile = {}\n",
        d.pick(&["64", "128", "192"]),
        d.pick(&["32", "48", "64", "80", "128"])
    );
    s += &format!("[grid]\npersistence = \"{}\"\n", d.pick(&["none", "static", "dynamic"]));
    s += d.pick(&[
        "",
        "descending = [\"q_block\"]\n",
        "inner = \"head\"\n",
        "section = 2\n",
        "section = 3\ndescending = [\"q_block\", \"head\"]\n",
    ]);
    s += &format!("[roles]\nproducer_warps = {}\n", 1 + d.roll(4));
    let ring = d.pick(&["", "ring = \"kv\"\n"]);
    let stages = 1 + d.roll(4);
    for load in ["k", "v"] {
        let own = if ring.is_empty() { 1 + d.roll(3) } else { stages };
        s += &format!(
            "[loads.{load}]\nstages = {own}\n{ring}release = \"{}\"\ncache = \"{}\"\n",
            d.pick(&["early", "late"]),
            d.pick(&["normal", "evict-last"])
        );
    }
    s += &format!(
        "[loads.q]\nstages = {}\nrelease = \"{}\"\n",
        1 + d.roll(2),
        d.pick(&["early", "late"])
    );
    s += d.pick(&[
        "",
        "",
        "[operands]\nq = \"registers\"\n",
        "[operands]\np16 = \"shared\"\n",
    ]);
    s += &format!(
        "[folds.kv]\nrescale = \"{}\"\ndirection = \"{}\"\n",
        d.pick(&["exact", "lazy", "fixed"]),
        d.pick(&["ascending", "descending"])
    );
    s += &format!(
        "split = \"{}\"\nhandoff = \"{}\"\n",
        d.pick(&["never", "by-mask"]),
        d.pick(&["free", "ping-pong"])
    );
    s += &format!(
        "unroll = {}\nexp2_polynomial_every = {}\npeel = {}\nnarrow = {}\n",
        1 + d.roll(2),
        d.pick(&["0", "0", "2", "7"]),
        d.pick(&["true", "false"]),
        d.pick(&["true", "false"])
    );
    s += d.pick(&[
        "",
        "order = [\"issue s\", \"wait s\", \"issue o\"]\n",
        "stages = { o = 1 }\norder = [\"issue s\", \"issue o\", \"wait s\"]\n",
        "stages = { o = 1 }\norder = [\"issue o\", \"issue s\", \"wait o\"]\n",
        "stages = { o = 1, \"acc.rescale\" = 1 }\norder = [\"issue s\", \"acc.rescale\", \"issue o\"]\n",
    ]);
    s + &format!("[stores.o]\nbuffer = \"{}\"\n", d.pick(&["own", "q", "v"]))
}

fn attention_agrees(causal: bool) {
    let kernel = attention::forward(attention::Spec {
        dtype: DType::Bf16,
        head_dim: 64,
        causal,
    })
    .unwrap();
    let label = if causal { "attention causal" } else { "attention full" };
    every_legal_schedule(label, &kernel, attention_schedule, |case, number| {
        // Every other case has logits that leave the safe range of a fixed reference.
        let (q, kv) = (150, 210);
        let sizes = [
            ("batch", 1),
            ("q_len", q),
            ("kv_len", kv),
            ("heads", 4),
            ("kv_heads", 2),
            ("group", 2),
        ];
        let mut case = sizes.iter().fold(case, |c, (n, v)| c.runtime(n, *v as i64));
        case = case
            .scalar("scale_log2", 0.18)
            .input("q", &[1, q, 4, 64], if number % 2 == 0 { 1.0 } else { 40.0 });
        case = case.input("k", &[1, kv, 2, 64], 1.0).input("v", &[1, kv, 2, 64], 1.0);
        case.output("o", &[1, q, 4, 64])
            .output("lse", &[1, 4, q])
            .check_seeds(label, 6e-3, 1);
    });
}

#[test]
fn attention_full() {
    attention_agrees(false);
}

#[test]
fn attention_causal() {
    attention_agrees(true);
}

#[test]
fn gemm_in_every_layout() {
    for (a_transposed, b_transposed) in [(false, false), (false, true), (true, false), (true, true)] {
        let kernel = gemm::gemm(gemm::Spec {
            dtype: DType::Bf16,
            a_transposed,
            b_transposed,
        })
        .unwrap();
        let draw = |d: &mut Dice| {
            let mut s = format!(
                "[tiles]\nm_tile = {}\nn_tile = {}\nk_tile = {}\n",
                d.pick(&["64", "128", "192", "256"]),
                d.pick(&["64", "128", "256"]),
                d.pick(&["64", "128"])
            );
            s += &format!("[grid]\npersistence = \"{}\"\n", d.pick(&["none", "static", "dynamic"]));
            s += d.pick(&["", "inner = \"n_block\"\n", "section = 2\n"]);
            let stages = 1 + d.roll(4);
            let ring = d.pick(&["", "ring = \"ab\"\n"]);
            s += &format!("[loads.a]\nstages = {stages}\n{ring}[loads.b]\nstages = {stages}\n{ring}");
            s + &format!(
                "[folds.k]\nunroll = {}\nhandoff = \"{}\"\n",
                1 + d.roll(3),
                d.pick(&["free", "ping-pong"])
            )
        };
        every_legal_schedule("gemm", &kernel, draw, |case, _| {
            let (m, n, k) = (144, 136, 200);
            let stored = |t: bool, r: usize, c: usize| if t { [c, r] } else { [r, c] };
            let case = case
                .runtime("m", m as i64)
                .runtime("n", n as i64)
                .runtime("k", k as i64);
            let case = case
                .input("a", &stored(a_transposed, m, k), 1.0)
                .input("b", &stored(b_transposed, k, n), 1.0);
            case.output("c", &[m, n]).check_seeds("gemm", 4e-3, 1);
        });
    }
}

#[test]
fn row_softmax_in_two_folds() {
    let kernel = row_softmax::row_softmax(DType::Bf16).unwrap();
    let draw = |d: &mut Dice| {
        let mut s = format!(
            "[tiles]\nm_tile = {}\nn_tile = {}\n",
            d.pick(&["64", "128"]),
            d.pick(&["64", "128"])
        );
        s += &format!("[grid]\npersistence = \"{}\"\n", d.pick(&["none", "static", "dynamic"]));
        s += &format!(
            "[folds.sum]\nrescale = \"{}\"\nsplit = \"{}\"\n",
            d.pick(&["exact", "lazy"]),
            d.pick(&["never", "by-mask"])
        );
        s + &format!(
            "[loads.x_sum]\nstages = {}\n[loads.x_write]\nstages = {}\n",
            1 + d.roll(3),
            1 + d.roll(3)
        )
    };
    every_legal_schedule("row_softmax", &kernel, draw, |case, _| {
        let case = case.runtime("m", 150).runtime("n", 264).input("x", &[150, 264], 3.0);
        case.output("y", &[150, 264]).check_seeds("row_softmax", 4e-3, 1);
    });
}

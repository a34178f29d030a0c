//! Random schedules, as TOML text. A draw may be illegal: then the compiler must say why, and the caller draws again.

use serde::{Deserialize, Serialize};

/// A small generator of choices, the same on every run.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice for one seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `sides`.
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides.max(1)
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        let index = self.roll(from.len());
        from.get(index).copied().unwrap_or_default()
    }
}

/// A shipped kernel that schedules are drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drawn {
    Attention,
    Gemm,
    RowSoftmax,
}

impl Drawn {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Attention, Self::Gemm, Self::RowSoftmax];

    /// A schedule, legal or not.
    #[must_use]
    pub fn draw(self, dice: &mut Dice) -> String {
        match self {
            Self::Attention => attention(dice),
            Self::Gemm => gemm(dice),
            Self::RowSoftmax => row_softmax(dice),
        }
    }
}

/// A schedule of the forward kernel, legal or not.
#[must_use]
pub fn attention(d: &mut Dice) -> String {
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
        "stages = { o = 1, \"acc.rescale\" = 1 }\n",
        "stages = { p = 1 }\n",
        "stages = { p16 = 1 }\n",
        "stages = { s = 1 }\n",
        "stages = { o = 0 }\n",
    ]);
    s + &format!("[stores.o]\nbuffer = \"{}\"\n", d.pick(&["own", "q", "v"]))
}

/// A schedule of the product, legal or not.
#[must_use]
pub fn gemm(d: &mut Dice) -> String {
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
    for load in ["a", "b"] {
        let release = d.pick(&["", "release = \"late\"\n"]);
        s += &format!("[loads.{load}]\nstages = {stages}\n{ring}{release}");
    }
    s += d.pick(&[
        "",
        "[roles]\nconsumers = 1\n",
        "[roles]\nconsumers = 2\nproducer_warps = 2\n",
    ]);
    s += &format!(
        "[folds.k]\nunroll = {}\nhandoff = \"{}\"\npeel = {}\n",
        1 + d.roll(3),
        d.pick(&["free", "ping-pong"]),
        d.pick(&["true", "false"])
    );
    s += d.pick(&[
        "",
        "stages = { ab = 1 }\n",
        "stages = { ab = 0 }\norder = [\"issue ab\"]\n",
    ]);
    s + &format!("[stores.c]\nbuffer = \"{}\"\n", d.pick(&["own", "own", "a", "b"]))
}

/// A schedule of the row softmax, legal or not.
#[must_use]
pub fn row_softmax(d: &mut Dice) -> String {
    let mut s = format!(
        "[tiles]\nm_tile = {}\nn_tile = {}\n",
        d.pick(&["64", "128"]),
        d.pick(&["64", "128"])
    );
    s += &format!("[grid]\npersistence = \"{}\"\n", d.pick(&["none", "static", "dynamic"]));
    s += &format!(
        "[folds.sum]\nrescale = \"{}\"\nsplit = \"{}\"\n",
        d.pick(&["exact", "lazy", "fixed"]),
        d.pick(&["never", "by-mask"])
    );
    s += &format!(
        "exp2_polynomial_every = {}\nunroll = {}\n",
        d.pick(&["0", "3"]),
        1 + d.roll(2)
    );
    s += &format!("[folds.write]\nunroll = {}\n", 1 + d.roll(2));
    let ring = d.pick(&["", "ring = \"x\"\n"]);
    let stages = 1 + d.roll(3);
    for load in ["x_sum", "x_write"] {
        let own = if ring.is_empty() { 1 + d.roll(3) } else { stages };
        let release = d.pick(&["", "release = \"late\"\n"]);
        s += &format!("[loads.{load}]\nstages = {own}\n{ring}{release}");
    }
    s + &format!("[stores.y]\nbuffer = \"{}\"\n", d.pick(&["own", "own", "x_write"]))
}

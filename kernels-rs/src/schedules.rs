//! The schedules this crate ships: the best known one for each kernel and class of problem, as TOML text.
//!
//! A class is what the compiled code depends on (kernel, head size, mask), not the runtime sizes. The files are in
//! `schedules/`; a new one needs a file and a line in [`TABLE`].

/// What a shipped schedule is chosen by. Fields that a kernel does not have are `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Attention: elements of a head.
    pub head_dim: Option<u32>,
    /// Attention: whether the mask is causal.
    pub causal: Option<bool>,
}

/// One shipped schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shipped {
    /// File name without its ending.
    pub name: &'static str,
    /// The kernel's name.
    pub kernel: &'static str,
    /// The class it is for.
    pub key: Key,
    /// The shortest query length it is the best known for; 0 for any.
    pub from_q_len: u64,
    /// The schedule as TOML.
    pub text: &'static str,
}

const fn attention(name: &'static str, head_dim: u32, causal: bool, text: &'static str) -> Shipped {
    let key = Key {
        head_dim: Some(head_dim),
        causal: Some(causal),
    };
    Shipped {
        name,
        kernel: "attention_forward",
        key,
        from_q_len: 0,
        text,
    }
}

const fn plain(name: &'static str, text: &'static str) -> Shipped {
    let key = Key {
        head_dim: None,
        causal: None,
    };
    Shipped {
        name,
        kernel: name,
        key,
        from_q_len: 0,
        text,
    }
}

/// As `attention`, for long sequences.
const fn long(from_q_len: u64, shipped: Shipped) -> Shipped {
    Shipped { from_q_len, ..shipped }
}

/// Every shipped schedule.
pub const TABLE: &[Shipped] = &[
    attention(
        "attention_d64_full",
        64,
        false,
        include_str!("../schedules/attention_d64_full.toml"),
    ),
    attention(
        "attention_d64_causal",
        64,
        true,
        include_str!("../schedules/attention_d64_causal.toml"),
    ),
    attention(
        "attention_d128_full",
        128,
        false,
        include_str!("../schedules/attention_d128_full.toml"),
    ),
    attention(
        "attention_d128_causal",
        128,
        true,
        include_str!("../schedules/attention_d128_causal.toml"),
    ),
    long(
        8192,
        attention(
            "attention_d128_causal_long",
            128,
            true,
            include_str!("../schedules/attention_d128_causal_long.toml"),
        ),
    ),
    attention(
        "attention_d256_full",
        256,
        false,
        include_str!("../schedules/attention_d256_full.toml"),
    ),
    attention(
        "attention_d256_causal",
        256,
        true,
        include_str!("../schedules/attention_d256_causal.toml"),
    ),
    plain("gemm", include_str!("../schedules/gemm.toml")),
    plain("row_softmax", include_str!("../schedules/row_softmax.toml")),
];

/// The schedule shipped for a kernel, class and query length (0 where there is none): the one for the longest
/// sequences that are not longer.
#[must_use]
pub fn shipped(kernel: &str, key: Key, q_len: u64) -> Option<&'static Shipped> {
    let fits = |entry: &&Shipped| entry.kernel == kernel && entry.key == key && entry.from_q_len <= q_len;
    TABLE.iter().filter(fits).max_by_key(|entry| entry.from_q_len)
}

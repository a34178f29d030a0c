//! The parameters of the time model: one table, each entry with its unit and where its value comes from.
//!
//! Sources: `CUDA guide` is the throughput table of the programming guide for compute capability 9.0; `whitepaper` the H100
//! architecture paper; `H200 records` the dated files under `benches/results`; `fit` a value chosen so that predictions
//! agree with such records; `assumed` a value nothing here has measured yet, with the
//! micro-benchmark (`measure_cycles --micro`, an example of `runner`) that would, where there is one.

/// One row of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct ParamRow {
    /// Name of the field.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Unit of the value.
    pub unit: &'static str,
    /// Where the value comes from.
    pub source: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

macro_rules! params {
    ($(#[$doc:meta])* $table:ident: $($name:ident = $value:expr, $unit:literal, $source:literal, $meaning:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $table {
            $(#[doc = $meaning] pub $name: f64,)*
        }

        impl Default for $table {
            fn default() -> Self {
                Self { $($name: $value,)* }
            }
        }

        impl $table {
            /// Every parameter with its unit and source.
            pub fn table(&self) -> Vec<ParamRow> {
                vec![$(ParamRow {
                    name: stringify!($name),
                    value: self.$name,
                    unit: $unit,
                    source: $source,
                    meaning: $meaning,
                },)*]
            }

            /// Sets one parameter by name; false when there is none of this name.
            pub fn set(&mut self, name: &str, value: f64) -> bool {
                match name {
                    $(stringify!($name) => self.$name = value,)*
                    _ => return false,
                }
                true
            }
        }
    };
}

params! {
    /// Times and rates; [`Params::table`] gives them with units and sources.
    Params:
    fma_cycles = 1.0, "cycles / warp instruction / sub-partition", "CUDA guide: 128 lanes/clk/SM", "f32 add, multiply, fused multiply-add";
    alu_cycles = 2.0, "cycles / warp instruction / sub-partition", "CUDA guide: 64 lanes/clk/SM", "f32 compare, min, max, select, pack of two 16-bit floats";
    int_cycles = 1.0, "cycles / warp instruction / sub-partition", "assumed; micro: uniform_chain", "integer work on addresses and counters, most of it on the uniform datapath";
    mufu_cycles = 8.0, "cycles / warp instruction / sub-partition", "CUDA guide: 16 lanes/clk/SM", "ex2, lg2, rcp and the like";
    mma_sync_cycles = 16.0, "cycles / warp instruction / sub-partition", "whitepaper: m16n8k16 at half of the wgmma rate", "mma.sync m16n8k16";
    arithmetic_latency = 5.0, "cycles", "assumed; micro: fma_chain", "dependent use of an arithmetic result";
    mufu_latency = 20.0, "cycles", "assumed; micro: ex2_chain", "dependent use of a MUFU result";
    shuffle_latency = 24.0, "cycles", "assumed; micro: shuffle_chain", "dependent use of a shuffle or of a load from shared memory";
    global_latency = 700.0, "cycles", "assumed", "dependent use of a load or atomic on global memory";
    constant_latency = 12.0, "cycles", "assumed", "dependent use of a parameter or special register";
    reorder_window = 24.0, "instructions", "assumed: what the assembler interleaves of straight-line code", "how far arithmetic may start ahead of an older stalled instruction of its warp";
    smem_bytes_per_cycle = 128.0, "bytes / cycle / SM", "whitepaper: 32 banks of 4 bytes", "shared-memory port";
    smem_copy_queue = 65536.0, "bytes", "assumed", "bytes of copies that may wait for the shared-memory port before they hold up products";
    wgmma_n_per_cycle = 1.8, "columns of N / cycle", "fit: H200 records of 2026-11-30, in which every product-bound kernel uses 0.87 to 0.90 of the whitepaper's 2.0", "columns that m64nNk16 multiplies in a cycle";
    wgmma_smem_lead = 32.0, "cycles", "assumed; micro: wgmma_ss_n64", "how far operand reads of a wgmma run ahead of its arithmetic";
    wgmma_start_latency = 12.0, "cycles", "assumed", "from the issue by the fourth warp to the start on the tensor core";
    wgmma_done_latency = 24.0, "cycles", "assumed", "from the last multiplication to wait_group letting the warps go";
    wgmma_round_robin = 1.0, "0 or 1", "fit: with 0, exact, lazy and fixed rescaling at 128x128 would not differ, and they do (docs/simulator.md, anchors)", "1: warpgroups alternate on the tensor core instruction by instruction; 0: in order of issue";
    tma_issue_cycles = 16.0, "cycles / box", "assumed", "set-up of one box by the copy engine";
    tma_latency = 650.0, "cycles", "assumed", "from issue to arrival of a box that is in L2";
    l2_bytes_per_cycle = 48.0, "bytes / cycle / SM", "assumed", "what one SM reads from L2 while all SMs do";
    store_read_latency = 300.0, "cycles", "assumed", "from issue of a bulk store until its shared memory may be written again, beside its bytes";
    barrier_latency = 22.0, "cycles", "assumed; micro: bar_pair", "from the last arrival at a named barrier to the first instruction behind it";
    mbarrier_latency = 24.0, "cycles", "assumed", "from completion of a phase to the first instruction behind try_wait";
    try_wait_timeout = 20000.0, "cycles", "assumed", "after which a suspended try_wait gives up";
    setmaxnreg_latency = 40.0, "cycles", "assumed", "waiting for registers of the pool";
    exit_latency = 600.0, "cycles", "assumed", "from the last instruction of a CTA to the first of the next one on its SM";
    launch_cycles = 4000.0, "cycles / launch", "assumed", "start and end of a launch, as a stream of launches sees it";
}

params! {
    /// Energy and clock; [`Power::table`] gives them with units and sources. Energies are at the highest clock.
    Power:
    static_w = 150.0, "W", "fit: clock of 12 kernels in the H200 records of 2026-11-30", "what the card draws whatever it does";
    limit_w = 691.0, "W", "H200 records of 2026-11-30: 688 to 693 W of 700", "what it may draw";
    max_mhz = 1980.0, "MHz", "H200 records of 2026-11-30", "highest clock";
    min_mhz = 1000.0, "MHz", "assumed", "lowest clock that the search looks at";
    low_voltage = 0.75, "share", "fit: as static_w", "voltage at the lowest clock, as a share of that at the highest";
    flop_pj = 0.506, "pJ / FLOP", "fit: as static_w", "products of wgmma";
    mufu_nj = 0.0593, "nJ / cycle of a MUFU", "fit: as static_w", "MUFU";
    issue_nj = 0.475, "nJ / warp instruction", "fit: as static_w", "issue, registers and arithmetic pipes";
    smem_pj = 1.2, "pJ / byte", "fit: as static_w", "shared memory";
    l2_pj = 38.8, "pJ / byte", "fit: as static_w", "L2 and what lies behind it";
}

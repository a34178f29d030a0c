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
    int_cycles = 2.0, "cycles / warp instruction / sub-partition", "CUDA guide: 64 lanes/clk/SM; micro: shl_rate", "integer work on addresses and counters, most of it on the uniform datapath";
    alu_on_fma = 0.5, "cycles / warp instruction / sub-partition", "fit: the H200 records of 2026-12-01 (docs/simulator.md); micro: fma_max_x1 to x3 say 0.2 to 0.7", "how long an ALU instruction keeps the FMA pipe";
    serial_beside_wgmma = 1.4, "share", "fit: the H200 records of 2026-12-01 (docs/simulator.md); micro: wgmma_beside_fma_fma_fma_ex2_x1 says 1.2", "while the tensor core runs, a warp's own instructions follow one another at this share of the cycles of their units; other warps' may overlap";
    fma_delays_wgmma = 0.45, "cycles / warp instruction / sub-partition", "fit: the H200 records of 2026-12-01 (docs/simulator.md); micro: wgmma_beside_fma and its like say 0.1 to 1.2", "by how much an FMA beside a running product delays the tensor core";
    mufu_cycles = 8.0, "cycles / warp instruction / sub-partition", "CUDA guide: 16 lanes/clk/SM", "ex2, lg2, rcp and the like";
    mma_sync_cycles = 16.0, "cycles / warp instruction / sub-partition", "whitepaper: m16n8k16 at half of the wgmma rate", "mma.sync m16n8k16";
    arithmetic_latency = 4.0, "cycles", "H200 records, micro: fma_chain", "dependent use of an arithmetic result";
    mufu_latency = 17.0, "cycles", "H200 records, micro: ex2_chain", "dependent use of a MUFU result";
    shuffle_latency = 24.0, "cycles", "H200 records, micro: shuffle_chain", "dependent use of a shuffle or of a load from shared memory";
    global_latency = 700.0, "cycles", "assumed", "dependent use of a load or atomic on global memory";
    constant_latency = 12.0, "cycles", "assumed", "dependent use of a parameter or special register";
    reorder_window = 12.0, "instructions", "fit: the H200 records of 2026-12-01 (docs/simulator.md)", "how far arithmetic may start ahead of an older stalled instruction of its warp";
    smem_bytes_per_cycle = 128.0, "bytes / cycle / SM", "whitepaper: 32 banks of 4 bytes", "shared-memory port";
    smem_copy_queue = 65536.0, "bytes", "assumed", "bytes of copies that may wait for the shared-memory port before they hold up products";
    wgmma_n_per_cycle = 2.0, "columns of N / cycle", "whitepaper; micro: wgmma_ss_n176", "columns that m64nNk16 multiplies in a cycle";
    wgmma_gap = 1.0, "cycles", "H200 records, micro: wgmma_ss_n64, wgmma_ss_n176", "between two products";
    wgmma_smem_lead = 32.0, "cycles", "assumed; micro: wgmma_ss_n64", "how far operand reads of a wgmma run ahead of its arithmetic";
    wgmma_start_latency = 24.0, "cycles", "fit: the H200 records of 2026-12-01 (docs/simulator.md)", "from the issue by the fourth warp to the start on the tensor core";
    wgmma_done_latency = 30.0, "cycles", "fit: the H200 records of 2026-12-01 (docs/simulator.md); micro: wgmma_wait_n64 says 42 for start and end together", "from the last multiplication to wait_group letting the warps go";
    wgmma_round_robin = 0.0, "0 or 1", "fit: the H200 records of 2026-12-01 (docs/simulator.md); micro: turns_long_short says 1, of streams that are queued at once", "1: warpgroups alternate on the tensor core instruction by instruction; 0: in order of issue";
    tma_issue_cycles = 16.0, "cycles / box", "assumed", "set-up of one box by the copy engine";
    tma_latency = 390.0, "cycles", "H200 records, micro: bulk_1024", "from issue to arrival of a box that is in L2";
    l2_bytes_per_cycle = 45.0, "bytes / cycle / SM", "fit: the H200 records of 2026-12-01 (docs/simulator.md); micro: bulk_65536_all says 39, bulk_16384_all more", "what one SM reads from L2 while all SMs do";
    store_read_latency = 300.0, "cycles", "assumed", "from issue of a bulk store until its shared memory may be written again, beside its bytes";
    barrier_latency = 27.0, "cycles", "H200 records, micro: bar_pair", "from the last arrival at a named barrier to the first instruction behind it";
    mbarrier_latency = 48.0, "cycles", "fit: the H200 records of 2026-12-01 (docs/simulator.md)", "from completion of a phase to the first instruction behind try_wait";
    try_wait_latency = 38.0, "cycles", "H200 records, micro: try_wait", "from a try_wait that need not wait to the first use of its predicate";
    try_wait_timeout = 20000.0, "cycles", "assumed", "after which a suspended try_wait gives up";
    setmaxnreg_latency = 40.0, "cycles", "assumed", "waiting for registers of the pool";
    exit_latency = 600.0, "cycles", "assumed", "from the last instruction of a CTA to the first of the next one on its SM";
    launch_cycles = 4000.0, "cycles / launch", "assumed", "start and end of a launch, as a stream of launches sees it";
}

params! {
    /// Energy and clock; [`Power::table`] gives them with units and sources. Energies are at the highest clock.
    Power:
    static_w = 190.6, "W", "fit: sustained times in the H200 records of 2026-12-01, clocks of benches/results/README.md", "what the card draws whatever it does";
    limit_w = 691.0, "W", "H200 records of 2026-11-30: 688 to 693 W of 700", "what it may draw";
    max_mhz = 1840.0, "MHz", "H200 records of 2026-12-01: most cycles of clock64 per microsecond; the monitor says 1980", "highest clock";
    min_mhz = 1000.0, "MHz", "assumed", "lowest clock that the search looks at";
    low_voltage = 0.838, "share", "fit: as static_w", "voltage at the lowest clock, as a share of that at the highest";
    flop_pj = 0.39, "pJ / FLOP", "fit: as static_w", "products of wgmma";
    mufu_nj = 0.03, "nJ / cycle of a MUFU", "fit: as static_w", "MUFU";
    issue_nj = 0.523, "nJ / warp instruction", "fit: as static_w", "issue, registers and arithmetic pipes";
    smem_pj = 1.99, "pJ / byte", "fit: as static_w", "shared memory";
    l2_pj = 32.5, "pJ / byte", "fit: as static_w", "L2 and what lies behind it";
}

//! Small kernels: text around a body, one buffer in, one out.

use warpwright_sim::{Arg, Device, DeviceConfig, Fault, Finding, LaunchConfig, LaunchReport, Module};

/// Registers that every body may use; `%in` and `%out` hold the buffers' addresses.
const REGISTERS: &str = ".reg .b32 %r<64>; .reg .b64 %d<32>; .reg .pred %p<16>; .reg .f32 %f<160>; .reg .b16 %h<8>; \
     .reg .f64 %g<8>; .reg .b64 %in, %out; .reg .b32 %lane, %smem;";

/// A whole module around `body`.
pub fn module(body: &str) -> String {
    format!(
        ".version 8.7\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 smem[];\n\
         .visible .entry k(.param .u64 in, .param .u64 out) .maxntid 1024,1,1 .minnctapersm 1 {{\n{REGISTERS}\n\
         ld.param.u64 %in,[in]; ld.param.u64 %out,[out]; mov.u32 %lane,%tid.x; mov.u32 %smem,smem;\n{body}\nret;\n}}"
    )
}

/// What a run left.
pub struct Outcome {
    pub result: Result<LaunchReport, Fault>,
    pub out: Vec<u8>,
}

impl Outcome {
    /// Output as 32-bit words; the run must be free of findings.
    pub fn words(self) -> Vec<u32> {
        let report = self.result.unwrap_or_else(|fault| panic!("{fault}"));
        let findings: Vec<String> = report.findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{findings:#?}");
        self.out
            .chunks(4)
            .map(|c| u32::from_le_bytes(c.try_into().unwrap()))
            .collect()
    }

    /// Everything found, the stopping one first.
    pub fn findings(&self) -> Vec<Finding> {
        match &self.result {
            Ok(report) => report.findings.clone(),
            Err(fault) => fault.all().into_iter().cloned().collect(),
        }
    }
}

/// How to run a body.
#[derive(Clone, Copy)]
pub struct Run {
    pub grid: u32,
    pub threads: u32,
    pub cluster: u32,
    pub smem_bytes: u32,
    pub seed: u64,
}

impl Default for Run {
    fn default() -> Self {
        Self {
            grid: 1,
            threads: 32,
            cluster: 1,
            smem_bytes: 65_536,
            seed: 0,
        }
    }
}

impl Run {
    /// Runs `body` over `input`, with `out_bytes` of output.
    pub fn body(self, body: &str, input: &[u8], out_bytes: usize) -> Outcome {
        self.text(&module(body), input, out_bytes, |_, _, _| Vec::new())
    }

    /// Runs a module whose entry `k` takes `in`, `out` and then what `extra` makes.
    pub fn text(
        self,
        text: &str,
        input: &[u8],
        out_bytes: usize,
        extra: impl Fn(&mut Device, u64, u64) -> Vec<Arg>,
    ) -> Outcome {
        let module = Module::parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let mut device = Device::new(DeviceConfig {
            seed: self.seed,
            sm_count: 8,
            instruction_budget: 2_000_000,
            ..DeviceConfig::default()
        });
        let input = device.upload(input);
        let out = device.alloc(out_bytes);
        let mut args = vec![Arg::Buffer(input), Arg::Buffer(out)];
        args.extend(extra(&mut device, input.address, out.address));
        let config = LaunchConfig {
            grid: [self.grid, 1, 1],
            block: [self.threads, 1, 1],
            cluster: [self.cluster, 1, 1],
            dynamic_smem_bytes: self.smem_bytes,
        };
        let result = device.launch(&module, "k", config, &args);
        Outcome {
            result,
            out: device.read(out).unwrap(),
        }
    }
}

/// Stores `%r0` of each thread to word `tid` of the output.
pub const STORE: &str = "mul.wide.u32 %d30,%lane,4; add.u64 %d30,%out,%d30; st.global.u32 [%d30],%r0;";
/// Loads word `tid` of the input into `%r1`.
pub const LOAD: &str = "mul.wide.u32 %d31,%lane,4; add.u64 %d31,%in,%d31; ld.global.u32 %r1,[%d31];";

/// Runs `body` between [`LOAD`] and [`STORE`] on one warp.
pub fn map(input: &[u32], body: &str) -> Vec<u32> {
    let bytes: Vec<u8> = input.iter().flat_map(|w| w.to_le_bytes()).collect();
    let threads = input.len() as u32;
    Run {
        threads,
        ..Run::default()
    }
    .body(&format!("{LOAD}\n{body}\n{STORE}"), &bytes, input.len() * 4)
    .words()
}

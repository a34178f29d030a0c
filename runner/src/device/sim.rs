//! The simulator as a device: right or wrong, never fast or slow.
//!
//! A launch runs at once, with the next seed of the interleaving, so several launches of a verification see several
//! interleavings. Every finding is a failure, also where the values came out right.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use ::sim::time::TimeOptions;
use ::sim::time::report::TimeReport;
use ::sim::{
    ARows, Arg as SimArg, Buffer, DeviceConfig, ElemType, Fault, Finding, FindingKind, LaunchConfig, MemoryError,
    Module, TensorMapSpec as SimMapSpec,
};
use codegen::launch::{LaunchFacts, Param};
use codegen::target::{SM_90A, Target};
use driver::{LaunchSpec, Swizzle, TensorDtype, TensorMapSpec};

use super::{Device, DeviceError, DeviceFacts, FaultClass, Image};
use crate::launch::Arg;

/// Findings shown in a message.
const MOST_SHOWN: usize = 8;

/// How to simulate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimOptions {
    /// SMs: fewer make persistent kernels take more turns.
    pub multiprocessors: u32,
    /// Seed of the first launch.
    pub seed: u64,
    /// Warp instructions after which a launch counts as a hang.
    pub instruction_budget: u64,
    /// The target whose code runs; the name and capability that the device reports.
    pub target: &'static Target,
    /// Read the ISA strictly: all four warps of a warpgroup read all rows of A. Hardware is kinder.
    pub strict_a_rows: bool,
}

impl Default for SimOptions {
    fn default() -> Self {
        Self {
            multiprocessors: 4,
            seed: 0,
            instruction_budget: 200_000_000,
            target: &SM_90A,
            strict_a_rows: false,
        }
    }
}

/// Major and minor number of a target's name: `sm_90a` is (9, 0).
fn capability(target: &Target) -> (u32, u32) {
    let digits: String = target.name.chars().filter(char::is_ascii_digit).collect();
    let number: u32 = digits.parse().unwrap_or(0);
    (number / 10, number % 10)
}

/// A simulated GPU. Memory is freed with the device.
pub struct SimDevice {
    device: RefCell<::sim::Device>,
    next_seed: Cell<u64>,
    facts: DeviceFacts,
}

/// A parsed kernel.
pub struct SimKernel {
    module: Arc<Module>,
    entry: String,
    /// By parameter: whether it is the place of a tensor that the kernel writes.
    outputs: Vec<bool>,
}

/// A kernel with its arguments.
pub struct SimBound {
    module: Arc<Module>,
    entry: String,
    config: LaunchConfig,
    args: Vec<SimArg>,
}

impl SimDevice {
    /// A device with empty memory.
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        let config = DeviceConfig {
            sm_count: options.multiprocessors.max(1),
            seed: options.seed,
            instruction_budget: options.instruction_budget,
            a_rows: if options.strict_a_rows {
                ARows::Warpgroup
            } else {
                ARows::OwnWarp
            },
            ..DeviceConfig::default()
        };
        Self {
            device: RefCell::new(::sim::Device::new(config)),
            next_seed: Cell::new(options.seed),
            facts: DeviceFacts {
                name: format!("warpwright simulator of {}", options.target.name),
                simulated: true,
                compute_capability: capability(options.target),
                multiprocessors: config.sm_count,
                l2_bytes: 0,
                driver_version: None,
                api_version: None,
                peak: None,
            },
        }
    }

    fn arg(&self, arg: &Arg) -> Result<SimArg, DeviceError> {
        Ok(match arg {
            Arg::TensorMap(spec) => self.map(spec)?,
            Arg::Address(address) | Arg::Scratch(address) => SimArg::U64(*address),
            Arg::Stride(elems) => SimArg::U64(elems.cast_unsigned()),
            Arg::Size(size) => SimArg::U32(size.cast_unsigned()),
            Arg::Scalar(value) => SimArg::F32(*value),
        })
    }

    fn map(&self, spec: &TensorMapSpec) -> Result<SimArg, DeviceError> {
        let map = SimMapSpec {
            elem: match spec.dtype {
                TensorDtype::Bf16 => ElemType::Bf16,
                TensorDtype::F16 => ElemType::F16,
                TensorDtype::F32 => ElemType::F32,
            },
            address: spec.base,
            dims: spec.dims_elems.clone(),
            strides_bytes: spec.strides_bytes.clone(),
            box_dims: spec.box_elems.clone(),
            swizzle: match spec.swizzle {
                Swizzle::None => ::sim::Swizzle::None,
                Swizzle::B32 => ::sim::Swizzle::B32,
                Swizzle::B64 => ::sim::Swizzle::B64,
                Swizzle::B128 => ::sim::Swizzle::B128,
            },
        };
        let made = self.device.borrow_mut().tensor_map(map);
        made.map_err(|error| DeviceError::new(FaultClass::Refused, error.to_string()))
    }
}

impl SimDevice {
    /// Runs one launch under the clock of the time model. The report is simulated: it is no time that a record may hold.
    ///
    /// # Errors
    /// A launch that does not end.
    pub fn time(&self, bound: &SimBound, options: &TimeOptions) -> Result<TimeReport, DeviceError> {
        let mut device = self.device.borrow_mut();
        let launch = (bound.config, bound.args.as_slice());
        let report = device.time(&bound.module, &bound.entry, launch, options);
        report.map_err(|fault| match fault {
            Fault::Launch { .. } => DeviceError::new(FaultClass::Refused, fault.to_string()),
            _ => of_findings(0, &fault.all()),
        })
    }
}

impl Device for SimDevice {
    type Buffer = Buffer;
    type Kernel = SimKernel;
    type Bound = SimBound;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn needs_cubin(&self) -> bool {
        false
    }

    fn load(&self, image: &Image<'_>, facts: &LaunchFacts) -> Result<SimKernel, DeviceError> {
        let module = Module::parse(image.ptx);
        let module = module.map_err(|error| DeviceError::new(FaultClass::Load, format!("the simulator: {error}")))?;
        if !module.entries().any(|entry| entry == facts.entry) {
            let message = format!("the PTX has no entry `{}`", facts.entry);
            return Err(DeviceError::new(FaultClass::Load, message));
        }
        Ok(SimKernel {
            module: Arc::new(module),
            entry: facts.entry.clone(),
            outputs: facts.params.iter().map(|param| is_output(param, facts)).collect(),
        })
    }

    fn alloc(&self, len_bytes: u64) -> Result<Buffer, DeviceError> {
        // Simulated memory is host memory; more than this is a mistake.
        const MOST_BYTES: u64 = 8 << 30;
        match usize::try_from(len_bytes) {
            Ok(bytes) if len_bytes <= MOST_BYTES => Ok(self.device.borrow_mut().alloc(bytes)),
            _ => {
                let message = format!("asked the simulator for {len_bytes} bytes; allowed: at most {MOST_BYTES}");
                Err(DeviceError::new(FaultClass::OutOfMemory, message))
            }
        }
    }

    fn address(&self, buffer: &Buffer) -> u64 {
        buffer.address
    }

    fn write(&self, buffer: &Buffer, bytes: &[u8]) -> Result<(), DeviceError> {
        if bytes.len() != buffer.bytes {
            let message = format!(
                "{} bytes for a buffer of {}; allowed: equal sizes",
                bytes.len(),
                buffer.bytes
            );
            return Err(DeviceError::new(FaultClass::Refused, message));
        }
        self.device.borrow_mut().write(*buffer, bytes).map_err(of_memory)
    }

    fn fill(&self, buffer: &Buffer, byte: u8) -> Result<(), DeviceError> {
        self.write(buffer, &vec![byte; buffer.bytes])
    }

    fn read(&self, buffer: &Buffer) -> Result<Vec<u8>, DeviceError> {
        self.device.borrow().read(*buffer).map_err(of_memory)
    }

    /// Nothing to look for: an access outside a buffer ends the launch.
    fn check_bounds(&self, _: &Buffer) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Tensors that the kernel writes become outputs of the device: a second store to an element is a finding.
    fn bind(&self, kernel: &SimKernel, spec: &LaunchSpec, args: &[Arg]) -> Result<SimBound, DeviceError> {
        for (arg, _) in args.iter().zip(&kernel.outputs).filter(|(_, output)| **output) {
            let (Arg::TensorMap(TensorMapSpec { base: address, .. }) | Arg::Address(address)) = arg else {
                continue;
            };
            self.device.borrow_mut().declare_output(*address).map_err(of_memory)?;
        }
        Ok(SimBound {
            module: Arc::clone(&kernel.module),
            entry: kernel.entry.clone(),
            config: LaunchConfig {
                grid: spec.grid,
                block: spec.block,
                cluster: spec.cluster.unwrap_or([1; 3]),
                dynamic_smem_bytes: spec.dynamic_shared_bytes,
            },
            args: args.iter().map(|arg| self.arg(arg)).collect::<Result<_, _>>()?,
        })
    }

    fn launch(&self, bound: &SimBound) -> Result<(), DeviceError> {
        let seed = self.next_seed.get();
        self.next_seed.set(seed.wrapping_add(1));
        let mut device = self.device.borrow_mut();
        device.config.seed = seed;
        match device.launch(&bound.module, &bound.entry, bound.config, &bound.args) {
            Ok(report) if report.findings.is_empty() => Ok(()),
            Ok(report) => Err(of_findings(seed, &report.findings.iter().collect::<Vec<_>>())),
            Err(fault @ Fault::Launch { .. }) => Err(DeviceError::new(FaultClass::Refused, fault.to_string())),
            Err(fault) => Err(of_findings(seed, &fault.all()).within(&bound.entry)),
        }
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
}

/// Whether a parameter is the place of a tensor that the kernel writes.
fn is_output(param: &Param, facts: &LaunchFacts) -> bool {
    let (Param::TensorMap { tensor, .. } | Param::Pointer { tensor, .. }) = param else {
        return false;
    };
    facts.tensors.iter().any(|t| t.written && t.name == *tensor)
}

fn of_memory(error: MemoryError) -> DeviceError {
    DeviceError::new(FaultClass::Other, error.to_string())
}

/// The class of the first finding, the text of the first few.
fn of_findings(seed: u64, findings: &[&Finding]) -> DeviceError {
    let class = findings
        .first()
        .map_or(FaultClass::Other, |finding| class_of(&finding.kind));
    let mut lines: Vec<String> = findings.iter().take(MOST_SHOWN).map(ToString::to_string).collect();
    if let Some(more) = findings.len().checked_sub(MOST_SHOWN).filter(|more| *more > 0) {
        lines.push(format!("and {more} more"));
    }
    let budget = findings.iter().any(|f| matches!(f.kind, FindingKind::Budget { .. }));
    if budget {
        lines.push(
            "a shape this large may just need more of them: take a smaller one, or raise --sim-instructions".to_owned(),
        );
    }
    DeviceError::new(class, format!("on the simulator, seed {seed}: {}", lines.join("\n  ")))
}

fn class_of(kind: &FindingKind) -> FaultClass {
    match kind {
        FindingKind::Deadlock { .. } | FindingKind::Budget { .. } => FaultClass::Hang,
        FindingKind::OutOfBounds { .. } => FaultClass::OutOfBounds,
        FindingKind::Race { .. }
        | FindingKind::RegisterInFlight { .. }
        | FindingKind::MissingWgmmaFence { .. }
        | FindingKind::MissingProxyFence { .. }
        | FindingKind::ReadBeforeArrival { .. }
        | FindingKind::OverwriteInUse { .. }
        | FindingKind::StagingReuse { .. }
        | FindingKind::MbarrierInitUnordered { .. }
        | FindingKind::MissedPhase { .. } => FaultClass::Race,
        _ => FaultClass::Fault,
    }
}

//! The CUDA driver as a device: one context, one stream.

use std::sync::Arc;
use std::time::{Duration, Instant};

use codegen::launch::LaunchFacts;
use driver::nvml::{self, Monitor, Sample};
use driver::{
    Context, DeviceBuffer, Driver, Event, Function, JitReport, KernelArg, LaunchSpec, Module, PackedArgs, Stream,
    TensorMap,
};
use oracle::flops::Machine;

use super::{Device, DeviceError, DeviceFacts, Image, LaunchTimes, Reading, Timing, queue};
use crate::launch::Arg;

/// Launches in flight at most. The driver's queue is longer, so that queueing never blocks on a hung kernel and every
/// wait has a deadline.
const MOST_IN_FLIGHT: usize = 256;

/// Dense 16-bit FLOPs of one Hopper SM per clock: 4 tensor cores of 512 multiply-adds (H100 whitepaper: 989.4 TFLOP/s
/// with 132 SMs at 1830 MHz).
const HOPPER_FLOPS_PER_SM_CLOCK: f64 = 4096.0;

/// A GPU.
pub struct CudaDevice {
    context: Context,
    stream: Arc<Stream>,
    facts: DeviceFacts,
    epoch: Instant,
}

/// A loaded kernel.
pub struct CudaKernel {
    function: Arc<Function>,
    jit: Option<JitReport>,
}

/// A kernel with packed arguments.
pub struct CudaBound {
    function: Arc<Function>,
    spec: LaunchSpec,
    args: PackedArgs,
    has_scratch: bool,
    /// Kept alive, so that no other stream gets its handle.
    stream: Arc<Stream>,
}

impl CudaBound {
    /// Queues one launch on a stream of the context: any stream for a kernel without scratch, else the one it was bound on.
    ///
    /// # Errors
    /// Another stream than the scratch's owner; the driver's refusal; a fault of earlier work.
    pub fn launch_on(&self, stream: &Stream) -> Result<(), DeviceError> {
        self.check_queue(stream)?;
        Ok(self.queue(stream)?)
    }

    /// Whether a launch on that stream leaves the scratch with one owner.
    ///
    /// # Errors
    /// [`FaultClass::Refused`].
    pub(super) fn check_queue(&self, stream: &Stream) -> Result<(), DeviceError> {
        queue::check(self.has_scratch, self.stream.raw(), stream.raw())
    }

    pub(super) fn queue(&self, stream: &Stream) -> Result<(), driver::DriverError> {
        self.function.launch(stream, &self.spec, &self.args)
    }

    /// The launch's shape.
    #[must_use]
    pub const fn spec(&self) -> &LaunchSpec {
        &self.spec
    }
}

impl CudaKernel {
    /// What the driver's compiler said, where there was no cubin.
    #[must_use]
    pub const fn jit(&self) -> Option<&JitReport> {
        self.jit.as_ref()
    }

    /// The driver's handle, for occupancy and register facts.
    #[must_use]
    pub fn function(&self) -> &Function {
        &self.function
    }
}

impl CudaDevice {
    /// Opens the driver and a device; waits end in a hang after `deadline`.
    ///
    /// # Errors
    /// No driver or device here.
    pub fn open(ordinal: u32, deadline: Duration) -> Result<Self, DeviceError> {
        let context = Driver::open()?.context(ordinal)?;
        context.set_deadline(deadline);
        let stream = Arc::new(Stream::new(&context)?);
        let facts = facts_of(&context);
        Ok(Self {
            context,
            stream,
            facts,
            epoch: Instant::now(),
        })
    }

    /// The same GPU with a stream of its own: work queued there may overlap with work queued here. Loaded kernels serve
    /// both; a kernel with scratch is bound on each.
    ///
    /// # Errors
    /// No further stream.
    pub fn sibling(&self) -> Result<Self, DeviceError> {
        Ok(Self {
            context: self.context.clone(),
            stream: Arc::new(Stream::new(&self.context)?),
            facts: self.facts.clone(),
            epoch: self.epoch,
        })
    }

    #[must_use]
    pub const fn context(&self) -> &Context {
        &self.context
    }

    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    pub(super) fn own_stream(&self) -> Arc<Stream> {
        Arc::clone(&self.stream)
    }

    fn arg(&self, arg: &Arg) -> Result<KernelArg, DeviceError> {
        Ok(match arg {
            Arg::TensorMap(spec) => KernelArg::TensorMap(TensorMap::encode(&self.context, spec)?),
            Arg::Address(address) | Arg::Scratch(address) => KernelArg::DevicePtr(*address),
            // Two's complement: the kernel reads the same 64 bits as signed.
            Arg::Stride(elems) => KernelArg::U64(elems.cast_unsigned()),
            Arg::Size(size) => KernelArg::I32(*size),
            Arg::Scalar(value) => KernelArg::F32(*value),
        })
    }
}

fn facts_of(context: &Context) -> DeviceFacts {
    let device = context.device();
    let clock_hz = f64::from(device.max_sm_clock_khz) * 1e3;
    let peak = (device.compute_capability == (9, 0)).then(|| Machine {
        flops_per_s: HOPPER_FLOPS_PER_SM_CLOCK * f64::from(device.sm_count) * clock_hz,
        // Two transfers per clock.
        bytes_per_s: 2.0 * f64::from(device.max_memory_clock_khz) * 1e3 * f64::from(device.memory_bus_bits) / 8.0,
    });
    DeviceFacts {
        name: device.name.clone(),
        simulated: false,
        compute_capability: device.compute_capability,
        multiprocessors: device.sm_count,
        l2_bytes: device.l2_bytes,
        driver_version: nvml::driver_version().ok(),
        api_version: Some(context.version().to_string()),
        peak,
    }
}

impl Device for CudaDevice {
    type Buffer = DeviceBuffer;
    type Kernel = CudaKernel;
    type Bound = CudaBound;

    fn facts(&self) -> &DeviceFacts {
        &self.facts
    }

    fn needs_cubin(&self) -> bool {
        true
    }

    fn load(&self, image: &Image<'_>, facts: &LaunchFacts) -> Result<CudaKernel, DeviceError> {
        let (module, jit) = match image.cubin {
            Some(cubin) => (Module::load_cubin(&self.context, cubin)?, None),
            None => {
                let (module, report) = Module::load_ptx_jit(&self.context, image.ptx)?;
                (module, Some(report))
            }
        };
        let function = module.function(&facts.entry)?;
        function.set_max_dynamic_shared_bytes(facts.shared_bytes)?;
        Ok(CudaKernel {
            function: Arc::new(function),
            jit,
        })
    }

    fn alloc(&self, len_bytes: u64) -> Result<DeviceBuffer, DeviceError> {
        Ok(DeviceBuffer::alloc(&self.context, len_bytes)?)
    }

    fn address(&self, buffer: &DeviceBuffer) -> u64 {
        buffer.address()
    }

    fn write(&self, buffer: &DeviceBuffer, bytes: &[u8]) -> Result<(), DeviceError> {
        Ok(buffer.copy_from_host(&self.stream, bytes)?)
    }

    fn fill(&self, buffer: &DeviceBuffer, byte: u8) -> Result<(), DeviceError> {
        Ok(buffer.fill_u8(&self.stream, byte)?)
    }

    fn read(&self, buffer: &DeviceBuffer) -> Result<Vec<u8>, DeviceError> {
        Ok(buffer.to_host(&self.stream)?)
    }

    fn check_bounds(&self, buffer: &DeviceBuffer) -> Result<(), DeviceError> {
        Ok(buffer.check_red_zones(&self.stream)?)
    }

    fn bind(&self, kernel: &CudaKernel, spec: &LaunchSpec, args: &[Arg]) -> Result<CudaBound, DeviceError> {
        spec.validate(&kernel.function.limits())
            .map_err(driver::DriverError::from)?;
        let has_scratch = args.iter().any(|arg| matches!(arg, Arg::Scratch(_)));
        let args = args.iter().map(|arg| self.arg(arg)).collect::<Result<Vec<_>, _>>()?;
        let packed = PackedArgs::pack(&args).map_err(driver::DriverError::from)?;
        if let Some(params) = kernel.function.params() {
            packed.check(params).map_err(driver::DriverError::from)?;
        }
        Ok(CudaBound {
            function: Arc::clone(&kernel.function),
            spec: *spec,
            args: packed,
            has_scratch,
            stream: self.own_stream(),
        })
    }

    fn launch(&self, bound: &CudaBound) -> Result<(), DeviceError> {
        bound.launch_on(&self.stream)
    }

    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(self.stream.synchronize()?)
    }
}

impl Timing for CudaDevice {
    type Monitor = (Monitor, u64);

    fn time_launches(&self, launches: &[&CudaBound], first: usize, count: usize) -> Result<LaunchTimes, DeviceError> {
        if launches.is_empty() {
            return Ok(LaunchTimes::default());
        }
        let events = (0..=count)
            .map(|_| Event::new(&self.context))
            .collect::<Result<Vec<_>, _>>()?;
        let start = Instant::now();
        let mut waited = Duration::ZERO;
        events[0].record(&self.stream)?;
        for (i, event) in events.iter().enumerate().skip(1) {
            if let Some(ahead) = i.checked_sub(MOST_IN_FLIGHT) {
                let before = Instant::now();
                events[ahead].wait_deadline(self.context.deadline())?;
                waited += before.elapsed();
            }
            self.launch(launches[(first + i - 1) % launches.len()])?;
            event.record(&self.stream)?;
        }
        // Waiting for a full queue is not the host's work.
        let issue_us = start.elapsed().saturating_sub(waited).as_secs_f64() * 1e6;
        self.synchronize()?;
        let times = events
            .windows(2)
            .map(|pair| pair[0].elapsed_ms(&pair[1]).map(|ms| f64::from(ms) * 1e3));
        Ok(LaunchTimes {
            launch_us: times.collect::<Result<_, _>>()?,
            issue_us,
        })
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn pause(&self, idle_us: u64) {
        std::thread::sleep(Duration::from_micros(idle_us));
    }

    fn start_monitor(&self, interval_us: u64) -> Option<Self::Monitor> {
        let monitor = Monitor::start(self.context.device(), Duration::from_micros(interval_us)).ok()?;
        // The monitor's clock starts with its thread, within microseconds of now.
        Some((monitor, self.now_us()))
    }

    fn stop_monitor(&self, (monitor, started_us): Self::Monitor) -> Vec<Reading> {
        let samples = monitor.stop().samples;
        samples.into_iter().map(|sample| reading(sample, started_us)).collect()
    }
}

fn reading(sample: Sample, started_us: u64) -> Reading {
    Reading {
        at_us: started_us.saturating_add(sample.at_us),
        sm_clock_mhz: sample.sm_clock_mhz,
        memory_clock_mhz: sample.memory_clock_mhz,
        power_mw: sample.power_mw,
        power_limit_mw: sample.power_limit_mw,
        temperature_c: sample.temperature_c,
        throttle_reasons: sample.throttle_reasons,
    }
}

//! Kernels of a module: their facts, limits, occupancy and launches.

use crate::args::{ArgRefusal, KernelArg, PackedArgs, ParamSlot};
use crate::code;
use crate::context::Context;
use crate::error::DriverError;
use crate::launch::{LaunchLimits, LaunchRefusal, LaunchSpec, MAX_CLUSTER_BLOCKS, PORTABLE_CLUSTER_BLOCKS};
use crate::module::LoadedModule;
use crate::stream::Stream;
use cudarc::driver::sys::{self, CUfunction_attribute as Attribute};
use serde::Serialize;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// More parameters than any kernel has bytes for: the end of a loop that the driver should end earlier.
const MAX_PARAMS: usize = crate::args::MAX_PARAM_BYTES;

/// What the driver says about a kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FunctionFacts {
    /// Registers of a thread.
    pub registers_per_thread: u32,
    /// Local memory of a thread; more than 0 means spills or indexed arrays.
    pub local_bytes: u32,
    /// Static shared memory of a block.
    pub static_shared_bytes: u32,
    /// Constant memory.
    pub const_bytes: u32,
    /// Threads of a block, by registers and the kernel's own limit.
    pub max_threads_per_block: u32,
    /// Version of the PTX it was made from, times 10.
    pub ptx_version: u32,
    /// Architecture of the code, times 10: 90 for sm_90.
    pub binary_version: u32,
}

/// A kernel. Its module stays loaded while it lives. Usable from any thread.
pub struct Function {
    module: Arc<LoadedModule>,
    handle: sys::CUfunction,
    name: String,
    facts: FunctionFacts,
    params: Option<Vec<ParamSlot>>,
    max_dynamic_shared_bytes: AtomicU32,
    max_cluster_blocks: AtomicU32,
}

// SAFETY: the handle names an object inside the driver, whose calls are thread-safe; each call makes the
// context current first.
unsafe impl Send for Function {}
// SAFETY: as above; the limits are atomic.
unsafe impl Sync for Function {}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Function")
            .field("name", &self.name)
            .field("facts", &self.facts)
            .finish_non_exhaustive()
    }
}

impl Function {
    pub(crate) fn wrap(module: Arc<LoadedModule>, handle: sys::CUfunction, name: &str) -> Result<Self, DriverError> {
        let context = module.context().clone();
        if let Some(load) = context.api().cuFuncLoad {
            // SAFETY: the handle was just got from a live module.
            context.check("cuFuncLoad", unsafe { load(handle) })?;
        }
        let get = |attribute| attribute_of(&context, handle, attribute);
        let facts = FunctionFacts {
            registers_per_thread: get(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            static_shared_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            const_bytes: get(Attribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES)?,
            max_threads_per_block: get(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            ptx_version: get(Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
            binary_version: get(Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        };
        let dynamic = get(Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES)?;
        let clusters = if context.device().cluster_launch {
            PORTABLE_CLUSTER_BLOCKS
        } else {
            0
        };
        Ok(Self {
            params: params_of(&context, handle)?,
            module,
            handle,
            name: name.into(),
            facts,
            max_dynamic_shared_bytes: AtomicU32::new(dynamic),
            max_cluster_blocks: AtomicU32::new(clusters),
        })
    }

    /// The kernel's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the driver says about it.
    #[must_use]
    pub fn facts(&self) -> &FunctionFacts {
        &self.facts
    }

    /// The kernel's declared parameters; none when the driver is older than CUDA 12.4 and cannot tell.
    #[must_use]
    pub fn params(&self) -> Option<&[ParamSlot]> {
        self.params.as_deref()
    }

    /// The present limits of a launch.
    #[must_use]
    pub fn limits(&self) -> LaunchLimits {
        LaunchLimits {
            max_threads_per_block: self.facts.max_threads_per_block,
            max_dynamic_shared_bytes: self.max_dynamic_shared_bytes.load(Ordering::Relaxed),
            max_cluster_blocks: self.max_cluster_blocks.load(Ordering::Relaxed),
        }
    }

    /// Opts in to that much dynamic shared memory.
    ///
    /// # Errors
    /// [`LaunchRefusal::OptIn`] when the device has less, or a failed `cuFuncSetAttribute`.
    pub fn set_max_dynamic_shared_bytes(&self, bytes: u32) -> Result<(), DriverError> {
        let optin_bytes = self.context().device().max_shared_optin_bytes;
        let static_bytes = self.facts.static_shared_bytes;
        let most_bytes = optin_bytes.saturating_sub(static_bytes);
        if bytes > most_bytes {
            return Err(LaunchRefusal::OptIn {
                given_bytes: bytes,
                most_bytes,
                optin_bytes,
                static_bytes,
            }
            .into());
        }
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        self.set_attribute(attribute, bytes)?;
        self.max_dynamic_shared_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Opts in to clusters of up to 16 blocks, which not every device can place.
    ///
    /// # Errors
    /// A failed `cuFuncSetAttribute`.
    pub fn allow_non_portable_clusters(&self) -> Result<(), DriverError> {
        self.set_attribute(Attribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1)?;
        if self.context().device().cluster_launch {
            self.max_cluster_blocks.store(MAX_CLUSTER_BLOCKS, Ordering::Relaxed);
        }
        Ok(())
    }

    /// How many blocks of this size fit on one multiprocessor at once.
    ///
    /// # Errors
    /// A failed `cuOccupancyMaxActiveBlocksPerMultiprocessor`.
    pub fn blocks_per_sm(&self, block_threads: u32, dynamic_shared_bytes: u32) -> Result<u32, DriverError> {
        let context = self.context();
        context.bind()?;
        let mut blocks: c_int = 0;
        let threads = c_int::try_from(block_threads).unwrap_or(c_int::MAX);
        // SAFETY: the function is alive; `blocks` is a valid out pointer.
        let result = unsafe {
            (context.api().cuOccupancyMaxActiveBlocksPerMultiprocessor)(
                &raw mut blocks,
                self.handle,
                threads,
                dynamic_shared_bytes as usize,
            )
        };
        context.check("cuOccupancyMaxActiveBlocksPerMultiprocessor", result)?;
        Ok(u32::try_from(blocks).unwrap_or(0))
    }

    /// How many clusters of this shape fit on the device at once.
    ///
    /// # Errors
    /// An illegal shape, or a failed `cuOccupancyMaxActiveClusters`.
    pub fn max_active_clusters(&self, spec: &LaunchSpec) -> Result<u32, DriverError> {
        spec.validate(&self.limits())?;
        let context = self.context();
        context.bind()?;
        let mut clusters: c_int = 0;
        let mut attribute = cluster_attribute(spec.cluster.unwrap_or([1; 3]));
        let config = config(spec, std::ptr::null_mut(), &mut attribute, 1);
        // SAFETY: the function is alive; the configuration and its attribute outlive the call.
        let result =
            unsafe { (context.api().cuOccupancyMaxActiveClusters)(&raw mut clusters, self.handle, &raw const config) };
        context.check("cuOccupancyMaxActiveClusters", result)?;
        Ok(u32::try_from(clusters).unwrap_or(0))
    }

    /// Queues the kernel on `stream`. The arguments are copied before this returns.
    ///
    /// Device code is outside Rust's guarantees: a kernel with a wrong address faults (a sticky error) or
    /// writes other device memory. See the crate's documentation.
    ///
    /// # Errors
    /// A refusal of the shape or the arguments, or the driver's answer. A fault of the kernel itself
    /// appears in a later call.
    pub fn launch(&self, stream: &Stream, spec: &LaunchSpec, args: &PackedArgs) -> Result<(), DriverError> {
        stream.require_same(self.context(), "the kernel")?;
        spec.validate(&self.limits())?;
        self.check_args(args)?;
        let context = self.context();
        context.bind()?;
        let mut pointers = args.pointers();
        let mut attribute = cluster_attribute(spec.cluster.unwrap_or([1; 3]));
        let attributes = u32::from(spec.cluster.is_some());
        let config = config(spec, stream.handle(), &mut attribute, attributes);
        // SAFETY: function and stream are alive and of the current context; the configuration, its
        // attribute and the arguments outlive the call, which copies them; the arguments have the
        // kernel's count and sizes where the driver can tell them.
        let result = unsafe {
            (context.api().cuLaunchKernelEx)(
                &raw const config,
                self.handle,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        context.check("cuLaunchKernelEx", result)?;
        stream.note_launch(&self.module);
        Ok(())
    }

    /// [`Function::launch`] with arguments packed on the way.
    ///
    /// # Errors
    /// As [`Function::launch`].
    pub fn launch_with(&self, stream: &Stream, spec: &LaunchSpec, args: &[KernelArg]) -> Result<(), DriverError> {
        self.launch(stream, spec, &PackedArgs::pack(args)?)
    }

    fn check_args(&self, args: &PackedArgs) -> Result<(), ArgRefusal> {
        self.params.as_deref().map_or(Ok(()), |params| args.check(params))
    }

    fn context(&self) -> &Context {
        self.module.context()
    }

    fn set_attribute(&self, attribute: Attribute, value: u32) -> Result<(), DriverError> {
        let context = self.context();
        context.bind()?;
        let value = c_int::try_from(value).unwrap_or(c_int::MAX);
        // SAFETY: the function is alive and the attribute listed.
        let result = unsafe { (context.api().cuFuncSetAttribute)(self.handle, attribute, value) };
        context.check("cuFuncSetAttribute", result)
    }
}

fn attribute_of(context: &Context, handle: sys::CUfunction, attribute: Attribute) -> Result<u32, DriverError> {
    let mut value: c_int = 0;
    // SAFETY: the function is alive, the attribute listed, `value` a valid out pointer.
    let result = unsafe { (context.api().cuFuncGetAttribute)(&raw mut value, attribute, handle) };
    context.check("cuFuncGetAttribute", result)?;
    Ok(u32::try_from(value).unwrap_or(0))
}

/// The kernel's parameters, where the driver can tell them.
fn params_of(context: &Context, handle: sys::CUfunction) -> Result<Option<Vec<ParamSlot>>, DriverError> {
    let Some(get) = context.api().cuFuncGetParamInfo else {
        return Ok(None);
    };
    let mut params = Vec::new();
    while params.len() < MAX_PARAMS {
        let (mut offset_bytes, mut size_bytes) = (0_usize, 0_usize);
        // SAFETY: the function is alive; two valid out pointers. An index past the end is an error code.
        let result = unsafe { get(handle, params.len(), &raw mut offset_bytes, &raw mut size_bytes) };
        if result == code::INVALID_VALUE {
            break;
        }
        context.check("cuFuncGetParamInfo", result)?;
        params.push(ParamSlot {
            offset_bytes,
            size_bytes,
        });
    }
    Ok(Some(params))
}

fn cluster_attribute([x, y, z]: [u32; 3]) -> sys::CUlaunchAttribute {
    let mut value = sys::CUlaunchAttributeValue { pad: [0; 64] };
    value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
    sys::CUlaunchAttribute {
        id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
        pad: [0; 4],
        value,
    }
}

/// The launch configuration; it points at `attribute`, which must outlive its use.
fn config(
    spec: &LaunchSpec,
    stream: sys::CUstream,
    attribute: &mut sys::CUlaunchAttribute,
    attributes: u32,
) -> sys::CUlaunchConfig {
    sys::CUlaunchConfig {
        gridDimX: spec.grid[0],
        gridDimY: spec.grid[1],
        gridDimZ: spec.grid[2],
        blockDimX: spec.block[0],
        blockDimY: spec.block[1],
        blockDimZ: spec.block[2],
        sharedMemBytes: spec.dynamic_shared_bytes,
        hStream: stream,
        attrs: std::ptr::from_mut(attribute),
        numAttrs: attributes,
    }
}

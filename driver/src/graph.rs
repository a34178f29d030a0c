//! CUDA graphs: recorded work that is launched as a whole.

use crate::context::Context;
use crate::error::DriverError;
use crate::module::LoadedModule;
use crate::stream::Stream;
use cudarc::driver::sys;
use std::sync::Arc;

/// A recorded graph. Kernel arguments were copied into it; the modules of its kernels stay loaded while it
/// or an [`GraphExec`] of it lives. Device buffers do not: keep them until the last launch has finished.
pub struct Graph {
    context: Context,
    handle: sys::CUgraph,
    modules: Vec<Arc<LoadedModule>>,
}

// SAFETY: graph objects may be used from any thread, one at a time: `Sync` is not implemented.
unsafe impl Send for Graph {}

/// A graph ready to launch.
pub struct GraphExec {
    context: Context,
    handle: sys::CUgraphExec,
    _modules: Vec<Arc<LoadedModule>>,
}

// SAFETY: graph objects may be used from any thread, one at a time: `Sync` is not implemented.
unsafe impl Send for GraphExec {}

impl Graph {
    pub(crate) fn wrap(context: &Context, handle: sys::CUgraph, modules: Vec<Arc<LoadedModule>>) -> Self {
        Self {
            context: context.clone(),
            handle,
            modules,
        }
    }

    /// How many nodes were recorded.
    ///
    /// # Errors
    /// A failed `cuGraphGetNodes`.
    pub fn node_count(&self) -> Result<usize, DriverError> {
        self.context.bind()?;
        let mut count = 0_usize;
        // SAFETY: the graph is alive; a null node list asks for the count alone.
        let result = unsafe { (self.context.api().cuGraphGetNodes)(self.handle, std::ptr::null_mut(), &raw mut count) };
        self.context.check("cuGraphGetNodes", result).map(|()| count)
    }

    /// Makes the graph ready to launch.
    ///
    /// # Errors
    /// A failed `cuGraphInstantiate`.
    pub fn instantiate(&self) -> Result<GraphExec, DriverError> {
        self.context.bind()?;
        let mut handle: sys::CUgraphExec = std::ptr::null_mut();
        // SAFETY: the graph is alive; `handle` is a valid out pointer; no flags.
        let result = unsafe { (self.context.api().cuGraphInstantiateWithFlags)(&raw mut handle, self.handle, 0) };
        self.context.check("cuGraphInstantiate", result)?;
        Ok(GraphExec {
            context: self.context.clone(),
            handle,
            _modules: self.modules.clone(),
        })
    }
}

impl GraphExec {
    /// Queues the whole graph on `stream`.
    ///
    /// # Errors
    /// A failed `cuGraphLaunch`, or a stream of another context.
    pub fn launch(&self, stream: &Stream) -> Result<(), DriverError> {
        stream.require_same(&self.context, "the graph")?;
        self.context.bind()?;
        // SAFETY: both handles are alive and of this context.
        let result = unsafe { (self.context.api().cuGraphLaunch)(self.handle, stream.handle()) };
        self.context.check("cuGraphLaunch", result)
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: owned and destroyed once.
            unsafe { (self.context.api().cuGraphDestroy)(self.handle) };
        }
    }
}

impl Drop for GraphExec {
    fn drop(&mut self) {
        if self.context.may_free() {
            // SAFETY: owned and destroyed once; running launches are finished by the driver.
            unsafe { (self.context.api().cuGraphExecDestroy)(self.handle) };
        }
    }
}

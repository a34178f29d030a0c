//! Launches captured into a CUDA graph, and replayed.

use std::marker::PhantomData;
use std::sync::Arc;

use driver::{GraphExec, Stream};

use super::{CudaDevice, DeviceError};
use crate::launch::Bound;

/// Launches that run as one graph, on the stream they were captured on: a replay is ordered with direct launches there, so
/// scratch keeps its one owner. Borrows the bound kernels, whose scratch the graph uses; the tensors stay the caller's.
pub struct Captured<'a> {
    exec: GraphExec,
    stream: Arc<Stream>,
    nodes: usize,
    bound: PhantomData<&'a Bound<CudaDevice>>,
}

impl CudaDevice {
    /// Captures one launch of each, in order, on this device's stream.
    ///
    /// # Errors
    /// A kernel whose scratch belongs to another stream; a failed capture.
    pub fn capture<'a>(&self, launches: &[&'a Bound<Self>]) -> Result<Captured<'a>, DeviceError> {
        let stream = self.own_stream();
        for bound in launches {
            bound.inner().check_queue(&stream)?;
        }
        let graph = stream.capture(|stream| launches.iter().try_for_each(|bound| bound.inner().queue(stream)))?;
        Ok(Captured {
            nodes: graph.node_count()?,
            exec: graph.instantiate()?,
            stream,
            bound: PhantomData,
        })
    }
}

impl Captured<'_> {
    /// Queues all captured launches.
    ///
    /// # Errors
    /// A fault of earlier work.
    pub fn replay(&self) -> Result<(), DeviceError> {
        Ok(self.exec.launch(&self.stream)?)
    }

    /// Nodes of the graph.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.nodes
    }
}

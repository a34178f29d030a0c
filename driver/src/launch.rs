//! The shape of a launch, and its limits.

use serde::{Deserialize, Serialize};

/// Limits of every device since compute capability 3.0 (CUDA C++ Programming Guide, "Compute Capabilities").
const MAX_GRID: [u32; 3] = [i32::MAX as u32, 65_535, 65_535];
const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// The cluster size that every device with clusters accepts.
pub const PORTABLE_CLUSTER_BLOCKS: u32 = 8;
/// The largest cluster, for kernels that opted in to non-portable sizes.
pub const MAX_CLUSTER_BLOCKS: u32 = 16;

/// Grid, block and cluster sizes, each as `[x, y, z]`, and dynamic shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct LaunchSpec {
    /// Blocks in the grid.
    pub grid: [u32; 3],
    /// Threads in a block.
    pub block: [u32; 3],
    /// Blocks in a cluster; none for a launch without clusters, or with those the kernel declares itself.
    pub cluster: Option<[u32; 3]>,
    /// Dynamic shared memory of a block.
    pub dynamic_shared_bytes: u32,
}

impl LaunchSpec {
    /// `blocks` blocks of `threads` threads in x, without dynamic shared memory.
    #[must_use]
    pub fn linear(blocks: u32, threads: u32) -> Self {
        Self {
            grid: [blocks, 1, 1],
            block: [threads, 1, 1],
            cluster: None,
            dynamic_shared_bytes: 0,
        }
    }
}

/// What one function on one device allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LaunchLimits {
    /// Threads of a block, by the function's registers.
    pub max_threads_per_block: u32,
    /// Dynamic shared memory that was opted in to.
    pub max_dynamic_shared_bytes: u32,
    /// Blocks of a cluster; 0 when the device has no clusters.
    pub max_cluster_blocks: u32,
}

/// Why a launch was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchRefusal {
    /// A size is 0 or too large.
    #[error("{what}.{axis} is {given}; allowed: 1 to {most}")]
    Extent {
        /// Grid, block or cluster.
        what: &'static str,
        /// x, y or z.
        axis: char,
        /// The size asked for.
        given: u32,
        /// The largest.
        most: u32,
    },
    /// Too many threads in a block.
    #[error("a block has {given} threads; this kernel's registers allow {most}")]
    Threads {
        /// Threads asked for.
        given: u64,
        /// The most.
        most: u32,
    },
    /// Too much dynamic shared memory.
    #[error(
        "a block asks for {given_bytes} bytes of dynamic shared memory; {most_bytes} were opted in to \
         (`Function::set_max_dynamic_shared_bytes` raises it up to the device's limit)"
    )]
    DynamicShared {
        /// Bytes asked for.
        given_bytes: u32,
        /// The present limit.
        most_bytes: u32,
    },
    /// Opting in to more shared memory than there is.
    #[error(
        "asked for {given_bytes} bytes of dynamic shared memory; a block may have {most_bytes}: {optin_bytes} \
         of the device less {static_bytes} static"
    )]
    OptIn {
        /// Bytes asked for.
        given_bytes: u32,
        /// The most.
        most_bytes: u32,
        /// The device's limit.
        optin_bytes: u32,
        /// The kernel's static shared memory.
        static_bytes: u32,
    },
    /// Too many blocks in a cluster.
    #[error(
        "a cluster has {given} blocks; allowed here: {most} (8 everywhere with clusters, 16 after \
         `Function::allow_non_portable_clusters`)"
    )]
    ClusterBlocks {
        /// Blocks asked for.
        given: u64,
        /// The most.
        most: u32,
    },
    /// The grid is not whole clusters.
    #[error("grid.{axis} is {grid}; it must be a multiple of cluster.{axis} = {cluster}")]
    ClusterDivides {
        /// x, y or z.
        axis: char,
        /// The grid's size.
        grid: u32,
        /// The cluster's size.
        cluster: u32,
    },
}

const AXES: [char; 3] = ['x', 'y', 'z'];

impl LaunchSpec {
    /// Checks the shape against the device's and the function's limits.
    ///
    /// # Errors
    /// [`LaunchRefusal`] for the first rule that is broken.
    pub fn validate(&self, limits: &LaunchLimits) -> Result<(), LaunchRefusal> {
        extents("grid", self.grid, MAX_GRID)?;
        extents("block", self.block, MAX_BLOCK)?;
        let threads = volume(self.block);
        if threads > limits.max_threads_per_block.into() {
            return Err(LaunchRefusal::Threads {
                given: threads,
                most: limits.max_threads_per_block,
            });
        }
        if self.dynamic_shared_bytes > limits.max_dynamic_shared_bytes {
            return Err(LaunchRefusal::DynamicShared {
                given_bytes: self.dynamic_shared_bytes,
                most_bytes: limits.max_dynamic_shared_bytes,
            });
        }
        self.cluster
            .map_or(Ok(()), |cluster| self.validate_cluster(cluster, limits))
    }

    fn validate_cluster(&self, cluster: [u32; 3], limits: &LaunchLimits) -> Result<(), LaunchRefusal> {
        extents("cluster", cluster, [MAX_CLUSTER_BLOCKS; 3])?;
        let blocks = volume(cluster);
        if blocks > limits.max_cluster_blocks.into() {
            return Err(LaunchRefusal::ClusterBlocks {
                given: blocks,
                most: limits.max_cluster_blocks,
            });
        }
        for (axis, (grid, cluster)) in AXES.into_iter().zip(self.grid.into_iter().zip(cluster)) {
            if !grid.is_multiple_of(cluster) {
                return Err(LaunchRefusal::ClusterDivides { axis, grid, cluster });
            }
        }
        Ok(())
    }
}

fn volume(extents: [u32; 3]) -> u64 {
    extents.into_iter().map(u64::from).product()
}

fn extents(what: &'static str, given: [u32; 3], most: [u32; 3]) -> Result<(), LaunchRefusal> {
    for (axis, (given, most)) in AXES.into_iter().zip(given.into_iter().zip(most)) {
        if given == 0 || given > most {
            return Err(LaunchRefusal::Extent {
                what,
                axis,
                given,
                most,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: LaunchLimits = LaunchLimits {
        max_threads_per_block: 384,
        max_dynamic_shared_bytes: 49_152,
        max_cluster_blocks: PORTABLE_CLUSTER_BLOCKS,
    };

    fn refusal(change: impl FnOnce(&mut LaunchSpec)) -> String {
        let mut spec = LaunchSpec::linear(8, 128);
        change(&mut spec);
        spec.validate(&LIMITS).err().map(|e| e.to_string()).unwrap_or_default()
    }

    #[test]
    fn shapes_within_the_limits_pass() {
        assert_eq!(refusal(|_| ()), "");
        assert_eq!(refusal(|s| s.block = [384, 1, 1]), "");
        assert_eq!(refusal(|s| s.grid = [i32::MAX as u32, 65_535, 65_535]), "");
        assert_eq!(refusal(|s| s.cluster = Some([8, 1, 1])), "");
        assert_eq!(refusal(|s| s.dynamic_shared_bytes = 49_152), "");
    }

    #[test]
    fn each_limit_is_held() {
        assert!(refusal(|s| s.grid[0] = 0).contains("grid.x is 0"));
        assert!(refusal(|s| s.grid[1] = 65_536).contains("grid.y is 65536"));
        assert!(refusal(|s| s.block[2] = 65).contains("block.z is 65"));
        assert!(refusal(|s| s.block = [385, 1, 1]).contains("385 threads"));
        assert!(refusal(|s| s.block = [1024, 1024, 64]).contains("67108864 threads"));
        assert!(refusal(|s| s.dynamic_shared_bytes = 49_153).contains("49153 bytes"));
        assert!(refusal(|s| s.cluster = Some([0, 1, 1])).contains("cluster.x is 0"));
        assert!(refusal(|s| s.cluster = Some([3, 1, 1])).contains("multiple of cluster.x = 3"));
        assert!(refusal(|s| (s.grid, s.cluster) = ([16, 1, 1], Some([16, 1, 1]))).contains("16 blocks"));
    }

    #[test]
    fn a_device_without_clusters_refuses_them() {
        let limits = LaunchLimits {
            max_cluster_blocks: 0,
            ..LIMITS
        };
        let mut spec = LaunchSpec::linear(8, 128);
        spec.cluster = Some([1, 1, 1]);
        assert!(spec.validate(&limits).is_err());
    }
}

//! The fluent builder: a schedule written in Rust, checked by the compiler for spelling and types.
//!
//! ```
//! use warpwright_dsl::schedule::{Release, Rescale, Schedule};
//! let schedule = Schedule::for_kernel("product")
//!     .tile("m_tile", 128)
//!     .consumers(2)
//!     .load("a", |l| l.stages(3).release(Release::Early))
//!     .fold("k", |f| f.stage("ab", 1).lazy(8.0))
//!     .store("c", |s| s.own());
//! assert_eq!(schedule.folds["k"].rescale, Some(Rescale::Lazy));
//! ```

use super::{
    Cache, Direction, FoldPlan, Handoff, LoadPlan, Persistence, Placement, Release, Rescale, Schedule, Split, StorePlan,
};

impl Schedule {
    /// An empty schedule for the kernel of that name.
    #[must_use]
    pub fn for_kernel(name: &str) -> Self {
        Self {
            kernel: name.to_owned(),
            ..Self::default()
        }
    }

    /// Binds a tile size, in elements.
    #[must_use]
    pub fn tile(mut self, name: &str, elems: u32) -> Self {
        self.tiles.insert(name.to_owned(), elems);
        self
    }

    /// Consumer warpgroups.
    #[must_use]
    pub fn consumers(mut self, warpgroups: u32) -> Self {
        self.roles.consumers = Some(warpgroups);
        self
    }

    /// Rows of the row tile per consumer warpgroup.
    #[must_use]
    pub fn rows_per_consumer(mut self, rows: u32) -> Self {
        self.roles.rows_per_consumer = Some(rows);
        self
    }

    /// Warps of the producer warpgroup that stay.
    #[must_use]
    pub fn producer_warps(mut self, warps: u32) -> Self {
        self.roles.producer_warps = Some(warps);
        self
    }

    /// Registers per thread of the producer and of the consumers.
    #[must_use]
    pub fn registers(mut self, producer: u32, consumer: u32) -> Self {
        self.roles.producer_registers = Some(producer);
        self.roles.consumer_registers = Some(consumer);
        self
    }

    /// Who hands out blocks.
    #[must_use]
    pub fn persistence(mut self, persistence: Persistence) -> Self {
        self.grid.persistence = Some(persistence);
        self
    }

    /// The axis walked first, or inside a section.
    #[must_use]
    pub fn inner(mut self, axis: &str) -> Self {
        self.grid.inner = Some(axis.to_owned());
        self
    }

    /// Walks an axis from its last block to its first.
    #[must_use]
    pub fn descending(mut self, axis: &str) -> Self {
        self.grid.descending.push(axis.to_owned());
        self
    }

    /// Blocks of the other axes per section.
    #[must_use]
    pub fn section(mut self, blocks: u32) -> Self {
        self.grid.section = Some(blocks);
        self
    }

    /// Plans a load; a second call for the same load adds to the first.
    #[must_use]
    pub fn load(mut self, name: &str, plan: impl FnOnce(LoadPlan) -> LoadPlan) -> Self {
        let old = self.loads.remove(name).unwrap_or_default();
        self.loads.insert(name.to_owned(), plan(old));
        self
    }

    /// Places a left dot operand.
    #[must_use]
    pub fn operand(mut self, name: &str, placement: Placement) -> Self {
        self.operands.insert(name.to_owned(), placement);
        self
    }

    /// Plans a fold; a second call for the same fold adds to the first.
    #[must_use]
    pub fn fold(mut self, name: &str, plan: impl FnOnce(FoldPlan) -> FoldPlan) -> Self {
        let old = self.folds.remove(name).unwrap_or_default();
        self.folds.insert(name.to_owned(), plan(old));
        self
    }

    /// Plans an output; a second call for the same output adds to the first.
    #[must_use]
    pub fn store(mut self, name: &str, plan: impl FnOnce(StorePlan) -> StorePlan) -> Self {
        let old = self.stores.remove(name).unwrap_or_default();
        self.stores.insert(name.to_owned(), plan(old));
        self
    }

    /// The assembler version.
    #[must_use]
    pub fn assembler(mut self, version: &str) -> Self {
        self.assembler.version = Some(version.to_owned());
        self
    }

    /// One more assembler option.
    #[must_use]
    pub fn assembler_option(mut self, option: &str) -> Self {
        self.assembler.options.push(option.to_owned());
        self
    }
}

impl LoadPlan {
    /// Slots of the ring.
    #[must_use]
    pub fn stages(mut self, slots: u32) -> Self {
        self.stages = Some(slots);
        self
    }

    /// The ring that the load shares with others of the same ring name.
    #[must_use]
    pub fn ring(mut self, name: &str) -> Self {
        self.ring = Some(name.to_owned());
        self
    }

    /// When a slot goes back to the producer.
    #[must_use]
    pub fn release(mut self, release: Release) -> Self {
        self.release = Some(release);
        self
    }

    /// L2 eviction priority.
    #[must_use]
    pub fn cache(mut self, cache: Cache) -> Self {
        self.cache = Some(cache);
        self
    }

    /// L2 promotion of the tensor map.
    #[must_use]
    pub fn l2_promotion(mut self, bytes: u32) -> Self {
        self.l2_promotion = Some(bytes);
        self
    }
}

impl FoldPlan {
    /// Which way the trips are walked.
    #[must_use]
    pub fn direction(mut self, direction: Direction) -> Self {
        self.direction = Some(direction);
        self
    }

    /// How masks are applied over the trips.
    #[must_use]
    pub fn split(mut self, split: Split) -> Self {
        self.split = Some(split);
        self
    }

    /// The pipeline stage of a value.
    #[must_use]
    pub fn stage(mut self, value: &str, stage: u32) -> Self {
        self.stages.insert(value.to_owned(), stage);
        self
    }

    /// Adds an event to the order: `issue X`, `wait X` or a value.
    #[must_use]
    pub fn then(mut self, event: &str) -> Self {
        self.order.push(event.to_owned());
        self
    }

    /// How consumer warpgroups share the tensor core.
    #[must_use]
    pub fn handoff(mut self, handoff: Handoff) -> Self {
        self.handoff = Some(handoff);
        self
    }

    /// The reference follows the running maximum in every trip.
    #[must_use]
    pub fn exact(mut self) -> Self {
        self.rescale = Some(Rescale::Exact);
        self
    }

    /// The reference moves only when the maximum outgrew it by `threshold` powers of two.
    #[must_use]
    pub fn lazy(mut self, threshold: f32) -> Self {
        self.rescale = Some(Rescale::Lazy);
        self.lazy_threshold = Some(threshold);
        self
    }

    /// The reference stays; overflow is repaired.
    #[must_use]
    pub fn fixed(mut self) -> Self {
        self.rescale = Some(Rescale::Fixed);
        self
    }

    /// Every n-th `exp2` is a polynomial.
    #[must_use]
    pub fn exp2_polynomial_every(mut self, n: u32) -> Self {
        self.exp2_polynomial_every = Some(n);
        self
    }

    /// The first trip is emitted apart.
    #[must_use]
    pub fn peel(mut self) -> Self {
        self.peel = Some(true);
        self
    }

    /// Lets warpgroups whose rows keep only the left half of the first trip's columns compute masked dots over it alone.
    #[must_use]
    pub fn narrow(mut self) -> Self {
        self.narrow = Some(true);
        self
    }

    /// Trips per loop iteration of the emitted code.
    #[must_use]
    pub fn unroll(mut self, trips: u32) -> Self {
        self.unroll = Some(trips);
        self
    }
}

impl StorePlan {
    /// The tile is staged in a buffer of its own.
    #[must_use]
    pub fn own(mut self) -> Self {
        self.buffer = Some("own".to_owned());
        self
    }

    /// The tile is staged in the slot of a load.
    #[must_use]
    pub fn over(mut self, load: &str) -> Self {
        self.buffer = Some(load.to_owned());
        self
    }
}

//! Vector clocks.

/// Epochs by actor; absent ones are 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clock {
    epochs: Vec<u32>,
}

impl Clock {
    pub fn get(&self, actor: u32) -> u32 {
        self.epochs.get(actor as usize).copied().unwrap_or(0)
    }

    /// Raises one component.
    pub fn raise(&mut self, actor: u32, epoch: u32) {
        let index = actor as usize;
        if index >= self.epochs.len() {
            self.epochs.resize(index + 1, 0);
        }
        self.epochs[index] = self.epochs[index].max(epoch);
    }

    /// Component-wise maximum.
    pub fn join(&mut self, other: &Self) {
        if other.epochs.len() > self.epochs.len() {
            self.epochs.resize(other.epochs.len(), 0);
        }
        for (mine, theirs) in self.epochs.iter_mut().zip(&other.epochs) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// What an actor has seen, and what of it the async proxy may see too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Clocks {
    pub seen: Clock,
    pub fenced: Clock,
}

impl Clocks {
    pub fn join(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.fenced.join(&other.fenced);
    }

    /// The end of asynchronous work is visible to both proxies.
    pub fn raise_both(&mut self, actor: u32, epoch: u32) {
        self.seen.raise(actor, epoch);
        self.fenced.raise(actor, epoch);
    }

    /// `fence.proxy.async`: everything seen so far becomes visible to the async proxy.
    pub fn proxy_fence(&mut self) {
        let seen = self.seen.clone();
        self.fenced.join(&seen);
    }
}

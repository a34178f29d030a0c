//! A bit per byte: which bytes were written.

/// A set of byte offsets.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByteSet {
    words: Vec<u64>,
}

impl ByteSet {
    pub fn new(bytes: usize) -> Self {
        Self {
            words: vec![0; bytes.div_ceil(64)],
        }
    }

    /// Calls `f` with each word index and the mask of `start..end` within it.
    fn masks(start: usize, end: usize, mut f: impl FnMut(usize, u64) -> bool) {
        let mut at = start;
        while at < end {
            let bit = at % 64;
            let count = (64 - bit).min(end - at);
            let mask = if count == 64 {
                u64::MAX
            } else {
                ((1u64 << count) - 1) << bit
            };
            if !f(at / 64, mask) {
                return;
            }
            at += count;
        }
    }

    pub fn insert(&mut self, start: usize, end: usize) {
        Self::masks(start, end, |word, mask| {
            self.words[word] |= mask;
            true
        });
    }

    pub fn remove(&mut self, start: usize, end: usize) {
        Self::masks(start, end, |word, mask| {
            self.words[word] &= !mask;
            true
        });
    }

    /// The first offset of `start..end` that is in the set.
    pub fn first_present(&self, start: usize, end: usize) -> Option<usize> {
        let mut found = None;
        Self::masks(start, end, |word, mask| {
            let present = self.words[word] & mask;
            if present != 0 {
                found = Some(word * 64 + present.trailing_zeros() as usize);
            }
            found.is_none()
        });
        found
    }

    pub fn clear(&mut self) {
        self.words.fill(0);
    }

    /// The first offset of `start..end` that is not in the set.
    pub fn first_missing(&self, start: usize, end: usize) -> Option<usize> {
        let mut found = None;
        Self::masks(start, end, |word, mask| {
            let missing = !self.words[word] & mask;
            if missing != 0 {
                found = Some(word * 64 + missing.trailing_zeros() as usize);
            }
            found.is_none()
        });
        found
    }

    /// Maximal ranges of `0..len` that are in the set.
    pub fn ranges(&self, len: usize) -> Vec<std::ops::Range<usize>> {
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(start) = self.first_present(at, len) {
            let end = self.first_missing(start, len).unwrap_or(len);
            out.push(start..end);
            at = end;
        }
        out
    }

    /// Maximal ranges of `0..len` that are not in the set.
    pub fn gaps(&self, len: usize) -> Vec<std::ops::Range<usize>> {
        let mut out = Vec::new();
        let mut at = 0;
        while let Some(start) = self.first_missing(at, len) {
            let end = self.first_present(start, len).unwrap_or(len);
            out.push(start..end);
            at = end;
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_was_not_inserted() {
        let mut set = ByteSet::new(200);
        set.insert(3, 130);
        set.insert(140, 200);
        set.remove(70, 72);
        assert_eq!(set.gaps(200), vec![0..3, 70..72, 130..140]);
        assert_eq!(set.ranges(200), vec![3..70, 72..130, 140..200]);
        assert_eq!(set.first_missing(3, 70), None);
        assert_eq!(set.first_missing(3, 71), Some(70));
    }
}

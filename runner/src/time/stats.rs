//! Medians, percentiles and a seeded bootstrap: the same samples and seed give the same numbers everywhere.

/// A small generator with a fixed sequence. A crate's default generator may change between versions, and stored
/// intervals must be reproducible.
#[derive(Clone, Debug)]
pub struct SplitMix(u64);

impl SplitMix {
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// An index below `len`; 0 for an empty range.
    pub const fn below(&mut self, len: usize) -> usize {
        // The high half of a product: no bias worth naming for ranges far below 2^64.
        ((self.next_u64() as u128 * len as u128) >> 64) as usize
    }
}

/// The value at a fraction of the sorted samples, between neighbours; none without samples.
#[must_use]
pub fn quantile(samples: &[f64], fraction: f64) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let place = fraction.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(low + (high - low) * place.fract())
}

/// The middle sample, or the mean of the middle two.
#[must_use]
pub fn median(samples: &[f64]) -> Option<f64> {
    quantile(samples, 0.5)
}

/// An estimate with its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
}

/// How often the bootstrap draws.
const RESAMPLES: usize = 4000;

/// The geometric mean of ratios with its 95 % percentile-bootstrap interval; none without ratios above 0.
#[must_use]
pub fn geomean_interval(ratios: &[f64], seed: u64) -> Option<Interval> {
    if ratios.is_empty() || ratios.iter().any(|ratio| !(ratio.is_finite() && *ratio > 0.0)) {
        return None;
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.ln()).collect();
    let mean = |sum: f64| sum / logs.len() as f64;
    let mut random = SplitMix::new(seed);
    let draws = (0..RESAMPLES).map(|_| mean((0..logs.len()).map(|_| logs[random.below(logs.len())]).sum()));
    let draws: Vec<f64> = draws.collect();
    Some(Interval {
        estimate: mean(logs.iter().sum()).exp(),
        low: quantile(&draws, 0.025)?.exp(),
        high: quantile(&draws, 0.975)?.exp(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn medians_and_quantiles_are_the_textbook_ones() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(quantile(&[0.0, 10.0], 0.25), Some(2.5));
        assert_eq!(quantile(&[5.0], 0.9), Some(5.0));
    }

    #[test]
    fn a_fixed_ratio_has_no_width_and_noise_has_some() {
        let exact = geomean_interval(&[1.25; 8], 7).unwrap();
        assert!((exact.estimate - 1.25).abs() < 1e-12 && (exact.high - exact.low).abs() < 1e-12);
        let noisy = geomean_interval(&[1.0, 1.1, 0.9, 1.05, 0.95, 1.0], 7).unwrap();
        assert!(noisy.low < noisy.estimate && noisy.estimate < noisy.high);
        assert!(noisy.low > 0.9 && noisy.high < 1.1);
        assert_eq!(Some(noisy), geomean_interval(&[1.0, 1.1, 0.9, 1.05, 0.95, 1.0], 7));
        assert_eq!(geomean_interval(&[1.0, 0.0], 7), None);
        assert_eq!(geomean_interval(&[], 7), None);
    }

    #[test]
    fn the_interval_covers_the_truth_about_as_often_as_it_says() {
        let mut random = SplitMix::new(11);
        let mut noise = || {
            (0..12)
                .map(|_| random.below(1 << 20) as f64 / f64::from(1 << 20))
                .sum::<f64>()
                - 6.0
        };
        let covered = (0..300).filter(|i| {
            let ratios: Vec<f64> = (0..16).map(|_| (0.02_f64.mul_add(noise(), 0.05)).exp()).collect();
            geomean_interval(&ratios, *i).is_some_and(|x| x.low <= 0.05_f64.exp() && 0.05_f64.exp() <= x.high)
        });
        let share = covered.count();
        assert!((265..=295).contains(&share), "{share} of 300");
    }

    proptest! {
        #[test]
        fn quantiles_stay_within_the_samples(samples in prop::collection::vec(-1e6_f64..1e6, 1..40), f in 0.0_f64..1.0) {
            let q = quantile(&samples, f).unwrap();
            prop_assert!(samples.iter().any(|x| *x <= q) && samples.iter().any(|x| *x >= q));
        }
    }
}

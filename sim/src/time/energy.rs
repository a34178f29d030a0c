//! Power and clock: what a power limit leaves of the highest clock.
//!
//! Energy of a launch at a clock f: `static_w * time + dynamic(activity) * voltage(f)^2`, the voltage a straight line in f.
//! The sustained clock is the highest at which the power of the launch stays below the limit.

pub use super::params::Power;

/// A clock and the power at it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sustained {
    /// Megahertz.
    pub mhz: f64,
    /// Watts.
    pub watts: f64,
}

impl Power {
    /// Joules of amounts of work ([`super::report::Activity::amounts`]) alone, at the highest clock.
    #[must_use]
    pub fn joules(&self, amounts: &[(&str, f64)]) -> f64 {
        let of = |name: &str| match name {
            "mufu_cycles" => self.mufu_nj * 1e-9,
            "issued" => self.issue_nj * 1e-9,
            "mma_flops" => self.flop_pj * 1e-12,
            "smem_bytes" => self.smem_pj * 1e-12,
            "l2_bytes" => self.l2_pj * 1e-12,
            _ => 0.0,
        };
        amounts.iter().map(|(name, amount)| of(name) * amount).sum()
    }

    fn voltage(&self, mhz: f64) -> f64 {
        let share = (mhz - self.min_mhz) / (self.max_mhz - self.min_mhz).max(1.0);
        self.low_voltage + (1.0 - self.low_voltage) * share
    }

    /// The highest clock at which a launch of `cycles` cycles with `joules` of work stays within the limit.
    #[must_use]
    pub fn sustained(&self, joules: f64, cycles: f64) -> Sustained {
        let watts = |mhz: f64| self.static_w + joules * self.voltage(mhz).powi(2) * mhz * 1e6 / cycles.max(1.0);
        let (mut low, mut high) = (self.min_mhz, self.max_mhz);
        if watts(high) <= self.limit_w {
            return Sustained {
                mhz: high,
                watts: watts(high),
            };
        }
        for _ in 0..40 {
            let middle = 0.5 * (low + high);
            if watts(middle) <= self.limit_w {
                low = middle;
            } else {
                high = middle;
            }
        }
        Sustained {
            mhz: low,
            watts: watts(low),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_work_per_cycle_runs_slower() {
        let power = Power::default();
        let idle = power.sustained(1e-3, 1e6);
        assert_eq!(idle.mhz, power.max_mhz);
        let (some, more) = (power.sustained(0.35, 1e6), power.sustained(0.45, 1e6));
        assert!(more.mhz < some.mhz && some.mhz < power.max_mhz, "{some:?} {more:?}");
        assert!((more.watts - power.limit_w).abs() < 0.5);
    }
}

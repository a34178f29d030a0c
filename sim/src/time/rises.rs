//! In which trips running maxima move.
//!
//! Data does not move under the clock, so a share says how often a product's values pass all that came before them.
//! Which warp and which product is decided by a two-dimensional lattice: any few neighbours hold about the share, and
//! warps of a warpgroup differ as independent rows do.

/// Steps of the lattice: 1/g and 1/g^2 of the real root g of g^3 = g + 1.
const STEP_PRODUCT: f64 = 0.754_877_666_246_693;
const STEP_WARP: f64 = 0.569_840_290_998_053;
/// Step of the values: small enough that differences of hundreds of them change no exponential much.
const RISE: f32 = 1.0 / 1024.0;

/// The height that a warp's products have reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heights {
    /// Products and height of each warp.
    warps: Vec<(u32, u32)>,
}

impl Heights {
    /// The value of the next fresh product of warp `w`.
    pub fn next(&mut self, w: usize, share: f64) -> f32 {
        if self.warps.len() <= w {
            self.warps.resize(w + 1, (0, 0));
        }
        let (products, height) = &mut self.warps[w];
        let at = f64::from(*products) * STEP_PRODUCT + w as f64 * STEP_WARP;
        if *products == 0 || at.fract() < share {
            *height += 1;
        }
        *products += 1;
        *height as f32 * RISE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Share of rises among the products of eight warps, without the first of each.
    fn share(wanted: f64) -> f64 {
        let mut heights = Heights::default();
        let mut rises = 0;
        for w in 0..8 {
            let mut last = heights.next(w, wanted);
            for _ in 0..24 {
                let value = heights.next(w, wanted);
                rises += u32::from(value > last);
                assert!(value >= last);
                last = value;
            }
        }
        f64::from(rises) / (8.0 * 24.0)
    }

    #[test]
    fn values_rise_in_about_the_share_of_products() {
        assert_eq!((share(0.0), share(1.0)), (0.0, 1.0));
        for wanted in [0.1, 0.25, 0.5, 0.8] {
            assert!((share(wanted) - wanted).abs() < 0.03, "{wanted}: {}", share(wanted));
        }
    }
}

//! How often the running maxima of a warp move, on data whose order does not matter.
//!
//! The maximum of a row moves in trip `i` when the largest score so far is among the newest of `i` equal parts: with
//! probability `1 / i`. A warp holds 16 rows of a product, and it rescales when one of them moves.

/// Rows of a product in one warp.
const ROWS: i32 = 16;

/// Share of all trips of the blocks in which the maxima of a warp move.
pub fn share(trips: &[f64]) -> f64 {
    let most = trips.iter().copied().fold(0.0, f64::max) as usize;
    // sums[t]: expected moves in the first t trips.
    let mut sums = vec![0.0; most + 1];
    for t in 1..=most {
        sums[t] = sums[t - 1] + 1.0 - (1.0 - 1.0 / t as f64).powi(ROWS);
    }
    let moves: f64 = trips.iter().map(|t| sums[*t as usize]).sum();
    let all: f64 = trips.iter().sum();
    if all > 0.0 { moves / all } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_blocks_move_more_seldom() {
        assert_eq!(share(&[1.0]), 1.0);
        assert_eq!(share(&[]), 1.0);
        let (few, many) = (share(&[8.0]), share(&[128.0]));
        assert!(many < few && few < 1.0, "{few} {many}");
        // 16 rows in two trips: the first always, the second unless all sixteen rest.
        assert!((share(&[2.0]) - (1.0 + 1.0 - 0.5_f64.powi(16)) / 2.0).abs() < 1e-12);
    }
}

//! Blocks over SMs: from the cost of a block to the cycles of a launch.

/// How blocks are handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handout {
    /// One CTA per block; a freed SM takes the next block.
    PerBlock,
    /// CTA `c` of `n` takes the blocks `c`, `c + n`, ...
    Static,
    /// CTAs draw the next block from a counter.
    Dynamic,
}

/// Cycles of a launch and what they are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Launch {
    /// From the start of the first block to the end of the last.
    pub cycles: f64,
    /// Mean over SMs of the share of that time in which they had a block.
    pub balance: f64,
}

/// Places blocks, given in the order of their numbers with the cycles of each, on `sms` SMs. `between` cycles pass between
/// two blocks of an SM besides their own; `start` before the first.
#[must_use]
pub fn place(costs: &[f64], sms: usize, handout: Handout, (start, between): (f64, f64)) -> Launch {
    let sms = sms.max(1);
    let mut free = vec![0.0_f64; sms];
    let mut busy = 0.0;
    for (block, cost) in costs.iter().enumerate() {
        let sm = match handout {
            Handout::Static => block % sms,
            Handout::PerBlock | Handout::Dynamic => first_free(&free),
        };
        let lead = if free[sm] == 0.0 { start } else { between };
        free[sm] += lead + cost;
        busy += lead + cost;
    }
    let cycles = free.iter().copied().fold(0.0, f64::max);
    Launch {
        cycles,
        balance: if cycles > 0.0 {
            busy / (cycles * sms as f64)
        } else {
            1.0
        },
    }
}

fn first_free(free: &[f64]) -> usize {
    let first = free.iter().enumerate().min_by(|a, b| a.1.total_cmp(b.1));
    first.map_or(0, |(sm, _)| sm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_last_block_hurts_a_static_round_robin_more() {
        let costs = [4.0, 1.0, 4.0, 1.0, 4.0, 1.0, 4.0, 1.0];
        let of = |handout| place(&costs, 2, handout, (0.0, 0.0)).cycles;
        assert_eq!((of(Handout::Static), of(Handout::Dynamic)), (16.0, 10.0));
    }

    #[test]
    fn waves_are_whole() {
        let launch = place(&[1.0; 133], 132, Handout::PerBlock, (0.5, 0.0));
        assert_eq!(launch.cycles, 2.5);
        assert!((launch.balance - (132.0 * 1.5 + 1.0) / (132.0 * 2.5)).abs() < 1e-9);
    }
}

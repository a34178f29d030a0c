//! Several contestants in one run, taking turns.

use super::arena::{Arena, Entry};
use super::stats::{SplitMix, median};
use super::{Comparison, ContestantTiming, Ratio, TimeError, TimePlan, Window, WindowState, check_time};
use crate::case::Case;
use crate::device::{Reading, Timing};
use crate::verify::Verified;

/// Launches that tell how long one takes.
const CALIBRATION_LAUNCHES: usize = 5;

/// Queueing at this share of a window's time or more means that the host could not keep ahead of the device.
const HOST_BOUND_SHARE: f64 = 0.9;

/// A verified kernel under a name.
pub struct Contestant<'a, D: Timing> {
    pub name: String,
    pub verified: &'a Verified<'a, D>,
}

/// Times contestants in turns (A B B A …) and compares each with the first.
///
/// # Errors
/// An impossible plan, contestants of different problems, a wrong output, an implausible time, or a device failure.
pub fn compare<D: Timing>(
    device: &D,
    contestants: &[Contestant<'_, D>],
    plan: &TimePlan,
) -> Result<Comparison, TimeError> {
    check_plan(plan)?;
    let case = one_case(contestants)?;
    let arena = Arena::new(device, case, plan)?;
    let entries = contestants
        .iter()
        .map(|c| arena.enter(device, c))
        .collect::<Result<Vec<_>, _>>()?;
    let monitor = device.start_monitor(plan.monitor_interval_us);
    let mut run = Run {
        device,
        case,
        plan,
        arena: &arena,
        entries: &entries,
        random: SplitMix::new(plan.seed),
        windows: Vec::new(),
    };
    let done = run.all_windows();
    let windows = run.windows;
    let readings = monitor.map_or_else(Vec::new, |monitor| device.stop_monitor(monitor));
    done?;
    arena.check_memory(device, &entries)?;
    let comparison = sum_up((plan, &arena, case), &entries, windows, readings);
    for contestant in &comparison.contestants {
        check_time(case.problem(), device.facts(), contestant.median_us).map_err(|implausible| {
            TimeError::Implausible {
                name: contestant.name.clone(),
                implausible,
            }
        })?;
    }
    Ok(comparison)
}

fn check_plan(plan: &TimePlan) -> Result<(), TimeError> {
    let given = [
        ("window", plan.window_us, 1e3..=6e7),
        ("own load", plan.own_load_us, 0.0..=6e7),
        ("number of rounds", f64::from(plan.rounds), 1.0..=1e4),
        ("cache multiple", plan.l2_multiple, 0.0..=100.0),
    ];
    match given.into_iter().find(|(_, value, allowed)| !allowed.contains(value)) {
        Some((what, given, _)) => Err(TimeError::Plan { what, given }),
        None => Ok(()),
    }
}

/// The case that all contestants share.
fn one_case<'a, D: Timing>(contestants: &[Contestant<'a, D>]) -> Result<&'a Case, TimeError> {
    let first = contestants.first().ok_or(TimeError::NoContestants)?.verified.case();
    let other = contestants.iter().find(|c| {
        let case = c.verified.case();
        case.problem() != first.problem() || case.tensors() != first.tensors()
    });
    match other {
        Some(other) => Err(TimeError::OtherProblem {
            name: other.name.clone(),
            given: other.verified.case().problem().to_string(),
            first: first.problem().to_string(),
        }),
        None => Ok(first),
    }
}

struct Run<'a, D: Timing> {
    device: &'a D,
    case: &'a Case,
    plan: &'a TimePlan,
    arena: &'a Arena<D>,
    entries: &'a [Entry<D>],
    random: SplitMix,
    windows: Vec<Window>,
}

impl<D: Timing> Run<'_, D> {
    fn all_windows(&mut self) -> Result<(), TimeError> {
        let rounds = self.plan.rounds.next_multiple_of(2);
        let spots = self.spots(rounds);
        let per_launch_us = self
            .entries
            .iter()
            .map(|entry| self.calibrate(entry))
            .collect::<Result<Vec<_>, _>>()?;
        for round in 0..rounds {
            let mut order: Vec<usize> = (0..self.entries.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for contestant in order {
                let check = spots[contestant].contains(&round);
                self.window(contestant, round, (per_launch_us[contestant], check))?;
            }
        }
        Ok(())
    }

    /// Rounds whose outputs are checked, for each contestant.
    fn spots(&mut self, rounds: u32) -> Vec<Vec<u32>> {
        let mut pick = |_| {
            let mut left: Vec<u32> = (0..rounds).collect();
            let count = self.plan.spot_checks.min(rounds);
            (0..count)
                .map(|_| left.swap_remove(self.random.below(left.len())))
                .collect()
        };
        (0..self.entries.len()).map(&mut pick).collect()
    }

    fn calibrate(&self, entry: &Entry<D>) -> Result<f64, TimeError> {
        let bounds: Vec<&D::Bound> = entry.bounds.iter().map(|bound| bound.inner()).collect();
        let times = self.device.time_launches(&bounds, 0, CALIBRATION_LAUNCHES)?;
        // The first launch pays for loading.
        let settled = times.launch_us.get(1..).unwrap_or_default();
        Ok(median(settled).unwrap_or(1.0).max(0.5))
    }

    fn window(&mut self, contestant: usize, round: u32, (per_launch_us, check): (f64, bool)) -> Result<(), TimeError> {
        let (device, plan, entry) = (self.device, self.plan, &self.entries[contestant]);
        let bounds: Vec<&D::Bound> = entry.bounds.iter().map(|bound| bound.inner()).collect();
        let (least, most) = plan.launches;
        let launches_in = |us: f64| ((us / per_launch_us).ceil() as u64).min(u64::from(most)) as usize;
        let count = launches_in(plan.window_us).max(least.max(1) as usize);
        let warm = launches_in(plan.own_load_us);
        let first = self.random.below(bounds.len());
        if plan.idle_us > 0 {
            device.synchronize()?;
            device.pause(plan.idle_us);
        }
        // The own load is timed like the window itself, so that both are the same work for the card.
        device.time_launches(&bounds, first, warm)?;
        if check {
            self.arena.poison(device)?;
        }
        let start_us = device.now_us();
        let times = device.time_launches(&bounds, first + warm, count)?;
        let end_us = device.now_us();
        let index = self.windows.len();
        if check {
            let launch = self.random.below(count);
            let set = (first + warm + launch) % bounds.len();
            self.arena.spot_check(device, (entry, self.case), (index, set))?;
        }
        let total_us = times.launch_us.iter().sum::<f64>();
        self.windows.push(Window {
            contestant,
            round,
            start_us,
            end_us,
            median_us: median(&times.launch_us).unwrap_or(0.0),
            host_bound: times.issue_us >= HOST_BOUND_SHARE * total_us,
            launch_us: times.launch_us,
            state: WindowState::default(),
            spot_checked: check,
        });
        Ok(())
    }
}

fn sum_up<D: Timing>(
    (plan, arena, case): (&TimePlan, &Arena<D>, &Case),
    entries: &[Entry<D>],
    mut windows: Vec<Window>,
    readings: Vec<Reading>,
) -> Comparison {
    for window in &mut windows {
        window.state = WindowState::of(&readings, window.start_us, window.end_us);
    }
    let flops = case.work().flops;
    let named = || entries.iter().map(|entry| entry.name.as_str()).enumerate();
    let first = entries.first().map_or("", |entry| entry.name.as_str());
    let ratio = |(index, name)| Ratio::of((first, name), (0, index), &windows, plan.seed);
    Comparison {
        plan: plan.clone(),
        sets: arena.len(),
        set_bytes: arena.bytes,
        contestants: entries
            .iter()
            .enumerate()
            .map(|(index, entry)| ContestantTiming::of(index, (&entry.name, &entry.checked), &windows, flops))
            .collect(),
        ratios: named().skip(1).map(ratio).collect(),
        windows,
        readings,
    }
}

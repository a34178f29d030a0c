//! The timing protocols on a fake device with a clock of its own.

use codegen::target::SM_90A;
use warpwright_runner::evaluate::{Build, Candidate, build, load};
use warpwright_runner::schedules::shipped_for;
use warpwright_runner::time::{Comparison, Contestant, TimeError, TimePlan, compare};
use warpwright_runner::verify::verify;
use warpwright_runner::{Assembler, Prepared, Truths, VerifyPlan};

use oracle::inputs::Family;

use crate::cases::problem;
use crate::fake::{Fake, Mischief};

fn built(text: &str) -> Build {
    let problem = problem(text);
    let candidate = Candidate::new(problem, shipped_for(&problem).unwrap());
    build(&candidate, &Assembler::default(), &SM_90A, None).unwrap()
}

fn plan() -> TimePlan {
    TimePlan {
        window_us: 2000.0,
        own_load_us: 500.0,
        rounds: 5,
        ..TimePlan::burst()
    }
}

fn one_family() -> VerifyPlan {
    VerifyPlan {
        families: vec![Family::Normal],
        launches: 1,
        ..VerifyPlan::default()
    }
}

/// Verifies one kernel and lets it compete with itself.
fn race(device: &Fake, build: &Build, plan: &TimePlan) -> Result<Comparison, TimeError> {
    let prepared: Prepared<Fake> = load(device, build).unwrap();
    let verified = verify(device, (&prepared, &build.case), &one_family(), &mut Truths::new()).unwrap();
    let contestants = ["a", "b", "c"].map(|name| Contestant {
        name: name.into(),
        verified: &verified,
    });
    compare(device, &contestants, plan)
}

const TEXT: &str = "softmax bf16 m16 n48";

#[test]
fn contestants_take_turns_and_every_window_has_its_readings() {
    let build = built(TEXT);
    let device = Fake::new(&build.case, Mischief::None, 0);
    let found = race(&device, &build, &plan()).unwrap();
    let order: Vec<(u32, usize)> = found.windows.iter().map(|w| (w.round, w.contestant)).collect();
    assert_eq!(order[..6], [(0, 0), (0, 1), (0, 2), (1, 2), (1, 1), (1, 0)]);
    assert_eq!(order.len(), 18, "5 rounds become 6");
    assert!(
        found
            .windows
            .iter()
            .all(|w| w.launch_us == vec![100.0; 20] && !w.host_bound)
    );
    assert!(found.windows.windows(2).all(|w| w[1].start_us >= w[0].end_us + 30_500));
    assert!(found.windows.iter().filter(|w| w.spot_checked).count() == 6);
    assert!(found.set_bytes > 2 * 4096 && found.sets >= 2);
    let seen: usize = found.windows.iter().map(|w| w.state.readings).sum();
    assert!(seen > 0 && seen < found.readings.len());
    assert_eq!(found.contestants[0].median_us, 100.0);
    let verified = &found.contestants[0].verified;
    assert_eq!((verified.len(), verified[0].problem.to_string().as_str()), (1, TEXT));
    assert_eq!(
        (verified[0].families[0].family, verified[0].families[0].rows_f64),
        (Family::Normal, 16)
    );
    let names: Vec<_> = found
        .ratios
        .iter()
        .map(|r| (r.against.as_str(), r.name.as_str()))
        .collect();
    assert_eq!(names, [("a", "b"), ("a", "c")]);
    assert!(found.ratios.iter().all(|r| r.per_round.len() == 6 && r.estimate == 1.0));
    let again = race(&Fake::new(&build.case, Mischief::None, 0), &build, &plan()).unwrap();
    assert_eq!(again, found);
}

#[test]
fn a_kernel_that_drifts_while_timed_is_caught() {
    let build = built(TEXT);
    let honest = Fake::new(&build.case, Mischief::None, 0);
    race(&honest, &build, &plan()).unwrap();
    let entered = 1 + 3 * 4;
    assert!(honest.launches() > entered);
    for mischief in [Mischief::WrongValue, Mischief::WritesNothing] {
        // From the middle of the windows on.
        let device = Fake::new(&build.case, mischief, honest.launches() / 2);
        let all = TimePlan {
            spot_checks: 100,
            ..plan()
        };
        let found = race(&device, &build, &all);
        assert!(matches!(found, Err(TimeError::WrongWhileTimed { .. })), "{mischief:?}");
    }
    let device = Fake::new(&build.case, Mischief::WritesInput, honest.launches() / 2);
    assert!(matches!(race(&device, &build, &plan()), Err(TimeError::Memory { .. })));
    let device = Fake::new(&build.case, Mischief::OutOfBounds, honest.launches() / 2);
    assert!(matches!(race(&device, &build, &plan()), Err(TimeError::Device(_))));
    // Right on the verified inputs, wrong on the fresh ones.
    let device = Fake::new(&build.case, Mischief::WrongValue, 1);
    assert!(matches!(
        race(&device, &build, &plan()),
        Err(TimeError::WrongOnTimedInputs { .. })
    ));
}

#[test]
fn impossible_times_and_plans_are_refused() {
    let build = built("fwd bf16 b1 s64 h2 d128 full");
    let device = Fake::new(&build.case, Mischief::None, 0);
    let few = TimePlan {
        window_us: 1000.0,
        rounds: 1,
        spot_checks: 0,
        launches: (4, 4),
        ..plan()
    };
    // 4.2 MFLOP at 1 TFLOP/s take 4.2 us.
    device.launch_us.set(4.0);
    let found = race(&device, &build, &few);
    assert!(matches!(found, Err(TimeError::Implausible { .. })), "{found:?}");
    device.launch_us.set(4.5);
    assert!(race(&device, &build, &few).is_ok());
    let nothing: [Contestant<'_, Fake>; 0] = [];
    assert!(matches!(
        compare(&device, &nothing, &few),
        Err(TimeError::NoContestants)
    ));
    for bad in [
        TimePlan {
            window_us: f64::NAN,
            ..plan()
        },
        TimePlan { rounds: 0, ..plan() },
        TimePlan {
            l2_multiple: 1e9,
            ..plan()
        },
    ] {
        assert!(matches!(race(&device, &build, &bad), Err(TimeError::Plan { .. })));
    }
}

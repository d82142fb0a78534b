use super::*;
use crate::measure::{Checkpoint, Ending, Times};
use crate::order::Mode;
use crate::report::testing;
use crate::time::Micros;
use crate::work::Kind;

/// The only verdict whose name contains all these words.
fn find<'a>(verdicts: &'a [Verdict], words: &str) -> &'a Verdict {
    let found: Vec<_> = verdicts.iter().filter(|one| one.name.contains(words)).collect();
    assert_eq!(found.len(), 1, "{words}: {found:#?}");
    found[0]
}

fn outcome(result: &RunResult, words: &str) -> Outcome {
    find(&verdicts(result), words).outcome
}

/// A result with a change.
fn with(result: &RunResult, change: impl FnOnce(&mut RunResult)) -> RunResult {
    let mut changed = result.clone();
    change(&mut changed);
    changed
}

fn times(groups: &[(u64, u64)]) -> Times {
    let mut times = Times::new();
    for &(micros, count) in groups {
        (0..count).for_each(|_| times.record(Micros(micros)));
    }
    times
}

#[test]
fn a_run_by_the_specification_is_green() {
    let result = testing::run(40, 120.0, 600.0, 1);
    let verdicts = verdicts(&result);
    let beside: Vec<_> = verdicts.iter().filter(|one| one.outcome == Outcome::Short).collect();
    assert!(beside.is_empty(), "{beside:#?}");
    let deviations: Vec<_> = verdicts.iter().filter(|one| one.outcome == Outcome::Deviation).collect();
    assert_eq!(deviations.len(), 1, "{deviations:#?}");
    assert_eq!(deviations[0].name, "measurement interval");
    let rate = find(&verdicts, "a minute and warehouse");
    assert!((12.5..13.1).contains(&rate.value.unwrap()), "{rate:?}");
    assert_eq!(find(&verdicts, "New-Order: think times").outcome, Outcome::Held);
    assert_eq!(find(&verdicts, "menu").outcome, Outcome::NotApplicable);
    assert!(verdicts.iter().filter(|one| one.basis == Basis::NotVerified).count() >= 4);
    // Every line has its requirement, and every one except Hardmeter's own has its clause.
    assert!(verdicts
        .iter()
        .all(|one| !one.wanted.is_empty() && (one.clause.is_empty() == (one.basis == Basis::Ours))));
}

#[test]
fn response_times_hold_up_to_their_limit() {
    let base = testing::run(2, 60.0, 60.0, 1);
    let response = |groups: &[(u64, u64)]| {
        let result = with(&base, |result| result.kinds[0].response = times(groups));
        outcome(&result, "New-Order: 90 %")
    };
    assert_eq!(response(&[(5_000_000, 9_000), (6_000_000, 1_000)]), Outcome::Held);
    // One in 10,000 outside is chance, 200 are not.
    assert_eq!(response(&[(5_000_000, 8_999), (6_000_000, 1_001)]), Outcome::Undecided);
    assert_eq!(response(&[(5_000_000, 8_800), (6_000_000, 1_200)]), Outcome::Short);
    assert_eq!(response(&[]), Outcome::Undecided);
    let stock = |micros| {
        let result = with(&base, |result| result.kinds[4].response = times(&[(micros, 100)]));
        outcome(&result, "Stock-Level: 90 %")
    };
    assert_eq!((stock(20_000_000), stock(20_100_000)), (Outcome::Held, Outcome::Short));
    let average = |groups: &[(u64, u64)]| {
        let result = with(&base, |result| result.kinds[1].response = times(groups));
        outcome(&result, "Payment: average")
    };
    assert_eq!(average(&[(1_000, 80), (2_000, 20)]), Outcome::Held);
    // Nine in ten take 1 ms and the tenth 0.9 s: the average is 91 ms, equal within 0.1 s. With 2 s it is 201 ms.
    assert_eq!(average(&[(1_000, 90_000), (900_000, 10_000)]), Outcome::Held);
    assert_eq!(average(&[(1_000, 90_000), (2_000_000, 10_000)]), Outcome::Short);
    assert_eq!(average(&[(1_000, 18), (2_000_000, 2)]), Outcome::Undecided);
}

#[test]
fn the_drivers_own_lag_has_a_limit() {
    let base = testing::run(2, 60.0, 60.0, 1);
    let lag = |groups: &[(u64, u64)]| {
        let result = with(&base, |result| result.kinds[0].lag = times(groups));
        outcome(&result, "New-Order: 99 %")
    };
    assert_eq!(lag(&[(50_000, 9_900), (60_000, 100)]), Outcome::Held);
    assert_eq!(lag(&[(50_000, 9_890), (60_000, 110)]), Outcome::Undecided);
    assert_eq!(lag(&[(50_000, 9_800), (60_000, 200)]), Outcome::Short);
}

#[test]
fn deliveries_are_done_in_time_and_all_of_them() {
    let base = testing::run(2, 60.0, 600.0, 1);
    let delivery = |queued: u64, groups: &[(u64, u64)]| {
        let result = with(&base, |result| {
            result.kinds[3].completed = queued;
            result.delivery = times(groups);
        });
        outcome(&result, "deferred deliveries")
    };
    assert_eq!(delivery(1_000, &[(80_000_000, 900), (90_000_000, 100)]), Outcome::Held);
    assert_eq!(delivery(1_000, &[(80_000_000, 800), (90_000_000, 200)]), Outcome::Short);
    // A delivery that was queued and not completed counts as late.
    assert_eq!(delivery(1_000, &[(1_000_000, 500)]), Outcome::Short);
    assert_eq!(delivery(1_000, &[(1_000_000, 990)]), Outcome::Held);
    let skipped = |districts| {
        outcome(&with(&base, |result| result.delivery_districts = districts), "districts without")
    };
    assert_eq!(skipped((1, 9)), Outcome::Held);
    assert_eq!(skipped((100, 9_900)), Outcome::Held);
    assert_eq!(skipped((300, 9_700)), Outcome::Short);
}

#[test]
fn keying_and_think_times_are_the_specifications_or_ordered_otherwise() {
    let base = testing::run(4, 120.0, 300.0, 1);
    let keying = |micros: u64| {
        let result =
            with(&base, |result| result.kinds[0].keying = times(&[(18_000_000, 1_000), (micros, 1)]));
        outcome(&result, "New-Order: shortest keying")
    };
    assert_eq!((keying(18_000_000), keying(17_900_000)), (Outcome::Held, Outcome::Short));
    let short = with(&base, |result| result.kinds[0].think = times(&[(10_000_000, 10_000)]));
    assert_eq!(outcome(&short, "New-Order: mean think"), Outcome::Short);
    assert_eq!(outcome(&short, "New-Order: think times"), Outcome::Short);
    // With factor 0.5, the same times are twice too long, and the note has the requirement.
    let faster = with(&base, |result| result.order.mode = Mode::Terminals { time_factor: 0.5 });
    assert_eq!(outcome(&faster, "New-Order: shortest keying"), Outcome::Deviation);
    assert_eq!(outcome(&faster, "times as specified"), Outcome::Deviation);
    assert_eq!(outcome(&faster, "New-Order: think times"), Outcome::Short);
}

#[test]
fn a_short_ramp_excuses_think_times_that_could_not_end() {
    // Without a ramp, only short think times end within a minute.
    let cut = testing::run(40, 0.0, 60.0, 1);
    let verdicts = verdicts(&cut);
    let line = find(&verdicts, "New-Order: think times");
    assert!(line.value.unwrap() < 0.001, "{line:?}");
    assert_eq!(line.outcome, Outcome::Undecided, "{line:?}");
    assert!(line.note.contains("ramp"));
}

#[test]
fn what_is_drawn_lies_in_the_auditors_windows() {
    let base = testing::run(4, 60.0, 60.0, 1);
    let of = |words: &str, change: fn(&mut RunResult)| outcome(&with(&base, change), words);
    let lines = |remote, all| {
        let result = with(&base, |result| (result.draws.remote_lines, result.draws.lines) = (remote, all));
        outcome(&result, "order lines from other")
    };
    assert_eq!(lines(9_500, 1_000_000), Outcome::Held);
    assert_eq!(lines(10_500, 1_000_000), Outcome::Held);
    assert_eq!(lines(9_400, 1_000_000), Outcome::Undecided);
    assert_eq!(lines(9_000, 1_000_000), Outcome::Short);
    assert_eq!(
        of("order lines from other", |result| result.order.all_warehouses = 1),
        Outcome::NotApplicable
    );
    let payments = |remote| {
        let result =
            with(&base, |result| (result.draws.remote_payments, result.draws.payments) = (remote, 100_000));
        outcome(&result, "payments of customers")
    };
    assert_eq!(
        (payments(14_000), payments(16_000), payments(17_000)),
        (Outcome::Held, Outcome::Held, Outcome::Short)
    );
    let rolled = |some| {
        let result = with(&base, |result| {
            (result.kinds[0].rolled_back, result.kinds[0].completed) = (some, 1_000_000)
        });
        outcome(&result, "rolled back")
    };
    assert_eq!(
        (rolled(9_000), rolled(11_000), rolled(12_000)),
        (Outcome::Held, Outcome::Held, Outcome::Short)
    );
    let names = |some| {
        let result =
            with(&base, |result| (result.draws.payments_by_name, result.draws.payments) = (some, 100_000));
        outcome(&result, "Payments by last name")
    };
    assert_eq!((names(57_000), names(63_000), names(64_000)), (Outcome::Held, Outcome::Held, Outcome::Short));
    assert_eq!(of("evenly from 5 to 15", |result| result.draws.orders_by_lines = [900; 11]), Outcome::Held);
    assert_eq!(of("evenly from 5 to 15", |result| result.draws.orders_by_lines[3] = 9_000), Outcome::Short);
    let distance = |run, load| {
        let result =
            with(&base, |result| (result.order.constants.last, result.order.load_last) = (run, load));
        outcome(&result, "C-Run")
    };
    assert_eq!(distance(100, Some(165)), Outcome::Held);
    assert_eq!(distance(100, Some(164)), Outcome::Short);
    assert_eq!(distance(196, Some(100)), Outcome::Short);
    assert_eq!(distance(100, Some(219)), Outcome::Held);
    assert_eq!(distance(100, Some(220)), Outcome::Short);
    assert_eq!(distance(100, None), Outcome::Undecided);
}

#[test]
fn the_mix_has_its_minima() {
    let base = testing::run(4, 60.0, 60.0, 1);
    let mix = |counts: [u64; 5]| {
        let result = with(&base, |result| {
            result.kinds.iter_mut().zip(counts).for_each(|(kind, count)| kind.completed = count);
        });
        let verdicts = verdicts(&result);
        [Kind::Payment, Kind::StockLevel]
            .map(|kind| find(&verdicts, &format!("{} of all", kind.name())).outcome)
    };
    assert_eq!(mix([45_000, 43_000, 4_000, 4_000, 4_000]), [Outcome::Held, Outcome::Held]);
    // The Stock-Level share of a tool of today, 3.885 %: chance of 10,000, none of a million.
    assert_eq!(mix([45_110, 43_005, 4_000, 4_000, 3_885])[1], Outcome::Undecided);
    assert_eq!(mix([451_100, 430_050, 40_000, 40_000, 38_850])[1], Outcome::Short);
    assert_eq!(mix([0; 5]), [Outcome::Undecided, Outcome::Undecided]);
}

#[test]
fn scale_and_interval_are_judged_of_terminals_alone() {
    let base = testing::run(40, 120.0, 600.0, 1);
    let rate = |orders: u64| {
        let result = with(&base, |result| result.kinds[0].completed = orders);
        outcome(&result, "a minute and warehouse")
    };
    // 40 warehouses, 10 minutes: 9 per minute are 3,600, 12.86 are 5,144.
    assert_eq!((rate(3_600), rate(5_144)), (Outcome::Held, Outcome::Held));
    assert_eq!((rate(3_500), rate(5_200)), (Outcome::Undecided, Outcome::Undecided));
    assert_eq!((rate(3_000), rate(6_000)), (Outcome::Short, Outcome::Short));
    let closed = with(&base, |result| result.order.mode = Mode::Closed { clients: 16 });
    let lines = verdicts(&closed);
    for words in
        ["a minute and warehouse", "terminals of each", "measurement interval", "New-Order: mean think"]
    {
        assert_eq!(find(&lines, words).outcome, Outcome::NotApplicable);
        assert!(find(&lines, words).note.contains("closed loop"));
    }
    assert_eq!(
        outcome(&with(&base, |result| result.drivers[0].terminals = 399), "terminals of each"),
        Outcome::Short
    );
    let long = with(&base, |result| {
        result.order.interval_seconds = 7200.0;
        result.measured_seconds = 7200.0;
    });
    assert_eq!(outcome(&long, "measurement interval"), Outcome::Held);
    assert_eq!(outcome(&long, "checkpoints"), Outcome::Short);
    let checkpoints = |times: &[f64]| {
        with(&long, |result| {
            result.checkpoints = times.iter().map(|&at| Checkpoint { at, requested: false }).collect();
        })
    };
    assert_eq!(outcome(&checkpoints(&[200.0, 2000.0, 3800.0, 5600.0]), "checkpoints"), Outcome::Held);
    // One of them was in the ramp.
    assert_eq!(outcome(&checkpoints(&[100.0, 2000.0, 3800.0, 5600.0]), "checkpoints"), Outcome::Short);
}

#[test]
fn a_drift_is_told_from_noise() {
    let base = testing::run(2, 60.0, 300.0, 1);
    let steady = |orders: fn(u64) -> u64| {
        let result = with(&base, |result| {
            for (at, second) in result.series.iter_mut().enumerate() {
                second.completed[0] = orders(at as u64);
            }
        });
        outcome(&result, "drift")
    };
    assert_eq!(steady(|_| 100), Outcome::Held);
    assert_eq!(steady(|at| 100 + at % 7), Outcome::Held);
    assert_eq!(steady(|at| 100 + at / 10), Outcome::Short);
    // Alternating between nothing and a lot: no drift is detected, and none could be.
    assert_eq!(steady(|at| if at / 20 % 2 == 0 { 200 } else { 0 }), Outcome::Undecided);
    let brief = with(&base, |result| result.measured_seconds = 50.0);
    assert_eq!(outcome(&brief, "drift"), Outcome::Undecided);
}

#[test]
fn endings_errors_clocks_and_conditions_are_told() {
    let base = testing::run(2, 60.0, 60.0, 1);
    let failed =
        with(&base, |result| result.ending = Ending::Failed { reason: "the server went away".into() });
    let lines = verdicts(&failed);
    assert_eq!(find(&lines, "complete").outcome, Outcome::Short);
    assert_eq!(find(&lines, "complete").note, "the server went away");
    let cut = with(&base, |result| (result.ending, result.measured_seconds) = (Ending::Interrupted, 10.0));
    assert_eq!(outcome(&cut, "complete"), Outcome::Short);
    assert_eq!(outcome(&with(&base, |result| result.kinds[2].failed = 1), "given up"), Outcome::Short);
    let retried = with(&base, |result| result.kinds[2].retried = 5);
    assert_eq!(find(&verdicts(&retried), "given up").outcome, Outcome::Held);
    assert!(find(&verdicts(&retried), "given up").note.contains("5 were tried again"));
    assert_eq!(
        outcome(&with(&base, |result| result.drivers[0].clock_step_seconds = -3.0), "clock"),
        Outcome::Short
    );
    assert_eq!(
        outcome(&with(&base, |result| result.conditions[2].held = Some(false)), "consistency"),
        Outcome::Short
    );
    assert_eq!(
        outcome(&with(&base, |result| result.conditions[10].held = None), "consistency"),
        Outcome::Held
    );
    assert_eq!(outcome(&with(&base, |result| result.conditions.clear()), "consistency"), Outcome::Undecided);
    assert_eq!(summary(&lines[..1]), "1 SHORT");
}

#[test]
fn a_run_that_was_cut_off_in_its_ramp_is_judged_without_panic() {
    let result = with(&testing::run(2, 60.0, 60.0, 1), |result| {
        for kind in &mut result.kinds {
            *kind = crate::measure::KindResult::new(kind.kind);
        }
        (result.measured_seconds, result.draws, result.delivery) = (0.0, Default::default(), Times::new());
        result.delivery_districts = (0, 0);
        result.series.truncate(20);
        result.ending = Ending::Interrupted;
    });
    let lines = verdicts(&result);
    assert!(is_short(&lines));
    assert_eq!(find(&lines, "New-Order: 90 %").outcome, Outcome::Undecided);
    assert_eq!(find(&lines, "a minute and warehouse").outcome, Outcome::Undecided);
}

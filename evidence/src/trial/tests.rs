use super::*;
use crate::Direction;

fn metric(name: &str) -> Metric {
    Metric::new(name, Direction::Less, 0.02)
}

fn guard(name: &str) -> Metric {
    Metric { role: Role::Guards, ..metric(name) }
}

/// Runs a trial to its end; `values` returns the values of a contestant's block.
fn run(plan: Plan, mut values: impl FnMut(usize) -> Vec<f64>) -> Trial {
    let mut trial = Trial::new(plan).unwrap();
    while let Some(contestant) = trial.next() {
        trial.observe(contestant, &values(contestant)).unwrap();
    }
    trial
}

#[test]
fn a_difference_without_noise_takes_seven_rounds() {
    let trial = run(Plan::of_two(vec![metric("ms")], 1), |contestant| vec![[10.0, 9.0][contestant]]);
    assert_eq!((trial.verdict(), trial.rounds()), (Verdict::Better, 7));
    let standing = &trial.standings()[0];
    assert!((standing.metrics[0].change.unwrap() + 0.1).abs() < 1e-9, "{standing:?}");
    assert_eq!((standing.leaning, standing.metrics[0].n), (Verdict::Better, 7));
    let worse = run(Plan::of_two(vec![metric("ms")], 1), |contestant| vec![[9.0, 10.0][contestant]]);
    assert_eq!((worse.verdict(), worse.rounds()), (Verdict::Worse, 7));
    let mut ended = worse;
    assert_eq!(ended.observe(0, &[1.0]), Err(TrialError::Ended));
}

#[test]
fn what_is_below_the_minimum_effect_is_the_same() {
    let trial = run(Plan::of_two(vec![metric("ms")], 1), |contestant| vec![[10.0, 9.9][contestant]]);
    assert_eq!(trial.verdict(), Verdict::Same);
    // Sometimes half a per cent better, sometimes worse.
    let mut flip = 0;
    let trial = run(Plan { most_rounds: 4, ..Plan::of_two(vec![metric("ms")], 1) }, |_| {
        flip += 1;
        vec![10.0 + f64::from(flip % 3)]
    });
    assert_eq!((trial.verdict(), trial.rounds()), (Verdict::Undecided, 4), "four rounds decide nothing");
}

#[test]
fn the_order_is_drawn_anew_and_mirrored() {
    let mut trial = Trial::new(Plan::of_two(vec![metric("ms")], 3)).unwrap();
    let mut first = [0, 0];
    for _ in 0..60 {
        let order = trial.order().to_vec();
        assert!(order == [0, 1, 1, 0] || order == [1, 0, 0, 1], "{order:?}");
        first[order[0]] += 1;
        trial.observe_round(&[vec![None]]).unwrap();
    }
    assert!(first[0] > 15 && first[1] > 15, "{first:?}");
    assert_eq!((trial.rounds(), trial.unusable()), (60, 60));
    let pairs = Plan { design: Design::Pairs, contestants: 3, ..Plan::of_two(vec![metric("ms")], 3) };
    let mut order = Trial::new(pairs).unwrap().order().to_vec();
    order.sort_unstable();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn a_gain_in_one_metric_is_no_gain_if_another_is_worse() {
    let metrics = || vec![metric("cpu"), metric("latency")];
    // 10 % less of one metric, 10 % more of the other: the loss has priority.
    let trial =
        run(Plan::of_two(metrics(), 1), |contestant| [vec![10.0, 10.0], vec![9.0, 11.0]][contestant].clone());
    assert_eq!(trial.verdict(), Verdict::Worse);
    // Both better: averaging costs nothing.
    let trial =
        run(Plan::of_two(metrics(), 1), |contestant| [vec![10.0, 10.0], vec![9.0, 9.0]][contestant].clone());
    assert_eq!((trial.verdict(), trial.rounds()), (Verdict::Better, 7));
    // A metric that only guards never makes a challenger better.
    let plan = Plan::of_two(vec![metric("cpu"), guard("latency")], 1);
    let trial = run(plan.clone(), |contestant| [vec![10.0, 10.0], vec![10.0, 9.0]][contestant].clone());
    assert_eq!(trial.verdict(), Verdict::Undecided);
    let trial = run(plan, |contestant| [vec![10.0, 10.0], vec![10.0, 11.0]][contestant].clone());
    assert_eq!(trial.verdict(), Verdict::Worse);
}

#[test]
fn each_challenger_has_its_verdict() {
    let plan = Plan { contestants: 3, ..Plan::of_two(vec![Metric::new("tps", Direction::More, 0.02)], 1) };
    let trial = run(plan, |contestant| vec![[100.0, 110.0, 90.0][contestant]]);
    let verdicts = [0, 1, 2, 9].map(|contestant| trial.verdict_on(contestant));
    assert_eq!(verdicts, [Verdict::Same, Verdict::Better, Verdict::Worse, Verdict::Undecided]);
    // Two challengers share the level: two more rounds.
    assert_eq!(trial.rounds(), 9);
}

#[test]
fn the_carry_over_of_a_block_is_left_out() {
    let plan = Plan { carry_over_seconds: 2.0, design: Design::Pairs, ..Plan::of_two(vec![metric("ms")], 1) };
    let mut trial = Trial::new(plan).unwrap();
    let sample = |at_seconds, value| TimedSample { at_seconds, values: vec![value] };
    let first = trial.next().unwrap();
    assert_eq!(trial.observe_samples(first, &[sample(1.9, 5.0)]), Err(TrialError::CarryOver(2.0)));
    for contestant in trial.order().to_vec() {
        // In the first two seconds the previous contestant still has effects.
        let value = [10.0, 8.0][contestant];
        let block =
            [sample(0.0, 99.0), sample(1.0, 99.0), sample(2.0, value - 1.0), sample(3.0, value + 1.0)];
        trial.observe_samples(contestant, &block).unwrap();
    }
    let change = trial.standings()[0].metrics[0].change.unwrap();
    assert!((change + 0.2).abs() < 1e-9, "{change}");
}

#[test]
fn linear_drift_cancels_in_a_mirrored_round() {
    let mut speed = 1.0;
    let trial = run(Plan::of_two(vec![metric("ms")], 8), |contestant| {
        speed += 0.3;
        // As logarithms the drift is a straight line.
        vec![f64::exp(speed) * [1.0, 0.95][contestant]]
    });
    assert_eq!((trial.verdict(), trial.rounds()), (Verdict::Better, 7));
}

#[test]
fn unknown_values_are_left_out_of_their_metric_alone() {
    let mut blocks = 0;
    let trial = run(Plan { most_rounds: 2, ..Plan::of_two(vec![metric("cpu"), metric("p99")], 1) }, |_| {
        blocks += 1;
        vec![1.0, if blocks == 3 { 0.0 } else { 1.0 }]
    });
    let rounds: Vec<usize> = trial.standings()[0].metrics.iter().map(|metric| metric.n).collect();
    assert_eq!((rounds, trial.unusable()), (vec![2, 1], 0));
}

#[test]
fn a_trial_goes_on_from_its_json() {
    let mut trial = Trial::new(Plan::of_two(vec![metric("ms")], 5)).unwrap();
    for block in 0..10 {
        let contestant = trial.next().unwrap();
        trial.observe(contestant, &[10.0 + f64::from(block % 4)]).unwrap();
    }
    let json = serde_json::to_string(&trial).unwrap();
    let mut again: Trial = serde_json::from_str(&json).unwrap();
    assert_eq!(again, trial);
    for _ in 0..20 {
        let contestant = trial.next().unwrap();
        assert_eq!(again.next(), Some(contestant));
        trial.observe(contestant, &[10.0]).unwrap();
        again.observe(contestant, &[10.0]).unwrap();
    }
    assert_eq!(again, trial);
}

#[test]
fn what_cannot_be_carried_out_is_refused() {
    let plan = || Plan::of_two(vec![metric("ms")], 1);
    let refused = |plan| Trial::new(plan).unwrap_err().to_string();
    assert_eq!(refused(Plan { contestants: 1, ..plan() }), "a trial needs two contestants or more");
    assert_eq!(refused(Plan::of_two(vec![guard("ms")], 1)), "a trial needs a metric that decides");
    assert_eq!(refused(Plan { level: 0.0, ..plan() }), "a trial needs a level between 0 and 1");
    let mut trial = Trial::new(plan()).unwrap();
    let (next, other) = (trial.next().unwrap(), 1 - trial.next().unwrap());
    assert_eq!(trial.observe(other, &[1.0]), Err(TrialError::Turn { expected: next, observed: other }));
    assert_eq!(trial.observe(next, &[]), Err(TrialError::Values { expected: 1, observed: 0 }));
}

#[test]
fn a_gain_that_is_ruled_out_is_hopeless() {
    let trial = run(Plan { most_rounds: 4, ..Plan::of_two(vec![metric("ms")], 1) }, |_| vec![1.0]);
    assert!(trial.is_hopeless(1) && trial.verdict() == Verdict::Undecided);
    let trial = run(Plan { most_rounds: 4, ..Plan::of_two(vec![metric("ms")], 1) }, |contestant| {
        vec![[1.0, 0.9][contestant]]
    });
    assert!(!trial.is_hopeless(1));
    assert_eq!(trial.leaning(1), Verdict::Better);
}

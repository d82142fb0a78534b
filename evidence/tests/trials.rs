//! Decisions of trials with known truth: the rate of false decisions is bounded, and planted effects are found.

mod noise;

use hardmeter_evidence::{Direction, Metric, Plan, Trial, Verdict};
use noise::{tally, Blocks, Noise};

/// 2,000 trials of a contestant against itself under each noise: at most 5 % may find a difference.
#[test]
fn of_equal_contestants_at_most_one_in_twenty_is_decided_wrongly() {
    for noise in Noise::ALL {
        let tally = tally(noise, 2000, 0.0, 40);
        println!("{}: {tally:?}", noise.name());
        assert!(tally.better + tally.worse <= 100, "{noise:?}: {tally:?}");
        assert_eq!(tally.better + tally.worse + tally.same + tally.undecided, 2000);
    }
}

/// Three metrics and two challengers share one level. The metrics share a part of their noise.
#[test]
fn many_metrics_and_challengers_share_the_level() {
    let metric = |name| Metric::new(name, Direction::Less, 0.02);
    let mut wrong = 0;
    for seed in 0..2000 {
        let metrics = vec![metric("time"), metric("cpu"), metric("p99")];
        let plan = Plan { contestants: 3, most_rounds: 25, ..Plan::of_two(metrics, seed) };
        let mut trial = Trial::new(plan).unwrap();
        let mut blocks = [1, 2, 3].map(|part| Blocks::new(Noise::Bursts, seed * 3 + part));
        while let Some(contestant) = trial.next() {
            let [time, cpu, p99] = blocks.each_mut().map(Blocks::next);
            trial.observe(contestant, &[time, time * cpu, p99]).unwrap();
        }
        let is_wrong = |contestant| matches!(trial.verdict_on(contestant), Verdict::Better | Verdict::Worse);
        wrong += u32::from([1, 2].into_iter().any(is_wrong));
    }
    println!("{wrong} of 2000");
    assert!(wrong <= 100, "{wrong} of 2000");
}

/// Larger planted effects and longer trials give more decisions, and never the opposite verdict.
#[test]
fn planted_effects_are_found() {
    for noise in [Noise::Normal, Noise::HeavyTails, Noise::Drift, Noise::Recorded] {
        let of = |effect, rounds| tally(noise, 200, effect, rounds);
        let (two, five, ten) = (of(0.02, 40), of(0.05, 40), of(0.10, 40));
        println!("{}: 2 %: {two:?}, 5 %: {five:?}, 10 %: {ten:?}", noise.name());
        assert!(
            two.better <= five.better && five.better <= ten.better,
            "{noise:?}: {two:?} {five:?} {ten:?}"
        );
        assert!(ten.better >= 100, "{noise:?}: {ten:?}");
        assert!(of(0.10, 10).better <= ten.better, "{noise:?}");
        for tally in [two, five, ten] {
            assert!(tally.worse <= 10, "{noise:?}: {tally:?}");
        }
    }
    // 4 % of noise per block are 4 % for a difference of the means of two: 10 % are two and a half times that.
    assert!(tally(Noise::Normal, 200, 0.10, 40).better >= 190);
}

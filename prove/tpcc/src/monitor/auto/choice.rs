//! The rule, and the choice among what was measured.

use hardmeter_evidence::{Design, Direction, Metric, Plan, Trial, Verdict};
use serde::Serialize;

/// Within this share of the best, a number of connections is as good.
const AS_GOOD: f64 = 0.02;

/// A shortfall above this is not as good, however wide the spread.
const TOO_LITTLE: f64 = 0.05;

/// The rule of effective multiplicity, applied.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Rule {
    /// m of a backend, measured with as many connections as CPUs.
    pub multiplicity: f64,
    /// CPUs of this machine.
    pub cpus: u32,
    /// 2 x CPUs / m.
    pub needed: u32,
}

impl Rule {
    /// The rule for backends that use a CPU for this share of the time that they have work.
    pub fn of(multiplicity: f64, cpus: u32) -> Rule {
        let needed = (2.0 * f64::from(cpus) / multiplicity.clamp(1e-3, 1.0)).round() as u32;
        Rule { multiplicity, cpus, needed }
    }

    /// Numbers to try: from a quarter of `needed` to four times as many.
    pub fn around(self, most: u32) -> Vec<u32> {
        let wanted = [self.needed / 4, self.needed / 2, self.needed, self.needed * 2, self.needed * 4];
        let mut counts = wanted.map(|count| count.clamp(1, most)).to_vec();
        counts.dedup();
        counts
    }
}

/// Throughputs at a number of connections, by round; each round measures all numbers.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rounds {
    pub connections: u32,
    pub throughputs: Vec<f64>,
}

impl Rounds {
    pub fn mean(&self) -> f64 {
        mean(&self.throughputs)
    }
}

/// The one with the highest mean.
pub(super) fn best(all: &[Rounds]) -> Option<&Rounds> {
    all.iter().max_by(|one, other| one.mean().total_cmp(&other.mean()))
}

/// The smallest number of connections that is as good as the best, compared round by round, so that drift of the
/// machine between rounds does not matter.
pub(super) fn choose(all: &[Rounds]) -> Option<u32> {
    let best = best(all)?;
    let good = all.iter().filter(|candidate| as_good(candidate, best));
    good.map(|candidate| candidate.connections).min()
}

/// A paired trial by round. If it is undecided, a number is as good if it is typically within [`AS_GOOD`], or
/// within [`TOO_LITTLE`] and ahead in some rounds.
fn as_good(candidate: &Rounds, best: &Rounds) -> bool {
    if candidate.connections == best.connections {
        return true;
    }
    let metric = Metric::new("New-Orders a minute", Direction::More, AS_GOOD);
    let plan = Plan { design: Design::Pairs, most_rounds: u32::MAX, ..Plan::of_two(vec![metric], 0) };
    let mut trial = Trial::new(plan).expect("two contestants and a metric");
    for (one, best) in candidate.throughputs.iter().zip(&best.throughputs) {
        let is_known = *one > 0.0 && *best > 0.0;
        let ratio = is_known.then(|| (one / best).ln());
        // After the verdict, further rounds change nothing.
        let _ended = trial.observe_round(&[vec![ratio]]);
    }
    match trial.verdict() {
        Verdict::Better | Verdict::Same => true,
        Verdict::Worse => false,
        Verdict::Undecided => {
            let gain = trial.gains(1, 0).and_then(|gains| gains.estimate());
            let behind = gain.map_or(1.0, |gain| -gain.exp_m1());
            behind <= AS_GOOD || (behind <= TOO_LITTLE && trial.leaning(1) != Verdict::Worse)
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_articles_example() {
        // m = 0.2: at least five processes a CPU, in practice twice as many.
        assert_eq!(Rule::of(0.2, 1).needed, 10);
        assert_eq!(Rule::of(0.2, 128).needed, 1280);
        assert_eq!(Rule::of(0.5, 2).around(128), [2, 4, 8, 16, 32]);
        assert_eq!(Rule::of(1.0, 1).around(128), [1, 2, 4, 8]);
        assert_eq!(Rule::of(0.01, 8).around(100), [100]);
    }

    fn rounds(connections: u32, throughputs: &[f64]) -> Rounds {
        Rounds { connections, throughputs: throughputs.to_vec() }
    }

    #[test]
    fn the_smallest_that_is_as_good_as_the_best_is_chosen() {
        // The measurements of docs/design/prove.md, 4: the knee is at 16.
        let all = [
            rounds(4, &[19.2, 19.0, 19.4]),
            rounds(8, &[25.2, 25.0, 25.6]),
            rounds(16, &[32.4, 32.0, 32.2]),
            rounds(32, &[32.5, 32.6, 32.4]),
            rounds(64, &[16.6, 16.0, 16.9]),
        ];
        assert_eq!(best(&all).unwrap().connections, 32);
        assert_eq!(choose(&all), Some(16));
    }

    #[test]
    fn drift_and_noise_do_not_decide_but_a_real_difference_does() {
        // The machine slows down by half from round to round; 8 always has exactly 97 % of 16.
        let slower = [100.0, 50.0, 25.0];
        let eight = slower.map(|value| value * 0.97);
        assert_eq!(choose(&[rounds(8, &eight), rounds(16, &slower)]), Some(16));
        // The same average distance, but alternately ahead.
        assert_eq!(choose(&[rounds(8, &[100.0, 91.0, 100.0]), rounds(16, &[95.0, 103.0, 102.0])]), Some(8));
        // Below the limit, the spread does not matter.
        assert_eq!(choose(&[rounds(8, &[100.0, 60.0, 100.0]), rounds(16, &[95.0, 100.0, 105.0])]), Some(16));
        assert_eq!(choose(&[rounds(3, &[7.0])]), Some(3));
        assert_eq!(choose(&[]), None);
    }
}

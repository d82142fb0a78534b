//! Whether numbers were drawn by NURand (clause 2.1.6), with an unknown constant C.

use super::chance::chi_square;

/// NURand(A, x, y), counted from x: value 0 is x.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nurand {
    /// A: one less than a power of two.
    pub a: u32,
    /// x.
    pub first: u32,
    /// y.
    pub last: u32,
}

/// The best fit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Fit {
    /// The constant that makes the counts most probable.
    pub c: u32,
    /// The p-value of the counts under it; `None`: too few counts.
    pub p: Option<f64>,
}

impl Nurand {
    /// Number of values.
    pub(super) fn values(self) -> usize {
        (self.last - self.first + 1) as usize
    }

    /// The exact probabilities of its values for C = 0. Another C rotates them: value v becomes v + C.
    pub(super) fn shares(self) -> Vec<f64> {
        let top = (self.last | self.a).next_power_of_two() as usize * 2;
        let mut weight = vec![0.0f64; top];
        weight[self.first as usize..=self.last as usize].fill(1.0 / self.values() as f64);
        // OR with a uniform number of this many bits, bit by bit: half of the weight stays, half moves to the value
        // with the bit set.
        for bit in 0..self.a.count_ones() {
            for value in 0..top {
                if value & (1 << bit) == 0 {
                    let half = weight[value] / 2.0;
                    weight[value] = half;
                    weight[value | (1 << bit)] += half;
                }
            }
        }
        let mut shares = vec![0.0; self.values()];
        for (value, weight) in weight.into_iter().enumerate() {
            shares[value % self.values()] += weight;
        }
        shares
    }

    /// The constant that counts of its values, from x to y, were most probably drawn with, and whether they were drawn so at all.
    pub(super) fn fit(self, counts: &[u64]) -> Fit {
        let values = self.values();
        debug_assert_eq!(counts.len(), values);
        let shares = self.shares();
        let drawn: Vec<(usize, f64)> =
            (0..values).filter(|&at| counts[at] > 0).map(|at| (at, counts[at] as f64)).collect();
        let likelihood = |logarithms: &[f64], c: u32| -> f64 {
            drawn.iter().map(|&(at, n)| n * logarithms[(at + values - c as usize % values) % values]).sum()
        };
        let best = |logarithms: &[f64], candidates: &mut dyn Iterator<Item = u32>| {
            let rated = candidates.map(|c| (likelihood(logarithms, c), c));
            rated.max_by(|one, other| one.0.total_cmp(&other.0)).map_or(0, |(_, c)| c)
        };
        let logarithms =
            |shares: &[f64]| -> Vec<f64> { shares.iter().map(|share| share.max(1e-12).ln()).collect() };
        // For a few thousand values, try all constants; for more, try every 32nd against smoothed shares, then
        // those near the best.
        let step = if values * self.a as usize > 10_000_000 { 32 } else { 1 };
        let coarse =
            best(&logarithms(&smoothed(&shares, step as usize)), &mut (0..=self.a).step_by(step as usize));
        let around = coarse.saturating_sub(2 * step)..=(coarse + 2 * step).min(self.a);
        let c = best(&logarithms(&shares), &mut around.into_iter());
        Fit { c, p: self.probability(counts, &shares, c) }
    }

    /// Whether counts are as uneven as draws with a few constants: the most frequent tenth has at least half of the
    /// excess that it has with one constant. Even draws, or a new C for each draw, do not have it.
    pub(super) fn is_like_several(self, counts: &[u64]) -> bool {
        let tenth = self.values() / 10;
        let top = |mut shares: Vec<f64>| -> f64 {
            shares.sort_unstable_by(|one, other| other.total_cmp(one));
            shares[..tenth].iter().sum()
        };
        let n: u64 = counts.iter().sum();
        let even = self.values() as f64;
        let seen = top(counts.iter().map(|&count| count as f64 / n.max(1) as f64).collect());
        // The selection bias of the top tenth of even draws: 1.75 deviations of each value's count.
        let by_chance = 0.1 + 0.1 * 1.75 * (even / n.max(1) as f64).sqrt();
        let one = top(self.shares());
        seen - by_chance >= (one - 0.1) / 2.0
    }

    /// Chi-square over about fifty classes of values of similar probability, so that each class has many rows.
    fn probability(self, counts: &[u64], shares: &[f64], c: u32) -> Option<f64> {
        const CLASSES: f64 = 50.0;
        let values = self.values();
        let mut order: Vec<usize> = (0..values).collect();
        order.sort_by(|&one, &other| shares[other].total_cmp(&shares[one]));
        let (mut classes, mut expected) = (vec![0u64], vec![0.0f64]);
        for value in order {
            if expected[expected.len() - 1] >= 1.0 / CLASSES {
                classes.push(0);
                expected.push(0.0);
            }
            let class = classes.len() - 1;
            classes[class] += counts[(value + c as usize) % values];
            expected[class] += shares[value];
        }
        chi_square(&classes, &expected)
    }
}

/// The mean over this number of neighbours on each side, wrapped at the ends.
fn smoothed(shares: &[f64], step: usize) -> Vec<f64> {
    if step < 2 {
        return shares.to_vec();
    }
    let values = shares.len();
    let mut sum: f64 = (0..2 * step + 1).map(|at| shares[(at + values - step) % values]).sum();
    (0..values)
        .map(|at| {
            let mean = sum / (2 * step + 1) as f64;
            sum += shares[(at + step + 1) % values] - shares[(at + values - step) % values];
            mean
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Part, Stream, A_CUSTOMER, A_ITEM, A_LAST};

    const ITEMS: Nurand = Nurand { a: A_ITEM, first: 1, last: 100_000 };
    const CUSTOMERS: Nurand = Nurand { a: A_CUSTOMER, first: 1, last: 3_000 };
    const NAMES: Nurand = Nurand { a: A_LAST, first: 0, last: 999 };

    fn drawn(nurand: Nurand, c: u32, n: u32) -> Vec<u64> {
        let mut stream = Stream::of(11, Part::OrderLine, 3);
        let mut counts = vec![0; nurand.values()];
        for _ in 0..n {
            counts[(stream.nurand(nurand.a, c, nurand.first..=nurand.last) - nurand.first) as usize] += 1;
        }
        counts
    }

    #[test]
    fn shares_are_those_of_the_formula() {
        for nurand in [ITEMS, CUSTOMERS, NAMES] {
            let sum: f64 = nurand.shares().iter().sum();
            assert!((sum - 1.0).abs() < 1e-9, "{sum}");
        }
        // By hand: A = 1, values 1 to 3. OR of 0 or 1 with 1, 2, 3: 1 1 | 2 3 | 3 3. Then modulo 3: 1 of 2, 2 of 1, 0 of 3.
        let shares = Nurand { a: 1, first: 1, last: 3 }.shares();
        for (share, expected) in shares.iter().zip([3.0 / 6.0, 2.0 / 6.0, 1.0 / 6.0]) {
            assert!((share - expected).abs() < 1e-12, "{shares:?}");
        }
    }

    #[test]
    fn the_constant_is_found_and_the_distribution_is_believed() {
        for (nurand, c, n) in
            [(ITEMS, 4_711, 200_000), (ITEMS, 0, 50_000), (CUSTOMERS, 77, 20_000), (NAMES, 207, 20_000)]
        {
            let fit = nurand.fit(&drawn(nurand, c, n));
            assert_eq!(fit.c, c, "of {nurand:?}");
            assert!(fit.p.unwrap() >= 0.001, "{nurand:?}: {fit:?}");
        }
    }

    #[test]
    fn even_draws_and_two_constants_are_no_nurand() {
        for nurand in [ITEMS, CUSTOMERS, NAMES] {
            let even = drawn(Nurand { a: 0, ..nurand }, 0, 50_000);
            assert!(nurand.fit(&even).p.unwrap() < 1e-6, "{nurand:?}");
            let mixed: Vec<u64> = drawn(nurand, 3, 20_000)
                .iter()
                .zip(drawn(nurand, 90, 20_000))
                .map(|(one, two)| one + two)
                .collect();
            assert!(nurand.fit(&mixed).p.unwrap() < 1e-6, "{nurand:?}");
            assert!(!nurand.is_like_several(&even) && nurand.is_like_several(&mixed), "{nurand:?}");
        }
        assert_eq!(CUSTOMERS.fit(&drawn(CUSTOMERS, 1, 50)).p, None, "fifty tell nothing");
    }
}

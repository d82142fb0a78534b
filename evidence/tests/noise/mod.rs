//! Models of machine noise: a block's duration as a factor of its undisturbed duration. Shared by the tests and the
//! examples.

use hardmeter_evidence::{Coin, Direction, Metric, Plan, Trial, Verdict};

/// A kind of noise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Noise {
    /// Normal, 4 % a block.
    Normal,
    /// 2 % per block, and every sixth block up to twice as long: practically infinite variance.
    HeavyTails,
    /// 2 % a block, and levels that change by up to 30 % every twenty blocks or so.
    Steps,
    /// 2 % per block, and occasional bursts of three to ten blocks in which a neighbour takes a quarter.
    Bursts,
    /// 3 % a block, and 1 % slower from block to block.
    Drift,
    /// 3 % a block, and a wave of 20 % with a period of nine blocks.
    Wave,
    /// Block times of a program that spins, recorded on a virtual machine with two shared processors.
    Recorded,
}

impl Noise {
    /// All of them.
    pub const ALL: [Noise; 7] = [
        Noise::Normal,
        Noise::HeavyTails,
        Noise::Steps,
        Noise::Bursts,
        Noise::Drift,
        Noise::Wave,
        Noise::Recorded,
    ];

    /// Its display name.
    pub fn name(self) -> &'static str {
        match self {
            Noise::Normal => "normal, 4 %",
            Noise::HeavyTails => "heavy tails",
            Noise::Steps => "steps",
            Noise::Bursts => "bursts of neighbours",
            Noise::Drift => "drift",
            Noise::Wave => "wave",
            Noise::Recorded => "this machine, recorded",
        }
    }
}

/// Noise, block by block.
pub struct Blocks {
    noise: Noise,
    coin: Coin,
    at: usize,
    level: f64,
    burst: usize,
    recorded: Vec<f64>,
}

impl Blocks {
    /// An independent sequence of noise for each seed.
    pub fn new(noise: Noise, seed: u64) -> Blocks {
        let mut coin = Coin::new(seed.wrapping_mul(0x5851_f42d_4c95_7f2d) ^ 0xb10c);
        let recorded = if noise == Noise::Recorded { recorded() } else { Vec::new() };
        let at = (coin.uniform() * recorded.len().max(1) as f64) as usize;
        Blocks { noise, coin, at, level: 0.0, burst: 0, recorded }
    }

    /// The next block's factor.
    pub fn next(&mut self) -> f64 {
        self.at += 1;
        let at = self.at as f64;
        match self.noise {
            Noise::Normal => 0.04 * self.normal(),
            Noise::HeavyTails => {
                let burst = if self.coin.uniform() < 1.0 / 6.0 { 0.7 * self.coin.uniform() } else { 0.0 };
                burst + 0.02 * self.normal()
            }
            Noise::Steps => {
                if self.coin.uniform() < 0.05 {
                    self.level = 0.3 * (2.0 * self.coin.uniform() - 1.0);
                }
                self.level + 0.02 * self.normal()
            }
            Noise::Bursts => {
                if self.burst == 0 && self.coin.uniform() < 0.03 {
                    self.burst = 3 + (8.0 * self.coin.uniform()) as usize;
                }
                let taken = if self.burst > 0 { 0.25 } else { 0.0 };
                self.burst = self.burst.saturating_sub(1);
                taken + 0.02 * self.normal()
            }
            Noise::Drift => 0.01 * at + 0.03 * self.normal(),
            Noise::Wave => 0.2 * (at * std::f64::consts::TAU / 9.0).sin() + 0.03 * self.normal(),
            Noise::Recorded => self.recorded[self.at % self.recorded.len()].ln(),
        }
        .exp()
    }

    /// Normal, with a deviation of 1 (Box and Muller).
    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.coin.uniform()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.coin.uniform()).cos()
    }
}

/// Lines of `{"us":20313.5}`: a block's duration in microseconds, as `record_noise` writes them.
fn recorded() -> Vec<f64> {
    let lines = include_str!("machine.jsonl").lines();
    let block = |line: &str| line.strip_prefix("{\"us\":")?.strip_suffix('}')?.parse::<f64>().ok();
    lines.map(|line| block(line).unwrap_or_else(|| panic!("machine.jsonl: {line}"))).collect()
}

/// A trial of durations in which the challenger takes `effect` less (0.05: 5 %) than the noise gives.
pub fn trial(noise: Noise, seed: u64, effect: f64, rounds: u32) -> Trial {
    let metric = Metric::new("time", Direction::Less, 0.02);
    let plan = Plan { most_rounds: rounds, ..Plan::of_two(vec![metric], seed) };
    let mut trial = Trial::new(plan).expect("a plan that can be carried out");
    let mut blocks = Blocks::new(noise, seed);
    while let Some(contestant) = trial.next() {
        let factor = if contestant == 1 { 1.0 - effect } else { 1.0 };
        trial.observe(contestant, &[blocks.next() * factor]).expect("its turn");
    }
    trial
}

/// Verdict counts of several trials, and the median number of rounds of decided ones.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub better: usize,
    pub worse: usize,
    pub same: usize,
    pub undecided: usize,
    pub median_rounds: Option<u32>,
}

/// Trials of seeds 0, 1, 2 ...
pub fn tally(noise: Noise, trials: u64, effect: f64, rounds: u32) -> Tally {
    let (mut tally, mut took) = (Tally::default(), Vec::new());
    for seed in 0..trials {
        let trial = trial(noise, seed, effect, rounds);
        let count = match trial.verdict() {
            Verdict::Better => &mut tally.better,
            Verdict::Worse => &mut tally.worse,
            Verdict::Same => &mut tally.same,
            Verdict::Undecided => &mut tally.undecided,
        };
        *count += 1;
        if trial.verdict() != Verdict::Undecided {
            took.push(trial.rounds());
        }
    }
    took.sort_unstable();
    tally.median_rounds = took.get(took.len() / 2).copied();
    tally
}

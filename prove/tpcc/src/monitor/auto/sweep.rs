//! Legs in rounds, and what they show.

use super::super::Sources;
use super::choice::{best, choose, Rounds, Rule};
use super::leg::{Block, Course, Leg};
use crate::backend::Backends;
use crate::error::TpccError;
use crate::measure::Times;
use crate::observe::{Cpus, Process};
use crate::order::RunOrder;
use hardmeter_evidence::Coin;
use hardmeter_session::{Progress, Stop};
use serde::Serialize;

/// Numbers of connections to try without a rule.
const EVERYWHERE: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The extent of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Numbers of connections to measure in addition to those of the rule; may be empty.
    pub counts: Vec<u32>,
    /// Number of rounds.
    pub rounds: u32,
    /// Seconds of a measurement, behind its ramp.
    pub leg_seconds: f64,
    /// Seconds of the ramp; 0.02 s are added per connection, since server processes fill their caches one after the
    /// other.
    pub ramp_seconds: f64,
    /// Maximum number of connections, except for those in `counts`.
    pub most: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { counts: Vec::new(), rounds: 3, leg_seconds: 2.0, ramp_seconds: 0.5, most: 128 }
    }
}

/// The result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sweep {
    /// The number of connections to use: the smallest one that is as good as the best of those around the rule's.
    pub chosen: u32,
    /// The rule, if the backends' CPU time was available.
    pub rule: Option<Rule>,
    /// Points in ascending number of connections.
    pub points: Vec<Point>,
    /// Warnings: for example numbers that the server refused.
    pub remarks: Vec<String>,
}

/// The results at a number of connections.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// P, equal to the number of clients without think time.
    pub connections: u32,
    /// New-Orders per minute, the mean of its legs.
    pub throughput: f64,
    /// New-Orders per minute of each leg.
    pub throughputs: Vec<f64>,
    /// Relative to the best, which is 1.
    pub of_best: f64,
    /// CPU seconds of the server per 1000 New-Orders, if known.
    pub server_cpu: Option<f64>,
    /// CPU seconds of the driver per 1000 New-Orders.
    pub driver_cpu: f64,
    /// Effective multiplicity of a backend, if known.
    pub multiplicity: Option<f64>,
    /// Milliseconds that half of the New-Orders do not exceed, and 99 %.
    pub p50_ms: f64,
    /// 99th percentile of the response time in ms.
    pub p99_ms: f64,
    /// Transactions that were given up.
    pub failed: u64,
    /// Whether it is one of those that `chosen` was chosen from.
    pub candidate: bool,
}

impl Sweep {
    /// The best of all.
    pub fn best(&self) -> &Point {
        let best = self.points.iter().max_by(|one, other| one.throughput.total_cmp(&other.throughput));
        best.expect("a sweep has points")
    }

    /// The one that was chosen.
    pub fn chosen(&self) -> &Point {
        let chosen = self.points.iter().find(|point| point.connections == self.chosen);
        chosen.expect("what was chosen was measured")
    }
}

/// Finds the number of connections for `--connections auto`. `None` if `stop` was requested. It runs transactions
/// and changes the database.
///
/// # Errors
///
/// [`TpccError`] if a measured run cannot begin.
pub fn find(
    order: &RunOrder,
    backends: &dyn Backends,
    server: Option<Process>,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Sweep>, TpccError> {
    sweep(order, backends, server, &Settings::default(), stop, progress)
}

/// Measures numbers of connections, and reports which one [`find`] would choose. `None` if `stop` was requested.
///
/// # Errors
///
/// [`TpccError`] if a measured run cannot begin.
pub fn sweep(
    order: &RunOrder,
    backends: &dyn Backends,
    server: Option<Process>,
    settings: &Settings,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Sweep>, TpccError> {
    swept(order, backends, &crate::terminals::source, server, settings, stop, progress)
}

/// [`sweep`], with one's own terminals.
pub(super) fn swept(
    order: &RunOrder,
    backends: &dyn Backends,
    sources: &Sources,
    server: Option<Process>,
    settings: &Settings,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Option<Sweep>, TpccError> {
    let course = Course { order, backends, sources, server, settings, stop };
    let coin = Coin::new(order.seed);
    let mut field = Field { course, progress, legs: Vec::new(), number: 0, coin, refused: None };
    field.run(settings)
}

/// All legs so far.
struct Field<'a> {
    course: Course<'a>,
    progress: &'a dyn Progress,
    legs: Vec<(u32, Vec<Block>)>,
    number: u32,
    coin: Coin,
    /// The smallest number of connections that the server refused, and why.
    refused: Option<(u32, String)>,
}

impl Field<'_> {
    fn run(&mut self, settings: &Settings) -> Result<Option<Sweep>, TpccError> {
        let cpus = Cpus::available().count().max(1) as u32;
        self.progress.phase("measuring the effective multiplicity", 1);
        let multiplicity = match self.course.leg(self.number, cpus) {
            Ok(Some(leg)) => leg.block.multiplicity,
            Ok(None) => return Ok(None),
            // The server may not allow this number; try fewer.
            Err(_) if cpus > 1 => None,
            Err(error) => return Err(error),
        };
        self.progress.advance(1);
        let rule = multiplicity.map(|multiplicity| Rule::of(multiplicity, cpus));
        let mut candidates = match rule {
            Some(rule) => rule.around(settings.most),
            None => EVERYWHERE.into_iter().filter(|&count| count <= settings.most).collect(),
        };
        let mut counts: Vec<u32> = candidates.iter().chain(&settings.counts).copied().collect();
        counts.sort_unstable();
        counts.dedup();
        if self.measure(&counts, settings.rounds)?.is_none() {
            return Ok(None);
        }
        // If the best is at an edge, extend the range.
        while let Some(next) = self.beyond(&candidates, settings.most) {
            candidates.push(next);
            if !self.legs.iter().any(|(count, _)| *count == next)
                && self.measure(&[next], settings.rounds)?.is_none()
            {
                return Ok(None);
            }
        }
        Ok(Some(self.result(rule, &candidates)))
    }

    /// Rounds over all numbers, each in a new random order, so that drift favours none. `None`: stop requested.
    fn measure(&mut self, counts: &[u32], rounds: u32) -> Result<Option<()>, TpccError> {
        self.progress.phase("trying numbers of connections", u64::from(rounds) * counts.len() as u64);
        let mut failure = None;
        for _ in 0..rounds {
            let mut counts = counts.to_vec();
            self.coin.shuffle(&mut counts);
            for count in counts {
                self.progress.advance(1);
                if self.refused.as_ref().is_some_and(|(refused, _)| count >= *refused) {
                    continue;
                }
                self.number += 1;
                match self.course.leg(self.number, count) {
                    Ok(Some(leg)) => self.note(leg),
                    Ok(None) => return Ok(None),
                    // The server has a limit; smaller numbers may work.
                    Err(error) => {
                        self.refused = Some((count, error.to_string()));
                        self.legs.retain(|(other, _)| *other < count);
                        failure = Some(error);
                    }
                }
            }
        }
        match failure {
            Some(error) if self.legs.is_empty() => Err(error),
            _ => Ok(Some(())),
        }
    }

    fn note(&mut self, leg: Leg) {
        match self.legs.iter_mut().find(|(count, _)| *count == leg.connections) {
            Some((_, legs)) => legs.push(leg.block),
            None => self.legs.push((leg.connections, vec![leg.block])),
        }
    }

    /// The next number to try if the best candidate is the largest or the smallest.
    fn beyond(&self, candidates: &[u32], most: u32) -> Option<u32> {
        let rounds = self.rounds(candidates);
        let best = best(&rounds)?.connections;
        let largest = rounds.iter().map(|rounds| rounds.connections).max()?;
        let smallest = rounds.iter().map(|rounds| rounds.connections).min()?;
        let limit = self.refused.as_ref().map_or(most, |(refused, _)| most.min(refused - 1));
        if best == largest && best * 2 <= limit {
            return Some(best * 2);
        }
        (best == smallest && best > 1).then_some(best / 2)
    }

    fn rounds(&self, candidates: &[u32]) -> Vec<Rounds> {
        let measured = self.legs.iter().filter(|(count, _)| candidates.contains(count));
        measured
            .map(|(count, legs)| Rounds {
                connections: *count,
                throughputs: legs.iter().map(|leg| leg.throughput).collect(),
            })
            .collect()
    }

    fn result(&mut self, rule: Option<Rule>, candidates: &[u32]) -> Sweep {
        let chosen = choose(&self.rounds(candidates)).expect("the smallest number was measured");
        self.legs.sort_by_key(|(count, _)| *count);
        let mut points: Vec<Point> = self.legs.iter().map(|(count, legs)| point(*count, legs)).collect();
        let best = points.iter().map(|point| point.throughput).fold(0.0, f64::max);
        for point in &mut points {
            point.of_best = point.throughput / best;
            point.candidate = candidates.contains(&point.connections);
        }
        let mut remarks = Vec::new();
        if rule.is_none() {
            remarks.push(
                "the backends' CPU time cannot be seen from here: there is no effective multiplicity, and the sweep \
                 alone decided"
                    .into(),
            );
        }
        if let Some((count, why)) = &self.refused {
            remarks.push(format!("{count} connections and more were not measured: {why}"));
        }
        Sweep { chosen, rule, points, remarks }
    }
}

fn point(connections: u32, legs: &[Block]) -> Point {
    let mut response = Times::new();
    for leg in legs {
        response.add(&leg.response);
    }
    let thousands = legs.iter().map(|leg| leg.new_orders).sum::<u64>() as f64 / 1000.0;
    let all = |value: &dyn Fn(&Block) -> Option<f64>| legs.iter().map(value).sum::<Option<f64>>();
    let quantile = |share| response.quantile(share).map_or(0.0, |time| time.as_seconds() * 1e3);
    let throughputs: Vec<f64> = legs.iter().map(|leg| leg.throughput).collect();
    Point {
        connections,
        throughput: throughputs.iter().sum::<f64>() / legs.len() as f64,
        throughputs,
        of_best: 0.0,
        server_cpu: all(&|leg| leg.server_cpu).map(|seconds| seconds / thousands),
        driver_cpu: legs.iter().map(|leg| leg.driver_cpu).sum::<f64>() / thousands,
        multiplicity: all(&|leg| leg.multiplicity).map(|sum| sum / legs.len() as f64),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        failed: legs.iter().map(|leg| leg.failed).sum(),
        candidate: false,
    }
}

//! Views of the analyzer's state: a live table, a page, OpenMetrics. All use [`State`], which the daemon
//! writes as a file: viewers do not disturb it.
//!
//! ```text
//! analyzer-state.json ──> rows ──┬──> top      a table in the terminal
//!                                ├──> page     one HTML file: kinds, which slows which down, the guard's results
//!                                ├──> metrics  OpenMetrics text
//!                                └──> serve    the page and the metrics over HTTP, on loopback only
//! ```
//!
//! Labels come from requests, so from untrusted clients: they are shown on one line, without control
//! characters, and cut.

pub mod metrics;
pub mod page;
pub mod serve;
#[cfg(test)]
mod testing;
pub mod top;
mod words;

use crate::model::{CpuSet, Estimate, KindProfile, KindRef, Placement};
use crate::state::State;

/// The order of a list of kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Most processor time first.
    #[default]
    Cpu,
    /// Most sections a second first.
    Rate,
    /// Largest replaced share of L2 first.
    Damage,
    /// Largest slowdown by polluters first.
    Suffering,
    /// Highest cost to other kinds a second first.
    Harm,
}

/// A kind in a view.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// Its measurements.
    pub profile: &'a KindProfile,
    /// Its application's name.
    pub app: &'a str,
    /// Own time of a section, in microseconds.
    pub micros: Option<Estimate>,
    /// Its cost to the next section on the processor, in microseconds.
    pub harm: Option<Estimate>,
    /// Its placement, if any.
    pub placement: Option<&'a Placement>,
}

/// All kinds.
pub fn rows(state: &State, order: Order) -> Vec<Row<'_>> {
    let workload = &state.workload;
    let cycles_per_micro = workload.cycles_per_second as f64 / 1e6;
    let in_micros =
        |cycles: Estimate| (cycles_per_micro > 0.0).then(|| scaled(cycles, 1.0 / cycles_per_micro));
    let mut rows: Vec<Row<'_>> = workload
        .kinds
        .iter()
        .map(|profile| Row {
            profile,
            app: app_name(state, profile.kind),
            micros: profile.cycles.and_then(in_micros),
            harm: harm(&workload.transitions, profile.kind).and_then(in_micros),
            placement: state.plan.placements.iter().find(|placement| placement.kind == profile.kind),
        })
        .collect();
    let key = |row: &Row<'_>| -> f64 {
        let mean = |estimate: Option<Estimate>| estimate.map_or(f64::NEG_INFINITY, |estimate| estimate.mean);
        match order {
            Order::Cpu => row.profile.share,
            Order::Rate => row.profile.rate,
            Order::Damage => mean(row.profile.displaced),
            Order::Suffering => mean(row.profile.slowdown),
            Order::Harm => mean(row.harm) * row.profile.rate,
        }
    };
    // A stable sort: equal kinds stay in the order of their ids, so lines do not jump.
    rows.sort_by(|a, b| key(b).total_cmp(&key(a)));
    rows
}

/// The time slice of each kind that has one or whose requests wait for places, the shortest first: "slice 0.1 ms: postgres select ... (takes 60 us)".
pub fn slices(state: &State) -> Vec<String> {
    let mut placements: Vec<&Placement> =
        state.plan.placements.iter().filter(|placement| placement.slice_us != 0 || placement.admit).collect();
    placements.sort_by_key(|placement| (placement.slice_us, placement.kind));
    let line = |placement: &&Placement| {
        let label = state.workload.kinds.iter().find(|profile| profile.kind == placement.kind);
        let label = label.map_or_else(|| placement.kind.to_string(), |profile| profile.label.clone());
        format!(
            "slice {}: {} {} ({})",
            words::slice(placement),
            words::one_line(app_name(state, placement.kind), 32),
            words::one_line(&label, 60),
            words::one_line(&placement.reason, 60)
        )
    };
    placements.iter().map(line).collect()
}

fn app_name(state: &State, kind: KindRef) -> &str {
    let app = state.workload.apps.iter().find(|(app, ..)| *app == kind.app);
    app.map_or("?", |(_, name, _)| name.as_str())
}

/// The cost of a section of this kind to the next one on the processor, of any kind, in cycles: the mean over
/// all that were measured. The parts are independent, so their variances add up.
fn harm(transitions: &[(KindRef, KindRef, Estimate)], kind: KindRef) -> Option<Estimate> {
    let of_it =
        || transitions.iter().filter(|(first, second, _)| *first == kind && *second != kind).map(|(.., e)| e);
    let n: u64 = of_it().map(|estimate| estimate.n).sum();
    if n == 0 {
        return None;
    }
    let weight = |estimate: &Estimate| estimate.n as f64 / n as f64;
    let mean: f64 = of_it().map(|estimate| weight(estimate) * estimate.mean).sum();
    let half: f64 = of_it()
        .map(|estimate| (weight(estimate) * (estimate.high - estimate.low) / 2.0).powi(2))
        .sum::<f64>()
        .sqrt();
    Some(Estimate { mean, low: mean - half, high: mean + half, n })
}

fn scaled(estimate: Estimate, factor: f64) -> Estimate {
    Estimate {
        mean: estimate.mean * factor,
        low: estimate.low * factor,
        high: estimate.high * factor,
        n: estimate.n,
    }
}

/// Processors as ranges: `0-3,8`. Empty: `any`.
pub fn cores(cpus: &CpuSet) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in &cpus.0 {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu.0 => *last = cpu.0,
            _ => ranges.push((cpu.0, cpu.0)),
        }
    }
    if ranges.is_empty() {
        return "any".into();
    }
    let range = |(first, last): (u32, u32)| {
        if first == last {
            format!("{first}")
        } else {
            format!("{first}-{last}")
        }
    };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{AppId, CodeId, CpuId};

    fn kind(code: u32) -> KindRef {
        KindRef { app: AppId(1), code: CodeId(code) }
    }

    fn estimate(mean: f64, half: f64, n: u64) -> Estimate {
        Estimate { mean, low: mean - half, high: mean + half, n }
    }

    #[test]
    fn harm_is_the_mean_over_all_who_came_after() {
        let transitions = [
            (kind(2), kind(3), estimate(100.0, 10.0, 30)),
            (kind(2), kind(4), estimate(500.0, 20.0, 10)),
            (kind(2), kind(2), estimate(9_999.0, 1.0, 1_000)), // its own kind is no other
            (kind(3), kind(4), estimate(7.0, 1.0, 5)),
        ];
        let found = harm(&transitions, kind(2)).unwrap();
        // (30 x 100 + 10 x 500) / 40 = 200; half: sqrt((0.75 x 10)^2 + (0.25 x 20)^2) = sqrt(81.25)
        assert_eq!((found.mean, found.n), (200.0, 40));
        assert!((found.high - 200.0 - 81.25_f64.sqrt()).abs() < 1e-9);
        assert_eq!(harm(&transitions, kind(4)), None);
    }

    #[test]
    fn processors_are_ranges() {
        let set = |cpus: &[u32]| CpuSet(cpus.iter().map(|cpu| CpuId(*cpu)).collect());
        assert_eq!(cores(&set(&[])), "any");
        assert_eq!(cores(&set(&[3])), "3");
        assert_eq!(cores(&set(&[0, 1, 2, 5, 8, 9])), "0-2,5,8-9");
    }

    #[test]
    fn what_costs_others_most_a_second_comes_first() {
        let state = testing::state();
        let labels =
            |order| rows(&state, order).iter().map(|row| row.profile.label.clone()).collect::<Vec<_>>();
        assert_eq!(labels(Order::Rate)[0], "/ViewItem.php");
        assert_eq!(labels(Order::Harm)[0], "/Search<b>\u{1b}[31m.php");
        assert_eq!(labels(Order::Damage)[0], "/Search<b>\u{1b}[31m.php");
    }
}

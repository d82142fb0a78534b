//! Merges several drivers' results of one run.
//!
//! Histograms add exactly: the sum equals what one driver would have recorded. Results that must not be added are
//! refused: different orders, warehouses in two drivers, runs at different times.

use crate::error::TpccError;
use crate::measure::{add_errors, add_series, Condition, Ending, RunResult};
use crate::order::{Mode, RunOrder};

/// Maximum start skew between drivers in seconds, clock skew included.
pub const TOLERANCE_SECONDS: f64 = 2.0;

/// Merges the results of several drivers. `tolerance_seconds`: maximum start skew between them, clock skew
/// included.
///
/// # Errors
///
/// [`TpccError::CannotMerge`] with the reason.
pub fn merge(mut results: Vec<RunResult>, tolerance_seconds: f64) -> Result<RunResult, TpccError> {
    results.sort_by_key(|result| result.order.first_warehouse);
    let begun = results.iter().map(|result| result.started_at).min().unwrap_or(0);
    let mut rest = results.into_iter();
    let mut sum = rest.next().ok_or(TpccError::CannotMerge { reason: "there is nothing to merge".into() })?;
    shift(&mut sum, begun);
    for other in rest {
        refuse(&sum, &other, begun, tolerance_seconds)?;
        add(&mut sum, other, begun);
    }
    Ok(sum)
}

/// Whole seconds that a driver began after the first one.
fn seconds_later(result: &RunResult, begun: u64) -> usize {
    ((result.started_at - begun) as f64 / 1e6).round() as usize
}

/// Shifts a result's times to those of the driver that began first.
fn shift(result: &mut RunResult, begun: u64) {
    let later = seconds_later(result, begun);
    if later > 0 {
        let series = std::mem::take(&mut result.series);
        add_series(&mut result.series, &series, later);
    }
    result.started_at = begun;
}

fn refuse(sum: &RunResult, other: &RunResult, begun: u64, tolerance_seconds: f64) -> Result<(), TpccError> {
    let refused = |reason: String| Err(TpccError::CannotMerge { reason });
    if let Some((what, one, two)) = difference(&sum.order, &other.order) {
        return refused(format!("{what} is {one} in one and {two} in another"));
    }
    for (begin, end) in ranges(other) {
        if let Some((taken, until)) = ranges(sum).find(|(taken, until)| *taken < end && begin < *until) {
            return refused(format!("warehouse {} is in two of them", taken.max(begin).min(until)));
        }
    }
    let apart = (other.started_at - begun) as f64 / 1e6;
    if !(0.0..=tolerance_seconds).contains(&apart) {
        return refused(format!("they began {apart:.1} s apart, and {tolerance_seconds} s are allowed"));
    }
    Ok(())
}

/// The warehouses of each driver, the end not in it.
fn ranges(result: &RunResult) -> impl Iterator<Item = (u64, u64)> + '_ {
    result.drivers.iter().map(|driver| {
        let begin = u64::from(driver.first_warehouse);
        (begin, begin + u64::from(driver.warehouses))
    })
}

/// The first parameter in which two orders of one run must not differ, but do.
fn difference(one: &RunOrder, two: &RunOrder) -> Option<(&'static str, String, String)> {
    // All fields by name, so that a new one cannot be forgotten. Drivers may differ in range, connections, threads,
    // seed and start time.
    let RunOrder {
        all_warehouses,
        first_warehouse: _,
        warehouses: _,
        mode,
        mix,
        style,
        connections: _,
        threads: _,
        queueing,
        affinity,
        retries,
        ramp_seconds,
        interval_seconds,
        seed: _,
        constants,
        load_last,
        checkpoint_seconds: _,
        settings,
        start_at: _,
    } = two;
    let differ = |what, one: &dyn std::fmt::Debug, two: &dyn std::fmt::Debug| {
        let (one, two) = (format!("{one:?}"), format!("{two:?}"));
        (one != two).then_some((what, one, two))
    };
    differ("the number of all warehouses", &one.all_warehouses, all_warehouses)
        .or_else(|| differ("the mode", &kind_of(one.mode), &kind_of(*mode)))
        .or_else(|| differ("the mix", &one.mix, mix))
        .or_else(|| differ("the style of transactions", &one.style, style))
        .or_else(|| differ("the queueing", &one.queueing, queueing))
        .or_else(|| differ("the affinity", &one.affinity, affinity))
        .or_else(|| differ("the number of retries", &one.retries, retries))
        .or_else(|| differ("the ramp", &one.ramp_seconds, ramp_seconds))
        .or_else(|| differ("the interval", &one.interval_seconds, interval_seconds))
        .or_else(|| differ("C of NURand, one for a run,", &one.constants, constants))
        .or_else(|| differ("C-Load", &one.load_last, load_last))
        .or_else(|| differ("the settings of connections", &one.settings, settings))
}

/// The mode without what adds up.
fn kind_of(mode: Mode) -> Mode {
    match mode {
        Mode::Terminals { .. } => mode,
        Mode::Closed { .. } => Mode::Closed { clients: 0 },
        Mode::Open { .. } => Mode::Open { rate: 0.0 },
    }
}

fn add(sum: &mut RunResult, other: RunResult, begun: u64) {
    let later = seconds_later(&other, begun);
    let end = ranges(sum).map(|(_, end)| end).max().unwrap_or(1);
    let begin = u64::from(other.order.first_warehouse);
    if begin > end {
        sum.environment.remarks.push(format!("no driver had warehouses {end} to {}", begin - 1));
    }
    let order = &mut sum.order;
    order.warehouses += other.order.warehouses;
    order.connections += other.order.connections;
    order.threads += other.order.threads;
    match (&mut order.mode, other.order.mode) {
        (Mode::Closed { clients }, Mode::Closed { clients: more }) => *clients += more,
        (Mode::Open { rate }, Mode::Open { rate: more }) => *rate += more,
        _ => {}
    }
    if other.environment.system != sum.environment.system {
        sum.environment.remarks.push(format!(
            "the driver of warehouses from {} calls the system: {}",
            begin, other.environment.system
        ));
    }
    for remark in other.environment.remarks {
        if !sum.environment.remarks.contains(&remark) {
            sum.environment.remarks.push(remark);
        }
    }
    sum.ending = worse(sum.ending.clone(), other.ending);
    if sum.measured_seconds != other.measured_seconds {
        // With the longer interval, a driver that was cut off lowers the throughput, as it should.
        sum.measured_seconds = sum.measured_seconds.max(other.measured_seconds);
        sum.environment
            .remarks
            .push("the drivers measured for different times; rates are by the longest".into());
    }
    for (mine, theirs) in sum.kinds.iter_mut().zip(&other.kinds) {
        mine.add(theirs);
    }
    sum.draws.add(&other.draws);
    add_series(&mut sum.series, &other.series, later);
    sum.delivery.add(&other.delivery);
    sum.delivery_districts.0 += other.delivery_districts.0;
    sum.delivery_districts.1 += other.delivery_districts.1;
    add_errors(&mut sum.errors, &other.errors);
    // Both observed the same server: keep the more complete observation.
    if other.checkpoints.len() > sum.checkpoints.len() {
        sum.checkpoints = other.checkpoints;
    }
    sum.server = match (sum.server, other.server) {
        (Some(one), Some(two)) if one.cpu_seconds < two.cpu_seconds => Some(two),
        (None, two) => two,
        (one, _) => one,
    };
    sum.drivers.extend(other.drivers);
    sum.conditions = both(std::mem::take(&mut sum.conditions), other.conditions);
}

fn worse(one: Ending, two: Ending) -> Ending {
    let rank = |ending: &Ending| match ending {
        Ending::Complete => 0,
        Ending::Interrupted => 1,
        Ending::Failed { .. } => 2,
    };
    if rank(&two) > rank(&one) {
        two
    } else {
        one
    }
}

/// A condition holds if it held in every check.
fn both(mut one: Vec<Condition>, two: Vec<Condition>) -> Vec<Condition> {
    for condition in two {
        match one.iter_mut().find(|known| known.number == condition.number) {
            None => one.push(condition),
            Some(known) => {
                if condition.held == Some(false) || known.held.is_none() {
                    known.held = condition.held;
                }
                known.examples.extend(condition.examples);
            }
        }
    }
    one.sort_by_key(|condition| condition.number);
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::testing;

    /// A result without the fields that differ between drivers.
    fn bare(mut result: RunResult) -> RunResult {
        result.drivers.clear();
        (result.order.connections, result.order.threads) = (0, 0);
        result
    }

    #[test]
    fn the_sum_is_what_one_driver_would_have_recorded() {
        let whole = testing::run(6, 30.0, 60.0, 1);
        let parts = vec![
            testing::part(5, 2, 6, 30.0, 60.0, 1),
            testing::part(1, 1, 6, 30.0, 60.0, 1),
            testing::part(2, 3, 6, 30.0, 60.0, 1),
        ];
        let sum = merge(parts, 2.0).unwrap();
        assert_eq!(bare(sum.clone()), bare(whole));
        assert_eq!(sum.drivers.iter().map(|driver| driver.first_warehouse).collect::<Vec<_>>(), [1, 2, 5]);
        assert_eq!((sum.order.connections, sum.order.threads), (12, 3));
    }

    #[test]
    fn series_meet_in_the_calendars_second() {
        let parts = |later: u64| {
            let mut second = testing::part(3, 2, 4, 30.0, 60.0, 1);
            second.started_at += later;
            vec![testing::part(1, 2, 4, 30.0, 60.0, 1), second]
        };
        let all =
            |result: &RunResult, at: usize| result.series.get(at).map_or(0, |second| second.completed[0]);
        let alone = parts(0);
        let sum = merge(parts(1_200_000), 2.0).unwrap();
        for at in 1..sum.series.len() {
            assert_eq!(all(&sum, at), all(&alone[0], at) + all(&alone[1], at - 1), "{at}");
        }
        // The later one may be the first in the order of warehouses.
        let mut turned = parts(0);
        turned[0].started_at += 1_000_000;
        let sum = merge(turned, 2.0).unwrap();
        assert_eq!(all(&sum, 40), all(&alone[0], 39) + all(&alone[1], 40));
        assert_eq!(sum.started_at, alone[1].started_at);
    }

    #[test]
    fn what_does_not_belong_together_is_refused() {
        let first = testing::part(1, 2, 4, 30.0, 60.0, 1);
        let refused = |change: fn(&mut RunResult)| {
            let mut second = testing::part(3, 2, 4, 30.0, 60.0, 1);
            change(&mut second);
            merge(vec![first.clone(), second], 2.0).unwrap_err().to_string()
        };
        assert!(refused(|result| result.started_at += 2_100_000).contains("apart"));
        assert!(refused(|result| result.drivers[0].first_warehouse = 2).contains("warehouse 2 is in two"));
        assert!(refused(|result| result.order.constants.last += 1).contains("NURand"));
        assert!(refused(|result| result.order.interval_seconds = 61.0).contains("interval"));
        assert!(refused(|result| result.order.mode = Mode::Closed { clients: 3 }).contains("mode"));
        assert!(refused(|result| result.order.mode = Mode::Terminals { time_factor: 0.5 }).contains("mode"));
        assert!(merge(vec![], 2.0).is_err());
        // The same file twice.
        assert!(merge(vec![first.clone(), first.clone()], 2.0).unwrap_err().to_string().contains("in two"));
    }

    #[test]
    fn a_driver_that_was_cut_off_is_told_and_gaps_are_too() {
        let mut second = testing::part(4, 1, 4, 30.0, 60.0, 1);
        (second.ending, second.measured_seconds) = (Ending::Interrupted, 30.0);
        second.conditions[3].held = Some(false);
        let sum = merge(vec![testing::part(1, 2, 4, 30.0, 60.0, 1), second], 2.0).unwrap();
        assert_eq!((sum.ending, sum.measured_seconds), (Ending::Interrupted, 60.0));
        assert_eq!(sum.conditions[3].held, Some(false));
        assert_eq!(sum.conditions[4].held, Some(true));
        let remarks = sum.environment.remarks.join("\n");
        assert!(
            remarks.contains("no driver had warehouses 3 to 3") && remarks.contains("different times"),
            "{remarks}"
        );
    }
}

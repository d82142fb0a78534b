//! The course of a run: ending, errors, state of the database afterwards; scale, interval, steady state,
//! checkpoints (clauses 3.3.2, 4.2, 5.5).

use super::pace::{time_factor, without_terminals};
use super::{Group, Outcome, Verdict};
use crate::measure::{Ending, RunResult};
use crate::report::batches::{self, Batches};
use crate::report::{chance, number};
use crate::work::Kind;

/// Seconds of a measurement interval since revision 5.0.
pub const INTERVAL_SECONDS: f64 = 7200.0;
/// Seconds between checkpoints at most.
const CHECKPOINT_SECONDS: f64 = 1800.0;
/// New-Orders per minute and warehouse: minimum, maximum.
pub const A_WAREHOUSE: (f64, f64) = (9.0, 12.86);
/// Maximum drift of the throughput over the interval: the specification's limit between a run and its repetition.
const DRIFT: f64 = 0.02;
/// If the interval of the trend is wider than this, the steady state is undecided.
const BLUR: f64 = 0.2;
/// Maximum drift of the wall clock in seconds: NTP slewing in two hours stays below, a step does not.
const CLOCK_SECONDS: f64 = 1.0;

pub(super) fn of_the_run(result: &RunResult) -> Vec<Verdict> {
    vec![ending(result), errors(result), conditions(result), clocks(result)]
}

pub(super) fn of_the_interval(result: &RunResult) -> Vec<Verdict> {
    let mut verdicts =
        vec![scale(result), terminals(result), length(result), steady(result), checkpoints(result)];
    if let Some(factor) = time_factor(result).filter(|factor| *factor != 1.0) {
        let verdict = Verdict::on(Group::Interval, "5.2.5", "keying and think times as specified")
            .wanted("1 time")
            .found(Some(factor), "times", 1);
        verdicts.push(verdict.ends(Outcome::Deviation));
    }
    verdicts
}

fn ending(result: &RunResult) -> Verdict {
    let verdict = Verdict::ours(Group::Run, "complete").wanted("the interval as ordered").found(
        Some(result.measured_seconds),
        "s",
        1,
    );
    match &result.ending {
        // Seconds are rounded when they are ordered.
        Ending::Complete if result.measured_seconds >= result.order.interval_seconds - 1e-3 => {
            verdict.ends(Outcome::Held)
        }
        Ending::Complete => verdict.ends(Outcome::Short).noting("it ended before its interval did"),
        Ending::Interrupted => verdict.ends(Outcome::Short).noting("stopped by a user"),
        Ending::Failed { reason } => verdict.ends(Outcome::Short).noting(reason.clone()),
    }
}

fn errors(result: &RunResult) -> Verdict {
    let failed: u64 = result.kinds.iter().map(|kind| kind.failed).sum();
    let retried: u64 = result.kinds.iter().map(|kind| kind.retried).sum();
    let done: u64 = result.kinds.iter().map(|kind| kind.completed).sum();
    let outside: u64 =
        result.errors.iter().map(|errors| errors.count).sum::<u64>().saturating_sub(failed + retried);
    let mut notes = Vec::new();
    if retried > 0 {
        notes.push(format!(
            "{} were tried again; their time counts from the first try",
            number::count(retried)
        ));
    }
    if outside > 0 {
        notes.push(format!("{} failures outside of the interval", number::count(outside)));
    }
    Verdict::ours(Group::Run, "transactions given up")
        .wanted("none")
        .found(Some(failed as f64), "", failed + done)
        .ends(if failed == 0 { Outcome::Held } else { Outcome::Short })
        .noting(notes.join("; "))
}

fn conditions(result: &RunResult) -> Verdict {
    let judged = result.conditions.iter().filter(|condition| condition.held.is_some());
    let (held, broken): (Vec<_>, Vec<_>) = judged.partition(|condition| condition.held == Some(true));
    let verdict =
        Verdict::on(Group::Run, "3.3.2", "consistency conditions that hold after the run").wanted("all");
    if held.is_empty() && broken.is_empty() {
        return verdict.noting("they were not checked");
    }
    let names = broken.iter().map(|condition| format!("{} ({})", condition.number, condition.rule));
    let note = match broken.len() {
        0 => String::new(),
        _ => format!("broken: {}", names.collect::<Vec<_>>().join(", ")),
    };
    verdict
        .found(Some(held.len() as f64), "", (held.len() + broken.len()) as u64)
        .ends(if broken.is_empty() { Outcome::Held } else { Outcome::Short })
        .noting(note)
}

fn clocks(result: &RunResult) -> Verdict {
    let steps = result.drivers.iter().map(|driver| driver.clock_step_seconds.abs());
    let largest = steps.fold(0.0, f64::max);
    let verdict = Verdict::ours(Group::Run, "largest step of a driver's calendar clock")
        .wanted(format!("at most {CLOCK_SECONDS} s"))
        .found(Some(largest), "s", result.drivers.len() as u64);
    if largest <= CLOCK_SECONDS {
        verdict.ends(Outcome::Held)
    } else {
        verdict.ends(Outcome::Short).noting(
            "response times are of a clock that cannot be set; dates in logs, and a common start, are not",
        )
    }
}

fn scale(result: &RunResult) -> Verdict {
    let (low, high) = A_WAREHOUSE;
    let orders = result.of(Kind::NewOrder).completed;
    let warehouses = f64::from(result.order.warehouses.max(1));
    let rate = result.throughput() / warehouses;
    let verdict = Verdict::on(Group::Interval, "4.1.3, 4.2", "New-Orders a minute and warehouse")
        .wanted(format!("{low} to {high}"))
        .found((result.measured_seconds > 0.0).then_some(rate), "", orders);
    if time_factor(result).is_none() {
        return verdict.not_applicable(without_terminals(result));
    }
    // The scatter of the count of New-Orders is at most that of a Poisson process: terminals pause between them.
    let chance = chance::DEVIATIONS * rate / (orders.max(1) as f64).sqrt();
    let beyond = (rate - rate.clamp(low, high)).abs();
    verdict.ends(match beyond {
        _ if orders == 0 => Outcome::Undecided,
        0.0 => Outcome::Held,
        beyond if beyond <= chance => Outcome::Undecided,
        _ if time_factor(result).is_some_and(|factor| factor < 1.0) && rate > high => Outcome::Deviation,
        _ => Outcome::Short,
    })
}

fn terminals(result: &RunResult) -> Verdict {
    let terminals: u64 = result.drivers.iter().map(|driver| u64::from(driver.terminals)).sum();
    let warehouses = u64::from(result.order.warehouses);
    let verdict = Verdict::on(Group::Interval, "4.2.1", "terminals of each warehouse").wanted("10").found(
        Some(terminals as f64 / warehouses.max(1) as f64),
        "",
        terminals,
    );
    if time_factor(result).is_none() {
        return verdict.not_applicable(without_terminals(result));
    }
    verdict.ends(if terminals == 10 * warehouses { Outcome::Held } else { Outcome::Short })
}

fn length(result: &RunResult) -> Verdict {
    let verdict = Verdict::on(Group::Interval, "5.5.2", "measurement interval")
        .wanted("120 min, since revision 5.0")
        .found(Some(result.measured_seconds / 60.0), "min", 1);
    if time_factor(result).is_none() {
        return verdict.not_applicable(without_terminals(result));
    }
    // A second less is how a clock is read.
    if result.measured_seconds >= INTERVAL_SECONDS - 1.0 {
        verdict.ends(Outcome::Held)
    } else {
        verdict.ends(Outcome::Deviation).noting("shorter than a result's")
    }
}

fn steady(result: &RunResult) -> Verdict {
    let orders = batches::new_orders(result);
    let batches = Batches::of(&orders);
    let verdict = Verdict::on(Group::Interval, "5.5.1", "drift of the throughput over the interval")
        .not_verified()
        .wanted(format!("steady: no significant drift of more than {} %", DRIFT * 100.0));
    let Some(trend) = batches.trend() else {
        let least = batches::BATCH_SECONDS * batches::FEWEST;
        return verdict.noting(format!("it takes {least} s and some New-Orders for a verdict"));
    };
    let third = orders.len() / 3;
    let thirds = orders.chunks(third.max(1)).take(3);
    let thirds = thirds.map(|part| number::number(part.iter().sum::<f64>() / part.len() as f64 * 60.0));
    let note = format!(
        "{:+.1} % \u{b1} {:.1} (95 %, {} batches of {} s); thirds: {} a minute",
        trend.value * 100.0,
        trend.half * 100.0,
        batches.means.len(),
        batches.seconds,
        thirds.collect::<Vec<_>>().join(", ")
    );
    // Widen the 95 % interval to 99.9 %.
    let sure = trend.half * chance::DEVIATIONS / 1.96;
    let outcome = if trend.value.abs() - sure > DRIFT {
        Outcome::Short
    } else if trend.half > BLUR {
        Outcome::Undecided
    } else {
        Outcome::Held
    };
    verdict.found(Some(trend.value * 100.0), "%", batches.means.len() as u64).ends(outcome).noting(note)
}

fn checkpoints(result: &RunResult) -> Verdict {
    let begin = result.order.ramp_seconds;
    let end = begin + result.measured_seconds;
    let seen = result.checkpoints.iter().filter(|checkpoint| (begin..end).contains(&checkpoint.at)).count();
    let verdict = Verdict::on(Group::Interval, "5.5.2.2", "checkpoints in the interval").not_verified();
    if time_factor(result).is_none() {
        return verdict.wanted("one every 30 min").not_applicable(without_terminals(result));
    }
    let wanted = (result.measured_seconds / CHECKPOINT_SECONDS).round().max(1.0) as usize;
    let verdict = verdict.wanted(format!("{wanted} at least: one every 30 min")).found(
        Some(seen as f64),
        "",
        result.checkpoints.len() as u64,
    );
    if seen >= wanted {
        verdict.ends(Outcome::Held)
    } else if result.measured_seconds >= INTERVAL_SECONDS - 1.0 {
        verdict.ends(Outcome::Short)
    } else {
        verdict.ends(Outcome::Deviation).noting("a short interval may have none")
    }
}

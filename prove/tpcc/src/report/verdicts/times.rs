//! Clauses 5.2.5 and 2.7: response, keying and think times, deferred deliveries, and the driver's own lag.

use super::pace::{time_factor, without_terminals};
use super::{Group, Outcome, Verdict};
use crate::measure::{KindResult, RunResult, Times};
use crate::report::chance;
use crate::time::Micros;
use crate::work::Kind;
use std::ops::ControlFlow::{self, Break, Continue};

/// Limit of the 90th percentile of a transaction's response times (clause 5.2.5.7), in seconds.
pub fn response_limit(kind: Kind) -> u64 {
    [5, 5, 5, 5, 20][kind.index()]
}

/// Minimum keying time (clause 5.2.5.7), in seconds.
pub fn keying_seconds(kind: Kind) -> f64 {
    [18.0, 3.0, 2.0, 2.0, 2.0][kind.index()]
}

/// The mean think time (clause 5.2.5.7), in seconds.
pub fn think_mean(kind: Kind) -> f64 {
    [12.0, 12.0, 10.0, 5.0, 5.0][kind.index()]
}

/// Response times that differ by less than this many seconds are equal (clause 5.2.5.6).
const EQUAL_SECONDS: f64 = 0.1;
/// Seconds that 90 % of the deferred deliveries have from being queued to being done (clauses 2.7.2.2, 5.2.5.7).
const DELIVERY_SECONDS: u64 = 80;
/// The share of a response time's limit that 99 % of the driver's lag may be.
const LAG_SHARE: f64 = 0.01;

pub(super) fn verdicts(result: &RunResult) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    verdicts.extend(Kind::ALL.map(|kind| response(result.of(kind))));
    verdicts.extend(Kind::ALL.map(|kind| average(result.of(kind))));
    verdicts.push(deferred(result));
    verdicts.push(skipped(result));
    verdicts.extend(Kind::ALL.map(|kind| lag(result.of(kind))));
    verdicts.push(
        Verdict::on(Group::Times, "5.2.5.1", "menu response time")
            .not_verified()
            .wanted("90 % within 2 s")
            .not_applicable("terminals are emulated without a menu"),
    );
    verdicts.extend(Kind::ALL.map(|kind| keying(result, kind)));
    verdicts.extend(Kind::ALL.map(|kind| thinking(result, kind)));
    verdicts.extend(Kind::ALL.map(|kind| distribution(result, kind)));
    verdicts
}

fn response(result: &KindResult) -> Verdict {
    let times = &result.response;
    let limit = response_limit(result.kind);
    let verdict =
        Verdict::on(Group::Times, "5.2.5.7", format!("{}: 90 % of response times", result.kind.name()))
            .wanted(format!("at most {limit} s"))
            .found(times.quantile(0.9).map(Micros::as_seconds), "s", times.count());
    verdict.ends(chance::within(times.count_up_to(Micros::seconds(limit)), times.count(), 0.9, 1.0))
}

fn average(result: &KindResult) -> Verdict {
    let times = &result.response;
    let verdict =
        Verdict::on(Group::Times, "5.2.5.6", format!("{}: average response time", result.kind.name()))
            .wanted("at most what 90 % do not exceed, within 0.1 s")
            .found(times.mean_seconds(), "s", times.count());
    let (Some(mean), Some(most), Some(deviation)) =
        (times.mean_seconds(), times.quantile(0.9).map(Micros::as_seconds), times.deviation_seconds())
    else {
        return verdict;
    };
    let beyond = mean - most;
    verdict.ends(if beyond < EQUAL_SECONDS {
        Outcome::Held
    } else if beyond - EQUAL_SECONDS <= chance::DEVIATIONS * deviation / (times.count() as f64).sqrt() {
        Outcome::Undecided
    } else {
        Outcome::Short
    })
}

fn deferred(result: &RunResult) -> Verdict {
    let done = &result.delivery;
    let queued = result.of(Kind::Delivery).completed;
    let verdict = Verdict::on(Group::Times, "2.7.2.2", "deferred deliveries: 90 % done")
        .wanted(format!("within {DELIVERY_SECONDS} s of being queued"))
        .found(done.quantile(0.9).map(Micros::as_seconds), "s", done.count());
    let in_time = done.count_up_to(Micros::seconds(DELIVERY_SECONDS));
    let of_done = chance::within(in_time, done.count(), 0.9, 1.0);
    if of_done == Outcome::Short || queued <= done.count() {
        return verdict.ends(of_done);
    }
    // More were queued than completed: a growing queue has late deliveries that are not counted yet. In the first
    // 80 s they need not be late.
    let note = format!("{} were queued in the interval, {} done", queued, done.count());
    let outcome = match chance::within(in_time, queued, 0.9, 1.0) {
        Outcome::Short if result.measured_seconds <= DELIVERY_SECONDS as f64 => Outcome::Undecided,
        outcome => outcome,
    };
    if outcome == Outcome::Held {
        verdict.ends(of_done)
    } else {
        verdict.ends(outcome).noting(note)
    }
}

fn skipped(result: &RunResult) -> Verdict {
    let (skipped, delivered) = result.delivery_districts;
    let all = skipped + delivered;
    let share = (all > 0).then(|| skipped as f64 / all as f64 * 100.0);
    let verdict = Verdict::on(Group::Times, "2.7.4.2", "districts without an order to deliver")
        .not_verified()
        .wanted("at most 1 %, or one")
        .found(share, "%", all);
    verdict.ends(if all > 0 && skipped <= 1 {
        Outcome::Held
    } else {
        chance::within(skipped, all, 0.0, 0.01)
    })
}

fn lag(result: &KindResult) -> Verdict {
    let times = &result.lag;
    let limit = response_limit(result.kind) as f64 * LAG_SHARE;
    let verdict =
        Verdict::ours(Group::Times, format!("{}: 99 % of the driver's own lag", result.kind.name()))
            .wanted(format!("at most {} ms, 1 % of the response time's limit", limit * 1e3))
            .found(times.quantile(0.99).map(Micros::as_seconds), "s", times.count());
    let in_time = times.count_up_to(Micros::of_seconds(limit));
    verdict.ends(chance::within(in_time, times.count(), 0.99, 1.0))
}

/// A verdict on times of terminals with the run's factor; the verdict alone if the run has no terminals.
fn of_terminals(result: &RunResult, verdict: Verdict, times: &Times) -> ControlFlow<Verdict, (Verdict, f64)> {
    match time_factor(result) {
        None => Break(verdict.not_applicable(without_terminals(result))),
        Some(factor) if factor <= 0.0 => Break(
            verdict
                .ends(Outcome::Deviation)
                .noting("keying and think times were switched off: time factor 0"),
        ),
        Some(_) if times.count() == 0 => Break(verdict),
        Some(factor) => Continue((verdict, factor)),
    }
}

/// A rule that holds for the ordered factor but not for the specification is a deviation.
fn by_order(outcome: Outcome, factor: f64) -> Outcome {
    if outcome == Outcome::Held && factor < 1.0 {
        Outcome::Deviation
    } else {
        outcome
    }
}

/// Seconds rounded to microseconds: 0.6 without binary error.
fn plain(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn factor_note(factor: f64) -> String {
    if factor == 1.0 {
        String::new()
    } else {
        format!("ordered with {factor} times the specification's")
    }
}

fn keying(result: &RunResult, kind: Kind) -> Verdict {
    let times = &result.of(kind).keying;
    let verdict = Verdict::on(Group::Times, "5.2.5.7", format!("{}: shortest keying time", kind.name()));
    let wanted = |factor: f64| format!("at least {} s", plain(factor * keying_seconds(kind)));
    let (verdict, factor) = match of_terminals(result, verdict.wanted(wanted(1.0)), times) {
        Continue(judged) => judged,
        Break(verdict) => return verdict,
    };
    let least = keying_seconds(kind) * factor;
    // A bucket that includes the limit may have no shorter time; one that ends below has.
    let shortest = times.buckets().next().map(|(top, _)| top.as_seconds());
    let outcome = match shortest {
        Some(shortest) if shortest < least => Outcome::Short,
        _ => Outcome::Held,
    };
    let value =
        shortest.map(|shortest| if shortest >= least && shortest < least * 1.001 { least } else { shortest });
    verdict
        .wanted(wanted(factor))
        .found(value, "s", times.count())
        .ends(by_order(outcome, factor))
        .noting(factor_note(factor))
}

fn thinking(result: &RunResult, kind: Kind) -> Verdict {
    let times = &result.of(kind).think;
    let verdict = Verdict::on(Group::Times, "5.2.5.7", format!("{}: mean think time", kind.name()));
    let wanted = |factor: f64| format!("at least {} s, within chance", plain(factor * think_mean(kind)));
    let (verdict, factor) = match of_terminals(result, verdict.wanted(wanted(1.0)), times) {
        Continue(judged) => judged,
        Break(verdict) => return verdict,
    };
    let least = think_mean(kind) * factor;
    // Times drawn with exactly this mean have a mean below it half of the time; the standard deviation of an
    // exponential distribution is its mean.
    let chance = chance::DEVIATIONS * least / (times.count() as f64).sqrt();
    let mean = times.mean_seconds();
    let outcome = match mean {
        Some(mean) if mean < least - chance => Outcome::Short,
        _ => Outcome::Held,
    };
    verdict
        .wanted(wanted(factor))
        .found(mean, "s", times.count())
        .ends(by_order(outcome, factor))
        .noting(factor_note(factor))
}

fn distribution(result: &RunResult, kind: Kind) -> Verdict {
    let times = &result.of(kind).think;
    let verdict =
        Verdict::on(Group::Times, "5.2.5.4", format!("{}: think times, Kolmogorov-Smirnov", kind.name()))
            .wanted(format!("exponential, cut at 10 means: p > {}", chance::DOUBT));
    let (verdict, factor) = match of_terminals(result, verdict, times) {
        Continue(judged) => judged,
        Break(verdict) => return verdict,
    };
    let mean = think_mean(kind) * factor;
    let distance = chance::distance(times, chance::exponential(mean));
    let p = chance::kolmogorov(distance, times.count());
    let verdict = verdict.found(Some(p), "p", times.count());
    let outcome = chance::of_p(p);
    // A think time recorded t after the start cannot be longer than t: a short ramp truncates the long ones, by
    // this share over the interval.
    let begin = result.order.ramp_seconds;
    let end = begin + result.measured_seconds;
    let missing = mean / result.measured_seconds.max(1e-6) * ((-begin / mean).exp() - (-end / mean).exp());
    let excused = chance::of_p(chance::kolmogorov((distance - missing).max(0.0), times.count()));
    if outcome != Outcome::Held && excused == Outcome::Held {
        let note = "the ramp was too short for long think times to end in the interval";
        return verdict.ends(Outcome::Undecided).noting(note);
    }
    verdict.ends(outcome).noting(factor_note(factor))
}

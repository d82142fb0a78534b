//! The cost of an epoch with placement on or off: sums of statistics, their differences, and the comparison of two
//! arms. Pure.

use crate::model::{AppId, KindRef, Record, Snapshot, BUCKETS};
use std::collections::BTreeMap;

/// The sums of all kinds of all applications since their segments were made.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    taken_ns: u64,
    /// The time since which each application has allowed placement; applications that do not allow it are
    /// missing.
    willing: BTreeMap<AppId, u64>,
    kinds: BTreeMap<KindRef, Record>,
    waits: BTreeMap<Waiter, Waited>,
}

/// A thread of an application: its number and its start time, because numbers are used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Waiter {
    /// The application.
    pub app: AppId,
    /// Its number.
    pub tid: u32,
    /// Start time in clock ticks since boot.
    pub started_ticks: u64,
}

/// The cycles that a thread has waited for a processor since it began, and the kind that it works on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waited {
    /// The kind.
    pub kind: KindRef,
    /// The time waited.
    pub cycles: f64,
}

/// The sums of an epoch.
#[derive(Clone, Debug, Default)]
pub(super) struct Epoch {
    pub seconds: f64,
    pub kinds: BTreeMap<KindRef, Record>,
    /// Cycles that threads of a kind waited for a processor, if known.
    pub waits: BTreeMap<KindRef, f64>,
}

/// The comparison of two arms as natural logarithms of on over off, so that doubling and halving have the
/// same weight.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Comparison {
    /// CPU time per request; lower is better.
    pub cost: Value,
    /// Work done per second; higher is better.
    pub work: Value,
    /// The duration that half of the requests do not exceed, over all kinds by their number.
    pub p50: Option<Value>,
    /// The same for 99 % of the requests.
    pub p99: Option<Value>,
    /// Time of a request on a processor and waiting for one, over all kinds by their number; only if threads
    /// are known by kind.
    pub response: Option<Value>,
    /// The kinds with the most time, in descending order.
    pub kinds: Vec<OfKind>,
}

/// One kind, on over off, as logarithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OfKind {
    pub kind: KindRef,
    /// CPU time per request.
    pub cost: Value,
    pub p50: Option<f64>,
    pub p99: Option<f64>,
}

/// A measured logarithm, and its standard error from counting alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub ln: f64,
    pub error: f64,
}

/// A kind with its statistics while placement was on, and off.
type Common<'a> = (KindRef, &'a Record, &'a Record);

/// Kinds with fewer sections than this in an arm are left out.
const FEWEST: u64 = 10;
/// The minimum share of all time that the compared kinds need; below it the arms did different work.
const COVERED: f64 = 0.8;
/// The number of sections needed for a quantile.
const FOR_P50: u64 = 30;
const FOR_P99: u64 = 300;
/// The number of kinds compared one by one: no policy places more.
const KINDS_COMPARED: usize = 64;

impl Counts {
    /// The sums of some snapshots. `willing`: the time since which each application has allowed placement
    /// (split_set SPLIT_PLACE, SPLIT_COLLECT); other applications are no evidence about placement.
    pub fn of(snapshots: &[Snapshot], willing: &BTreeMap<AppId, u64>, taken_ns: u64) -> Counts {
        let mut kinds: BTreeMap<KindRef, Record> = BTreeMap::new();
        for snapshot in snapshots.iter().filter(|snapshot| willing.contains_key(&snapshot.app)) {
            for kind in &snapshot.kinds {
                let at = KindRef { app: snapshot.app, code: kind.code };
                for (_, record) in &kind.records {
                    kinds.entry(at).or_default().add(record);
                }
            }
        }
        Counts { taken_ns, willing: willing.clone(), kinds, waits: BTreeMap::new() }
    }

    /// Adds the waits of threads.
    #[must_use]
    pub fn with_waits(self, waits: BTreeMap<Waiter, Waited>) -> Counts {
        Counts { waits, ..self }
    }

    /// True if any application allowed placement during the whole time from `earlier` to now.
    pub(super) fn is_willing_since(&self, earlier: &Counts) -> bool {
        self.willing.values().any(|&since| since <= earlier.taken_ns)
    }

    /// The difference from `earlier`.
    pub(super) fn since(&self, earlier: &Counts) -> Epoch {
        let willing = |app| self.willing.get(&app).is_some_and(|&since| since <= earlier.taken_ns);
        let kinds = self.kinds.iter().filter(|(kind, _)| willing(kind.app)).filter_map(|(&kind, record)| {
            let record = match earlier.kinds.get(&kind) {
                Some(earlier) => record.since(earlier),
                None => record.clone(),
            };
            (record.count > 0).then_some((kind, record))
        });
        let seconds = self.taken_ns.saturating_sub(earlier.taken_ns) as f64 / 1e9;
        let mut waits = BTreeMap::new();
        for (thread, now) in &self.waits {
            // A thread that changed to another kind in the meantime waited for both.
            let then = earlier.waits.get(thread).filter(|then| then.kind == now.kind);
            if let Some(then) = then.filter(|_| willing(thread.app)) {
                *waits.entry(now.kind).or_insert(0.0) += (now.cycles - then.cycles).max(0.0);
            }
        }
        Epoch { seconds, kinds: kinds.collect(), waits }
    }
}

impl Epoch {
    /// Sections that ended.
    pub fn sections(&self) -> u64 {
        self.kinds.values().map(|record| record.count).fold(0, u64::saturating_add)
    }

    /// The work at these prices, and the sum of the squares of its parts, which is the variance of a sum of random
    /// arrivals.
    fn at_prices(&self, prices: &BTreeMap<KindRef, f64>) -> (f64, f64) {
        let parts =
            prices.iter().filter_map(|(kind, price)| Some((self.kinds.get(kind)?.count as f64, price)));
        parts.fold((0.0, 0.0), |(sum, squares), (count, price)| {
            (sum + count * price, squares + count * price * price)
        })
    }
}

/// Compares `on` with `off`; `None`: too few requests, or the two arms did different work.
pub(super) fn compare(on: &Epoch, off: &Epoch) -> Option<Comparison> {
    let usable = |record: &Record| record.own.count >= FEWEST && record.own.mean > 0.0;
    let common: Vec<Common> = on
        .kinds
        .iter()
        .filter_map(|(&kind, on)| Some((kind, on, off.kinds.get(&kind)?)))
        .filter(|(_, on, off)| usable(on) && usable(off))
        .collect();
    let time = |record: &Record| record.own.mean * record.count as f64;
    let all: f64 = on.kinds.values().chain(off.kinds.values()).map(time).sum();
    let compared: f64 = common.iter().map(|(_, on, off)| time(on) + time(off)).sum();
    if common.is_empty() || compared < COVERED * all || on.seconds <= 0.0 || off.seconds <= 0.0 {
        return None;
    }
    let mut by_time = common.clone();
    by_time.sort_by(|a, b| (time(b.1) + time(b.2)).total_cmp(&(time(a.1) + time(a.2))));
    let told = by_time.iter().take(KINDS_COMPARED).map(|(kind, on, off)| OfKind {
        kind: *kind,
        cost: cost(&[(*kind, on, off)]),
        p50: against(on, off, 0.5, FOR_P50),
        p99: against(on, off, 0.99, FOR_P99),
    });
    Some(Comparison {
        cost: cost(&common),
        work: work(on, off, &common)?,
        p50: latency(&common, 0.5, FOR_P50),
        p99: latency(&common, 0.99, FOR_P99),
        response: response(on, off, &common),
        kinds: told.collect(),
    })
}

impl Comparison {
    /// True if this comparison alone shows that placement costs more than this, beyond counting noise.
    pub fn looks_worse(&self, worth: f64) -> bool {
        let beyond = |ln: f64, error: f64| ln > worth && ln > 2.0 * error;
        beyond(self.cost.ln, self.cost.error) || beyond(-self.work.ln, self.work.error)
    }
}

/// A kept plan is checked when its cost or work changed by this share.
const DEARER: f64 = 0.10;
const LESS_WORK: f64 = 0.15;

/// True if the present work differs from the work at `then`: it costs more or less, or has other kinds.
pub(super) fn has_changed(now: &Epoch, then: &Epoch) -> bool {
    compare(now, then).is_none_or(|comparison| {
        comparison.cost.ln > DEARER.max(3.0 * comparison.cost.error)
            || -comparison.work.ln > LESS_WORK.max(3.0 * comparison.work.error)
    })
}

/// CPU time of the same mix of requests in both arms, so that a change of the mix is not counted as a cost.
fn cost(common: &[Common]) -> Value {
    let (mut costs, mut variances) = ([0.0, 0.0], [0.0, 0.0]);
    for (_, on, off) in common {
        let weight = (on.count + off.count) as f64;
        for (arm, record) in [on, off].into_iter().enumerate() {
            costs[arm] += weight * record.own.mean;
            variances[arm] += weight * weight * record.own.variance() / record.own.count as f64;
        }
    }
    let relative = |arm: usize| variances[arm] / (costs[arm] * costs[arm]);
    Value { ln: (costs[0] / costs[1]).ln(), error: (relative(0) + relative(1)).sqrt() }
}

/// Requests done in a second, each weighted by the cost of its kind in both arms together.
fn work(on: &Epoch, off: &Epoch, common: &[Common]) -> Option<Value> {
    let price = |on: &Record, off: &Record| {
        let (a, b) = (on.own.count as f64, off.own.count as f64);
        (on.own.mean * a + off.own.mean * b) / (a + b)
    };
    let prices = common.iter().map(|(kind, on, off)| (*kind, price(on, off))).collect();
    let ((done_on, squares_on), (done_off, squares_off)) = (on.at_prices(&prices), off.at_prices(&prices));
    let error = (squares_on / (done_on * done_on) + squares_off / (done_off * done_off)).sqrt();
    let ln = (done_on / on.seconds / (done_off / off.seconds)).ln();
    (ln.is_finite() && error.is_finite()).then_some(Value { ln, error })
}

/// The ratio on over off of a quantile of durations, over all kinds by their number of requests.
fn latency(common: &[Common], share: f64, fewest: u64) -> Option<Value> {
    let (mut sum, mut weights, mut squares) = (0.0, 0.0, 0.0);
    for (_, on, off) in common {
        let Some(ln) = against(on, off, share, fewest) else { continue };
        let weight = (on.count + off.count) as f64;
        // Durations spread over about an octave: the error of a quantile's rank, as a logarithm.
        let ranks = share / (1.0 - share) * (1.0 / on.count as f64 + 1.0 / off.count as f64);
        sum += weight * ln;
        weights += weight;
        squares += weight * weight * ranks;
    }
    (weights > 0.0).then(|| Value { ln: sum / weights, error: squares.sqrt() / weights })
}

/// The ratio on over off of a request's time including waits for a processor, over the kinds for which it is
/// known, by their number. A request waits before its section begins, so the durations of sections do not
/// include the wait.
fn response(on: &Epoch, off: &Epoch, common: &[Common]) -> Option<Value> {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (kind, one, other) in common {
        let (Some(waited_on), Some(waited_off)) = (on.waits.get(kind), off.waits.get(kind)) else { continue };
        if one.count < FOR_P50 || other.count < FOR_P50 {
            continue;
        }
        let takes = |record: &Record, waited: f64| record.own.mean + waited / record.count as f64;
        let weight = (one.count + other.count) as f64;
        sum += weight * (takes(one, *waited_on) / takes(other, *waited_off)).ln();
        weights += weight;
    }
    // The error of a sum of waits is unknown; the differences between pairs replace it.
    (weights > 0.0 && sum.is_finite()).then(|| Value { ln: sum / weights, error: 0.0 })
}

fn against(on: &Record, off: &Record, share: f64, fewest: u64) -> Option<f64> {
    if on.count < fewest || off.count < fewest {
        return None;
    }
    Some((quantile(&on.histogram, share)? / quantile(&off.histogram, share)?).ln())
}

/// The number of cycles not exceeded by this share of the sections; interpolated within a bucket.
pub(super) fn quantile(histogram: &[u64], share: f64) -> Option<f64> {
    let all: u64 = histogram.iter().copied().fold(0, u64::saturating_add);
    let rank = share * all as f64;
    let mut below = 0.0;
    for (bucket, &count) in histogram.iter().enumerate() {
        if below + count as f64 >= rank && count > 0 {
            let within = ((rank - below) / count as f64).clamp(0.0, 1.0);
            let (from, to) = (begin(bucket), begin(bucket + 1));
            return Some(from + (to - from) * within);
        }
        below += count as f64;
    }
    None
}

/// The beginning of a bucket in cycles: segment.h.
fn begin(bucket: usize) -> f64 {
    match bucket.min(BUCKETS) {
        // Sections below 2^10 cycles are hardly below half of that.
        0 => 512.0,
        bucket => {
            let (octave, quarter) = ((bucket - 1) / 4, (bucket - 1) % 4);
            2_f64.powi(10 + octave as i32) * (1.0 + quarter as f64 / 4.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::synthetic::{epoch, kind};
    use super::*;

    #[test]
    fn buckets_begin_where_segment_h_says() {
        assert_eq!([1, 2, 4, 5, 6].map(begin), [1024.0, 1280.0, 1792.0, 2048.0, 2560.0]);
        // A hundred between 2048 and 2560: the middle one is at 2304.
        let mut histogram = vec![0; BUCKETS];
        histogram[5] = 100;
        assert_eq!(quantile(&histogram, 0.5), Some(2304.0));
        assert_eq!(quantile(&[0; BUCKETS], 0.5), None);
    }

    #[test]
    fn a_fifth_less_time_for_each_request_is_a_fifth_less_whatever_the_mix() {
        // Twice as many requests of the expensive kind while it was on.
        let off = epoch(1.0, &[(1, 1000, 10_000.0), (2, 100, 200_000.0)]);
        let on = epoch(1.0, &[(1, 1000, 8_000.0), (2, 200, 160_000.0)]);
        let comparison = compare(&on, &off).expect("enough");
        assert!((comparison.cost.ln.exp() - 0.8).abs() < 1e-12, "{comparison:?}");
        // At common prices: kind 1 costs 9000, kind 2 (200 x 160000 + 100 x 200000) / 300 = 173333;
        // (9e6 + 34.667e6) / (9e6 + 17.333e6) = 1.6582
        assert!((comparison.work.ln.exp() - 1.6582).abs() < 1e-4, "{comparison:?}");
        // Kind 2 takes 33.3 of the 51.3 million cycles of on, so it is the first. Its mean of 200 has an error of a
        // third divided by the root of 200.
        let first = &comparison.kinds[0];
        assert_eq!((first.kind, first.cost.ln), (kind(2), 0.8_f64.ln()));
        let error = (1.0_f64 / 9.0 * (1.0 / 199.0 + 1.0 / 99.0)).sqrt();
        assert!((first.cost.error - error).abs() < 1e-9, "{first:?} {error}");
    }

    #[test]
    fn arms_that_did_different_things_are_not_compared() {
        let off = epoch(1.0, &[(1, 1000, 10_000.0)]);
        assert_eq!(compare(&epoch(1.0, &[(2, 1000, 10_000.0)]), &off), None);
        assert_eq!(compare(&epoch(1.0, &[(1, 9, 10_000.0)]), &off), None, "too few");
        assert_eq!(compare(&epoch(0.0, &[(1, 1000, 10_000.0)]), &off), None);
        assert!(compare(&epoch(1.0, &[(1, 1000, 10_000.0), (2, 5, 10_000.0)]), &off).is_some());
    }

    /// 100 requests of 1000 cycles whose threads waited for 900 each, against 4000 each: 1900 to 5000.
    #[test]
    fn waits_before_sections_count_as_response() {
        let waiting = |cycles: f64| {
            let mut epoch = epoch(1.0, &[(1, 100, 1_000.0), (2, 100, 50_000.0)]);
            epoch.waits.insert(kind(1), cycles);
            epoch
        };
        let comparison = compare(&waiting(90_000.0), &waiting(400_000.0)).expect("enough");
        let response = comparison.response.expect("known");
        assert!((response.ln.exp() - 1900.0 / 5000.0).abs() < 1e-9, "{response:?}");
        assert_eq!(comparison.cost.ln, 0.0);
        let nothing = epoch(1.0, &[(1, 100, 1_000.0), (2, 100, 50_000.0)]);
        assert_eq!(compare(&waiting(1.0), &nothing).expect("enough").response, None);
    }

    #[test]
    fn a_thread_waits_for_the_kind_that_it_works_on_all_the_time() {
        let counts = |seconds: u64, waits: &[(u32, u64, u32, f64)]| {
            let of = |&(tid, started_ticks, code, cycles): &(u32, u64, u32, f64)| {
                (Waiter { app: AppId(7), tid, started_ticks }, Waited { kind: kind(code), cycles })
            };
            let counts = Counts {
                taken_ns: seconds * 1_000_000_000,
                willing: [(AppId(7), 0)].into(),
                ..Counts::default()
            };
            counts.with_waits(waits.iter().map(of).collect())
        };
        let early = counts(1, &[(10, 1, 2, 100.0), (11, 1, 2, 100.0), (12, 1, 2, 100.0), (13, 1, 3, 50.0)]);
        // 12 is another thread by now, 13 turned to another kind.
        let late = counts(2, &[(10, 1, 2, 130.0), (11, 1, 2, 107.0), (12, 9, 2, 900.0), (13, 1, 2, 90.0)]);
        assert_eq!(late.since(&early).waits, [(kind(2), 37.0)].into());
    }

    #[test]
    fn an_epoch_is_what_came_since() {
        let willing = [(AppId(7), 500_000_000)].into();
        let kinds = epoch(1.0, &[(1, 100, 50.0)]).kinds;
        let early = Counts { taken_ns: 1_000_000_000, willing, kinds, waits: BTreeMap::new() };
        let kinds = epoch(1.0, &[(1, 300, 50.0), (2, 7, 10.0)]).kinds;
        let late = Counts { taken_ns: 3_000_000_000, kinds, ..early.clone() };
        let since = late.since(&early);
        assert_eq!((since.seconds, since.kinds[&kind(1)].count, since.kinds[&kind(2)].count), (2.0, 200, 7));
        assert_eq!(since.sections(), 207);
        // An application that allowed placement only later does not count.
        let late = Counts { willing: [(AppId(7), 2_000_000_000)].into(), ..late };
        assert!(early.is_willing_since(&early) && !late.is_willing_since(&early));
        assert_eq!(late.since(&early).sections(), 0);
    }
}

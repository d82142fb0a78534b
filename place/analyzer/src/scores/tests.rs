use super::*;
use crate::model::{CodeId, CpuId, KindSnapshot};
use hardmeter_samples::model::Cycles;

const HERTZ: u64 = 1_000_000_000;

fn options() -> Options {
    Options::of_machine(2 << 20, HERTZ)
}

/// Values that alternate slightly around a mean.
fn moments(count: u64, mean: f64, spread: f64) -> Moments {
    Moments { count, mean, m2: count as f64 * spread * spread }
}

fn record(count: u64, micros: f64) -> Record {
    let cycles = micros * 1000.0;
    Record {
        count,
        exact: count,
        cycles: Cycles((cycles * count as f64) as u64),
        elapsed: Cycles((cycles * count as f64) as u64),
        own: moments(count, cycles, cycles / 20.0),
        ..Record::default()
    }
}

fn snapshot(kinds: Vec<(Class, Record)>) -> Vec<Snapshot> {
    let kinds = kinds.into_iter().enumerate().map(|(i, (class, record))| KindSnapshot {
        code: CodeId(i as u32 + 2),
        label: format!("kind {i}"),
        note: String::new(),
        statement: None,
        related: None,
        class,
        records: vec![(CpuId(0), record)],
    });
    vec![Snapshot {
        app: AppId(7),
        name: "web".into(),
        related: None,
        taken_ns: 5_000_000_000,
        cycles_per_second: HERTZ,
        collecting: true,
        backend: "probe".into(),
        without: Vec::new(),
        kinds: kinds.collect(),
        without_room: 0,
        contended: 0,
        dropped: 0,
        moves: 0,
        probes: 0,
        probe_cycles: Cycles(0),
    }]
}

fn judged(was: Class, record: Record) -> KindProfile {
    let after = snapshot(vec![(was, record)]);
    workload(&[], &after, &Transitions::default(), &options()).kinds.remove(0)
}

fn after(mut record: Record, class: usize, count: u64, micros: f64) -> Record {
    record.after[class] = moments(count, micros * 1000.0, micros * 50.0);
    record
}

fn displacing(mut record: Record, count: u64, share: f64) -> Record {
    record.displaced = moments(count, share, 0.05);
    record
}

#[test]
fn short_sections_are_short_whatever_they_displace() {
    let kind = judged(Class::Unknown, displacing(record(100, 80.0), 30, 0.9));
    assert_eq!(kind.class, Class::Short);
    assert!(kind.reason.contains("80 us"), "{}", kind.reason);
}

#[test]
fn leaving_short_takes_a_tenth_more() {
    assert_eq!(judged(Class::Short, displacing(record(100, 155.0), 30, 0.9)).class, Class::Short);
    assert_eq!(judged(Class::Unknown, displacing(record(100, 155.0), 30, 0.9)).class, Class::Polluter);
    assert_eq!(judged(Class::Short, displacing(record(100, 200.0), 30, 0.9)).class, Class::Polluter);
}

#[test]
fn a_polluter_needs_its_whole_interval_beyond_the_bound() {
    assert_eq!(judged(Class::Unknown, displacing(record(100, 500.0), 30, 0.6)).class, Class::Polluter);
    // Three probes are not enough, nor is a mean of 41 % with an interval from 39.
    assert_eq!(judged(Class::Unknown, displacing(record(100, 500.0), 3, 0.6)).class, Class::Unknown);
    assert_eq!(judged(Class::Unknown, displacing(record(100, 500.0), 30, 0.41)).class, Class::Unknown);
    let kept = judged(Class::Polluter, displacing(record(100, 500.0), 30, 0.41));
    assert_eq!(kept.class, Class::Polluter);
    assert!(kept.reason.contains("as before"), "{}", kept.reason);
    assert_eq!(judged(Class::Polluter, displacing(record(100, 500.0), 30, 0.2)).class, Class::Neutral);
}

#[test]
fn who_is_slower_after_polluters_is_sensitive() {
    let base = displacing(after(record(100, 400.0), AFTER_SAME, 50, 400.0), 30, 0.2);
    let slow = after(base.clone(), Class::Polluter as usize, 50, 640.0);
    let kind = judged(Class::Unknown, slow);
    assert_eq!(kind.class, Class::Sensitive);
    let slowdown = kind.slowdown.unwrap();
    assert!((slowdown.mean - 0.6).abs() < 1e-9 && slowdown.low > 0.5 && slowdown.high < 0.7, "{slowdown:?}");
    // 4 % is not 10 %.
    let kind = judged(Class::Unknown, after(base, Class::Polluter as usize, 50, 416.0));
    assert_eq!(kind.class, Class::Neutral, "{}", kind.reason);
}

/// A clean working set of 1 MB displaces 73 % and is worth protecting; a stream displaces everything, and is not.
#[test]
fn who_has_something_to_lose_is_sensitive_though_it_displaces() {
    let both = |share: f64| {
        let record = after(record(100, 400.0), AFTER_SAME, 50, 400.0);
        displacing(after(record, Class::Polluter as usize, 50, 640.0), 30, share)
    };
    assert_eq!(judged(Class::Unknown, both(0.73)).class, Class::Sensitive);
    assert_eq!(judged(Class::Unknown, both(1.0)).class, Class::Polluter);
}

#[test]
fn long_sections_that_are_always_switched_pollute_by_duration() {
    let mut long = record(0, 0.0);
    long.count = 40;
    long.preempted = 40;
    long.elapsed = Cycles(40 * 30_000_000);
    let kind = judged(Class::Unknown, long.clone());
    assert_eq!(kind.class, Class::Polluter);
    assert!(kind.reason.contains("30.0 ms") && kind.reason.contains("by duration"), "{}", kind.reason);
    // The probe's result takes precedence.
    assert_ne!(judged(Class::Unknown, displacing(long.clone(), 30, 0.1)).class, Class::Polluter);
    long.preempted = 5;
    assert_eq!(judged(Class::Unknown, long).class, Class::Unknown);
}

#[test]
fn where_a_pmu_counts_the_papers_threshold_holds() {
    // 40 % of 2 MB are 13,107 lines.
    let with = |misses: f64| Record { misses: moments(50, misses, 0.0), ..record(100, 500.0) };
    let kind = judged(Class::Unknown, with(20_000.0));
    assert_eq!(kind.class, Class::Polluter);
    assert!(kind.reason.contains("paper"), "{}", kind.reason);
    assert_eq!(judged(Class::Unknown, with(5_000.0)).class, Class::Unknown);
}

#[test]
fn shares_and_rates_are_of_the_window() {
    let before = snapshot(vec![(Class::Unknown, record(100, 200.0)), (Class::Unknown, record(10, 100.0))]);
    let mut after =
        snapshot(vec![(Class::Unknown, record(300, 200.0)), (Class::Unknown, record(110, 400.0))]);
    after[0].taken_ns += 2_000_000_000;
    let workload = workload(&before, &after, &Transitions::default(), &options());
    assert_eq!(workload.seconds, 2.0);
    let (a, b) = (&workload.kinds[0], &workload.kinds[1]);
    assert_eq!((a.count, a.rate, b.count, b.rate), (200, 100.0, 100, 50.0));
    // 200 x 200 us = 40 ms; 110 x 400 - 10 x 100 = 43 ms.
    assert!((a.share - 40.0 / 83.0).abs() < 1e-6 && (b.share - 43.0 / 83.0).abs() < 1e-6);
    assert_eq!(b.kind, KindRef { app: AppId(7), code: CodeId(3) });
}

/// An analyzer often starts before its servers.
#[test]
fn who_comes_after_the_analyzer_has_a_rate_at_the_second_look() {
    let mut scores = Scores::new(options());
    scores.observe(&[]);
    let mut one = snapshot(vec![(Class::Unknown, record(100, 200.0))]);
    assert_eq!(scores.observe(&one).kinds[0].rate, 0.0, "how long it took for these is not known");
    one[0].taken_ns += 1_000_000_000;
    one[0].kinds[0].records[0].1 = record(350, 200.0);
    let workload = scores.observe(&one);
    assert_eq!((workload.seconds, workload.kinds[0].rate), (1.0, 250.0));
}

#[test]
fn footprints_are_sizes_of_synthetic_sections() {
    let kind = judged(Class::Unknown, displacing(record(100, 500.0), 30, 0.30));
    let footprint = kind.footprint_kb.unwrap();
    assert!((footprint.mean - 256.0).abs() < 1e-6 && footprint.low < 256.0 && footprint.high > 256.0);
}

#[test]
fn known_kinds_are_probed_seldom_and_keep_their_score() {
    let mut scores = Scores::new(Options { window_seconds: 1.0, ..options() });
    let at = |seconds: u64, count: u64, probes: u64| {
        let mut one = snapshot(vec![(Class::Unknown, displacing(record(count, 500.0), probes, 0.7))]);
        one[0].taken_ns = seconds * 1_000_000_000;
        one
    };
    assert_eq!(scores.observe(&at(10, 100, 30)).kinds[0].class, Class::Polluter);
    let later = scores.observe(&at(12, 300, 30));
    assert_eq!((later.kinds[0].count, later.seconds), (200, 2.0));
    assert_eq!(later.kinds[0].displaced.unwrap().n, 30);
    assert_eq!(later.kinds[0].class, Class::Polluter);
    // The window slides: it never begins more than two lengths ago.
    assert_eq!(scores.observe(&at(14, 500, 30)).seconds, 4.0);
    assert_eq!(scores.observe(&at(16, 700, 31)).seconds, 4.0);
}

/// On this host, other work displaces half of the lines in 500 us. A control without memory accesses shows 50
/// % and is not a polluter; a section that leaves 10 % of the lines where the background leaves 50 % replaces
/// 80 %.
#[test]
fn controls_are_not_blamed_for_a_noisy_host() {
    let noisy = Options { background_per_cycle: std::f64::consts::LN_2 / 500_000.0, ..options() };
    let observed = |options: &Options| {
        let kinds = snapshot(vec![
            (Class::Unknown, displacing(record(100, 500.0), 200, 0.5)),
            (Class::Unknown, displacing(record(100, 500.0), 200, 0.9)),
        ]);
        workload(&[], &kinds, &Transitions::default(), options).kinds
    };
    let [control, stream] = &observed(&noisy)[..] else { panic!("two kinds") };
    assert_ne!(control.class, Class::Polluter);
    assert!(control.displaced.unwrap().mean.abs() < 1e-9, "{:?}", control.displaced);
    assert!((stream.displaced.unwrap().mean - 0.8).abs() < 1e-9, "{:?}", stream.displaced);
    assert_eq!(stream.class, Class::Polluter);
    assert_eq!(observed(&options())[0].class, Class::Polluter, "without, the control is blamed");
}

/// Rounds that differ by noise alone, around a bound: an interval that contains the bound changes nothing.
#[test]
fn classes_do_not_flap_between_looks() {
    let base = |share: f64| displacing(after(record(100, 400.0), AFTER_SAME, 50, 400.0), 30, share);
    let slower = |share: f64, micros: f64| {
        let mut record = base(share);
        // Spread by 10 %: of 50 values, the interval is some 3 % on each side.
        record.after[Class::Polluter as usize] = moments(50, micros * 1000.0, micros * 100.0);
        record
    };
    let looks = |first: Class, records: Vec<Record>| -> Vec<Class> {
        let mut was = first;
        records
            .into_iter()
            .map(|record| {
                was = judged(was, record).class;
                was
            })
            .collect()
    };
    // 50 % slower, then 11 and 9 % with intervals that hold 10 %, beside a damage of 73 %; then 2 %: a polluter.
    let sensitive = [600.0, 444.0, 436.0, 444.0, 408.0].map(|micros| slower(0.73, micros));
    assert_eq!(
        looks(Class::Unknown, sensitive.into()),
        [Class::Sensitive, Class::Sensitive, Class::Sensitive, Class::Sensitive, Class::Polluter]
    );
    // All is displaced, then 95 % (+- 2): sensitivity is uncertain. It stays a polluter until 80 % is measured.
    let everything = [0.99, 0.955, 0.945, 0.955, 0.80].map(|share| slower(share, 600.0));
    assert_eq!(
        looks(Class::Unknown, everything.into()),
        [Class::Polluter, Class::Polluter, Class::Polluter, Class::Polluter, Class::Sensitive]
    );
}

/// 45, then 41 and 39 % (+- 2) of L2 replaced: kinds after it continue to count as after a polluter.
#[test]
fn who_pollutes_does_so_until_it_surely_does_not() {
    let share = |mean: f64| Some(Estimate { mean, low: mean - 0.02, high: mean + 0.02, n: 30 });
    assert!(is_beyond(share(0.45), 0.4, false) && !is_beyond(share(0.41), 0.4, false));
    assert!(is_beyond(share(0.41), 0.4, true) && is_beyond(share(0.39), 0.4, true));
    assert!(!is_beyond(share(0.37), 0.4, true) && !is_beyond(None, 0.4, true));
}

/// Always switched, around 3 ms: classified by duration alone, which has no interval.
#[test]
fn durations_around_a_bound_do_not_flap_either() {
    let long = |micros: u64| Record {
        count: 40,
        preempted: 40,
        elapsed: Cycles(40 * micros * 1000),
        ..record(0, 0.0)
    };
    assert_eq!(judged(Class::Unknown, long(3100)).class, Class::Polluter);
    assert_eq!(judged(Class::Polluter, long(2900)).class, Class::Polluter);
    assert_eq!(judged(Class::Unknown, long(2900)).class, Class::Unknown);
}

//! Comparisons of hand-made runs, and a thousand comparisons of equal runs.

use super::*;
use crate::why::EventKind;
use hardmeter_samples::model::EventSource;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Events that a sample stands for.
const PERIOD: u64 = 100;

fn run(file: &str, transactions: f64, rows: Vec<RunRow>) -> CompareRun {
    let mut sum = RunSum::default();
    rows.iter().for_each(|row| sum.add(row.sum));
    CompareRun {
        file: file.into(),
        source: EventSource::Simulated,
        machine: Some("small".into()),
        one_line_in: 1,
        filter: None,
        work: [(Per::Transaction, transactions)].into(),
        builds: BTreeMap::new(),
        events: vec![RunEvent { name: "l2-miss".into(), kind: EventKind::Other, sum }],
        rows,
        lost: 0,
        remarks: Vec::new(),
        unread: Vec::new(),
    }
}

fn row(function: &str, line: Option<Label>, samples: u64) -> RunRow {
    let period = PERIOD as f64;
    let events = samples as f64 * period;
    RunRow {
        event: 0,
        names: [Some(Label::plain(function)), Some(Label::plain("mov (%rax),%rdx")), line, None, None],
        image: "server".into(),
        sum: RunSum { samples, events, squares: events * period, cycles: 0.0 },
    }
}

fn functions(counts: &[(&str, u64)]) -> Vec<RunRow> {
    counts.iter().map(|(name, samples)| row(name, None, *samples)).collect()
}

fn compared(a: &[CompareRun], b: &[CompareRun]) -> Comparison {
    Comparison::of(a, b, &[CompareColumn::PLACE.to_vec()], None).expect("comparable")
}

/// 1,000 samples of 100 events in 100 transactions are 1,000 events each; then 900 samples in 50 transactions: 1,800.
#[test]
fn rates_are_for_each_transaction() {
    let a = run("a", 100.0, functions(&[("search", 400), ("insert", 600)]));
    let b = run("b", 50.0, functions(&[("search", 600), ("insert", 300)]));
    let comparison = compared(&[a], &[b]);
    let event = &comparison.events[0];
    assert_eq!(comparison.per, Per::Transaction);
    assert_eq!((comparison.a.work, comparison.b.work, comparison.between_runs), (100.0, 50.0, false));
    assert_eq!(event.total.rates, [1000.0, 1800.0]);
    assert_eq!(event.functions.different, 1);
    let first = &event.functions.rows[0];
    assert_eq!((first.names[0].as_deref(), first.rates), (Some("search"), [400.0, 1200.0]));
    let change = first.change.expect("of two runs");
    assert!((change.value - 2.0).abs() < 1e-9 && change.interval.contains(2.0), "{change:?}");
    // 600 in 100 compared with 300 in 50: the same.
    assert_eq!(event.functions.rows[1].rates, [600.0, 600.0]);
    assert!(!event.functions.rows[1].different);
}

#[test]
fn what_cannot_be_compared_is_refused_and_what_differs_is_said() {
    let rows = || functions(&[("search", 10)]);
    let good = || run("a", 100.0, rows());
    let refused = |a: &[CompareRun], b: &[CompareRun], per| {
        Comparison::of(a, b, &[], per).expect_err("not comparable").to_string()
    };
    let live = CompareRun { source: EventSource::Live, file: "live.data".into(), ..good() };
    let told = refused(&[good()], &[live], None);
    assert!(told.contains("live.data is sampled live") && told.contains("a is simulated"), "{told}");
    let mut other = good();
    other.events[0].name = "l1d-miss".into();
    let told = refused(&[good()], &[other], None);
    assert!(told.contains("A has l2-miss; B has l1d-miss") && told.contains("-e"), "{told}");
    assert!(refused(&[], &[good()], None).contains("side A has no capture"));
    let told = refused(&[good()], &[good()], Some(Per::Instruction));
    assert!(told.contains("a has no count of its instructions"), "{told}");

    let larger = CompareRun { machine: Some("large".into()), file: "b".into(), lost: 3, ..good() };
    let comparison = Comparison::of(&[good()], &[larger], &[], None).expect("said, not refused");
    let notes = comparison.notes.join("\n");
    assert!(notes.contains("the machines differ") && notes.contains("small in a, large in b"), "{notes}");
    assert!(notes.contains("3 records were lost"), "{notes}");
    // Without a unit that both record, rates are shares.
    let unknown = CompareRun { work: BTreeMap::new(), ..good() };
    assert_eq!(compared(&[good()], &[unknown]).per, Per::Share);
}

#[test]
fn an_event_of_one_side_is_left_out_and_named() {
    let mut b = run("b", 10.0, functions(&[("search", 10)]));
    b.events.push(RunEvent { name: "stlb-miss".into(), kind: EventKind::TlbMiss, sum: RunSum::sample(1, 0) });
    let comparison = compared(&[run("a", 10.0, functions(&[("search", 10)]))], &[b]);
    assert_eq!(comparison.events.len(), 1);
    assert!(comparison.notes.iter().any(|note| note.contains("stlb-miss")), "{:?}", comparison.notes);
}

#[test]
fn moved_code_is_no_difference() {
    let line = |distance: &str, shown: &str| {
        Some(Label { identity: format!("heap.c{distance} ").into(), shown: shown.into() })
    };
    // The function moved from line 100 to 140 of its file; in another build, a line within it moved as well.
    let old = vec![row("search", line("+5", "heap.c:105"), 50), row("search", line("+9", "heap.c:109"), 70)];
    let new = vec![row("search", line("+5", "heap.c:145"), 50), row("search", line("+12", "heap.c:152"), 70)];
    let built = |rows, build: &str| {
        let builds = [(Arc::from("server"), build.to_string())].into();
        CompareRun { builds, ..run(build, 10.0, rows) }
    };
    let lines = |comparison: &Comparison| {
        let shown = |row: &ComparedRow| (row.names[2].as_deref().unwrap().to_string(), row.samples);
        let mut lines: Vec<_> = comparison.events[0].tables[0].rows.iter().map(shown).collect();
        lines.sort();
        lines
    };
    let comparison = compared(&[built(old.clone(), "1")], &[built(new.clone(), "2")]);
    assert_eq!(lines(&comparison), [("heap.c:145".into(), [50, 50]), ("heap.c:152".into(), [70, 70])]);
    assert_eq!(comparison.events[0].tables[0].different, 0);
    // The same build has no moved lines: a place on one side only is a difference.
    let same = compared(&[built(old, "1")], &[built(new, "1")]);
    assert_eq!(same.events[0].tables[0].rows.len(), 3);
    assert_eq!(same.events[0].tables[0].different, 2);
}

/// Marsaglia's xorshift.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Half of `n` samples, each drawn with its own coin.
    fn half(&mut self, n: u64) -> u64 {
        (0..n / 64).map(|_| u64::from(self.next().count_ones())).sum::<u64>()
            + u64::from((self.next() & ((1 << (n % 64)) - 1)).count_ones())
    }

    /// The normal distribution, as the sum of twelve uniform numbers.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.uniform()).sum::<f64>() - 6.0
    }
}

/// A server's profile: few hot functions, a long tail of cold ones; 8,000 samples in all.
fn profile() -> Vec<(String, u64)> {
    let count = |rank: u64| 1 + 2_000 / (rank * rank / 4 + rank);
    (1..=60).map(|rank| (format!("function_{rank}"), count(rank))).collect()
}

fn split(random: &mut Random) -> [Vec<RunRow>; 2] {
    let mut sides = [Vec::new(), Vec::new()];
    for (name, samples) in profile() {
        let first = random.half(samples);
        for (side, samples) in sides.iter_mut().zip([first, samples - first]) {
            if samples > 0 {
                side.push(row(&name, None, samples));
            }
        }
    }
    sides
}

/// A coin assigns each sample of one profile to A or to B: all differences are due to chance.
#[test]
fn a_thousand_halves_of_one_run_do_not_differ() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut rows, mut called, mut wrong) = (0, 0, 0);
    for _ in 0..1000 {
        let [a, b] = split(&mut random);
        let comparison =
            Comparison::of(&[run("a", 100.0, a)], &[run("b", 100.0, b)], &[], None).expect("comparable");
        let table = &comparison.events[0].functions;
        rows += table.judged;
        called += table.different;
        wrong += usize::from(table.different > 0);
    }
    assert!(rows > 10_000, "{rows}");
    assert!(called * 20 <= rows, "{called} of {rows} rows");
    // There is no difference, so every report is false: the method allows one in 5 % of the comparisons.
    assert!(wrong <= 70, "{wrong} of 1,000 comparisons call a row different");
}

/// Each function's rate varies between runs by a tenth, and every third one's by a fifth. A comparison
/// by counts alone would report most of the hot functions as different. Two, three and four runs on each
/// side.
#[test]
fn runs_that_scatter_do_not_differ_between_sides() {
    for side in 2..=4 {
        scattered_runs(side);
    }
}

fn scattered_runs(side: usize) {
    let mut random = Random(42);
    let (mut rows, mut called, mut by_counts) = (0, 0, 0);
    for _ in 0..100 {
        let mut scattered = |number: usize| {
            let mut scatter = |rank: usize, samples: u64| {
                let width = if rank.is_multiple_of(3) { 0.2 } else { 0.1 };
                (samples as f64 * 10.0 * (1.0 + width * random.normal())).max(0.0) as u64
            };
            let rows = profile().into_iter().enumerate();
            let rows = rows.map(|(rank, (name, samples))| row(&name, None, scatter(rank, samples)));
            let rows = rows.filter(|row| row.sum.samples > 0).collect();
            run(&format!("run {number}"), 100.0, rows)
        };
        let runs: Vec<CompareRun> = (0..2 * side).map(&mut scattered).collect();
        let comparison = Comparison::of(&runs[..side], &runs[side..], &[], None).expect("comparable");
        assert!(comparison.between_runs);
        let table = &comparison.events[0].functions;
        rows += table.judged;
        called += table.different;
        let two = Comparison::of(&runs[..1], &runs[side..=side], &[], None).expect("comparable");
        by_counts += two.events[0].functions.different;
    }
    assert!(called * 20 <= rows, "{called} of {rows} rows with {side} runs");
    assert!(by_counts > 100, "the scatter is larger than that of counts: {by_counts}");
}

/// 80 samples of 100 events in 100 transactions are 80 misses per transaction; one more is 1.25 %.
#[test]
fn one_more_miss_a_transaction_in_one_function_is_found() {
    let mut random = Random(7);
    let mut found = 0;
    for _ in 0..100 {
        let [a, mut b] = split(&mut random);
        // 8,000 transactions with one more miss in each: 80 more samples, in a function with about 20.
        let planted =
            b.iter_mut().find(|row| row.names[0].as_ref().unwrap().shown.as_ref() == "function_12").unwrap();
        planted.sum.samples += 80;
        planted.sum.events += 80.0 * PERIOD as f64;
        planted.sum.squares += 80.0 * (PERIOD * PERIOD) as f64;
        let comparison =
            Comparison::of(&[run("a", 8000.0, a)], &[run("b", 8000.0, b)], &[], None).expect("comparable");
        let first = &comparison.events[0].functions.rows[0];
        let named = first.names[0].as_deref() == Some("function_12");
        let one_more = first.change.is_some() && (first.difference() - 1.0).abs() < 0.3;
        found += u32::from(named && first.different && one_more);
    }
    assert!(found >= 95, "found in {found} of 100");
}

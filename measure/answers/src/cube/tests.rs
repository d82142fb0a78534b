use super::*;
use crate::filter::Filter;
use crate::testing::{sample, FakeMap, BASE};
use hardmeter_samples::model::{Callchain, Cycles, Period, Record, Timestamp};

const USER: u64 = -512i64 as u64;

fn add(cube: &mut Cube, pass: &mut Pass<FakeMap>, sample: Sample<'_>, statement: Option<u64>) {
    let located = pass.see(&Record::Sample(sample.clone())).expect("it passes");
    cube.add(&sample, located, None, statement.map(StatementId), pass);
}

fn at(ip: u64, time: u64) -> Sample<'static> {
    let mut sample = sample(0, 1, BASE + ip);
    sample.time = Some(Timestamp(time));
    sample
}

/// Two samples of one statement in LWLockAcquire, one without a statement in hash_search; latency 10, period
/// 1.
#[test]
fn rows_add_up_to_the_samples() {
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    let mut cube = Cube::default();
    add(&mut cube, &mut pass, at(0x10, 5), Some(7));
    let mut third = at(0x10, 6);
    third.period = Period(3);
    add(&mut cube, &mut pass, third, Some(7));
    add(&mut cube, &mut pass, at(0x310, 7), None);
    let rows = cube.rows(&mut pass);
    assert_eq!((rows.samples(), rows.rows.len()), (3, 2));
    let (key, sum) = rows.rows.iter().find(|(key, _)| key.statement.is_some()).expect("a statement");
    assert_eq!(rows.statements[key.statement.unwrap() as usize], StatementId(7));
    assert_eq!((sum.samples, sum.events, sum.cycles), (2, 4, 40));
    assert_eq!((sum.event_squares, sum.cycle_squares), (1.0 + 9.0, 100.0 + 900.0));
    let (caller, frame) = rows.paths[key.path.unwrap() as usize];
    let frame = &rows.frames[frame as usize];
    assert_eq!((frame.routine.as_str(), frame.instruction), ("LWLockAcquire", Some(0x10)));
    let (outermost, routine) = rows.paths[caller.unwrap() as usize];
    assert_eq!((outermost, rows.frames[routine as usize].instruction), (None, None));
}

#[test]
fn call_paths_are_of_routines() {
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    let mut cube = Cube::default();
    // Two instructions of LWLockAcquire, each called from its own place of hash_search: one path.
    for (ip, back) in [(0x10, 0x311), (0x20, 0x321)] {
        let entries = [USER, BASE + ip, BASE + back].map(u64::to_ne_bytes);
        let mut sample = at(ip, 1);
        sample.callchain = Callchain { entries: &entries };
        add(&mut cube, &mut pass, sample, None);
    }
    let rows = cube.rows(&mut pass);
    assert_eq!((rows.rows.len(), rows.paths.len()), (1, 2));
    let names: Vec<&str> =
        rows.paths.iter().map(|path| rows.frames[path.1 as usize].routine.as_str()).collect();
    assert_eq!((names, rows.paths[1].0), (vec!["hash_search", "LWLockAcquire"], Some(0)));
}

/// A sample each 2^20 ns, 1,000 of them: 2^30 ns in steps of 2^22 are 250 steps of four samples.
#[test]
fn time_has_a_bounded_number_of_steps() {
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    let mut cube = Cube::default();
    for turn in 0..1000 {
        add(&mut cube, &mut pass, at(0x10, 99 + (turn << 20)), None);
    }
    let rows = cube.rows(&mut pass);
    assert_eq!(rows.time, CubeTime { begin_ns: 99, step_ns: 1 << 22, steps: 250 });
    assert!(rows.rows.iter().all(|(_, sum)| sum.samples == 4));
}

#[test]
fn merging_keeps_every_sample_and_says_what_it_merged() {
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    let mut cube = Cube::default();
    for turn in 0..1000 {
        // Every tenth sample is at one instruction; each of the others at its own.
        let ip = if turn % 10 == 0 { 0x10 } else { 0x100 + turn };
        add(&mut cube, &mut pass, at(ip, turn << 20), Some(turn % 2));
    }
    let all = cube.rows(&mut pass);
    assert_eq!(all.rows.len(), 1000, "every sample has a statement, path and time of its own");
    let bounded = all.clone().bounded(100);
    assert!(bounded.rows.len() <= 100, "{}", bounded.rows.len());
    assert_eq!(bounded.samples(), 1000);
    assert_eq!(bounded.time.steps, 32);
    assert_eq!(
        bounded.coarsened.first(),
        Some(&Coarsening::Time { step_ns: bounded.time.step_ns }),
        "{:?}",
        bounded.coarsened
    );
    let tiny = all.clone().bounded(2);
    assert_eq!((tiny.rows.len(), tiny.samples(), tiny.time.steps), (2, 1000, 1), "two statements remain");
    assert_eq!(all.clone().bounded(1000), all, "nothing is merged that fits");
}

#[test]
fn hostile_times_and_latencies_do_no_harm() {
    let mut pass = Pass::new(FakeMap::default(), Filter::default());
    let mut cube = Cube::default();
    for time in [5, u64::MAX, 0] {
        let mut sample = at(0x10, time);
        sample.period = Period(u64::MAX);
        sample.weight.as_mut().expect("a latency").latency = Cycles(u64::MAX);
        add(&mut cube, &mut pass, sample, None);
    }
    let rows = cube.rows(&mut pass).bounded(1);
    assert_eq!((rows.samples(), rows.rows[0].1.cycles), (3, u64::MAX));
}

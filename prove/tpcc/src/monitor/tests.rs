//! The loop of a thread in virtual time.

use super::shared::Shared;
use super::testing::{failed, order, success, List, Server};
use super::worker::{Counted, Place, Worker};
use super::{Logs, Patience, OUTCOME_UNKNOWN};
use crate::measure::{interval, Ending, Run, RunResult};
use crate::order::{Queueing, RunOrder};
use crate::time::{Clock, Micros};
use crate::work::{FailureKind, Kind, Outcome};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;

/// A second in microseconds.
const SECOND: u64 = 1_000_000;

struct Ran {
    result: RunResult,
    abandoned: u32,
}

fn run(order: &RunOrder, server: &mut Server, list: &mut List, logs: &Logs) -> Ran {
    let shared = Shared::new(interval(order).end);
    run_until(order, server, list, logs, &shared)
}

fn run_until(order: &RunOrder, server: &mut Server, list: &mut List, logs: &Logs, shared: &Shared) -> Ran {
    logs.create().unwrap();
    let writers = logs.open(Clock::beginning_at(0)).unwrap();
    let place = Place { order, number: 0, patience: Patience::default(), shared };
    let time = server.hand.clone();
    let Counted { recorder, abandoned } = Worker::new(place, time, server, list, writers).run();
    let driver = crate::measure::testing::driver(1, 4);
    let run = Run { order, started_at: 0, ended: shared.ended(), ending: shared.ending(), driver };
    Ran { result: run.result([recorder]), abandoned }
}

fn sent(server: &Server) -> Vec<u32> {
    server.sent.iter().map(|sent| sent.terminal).collect()
}

#[test]
fn what_is_answered_at_the_edges_of_the_interval_counts_exactly() {
    let order = RunOrder { ramp_seconds: 1.0, interval_seconds: 1.0, connections: 4, ..order() };
    // Answered after 100 us: the last of the ramp, the first and the last of the interval, the first beyond.
    let moments = [SECOND - 1, SECOND, 2 * SECOND - 1, 2 * SECOND];
    let mut list = List::of(&moments.map(|moment| (moment - 100, Kind::Payment, 1)));
    let mut server = Server::new(4, |work, _| (Micros(100), success(work.input.kind())));
    let ran = run(&order, &mut server, &mut list, &Logs::default());
    let payments = ran.result.of(Kind::Payment);
    assert_eq!((payments.completed, payments.ramp_response.count()), (2, 1));
    assert_eq!(server.answers.len(), 4, "what was under way is waited for");
    assert_eq!(list.answered.len(), 3, "and answers nobody any more");
    assert_eq!(ran.result.ending, Ending::Complete);
    assert_eq!(ran.result.measured_seconds, 1.0);
}

#[test]
fn who_waits_goes_in_order_and_response_times_contain_the_wait() {
    // Four are due at once, one connection, 1 s each.
    let due = [Kind::StockLevel, Kind::Payment, Kind::NewOrder, Kind::OrderStatus];
    let due = due.map(|kind| (0, kind, 1));
    for (queueing, expected) in [(Queueing::Fifo, [0, 1, 2, 3]), (Queueing::Priority, [2, 1, 3, 0])] {
        let order = RunOrder { queueing, ..order() };
        let mut server = Server::new(1, |work, _| (Micros::seconds(1), success(work.input.kind())));
        let mut list = List::of(&due);
        let ran = run(&order, &mut server, &mut list, &Logs::default());
        assert_eq!(sent(&server), expected);
        let last = Kind::ALL[[Kind::OrderStatus, Kind::StockLevel][queueing as usize].index()];
        let longest = ran.result.of(last).response.max().unwrap();
        assert!(longest.0.abs_diff(4 * SECOND) < 4_000, "{longest:?}");
        assert_eq!(ran.result.series[0].waiting, 3);
    }
}

#[test]
fn deliveries_are_answered_when_queued_and_done_behind_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let logs = Logs { deliveries: Some(folder.path().join("deliveries")), successes: None };
    let due = [(0, Kind::Payment, 1), (5, Kind::Delivery, 2), (6, Kind::Payment, 1), (7, Kind::NewOrder, 1)];
    let mut server = Server::new(1, |work, _| (Micros::seconds(1), success(work.input.kind())));
    let mut list = List::of(&due);
    let ran = run(&order(), &mut server, &mut list, &logs);
    assert_eq!(sent(&server), [0, 2, 3, 1]);
    assert_eq!(list.answered[0], (1, Kind::Delivery, Micros(5)));
    let deliveries = ran.result.of(Kind::Delivery);
    assert_eq!(deliveries.completed, 1);
    assert!(deliveries.response.max().unwrap() <= Micros(1));
    // Queued at 5 us, done after 4 s.
    assert!(ran.result.delivery.max().unwrap().0.abs_diff(4 * SECOND) < 4_000);
    assert_eq!(ran.result.delivery_districts, (0, 10));
    let file = std::fs::read_to_string(logs.deliveries.unwrap()).unwrap();
    assert_eq!(
        file.lines().nth(1).unwrap(),
        "1970-01-01T00:00:00.000005Z 2 1 1 1 1 1 1 1 1 1 1 1 1970-01-01T00:00:04.000000Z"
    );
}

#[test]
fn what_is_queued_at_the_end_is_dropped_but_for_deliveries() {
    let due = [(0, Kind::Payment, 1), (1, Kind::Payment, 1), (2, Kind::Delivery, 1), (3, Kind::Delivery, 1)];
    let order = RunOrder { interval_seconds: 1.0, ..order() };
    let mut server = Server::new(1, |work, _| (Micros::seconds(2), success(work.input.kind())));
    let mut list = List::of(&due);
    let ran = run(&order, &mut server, &mut list, &Logs::default());
    assert_eq!(sent(&server), [0, 2, 3]);
    assert_eq!(ran.abandoned, 1);
    assert_eq!((ran.result.of(Kind::Payment).completed, ran.result.delivery.count()), (0, 0));
    assert_eq!(ran.result.of(Kind::Delivery).completed, 2, "both were queued in time");
}

#[test]
fn who_hangs_is_waited_for_half_a_minute() {
    let mut server = Server::new(1, |_, _| (Micros::seconds(3600), Outcome::Committed));
    let mut list = List::of(&[(0, Kind::Payment, 1)]);
    let ran = run(&order(), &mut server, &mut list, &Logs::default());
    assert_eq!(ran.abandoned, 1);
    let ended = super::worker::Moments::now(&server.hand);
    assert_eq!(ended, Micros::seconds(40));
}

#[test]
fn what_may_pass_is_tried_again_and_its_response_time_runs_on() {
    let mut tries = 0;
    let mut server = Server::new(1, |work, _| {
        tries += 1;
        let passes = tries == 3;
        let outcome =
            if passes { success(work.input.kind()) } else { failed(FailureKind::Retriable, "40001") };
        (Micros::seconds(1), outcome)
    });
    let mut list = List::of(&[(0, Kind::NewOrder, 1)]);
    let ran = run(&order(), &mut server, &mut list, &Logs::default());
    drop(server);
    assert_eq!(tries, 3);
    let orders = ran.result.of(Kind::NewOrder);
    assert_eq!((orders.completed, orders.retried, orders.failed), (1, 2, 0));
    // Three seconds in the server, and two retry delays of 0.5 to 1.5 and 1 to 3 ms.
    let response = orders.response.max().unwrap().0;
    assert!((3_001_500..=3_008_000).contains(&response), "{response}");
    assert!(orders.service.max().unwrap().0.abs_diff(SECOND) < 1_000);
    assert_eq!(ran.result.errors.len(), 1);
    assert_eq!((ran.result.errors[0].count, ran.result.errors[0].retried), (2, 2));
}

#[test]
fn what_fails_for_good_is_given_up_and_its_terminal_goes_on() {
    let mut server = Server::new(1, |_, _| (Micros(50), failed(FailureKind::Retriable, "40P01")));
    let mut list = List::of(&[(0, Kind::Payment, 1)]);
    let ran = run(&order(), &mut server, &mut list, &Logs::default());
    assert_eq!(server.sent.len(), 3);
    let payments = ran.result.of(Kind::Payment);
    assert_eq!((payments.completed, payments.retried, payments.failed), (0, 2, 1));
    assert_eq!(list.answered.len(), 1);
}

#[test]
fn a_new_order_with_a_lost_connection_is_not_sent_again_and_others_go_on() {
    // The connection fails with the first order; the server accepts no new one for 3 s. Ten payments per second.
    let mut due: Vec<(u64, Kind, u32)> = (1..60).map(|n| (n * 100_000, Kind::Payment, 1)).collect();
    due.insert(0, (0, Kind::NewOrder, 1));
    let mut attempts = Vec::new();
    let mut server = Server::new(2, |work, _| match work.input.kind() {
        Kind::NewOrder => (Micros(10), failed(FailureKind::ConnectionLost, "")),
        kind => (Micros(10), success(kind)),
    });
    server.door = Box::new(|now| {
        attempts.push(now);
        (Micros(200), now >= Micros::seconds(3))
    });
    let mut list = List::of(&due);
    let ran = run(&order(), &mut server, &mut list, &Logs::default());
    assert_eq!(server.sent.iter().filter(|sent| sent.terminal == 0).count(), 1);
    drop(server);
    let orders = ran.result.of(Kind::NewOrder);
    assert_eq!((orders.completed, orders.failed, orders.retried), (0, 1, 0));
    assert_eq!(ran.result.errors[0].code, OUTCOME_UNKNOWN);
    assert_eq!(ran.result.of(Kind::Payment).completed, 59);
    // None waited for more than an attempt to reconnect.
    assert!(ran.result.of(Kind::Payment).response.max().unwrap() <= Micros(220));
    // 10, 20, 40, ... 640 ms, a second, each half as long to half as long again.
    assert!((6..=14).contains(&attempts.len()), "{attempts:?}");
    assert_eq!(ran.result.ending, Ending::Complete);
}

#[test]
fn a_run_whose_server_stays_away_is_given_up_with_what_there_is() {
    let order = RunOrder { interval_seconds: 3600.0, ..order() };
    let mut server = Server::new(2, |work, now| {
        if now < Micros::seconds(5) {
            (Micros(10), success(work.input.kind()))
        } else {
            (Micros(10), failed(FailureKind::ConnectionLost, "57P01"))
        }
    });
    server.door = Box::new(|_| (Micros(100), false));
    let due: Vec<_> = (0..1000).map(|n| (n * SECOND, Kind::NewOrder, 1)).collect();
    let mut list = List::of(&due);
    let ran = run(&order, &mut server, &mut list, &Logs::default());
    let Ending::Failed { reason } = &ran.result.ending else { panic!("{:?}", ran.result.ending) };
    assert!(reason.starts_with("no connection could be had for 30 s: "), "{reason}");
    // The last connection was lost at 6 s.
    assert!((36.0..37.1).contains(&ran.result.measured_seconds), "{}", ran.result.measured_seconds);
    let orders = ran.result.of(Kind::NewOrder);
    assert_eq!((orders.completed, orders.failed), (5, 2));
    assert_eq!(ran.abandoned + 7, list.taken);
}

#[test]
fn a_run_in_which_nothing_is_written_any_more_is_given_up() {
    let order = RunOrder { interval_seconds: 3600.0, ..order() };
    let mut server = Server::new(2, |work, _| match work.input.kind() {
        Kind::OrderStatus => (Micros(10), Outcome::Committed),
        _ => (Micros(10), failed(FailureKind::Lasting, "53100")),
    });
    let due: Vec<_> =
        (0..1000).map(|n| (n * SECOND, [Kind::NewOrder, Kind::OrderStatus][n as usize % 2], 1)).collect();
    let ran = run(&order, &mut server, &mut List::of(&due), &Logs::default());
    let Ending::Failed { reason } = &ran.result.ending else { panic!("{:?}", ran.result.ending) };
    assert!(reason.contains("New-Order: the script says so (53100)"), "{reason}");
    assert!((30.0..31.1).contains(&ran.result.measured_seconds), "{}", ran.result.measured_seconds);
}

#[test]
fn who_is_interrupted_ends_within_a_second_and_counts_what_there_was() {
    let order = RunOrder { ramp_seconds: 1.0, ..order() };
    let shared = Shared::new(interval(&order).end);
    let mut server = Server::new(2, |work, now| {
        if now >= Micros::seconds(4) {
            shared.end(Micros(4_500_000), Ending::Interrupted);
        }
        (Micros(700_000), success(work.input.kind()))
    });
    let due: Vec<_> = (0..100).map(|n| (n * SECOND, Kind::Payment, 1)).collect();
    let ran = run_until(&order, &mut server, &mut List::of(&due), &Logs::default(), &shared);
    assert_eq!(ran.result.ending, Ending::Interrupted);
    assert_eq!(ran.result.measured_seconds, 3.5);
    // Answered at 1.7, 2.7 and 3.7 s; the one at 4.7 s was awaited, but after the end.
    assert_eq!(ran.result.of(Kind::Payment).completed, 3);
    assert_eq!((ran.abandoned, server.answers.len()), (0, 5));
}

/// For every schedule and policy: no work is lost or done twice, and the counts are those of the answers.
#[test]
fn whatever_happens_everything_that_was_due_has_one_fate() {
    for seed in 0..400 {
        let mut random = SplitMix64::seed_from_u64(seed);
        let mut below = |bound: u64| random.next_u64() % bound;
        let order = RunOrder {
            connections: 1 + below(5) as u32,
            queueing: [Queueing::Fifo, Queueing::Priority][below(2) as usize],
            affinity: below(2) == 0,
            retries: below(4) as u32,
            interval_seconds: (1 + below(20)) as f64,
            ..order()
        };
        let mut due: Vec<_> = (0..below(300))
            .map(|_| (below(22 * SECOND), Kind::ALL[below(5) as usize], 1 + below(4) as u32))
            .collect();
        due.sort_by_key(|&(at, ..)| at);
        let (slow, trouble) = (1 + below(2 * SECOND), below(60));
        let mut script = SplitMix64::seed_from_u64(!seed);
        let mut server = Server::new(order.connections, move |work, _| {
            let service = Micros(1 + script.next_u64() % slow);
            let outcome = match script.next_u64() % 100 {
                dice if dice >= trouble => success(work.input.kind()),
                dice if dice % 3 == 0 => failed(FailureKind::Retriable, "40001"),
                dice if dice % 3 == 1 => failed(FailureKind::Lasting, "42P01"),
                _ => failed(FailureKind::ConnectionLost, ""),
            };
            (service, outcome)
        });
        let mut door = SplitMix64::seed_from_u64(seed + 1_000_000);
        server.door = Box::new(move |_| (Micros(door.next_u64() % 100_000), door.next_u64() % 2 == 0));
        let folder = tempfile::tempdir().unwrap();
        let logs = Logs {
            deliveries: Some(folder.path().join("deliveries")),
            successes: Some(folder.path().join("successes")),
        };
        let mut list = List::of(&due);
        let ran = run(&order, &mut server, &mut list, &logs);
        let end = interval(&order).end;

        let lines = |path: &Option<std::path::PathBuf>| {
            std::fs::read_to_string(path.as_ref().unwrap()).unwrap().lines().count() - 1
        };
        let kind = |terminal: u32| due[terminal as usize].1;
        let interactive = list.answered.iter().filter(|(_, kind, _)| *kind != Kind::Delivery).count();
        let late =
            |(terminal, at, _): &&(u32, Micros, Outcome)| *at >= end && kind(*terminal) != Kind::Delivery;
        let late = server.answers.iter().filter(late).count();
        let fates = interactive + lines(&logs.deliveries) + late + ran.abandoned as usize;
        assert_eq!(fates, list.taken as usize, "seed {seed}");

        let mut answered: Vec<u32> = list.answered.iter().map(|(terminal, ..)| *terminal).collect();
        answered.sort_unstable();
        answered.dedup();
        assert_eq!(answered.len(), list.answered.len(), "seed {seed}: somebody was answered twice");

        let good = |wanted: Kind, until: Micros| {
            let good = server.answers.iter().filter(|(terminal, at, outcome)| {
                kind(*terminal) == wanted && *at < until && !matches!(outcome, Outcome::Failed(_))
            });
            good.count() as u64
        };
        for kind in [Kind::NewOrder, Kind::Payment, Kind::OrderStatus, Kind::StockLevel] {
            assert_eq!(ran.result.of(kind).completed, good(kind, end), "seed {seed} {kind:?}");
        }
        assert_eq!(ran.result.delivery.count(), good(Kind::Delivery, end), "seed {seed}");
        let bad = server
            .answers
            .iter()
            .filter(|(_, at, outcome)| *at < end && matches!(outcome, Outcome::Failed(_)));
        let told: u64 = ran.result.errors.iter().map(|errors| errors.count).sum();
        assert_eq!(told, bad.count() as u64, "seed {seed}");
        assert_eq!(lines(&logs.successes) as u64, good(Kind::NewOrder, Micros(u64::MAX)), "seed {seed}");
        if order.affinity {
            for sent in &server.sent {
                let warehouse = due[sent.terminal as usize].2;
                assert_eq!(sent.connection, (warehouse - 1) % order.connections, "seed {seed}");
            }
        }
    }
}

#[test]
fn who_waits_for_a_lost_connection_is_served_as_soon_as_it_is_back() {
    // The only connection fails with the first; the second waits for it, and no other event is due.
    let mut server = Server::new(1, |work, _| match work.terminal.0 {
        0 => (Micros(10), failed(FailureKind::ConnectionLost, "")),
        _ => (Micros(10), success(work.input.kind())),
    });
    server.door = Box::new(|_| (Micros(500), true));
    let mut list = List::of(&[(0, Kind::Payment, 1), (1, Kind::Payment, 1)]);
    let ran = run(&order(), &mut server, &mut list, &Logs::default());
    // The first attempt starts after 5 to 15 ms.
    let response = ran.result.of(Kind::Payment).response.max().unwrap();
    assert!((Micros(5_000)..=Micros(15_700)).contains(&response), "{response:?}");
}

//! The load generator with a scripted server: stalls, refuses, breaks off.

use hardmeter_auction::{
    drive, Arrivals, AuctionError, Driven, Fault, Interaction, Mode, Plan, Times, Visits, Watcher,
};
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// Answers each request with the result of `answer` for its number; `None`: closes.
fn serve(answer: impl Fn(usize) -> Option<Vec<u8>> + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let answer = Arc::new(answer);
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answer, count) = (Arc::clone(&answer), Arc::clone(&count));
            std::thread::spawn(move || talk(stream, answer.as_ref(), &count));
        }
    });
    address
}

fn talk(mut stream: TcpStream, answer: &dyn Fn(usize) -> Option<Vec<u8>>, count: &AtomicUsize) {
    let (mut buffer, mut request) = ([0; 4096], Vec::new());
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return,
            Ok(bytes) => request.extend_from_slice(&buffer[..bytes]),
        }
        if request.ends_with(b"\r\n\r\n") {
            request.clear();
            match answer(count.fetch_add(1, Ordering::SeqCst)) {
                Some(bytes) if stream.write_all(&bytes).is_ok() => {}
                _ => return,
            }
        }
    }
}

/// Each visitor requests this number of pages.
struct Counting {
    each: usize,
    asked: Vec<usize>,
    shown: usize,
    failed: usize,
}

fn visitors(each: usize) -> Counting {
    Counting { each, asked: vec![0; 100], shown: 0, failed: 0 }
}

impl Visits for Counting {
    fn next(&mut self, visitor: usize, request: &mut Vec<u8>) -> Option<Interaction> {
        self.asked[visitor] += 1;
        (self.asked[visitor] <= self.each).then(|| {
            request.extend_from_slice(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
            Interaction::Item
        })
    }

    fn shown(&mut self, _visitor: usize, _interaction: Interaction, body: &[u8]) {
        assert_eq!(body, b"ok");
        self.shown += 1;
    }

    fn failed(&mut self, _visitor: usize) {
        self.failed += 1;
    }
}

#[derive(Default)]
struct Looking {
    calls: Vec<&'static str>,
    /// Ends the run with an error at the first progress call after this number of answers.
    until: Option<u64>,
}

impl Watcher for Looking {
    fn begins(&mut self) -> Result<(), AuctionError> {
        self.calls.push("begins");
        Ok(())
    }

    fn looks(&mut self, answers: u64, _elapsed: Duration) -> Result<(), AuctionError> {
        match self.until.is_some_and(|until| answers >= until) {
            true => Err(AuctionError::Interrupted { what: "the test".into() }),
            false => Ok(()),
        }
    }

    fn ends(&mut self) -> Result<(), AuctionError> {
        self.calls.push("ends");
        Ok(())
    }
}

fn open(address: SocketAddr, rate: f64, connections: usize, seconds: f64) -> Plan {
    let mode = Mode::Open { rate, arrivals: Arrivals::Fixed, connections, visitors: 10, seed: 1 };
    Plan {
        address,
        mode,
        warmup: Duration::ZERO,
        duration: Some(Duration::from_secs_f64(seconds)),
        patience: Duration::from_secs(20),
    }
}

fn driven(plan: &Plan, visits: &mut Counting) -> Driven {
    let mut looking = Looking::default();
    let driven = drive(plan, visits, &mut looking).unwrap();
    assert_eq!(looking.calls, ["begins", "ends"]);
    assert_eq!(visits.shown + visits.failed, driven.record.requests() as usize);
    driven
}

fn longer_than(times: &Times, time: Duration) -> u64 {
    let micros = time.as_micros() as u64;
    times.buckets().iter().filter(|(value, _)| *value >= micros).map(|(_, count)| count).sum()
}

/// 250 requests per second are due, 4 ms apart, and the server stalls once for 400 ms: about 100 requests fall due
/// meanwhile, of which 75 wait longer than 100 ms. A closed loop, or times from sending, would report two: the
/// outstanding ones.
#[test]
fn who_was_due_while_the_server_stalled_has_waited() {
    let gate = Mutex::new(());
    let address = serve(move |number| {
        let _passing = gate.lock().unwrap();
        if number == 50 {
            std::thread::sleep(Duration::from_millis(400));
        }
        Some(PAGE.to_vec())
    });
    let driven = driven(&open(address, 250.0, 2, 1.2), &mut visitors(usize::MAX));
    assert_eq!(driven.record.requests(), 300, "all that were due, whatever the server did");
    assert_eq!(driven.record.errors(), 0);
    let long = Duration::from_millis(100);
    assert!(longer_than(&driven.record.times, long) >= 70, "{:?}", driven.record.times.buckets());
    let seen_by_sending = longer_than(&driven.record.from_sending, long);
    assert!((1..50).contains(&seen_by_sending), "{seen_by_sending}");
    assert!(driven.longest_queue >= 70, "{}", driven.longest_queue);
    assert!(driven.record.times.max() >= 390_000);
}

#[test]
fn a_closed_loop_ends_with_its_visitors() {
    let address = serve(|_| Some(PAGE.to_vec()));
    let plan = Plan { mode: Mode::Closed { clients: 7 }, duration: None, ..open(address, 1.0, 1, 1.0) };
    let mut visits = visitors(5);
    let driven = driven(&plan, &mut visits);
    assert_eq!((driven.record.requests(), driven.answers, driven.record.bytes()), (35, 35, 70));
    assert_eq!(visits.asked[..8], [6, 6, 6, 6, 6, 6, 6, 0]);
}

/// A server may close a kept connection at any time; a request that it had not begun to answer is sent again, once.
#[test]
fn a_kept_connection_that_the_server_closes_is_no_fault() {
    let address = serve(|number| (number % 3 != 1).then(|| PAGE.to_vec()));
    let plan = Plan { mode: Mode::Closed { clients: 1 }, duration: None, ..open(address, 1.0, 1, 1.0) };
    let mut visits = visitors(5);
    let driven = driven(&plan, &mut visits);
    assert_eq!((driven.record.requests(), driven.record.errors(), visits.shown), (5, 0, 5));
}

/// The end of a connection arrives in one packet with an answer, and the server continues to read, as Apache does
/// without free workers: another request there would wait without end.
#[test]
fn a_connection_that_ends_with_an_answer_is_not_asked_again() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                assert!(stream.read(&mut buffer).unwrap() > 0);
                rustix::net::sockopt::set_tcp_cork(&stream, true).unwrap();
                stream.write_all(PAGE).unwrap();
                stream.shutdown(Shutdown::Write).unwrap();
                while stream.read(&mut buffer).is_ok_and(|bytes| bytes > 0) {}
            });
        }
    });
    let plan = Plan { mode: Mode::Closed { clients: 1 }, duration: None, ..open(address, 1.0, 1, 1.0) };
    let mut visits = visitors(5);
    let driven = driven(&plan, &mut visits);
    assert_eq!((driven.record.requests(), driven.record.errors(), visits.shown), (5, 0, 5));
}

#[test]
fn what_goes_wrong_is_counted_by_kind() {
    let address = serve(|number| match number % 5 {
        0 => Some(PAGE.to_vec()),
        1 => Some(b"HTTP/1.1 500 Broken\r\nContent-Length: 0\r\n\r\n".to_vec()),
        2 => Some(b"HTTP/1.1 422 No\r\nContent-Length: 2\r\n\r\nno".to_vec()),
        3 => Some(b"SMTP ready\r\n\r\n".to_vec()),
        _ => None,
    });
    // One connection: requests are in the order of their numbers.
    let driven = driven(&open(address, 100.0, 1, 0.5), &mut visitors(usize::MAX));
    let record = &driven.record;
    assert_eq!(record.requests(), 50);
    for fault in [Fault::Status(500), Fault::Refused, Fault::BadAnswer, Fault::CutOff] {
        assert_eq!(record.faults.get(&fault), Some(&10), "{fault:?}: {:?}", record.faults);
    }
    assert_eq!(record.errors(), 30, "a refusal is none");
}

#[test]
fn nobody_listening_and_nobody_answering_are_told_apart() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let refused = driven(&open(closed, 100.0, 3, 0.2), &mut visitors(usize::MAX));
    assert_eq!(refused.record.faults.get(&Fault::Connect), Some(&20), "{:?}", refused.record.faults);

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let plan =
        Plan { patience: Duration::from_millis(300), ..open(listener.local_addr().unwrap(), 100.0, 3, 0.2) };
    let mut looking = Looking::default();
    let silent = drive(&plan, &mut visitors(usize::MAX), &mut looking).unwrap();
    assert_eq!(silent.record.requests(), 20, "those that were never sent, too");
    assert_eq!(silent.record.faults.get(&Fault::TimedOut), Some(&20), "{:?}", silent.record.faults);
    assert_eq!(longer_than(&silent.record.times, Duration::from_millis(250)), 20);
}

#[test]
fn who_looks_on_can_end_a_run() {
    let address = serve(|_| Some(PAGE.to_vec()));
    let mut looking = Looking { until: Some(10), ..Looking::default() };
    let result = drive(&open(address, 200.0, 2, 3600.0), &mut visitors(usize::MAX), &mut looking);
    assert!(matches!(result, Err(AuctionError::Interrupted { .. })), "{result:?}");
}

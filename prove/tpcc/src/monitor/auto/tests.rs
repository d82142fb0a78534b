//! Tests of the sweep with a simulated server whose knee is known.

use super::super::testing::{order, success};
use super::sweep::swept;
use super::{Settings, Sweep};
use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::order::RunOrder;
use crate::terminals::Source;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Kind, Work};
use hardmeter_session::{Progress, Stop};

/// A server whose transaction time depends on the number of connections.
struct Knee {
    clock: Clock,
    connections: u32,
    service: Micros,
    under_way: Vec<Completion>,
}

impl Backend for Knee {
    fn connections(&self) -> u32 {
        self.connections
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        let (answered, outcome) = (now + self.service, success(work.input.kind()));
        self.under_way.push(Completion { connection, work, dispatched: now, answered, outcome });
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let next = self.under_way.iter().map(|completion| completion.answered).chain(until).min();
        std::thread::sleep(next.map_or(Micros::ZERO, |next| next.saturating_sub(self.clock.now())).into());
        let now = self.clock.now();
        done.extend(self.under_way.extract_if(.., |completion| completion.answered <= now));
        Ok(())
    }

    fn reconnect(&mut self, _connection: ConnectionId) -> Result<(), TpccError> {
        Ok(())
    }
}

/// Opens them, up to a number of connections.
struct Knees {
    most: u32,
}

impl Backends for Knees {
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        if connections > self.most {
            return Err(TpccError::NoData { table: "of too many clients".into() });
        }
        // Four are served in parallel in 20 ms each; more slow each other down.
        let crowd = f64::from(connections) / 4.0;
        let service = if crowd <= 1.0 { 20_000.0 } else { 20_000.0 * crowd.powf(1.7) };
        let service = Micros(service as u64);
        Ok(Box::new(Knee { clock, connections, service, under_way: Vec::new() }))
    }

    fn description(&self) -> String {
        "a knee at 4".into()
    }
}

/// Clients that continuously send New-Orders.
struct Clients {
    free: Vec<(u32, Micros)>,
}

impl Source for Clients {
    fn due(&mut self, now: Micros, _: &mut crate::measure::Recorder, work: &mut Vec<Work>) {
        for (client, due) in self.free.drain(..) {
            let input = super::super::testing::input(Kind::NewOrder, 1);
            work.push(Work { terminal: crate::work::TerminalId(client), input, due, entered: now });
        }
    }
    fn next_due(&self) -> Option<Micros> {
        self.free.first().map(|(_, due)| *due)
    }
    fn answered(&mut self, terminal: crate::work::TerminalId, _: Kind, answered: Micros) {
        self.free.push((terminal.0, answered));
    }
    fn terminals(&self) -> u32 {
        0
    }
}

fn clients(order: &RunOrder, _: u32) -> Box<dyn Source + Send> {
    Box::new(Clients { free: (0..order.connections).map(|client| (client, Micros::ZERO)).collect() })
}

struct Silent;

impl Progress for Silent {
    fn phase(&self, _what: &str, _units: u64) {}
    fn advance(&self, _units: u64) {}
}

fn found(most: u32, settings: &Settings, stop: &Stop) -> Result<Option<Sweep>, TpccError> {
    swept(&order(), &Knees { most }, &clients, None, settings, stop, &Silent)
}

fn quick() -> Settings {
    Settings { counts: vec![3], rounds: 2, leg_seconds: 0.3, ramp_seconds: 0.05, most: 16 }
}

#[test]
fn the_knee_is_found_and_shown() {
    let sweep = found(1000, &quick(), &Stop::new()).unwrap().unwrap();
    let counts: Vec<u32> = sweep.points.iter().map(|point| point.connections).collect();
    assert_eq!(counts, [1, 2, 3, 4, 8, 16]);
    assert_eq!((sweep.chosen, sweep.best().connections), (4, 4), "{sweep:?}");
    // Four in parallel, 20 ms each: at most 12,000 per minute.
    let four = sweep.chosen();
    assert!(four.throughput > 0.0 && four.throughput <= 12_400.0, "{four:?}");
    assert_eq!((four.of_best, four.throughputs.len(), four.candidate), (1.0, 2, true));
    assert!(!sweep.points[2].candidate, "3 was asked for, and auto would not try it");
    assert!(four.p50_ms >= 20.0 && four.p99_ms >= four.p50_ms, "{four:?}");
    assert_eq!(sweep.rule, None, "this server has no processes");
    let text = sweep.in_words();
    assert!(text.ends_with("auto: 4 connections, 100 % of the best, which is 4\n"), "{text}");
    assert!(text.contains("cannot be seen from here"), "{text}");
    let svg = sweep.to_svg().unwrap();
    assert!(svg.contains("auto: 4") && svg.contains("CPU seconds per 1000 New-Orders"), "{svg}");
    assert_eq!(svg.matches("<circle").count(), 12, "two lines of six points");
}

#[test]
fn a_server_with_a_limit_is_measured_up_to_it() {
    let sweep = found(2, &quick(), &Stop::new()).unwrap().unwrap();
    let counts: Vec<u32> = sweep.points.iter().map(|point| point.connections).collect();
    assert_eq!((counts.as_slice(), sweep.chosen), ([1, 2].as_slice(), 2));
    assert!(
        sweep.remarks[1].starts_with("3 connections and more were not measured: "),
        "{:?}",
        sweep.remarks
    );
    let error = found(0, &quick(), &Stop::new()).unwrap_err();
    assert!(matches!(error, TpccError::NoData { .. }), "{error}");
}

#[test]
fn who_asks_to_stop_gets_no_answer() {
    let stop = Stop::new();
    stop.ask();
    assert_eq!(found(1000, &quick(), &stop).unwrap(), None);
}

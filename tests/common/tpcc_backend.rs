//! One piece of TPC-C's work at a time on MariaDB, by the driver's own backend.

// Each test file uses its part.
#![allow(dead_code)]

use hardmeter_session::Stop;
use hardmeter_tpcc::backend::{Backend, Backends, Style};
use hardmeter_tpcc::mariadb::{Mariadb, Target};
use hardmeter_tpcc::time::{Clock, Micros};
use hardmeter_tpcc::work::{Completion, ConnectionId, Input, Outcome, TerminalId, Work};

/// Connections to a database and their shared state.
pub fn opened(target: &Target, style: Style, connections: u32) -> (Mariadb, Box<dyn Backend>) {
    let database = Mariadb::new(target, style, &Stop::new()).unwrap();
    let backend = database.open(connections, Clock::start()).unwrap();
    (database, backend)
}

pub fn work(input: &Input) -> Work {
    Work { terminal: TerminalId(0), input: input.clone(), due: Micros(0), entered: Micros(0) }
}

/// Does one piece of work and waits for it.
pub fn done(backend: &mut dyn Backend, input: &Input) -> Outcome {
    backend.submit(ConnectionId(0), work(input), Micros(0));
    let mut done: Vec<Completion> = vec![];
    while done.is_empty() {
        backend.wait(None, &mut done).unwrap();
    }
    assert_eq!(done[0].work, work(input));
    done.remove(0).outcome
}

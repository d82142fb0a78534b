//! Inputs and orders for tests.

use super::{DriverPart, Measured};
use crate::backend::Style;
use crate::order::{Mix, Mode, Queueing, RunOrder};
use crate::random::Constants;
use crate::time::Micros;
use crate::work::{Customer, Failure, FailureKind, Input, Kind, NewOrder, OrderLine, Payment, MAX_LINES};

/// Four warehouses, the specification's terminals.
pub fn order(ramp_seconds: f64, interval_seconds: f64) -> RunOrder {
    RunOrder {
        all_warehouses: 4,
        first_warehouse: 1,
        warehouses: 4,
        mode: Mode::Terminals { time_factor: 1.0 },
        mix: Mix::Deck,
        style: Style::Procedures,
        connections: 4,
        threads: 1,
        queueing: Queueing::Fifo,
        affinity: false,
        retries: 3,
        ramp_seconds,
        interval_seconds,
        seed: 1,
        constants: Constants { last: 100, customer: 200, item: 3000 },
        load_last: Some(200),
        checkpoint_seconds: None,
        settings: Default::default(),
        start_at: None,
    }
}

/// A driver of `warehouses` warehouses.
pub fn driver(first_warehouse: u32, warehouses: u32) -> DriverPart {
    DriverPart {
        host: "host".into(),
        first_warehouse,
        warehouses,
        terminals: warehouses * 10,
        started_at: 0,
        clock_step_seconds: 0.0,
        cpu_seconds: 1.0,
        resident_bytes: 20 << 20,
        abandoned: 0,
        cpus: 2,
    }
}

/// An order of warehouse 1 and district 2; warehouse 3 supplies its first line.
pub fn new_order(line_count: u8) -> Input {
    let mut all_lines = [OrderLine { item: 1, supply: 1, quantity: 5 }; MAX_LINES];
    all_lines[0].supply = 3;
    Input::NewOrder(NewOrder { warehouse: 1, district: 2, customer: 3, line_count, all_lines })
}

/// A payment at warehouse 1 by name, of a customer of another warehouse or of this one.
pub fn customer_payment(customer_warehouse: u32) -> Input {
    Input::Payment(Payment {
        warehouse: 1,
        district: 2,
        customer_warehouse,
        customer_district: 3,
        customer: Customer::Name(17),
        amount_cents: 100,
    })
}

/// Times computed from the duration of each step.
pub fn measured(kind: Kind, due: Micros, lag: Micros, queued: Micros, service: Micros) -> Measured {
    let entered = due + lag;
    let dispatched = entered + queued;
    Measured { kind, due, entered, dispatched, answered: dispatched + service, rolled_back: false }
}

/// A failure that may pass.
pub fn failure(code: &str) -> Failure {
    Failure { kind: FailureKind::Retriable, code: code.into(), message: format!("failed with {code}") }
}

//! Counting on the driver's hot path.

use super::{Draws, Errors, KindResult, Measured, Second, Times};
use crate::time::Micros;
use crate::work::{Customer, Failure, Input, Kind};
use std::ops::Range;

/// What one thread of the driver counts. Who belongs to the measurement interval is decided by when it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorder {
    interval: Range<Micros>,
    pub(super) kinds: [KindResult; 5],
    pub(super) draws: Draws,
    pub(super) series: Vec<Second>,
    pub(super) delivery: Times,
    pub(super) delivery_districts: (u64, u64),
    pub(super) errors: Vec<Errors>,
}

impl Recorder {
    /// Nothing yet; the measurement interval is known beforehand.
    pub fn new(interval: Range<Micros>) -> Recorder {
        Recorder {
            interval,
            kinds: Kind::ALL.map(KindResult::new),
            draws: Draws::default(),
            series: Vec::new(),
            delivery: Times::new(),
            delivery_districts: (0, 0),
            errors: Vec::new(),
        }
    }

    /// The measurement interval.
    pub fn interval(&self) -> Range<Micros> {
        self.interval.clone()
    }

    /// A transaction ended as it should: committed, or rolled back where it should be. `input` is what was entered.
    pub fn completed(&mut self, measured: &Measured, input: &Input) {
        let Measured { kind, due, entered, dispatched, answered, rolled_back } = *measured;
        let response = answered - due;
        let second = self.second(answered);
        second.completed[kind.index()] += 1;
        if kind == Kind::NewOrder {
            second.longest = second.longest.max(response.0);
        }
        let in_interval = self.interval.contains(&answered);
        let result = &mut self.kinds[kind.index()];
        if !in_interval {
            if answered < self.interval.start {
                result.ramp_response.record(response);
            }
            return;
        }
        result.completed += 1;
        result.rolled_back += u64::from(rolled_back);
        result.response.record(response);
        result.lag.record(entered - due);
        result.queued.record(dispatched - entered);
        result.service.record(answered - dispatched);
        self.draws.note(input);
    }

    /// A deferred delivery was done: queued at its terminal, committed in the server.
    pub fn delivered(&mut self, queued: Micros, done: Micros, orders: &[u32; 10]) {
        if self.interval.contains(&done) {
            let skipped = orders.iter().filter(|&&order| order == 0).count() as u64;
            self.delivery.record(done - queued);
            self.delivery_districts.0 += skipped;
            self.delivery_districts.1 += 10 - skipped;
        }
    }

    /// A transaction failed at a moment, and is tried again or given up.
    pub fn failed(&mut self, kind: Kind, failure: &Failure, at: Micros, tried_again: bool) {
        self.second(at).failures += 1;
        if self.interval.contains(&at) {
            let result = &mut self.kinds[kind.index()];
            *if tried_again { &mut result.retried } else { &mut result.failed } += 1;
        }
        let known = self.errors.iter_mut().find(|errors| errors.kind == kind && errors.code == failure.code);
        match known {
            Some(errors) => {
                errors.count += 1;
                errors.retried += u64::from(tried_again);
            }
            None => self.errors.push(Errors {
                kind,
                code: failure.code.clone(),
                count: 1,
                retried: u64::from(tried_again),
                example: failure.message.clone(),
            }),
        }
    }

    /// A terminal's keying time, and its think time before, as they were; noted when it sends its next transaction.
    pub fn paused(&mut self, at: Micros, keying: (Kind, Micros), think: Option<(Kind, Micros)>) {
        if !self.interval.contains(&at) {
            return;
        }
        self.kinds[keying.0.index()].keying.record(keying.1);
        if let Some((kind, time)) = think {
            self.kinds[kind.index()].think.record(time);
        }
    }

    /// So many wait for a connection.
    pub fn waiting(&mut self, at: Micros, waiting: u32) {
        let second = self.second(at);
        second.waiting = second.waiting.max(waiting);
    }

    fn second(&mut self, at: Micros) -> &mut Second {
        let index = (at.0 / 1_000_000) as usize;
        if index >= self.series.len() {
            self.series.resize(index + 1, Second::default());
        }
        &mut self.series[index]
    }
}

impl KindResult {
    /// Nothing yet.
    pub fn new(kind: Kind) -> KindResult {
        KindResult {
            kind,
            completed: 0,
            rolled_back: 0,
            failed: 0,
            retried: 0,
            response: Times::new(),
            lag: Times::new(),
            queued: Times::new(),
            service: Times::new(),
            ramp_response: Times::new(),
            keying: Times::new(),
            think: Times::new(),
        }
    }
}

impl Draws {
    fn note(&mut self, input: &Input) {
        match input {
            Input::NewOrder(order) => {
                self.orders_by_lines[usize::from(order.line_count) - 5] += 1;
                self.orders_by_district[usize::from(order.district) - 1] += 1;
                self.lines += u64::from(order.line_count);
                let remote = order.lines().iter().filter(|line| line.supply != order.warehouse);
                self.remote_lines += remote.count() as u64;
            }
            Input::Payment(payment) => {
                self.payments += 1;
                self.remote_payments += u64::from(payment.customer_warehouse != payment.warehouse);
                self.payments_by_name += u64::from(matches!(payment.customer, Customer::Name(_)));
            }
            Input::OrderStatus(status) => {
                self.order_statuses += 1;
                self.order_statuses_by_name += u64::from(matches!(status.customer, Customer::Name(_)));
            }
            Input::Delivery(_) | Input::StockLevel(_) => {}
        }
    }
}

//! Counting on the driver's hot path.

use super::{Draws, Errors, KindResult, Measured, Second, Times};
use crate::time::Micros;
use crate::work::{Customer, Failure, Input, Kind};
use std::ops::Range;

/// Maximum number of seconds of the series allocated in advance; in longer runs the series grows.
const DAY_SECONDS: u64 = 86_400;

/// The counts of one driver thread. The end of a transaction decides whether it is in the measurement interval.
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
    /// An empty recorder for a measurement interval.
    pub fn new(interval: Range<Micros>) -> Recorder {
        // One second more than the run: answers may arrive after its end.
        let seconds = (interval.end.0 / 1_000_000 + 2).min(DAY_SECONDS) as usize;
        Recorder {
            interval,
            kinds: Kind::ALL.map(KindResult::new),
            draws: Draws::default(),
            series: Vec::with_capacity(seconds),
            delivery: Times::new(),
            delivery_districts: (0, 0),
            errors: Vec::new(),
        }
    }

    /// The measurement interval.
    pub fn interval(&self) -> Range<Micros> {
        self.interval.clone()
    }

    /// A transaction ended correctly: committed, or rolled back as intended. `input` is its input.
    pub fn completed(&mut self, measured: &Measured, input: &Input) {
        let Measured { kind, due, entered, dispatched, answered, rolled_back } = *measured;
        let response = answered - due;
        let second = self.second(answered);
        second.completed[kind.index()] += 1;
        if kind == Kind::NewOrder {
            second.response_total += response.0;
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

    /// A deferred delivery completed: from queueing at its terminal to commit in the server.
    pub fn delivered(&mut self, queued: Micros, done: Micros, orders: &[u32; 10]) {
        if self.interval.contains(&done) {
            let skipped = orders.iter().filter(|&&order| order == 0).count() as u64;
            self.delivery.record(done - queued);
            self.delivery_districts.0 += skipped;
            self.delivery_districts.1 += 10 - skipped;
        }
    }

    /// A transaction failed and will be retried or was given up.
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

    /// A terminal's actual keying time and preceding think time; recorded when it sends its next transaction.
    pub fn paused(&mut self, at: Micros, keying: (Kind, Micros), think: Option<(Kind, Micros)>) {
        if !self.interval.contains(&at) {
            return;
        }
        self.kinds[keying.0.index()].keying.record(keying.1);
        if let Some((kind, time)) = think {
            self.kinds[kind.index()].think.record(time);
        }
    }

    /// Records how many transactions wait for a connection.
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
    /// An empty result.
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

#[cfg(test)]
mod tests {
    use super::super::testing::{customer_payment, failure, measured, new_order};
    use super::*;
    use crate::work::{OrderStatus, StockLevel};

    const BEGIN: Micros = Micros::seconds(10);
    const END: Micros = Micros::seconds(20);

    /// Ended at `at`, 300 us after it was due.
    fn ended(recorder: &mut Recorder, at: Micros) {
        let times = measured(Kind::NewOrder, at - Micros(300), Micros(100), Micros(100), Micros(100));
        recorder.completed(&times, &new_order(10));
    }

    #[test]
    fn who_ends_in_the_interval_belongs_to_it_however_early_it_was_due() {
        let mut recorder = Recorder::new(BEGIN..END);
        let orders = |recorder: &Recorder| {
            let result = &recorder.kinds[Kind::NewOrder.index()];
            (result.completed, result.ramp_response.count())
        };
        ended(&mut recorder, BEGIN - Micros(1));
        assert_eq!(orders(&recorder), (0, 1));
        // Due before the interval, ended at its first microsecond.
        ended(&mut recorder, BEGIN);
        assert_eq!(orders(&recorder), (1, 1));
        ended(&mut recorder, END - Micros(1));
        assert_eq!(orders(&recorder), (2, 1));
        // The interval excludes its end; later transactions count only in the series.
        ended(&mut recorder, END);
        ended(&mut recorder, END + Micros::seconds(5));
        assert_eq!(orders(&recorder), (2, 1));
        assert_eq!(recorder.draws.lines, 20);
        let seconds: Vec<u64> = recorder.series.iter().map(|second| second.completed[0]).collect();
        assert_eq!(seconds.len(), 26);
        assert_eq!((seconds[9], seconds[10], seconds[19], seconds[20], seconds[25]), (1, 1, 1, 1, 1));
        assert_eq!((recorder.series[10].response_total, recorder.series[10].longest), (300, 300));
    }

    #[test]
    fn response_is_lag_and_queue_and_service() {
        let mut recorder = Recorder::new(BEGIN..END);
        let times = measured(Kind::Payment, BEGIN, Micros(1_000), Micros(200), Micros(30));
        recorder.completed(&times, &customer_payment(1));
        let result = &recorder.kinds[Kind::Payment.index()];
        let only = |times: &Times| times.max().unwrap();
        assert_eq!(only(&result.response), Micros(1_230));
        assert_eq!(only(&result.lag), Micros(1_000));
        assert_eq!(only(&result.queued), Micros(200));
        assert_eq!(only(&result.service), Micros(30));
        // The series has response times of New-Orders only.
        assert_eq!(recorder.series[10].response_total, 0);
    }

    #[test]
    fn draws_are_counted_as_they_were_entered() {
        let mut recorder = Recorder::new(BEGIN..END);
        let mut complete = |input: Input| {
            let times = measured(input.kind(), BEGIN, Micros(1), Micros(1), Micros(1));
            recorder.completed(&times, &input);
        };
        complete(new_order(5));
        complete(new_order(15));
        complete(customer_payment(1));
        complete(customer_payment(2));
        complete(Input::OrderStatus(OrderStatus { warehouse: 1, district: 1, customer: Customer::Id(1) }));
        complete(Input::StockLevel(StockLevel { warehouse: 1, district: 1, threshold: 10 }));
        let draws = &recorder.draws;
        assert_eq!((draws.orders_by_lines[0], draws.orders_by_lines[10]), (1, 1));
        assert_eq!(draws.orders_by_district[1], 2);
        assert_eq!((draws.lines, draws.remote_lines), (20, 2));
        assert_eq!((draws.payments, draws.remote_payments, draws.payments_by_name), (2, 1, 2));
        assert_eq!((draws.order_statuses, draws.order_statuses_by_name), (1, 0));
    }

    #[test]
    fn failures_are_told_apart_by_transaction_and_code_and_count_in_the_interval_alone() {
        let mut recorder = Recorder::new(BEGIN..END);
        recorder.failed(Kind::Payment, &failure("40001"), BEGIN - Micros(1), true);
        recorder.failed(Kind::Payment, &failure("40001"), BEGIN, true);
        recorder.failed(Kind::Payment, &failure("40001"), BEGIN, false);
        recorder.failed(Kind::NewOrder, &failure("40001"), END, false);
        let payments = &recorder.kinds[Kind::Payment.index()];
        assert_eq!((payments.retried, payments.failed), (1, 1));
        assert_eq!(recorder.kinds[Kind::NewOrder.index()].failed, 0);
        assert_eq!(recorder.errors.len(), 2);
        assert_eq!((recorder.errors[0].count, recorder.errors[0].retried), (3, 2));
        assert_eq!((recorder.series[9].failures, recorder.series[10].failures), (1, 2));
    }

    #[test]
    fn deliveries_and_pauses_belong_to_the_interval_by_their_end() {
        let mut recorder = Recorder::new(BEGIN..END);
        let orders = [7, 0, 9, 1, 1, 1, 1, 1, 1, 1];
        recorder.delivered(BEGIN - Micros(5), BEGIN - Micros(1), &orders);
        recorder.delivered(BEGIN - Micros::seconds(3), BEGIN + Micros::seconds(1), &orders);
        assert_eq!((recorder.delivery.count(), recorder.delivery_districts), (1, (1, 9)));
        // Three digits: 4 s within a thousandth.
        assert!(recorder.delivery.max().unwrap().0.abs_diff(4_000_000) <= 4_000);
        recorder.paused(BEGIN - Micros(1), (Kind::Payment, Micros::seconds(3)), None);
        let think = Some((Kind::NewOrder, Micros::seconds(11)));
        recorder.paused(BEGIN, (Kind::Payment, Micros::seconds(3)), think);
        assert_eq!(recorder.kinds[Kind::Payment.index()].keying.count(), 1);
        assert_eq!(recorder.kinds[Kind::NewOrder.index()].think.count(), 1);
        recorder.waiting(BEGIN, 5);
        recorder.waiting(BEGIN, 3);
        assert_eq!(recorder.series[10].waiting, 5);
    }
}

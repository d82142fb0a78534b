//! Combines the recorders of a driver's threads into the result of a run.

use super::{DriverPart, Ending, Environment, KindResult, Recorder, RunResult, Times, RESULT_VERSION};
use crate::order::RunOrder;
use crate::time::Micros;
use std::ops::Range;

/// The monitor's data about a run, besides the recordings.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    /// The order of the run.
    pub order: &'a RunOrder,
    /// When it began by the calendar, microseconds since 1970 ([`crate::time::Clock::calendar_at_start`]).
    pub started_at: u64,
    /// When it ended, by the run's clock: the measurement interval ends here at the latest.
    pub ended: Micros,
    /// The way it ended.
    pub ending: Ending,
    /// This driver.
    pub driver: DriverPart,
}

/// The measurement interval of an order, by the clock of the run.
pub fn interval(order: &RunOrder) -> Range<Micros> {
    let begin = Micros::of_seconds(order.ramp_seconds);
    begin..begin + Micros::of_seconds(order.interval_seconds)
}

impl Run<'_> {
    /// The result from all threads' recorders. The caller fills `environment`, `checkpoints`, `server` and
    /// `conditions`.
    pub fn result(self, recorders: impl IntoIterator<Item = Recorder>) -> RunResult {
        let interval = interval(self.order);
        let mut all = Recorder::new(interval.clone());
        for recorder in recorders {
            all.add(&recorder);
        }
        let measured = self.ended.min(interval.end).saturating_sub(interval.start);
        let mut series = all.series;
        // Include seconds without completions at the end: a server that hangs must show.
        let seconds = self.ended.0.div_ceil(1_000_000) as usize;
        if series.len() < seconds {
            series.resize(seconds, Default::default());
        }
        RunResult {
            version: RESULT_VERSION,
            order: self.order.clone(),
            environment: Environment::default(),
            started_at: self.started_at,
            ending: self.ending,
            measured_seconds: measured.as_seconds(),
            kinds: all.kinds.into(),
            draws: all.draws,
            series,
            delivery: all.delivery,
            delivery_districts: all.delivery_districts,
            errors: all.errors,
            checkpoints: Vec::new(),
            server: None,
            drivers: vec![self.driver],
            conditions: Vec::new(),
        }
    }
}

impl Recorder {
    /// Adds the counts of another thread of the same run. Histograms add exactly.
    pub fn add(&mut self, other: &Recorder) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            mine.add(theirs);
        }
        self.draws.add(&other.draws);
        super::add_series(&mut self.series, &other.series, 0);
        self.delivery.add(&other.delivery);
        self.delivery_districts.0 += other.delivery_districts.0;
        self.delivery_districts.1 += other.delivery_districts.1;
        super::add_errors(&mut self.errors, &other.errors);
    }
}

impl KindResult {
    /// Adds the counts of another thread or driver.
    pub fn add(&mut self, other: &KindResult) {
        let KindResult {
            kind: _,
            completed,
            rolled_back,
            failed,
            retried,
            response,
            lag,
            queued,
            service,
            ramp_response,
            keying,
            think,
        } = other;
        self.completed += completed;
        self.rolled_back += rolled_back;
        self.failed += failed;
        self.retried += retried;
        let times: [(&mut Times, &Times); 7] = [
            (&mut self.response, response),
            (&mut self.lag, lag),
            (&mut self.queued, queued),
            (&mut self.service, service),
            (&mut self.ramp_response, ramp_response),
            (&mut self.keying, keying),
            (&mut self.think, think),
        ];
        for (mine, theirs) in times {
            mine.add(theirs);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{self, customer_payment, measured, new_order};
    use super::*;
    use crate::work::Kind;

    #[test]
    fn threads_add_up_to_what_one_would_have_counted() {
        let order = testing::order(1.0, 2.0);
        let span = interval(&order);
        let mut one = Recorder::new(span.clone());
        let mut two = [Recorder::new(span.clone()), Recorder::new(span)];
        for number in 0..40u64 {
            let due = Micros(number * 100_000);
            let input =
                if number % 2 == 0 { new_order(5 + (number % 11) as u8) } else { customer_payment(2) };
            let measured = measured(input.kind(), due, Micros(10 + number), Micros(20), Micros(300 * number));
            one.completed(&measured, &input);
            two[(number % 3 == 0) as usize].completed(&measured, &input);
            if number % 5 == 0 {
                let failure = testing::failure(if number % 10 == 0 { "40001" } else { "40P01" });
                one.failed(Kind::Payment, &failure, due, number % 10 == 0);
                two[(number % 3 == 0) as usize].failed(Kind::Payment, &failure, due, number % 10 == 0);
            }
        }
        let run = Run {
            order: &order,
            started_at: 17,
            ended: Micros::seconds(4),
            ending: Ending::Complete,
            driver: testing::driver(1, 4),
        };
        let [first, second] = two;
        let (whole, sum) = (run.clone().result([one]), run.result([first, second]));
        assert_eq!(whole, sum);
        // By hand: 10 transactions in every second; the interval is the 2nd and 3rd second.
        assert_eq!(sum.of(Kind::NewOrder).completed, 10);
        assert_eq!(sum.draws.payments, 10);
        assert_eq!(sum.series.len(), 4);
        assert_eq!(sum.series[0].completed, [5, 5, 0, 0, 0]);
        assert_eq!(sum.throughput(), 300.0);
        assert_eq!(sum.errors.iter().map(|errors| errors.count).sum::<u64>(), 8);
    }

    #[test]
    fn a_run_that_was_cut_off_measured_less_and_one_cut_off_in_the_ramp_nothing() {
        let order = testing::order(10.0, 60.0);
        let run = |ended| Run {
            order: &order,
            started_at: 0,
            ended,
            ending: Ending::Interrupted,
            driver: testing::driver(1, 4),
        };
        assert_eq!(run(Micros::of_seconds(25.5)).result([]).measured_seconds, 15.5);
        assert_eq!(run(Micros::seconds(90)).result([]).measured_seconds, 60.0);
        let none = run(Micros::seconds(3)).result([]);
        assert_eq!((none.measured_seconds, none.throughput(), none.series.len()), (0.0, 0.0, 3));
    }
}

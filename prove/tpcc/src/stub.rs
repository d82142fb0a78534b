//! A system under test without data and with a fixed answer time, for measurements of the driver.

use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Input, Outcome, Work};
use std::collections::VecDeque;
use std::thread::sleep;

/// Answers everything after a fixed time.
#[derive(Clone, Copy, Debug)]
pub struct Stub {
    /// Duration of an answer.
    pub service: Micros,
}

impl Backends for Stub {
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        let under_way = VecDeque::with_capacity(connections as usize);
        Ok(Box::new(Answering {
            service: self.service,
            connections,
            clock,
            under_way,
            districts: Vec::new(),
        }))
    }

    fn description(&self) -> String {
        format!("a stub that answers after {} us", self.service.0)
    }
}

/// The longest wait without events: the caller may receive a request to stop in that time.
const IDLE: Micros = Micros(10_000);

struct Answering {
    service: Micros,
    connections: u32,
    clock: Clock,
    /// Submitted work in order, which is also the order of the answers.
    under_way: VecDeque<(Micros, ConnectionId, Work)>,
    /// The order counters of districts used so far, by warehouse and district.
    districts: Vec<District>,
}

/// A district in the state of the initial population (clause 4.3.3.1): orders up to 3000, those from 2101 not
/// delivered.
#[derive(Clone, Copy)]
struct District {
    next_order: u32,
    first_undelivered: u32,
}

impl Backend for Answering {
    fn connections(&self) -> u32 {
        self.connections
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        self.under_way.push_back((now, connection, work));
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let now = self.clock.now();
        let answer = self.under_way.front().map(|&(dispatched, ..)| dispatched + self.service);
        let wake = [until, answer].into_iter().flatten().min().unwrap_or(now + IDLE);
        if wake > now {
            // clock_nanosleep: exact to the microsecond plus the kernel's timer slack of 50 us.
            sleep((wake - now).into());
        }
        let now = self.clock.now();
        while self.under_way.front().is_some_and(|&(dispatched, ..)| dispatched + self.service <= now) {
            let Some((dispatched, connection, work)) = self.under_way.pop_front() else { break };
            let outcome = self.outcome(&work.input);
            done.push(Completion { connection, work, dispatched, answered: now, outcome });
        }
        Ok(())
    }

    fn reconnect(&mut self, _connection: ConnectionId) -> Result<(), TpccError> {
        Ok(())
    }
}

impl Answering {
    /// The answer of a server that executes everything.
    fn outcome(&mut self, input: &Input) -> Outcome {
        match input {
            Input::NewOrder(order) if order.is_rolled_back() => Outcome::RolledBack,
            Input::NewOrder(order) => {
                let district = &mut self.districts(order.warehouse)[usize::from(order.district) - 1];
                district.next_order += 1;
                Outcome::Ordered { order: district.next_order - 1 }
            }
            Input::Delivery(delivery) => {
                let mut orders = [0; 10];
                for (order, district) in orders.iter_mut().zip(self.districts(delivery.warehouse)) {
                    if district.first_undelivered < district.next_order {
                        *order = district.first_undelivered;
                        district.first_undelivered += 1;
                    }
                }
                Outcome::Delivered { orders }
            }
            Input::Payment(_) | Input::OrderStatus(_) | Input::StockLevel(_) => Outcome::Committed,
        }
    }

    /// The ten districts of a warehouse.
    fn districts(&mut self, warehouse: u32) -> &mut [District] {
        let begin = warehouse as usize * 10;
        if self.districts.len() < begin + 10 {
            self.districts.resize(begin + 10, District { next_order: 3001, first_undelivered: 2101 });
        }
        &mut self.districts[begin..begin + 10]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::{Delivery, NewOrder, OrderLine, TerminalId, MAX_LINES};

    fn work(input: Input) -> Work {
        Work { terminal: TerminalId(0), input, due: Micros::ZERO, entered: Micros::ZERO }
    }

    fn new_order(warehouse: u32, district: u8, item: u32) -> Work {
        let mut all_lines = [OrderLine { item: 1, supply: warehouse, quantity: 1 }; MAX_LINES];
        all_lines[4].item = item;
        work(Input::NewOrder(NewOrder { warehouse, district, customer: 1, line_count: 5, all_lines }))
    }

    /// Its answers, in order; asserts that none comes early.
    fn answers(service: Micros, works: Vec<Work>) -> Vec<Completion> {
        let clock = Clock::start();
        let stub = Stub { service };
        let mut backend = stub.open(works.len() as u32, clock).unwrap();
        assert_eq!(backend.connections() as usize, works.len());
        let count = works.len();
        for (connection, work) in works.into_iter().enumerate() {
            backend.submit(ConnectionId(connection as u32), work, clock.now());
        }
        let mut done = Vec::new();
        while done.len() < count {
            backend.wait(None, &mut done).unwrap();
        }
        assert!(done.iter().all(|one| one.answered >= one.dispatched + service));
        assert!(done.iter().enumerate().all(|(at, one)| one.connection.0 as usize == at));
        done
    }

    #[test]
    fn it_answers_what_a_server_would() {
        let delivery = || work(Input::Delivery(Delivery { warehouse: 7, carrier: 1 }));
        let works = vec![
            new_order(7, 3, 1),
            new_order(7, 3, 100_001),
            new_order(7, 3, 1),
            new_order(7, 4, 1),
            new_order(8, 3, 1),
            delivery(),
            delivery(),
        ];
        let outcomes: Vec<Outcome> =
            answers(Micros(2000), works).into_iter().map(|done| done.outcome).collect();
        assert_eq!(
            outcomes,
            [
                Outcome::Ordered { order: 3001 },
                Outcome::RolledBack,
                Outcome::Ordered { order: 3002 },
                Outcome::Ordered { order: 3001 },
                Outcome::Ordered { order: 3001 },
                Outcome::Delivered { orders: [2101; 10] },
                Outcome::Delivered { orders: [2102; 10] },
            ]
        );
    }

    #[test]
    fn districts_run_out_of_orders() {
        // 900 of the population in each district, and one that was ordered.
        let mut works = vec![new_order(1, 2, 1)];
        works.extend((0..902).map(|_| work(Input::Delivery(Delivery { warehouse: 1, carrier: 1 }))));
        let done = answers(Micros(10), works);
        let mut only_second = [0; 10];
        only_second[1] = 3001;
        assert_eq!(done[901].outcome, Outcome::Delivered { orders: only_second });
        assert_eq!(done[902].outcome, Outcome::Delivered { orders: [0; 10] });
        assert_eq!(done[900].outcome, Outcome::Delivered { orders: [3000; 10] });
    }

    #[test]
    fn it_wakes_when_it_is_told_to() {
        let clock = Clock::start();
        let mut backend = Stub { service: Micros::seconds(100) }.open(1, clock).unwrap();
        backend.submit(ConnectionId(0), new_order(1, 1, 1), clock.now());
        let mut done = Vec::new();
        let until = clock.now() + Micros(3000);
        backend.wait(Some(until), &mut done).unwrap();
        assert!(done.is_empty() && clock.now() >= until);
        // The past is no reason to wait.
        backend.wait(Some(Micros::ZERO), &mut done).unwrap();
    }
}

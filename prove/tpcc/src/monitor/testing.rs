//! Tests in virtual time: a scripted server advances the clock, terminals follow a list.

use super::worker::Moments;
use crate::backend::Backend;
use crate::error::TpccError;
use crate::measure::{testing, Recorder};
use crate::order::RunOrder;
use crate::random::Constants;
use crate::terminals::Source;
use crate::time::Micros;
use crate::work::{
    Completion, ConnectionId, Customer, Delivery, Failure, FailureKind, Input, Kind, NewOrder, OrderLine,
    OrderStatus, Outcome, Payment, StockLevel, TerminalId, Work, MAX_LINES,
};
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// Four warehouses, one thread, ten seconds that all count.
pub fn order() -> RunOrder {
    let constants = Constants { last: 0, customer: 0, item: 0 };
    RunOrder { connections: 2, retries: 2, constants, load_last: None, ..testing::order(0.0, 10.0) }
}

/// An input of this kind.
pub fn input(kind: Kind, warehouse: u32) -> Input {
    let customer = Customer::Id(1);
    match kind {
        Kind::NewOrder => Input::NewOrder(NewOrder {
            warehouse,
            district: 1,
            customer: 1,
            line_count: 5,
            all_lines: [OrderLine { item: 1, supply: warehouse, quantity: 1 }; MAX_LINES],
        }),
        Kind::Payment => Input::Payment(Payment {
            warehouse,
            district: 1,
            customer_warehouse: warehouse,
            customer_district: 1,
            customer,
            amount_cents: 100,
        }),
        Kind::OrderStatus => Input::OrderStatus(OrderStatus { warehouse, district: 1, customer }),
        Kind::Delivery => Input::Delivery(Delivery { warehouse, carrier: 1 }),
        Kind::StockLevel => Input::StockLevel(StockLevel { warehouse, district: 1, threshold: 10 }),
    }
}

/// A successful outcome of this kind.
pub fn success(kind: Kind) -> Outcome {
    match kind {
        Kind::NewOrder => Outcome::Ordered { order: 3001 },
        Kind::Delivery => Outcome::Delivered { orders: [1; 10] },
        _ => Outcome::Committed,
    }
}

/// A failed outcome.
pub fn failed(kind: FailureKind, code: &str) -> Outcome {
    Outcome::Failed(Failure { kind, code: code.into(), message: "the script says so".into() })
}

/// A clock that only the server moves.
#[derive(Clone, Default)]
pub struct Hand(Rc<Cell<u64>>);

impl Hand {
    /// Advances the clock to this time, if it is earlier.
    pub fn set(&self, moment: Micros) {
        self.0.set(self.0.get().max(moment.0));
    }
}

impl Moments for Hand {
    fn now(&self) -> Micros {
        Micros(self.0.get())
    }
}

/// The work that was sent to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    pub terminal: u32,
    pub connection: u32,
    pub at: Micros,
}

/// Returns the duration and the outcome of each request.
pub type Script<'a> = dyn FnMut(&Work, Micros) -> (Micros, Outcome) + 'a;

/// Returns the duration of a reconnection attempt, and whether it succeeds.
pub type Door<'a> = dyn FnMut(Micros) -> (Micros, bool) + 'a;

/// A server whose answers come from a script.
pub struct Server<'a> {
    pub hand: Hand,
    pub script: Box<Script<'a>>,
    pub door: Box<Door<'a>>,
    pub sent: Vec<Sent>,
    /// Answers, in the order in which they were given.
    pub answers: Vec<(u32, Micros, Outcome)>,
    slots: Vec<Slot>,
}

#[derive(Clone, Debug)]
enum Slot {
    Free,
    Busy(Box<Completion>),
    Lost,
}

impl<'a> Server<'a> {
    pub fn new(connections: u32, script: impl FnMut(&Work, Micros) -> (Micros, Outcome) + 'a) -> Server<'a> {
        Server {
            hand: Hand::default(),
            script: Box::new(script),
            door: Box::new(|_| (Micros(1), true)),
            sent: Vec::new(),
            answers: Vec::new(),
            slots: vec![Slot::Free; connections as usize],
        }
    }
}

impl Backend for Server<'_> {
    fn connections(&self) -> u32 {
        self.slots.len() as u32
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        assert!(now <= self.hand.now());
        let slot = &mut self.slots[connection.0 as usize];
        assert!(matches!(slot, Slot::Free), "{connection:?} was given {work:?} while {slot:?}");
        self.sent.push(Sent { terminal: work.terminal.0, connection: connection.0, at: now });
        let (service, outcome) = (self.script)(&work, now);
        let answered = now + service;
        *slot = Slot::Busy(Box::new(Completion { connection, work, dispatched: now, answered, outcome }));
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let first = |slots: &[Slot]| {
            let busy = slots.iter().filter_map(|slot| match slot {
                Slot::Busy(completion) => Some(completion.answered),
                _ => None,
            });
            busy.min()
        };
        let until = until.expect("the loop looks up now and then");
        // Time advances even without an event.
        let until = until.max(self.hand.now() + Micros(1));
        match first(&self.slots) {
            Some(answered) if answered <= until => {
                self.hand.set(answered);
                for slot in &mut self.slots {
                    let Slot::Busy(completion) = slot else { continue };
                    if completion.answered > answered {
                        continue;
                    }
                    let completion = Completion::clone(completion);
                    let lost = matches!(&completion.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::ConnectionLost);
                    *slot = if lost { Slot::Lost } else { Slot::Free };
                    self.answers.push((completion.work.terminal.0, answered, completion.outcome.clone()));
                    done.push(completion);
                }
            }
            _ => self.hand.set(until),
        }
        Ok(())
    }

    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError> {
        let slot = &mut self.slots[connection.0 as usize];
        assert!(matches!(slot, Slot::Lost), "{connection:?} is {slot:?}");
        let (took, opened) = (self.door)(self.hand.now());
        self.hand.set(self.hand.now() + took);
        if !opened {
            return Err(TpccError::NoData { table: "door".into() });
        }
        *slot = Slot::Free;
        Ok(())
    }
}

/// Terminals that each send once, at a given time; a terminal's number is its index in the list.
#[derive(Default)]
pub struct List {
    pub due: VecDeque<Work>,
    /// The answered terminals, with the time.
    pub answered: Vec<(u32, Kind, Micros)>,
    /// Number of requests taken from the list.
    pub taken: u32,
}

impl List {
    /// A list of times in microseconds, in ascending order.
    pub fn of(due: &[(u64, Kind, u32)]) -> List {
        let work = |(number, &(at, kind, warehouse)): (usize, &(u64, Kind, u32))| Work {
            terminal: TerminalId(number as u32),
            input: input(kind, warehouse),
            due: Micros(at),
            entered: Micros::ZERO,
        };
        List { due: due.iter().enumerate().map(work).collect(), ..List::default() }
    }
}

impl Source for List {
    fn due(&mut self, now: Micros, _recorder: &mut Recorder, work: &mut Vec<Work>) {
        while self.due.front().is_some_and(|first| first.due <= now) {
            let first = self.due.pop_front().expect("it was there");
            self.taken += 1;
            work.push(Work { entered: now, ..first });
        }
    }

    fn next_due(&self) -> Option<Micros> {
        self.due.front().map(|first| first.due)
    }

    fn answered(&mut self, terminal: TerminalId, kind: Kind, answered: Micros) {
        self.answered.push((terminal.0, kind, answered));
    }

    fn terminals(&self) -> u32 {
        self.taken + self.due.len() as u32
    }
}

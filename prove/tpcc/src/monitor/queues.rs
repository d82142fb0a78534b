//! Queues for connections, with priorities.
//!
//! The queues are ring buffers that keep their capacity: no allocation after they have reached their maximum
//! length.

use crate::order::{Mode, Queueing, RunOrder};
use crate::time::Micros;
use crate::work::{ConnectionId, Kind, Work};
use std::collections::VecDeque;

/// Age in seconds at which a deferred delivery gets priority: half of the limit in clause 2.7.2.2.
const PATIENCE: Micros = Micros::seconds(40);

/// Work that waits for a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub work: Work,
    /// When it was first queued: the 80 s of a deferred delivery count from here.
    pub queued: Micros,
    /// Number of earlier tries.
    pub tries: u32,
}

/// All that waits in one thread of the driver.
#[derive(Debug)]
pub(super) struct Queues {
    /// One queue for all connections, or one for each if warehouses have affinity.
    lanes: Vec<Lane>,
    rules: Rules,
    length: u32,
}

/// A queue with classes; first in, first out within a class.
#[derive(Debug, Default)]
struct Lane {
    /// The last class is that of the deferred deliveries.
    classes: [VecDeque<Waiting>; 5],
}

#[derive(Clone, Copy, Debug)]
struct Rules {
    queueing: Queueing,
    patience: Micros,
    affinity: bool,
    first_warehouse: u32,
    /// Warehouses from one of this thread to its next one.
    stride: u32,
}

const DELIVERIES: usize = 4;

impl Rules {
    fn class(self, kind: Kind) -> usize {
        match (kind, self.queueing) {
            (Kind::Delivery, _) => DELIVERIES,
            (_, Queueing::Fifo) | (Kind::NewOrder, _) => 0,
            (Kind::Payment, _) => 1,
            (Kind::OrderStatus, _) => 2,
            (Kind::StockLevel, _) => 3,
        }
    }
}

impl Queues {
    /// Empty queues of a thread with `connections` connections.
    pub fn new(order: &RunOrder, connections: u32) -> Queues {
        let lanes = if order.affinity { connections } else { 1 };
        // Without pauses the queue is never empty: deliveries at low priority would never run, and the mix and the
        // throughput would lack their cost.
        let patience = match order.mode {
            Mode::Terminals { .. } => PATIENCE,
            Mode::Closed { .. } | Mode::Open { .. } => Micros::ZERO,
        };
        Queues {
            lanes: (0..lanes).map(|_| Lane::default()).collect(),
            rules: Rules {
                queueing: order.queueing,
                patience,
                affinity: order.affinity,
                first_warehouse: order.first_warehouse,
                stride: order.threads,
            },
            length: 0,
        }
    }

    /// Number of waiting transactions.
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Whether any connection may take waiting work, or only its own.
    pub fn shared(&self) -> bool {
        !self.rules.affinity
    }

    /// At the end of its class.
    pub fn push(&mut self, waiting: Waiting) {
        self.class_of(&waiting.work).push_back(waiting);
        self.length += 1;
    }

    /// Returns a retried transaction to the front of its class: it is older than the others.
    pub fn push_again(&mut self, waiting: Waiting) {
        self.class_of(&waiting.work).push_front(waiting);
        self.length += 1;
    }

    /// The next work of a connection.
    pub fn pop(&mut self, connection: ConnectionId, now: Micros) -> Option<Waiting> {
        let lane = if self.rules.affinity { connection.0 as usize } else { 0 };
        let classes = &mut self.lanes[lane].classes;
        let patience = self.rules.patience;
        let overdue =
            classes[DELIVERIES].front().is_some_and(|first| now.saturating_sub(first.queued) >= patience);
        let next = if overdue {
            classes[DELIVERIES].pop_front()
        } else {
            classes.iter_mut().find_map(VecDeque::pop_front)
        };
        self.length -= u32::from(next.is_some());
        next
    }

    /// Drops all but deferred deliveries, whose terminals have had their answers; returns the number dropped.
    pub fn keep_deliveries(&mut self) -> u32 {
        let before = self.length;
        for lane in &mut self.lanes {
            for class in &mut lane.classes[..DELIVERIES] {
                self.length -= class.len() as u32;
                class.clear();
            }
        }
        before - self.length
    }

    /// Drops all; returns the number.
    pub fn clear(&mut self) -> u32 {
        let dropped = self.keep_deliveries() + self.length;
        for lane in &mut self.lanes {
            lane.classes[DELIVERIES].clear();
        }
        self.length = 0;
        dropped
    }

    fn class_of(&mut self, work: &Work) -> &mut VecDeque<Waiting> {
        let rules = self.rules;
        let lane = if rules.affinity {
            // The index of the warehouse in this thread: neighbouring numbers belong to other threads.
            let own = (work.input.warehouse() - rules.first_warehouse) / rules.stride;
            own as usize % self.lanes.len()
        } else {
            0
        };
        &mut self.lanes[lane].classes[rules.class(work.input.kind())]
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{input, order};
    use super::*;
    use crate::work::TerminalId;

    fn waiting(number: u32, kind: Kind, warehouse: u32, queued: u64) -> Waiting {
        let queued = Micros(queued);
        let work = Work {
            terminal: TerminalId(number),
            input: input(kind, warehouse),
            due: queued,
            entered: queued,
        };
        Waiting { work, queued, tries: 0 }
    }

    fn all(queues: &mut Queues, connection: u32, now: Micros) -> Vec<u32> {
        std::iter::from_fn(|| queues.pop(ConnectionId(connection), now))
            .map(|waiting| waiting.work.terminal.0)
            .collect()
    }

    /// Number n was queued at n microseconds.
    fn mixed(order: &RunOrder) -> Queues {
        let mut queues = Queues::new(order, 2);
        let kinds = [
            Kind::StockLevel,
            Kind::Delivery,
            Kind::Payment,
            Kind::NewOrder,
            Kind::OrderStatus,
            Kind::Delivery,
            Kind::Payment,
            Kind::NewOrder,
        ];
        for (number, kind) in kinds.into_iter().enumerate() {
            queues.push(waiting(number as u32, kind, 1, number as u64));
        }
        queues
    }

    #[test]
    fn first_come_is_first_served_with_deliveries_behind() {
        let mut queues = mixed(&order());
        assert_eq!(queues.length(), 8);
        assert_eq!(all(&mut queues, 0, Micros(100)), [0, 2, 3, 4, 6, 7, 1, 5]);
        assert_eq!(queues.length(), 0);
    }

    #[test]
    fn by_priority_it_goes_by_kind_and_then_by_who_came() {
        let mut queues = mixed(&RunOrder { queueing: Queueing::Priority, ..order() });
        assert_eq!(all(&mut queues, 0, Micros(100)), [3, 7, 2, 6, 4, 0, 1, 5]);
    }

    #[test]
    fn a_delivery_that_waited_for_40_s_goes_first() {
        for queueing in [Queueing::Fifo, Queueing::Priority] {
            let mut queues = mixed(&RunOrder { queueing, ..order() });
            // The first one was queued at 1 us, the second at 5 us.
            let early = queues.pop(ConnectionId(0), Micros(40_000_000)).unwrap();
            assert_ne!(early.work.input.kind(), Kind::Delivery);
            assert_eq!(queues.pop(ConnectionId(0), Micros(40_000_001)).unwrap().work.terminal.0, 1);
            let other = queues.pop(ConnectionId(0), Micros(40_000_001)).unwrap();
            assert_ne!(other.work.input.kind(), Kind::Delivery);
            assert_eq!(queues.pop(ConnectionId(0), Micros(40_000_005)).unwrap().work.terminal.0, 5);
        }
    }

    #[test]
    fn without_pauses_deliveries_do_not_wait_for_a_quiet_moment() {
        let mut queues = mixed(&RunOrder { mode: Mode::Closed { clients: 8 }, ..order() });
        assert_eq!(all(&mut queues, 0, Micros(100)), [1, 5, 0, 2, 3, 4, 6, 7]);
    }

    #[test]
    fn warehouses_keep_to_their_connections_evenly() {
        // Thread 1 of two has warehouses 12, 14, 16, 18 of 11 to 18: two for each of two connections.
        let order = RunOrder { affinity: true, first_warehouse: 11, threads: 2, ..order() };
        let mut queues = Queues::new(&order, 2);
        for warehouse in [12, 14, 16, 18] {
            queues.push(waiting(warehouse, Kind::Payment, warehouse, 1));
        }
        assert_eq!(all(&mut queues, 1, Micros(2)), [14, 18]);
        assert_eq!(all(&mut queues, 1, Micros(2)), [0; 0]);
        assert_eq!(all(&mut queues, 0, Micros(2)), [12, 16]);
    }

    #[test]
    fn what_is_tried_again_goes_before_its_like() {
        let mut queues = mixed(&order());
        let mut again = waiting(99, Kind::Payment, 1, 0);
        again.tries = 1;
        queues.push_again(again);
        assert_eq!(all(&mut queues, 0, Micros(100))[..2], [99, 0]);
    }

    #[test]
    fn at_the_end_only_deliveries_are_kept() {
        let mut queues = mixed(&order());
        assert_eq!(queues.keep_deliveries(), 6);
        assert_eq!(queues.length(), 2);
        assert_eq!(all(&mut queues, 0, Micros(100)), [1, 5]);
        let mut queues = mixed(&order());
        assert_eq!((queues.clear(), queues.length()), (8, 0));
    }
}

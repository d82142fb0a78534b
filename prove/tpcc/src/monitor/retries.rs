//! Policy for failed transactions: retry, with a delay, or give up.
//!
//! * Transient failures (serialization failure, deadlock) are retried with the same input, up to the ordered number
//!   of times, after a random delay that doubles, so that two victims do not collide again.
//! * Permanent failures are given up.
//! * **With a lost connection a writing transaction is given up**: it may have been committed, and a second
//!   New-Order would be an order that no terminal entered. It is counted under a code of its own. Reading
//!   transactions are retried.

use super::queues::Waiting;
use crate::time::Micros;
use crate::work::{Failure, FailureKind, Kind};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::SplitMix64;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// The code of a writing transaction whose connection was lost: it may have been committed.
pub const OUTCOME_UNKNOWN: &str = "outcome-unknown";

/// The code of a reading transaction whose connection was lost, if the server gave none.
pub const CONNECTION_LOST: &str = "connection-lost";

/// The failure as it is counted, and whether the transaction is tried again that had been tried so often before.
pub(super) fn judge(kind: Kind, failure: Failure, tries: u32, retries: u32) -> (Failure, bool) {
    let reads = matches!(kind, Kind::OrderStatus | Kind::StockLevel);
    match failure.kind {
        FailureKind::Retriable => (failure, tries < retries),
        FailureKind::Lasting => (failure, false),
        FailureKind::ConnectionLost if reads => {
            let code = if failure.code.is_empty() { CONNECTION_LOST.to_owned() } else { failure.code };
            (Failure { code, ..failure }, tries < retries)
        }
        FailureKind::ConnectionLost => {
            let message = match failure.code.as_str() {
                "" => failure.message,
                code => format!("{code}: {}", failure.message),
            };
            (Failure { code: OUTCOME_UNKNOWN.to_owned(), message, ..failure }, false)
        }
    }
}

/// Draws delays.
#[derive(Debug)]
pub(super) struct Delays(SplitMix64);

impl Delays {
    /// The random delays of a thread. The seed affects no row, only the times of retries.
    pub fn new(seed: u64) -> Delays {
        Delays(SplitMix64::seed_from_u64(seed))
    }

    /// The delay before the next try: 1 ms, doubled with each try, at most a second.
    pub fn retry(&mut self, tries: u32) -> Micros {
        self.about(Micros(1_000), tries, Micros::seconds(1))
    }

    /// The delay before the next reconnection attempt: 10 ms, doubled with each refusal, at most a second.
    pub fn reconnect(&mut self, refusals: u32) -> Micros {
        self.about(Micros(10_000), refusals, Micros::seconds(1))
    }

    /// Between half and one and a half times as long.
    fn about(&mut self, first: Micros, doublings: u32, most: Micros) -> Micros {
        let middle = (first.0 << doublings.min(20)).min(most.0);
        Micros(middle / 2 + self.0.next_u64() % (middle + 1))
    }
}

/// Work that is tried again later.
#[derive(Debug, Default)]
pub(super) struct Later(BinaryHeap<At>);

#[derive(Debug)]
struct At(Micros, Waiting);

impl Later {
    /// Schedules a retry.
    pub fn push(&mut self, at: Micros, waiting: Waiting) {
        self.0.push(At(at, waiting));
    }

    /// The next retry that is due.
    pub fn pop(&mut self, now: Micros) -> Option<Waiting> {
        if self.next()? > now {
            return None;
        }
        self.0.pop().map(|At(_, waiting)| waiting)
    }

    /// When the next one is.
    pub fn next(&self) -> Option<Micros> {
        self.0.peek().map(|At(at, _)| *at)
    }

    /// Drops all; returns the number.
    pub fn clear(&mut self) -> u32 {
        let dropped = self.0.len() as u32;
        self.0.clear();
        dropped
    }
}

/// Reversed, since a heap's top is its maximum.
impl Ord for At {
    fn cmp(&self, other: &At) -> Ordering {
        other.0.cmp(&self.0)
    }
}

impl PartialOrd for At {
    fn partial_cmp(&self, other: &At) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for At {
    fn eq(&self, other: &At) -> bool {
        self.0 == other.0
    }
}

impl Eq for At {}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, code: &str) -> Failure {
        Failure { kind, code: code.into(), message: "said so".into() }
    }

    #[test]
    fn what_may_pass_is_tried_as_often_as_ordered() {
        let failed = failure(FailureKind::Retriable, "40001");
        assert_eq!(judge(Kind::NewOrder, failed.clone(), 0, 2), (failed.clone(), true));
        assert!(judge(Kind::NewOrder, failed.clone(), 1, 2).1);
        assert!(!judge(Kind::NewOrder, failed.clone(), 2, 2).1);
        assert!(!judge(Kind::NewOrder, failed, 0, 0).1);
        assert!(!judge(Kind::Payment, failure(FailureKind::Lasting, "42P01"), 0, 9).1);
    }

    #[test]
    fn what_may_have_been_committed_is_never_sent_twice() {
        for kind in [Kind::NewOrder, Kind::Payment, Kind::Delivery] {
            let (told, again) = judge(kind, failure(FailureKind::ConnectionLost, "57P01"), 0, 9);
            assert_eq!((told.code.as_str(), told.message.as_str()), ("outcome-unknown", "57P01: said so"));
            assert!(!again);
        }
        for kind in [Kind::OrderStatus, Kind::StockLevel] {
            let (told, again) = judge(kind, failure(FailureKind::ConnectionLost, ""), 0, 9);
            assert_eq!((told.code.as_str(), again), ("connection-lost", true));
        }
    }

    #[test]
    fn delays_double_and_differ() {
        let mut delays = Delays::new(7);
        for tries in 0..40 {
            let middle = (1_000u64 << tries.min(20)).min(1_000_000);
            let drawn: Vec<u64> = (0..20).map(|_| delays.retry(tries).0).collect();
            assert!(drawn.iter().all(|delay| (middle / 2..=middle * 3 / 2).contains(delay)), "{drawn:?}");
            assert!(drawn.iter().any(|&delay| delay != drawn[0]));
        }
    }
}

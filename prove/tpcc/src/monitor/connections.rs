//! Which connections are free, busy or lost, and when to reconnect a lost one.

use super::queues::Waiting;
use super::retries::Delays;
use crate::time::Micros;
use crate::work::{ConnectionId, Work};
use std::collections::VecDeque;

/// While connections work, a thread may spend at most a tenth of its time on reconnecting: after an attempt, the
/// next one waits this many times its duration.
const SPARED: u64 = 9;

/// The part of submitted work that a completion does not contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    /// When it was queued for the first time.
    pub queued: Micros,
    /// Number of earlier tries.
    pub tries: u32,
}

/// The connections of one thread.
#[derive(Debug)]
pub(super) struct Connections {
    /// The work of each connection.
    under_way: Vec<Option<UnderWay>>,
    /// A stack: the connection freed last is used first, since its server process has the warmest caches.
    free: Vec<ConnectionId>,
    busy: u32,
    /// Lost connections, in the order of the next attempts.
    lost: VecDeque<ConnectionId>,
    next_attempt: Micros,
    refusals: u32,
    last_refusal: String,
    none_since: Option<Micros>,
}

impl Connections {
    /// `count` free connections.
    pub fn new(count: u32) -> Connections {
        Connections {
            under_way: vec![None; count as usize],
            free: (0..count).rev().map(ConnectionId).collect(),
            busy: 0,
            lost: VecDeque::with_capacity(count as usize),
            next_attempt: Micros::ZERO,
            refusals: 0,
            last_refusal: String::new(),
            none_since: None,
        }
    }

    /// Number of busy connections.
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// Submits what `next` returns for each free connection. If all may do the same work (`shared`), it stops at
    /// the first `None`.
    pub fn give(
        &mut self,
        shared: bool,
        mut next: impl FnMut(ConnectionId) -> Option<Waiting>,
        mut submit: impl FnMut(ConnectionId, Work),
    ) {
        let mut at = self.free.len();
        while at > 0 {
            at -= 1;
            let connection = self.free[at];
            match next(connection) {
                Some(Waiting { work, queued, tries }) => {
                    self.free.swap_remove(at);
                    self.busy += 1;
                    self.under_way[connection.0 as usize] = Some(UnderWay { queued, tries });
                    submit(connection, work);
                }
                None if shared => break,
                None => {}
            }
        }
    }

    /// The work is done, and the connection free. Panics if it had no work, which is an error of the backend.
    pub fn done(&mut self, connection: ConnectionId) -> UnderWay {
        let under_way = self.end(connection);
        self.free.push(connection);
        under_way
    }

    /// The connection is lost together with its work.
    pub fn lose(&mut self, connection: ConnectionId, now: Micros, delays: &mut Delays) -> UnderWay {
        let under_way = self.end(connection);
        if self.lost.is_empty() {
            self.refusals = 0;
            self.next_attempt = now + delays.reconnect(0);
        }
        self.lost.push_back(connection);
        if self.lost.len() == self.under_way.len() {
            self.none_since = Some(now);
        }
        under_way
    }

    fn end(&mut self, connection: ConnectionId) -> UnderWay {
        let under_way = self.under_way[connection.0 as usize].take();
        self.busy -= 1;
        under_way.expect("a connection completes what it was given, once")
    }

    /// The connection to reconnect now, if one is due.
    pub fn to_reconnect(&self, now: Micros) -> Option<ConnectionId> {
        (now >= self.next_attempt).then(|| self.lost.front().copied()).flatten()
    }

    /// When that will be.
    pub fn next_attempt(&self) -> Option<Micros> {
        (!self.lost.is_empty()).then_some(self.next_attempt)
    }

    /// The result of a reconnection attempt that began at `begun`.
    pub fn attempted(
        &mut self,
        outcome: Result<(), String>,
        begun: Micros,
        now: Micros,
        delays: &mut Delays,
    ) {
        let Some(connection) = self.lost.pop_front() else { return };
        let others_work = self.lost.len() + 1 < self.under_way.len();
        let spared = if others_work { Micros(now.saturating_sub(begun).0 * SPARED) } else { Micros::ZERO };
        match outcome {
            Ok(()) => {
                self.free.push(connection);
                self.none_since = None;
                self.refusals = 0;
                self.next_attempt = now + spared;
            }
            Err(refusal) => {
                self.lost.push_back(connection);
                self.refusals += 1;
                self.last_refusal = refusal;
                self.next_attempt = now + spared.max(delays.reconnect(self.refusals));
            }
        }
    }

    /// Since when all connections are lost, with the server's last message.
    pub fn none_since(&self) -> Option<(Micros, &str)> {
        self.none_since.map(|since| (since, self.last_refusal.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::input;
    use super::*;
    use crate::work::{Kind, TerminalId};

    fn waiting(number: u32) -> Waiting {
        let work = Work {
            terminal: TerminalId(number),
            input: input(Kind::Payment, 1),
            due: Micros::ZERO,
            entered: Micros::ZERO,
        };
        Waiting { work, queued: Micros(u64::from(number)), tries: 0 }
    }

    fn busy(count: u32) -> Connections {
        let mut connections = Connections::new(count);
        connections.give(true, |connection| Some(waiting(connection.0)), |_, _| {});
        assert_eq!(connections.busy(), count);
        connections
    }

    #[test]
    fn the_warmest_connection_is_taken_first() {
        let mut connections = busy(3);
        assert_eq!(connections.done(ConnectionId(1)), UnderWay { queued: Micros(1), tries: 0 });
        connections.done(ConnectionId(0));
        let mut given = Vec::new();
        let mut left = vec![waiting(7)];
        connections.give(
            true,
            |_| left.pop(),
            |connection, work| given.push((connection.0, work.terminal.0)),
        );
        assert_eq!(given, [(0, 7)]);
        assert_eq!(connections.busy(), 2);
    }

    #[test]
    fn attempts_come_slower_while_they_are_refused_and_none_is_told() {
        let mut delays = Delays::new(1);
        let mut connections = busy(2);
        connections.lose(ConnectionId(0), Micros(1_000), &mut delays);
        assert_eq!(connections.none_since(), None);
        connections.lose(ConnectionId(1), Micros(2_000), &mut delays);
        assert_eq!(connections.none_since(), Some((Micros(2_000), "")));
        let mut waits = Vec::new();
        for _ in 0..12 {
            let at = connections.next_attempt().unwrap();
            assert_eq!(connections.to_reconnect(at - Micros(1)), None);
            assert!(connections.to_reconnect(at).is_some());
            connections.attempted(Err("refused".into()), at, at, &mut delays);
            waits.push(connections.next_attempt().unwrap() - at);
        }
        // 20 ms, 40 ms ... a second, each half as long to half as long again.
        assert!((Micros(10_000)..=Micros(30_000)).contains(&waits[0]), "{waits:?}");
        assert!((Micros(500_000)..=Micros(1_500_000)).contains(&waits[11]), "{waits:?}");
        assert_eq!(connections.none_since(), Some((Micros(2_000), "refused")));
        let at = connections.next_attempt().unwrap();
        connections.attempted(Ok(()), at, at, &mut delays);
        assert_eq!(connections.none_since(), None);
        // The server is back: try the other one at once.
        assert_eq!(connections.next_attempt(), Some(at));
    }

    #[test]
    fn slow_attempts_leave_nine_tenths_of_the_time_to_others() {
        let mut delays = Delays::new(1);
        let mut connections = busy(2);
        connections.lose(ConnectionId(0), Micros::ZERO, &mut delays);
        let begun = connections.next_attempt().unwrap();
        connections.attempted(Err("no route".into()), begun, begun + Micros::seconds(3), &mut delays);
        assert_eq!(connections.next_attempt(), Some(begun + Micros::seconds(30)));
    }
}

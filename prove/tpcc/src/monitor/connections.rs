//! Which connections are free, busy or lost, and when a lost one is tried again.

use super::queues::Waiting;
use super::retries::Delays;
use crate::time::Micros;
use crate::work::{ConnectionId, Work};
use std::collections::VecDeque;

/// After an attempt to reconnect that took a while, others may not be held up by the next one for so many times as long:
/// a thread spends at most a tenth of its time on it while one of its connections works.
const SPARED: u64 = 9;

/// Of what a connection does, what comes back with no completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct UnderWay {
    /// When it was queued for the first time.
    pub queued: Micros,
    /// How often it had been tried before.
    pub tries: u32,
}

/// The connections of one thread.
#[derive(Debug)]
pub(super) struct Connections {
    /// What each does.
    under_way: Vec<Option<UnderWay>>,
    /// The one freed last is taken first: its server process is the warmest.
    free: Vec<ConnectionId>,
    busy: u32,
    /// Those that are gone, in the order of the next attempts.
    lost: VecDeque<ConnectionId>,
    next_attempt: Micros,
    refusals: u32,
    last_refusal: String,
    none_since: Option<Micros>,
}

impl Connections {
    /// So many, all free.
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

    /// How many do something.
    pub fn busy(&self) -> u32 {
        self.busy
    }

    /// Gives every free connection that `next` has something for what it is to do, by `submit`. If all may do the same
    /// (`shared`), one that finds nothing ends it.
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

    /// It has done what it was given, and is free. Panics if it was given nothing: a backend invented it.
    pub fn done(&mut self, connection: ConnectionId) -> UnderWay {
        let under_way = self.end(connection);
        self.free.push(connection);
        under_way
    }

    /// It is gone with what it was given.
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

    /// The one to be connected anew, if it is time.
    pub fn to_reconnect(&self, now: Micros) -> Option<ConnectionId> {
        (now >= self.next_attempt).then(|| self.lost.front().copied()).flatten()
    }

    /// When that will be.
    pub fn next_attempt(&self) -> Option<Micros> {
        (!self.lost.is_empty()).then_some(self.next_attempt)
    }

    /// How an attempt ended that began at a moment.
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

    /// Since when there is none at all, and what the server said to the last attempt.
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
        // The server is back: the other one at once.
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

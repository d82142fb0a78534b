//! Finds the statement of a sample among the [readers'](super::at_sample) readings.

use super::at_sample::Reading;
use hardmeter_samples::model::{ServerState, StateId, StatementId, Timestamp};
use hardmeter_samples::sidecar::Statement;
use hardmeter_statement::{normalise, Dialect};
use std::collections::HashMap;

/// Seconds from 1970 to 2000, the beginning of PostgreSQL's times.
const EPOCH: i64 = 946_684_800;
/// Times of statements are whole microseconds, and the two clocks are compared with about that error.
const SLACK_NS: i64 = 10_000;
/// Limit of texts that are kept by their bytes, so that a repeated statement is not normalised again.
const MOST_TEXTS: usize = 20_000;
/// Limit of named statements.
const MOST_STATEMENTS: usize = 10_000;

/// The number of samples with and without a statement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Outcomes {
    /// The statement was read.
    pub(super) known: u64,
    /// A later statement had begun before the reading.
    pub(super) late: u64,
    /// No reader read this sample's process.
    pub(super) unread: u64,
}

/// Names the statements of samples.
#[derive(Debug, Default)]
pub(super) struct StatementNames {
    waiting: HashMap<(u32, Timestamp), Reading>,
    ids: HashMap<Vec<u8>, StatementId>,
    texts: HashMap<StatementId, String>,
    pub(super) outcomes: Outcomes,
}

impl StatementNames {
    /// Begins a new capture, which needs the texts of its own statements.
    pub(super) fn begin_capture(&mut self) {
        self.ids.clear();
        self.texts.clear();
        self.outcomes = Outcomes::default();
    }

    /// Adds readings. Those that belong to no sample of this round or the last are dropped.
    pub(super) fn add(&mut self, readings: Vec<Reading>) {
        if let Some(newest) = readings.iter().map(|reading| reading.time).max() {
            let old = newest.0.saturating_sub(1_000_000_000);
            self.waiting.retain(|(_, time), _| time.0 >= old);
        }
        self.waiting.extend(readings.into_iter().map(|reading| ((reading.cpu, reading.time), reading)));
    }

    /// The raw field of a sample, if its statement is known. `ahead`: the wall clock minus the clock of
    /// samples, in nanoseconds.
    pub(super) fn of_sample(&mut self, cpu: u32, time: Timestamp, ahead: i64) -> Option<Vec<u8>> {
        let Some(reading) = self.waiting.remove(&(cpu, time)) else {
            self.outcomes.unread += 1;
            return None;
        };
        let executed = reading.executed;
        let begun = executed.words.iter().find(|(id, _)| *id == StateId::STATEMENT_START);
        if begun.is_some_and(|(_, begun)| begun_at(*begun as i64, ahead) > time.0 as i64 + SLACK_NS) {
            self.outcomes.late += 1;
            return None;
        }
        self.outcomes.known += 1;
        let statement = self.name(executed.text)?;
        let number = executed.words.into_iter().filter(|(id, _)| *id == StateId::SERVERS_STATEMENT);
        let state = ServerState { statement: Some(statement), statement_over: executed.over };
        Some(state.encode(time, &number.collect::<Vec<_>>()))
    }

    /// The statement of a text; `None` before the first one.
    fn name(&mut self, text: Vec<u8>) -> Option<StatementId> {
        if let Some(known) = self.ids.get(&text) {
            return Some(*known);
        }
        let plain = normalise(Dialect::Postgres, &text);
        if plain.is_empty() {
            return None;
        }
        let id = StatementId::of_normalised(&plain);
        if self.ids.len() >= MOST_TEXTS {
            self.ids.clear();
        }
        self.ids.insert(text, id);
        if self.texts.len() < MOST_STATEMENTS {
            self.texts.entry(id).or_insert_with(|| String::from_utf8_lossy(&plain).into_owned());
        }
        Some(id)
    }

    /// The statements named by samples, in a fixed order.
    pub(super) fn statements(&self) -> Vec<Statement> {
        let mut statements: Vec<Statement> =
            self.texts.iter().map(|(id, text)| Statement { id: *id, text: text.clone() }).collect();
        statements.sort_by_key(|statement| statement.id);
        statements
    }
}

/// A time of the server on the clock of samples, in nanoseconds.
fn begun_at(microseconds: i64, ahead: i64) -> i64 {
    microseconds.saturating_add(EPOCH * 1_000_000).saturating_mul(1_000).saturating_sub(ahead)
}

/// The wall clock minus the clock of samples, in nanoseconds.
pub(super) fn wall_clock_ahead() -> i64 {
    let now = |clock| {
        // SAFETY: `time` has room for one time.
        unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(clock, &mut time);
            time.tv_sec * 1_000_000_000 + time.tv_nsec
        }
    };
    // Of several tries, the least interrupted one.
    let apart = |_| {
        let before = now(libc::CLOCK_MONOTONIC);
        let wall = now(libc::CLOCK_REALTIME);
        let after = now(libc::CLOCK_MONOTONIC);
        (after - before, wall - before - (after - before) / 2)
    };
    (0..5).map(apart).min().map_or(0, |(_, ahead)| ahead)
}

#[cfg(test)]
mod tests {
    use super::super::state::Executed;
    use super::*;

    /// A reading on CPU 0 at `time`, in nanoseconds, of a statement that began at `begun`, in microseconds.
    fn reading(time: u64, text: &str, begun: i64) -> Reading {
        let words = vec![
            (StateId::STATEMENT_START, (begun - EPOCH * 1_000_000) as u64),
            (StateId::SERVERS_STATEMENT, 42),
        ];
        let executed = Executed { text: text.as_bytes().to_vec(), over: false, words };
        Reading { cpu: 0, time: Timestamp(time), executed }
    }

    #[test]
    fn a_statement_that_began_after_the_sample_is_not_its_own() {
        let mut names = StatementNames::default();
        names.add(vec![reading(1_000_000, "SELECT 1", 900), reading(2_000_000, "SELECT 2", 2_100)]);
        let raw = names.of_sample(0, Timestamp(1_000_000), 0).expect("known");
        let state = ServerState::decode(&raw).expect("a statement");
        assert_eq!(state.statement, Some(StatementId::of(Dialect::Postgres, b"select 77")));
        assert_eq!(names.of_sample(0, Timestamp(2_000_000), 0), None, "begun 0.1 ms later");
        assert_eq!(names.of_sample(0, Timestamp(3_000_000), 0), None, "never read");
        assert_eq!(names.of_sample(1, Timestamp(1_000_000), 0), None, "another CPU");
        assert_eq!(names.outcomes, Outcomes { known: 1, late: 1, unread: 2 });
        let statements = names.statements();
        assert_eq!((statements.len(), statements[0].text.as_str()), (1, "select ?"));
        // The next capture has the text again once a sample names it.
        names.begin_capture();
        assert_eq!((names.statements(), names.outcomes), (Vec::new(), Outcomes::default()));
        names.add(vec![reading(4_000_000, "SELECT 1", 900)]);
        names.of_sample(0, Timestamp(4_000_000), 0).expect("known");
        assert_eq!(names.statements(), statements);
    }

    #[test]
    fn the_clocks_are_compared() {
        // The wall clock is 5 s ahead of the capture's: a statement that began at 7.0001 s by the wall clock began
        // at 2.0001 s.
        let mut names = StatementNames::default();
        let ahead = 5_000_000_000;
        names.add(vec![reading(2_000_000_000, "SELECT 1", 7_000_100)]);
        assert_eq!(names.of_sample(0, Timestamp(2_000_000_000), ahead), None);
        names.add(vec![reading(2_000_000_000, "SELECT 1", 6_999_900)]);
        assert!(names.of_sample(0, Timestamp(2_000_000_000), ahead).is_some());
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("later");
        let uptime = since_1970.as_nanos() as i64 - wall_clock_ahead();
        assert!(uptime > 0, "the clock of samples begins with the machine: {uptime}");
    }

    #[test]
    fn before_the_first_statement_nothing_is_named() {
        let mut names = StatementNames::default();
        names.add(vec![reading(5, "", 0)]);
        assert_eq!(names.of_sample(0, Timestamp(5), 0), None);
        assert_eq!(names.outcomes.known, 1, "known: none");
        assert!(names.statements().is_empty());
    }
}

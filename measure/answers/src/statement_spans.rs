//! The statement that a thread executes, from the probe records of a kernel recording, and the number of
//! executions.
//!
//! ```text
//! marks      unknown | begins A ......... begins A .... ends | begins B ....
//! samples      ?          A                  A           -        B
//! ```
//! Records must be added in order of time. Before a thread's first mark its statement is "unknown", not "none". A
//! new or an ended thread executes nothing.

use hardmeter_samples::model::{
    Pid, Record, Sample, StatementId, StatementMark, StatementMarkKind, Tid, Timestamp,
};
use hardmeter_statement::{cut, normalise, Dialect};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Maximum bytes of a normalised text: as in the software PMU's table (`HM_STATEMENT_TEXT`).
const TEXT_LIMIT: usize = 1004;

/// The statement that a thread executes at a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// A statement.
    Statement(StatementId),
    /// A statement without a recorded text: longer than 4 KiB, or recorded without tracefs.
    Nameless,
    /// None: it waits for its client, or does not execute statements.
    Nothing,
}

/// Executions of a statement during the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// Number of starts.
    pub begun: u64,
    /// Number of ends.
    pub ended: u64,
    /// Time between begin and end, of those that ended.
    pub nanoseconds: u64,
}

/// A thread's state.
#[derive(Clone, Copy, Debug)]
struct Thread {
    running: Running,
    since: Option<Timestamp>,
}

/// The statements that threads execute, from marks.
#[derive(Clone, Debug, Default)]
pub struct StatementSpans {
    threads: FxHashMap<Tid, Thread>,
    statements: FxHashMap<StatementId, (Arc<str>, Executions)>,
    /// Executions of all statements without a text.
    nameless: Executions,
    /// Ids of raw texts: clients send the same texts repeatedly, and most are short.
    known: FxHashMap<Box<[u8]>, StatementId>,
    marks: u64,
}

/// Capacity of `known`. Statements with literal constants are all different; beyond this number each is lexed
/// again.
const KNOWN_LIMIT: usize = 10_000;

impl StatementSpans {
    /// Processes a record.
    pub fn see(&mut self, record: &Record<'_>) {
        match record {
            Record::Statement(mark) => self.mark(mark),
            // Thread numbers are reused: a new thread is unrelated to an earlier one with its number.
            Record::Fork(fork) if self.marks > 0 => {
                self.threads.insert(fork.tid, Thread { running: Running::Nothing, since: fork.time });
            }
            // A mark may have been lost: until a thread's next mark, its statement is unknown.
            Record::Lost(_) => self.threads.clear(),
            Record::Exit(exit) if self.marks > 0 => self.change(exit.tid, exit.time, Running::Nothing),
            _ => {}
        }
    }

    fn mark(&mut self, mark: &StatementMark<'_>) {
        self.marks += 1;
        let running = match mark.kind {
            StatementMarkKind::Begins { text: Some(text) } => Running::Statement(self.identify(text)),
            StatementMarkKind::Begins { text: None } => Running::Nameless,
            StatementMarkKind::Ends => Running::Nothing,
        };
        self.change(mark.tid, mark.time, running);
    }

    fn change(&mut self, tid: Tid, time: Option<Timestamp>, running: Running) {
        let before = self.threads.get(&tid).copied();
        // PostgreSQL's extended protocol has marks for parse, bind and execute of the same execution.
        if before.is_some_and(|thread| thread.running == running) {
            return;
        }
        self.threads.insert(tid, Thread { running, since: time });
        if let Some(Thread { running, since }) = before {
            if let Some(executions) = self.counted(running) {
                executions.ended += 1;
                if let (Some(since), Some(time)) = (since, time) {
                    executions.nanoseconds += time.0.saturating_sub(since.0);
                }
            }
        }
        if let Some(executions) = self.counted(running) {
            executions.begun += 1;
        }
    }

    /// The counter for executions of this statement.
    fn counted(&mut self, running: Running) -> Option<&mut Executions> {
        match running {
            Running::Statement(hash) => self.statements.get_mut(&hash).map(|(_, executions)| executions),
            Running::Nameless => Some(&mut self.nameless),
            Running::Nothing => None,
        }
    }

    /// Marks come only from PostgreSQL's probes.
    fn identify(&mut self, text: &[u8]) -> StatementId {
        if let Some(id) = self.known.get(text) {
            return *id;
        }
        let plain = normalise(Dialect::Postgres, text);
        let id = StatementId::of_normalised(&plain);
        let entry = || (String::from_utf8_lossy(cut(&plain, TEXT_LIMIT)).into(), Executions::default());
        self.statements.entry(id).or_insert_with(entry);
        if self.known.len() < KNOWN_LIMIT {
            self.known.insert(text.into(), id);
        }
        id
    }

    /// The statement that a thread executes now; `None` before its first mark.
    pub fn running(&self, tid: Tid) -> Option<Running> {
        self.threads.get(&tid).map(|thread| thread.running)
    }

    /// The statement of the sample's thread; the sample must be the latest record.
    pub fn of_sample(&self, sample: &Sample<'_>) -> Option<Running> {
        self.running(sample.tid.or(sample.pid.map(|Pid(pid)| Tid(pid)))?)
    }

    /// A statement's text without constants.
    pub fn text(&self, statement: StatementId) -> Option<&Arc<str>> {
        self.statements.get(&statement).map(|(text, _)| text)
    }

    /// Executions of a statement.
    pub fn executions(&self, statement: StatementId) -> Option<Executions> {
        self.statements.get(&statement).map(|(_, executions)| *executions)
    }

    /// Executions of all statements without a text.
    pub fn nameless(&self) -> Executions {
        self.nameless
    }

    /// All statements, in no order.
    pub fn statements(&self) -> impl Iterator<Item = StatementId> + '_ {
        self.statements.keys().copied()
    }

    /// Number of marks. 0: the capture has no statements.
    pub fn marks(&self) -> u64 {
        self.marks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{fork, sample};
    use hardmeter_samples::model::{Exit, LostRecords};

    fn mark(tid: i32, time: u64, text: Option<&[u8]>) -> Record<'_> {
        let kind = match text {
            Some(text) => StatementMarkKind::Begins { text: Some(text).filter(|text| !text.is_empty()) },
            None => StatementMarkKind::Ends,
        };
        Record::Statement(StatementMark { pid: Pid(tid), tid: Tid(tid), time: Some(Timestamp(time)), kind })
    }

    fn text_of(spans: &StatementSpans, tid: i32) -> Option<String> {
        match spans.of_sample(&sample(0, tid, 0x1000))? {
            Running::Statement(hash) => spans.text(hash).map(|text| text.to_string()),
            other => Some(format!("{other:?}")),
        }
    }

    #[test]
    fn a_sample_between_two_marks_belongs_to_the_first() {
        let mut spans = StatementSpans::default();
        assert_eq!(text_of(&spans, 1), None, "nobody has told yet");
        spans.see(&mark(1, 100, Some(b"SELECT 1")));
        spans.see(&mark(2, 110, Some(b"UPDATE t SET a = 5")));
        assert_eq!(text_of(&spans, 1).as_deref(), Some("select ?"));
        assert_eq!(text_of(&spans, 2).as_deref(), Some("update t set a=?"));
        spans.see(&mark(1, 130, None));
        assert_eq!(text_of(&spans, 1).as_deref(), Some("Nothing"));
        spans.see(&mark(1, 140, Some(b"SELECT 22")));
        spans.see(&mark(1, 150, Some(b"")));
        assert_eq!(text_of(&spans, 1).as_deref(), Some("Nameless"));
        let select = StatementId::of_normalised(b"select ?");
        assert_eq!(spans.executions(select), Some(Executions { begun: 2, ended: 2, nanoseconds: 40 }));
        let update = StatementId::of_normalised(b"update t set a=?");
        assert_eq!(spans.executions(update), Some(Executions { begun: 1, ended: 0, nanoseconds: 0 }));
        assert_eq!(spans.nameless(), Executions { begun: 1, ended: 0, nanoseconds: 0 });
        assert_eq!((spans.marks(), spans.statements().count()), (5, 2));
    }

    #[test]
    fn parse_bind_and_execute_are_one_execution() {
        let mut spans = StatementSpans::default();
        for time in [10, 20, 30] {
            spans.see(&mark(1, time, Some(b"SELECT $1")));
        }
        spans.see(&mark(1, 50, None));
        spans.see(&mark(1, 60, None));
        let executions = spans.executions(StatementId::of_normalised(b"select ?"));
        assert_eq!(executions, Some(Executions { begun: 1, ended: 1, nanoseconds: 40 }));
    }

    #[test]
    fn after_a_loss_nothing_is_known_until_the_next_mark() {
        let mut spans = StatementSpans::default();
        spans.see(&mark(1, 10, Some(b"SELECT 1")));
        spans.see(&Record::Lost(LostRecords { count: 3, samples_only: false, time: Some(Timestamp(20)) }));
        assert_eq!(text_of(&spans, 1), None);
        spans.see(&mark(1, 30, Some(b"SELECT a")));
        assert_eq!(text_of(&spans, 1).as_deref(), Some("select a"));
    }

    #[test]
    fn a_number_that_comes_back_brings_no_statement_along() {
        let mut spans = StatementSpans::default();
        spans.see(&mark(7, 10, Some(b"SELECT 1")));
        let exit = Exit { pid: Pid(7), tid: Tid(7), time: Some(Timestamp(30)) };
        spans.see(&Record::Exit(exit));
        assert_eq!(text_of(&spans, 7).as_deref(), Some("Nothing"));
        assert_eq!(
            spans.executions(StatementId::of_normalised(b"select ?")).map(|all| all.nanoseconds),
            Some(20)
        );
        // The thread's exit was lost, and its number is reused.
        spans.see(&mark(8, 10, Some(b"SELECT 1")));
        spans.see(&fork(1, 8));
        assert_eq!(text_of(&spans, 8).as_deref(), Some("Nothing"));
    }
}

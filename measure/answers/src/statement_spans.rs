//! Which statement a thread executes, from the marks of a kernel recording, and how often it was executed.
//!
//! ```text
//! marks      unknown | begins A ......... begins A .... ends | begins B ....
//! samples      ?          A                  A           -        B
//! ```
//! The records have to come in order of time. A thread whose first mark has not come yet may well execute something:
//! that is "unknown", not "none". A new or an ended thread executes nothing.

use hardmeter_samples::model::{
    Pid, Record, Sample, StatementId, StatementMark, StatementMarkKind, Tid, Timestamp,
};
use hardmeter_statement::{cut, normalise, Dialect};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Bytes of a normalised text that are kept: as many as the software PMU's table has for one (`HM_STATEMENT_TEXT`).
const TEXT_LIMIT: usize = 1004;

/// What a thread executes at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Running {
    /// A statement.
    Statement(StatementId),
    /// A statement whose text the recorder could not have: longer than 4 KiB, or recorded without tracefs.
    Nameless,
    /// None: it waits for its client, or is no thread that executes statements.
    Nothing,
}

/// What was executed of a statement while recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Executions {
    /// How often it began.
    pub begun: u64,
    /// How often it ended while recording.
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

/// The statements that threads execute, as the marks tell of them.
#[derive(Clone, Debug, Default)]
pub struct StatementSpans {
    threads: FxHashMap<Tid, Thread>,
    statements: FxHashMap<StatementId, (Arc<str>, Executions)>,
    /// What was executed of statements without text, all together.
    nameless: Executions,
    /// Texts as they came: a client sends the same one again and again, and most are not long.
    known: FxHashMap<Box<[u8]>, StatementId>,
    marks: u64,
}

/// Distinct texts that are remembered. Statements with constants in them are all different; beyond this many, each
/// costs its lexing.
const KNOWN_LIMIT: usize = 10_000;

impl StatementSpans {
    /// Takes note of a record.
    pub fn see(&mut self, record: &Record<'_>) {
        match record {
            Record::Statement(mark) => self.mark(mark),
            // Numbers come back: a new thread has nothing to do with an earlier one of its number.
            Record::Fork(fork) if self.marks > 0 => {
                self.threads.insert(fork.tid, Thread { running: Running::Nothing, since: fork.time });
            }
            // A mark may be among what was lost: until its next one, nobody knows what a thread executes.
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
        // PostgreSQL's extended protocol tells of parse, bind and execute of one and the same execution.
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

    /// Where executions of this are counted.
    fn counted(&mut self, running: Running) -> Option<&mut Executions> {
        match running {
            Running::Statement(hash) => self.statements.get_mut(&hash).map(|(_, executions)| executions),
            Running::Nameless => Some(&mut self.nameless),
            Running::Nothing => None,
        }
    }

    /// Only PostgreSQL has probes that marks come from.
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

    /// What a thread executes now; `None` if no mark has told yet.
    pub fn running(&self, tid: Tid) -> Option<Running> {
        self.threads.get(&tid).map(|thread| thread.running)
    }

    /// What the thread of a sample executes, the sample being the latest record seen.
    pub fn of_sample(&self, sample: &Sample<'_>) -> Option<Running> {
        self.running(sample.tid.or(sample.pid.map(|Pid(pid)| Tid(pid)))?)
    }

    /// A statement's text without constants.
    pub fn text(&self, statement: StatementId) -> Option<&Arc<str>> {
        self.statements.get(&statement).map(|(text, _)| text)
    }

    /// What was executed of a statement.
    pub fn executions(&self, statement: StatementId) -> Option<Executions> {
        self.statements.get(&statement).map(|(_, executions)| *executions)
    }

    /// What was executed of statements whose text is not known, all together.
    pub fn nameless(&self) -> Executions {
        self.nameless
    }

    /// All statements, in no order.
    pub fn statements(&self) -> impl Iterator<Item = StatementId> + '_ {
        self.statements.keys().copied()
    }

    /// How many marks were seen. None: the capture tells nothing of statements.
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
        // Its exit was lost, and the number comes back.
        spans.see(&mark(8, 10, Some(b"SELECT 1")));
        spans.see(&fork(1, 8));
        assert_eq!(text_of(&spans, 8).as_deref(), Some("Nothing"));
    }
}

//! Misses of a server by statement, operator of the executed plan, phase of the transaction, role of the
//! process, and object.
//!
//! ```text
//!   call chain   PostgresMain > exec_simple_query > PortalRun > ExecIndexScan > ExecEvalExpr > [sample]
//!   marks                                           `- phase    `- operator
//!                                                   "execute"      "Index Scan"
//!   operator: the innermost marked call. phase: the outermost.
//! ```

mod activity;
mod side_by_side;

pub use activity::Activity;
pub use side_by_side::{EventSum, SideBySide, SideBySideRow};

use crate::code::CodeMap;
use crate::column::{find, UnknownColumn};
use crate::estimate::Share;
use crate::key_table::KeyTable;
use crate::latency::LatencySummary;
use crate::objects::{CodeMarks, DataMap, ObjectIndex};
use crate::pass::{Located, Pass};
use crate::ranking::Ranking;
use crate::statements::Statements;
use crate::tally::Tally;
use hardmeter_samples::model::{EventIndex, Period, Pid, Sample, SimulatedDetail, StateId, StatementId, Tid};
use hardmeter_samples::object_notes::TextId;
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::str::FromStr;
use std::sync::Arc;

/// Columns that samples can be grouped by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueryColumn {
    /// The statement being executed, without its constants.
    Statement,
    /// The operator of its plan.
    Operator,
    /// The phase of the transaction.
    Phase,
    /// The role of the process in the server.
    Role,
    /// The object of the data address: class and name.
    Object,
}

impl QueryColumn {
    /// Every column with its name on the command line.
    pub const ALL: [(QueryColumn, &'static str); 5] = [
        (QueryColumn::Statement, "statement"),
        (QueryColumn::Operator, "operator"),
        (QueryColumn::Phase, "phase"),
        (QueryColumn::Role, "role"),
        (QueryColumn::Object, "object"),
    ];

    /// The name on the command line and in the table's head.
    pub fn name(self) -> &'static str {
        QueryColumn::ALL[self as usize].1
    }
}

impl FromStr for QueryColumn {
    type Err = UnknownColumn;

    fn from_str(name: &str) -> Result<Self, UnknownColumn> {
        find(name, &QueryColumn::ALL)
    }
}

/// Samples, and of how many it is known for whom they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct QueryCoverage {
    /// Samples.
    pub samples: u64,
    /// Samples of processes, or threads, that execute statements for clients.
    pub backend: u64,
    /// Of those, samples during a statement.
    pub backend_with_statement: u64,
    /// Of the latter, samples after the statement's end: cleanup, waiting for the next statement, exit.
    pub backend_after_statement: u64,
    /// Of those of backends, before the first statement of the thread: it starts, authenticates, fills its caches.
    pub backend_starting: u64,
    /// Samples with a call chain.
    pub with_callchain: u64,
    /// Samples with an operator on it.
    pub with_operator: u64,
    /// Samples with a phase on it.
    pub with_phase: u64,
}

impl QueryCoverage {
    /// Samples of backends with a statement.
    pub fn statement_share(&self) -> Share {
        Share { count: self.backend_with_statement, total: self.backend }
    }

    /// Share of the backends' samples after the end of a statement.
    pub fn over_share(&self) -> Share {
        Share { count: self.backend_after_statement, total: self.backend }
    }

    /// Samples of backends before the first statement of the thread.
    pub fn starting_share(&self) -> Share {
        Share { count: self.backend_starting, total: self.backend }
    }
}

/// One row: the samples with equal values in the chosen columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryRow {
    /// Its value in each of the table's columns; `None` if unknown.
    pub values: Vec<Option<Arc<str>>>,
    /// The number of its statement, where that is a column.
    pub statement: Option<StatementId>,
    /// The server's own id of that statement (PostgreSQL: query id), if it has one.
    pub servers_number: Option<i64>,
    /// Its samples, of all of the event.
    pub share: Share,
    /// Events that the samples stand for (sum of periods).
    pub events: Period,
    /// Their latencies.
    pub latency: LatencySummary,
    /// The object with most of them.
    pub object: Option<(Arc<str>, Share)>,
}

/// The samples of one event, by the columns chosen.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QueryTable {
    /// The event.
    pub event: EventIndex,
    /// The columns.
    pub columns: Vec<QueryColumn>,
    /// All its samples: the sum over all rows, including those beyond the limit.
    pub total: u64,
    /// The latencies of all samples.
    pub latency: LatencySummary,
    /// The order of the rows, largest first.
    pub ranking: Ranking,
    /// Samples while no statement was executed, and their latencies, if statements are a column: of backends that
    /// start, end or wait, and of other processes.
    pub outside: Option<(Share, LatencySummary)>,
    /// The rows, in that order.
    pub rows: Vec<QueryRow>,
    /// Number of rows beyond the limit.
    pub more_rows: u64,
    /// Samples in rows beyond the limit.
    pub more_samples: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct ThreadTally {
    samples: u64,
    with_statement: u64,
    before_first: u64,
    after_statement: u64,
}

/// The packed form of "unknown". Hashes may have any value, so a statement has an additional word for its
/// state.
const ABSENT: u64 = u64::MAX;

/// The process has not executed a statement yet.
const BEFORE_FIRST: u64 = 0;
/// The process executes a statement.
const EXECUTING: u64 = 1;
/// The process has executed a statement and waits for the next or reads it.
const BETWEEN: u64 = 2;

// The packed key:   event | state | statement | operator | phase | role | class and name of the object
const EVENT: usize = 0;
const STATEMENT: usize = 1;
const OPERATOR: usize = 3;
const PHASE: usize = 4;
const ROLE: usize = 5;
const OBJECT: usize = 6;
const WIDTH: usize = 7;

/// Counts samples by whom they were for.
#[derive(Debug)]
pub struct QueryCount {
    activity: Activity,
    keys: KeyTable,
    tallies: Vec<Tally>,
    /// By thread: a server may have a process for each client, or a thread.
    threads: FxHashMap<(Pid, Tid), ThreadTally>,
    coverage: QueryCoverage,
    servers_numbers: FxHashMap<StatementId, FxHashMap<i64, u64>>,
}

impl QueryCount {
    /// An empty count; `marks` maps code to operators and phases.
    pub fn new(marks: CodeMarks) -> Self {
        QueryCount {
            activity: Activity::new(marks),
            keys: KeyTable::new(WIDTH),
            tallies: Vec::new(),
            threads: FxHashMap::default(),
            coverage: QueryCoverage::default(),
            servers_numbers: FxHashMap::default(),
        }
    }

    /// Counts one sample.
    pub fn add<M: CodeMap + DataMap>(&mut self, sample: &Sample<'_>, located: Located, pass: &mut Pass<M>) {
        let statement = pass.statements().of_sample(sample);
        if let (Some(statement), Some(number)) = (statement, servers_number(sample)) {
            *self.servers_numbers.entry(statement).or_default().entry(number).or_default() += 1;
        }
        let (operator, phase) = self.activity.of_sample(sample, located, pass);
        let role = pass.objects().role_of(sample);
        let object = pass.object(sample).map(|object| object.path);
        let text = |id: Option<TextId>| id.map_or(ABSENT, |id| u64::from(id.0));
        let object = object.map_or(ABSENT, |path| u64::from(path.class.0) << 32 | u64::from(path.name.0));
        let mut state = if statement.is_some() { EXECUTING } else { BEFORE_FIRST };
        if let Some(pid) = sample.pid {
            let thread = self.threads.entry((pid, sample.tid.unwrap_or(Tid(pid.0)))).or_default();
            if statement.is_none() && thread.with_statement > 0 {
                state = BETWEEN;
            }
            thread.samples += 1;
            thread.with_statement += u64::from(state == EXECUTING);
            thread.before_first += u64::from(state == BEFORE_FIRST);
            let over = sample.server_state().is_some_and(|state| state.statement_over);
            thread.after_statement += u64::from(over);
        }
        let row = self.keys.number(&[
            sample.event.0 as u64,
            state,
            statement.map_or(0, |statement| statement.0),
            text(operator),
            text(phase),
            text(role),
            object,
        ]);
        if row == self.tallies.len() {
            self.tallies.push(Tally::default());
        }
        self.tallies[row].add(sample);
        self.coverage.samples += 1;
        self.coverage.with_callchain += u64::from(!sample.callchain.is_empty());
        self.coverage.with_operator += u64::from(operator.is_some());
        self.coverage.with_phase += u64::from(phase.is_some());
    }

    /// Of how many samples it is known for whom they were. Backends are the processes and threads with the role of one;
    /// where no process has a role, also the threads that were seen with a statement.
    pub fn coverage(&self, index: &ObjectIndex) -> QueryCoverage {
        let mut coverage = self.coverage;
        let has_roles = self.threads.keys().any(|(pid, _)| index.role(*pid).is_some());
        for ((pid, tid), thread) in &self.threads {
            let role = index.role_of_thread(*pid, *tid);
            if role.is_some_and(|role| is_backend(role)) || !has_roles && thread.with_statement > 0 {
                coverage.backend += thread.samples;
                coverage.backend_with_statement += thread.with_statement;
                coverage.backend_starting += thread.before_first;
                coverage.backend_after_statement += thread.after_statement;
            }
        }
        coverage
    }

    /// The server's id that most samples of a statement have: a sample taken before the server computed it has the
    /// previous statement's id.
    fn servers_number(&self, statement: StatementId) -> Option<i64> {
        let numbers = self.servers_numbers.get(&statement)?;
        numbers.iter().max_by_key(|(number, count)| (**count, **number)).map(|(number, _)| *number)
    }

    /// The table of an event by `columns`; at most `limit` rows, in the order of `ranking`.
    pub fn table(
        &self,
        event: EventIndex,
        columns: &[QueryColumn],
        (limit, ranking): (Option<usize>, Ranking),
        index: &ObjectIndex,
        statements: &Statements,
    ) -> QueryTable {
        // Where no statement was recorded, it is not known which processes had none yet.
        let recorded = self.threads.values().any(|thread| thread.with_statement > 0);
        let with_statement = columns.contains(&QueryColumn::Statement) && recorded;
        let mut groups = KeyTable::new(1 + columns.len() + 1);
        let mut tallies: Vec<Tally> = Vec::new();
        let mut objects: Vec<FxHashMap<u64, u64>> = Vec::new();
        for row in (0..self.keys.len()).filter(|row| self.keys.key(*row)[EVENT] == event.0 as u64) {
            let key = self.keys.key(row);
            let mut group = vec![if with_statement { state_shown(key, index) } else { UNTOLD }];
            group.extend(columns.iter().map(|column| word(key, *column)));
            group.push(0);
            let number = groups.number(&group);
            if number == tallies.len() {
                tallies.push(Tally::default());
                objects.push(FxHashMap::default());
            }
            tallies[number].merge(&self.tallies[row]);
            if key[OBJECT] != ABSENT {
                *objects[number].entry(key[OBJECT]).or_default() += self.tallies[row].count;
            }
        }
        let total: u64 = tallies.iter().map(|tally| tally.count).sum();
        let id = |word: u64| (word != ABSENT).then(|| index.text(TextId(word as u32)).clone());
        let value = |column: QueryColumn, state: u64, word: u64| match column {
            QueryColumn::Statement => match state {
                EXECUTING => Some(statements.text(StatementId(word))),
                BEFORE_FIRST => Some("(before the first statement)".into()),
                BETWEEN => Some("(between statements)".into()),
                UNTOLD => None,
                role => Some(format!("({})", index.text(TextId((role - OF_ROLE) as u32))).into()),
            },
            QueryColumn::Operator | QueryColumn::Phase | QueryColumn::Role => id(word),
            QueryColumn::Object => (word != ABSENT).then(|| object_text(word, index)),
        };
        let row = |group: usize| {
            let (key, tally) = (groups.key(group), &tallies[group]);
            let words = columns.iter().zip(&key[1..]);
            let statement = words.clone().find(|(column, _)| **column == QueryColumn::Statement);
            let statement = statement.filter(|_| key[0] == EXECUTING).map(|(_, hash)| StatementId(*hash));
            let most =
                objects[group].iter().map(|(object, count)| (*count, object_text(*object, index))).max();
            QueryRow {
                values: words.map(|(column, word)| value(*column, key[0], *word)).collect(),
                statement,
                servers_number: statement.and_then(|statement| self.servers_number(statement)),
                share: tally.share(total),
                events: tally.events(),
                latency: tally.latency(None),
                object: most.map(|(count, object)| (object, Share { count, total: tally.count })),
            }
        };
        let mut rows: Vec<QueryRow> = (0..groups.len()).map(row).collect();
        // Ties by value, so that the order is the same in every run.
        let size = |row: &QueryRow| match ranking {
            Ranking::Count => (row.share.count, 0),
            Ranking::Stall => (row.latency.sum.0, row.share.count),
        };
        rows.sort_by(|a, b| size(b).cmp(&size(a)).then_with(|| a.values.cmp(&b.values)));
        let mut all = Tally::default();
        tallies.iter().for_each(|tally| all.merge(tally));
        let mut outside = Tally::default();
        let executing = |group: &usize| groups.key(*group)[0] == EXECUTING;
        (0..groups.len()).filter(|group| !executing(group)).for_each(|group| outside.merge(&tallies[group]));
        let more = rows.split_off(limit.unwrap_or(usize::MAX).min(rows.len()));
        QueryTable {
            event,
            columns: columns.to_vec(),
            total,
            latency: all.latency(None),
            ranking,
            outside: with_statement.then(|| (outside.share(total), outside.latency(None))),
            rows,
            more_rows: more.len() as u64,
            more_samples: more.iter().map(|row| row.share.count).sum(),
        }
    }
}

/// The server's own id of a sample's statement.
fn servers_number(sample: &Sample<'_>) -> Option<i64> {
    let states = &mut SimulatedDetail::states(sample.raw?);
    let (_, bytes) = states.find(|(id, _)| *id == StateId::SERVERS_STATEMENT)?;
    let number = i64::from_le_bytes(bytes.try_into().ok()?);
    (number != 0).then_some(number)
}

/// It is unknown whether the process executes statements.
const UNTOLD: u64 = 3;
/// From here on, the number of the text of the role of a process or thread that executes none.
const OF_ROLE: u64 = 4;

/// The text for a process without a statement. Only for backends is it known that they will execute one; others are named
/// by what they do.
fn state_shown(key: &[u64], index: &ObjectIndex) -> u64 {
    let role = (key[ROLE] != ABSENT).then(|| index.text(TextId(key[ROLE] as u32)));
    match (key[STATEMENT], role) {
        (BEFORE_FIRST, None) => UNTOLD,
        (BEFORE_FIRST, Some(role)) if !is_backend(role) => OF_ROLE + key[ROLE],
        (state, _) => state,
    }
}

/// Whether a process with this role executes statements for a client.
fn is_backend(role: &str) -> bool {
    role == "client connection" || role.split_whitespace().any(|word| word == "backend")
}

fn word(key: &[u64], column: QueryColumn) -> u64 {
    match column {
        QueryColumn::Statement => key[STATEMENT + 1],
        QueryColumn::Operator => key[OPERATOR],
        QueryColumn::Phase => key[PHASE],
        QueryColumn::Role => key[ROLE],
        QueryColumn::Object => key[OBJECT],
    }
}

fn object_text(packed: u64, index: &ObjectIndex) -> Arc<str> {
    let (class, name) = (TextId((packed >> 32) as u32), TextId(packed as u32));
    match name {
        TextId(0) => index.text(class).clone(),
        name => format!("{} {}", index.text(class), index.text(name)).into(),
    }
}

#[cfg(test)]
mod tests;

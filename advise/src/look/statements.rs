//! The statements of the load: from pg_stat_statements if it is installed, otherwise from samples of
//! sessions.

use super::activity::ActivitySample;
use super::ask::ask;
use super::plan::Plan;
use super::shares::ratio;
use super::views::quoted;
use crate::AdviseError;
use hardmeter_session::Session;
use hardmeter_statement::{normalise, Dialect, StatementId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A statement of the load.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Statement {
    /// Its text, as the server returned it.
    pub text: String,
    /// Its text as a session sent it, with literals; `None` if no sample saw it.
    #[serde(skip)]
    pub example: Option<String>,
    /// Its id.
    pub id: String,
    /// Its part of the execution time of all statements, 0 to 1 (from pg_stat_statements), otherwise of the
    /// active samples.
    pub share: f64,
    /// The samples of sessions that ran it.
    pub samples: u64,
    /// Those that waited for a heavyweight lock.
    pub lock_samples: u64,
    /// The counts of pg_stat_statements during the look; `None` if it is not installed.
    pub counts: Option<Counts>,
    /// Its plan, if it was explained.
    pub plan: Option<Plan>,
    /// Its plan with random_page_cost = 1.1.
    pub plan_with_cheap_random_pages: Option<Plan>,
}

impl Statement {
    /// Its text, cut to one line.
    pub fn short(&self) -> String {
        let text: Vec<&str> = self.text.split_whitespace().collect();
        let text = text.join(" ");
        match text.char_indices().nth(56) {
            Some((end, _)) => format!("{}...", &text[..end]),
            None => text,
        }
    }

    /// Milliseconds of execution per call, if known.
    pub fn ms_per_call(&self) -> Option<f64> {
        let counts = self.counts.as_ref().filter(|counts| counts.calls > 0.0)?;
        Some(counts.total_exec_time / counts.calls)
    }
}

/// The counts of pg_stat_statements for a statement; times in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[allow(missing_docs)] // the view's names
pub struct Counts {
    pub calls: f64,
    pub plans: f64,
    pub total_plan_time: f64,
    pub total_exec_time: f64,
    pub rows: f64,
    pub shared_blks_hit: f64,
    pub shared_blks_read: f64,
    pub temp_blks_read: f64,
    pub temp_blks_written: f64,
    pub wal_bytes: f64,
    pub jit_functions: f64,
    pub jit_generation_time: f64,
    pub jit_inlining_time: f64,
    pub jit_optimization_time: f64,
    pub jit_emission_time: f64,
}

impl Counts {
    /// Time spent on just-in-time compilation, in milliseconds.
    pub fn jit_ms(&self) -> f64 {
        self.jit_generation_time
            + self.jit_inlining_time
            + self.jit_optimization_time
            + self.jit_emission_time
    }

    fn fields(&mut self) -> [&mut f64; 15] {
        [
            &mut self.calls,
            &mut self.plans,
            &mut self.total_plan_time,
            &mut self.total_exec_time,
            &mut self.rows,
            &mut self.shared_blks_hit,
            &mut self.shared_blks_read,
            &mut self.temp_blks_read,
            &mut self.temp_blks_written,
            &mut self.wal_bytes,
            &mut self.jit_functions,
            &mut self.jit_generation_time,
            &mut self.jit_inlining_time,
            &mut self.jit_optimization_time,
            &mut self.jit_emission_time,
        ]
    }
}

/// One line of pg_stat_statements.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct Line {
    key: String,
    query: Option<String>,
    counts: Counts,
}

/// The schema of pg_stat_statements in this database; `None` if it is not installed or not loaded.
pub(super) fn extension(session: &mut Session) -> Result<Option<String>, AdviseError> {
    #[derive(Deserialize)]
    struct Row {
        schema: String,
    }
    const SQL: &str = "SELECT n.nspname AS schema FROM pg_catalog.pg_extension e \
        JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements' \
        AND current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'";
    let rows: Vec<Row> = ask(session, "looking for pg_stat_statements", SQL)?;
    Ok(rows.into_iter().next().map(|row| row.schema))
}

/// The present rows, with texts if wanted.
pub(super) fn read(session: &mut Session, schema: &str, texts: bool) -> Result<Vec<Line>, AdviseError> {
    // As JSON, so that a column that a version of the extension lacks is not an error.
    let sql = format!(
        "SELECT concat_ws('/', s.userid, s.toplevel, s.queryid) AS key, s.query, to_jsonb(s) - 'query' AS counts \
         FROM {}.pg_stat_statements({texts}) s WHERE s.dbid = \
         (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AND s.queryid IS NOT NULL",
        quoted(schema)
    );
    ask(session, "reading pg_stat_statements", &sql)
}

/// The cost of the statements between two readings: one for each text, the most expensive first.
pub(super) fn between(before: Vec<Line>, after: Vec<Line>, samples: &[ActivitySample]) -> Vec<Statement> {
    let before: BTreeMap<String, Counts> = before.into_iter().map(|line| (line.key, line.counts)).collect();
    let mut statements: BTreeMap<StatementId, Statement> = BTreeMap::new();
    for line in after {
        let (Some(text), mut counts) = (line.query, line.counts) else { continue };
        if let Some(earlier) = before.get(&line.key) {
            for (count, earlier) in counts.fields().into_iter().zip(earlier.clone().fields()) {
                // Evicted and counted again: the counts since then.
                *count -= if *count >= *earlier { *earlier } else { 0.0 };
            }
        }
        if counts.calls <= 0.0 || is_own(&text) {
            continue;
        }
        let statement = statements.entry(id_of(&text)).or_default();
        let sum = statement.counts.get_or_insert_default();
        for (sum, count) in sum.fields().into_iter().zip(counts.fields()) {
            *sum += *count;
        }
        statement.text = text;
    }
    for (id, found) in sampled(samples) {
        if let Some(statement) = statements.get_mut(&id) {
            (statement.samples, statement.lock_samples) = (found.n, found.locks);
            statement.example = Some(found.text);
        }
    }
    let time = |statement: &Statement| statement.counts.as_ref().map_or(0.0, |counts| counts.total_exec_time);
    let total: f64 = statements.values().map(time).sum();
    let share = |statement: &Statement| ratio(time(statement), total);
    ordered(statements.into_iter().map(|(id, one)| Statement {
        id: id.to_string(),
        share: share(&one),
        ..one
    }))
}

/// The statements in samples of sessions, the most frequent first.
pub(super) fn by_samples(samples: &[ActivitySample]) -> Vec<Statement> {
    of_samples(sampled(samples))
}

/// The same of another dialect, by the normalised texts.
pub(crate) fn by_samples_of(samples: &[ActivitySample], dialect: Dialect) -> Vec<Statement> {
    of_samples(sampled_by(samples, |text| StatementId::of_normalised(&normalise(dialect, text.as_bytes()))))
}

fn of_samples(found: BTreeMap<StatementId, Sampled>) -> Vec<Statement> {
    let total: u64 = found.values().map(|one| one.n).sum();
    ordered(found.into_iter().map(|(id, one)| Statement {
        id: id.to_string(),
        share: ratio(one.n as f64, total as f64),
        example: Some(one.text.clone()),
        text: one.text,
        samples: one.n,
        lock_samples: one.locks,
        ..Statement::default()
    }))
}

/// The samples of a statement.
struct Sampled {
    text: String,
    n: u64,
    locks: u64,
}

fn sampled(samples: &[ActivitySample]) -> BTreeMap<StatementId, Sampled> {
    sampled_by(samples, id_of)
}

fn sampled_by(
    samples: &[ActivitySample],
    id_of: impl Fn(&str) -> StatementId,
) -> BTreeMap<StatementId, Sampled> {
    let mut found: BTreeMap<StatementId, Sampled> = BTreeMap::new();
    let backends = samples.iter().flat_map(|sample| &sample.backends);
    for backend in backends.filter(|backend| backend.here && backend.state == "active") {
        if !is_own(&backend.query) && !backend.query.is_empty() {
            let new = || Sampled { text: backend.query.clone(), n: 0, locks: 0 };
            let one = found.entry(id_of(&backend.query)).or_insert_with(new);
            one.n += 1;
            one.locks += u64::from(backend.waits_for_lock());
        }
    }
    found
}

fn ordered(statements: impl Iterator<Item = Statement>) -> Vec<Statement> {
    let mut statements: Vec<Statement> = statements.collect();
    statements.sort_by(|a, b| b.share.total_cmp(&a.share));
    statements
}

/// The id of a text. pg_stat_statements writes `$1` where the text of a session has a literal.
fn id_of(text: &str) -> StatementId {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(character) = rest.next() {
        if character == '$' && rest.peek().is_some_and(char::is_ascii_digit) {
            while rest.next_if(char::is_ascii_digit).is_some() {}
            plain.push('0');
        } else {
            plain.push(character);
        }
    }
    StatementId::of_normalised(&normalise(Dialect::Postgres, plain.as_bytes()))
}

/// A statement of this program's own sessions.
fn is_own(text: &str) -> bool {
    text.contains("hardmeter_look") || text.starts_with("SET client_encoding")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::look::activity::BackendSample;

    fn line(key: &str, query: Option<&str>, calls: f64, total_exec_time: f64) -> Line {
        let counts = Counts { calls, total_exec_time, ..Counts::default() };
        Line { key: key.into(), query: query.map(String::from), counts }
    }

    #[test]
    fn statements_are_subtracted_added_by_text_and_ordered() {
        let before = vec![line("1/t/5", None, 10.0, 100.0), line("1/t/9", None, 4.0, 4.0)];
        let after = vec![
            line("1/t/5", Some("SELECT a FROM t WHERE b = $1"), 30.0, 130.0),
            line("2/t/5", Some("select a from t where b = $1"), 1.0, 10.0),
            line("1/t/7", Some("UPDATE t SET a = $1"), 2.0, 60.0),
            line("1/t/9", Some("SELECT 1"), 4.0, 4.0),
        ];
        let backend = BackendSample {
            here: true,
            state: "active".into(),
            query: "SELECT a FROM t WHERE b = 77".into(),
            wait_type: Some("Lock".into()),
            ..BackendSample::default()
        };
        let samples = [ActivitySample { backends: vec![backend], ..ActivitySample::default() }];
        let found = between(before, after, &samples);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!((found[0].text.as_str(), found[0].share), ("UPDATE t SET a = $1", 0.6));
        let second = found[1].counts.as_ref().unwrap();
        assert_eq!(
            (second.calls, second.total_exec_time, found[1].samples, found[1].lock_samples),
            (21.0, 40.0, 1, 1)
        );
        let alone = by_samples(&samples);
        assert_eq!((alone[0].share, &alone[0].id), (1.0, &found[1].id));
    }

    #[test]
    fn jit_is_the_sum_of_its_phases() {
        let counts: Counts =
            serde_json::from_str(r#"{"calls": 3, "jit_generation_time": 1, "jit_emission_time": 2.5}"#)
                .unwrap();
        assert_eq!((counts.calls, counts.jit_ms()), (3.0, 3.5));
    }
}

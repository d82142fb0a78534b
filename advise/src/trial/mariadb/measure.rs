//! Measures a block by a MariaDB server's counters, read at its beginning and its end. A client's statement
//! counts as one transaction: the server does not count autocommitted ones.

use super::super::measure::{Block, Measure};
use super::super::TryError;
use super::control::MariaControl;
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// How the server is measured.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The performance schema counts statements.
    digests: bool,
    /// The server's process, where it can be seen.
    process: Option<i32>,
}

/// Counters at one moment.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    at: Instant,
    questions: f64,
    rollbacks: f64,
    own: f64,
    active: f64,
    cpu: Option<f64>,
    statements: BTreeMap<String, (f64, f64)>,
}

impl Source {
    pub(super) fn find(control: &mut MariaControl) -> Result<Source, TryError> {
        let digests =
            control.value("looking for the performance schema", "SELECT @@GLOBAL.performance_schema")?;
        let thread = "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()";
        let thread = control.value("reading the thread", thread)?;
        let process = thread.and_then(|thread| {
            let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
            let name = status.lines().next()?;
            let known = ["mariadbd", "mysqld", "connection"].iter().any(|one| name.contains(one));
            status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok().filter(|_| known)
        });
        Ok(Source { digests: digests.as_deref() == Some("1"), process })
    }

    /// The server's process, where it can be seen.
    pub(super) fn process(&self) -> Option<i32> {
        self.process
    }

    /// The measures that are available here.
    pub(super) fn measures(&self) -> Vec<Measure> {
        Measure::known(self.digests, self.process.is_some())
    }

    pub(super) fn read(&self, control: &mut MariaControl) -> Result<Counters, TryError> {
        let mut statements = BTreeMap::new();
        if self.digests {
            const DIGESTS: &str = "SELECT DIGEST, SUM(COUNT_STAR), SUM(SUM_TIMER_WAIT) / 1e9 \
                FROM performance_schema.events_statements_summary_by_digest \
                WHERE DIGEST IS NOT NULL AND SCHEMA_NAME = DATABASE() GROUP BY DIGEST";
            for row in control.rows("reading digests", DIGESTS)? {
                if let [Some(id), Some(calls), Some(ms)] = &row[..] {
                    let number = |text: &str| text.parse().unwrap_or(0.0);
                    statements.insert(id.clone(), (number(calls), number(ms)));
                }
            }
        }
        const STATUS: &str =
            "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Com_rollback', 'Threads_running')";
        let mut counts: BTreeMap<String, f64> = BTreeMap::new();
        for row in control.rows("reading the status", STATUS)? {
            if let [Some(name), Some(value)] = &row[..] {
                counts.insert(name.clone(), value.parse().unwrap_or(0.0));
            }
        }
        let count = |name: &str| counts.get(name).copied().unwrap_or(0.0);
        Ok(Counters {
            at: Instant::now(),
            questions: count("Questions"),
            rollbacks: count("Com_rollback"),
            own: control.statements as f64,
            // This session runs, too.
            active: (count("Threads_running") - 1.0).max(0.0),
            cpu: self.process.and_then(cpu_ms),
            statements,
        })
    }

    /// The texts of statements.
    pub(super) fn texts(
        &self,
        control: &mut MariaControl,
        ids: &[String],
    ) -> Result<BTreeMap<String, String>, TryError> {
        if !self.digests || ids.is_empty() {
            return Ok(BTreeMap::new());
        }
        let ids: Vec<String> = ids.iter().map(|id| crate::mariadb::literal(id)).collect();
        let sql = format!(
            "SELECT DIGEST, MIN(LEFT(DIGEST_TEXT, 2000)) FROM performance_schema.events_statements_summary_by_digest \
             WHERE DIGEST IN ({}) GROUP BY DIGEST",
            ids.join(", ")
        );
        let rows = control.rows("reading texts of statements", &sql)?;
        let pair = |row: Vec<Option<String>>| {
            let mut row = row.into_iter();
            Some((row.next()??, row.next()??))
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }
}

/// Whether a statement is one of the trial's own.
pub(super) fn is_own(text: &str) -> bool {
    let text = text.to_lowercase();
    let parts = ["performance_schema", "information_schema", "@@global", "set global", "show global"];
    parts.iter().any(|part| text.contains(part))
}

impl Counters {
    /// The differences to an earlier reading.
    pub(super) fn since(&self, before: &Counters) -> Block {
        let statements = self.statements.iter().filter_map(|(id, (calls, ms))| {
            let (calls_before, ms_before) = before.statements.get(id).copied().unwrap_or_default();
            let (calls, ms) = (calls - calls_before, ms - ms_before);
            (calls > 0.0 && ms >= 0.0).then(|| (id.clone(), (calls, ms)))
        });
        let own = self.own - before.own;
        Block {
            seconds: self.at.duration_since(before.at).as_secs_f64(),
            active: self.active,
            total: self.questions - self.own,
            transactions: (self.questions - before.questions - own).max(0.0),
            rollbacks: (self.rollbacks - before.rollbacks).max(0.0),
            log_bytes: None,
            cpu_ms: self.cpu.zip(before.cpu).map(|(now, then)| now - then).filter(|ms| *ms >= 0.0),
            statements: statements.collect(),
        }
    }
}

/// CPU time of a process and all of its threads so far, in milliseconds.
fn cpu_ms(process: i32) -> Option<f64> {
    // SAFETY: sysconf has no preconditions.
    let tick_ms = 1e3 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) * tick_ms)
}

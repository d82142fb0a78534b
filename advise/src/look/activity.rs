//! Samples of each backend's activity: pg_stat_activity, joined with the kernel's counts for its process.
//!
//! A look must cost little, so
//! 1. the query is prepared once, and reads the function below the view, which saves two joins;
//! 2. texts of idle sessions are not read;
//! 3. `/proc` is read when a backend is seen first, while it is young, and then at each tenth sample: only
//!    the first and the last of its counts are used.

use super::ask::{ask, rows};
use super::shares::Kind;
use crate::AdviseError;
use hardmeter_session::Session;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;

/// The kernel's counts for a task so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// On a CPU, in nanoseconds.
    pub run_ns: u64,
    /// Runnable and waiting for a CPU, in nanoseconds.
    pub queue_ns: u64,
    /// The turns that it had on a CPU: it waited for each of them.
    pub turns: u64,
    /// In user mode, in clock ticks: only the ratio to `kernel_ticks` is used.
    pub user_ticks: u64,
    /// In the kernel, in clock ticks.
    pub kernel_ticks: u64,
}

impl Task {
    /// The task of a server's process; `None` if it is not visible. The number may belong to another process
    /// here if the server runs in another name space, so the process must have PostgreSQL's name.
    pub fn read(pid: i32) -> Option<Task> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        Task::parse(&stat, &schedstat, &["(postgres", "(postmaster"])
    }

    /// The task of a thread, by the prefix of its name.
    pub(crate) fn read_of(pid: i32, names: &[&str]) -> Option<Task> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        Task::parse(&stat, &schedstat, names)
    }

    fn parse(stat: &str, schedstat: &str, names: &[&str]) -> Option<Task> {
        let (name, fields) = stat.rsplit_once(") ")?;
        if !names.iter().any(|one| name.contains(one)) {
            return None;
        }
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let tick = |at: usize| fields.get(at)?.parse().ok();
        let mut times = schedstat.split_whitespace().map(str::parse);
        Some(Task {
            run_ns: times.next()?.ok()?,
            queue_ns: times.next()?.ok()?,
            turns: times.next()?.ok()?,
            user_ticks: tick(11)?,
            kernel_ticks: tick(12)?,
        })
    }

    /// The difference from an earlier moment.
    pub fn since(self, earlier: Task) -> Task {
        Task {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            queue_ns: self.queue_ns.saturating_sub(earlier.queue_ns),
            turns: self.turns.saturating_sub(earlier.turns),
            user_ticks: self.user_ticks.saturating_sub(earlier.user_ticks),
            kernel_ticks: self.kernel_ticks.saturating_sub(earlier.kernel_ticks),
        }
    }
}

/// A backend at one moment.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct BackendSample {
    /// Its process.
    pub pid: i32,
    /// "active", "idle", "idle in transaction".
    pub state: String,
    /// The class of its wait event.
    pub wait_type: Option<String>,
    /// Its wait event.
    pub wait: Option<String>,
    /// The statement that it runs, or ran last.
    pub query: String,
    /// The session's database is the examined one.
    pub here: bool,
    /// The age of its transaction, in seconds.
    pub xact_seconds: Option<f64>,
    /// Transactions that began since its snapshot, or since its own first change: vacuum cannot remove rows
    /// that they delete.
    pub xmin_age: Option<i64>,
    /// The program that connected.
    pub application: String,
    /// The kernel's counts, if its process is visible.
    #[serde(skip)]
    pub task: Option<Task>,
}

impl BackendSample {
    /// Its wait event; `None` while it works.
    pub fn waiting(&self) -> Option<(Kind, &str)> {
        let event = self.wait.as_deref().unwrap_or_default();
        if self.waits_for_client() {
            return Some((
                Kind::Client,
                if self.state.starts_with("idle in") { "idle in transaction" } else { "" },
            ));
        }
        let kind = match self.wait_type.as_deref()? {
            "IO" => Kind::Io,
            "Lock" | "BufferPin" => Kind::Lock,
            "LWLock" => Kind::LwLock,
            "Timeout" if event == "SpinDelay" => Kind::Lock,
            _ => Kind::Other,
        };
        Some((kind, event))
    }

    /// It waits for a heavyweight lock.
    pub fn waits_for_lock(&self) -> bool {
        self.wait_type.as_deref() == Some("Lock")
    }

    /// It commits: by its statement, or because it waits for the log or for standbys.
    pub fn commits(&self) -> bool {
        let word = self.query.trim_start().get(..3).unwrap_or_default();
        let waits = self.wait.as_deref().is_some_and(|event| {
            ["WAL", "Wal"].iter().any(|log| event.starts_with(log)) || event == "SyncRep"
        });
        self.state == "active" && (waits || ["com", "end"].contains(&word.to_ascii_lowercase().as_str()))
    }

    /// It waits for its client.
    pub fn waits_for_client(&self) -> bool {
        self.state.starts_with("idle") || self.wait_type.as_deref() == Some("Client")
    }
}

/// All backends at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActivitySample {
    /// Seconds since the look began.
    pub at: f64,
    /// The backends that serve clients.
    pub backends: Vec<BackendSample>,
    /// Of the sessions that hold locks which others wait for, those that do not wait for a lock themselves,
    /// with their state at that query.
    pub holders: Vec<BackendSample>,
    /// The number of sessions whose lock holders were queried; 0: no query was made.
    pub waiters: u64,
}

/// Backends younger than this, in seconds, are read from `/proc` at each sample: they may end before the next second.
const YOUNG: f64 = 1.0;
/// Of older backends one sample in this many is read from `/proc`.
const STRIDE: usize = 10;

/// One sample in this many queries the holders of locks, if some session waits for one.
const HOLDERS_STRIDE: usize = 2;
/// Limit of waiting sessions per query, because each reads all locks.
const MOST_ASKED: usize = 5;

/// Takes samples of the backends through a prepared statement.
pub(super) struct Sampler {
    /// When each backend was seen first.
    first_seen: BTreeMap<i32, f64>,
    samples: usize,
}

impl Sampler {
    /// Prepares the query.
    pub(super) fn prepare(session: &mut Session) -> Result<Sampler, AdviseError> {
        const SQL: &str = "PREPARE hardmeter_look_sample AS SELECT coalesce(json_agg(one), '[]') FROM ( \
            SELECT pid, coalesce(state, '') AS state, wait_event_type AS wait_type, wait_event AS wait, \
            CASE WHEN state = 'idle' THEN '' ELSE coalesce(query, '') END AS query, \
            datid = (SELECT oid FROM pg_catalog.pg_database WHERE datname = current_database()) AS here, \
            extract(epoch FROM clock_timestamp() - xact_start)::float8 AS xact_seconds, \
            greatest(age(backend_xmin), age(backend_xid))::bigint AS xmin_age, \
            coalesce(application_name, '') AS application FROM pg_catalog.pg_stat_get_activity(NULL) \
            WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid() AND datid > 0) one";
        session.execute("preparing to sample the sessions", SQL)?;
        Ok(Sampler { first_seen: BTreeMap::new(), samples: 0 })
    }

    /// Reads the present backends, except this session's. `last`: no sample follows.
    pub(super) fn sample(
        &mut self,
        session: &mut Session,
        at: f64,
        last: bool,
    ) -> Result<ActivitySample, AdviseError> {
        let what = "sampling the sessions";
        let mut backends: Vec<BackendSample> =
            rows(what, &session.query(what, "EXECUTE hardmeter_look_sample")?)?;
        for backend in &mut backends {
            if self.is_due(backend.pid, at, last) {
                backend.task = Task::read(backend.pid);
            }
        }
        let (holders, waiters) = match self.samples.is_multiple_of(HOLDERS_STRIDE) {
            true => holders(session, &backends)?,
            false => (Vec::new(), 0),
        };
        self.samples += 1;
        Ok(ActivitySample { at, backends, holders, waiters })
    }

    /// True if a backend's counts are read now.
    fn is_due(&mut self, pid: i32, at: f64, last: bool) -> bool {
        // Backends of the first sample began before it: they are not young.
        let first = if self.samples == 0 { f64::NEG_INFINITY } else { at };
        let young = at - *self.first_seen.entry(pid).or_insert(first) < YOUNG;
        last || young || self.samples.is_multiple_of(STRIDE)
    }
}

/// The sessions that hold the locks which some of these wait for, without waiting for one themselves; and the
/// number that wait. The holders' activity is read by the same query, since most change their state between
/// two.
fn holders(
    session: &mut Session,
    backends: &[BackendSample],
) -> Result<(Vec<BackendSample>, u64), AdviseError> {
    let mut waiting: Vec<&BackendSample> =
        backends.iter().filter(|backend| backend.here && backend.waits_for_lock()).collect();
    // In a queue for one row, all but the first wait for the first, which waits for the transaction that
    // holds the row.
    waiting.sort_by_key(|backend| backend.wait.as_deref() != Some("transactionid"));
    let pids: Vec<String> = waiting.iter().take(MOST_ASKED).map(|backend| backend.pid.to_string()).collect();
    if pids.is_empty() {
        return Ok((Vec::new(), 0));
    }
    let sql = format!(
        "SELECT holder AS pid, coalesce(a.state, '') AS state, a.wait_event_type AS wait_type, a.wait_event AS wait, \
         coalesce(a.query, '') AS query, true AS here, NULL::float8 AS xact_seconds, NULL::bigint AS xmin_age, \
         coalesce(a.application_name, '') AS application \
         FROM (SELECT DISTINCT holder FROM unnest(ARRAY[{}]) AS waiting, \
               unnest(pg_catalog.pg_blocking_pids(waiting)) AS holder) hardmeter_look_holders, \
         pg_catalog.pg_stat_get_activity(holder) a",
        pids.join(", ")
    );
    let found: Vec<BackendSample> = ask(session, "asking who holds locks", &sql)?;
    let holders = found.into_iter().filter(|backend| !backend.waits_for_lock()).collect();
    Ok((holders, pids.len() as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        // A title may hold brackets and blanks; utime and stime are fields 14 and 15 of the line.
        let stat = "81 (postgres: a) b) S 1 81 81 0 -1 4194304 9 0 0 0 123 45 0 0 20 0 1 0 777";
        let task = Task::parse(stat, "5000 600 70\n", &["(postgres"]).unwrap();
        assert_eq!(task, Task { run_ns: 5000, queue_ns: 600, turns: 70, user_ticks: 123, kernel_ticks: 45 });
        assert_eq!(Task::parse(&stat.replace("postgres", "bash"), "5000 600 70\n", &["(postgres"]), None);
        let own = Task::read(std::process::id() as i32);
        assert_eq!(own, None, "this test is no process of PostgreSQL");
    }

    #[test]
    fn counts_are_read_when_they_are_needed() {
        let mut sampler = Sampler { first_seen: BTreeMap::new(), samples: 0 };
        let mut due = Vec::new();
        for number in 0..20_u32 {
            let at = f64::from(number) / 10.0;
            if sampler.is_due(7, at, number == 19) {
                due.push(number);
            }
            sampler.samples += 1;
        }
        assert_eq!(due, [0, 10, 19]);
        // A backend that begins during the look is read at each sample for a second.
        assert!(sampler.is_due(8, 2.1, false) && sampler.is_due(8, 2.4, false));
        sampler.samples = 31;
        assert!(!sampler.is_due(8, 3.1, false));
    }

    #[test]
    fn waits_have_kinds() {
        let sample = |state: &str, kind: &str, event: &str| BackendSample {
            state: state.into(),
            wait_type: Some(kind.into()),
            wait: Some(event.into()),
            ..BackendSample::default()
        };
        assert_eq!(sample("active", "LWLock", "WALWrite").waiting(), Some((Kind::LwLock, "WALWrite")));
        assert_eq!(sample("active", "Timeout", "SpinDelay").waiting(), Some((Kind::Lock, "SpinDelay")));
        assert_eq!(sample("active", "Timeout", "PgSleep").waiting(), Some((Kind::Other, "PgSleep")));
        assert_eq!(sample("idle", "Client", "ClientRead").waiting(), Some((Kind::Client, "")));
        let idle = sample("idle in transaction", "Client", "ClientRead");
        assert_eq!(idle.waiting(), Some((Kind::Client, "idle in transaction")));
        let working = BackendSample { state: "active".into(), ..BackendSample::default() };
        assert_eq!(working.waiting(), None);
        let text = |query: &str| BackendSample { query: query.into(), ..working.clone() };
        assert!(
            text("COMMIT;").commits() && text("end").commits() && sample("active", "IO", "WALSync").commits()
        );
        assert!(!text("SELECT 1").commits() && !text("").commits() && !idle.commits());
    }
}

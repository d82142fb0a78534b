//! Samples of what each backend does: pg_stat_activity, joined with what the kernel counts for its process.

use super::ask::ask;
use super::shares::Kind;
use crate::AdviseError;
use hardmeter_session::Session;
use serde::Deserialize;
use std::fs;

/// What the kernel counted for a task so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Task {
    /// On a CPU, in nanoseconds.
    pub run_ns: u64,
    /// Runnable and waiting for a CPU, in nanoseconds.
    pub queue_ns: u64,
    /// In user mode, in clock ticks: only the ratio to `kernel_ticks` is used.
    pub user_ticks: u64,
    /// In the kernel, in clock ticks.
    pub kernel_ticks: u64,
}

impl Task {
    /// The task of a server's process; `None` where it cannot be seen. The number may be another process here if the
    /// server lives in another name space, so its name must be that of PostgreSQL.
    pub fn read(pid: i32) -> Option<Task> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let schedstat = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        Task::parse(&stat, &schedstat)
    }

    fn parse(stat: &str, schedstat: &str) -> Option<Task> {
        let (name, fields) = stat.rsplit_once(") ")?;
        if !name.contains("(postgres") && !name.contains("(postmaster") {
            return None;
        }
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let tick = |at: usize| fields.get(at)?.parse().ok();
        let mut times = schedstat.split_whitespace().map(str::parse);
        Some(Task {
            run_ns: times.next()?.ok()?,
            queue_ns: times.next()?.ok()?,
            user_ticks: tick(11)?,
            kernel_ticks: tick(12)?,
        })
    }

    /// What was used since an earlier moment.
    pub fn since(self, earlier: Task) -> Task {
        Task {
            run_ns: self.run_ns.saturating_sub(earlier.run_ns),
            queue_ns: self.queue_ns.saturating_sub(earlier.queue_ns),
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
    /// The database of the session is the one that is looked at.
    pub here: bool,
    /// The age of its transaction, in seconds.
    pub xact_seconds: Option<f64>,
    /// Transactions that began since its snapshot, or since its own first change: vacuum removes nothing of them.
    pub xmin_age: Option<i64>,
    /// The program that connected.
    pub application: String,
    /// What the kernel counted, where its process can be seen.
    #[serde(skip)]
    pub task: Option<Task>,
}

impl BackendSample {
    /// What it waits for; `None` while it works.
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

    /// The client has the word.
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
}

/// Reads the backends of now, but for the one that answers.
pub(super) fn sample(session: &mut Session, at: f64) -> Result<ActivitySample, AdviseError> {
    const SQL: &str = "SELECT pid, coalesce(state, '') AS state, wait_event_type AS wait_type, wait_event AS wait, \
        coalesce(query, '') AS query, datname = current_database() AS here, \
        extract(epoch FROM clock_timestamp() - xact_start)::float8 AS xact_seconds, \
        greatest(age(backend_xmin), age(backend_xid))::bigint AS xmin_age, coalesce(application_name, '') AS application \
        FROM pg_catalog.pg_stat_activity \
        WHERE backend_type IN ('client backend', 'parallel worker') AND pid <> pg_backend_pid() AND datname IS NOT NULL";
    let mut backends: Vec<BackendSample> = ask(session, "sampling the sessions", SQL)?;
    for backend in &mut backends {
        backend.task = Task::read(backend.pid);
    }
    Ok(ActivitySample { at, backends })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_lines_are_read() {
        // A title may hold brackets and blanks; utime and stime are fields 14 and 15 of the line.
        let stat = "81 (postgres: a) b) S 1 81 81 0 -1 4194304 9 0 0 0 123 45 0 0 20 0 1 0 777";
        let task = Task::parse(stat, "5000 600 70\n").unwrap();
        assert_eq!(task, Task { run_ns: 5000, queue_ns: 600, user_ticks: 123, kernel_ticks: 45 });
        assert_eq!(Task::parse(&stat.replace("postgres", "bash"), "5000 600 70\n"), None);
        let own = Task::read(std::process::id() as i32);
        assert_eq!(own, None, "this test is no process of PostgreSQL");
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
    }
}

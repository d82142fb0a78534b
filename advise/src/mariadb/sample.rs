//! What each connection of a MariaDB server does: the process list, joined with what the kernel counts for its thread.
//!
//! A connection works in a thread of its own, whose number the process list has (`TID`), so that time on a CPU and in the
//! run queue is exact. What it waits for while it sleeps is read from three places:
//! 1. InnoDB's list of transactions, for row locks; 2. the state in the process list, for locks of tables and commits;
//! 3. the kernel's state of the thread: `D` is a device, a futex is a mutex or a condition.

use super::target::MariaSession;
use crate::look::activity::{ActivitySample, BackendSample, Task};
use crate::AdviseError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;

const SAMPLE: &str = "SELECT /* hardmeter_look */ ID, TID, COMMAND, IFNULL(STATE, ''), IFNULL(INFO, ''), \
    IFNULL(DB, '') = IFNULL(DATABASE(), '') FROM information_schema.PROCESSLIST WHERE ID <> CONNECTION_ID() \
    AND COMMAND NOT IN ('Daemon', 'Binlog Dump', 'Slave_IO', 'Slave_SQL', 'Slave_worker', 'Connect')";
const ROW_LOCKS: &str = "SELECT /* hardmeter_look */ trx_mysql_thread_id FROM information_schema.INNODB_TRX \
    WHERE trx_state = 'LOCK WAIT'";

/// Threads younger than this, in seconds, are read from `/proc` at each sample.
const YOUNG: f64 = 1.0;
/// Older threads are read at one sample in this many.
const STRIDE: usize = 10;

/// Takes samples.
#[derive(Default)]
pub(super) struct Sampler {
    first_seen: BTreeMap<i32, f64>,
    samples: usize,
    /// The server's threads can be seen from here.
    local: bool,
}

impl Sampler {
    /// `local`: the server's threads can be seen from here.
    pub(super) fn new(local: bool) -> Sampler {
        Sampler { local, ..Sampler::default() }
    }

    pub(super) fn sample(
        &mut self,
        session: &mut MariaSession,
        at: f64,
        last: bool,
    ) -> Result<ActivitySample, AdviseError> {
        let rows = session.rows("sampling the connections", SAMPLE)?;
        let working = rows.iter().any(|row| row.get(2).cloned().flatten().as_deref() != Some("Sleep"));
        let locked: BTreeSet<String> = match working {
            true => session.rows("sampling row locks", ROW_LOCKS)?.into_iter().flatten().flatten().collect(),
            false => BTreeSet::new(),
        };
        let mut backends = Vec::new();
        for row in rows {
            let mut row = row.into_iter().map(Option::unwrap_or_default);
            let mut next = || row.next().unwrap_or_default();
            let (id, thread, command, state, query, here) = (next(), next(), next(), next(), next(), next());
            let number = if self.local { &thread } else { &id };
            let pid = number.parse().unwrap_or(0);
            let asleep = command == "Sleep";
            let waits =
                if asleep { None } else { waiting(&state, locked.contains(&id), kernel(pid, self.local)) };
            backends.push(BackendSample {
                pid,
                state: if asleep { "idle" } else { "active" }.into(),
                wait_type: waits.as_ref().map(|(kind, _)| (*kind).to_owned()),
                wait: waits.map(|(_, event)| event),
                query,
                here: here == "1",
                task: (self.local && self.is_due(pid, at, last)).then(|| thread_task(pid)).flatten(),
                ..BackendSample::default()
            });
        }
        self.samples += 1;
        Ok(ActivitySample { at, backends, ..ActivitySample::default() })
    }

    fn is_due(&mut self, pid: i32, at: f64, last: bool) -> bool {
        let first = if self.samples == 0 { f64::NEG_INFINITY } else { at };
        let young = at - *self.first_seen.entry(pid).or_insert(first) < YOUNG;
        last || young || self.samples.is_multiple_of(STRIDE)
    }
}

/// What the kernel counts for a thread of a MariaDB server.
pub(super) fn thread_task(thread: i32) -> Option<Task> {
    Task::read_of(thread, &["(mariadbd", "(mysqld", "(one_connection", "(connection"])
}

/// The state of a thread, and where in the kernel it sleeps.
fn kernel(thread: i32, local: bool) -> Option<(char, String)> {
    if !local {
        return None;
    }
    let stat = fs::read_to_string(format!("/proc/{thread}/stat")).ok()?;
    let state = stat.rsplit_once(") ")?.1.chars().next()?;
    Some((state, fs::read_to_string(format!("/proc/{thread}/wchan")).unwrap_or_default()))
}

/// What a working connection waits for, as class and event; `None`: it runs.
fn waiting(state: &str, row_lock: bool, kernel: Option<(char, String)>) -> Option<(&'static str, String)> {
    if row_lock {
        return Some(("Lock", "row lock".into()));
    }
    if let Some(lock) = state.strip_prefix("Waiting for ") {
        return Some(("Lock", lock.to_owned()));
    }
    let commits = state.to_ascii_lowercase().contains("commit");
    match kernel {
        Some(('R', _)) => None,
        Some(('D', _)) if commits => Some(("IO", "log sync".into())),
        Some(('D', _)) => Some(("IO", "device".into())),
        Some((_, place)) if commits && place != "0" => Some(("IO", "log sync".into())),
        Some((_, place)) if place.contains("futex") => Some(("LWLock", "mutex or condition".into())),
        Some((_, place)) if ["poll", "sk_wait", "stream"].iter().any(|word| place.contains(word)) => {
            Some(("Client", "network".into()))
        }
        Some((_, place)) if place.is_empty() || place == "0" => None,
        Some((_, place)) => Some(("IO", place)),
        None if commits => Some(("IO", "log sync".into())),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_are_told_apart() {
        let of = |state: &str, lock, kernel: Option<(char, &str)>| {
            waiting(state, lock, kernel.map(|(state, place)| (state, place.to_owned())))
                .map(|(kind, event)| format!("{kind}: {event}"))
        };
        assert_eq!(of("Updating", true, Some(('S', "futex_wait_queue"))).unwrap(), "Lock: row lock");
        let metadata = of("Waiting for table metadata lock", false, None);
        assert_eq!(metadata.unwrap(), "Lock: table metadata lock");
        assert_eq!(of("Sending data", false, Some(('R', "0"))), None);
        assert_eq!(of("Sending data", false, Some(('D', "io_schedule"))).unwrap(), "IO: device");
        assert_eq!(of("Commit", false, Some(('S', "futex_wait_queue"))).unwrap(), "IO: log sync");
        assert_eq!(
            of("Sending data", false, Some(('S', "futex_wait"))).unwrap(),
            "LWLock: mutex or condition"
        );
    }
}

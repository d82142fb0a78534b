//! A look: observes a live server for some seconds.

pub mod activity;
mod ask;
mod blind_spots;
pub mod disk;
pub mod machine;
pub mod plan;
pub mod server;
pub mod shares;
pub mod statements;
pub mod views;

use crate::AdviseError;
use activity::{ActivitySample, BackendSample, Sampler, Task};
use disk::{Disk, DiskCounts, Others};
use hardmeter_session::{Session, SessionError, Stop, Target};
use machine::{Machine, MachineCounts};
use serde::Serialize;
use server::{own_cpu, Cost, Server};
use shares::TimeShares;
use statements::Statement;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use views::{Database, Index, Snapshot, Table, Wal};

/// Called at each sample, five to ten times a second, with the completed share of the look, 0 to 1.
pub type Progress<'a> = &'a dyn Fn(f64);

/// A session in a transaction whose client is idle.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct IdleTransaction {
    /// Its backend.
    pub pid: i32,
    /// The program that connected.
    pub application: String,
    /// Its age at the end of the look.
    pub seconds: f64,
    /// Transactions that began since its snapshot; 0: it holds none.
    pub xmin_age: i64,
    /// The statement that it ran last.
    pub query: String,
    /// The number of samples in which it was idle.
    pub samples: u64,
}

/// Sessions that held locks which others waited for, without waiting for a lock themselves.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Blockers {
    /// The number of times that such a session was seen.
    pub seen: u64,
    /// The sessions that waited for them, at most five a sample.
    pub waiters: u64,
    /// The number of times that it was idle in its transaction.
    pub idle: u64,
    /// The number of times that it was committing: the lock is not held longer than necessary.
    pub committing: u64,
    /// The program of the one that was idle most often.
    pub application: String,
    /// The last statement of that session.
    pub query: String,
}

/// The result of a look: plain data, on which the remedies' rules work.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Look {
    /// The server.
    pub server: Server,
    /// The duration of the look.
    pub seconds: f64,
    /// The moments at which sessions were sampled.
    pub samples: u64,
    /// How the backends spent their time.
    pub time: TimeShares,
    /// Backends that worked or waited for the server, on average.
    pub active_backends: f64,
    /// Who used the machine's CPUs; `None` if the server runs elsewhere.
    pub machine: Option<Machine>,
    /// The database's counts.
    pub database: Database,
    /// Its tables.
    pub tables: Vec<Table>,
    /// Its indexes.
    #[serde(skip)]
    pub indexes: Vec<Index>,
    /// The log.
    pub wal: Wal,
    /// The device of the log; `None` if the server runs elsewhere, or the kernel counts no such device.
    pub disk: Option<Disk>,
    /// The statements of the load, the most expensive first.
    pub statements: Vec<Statement>,
    /// True if pg_stat_statements counted them.
    pub counted: bool,
    /// Sessions that were idle in one transaction throughout the last ten samples of the look, the oldest first.
    pub idle_transactions: Vec<IdleTransaction>,
    /// The age of the oldest snapshot of a transaction of 5 s or more, idle or working, in transactions that
    /// began since: vacuum cannot remove rows that these delete. 0: there is none.
    pub oldest_snapshot: i64,
    /// The sessions that held locks which others waited for.
    pub blockers: Blockers,
    /// Further counters and settings of a MariaDB server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mariadb: Option<crate::mariadb::Maria>,
    /// The cost of the look itself.
    pub cost: Cost,
    /// What could not be observed, and what would make it visible.
    pub unknown: Vec<String>,
}

impl Look {
    /// Milliseconds of a sync of the log that a session slept; `None` if syncs are not timed, or are few. The run
    /// queue is not a part of it: on a machine without a free CPU a session that wakes up waits there, too.
    pub fn sync_ms(&self) -> Option<f64> {
        let timed = self.wal.wal_sync >= LEAST_SYNCS && self.wal.wal_sync_time > 0.0;
        let slept = self.time.waits(&["WALSync", "WalSync"]).0 * self.time.active();
        timed.then(|| (self.wal.wal_sync_time / self.wal.wal_sync).min(slept * 1e3 / self.wal.wal_sync))
    }

    /// The work of other programs that explains syncs of this time.
    pub(crate) fn others_delay(&self, sync_ms: f64) -> Option<Others<'_>> {
        // Backends also wait for each other's CPU: that is not the work of others.
        let of_others = self.machine.as_ref().map_or(1.0, Machine::of_others);
        Others::of(sync_ms, self.disk.as_ref(), self.time.turn_wait_ms() * of_others)
    }

    /// Seconds for which sessions waited for locks in a statement, by its samples: each stands for the same time.
    pub(crate) fn lock_seconds(&self, statement: &Statement) -> f64 {
        self.time.total * shares::ratio(statement.lock_samples as f64, self.time.samples as f64)
    }

    /// A statement's part of the time without its waits for heavyweight locks, which another plan does not
    /// shorten.
    pub(crate) fn own_share(&self, statement: &Statement) -> f64 {
        (statement.share - shares::ratio(self.lock_seconds(statement), self.time.active())).max(0.0)
    }

    /// Transactions of the database a second.
    pub fn transactions_per_second(&self) -> f64 {
        shares::ratio(self.database.commits + self.database.rollbacks, self.seconds)
    }

    /// The table of this schema and name.
    pub fn table(&self, schema: &str, name: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.schema == schema && table.name == name)
    }

    /// A name for an index of a table on this column or expression that no other index of the schema has.
    pub(crate) fn free_index_name(&self, table: &Table, columns: &str) -> String {
        // The server cuts names at 63 bytes.
        let wanted: String = format!("{}_{columns}", table.name).chars().take(48).collect();
        let taken =
            |name: &str| self.indexes.iter().any(|one| one.schema == table.schema && one.name == name);
        let mut name = format!("{wanted}_idx");
        let mut number = 0;
        while taken(&name) {
            number += 1;
            name = format!("{wanted}_idx{number}");
        }
        name
    }

    /// The statements that take at least this part of the time.
    pub fn statements_over(&self, least: f64) -> impl Iterator<Item = &Statement> {
        self.statements.iter().filter(move |statement| statement.share >= least)
    }
}

/// The shortest and the longest time between two samples; a look of less than 20 s has a hundred of them at most.
const PERIOD: (Duration, Duration) = (Duration::from_millis(100), Duration::from_millis(200));
const SAMPLES: u32 = 100;
/// Statements with a smaller part of the time are not explained.
const LEAST_SHARE: f64 = 0.05;
const MOST_EXPLAINED: usize = 5;
/// Fewer syncs of the log have no mean time.
const LEAST_SYNCS: f64 = 20.0;
/// Syncs that take as long, in milliseconds, are slow.
pub(crate) const SLOW_SYNC_MS: f64 = 3.0;
/// Less of the active time is not worth a word about syncs.
pub(crate) const LEAST_LOG_WAITS: f64 = 0.2;
/// A transaction of this age, in seconds, is a long one.
const LONG: f64 = 5.0;

/// Observes a server for some time.
///
/// # Errors
///
/// If it cannot be reached, is older than version 15, or its role may not see other sessions; if the server
/// ends the connection, or `stop` is requested.
pub fn look(target: &Target, time: Duration, stop: &Stop, progress: Progress) -> Result<Look, AdviseError> {
    let cpu = own_cpu();
    let mut session = Session::open(&target.clone().named("hardmeter tune"), stop)?;
    session.leave_cpu();
    let limits = "SET default_transaction_read_only = on; SET lock_timeout = '200ms'; SET jit = off";
    session.execute("limiting the session", limits)?;
    session.set_timeout(Duration::from_secs(20))?;
    let server = Server::read(&mut session)?;
    let backend_cpu = Task::read(session.backend());
    let extension = statements::extension(&mut session)?;

    let before = Snapshot::read(&mut session, server.version_num)?;
    let lines_before = match &extension {
        Some(schema) => statements::read(&mut session, schema, false)?,
        None => Vec::new(),
    };
    let begin = Instant::now();
    let machine = |session: &Session| server.local.then(|| MachineCounts::read(session.backend()))?;
    let machine_before = machine(&session);
    let disk = |session: &Session| {
        let data_folder = server.local.then(|| server.setting("data_directory"))?;
        DiskCounts::of_children(&format!("{data_folder}/pg_wal"), session.backend())
    };
    let disk_before = disk(&session);
    let mut sampler = Sampler::prepare(&mut session)?;
    let sample = &mut |at, last| sampler.sample(&mut session, at, last);
    let samples = sampled(begin, time, stop, progress, sample)?;
    let lines_after = match &extension {
        Some(schema) => statements::read(&mut session, schema, true)?,
        None => Vec::new(),
    };
    let during = Snapshot::read(&mut session, server.version_num)?.since(&before);
    let disk =
        disk(&session).zip(disk_before).map(|(now, then)| now.since(&then, during.wal.least_written()));
    let seconds = begin.elapsed().as_secs_f64();
    let used = |(now, then): (MachineCounts, MachineCounts)| now.since(&then, machine::ticks(seconds));
    let mut machine = machine(&session).zip(machine_before).map(used);
    machine.iter_mut().for_each(|machine| machine.mark_clients(&samples));

    let time = TimeShares::of(&samples);
    let statements = match &extension {
        Some(_) => statements::between(lines_before, lines_after, &samples),
        None => statements::by_samples(&samples),
    };
    let indexes = views::indexes(&mut session)?;
    let mut look = Look {
        active_backends: shares::ratio(time.active(), seconds),
        samples: samples.len() as u64,
        idle_transactions: idle_transactions(&samples),
        oldest_snapshot: oldest_snapshot(&samples),
        blockers: blockers(&samples),
        machine,
        database: during.database,
        tables: during.tables,
        wal: during.wal,
        disk,
        counted: extension.is_some(),
        server,
        seconds,
        time,
        indexes,
        statements,
        ..Look::default()
    };
    explain(&mut session, &mut look)?;
    let backend = Task::read(session.backend()).zip(backend_cpu).map(|(now, then)| now.since(then));
    look.cost = Cost { here: own_cpu() - cpu, backend: backend.map(|task| task.run_ns as f64 / 1e9) };
    // Each sample was a transaction of this program.
    look.database.commits = (look.database.commits - look.samples as f64).max(0.0);
    blind_spots::add(&mut look);
    Ok(look)
}

/// Takes samples five to ten times a second, the last one when `time` is over: `sample` is called with the seconds since
/// `begin`, and whether it is the last.
///
/// # Errors
/// As of `sample`; if `stop` is requested.
pub(crate) fn sampled(
    begin: Instant,
    time: Duration,
    stop: &Stop,
    progress: Progress,
    sample: &mut dyn FnMut(f64, bool) -> Result<ActivitySample, AdviseError>,
) -> Result<Vec<ActivitySample>, AdviseError> {
    let period = (time / SAMPLES).clamp(PERIOD.0, PERIOD.1);
    let mut samples = Vec::new();
    loop {
        let at = begin.elapsed();
        samples.push(sample(at.as_secs_f64(), at >= time)?);
        progress((at.as_secs_f64() / time.as_secs_f64()).min(1.0));
        if at >= time {
            return Ok(samples);
        }
        if stop.asked() {
            return Err(SessionError::Interrupted { what: "observing the server".into() }.into());
        }
        let next = period * u32::try_from(samples.len()).unwrap_or(u32::MAX);
        std::thread::sleep(next.min(time).saturating_sub(begin.elapsed()));
    }
}

/// Adds the plans of the statements that take most time: of a session's text if one was seen whole, since its
/// parameters have types, otherwise of the text of pg_stat_statements.
fn explain(session: &mut Session, look: &mut Look) -> Result<(), AdviseError> {
    // A session's text is cut at this length: the rest may be another statement.
    let whole = look.server.number("track_activity_query_size").unwrap_or(1024.0) - 1.0;
    let counted = look.counted;
    let costly = look.statements.iter_mut().filter(|one| one.share >= LEAST_SHARE);
    for statement in costly.take(MOST_EXPLAINED) {
        let example = statement.example.clone().filter(|text| (text.len() as f64) < whole);
        let texts = example.into_iter().chain(counted.then(|| statement.text.clone()));
        let mut refused = None;
        for text in texts {
            match both_plans(session, &text) {
                Ok((plan, cheap)) => {
                    (statement.plan, statement.plan_with_cheap_random_pages) = (plan, cheap);
                    refused = None;
                    break;
                }
                Err(error) if error.ends_session() => return Err(error.into()),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            look.unknown.push(format!("the plan of {}: {error}", statement.short()));
        }
    }
    Ok(())
}

type TwoPlans = (Option<plan::Plan>, Option<plan::Plan>);

/// The plan of a text, and its plan with a low random_page_cost.
fn both_plans(session: &mut Session, text: &str) -> Result<TwoPlans, SessionError> {
    let cheap = Some(("random_page_cost", "1.1"));
    Ok((plan::explain(session, text, None)?, plan::explain(session, text, cheap)?))
}

/// Sessions that were idle in one transaction in each of the last ten samples.
fn idle_transactions(samples: &[ActivitySample]) -> Vec<IdleTransaction> {
    let Some(last) = samples.last() else { return Vec::new() };
    let recent = &samples[samples.len().saturating_sub(10)..];
    let mut found: Vec<IdleTransaction> = Vec::new();
    for backend in last.backends.iter().filter(|backend| backend.here) {
        let idle = |sample: &&ActivitySample| {
            sample
                .backends
                .iter()
                .any(|one| one.pid == backend.pid && one.state.starts_with("idle in transaction"))
        };
        let seconds = backend.xact_seconds.unwrap_or(0.0);
        let throughout = recent.iter().all(|sample| idle(&sample)) && seconds >= last.at - recent[0].at;
        if throughout {
            found.push(IdleTransaction {
                pid: backend.pid,
                application: backend.application.clone(),
                seconds,
                xmin_age: backend.xmin_age.unwrap_or(0),
                query: backend.query.clone(),
                samples: samples.iter().filter(idle).count() as u64,
            });
        }
    }
    found.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    found
}

/// The age of the oldest snapshot of a long transaction at the end.
fn oldest_snapshot(samples: &[ActivitySample]) -> i64 {
    let long = |backend: &&BackendSample| backend.xact_seconds.is_some_and(|seconds| seconds >= LONG);
    let last = samples.iter().rev().take(1).flat_map(|sample| &sample.backends);
    last.filter(long).filter_map(|backend| backend.xmin_age).max().unwrap_or(0)
}

/// The sessions that held locks which others waited for, and their activity.
fn blockers(samples: &[ActivitySample]) -> Blockers {
    let mut found = Blockers::default();
    let mut idle: BTreeMap<i32, (u64, &BackendSample)> = BTreeMap::new();
    for sample in samples {
        let mut waiters = sample.waiters; // counted once, if one of their holders is known
        for backend in &sample.holders {
            found.seen += 1;
            found.waiters += std::mem::take(&mut waiters);
            found.committing += u64::from(backend.commits());
            if backend.state.starts_with("idle in transaction") {
                found.idle += 1;
                idle.entry(backend.pid).or_insert((0, backend)).0 += 1;
            }
        }
    }
    if let Some((_, backend)) = idle.into_values().max_by_key(|(n, _)| *n) {
        found.application.clone_from(&backend.application);
        found.query.clone_from(&backend.query);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_is_idle_only_if_it_was_so_throughout() {
        let backend = |pid, state: &str, seconds| BackendSample {
            pid,
            here: true,
            state: state.into(),
            xact_seconds: Some(seconds),
            xmin_age: Some(900),
            ..BackendSample::default()
        };
        let samples: Vec<ActivitySample> = (0..20)
            .map(|number| {
                let at = f64::from(number) / 10.0;
                let second = if number == 15 { "active" } else { "idle in transaction" };
                let backends = vec![
                    backend(1, "idle in transaction", 5.0 + at),
                    backend(2, second, 5.0 + at),
                    // A new transaction each time: short ones of a busy client.
                    backend(3, "idle in transaction", 0.01),
                ];
                ActivitySample { at, backends, ..ActivitySample::default() }
            })
            .collect();
        let found = idle_transactions(&samples);
        assert_eq!(found.iter().map(|one| one.pid).collect::<Vec<_>>(), [1]);
        assert_eq!((found[0].samples, found[0].xmin_age), (20, 900));
    }

    #[test]
    fn the_oldest_snapshot_is_that_of_a_long_transaction() {
        let backend = |seconds, age| BackendSample {
            xact_seconds: Some(seconds),
            xmin_age: Some(age),
            ..BackendSample::default()
        };
        let sample = |backends| ActivitySample { backends, ..ActivitySample::default() };
        let before = sample(vec![backend(90.0, 90_000)]);
        let last = sample(vec![backend(6.0, 700), backend(7.0, 800), backend(0.1, 9000)]);
        assert_eq!(oldest_snapshot(&[before, last]), 800);
        assert_eq!(oldest_snapshot(&[]), 0);
    }

    #[test]
    fn holders_of_locks_are_counted() {
        let backend = |pid, state: &str, application: &str| BackendSample {
            pid,
            state: state.into(),
            application: application.into(),
            ..BackendSample::default()
        };
        let idle = backend(1, "idle in transaction", "web");
        let commits = BackendSample { query: "COMMIT".into(), ..backend(2, "active", "worker") };
        let sample = |holders: &[&BackendSample]| ActivitySample {
            holders: holders.iter().map(|one| (*one).clone()).collect(),
            waiters: 4,
            ..ActivitySample::default()
        };
        let found = blockers(&[sample(&[&idle]), sample(&[&idle, &commits]), sample(&[])]);
        assert_eq!((found.seen, found.waiters, found.idle, found.committing), (3, 8, 2, 1));
        assert_eq!(found.application, "web");
    }
}

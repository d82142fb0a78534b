//! A look of some seconds at a live MariaDB server: shares of time as of PostgreSQL, and the counters of the server.

use super::sample::{thread_task, Sampler};
use super::scans::{scans, Scan};
use super::schema::{indexes, Duplicate, Unused};
use super::target::{MariaSession, MariaTarget};
use crate::look::disk::{DiskCounts, Others};
use crate::look::server::{own_cpu, Cost, Server};
use crate::look::shares::{ratio, TimeShares};
use crate::look::{sampled, statements, Progress};
use crate::{AdviseError, Database, Look};
use hardmeter_session::Stop;
use hardmeter_statement::Dialect;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The part of a look that only MariaDB has.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Maria {
    /// Differences of the server's counters over the look: `SHOW GLOBAL STATUS`, in lower case.
    #[serde(skip)]
    pub counted: BTreeMap<String, f64>,
    /// The same at the end of the look.
    #[serde(skip)]
    pub status: BTreeMap<String, f64>,
    /// `SHOW GLOBAL VARIABLES`, in lower case.
    #[serde(skip)]
    pub variables: BTreeMap<String, String>,
    /// Whole tables that are read for a few rows.
    pub scans: Vec<Scan>,
    /// Pairs of identical indexes.
    pub duplicates: Vec<Duplicate>,
    /// Indexes that no scan used; `None`: the server does not count that.
    pub unused: Option<Vec<Unused>>,
    /// Bytes of tables and indexes of the database.
    pub bytes: f64,
    /// Memory that the server's process has, in bytes; 0: not known.
    pub resident: f64,
    /// The allocator: "glibc", "jemalloc", "tcmalloc"; empty: not known.
    pub allocator: String,
    /// MALLOC_ARENA_MAX limits glibc's arenas.
    pub arenas_limited: bool,
}

/// A sync that takes longer than this, in seconds, is slow.
const SLOW_SYNC: f64 = 5e-3;

impl Maria {
    /// The difference of this counter over the look.
    pub fn count(&self, name: &str) -> f64 {
        self.counted.get(name).copied().unwrap_or(0.0)
    }

    /// Milliseconds of a sync where commits queue for it, if that is slow: over 5 ms, and five syncs or more.
    pub(crate) fn sync_ms(&self, seconds: f64) -> Option<f64> {
        let syncs = self.count("innodb_data_fsyncs");
        (syncs >= 5.0 && syncs <= seconds / SLOW_SYNC).then(|| seconds * 1e3 / syncs)
    }

    /// A variable's text; empty where the server has none of this name.
    pub fn variable(&self, name: &str) -> &str {
        self.variables.get(name).map_or("", String::as_str)
    }

    /// A variable's number.
    pub fn number(&self, name: &str) -> f64 {
        self.variable(name).parse().unwrap_or(0.0)
    }
}

/// Looks at a MariaDB server for some time. Nothing is changed.
///
/// # Errors
/// If it cannot be reached or read, is older than 10.5, or `stop` is requested.
pub fn look_at_mariadb(
    target: &MariaTarget,
    time: Duration,
    stop: &Stop,
    progress: Progress,
) -> Result<Look, AdviseError> {
    let cpu = own_cpu();
    let mut session = target.open()?;
    let limits = "SET SESSION max_statement_time = 20, lock_wait_timeout = 1, tx_read_only = 1";
    session.run("limiting the session", limits)?;
    let version = session.value("reading the version", "SELECT VERSION()")?.unwrap_or_default();
    if !version.contains("MariaDB") {
        return Err(AdviseError::Maria {
            what: "reading the version".into(),
            reason: format!("the server is {version}, not MariaDB"),
            remedy: "of the servers with this protocol only MariaDB is supported".into(),
        });
    }
    let thread = "SELECT TID FROM information_schema.PROCESSLIST WHERE ID = CONNECTION_ID()";
    let thread = session.value("reading the thread", thread)?.and_then(|text| text.parse().ok());
    let own = thread.and_then(thread_task);
    let process = thread.filter(|_| own.is_some()).and_then(process_of);
    const LOG: &str = "SELECT IF(@@innodb_log_group_home_dir LIKE '/%', @@innodb_log_group_home_dir, \
                       CONCAT(@@datadir, @@innodb_log_group_home_dir))";
    // A server without InnoDB has no such variable.
    let log = session.value("reading the folder of the log", LOG).ok().flatten().unwrap_or_default();
    let disk = || DiskCounts::of_process(&log, process?);
    let disk_before = disk();
    let (before, begin) = (status(&mut session)?, Instant::now());
    let mut sampler = Sampler::new(own.is_some());
    let sample = &mut |at, last| sampler.sample(&mut session, at, last);
    let samples = sampled(begin, time, stop, progress, sample)?;
    let after = status(&mut session)?;
    let disk_after = disk();
    let seconds = begin.elapsed().as_secs_f64();

    let variables = variables(&mut session)?;
    let shares = TimeShares::of(&samples);
    let mut statements = statements::by_samples_of(&samples, Dialect::MariaDb);
    statements.truncate(100);
    let counted: BTreeMap<String, f64> = after
        .iter()
        .map(|(name, value)| (name.clone(), value - before.get(name).copied().unwrap_or(0.0)))
        .collect();
    let on = |name: &str| variables.get(name).is_some_and(|value| value == "ON");
    let (duplicates, unused) = indexes(&mut session, on("userstat"), on("performance_schema"))?;
    const BYTES: &str = "SELECT SUM(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES \
        WHERE TABLE_SCHEMA NOT IN ('information_schema', 'mysql', 'performance_schema', 'sys')";
    let bytes = session.value("reading the size of tables", BYTES)?;
    let mut maria = Maria {
        scans: scans(&mut session, &statements)?,
        duplicates,
        unused,
        bytes: bytes.and_then(|text| text.parse().ok()).unwrap_or(0.0),
        counted,
        status: after,
        variables,
        ..Maria::default()
    };
    if let Some(process) = process {
        of_process(process, &mut maria);
    }
    let log_bytes = maria.count("innodb_os_log_written");
    let disk = disk_after.zip(disk_before).map(|(now, then)| now.since(&then, log_bytes));
    let spent = thread.and_then(thread_task).zip(own).map(|(now, then)| now.since(then).run_ns as f64 / 1e9);
    let mut server = Server { version, database: target.database().to_owned(), ..Server::default() };
    server.of_machine(own.is_some());
    // Each sample was a statement of this program, or two.
    let questions = (maria.count("questions") - 2.0 * samples.len() as f64).max(0.0);
    let mut look = Look {
        active_backends: ratio(shares.active(), seconds),
        samples: samples.len() as u64,
        database: Database { commits: questions, ..Database::default() },
        time: shares,
        disk,
        server,
        seconds,
        statements,
        cost: Cost { here: own_cpu() - cpu, backend: spent },
        mariadb: Some(maria),
        ..Look::default()
    };
    blind_spots(&mut look);
    Ok(look)
}

fn status(session: &mut MariaSession) -> Result<BTreeMap<String, f64>, AdviseError> {
    let rows = session.rows("reading the status", "SHOW GLOBAL STATUS")?;
    Ok(pairs(rows).filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect())
}

fn variables(session: &mut MariaSession) -> Result<BTreeMap<String, String>, AdviseError> {
    Ok(pairs(session.rows("reading the variables", "SHOW GLOBAL VARIABLES")?).collect())
}

fn pairs(rows: Vec<Vec<Option<String>>>) -> impl Iterator<Item = (String, String)> {
    rows.into_iter().filter_map(|row| {
        let mut row = row.into_iter();
        Some((row.next()??.to_lowercase(), row.next()?.unwrap_or_default()))
    })
}

/// The process of a thread.
fn process_of(thread: i32) -> Option<i32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Memory and allocator of the server's process.
fn of_process(process: i32, maria: &mut Maria) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = resident.and_then(|rest| rest.split_whitespace().next()?.parse::<f64>().ok());
    maria.resident = kilobytes.unwrap_or(0.0) * 1024.0;
    if let Ok(maps) = fs::read_to_string(format!("/proc/{process}/maps")) {
        let known = ["jemalloc", "tcmalloc"].into_iter().find(|name| maps.contains(name));
        maria.allocator = known.unwrap_or("glibc").into();
    }
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let environment = String::from_utf8_lossy(&environment);
    maria.arenas_limited = ["MALLOC_ARENA_MAX=", "arena_max"].iter().any(|word| environment.contains(word));
}

/// Data that the rules lack, and the settings that would provide it.
fn blind_spots(look: &mut Look) {
    let Some(maria) = &look.mariadb else { return };
    let mut unknown = Vec::new();
    if maria.unused.is_none() {
        unknown
            .push("which indexes are not used: SET GLOBAL userstat = 1, and wait for some days".to_owned());
    }
    if maria.variable("performance_schema") != "ON" {
        unknown.push("time by statement (samples only): performance_schema = ON in the configuration".into());
    }
    if look.time.busy > 0 && !look.time.exact {
        unknown.push("run queue and kernel time: run this on the server's machine".into());
    }
    let waited = look.time.waits(&["log sync"]).0 >= 0.1;
    let slow = maria.sync_ms(look.seconds).filter(|_| waited);
    unknown.extend(slow.and_then(|ms| look.others_delay(ms)).map(Others::blind_spot));
    if look.server.database.is_empty() {
        unknown.push("plans, indexes: name the database with --database".into());
    }
    look.unknown.extend(unknown);
}

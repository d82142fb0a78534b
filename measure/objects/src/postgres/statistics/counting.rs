//! The server's counters from the attachment to the end of the recording, and how exact they are.
//!
//! A backend adds its remaining counts when it ends, so the counters of a command are complete once its
//! backends are gone: there is a short wait for them. Backends that stay may have counted more, or may have
//! added earlier counts at the beginning; their number is reported.

use super::{DatabaseCounts, Statistics};
use crate::postgres::attach::Server;
use crate::postgres::catalog::Catalog;
use crate::postgres::shared::places::transactions;
use crate::postgres::shared::processes::{Roles, CLIENT};
use crate::process_memory::ProcessMemory;
use crate::server::Counted;
use hardmeter_samples::model::{Pid, VirtualAddress};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// Longest wait for backends of the command to end; they are slow on the software PMU.
const PATIENCE: Duration = Duration::from_secs(3);
const INTERVAL: Duration = Duration::from_millis(10);
/// Backends that were idle for this long are not about to end.
const IDLE: Duration = Duration::from_millis(250);
/// Limit of remembered processes.
const MOST_PROCESSES: usize = 1 << 20;

/// A count in progress.
#[derive(Debug)]
pub(crate) struct Counting {
    begun: Instant,
    /// The place of the counters and their first values, or why they are unknown.
    before: Result<(Statistics, BTreeMap<u32, DatabaseCounts>), String>,
    /// The number of the next writing transaction, of all databases.
    writing: Option<u64>,
    /// Client backends that existed before.
    connected: BTreeSet<Pid>,
    /// The database of each client backend.
    databases: HashMap<Pid, u32>,
}

/// The number of the next writing transaction.
fn next_number(server: &Server) -> Option<u64> {
    let offset = server.layout.offset("TransamVariables", "nextXid").ok()?;
    server.memory.u64(VirtualAddress(transactions(server)?.0 + offset)).ok()
}

impl Counting {
    /// Begins.
    pub fn begin(server: &Server, roles: &Roles) -> Counting {
        let before = Statistics::find(server).and_then(|found| Ok((found.read(server)?, found)));
        let mut counting = Counting {
            begun: Instant::now(),
            before: before.map(|(counts, found)| (found, counts)),
            writing: next_number(server),
            connected: roles.clients(server).into_iter().collect(),
            databases: HashMap::new(),
        };
        counting.look(server, roles);
        counting
    }

    /// Finds the databases of the present clients.
    pub fn look(&mut self, server: &Server, roles: &Roles) {
        for pid in roles.clients(server) {
            self.saw(server, roles, pid);
        }
    }

    /// Records a process of the server that was seen working.
    pub fn saw(&mut self, server: &Server, roles: &Roles, pid: Pid) {
        let known = self.databases.contains_key(&pid) || self.databases.len() >= MOST_PROCESSES;
        if known || roles.of(pid) != Some(CLIENT) {
            return;
        }
        let Some(variable) = server.program.address("MyDatabaseId") else { return };
        let database = ProcessMemory::open(pid).and_then(|memory| memory.u32(variable)).unwrap_or(0);
        // Before authentication it has no database.
        if database != 0 {
            self.databases.insert(pid, database);
        }
    }

    /// Ends: returns the increase of the counters.
    pub fn end(&mut self, server: &Server, roles: &mut Roles, catalog: &Catalog) -> Counted {
        roles.look(server);
        self.look(server, roles);
        let mut counted = Counted::default();
        let after = match &self.before {
            Ok((found, before)) => {
                wait_for_end(roles.clients(server).into_iter().filter(|pid| !self.connected.contains(pid)));
                found.read(server).map(|after| (before, after))
            }
            Err(reason) => Err(reason.clone()),
        };
        let length = self.begun.elapsed();
        // Numbers of transactions do not show whose they are, but are exact.
        let written = next_number(server).zip(self.writing).and_then(|(now, then)| now.checked_sub(then));
        counted.figures.extend(written.map(|count| ("writing transactions".to_string(), count)));
        let (before, after) = match after {
            Ok(both) => both,
            Err(reason) => {
                counted.trouble = Some(format!(
                    "the server's counters of transactions and rows were not read: {reason}; \
                     figures per transaction count only writing transactions"
                ));
                return counted;
            }
        };
        let sampled: BTreeSet<u32> = self.databases.values().copied().collect();
        match increase(before, &after, &sampled) {
            Ok((figures, databases)) => {
                counted.figures.extend(figures);
                let name = |number: &u32| match catalog.database(*number) {
                    Some(name) => name.to_string(),
                    None => format!("number {number}"),
                };
                counted.databases = databases.iter().map(name).collect();
            }
            Err(reason) => {
                counted.trouble = Some(reason);
                return counted;
            }
        }
        let still = roles.clients(server);
        let connected: BTreeSet<Pid> = self.connected.iter().chain(&still).copied().collect();
        if !connected.is_empty() {
            counted.limits.push(inexact(connected.len(), length));
        }
        let counts_rows = server.program.address("pgstat_track_counts");
        if counts_rows.and_then(|at| server.memory.u8(at).ok()) == Some(0) {
            counted.limits.push("rows were not counted: the server's track_counts is off".to_string());
        }
        counted
    }
}

fn inexact(clients: usize, length: Duration) -> String {
    let (backends, have) =
        if clients == 1 { ("client backend was", "has") } else { ("client backends were", "have") };
    format!(
        "transactions and rows may be off at the edges of these {:.1} s: {clients} {backends} connected when they began \
         or ended, and {have} counts added up once a second at most, and not within a transaction",
        length.as_secs_f64()
    )
}

/// Names and values of counters.
type Figures = Vec<(String, u64)>;

/// The increase of the databases' counters together, and the names of these databases: those that clients
/// used, otherwise all.
fn increase(
    before: &BTreeMap<u32, DatabaseCounts>,
    after: &BTreeMap<u32, DatabaseCounts>,
    sampled: &BTreeSet<u32>,
) -> Result<(Figures, Vec<u32>), String> {
    let mut sum = DatabaseCounts::default();
    let mut databases = Vec::new();
    for (number, now) in after.iter().filter(|(number, _)| **number != 0) {
        if !sampled.is_empty() && !sampled.contains(number) {
            continue;
        }
        // A database that was created meanwhile began with zero.
        let then =
            before.get(number).copied().unwrap_or(DatabaseCounts { reset: now.reset, ..Default::default() });
        if now.reset != then.reset {
            return Err(
                "transactions and rows are not counted: the server's statistics were reset while it was \
                        recorded (pg_stat_reset)"
                    .into(),
            );
        }
        let mut grown = false;
        let pairs = [
            (&mut sum.commits, now.commits, then.commits),
            (&mut sum.rollbacks, now.rollbacks, then.rollbacks),
            (&mut sum.returned, now.returned, then.returned),
            (&mut sum.fetched, now.fetched, then.fetched),
            (&mut sum.inserted, now.inserted, then.inserted),
            (&mut sum.updated, now.updated, then.updated),
            (&mut sum.deleted, now.deleted, then.deleted),
        ];
        for (total, now, then) in pairs {
            let more =
                now.checked_sub(then).ok_or("transactions and rows are not counted: a counter decreased")?;
            *total += more;
            grown |= more > 0;
        }
        if grown {
            databases.push(*number);
        }
    }
    let figures = [
        ("transactions", sum.commits + sum.rollbacks),
        ("transactions rolled back", sum.rollbacks),
        ("rows returned", sum.returned),
        ("rows fetched", sum.fetched),
        ("rows inserted", sum.inserted),
        ("rows updated", sum.updated),
        ("rows deleted", sum.deleted),
        ("rows written", sum.inserted + sum.updated + sum.deleted),
    ];
    Ok((figures.map(|(name, count)| (name.to_string(), count)).into(), databases))
}

/// Waits for backends to end, but not for idle ones. Returns the number of remaining ones.
fn wait_for_end(backends: impl Iterator<Item = Pid>) -> usize {
    let mut leaving: Vec<ProcessMemory> = backends.filter_map(|pid| ProcessMemory::open(pid).ok()).collect();
    let begun = Instant::now();
    let (mut looked, mut before) = (begun, None);
    while begun.elapsed() < PATIENCE {
        leaving.retain(ProcessMemory::is_alive);
        if leaving.is_empty() {
            break;
        }
        if before.is_none() || looked.elapsed() >= IDLE {
            let now: Vec<Option<String>> = leaving.iter().map(|memory| at_rest(memory.pid())).collect();
            if before.as_ref() == Some(&now) && now.iter().all(Option::is_some) {
                break;
            }
            (looked, before) = (Instant::now(), Some(now));
        }
        std::thread::sleep(INTERVAL);
    }
    leaving.len()
}

/// How often a sleeping process has gone to sleep; the same text twice: it did not wake up in between.
fn at_rest(pid: Pid) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let sleeps = line("State:")?.starts_with('S');
    sleeps.then(|| {
        format!("{pid} {:?} {:?}", line("voluntary_ctxt_switches:"), line("nonvoluntary_ctxt_switches:"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(list: &[(u32, u64, u64)]) -> BTreeMap<u32, DatabaseCounts> {
        list.iter()
            .map(|(number, commits, returned)| {
                (*number, DatabaseCounts { commits: *commits, returned: *returned, ..Default::default() })
            })
            .collect()
    }

    #[test]
    fn what_clients_used_is_added_up() {
        let before = counts(&[(0, 0, 5), (1, 10, 100), (5, 20, 200)]);
        let after = counts(&[(0, 0, 50), (1, 11, 140), (5, 25, 260), (7, 3, 9)]);
        let of =
            |sampled: &[u32]| increase(&before, &after, &sampled.iter().copied().collect()).expect("grown");
        let figure = |figures: &[(String, u64)], name: &str| {
            figures.iter().find(|(known, _)| known == name).expect("a figure").1
        };
        let (figures, databases) = of(&[5]);
        assert_eq!((figure(&figures, "transactions"), figure(&figures, "rows returned")), (5, 60));
        assert_eq!(databases, [5]);
        // No backend was seen: all databases, without shared objects, and a new one.
        let (figures, databases) = of(&[]);
        assert_eq!((figure(&figures, "transactions"), figure(&figures, "rows returned")), (9, 109));
        assert_eq!(databases, [1, 5, 7]);
    }

    #[test]
    fn counters_that_began_anew_tell_nothing() {
        let before = counts(&[(5, 20, 200)]);
        let mut after = counts(&[(5, 25, 260)]);
        after.get_mut(&5).expect("there").reset = 1;
        let reason = increase(&before, &after, &BTreeSet::new()).expect_err("reset");
        assert!(reason.contains("pg_stat_reset"), "{reason}");
        let reason = increase(&before, &counts(&[(5, 19, 260)]), &BTreeSet::new()).expect_err("back");
        assert!(reason.contains("a counter decreased"), "{reason}");
    }

    #[test]
    fn a_process_that_sleeps_is_at_rest_and_one_that_ended_is_not_waited_for() {
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().expect("sleep");
        let pid = Pid(sleeper.id() as i32);
        assert_eq!(wait_for_end([pid].into_iter()), 1);
        sleeper.kill().expect("ours");
        sleeper.wait().expect("ours");
        assert_eq!((at_rest(pid), wait_for_end([pid].into_iter())), (None, 0));
    }
}

//! Clause 3.5: all processes of the server are killed under load; everything acknowledged must be there after
//! recovery.
//!
//! A kill of the processes is one of the failures of clause 3.5.3, the loss of the system: memory is lost, written
//! data are not. Loss of power or of a disk is not tested: the kernel's page cache survives a kill, so `fsync =
//! off` loses nothing, and the test says nothing about `fsync`. `synchronous_commit = off` does lose acknowledged
//! orders.

mod judge;

use super::{consistency, load_order, success, Observations, Trial};
use crate::audit::{check_conditions, Verdict};
use crate::backend::{Backends, Style};
use crate::error::TpccError;
use crate::load::Mark;
use crate::measure::RunResult;
use crate::monitor::{drive_with, Logs, Patience};
use crate::random::{Part, Stream};
use crate::time::Micros;
use crate::work::Kind;
use hardmeter_session::{Progress, Session, Stop, Target};
use judge::{faults, sum_up, Killed, LogPosition};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub use judge::{Kill, Moment};

/// A server that may be killed.
pub trait Victim {
    /// Kills all of its processes at once, by SIGKILL.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if there is no process to kill.
    fn kill(&mut self) -> Result<(), TpccError>;

    /// Restarts the server and waits until it accepts connections; returns what it printed meanwhile.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept connections again.
    fn restart(&mut self) -> Result<String, TpccError>;
}

/// Parameters of the test.
#[derive(Clone, Copy, Debug)]
pub struct Order<'a> {
    /// Number of kills.
    pub kills: u32,
    /// Seed of the transactions and of the times of the kills.
    pub seed: u64,
    /// The style of the transactions.
    pub style: Style,
    /// The mark of the load.
    pub mark: &'a Mark,
    /// A folder for success files, which are kept.
    pub folder: &'a Path,
}

/// The results of all kills.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Durability {
    /// The settings that affect durability: name, value.
    pub settings: Vec<(String, String)>,
    /// Kill by kill.
    pub kills: Vec<Kill>,
    /// The sum of it.
    pub trial: Trial,
}

/// Every so-manieth kill is in a checkpoint.
const CHECKPOINT_EVERY: u32 = 4;
/// The longest load before a kill.
const LONGEST: f64 = 2.5;
/// Time limit of a load until its first acknowledged order.
const PATIENCE: Duration = Duration::from_secs(60);
/// For a load that is ordered to go on for as long as the server does.
const ENDLESS_SECONDS: f64 = 3600.0;

/// Kills the server repeatedly.
///
/// # Errors
///
/// [`TpccError::Session`] if a statement fails, the connection is lost, or `stop` was requested, or the server
/// does not restart.
pub fn run(
    target: &Target,
    backends: &dyn Backends,
    victim: &mut dyn Victim,
    order: &Order,
    stop: &Stop,
    progress: &dyn Progress,
) -> Result<Durability, TpccError> {
    let settings = settings(target, stop)?;
    let mut chance = Stream::of(order.seed, Part::Constants, u32::MAX - 2);
    let mut kills = vec![];
    for number in 1..=order.kills {
        let kill = Attempt { target, backends, order, stop, progress, number }.run(victim, &mut chance)?;
        kills.push(kill);
    }
    let trial = sum_up(&settings, &kills);
    Ok(Durability { settings, kills, trial })
}

fn settings(target: &Target, stop: &Stop) -> Result<Vec<(String, String)>, TpccError> {
    let mut session = Session::open(target, stop)?;
    let sql =
        "SELECT name, current_setting(name) FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', \
               'synchronous_commit', 'wal_sync_method', 'wal_writer_delay') ORDER BY name";
    let rows = session.query("reading settings", sql)?.rows;
    let pair = |row: Vec<Option<String>>| {
        let mut columns = row.into_iter().flatten();
        Some((columns.next()?, columns.next()?))
    };
    Ok(rows.into_iter().filter_map(pair).collect())
}

/// Sums that must not decrease over a kill.
struct Sums {
    next_orders: u64,
    history: u64,
}

fn sums(session: &mut Session) -> Result<Sums, TpccError> {
    let sql = "SELECT (SELECT sum(d_next_o_id) FROM district), (SELECT count(*) FROM history)";
    let row = super::rows::Row::only("sums", session.query("reading sums", sql)?)?;
    Ok(Sums { next_orders: row.number(0)?, history: row.number(1)? })
}

/// One kill.
struct Attempt<'a> {
    target: &'a Target,
    backends: &'a dyn Backends,
    order: &'a Order<'a>,
    stop: &'a Stop,
    progress: &'a dyn Progress,
    number: u32,
}

impl Attempt<'_> {
    fn run(&self, victim: &mut dyn Victim, chance: &mut Stream) -> Result<Kill, TpccError> {
        let before = sums(&mut Session::open(self.target, self.stop)?)?;
        let path = self.order.folder.join(format!("success-{}", self.number));
        self.progress.phase(&format!("kill {} of {}: load", self.number, self.order.kills), 1);
        // A success file of an earlier run must not be read before the driver creates its own.
        let _ = std::fs::remove_file(&path);
        let loaded = self.load_and_kill(victim, &path, chance);
        let (result, killed) = match loaded {
            Ok(loaded) => loaded,
            Err(error) => {
                // It may have been killed: restart it, and report only the first error.
                let _ = victim.restart();
                return Err(error);
            }
        };

        self.progress.phase(&format!("kill {} of {}: recovery", self.number, self.order.kills), 1);
        let begin = Instant::now();
        let said = victim.restart()?;
        let recovery_seconds = begin.elapsed().as_secs_f64();
        let mut session = Session::open(self.target, self.stop)?;
        let after = sums(&mut session)?;
        let found = success::compare(&mut session, &success::read(&path)?)?;
        drop(session);
        let conditions = check_conditions(self.target, self.stop, self.progress)?;

        let payments: u64 = result.series.iter().map(|second| second.completed[Kind::Payment.index()]).sum();
        let mut kill = Kill {
            number: self.number,
            moment: killed.moment(&said),
            after_seconds: killed.after.as_secs_f64(),
            acknowledged: found.acknowledged,
            missing: found.missing,
            incomplete: found.incomplete,
            // After a crash it may be smaller than before: then more than this load is lost.
            growth: after.next_orders.saturating_sub(before.next_orders),
            payments: (payments, after.history.saturating_sub(before.history)),
            recovery_seconds,
            broken_conditions: vec![],
            verdict: Verdict::Held,
            faults: vec![],
        };
        let short = conditions.iter().filter(|condition| condition.verdict == Verdict::Short);
        kill.broken_conditions = short.map(|condition| condition.number).collect();
        let mut seen = Observations::new();
        consistency::judge(&conditions, &mut seen);
        let broken = seen.seen.into_iter().filter(|line| line.starts_with("NOT SO"));
        kill.faults = faults(&kill, &found).into_iter().chain(broken).collect();
        if !kill.faults.is_empty() {
            kill.verdict = Verdict::Short;
        }
        Ok(kill)
    }

    /// Loads the server from a thread and kills it meanwhile.
    fn load_and_kill(
        &self,
        victim: &mut dyn Victim,
        path: &Path,
        chance: &mut Stream,
    ) -> Result<(RunResult, Killed), TpccError> {
        let Order { mark, style, seed, .. } = *self.order;
        // Another seed for each load: equal orders could not be distinguished.
        let order = load_order(mark, style, seed.wrapping_add(u64::from(self.number)), ENDLESS_SECONDS);
        let logs = Logs { successes: Some(path.to_owned()), deliveries: None };
        // A driver without its server should end at once.
        let patience = Patience { without_success: Micros::seconds(1), winding_up: Micros::seconds(1) };
        let enough = Stop::new();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let driver = scope.spawn(|| {
                let sources = &crate::terminals::source;
                let result = drive_with(&order, self.backends, sources, &logs, patience, &enough, &Silent);
                over.store(true, Ordering::SeqCst);
                result
            });
            let begin = Instant::now();
            while !has_acknowledged(path) && !over.load(Ordering::SeqCst) && begin.elapsed() < PATIENCE {
                std::thread::sleep(Duration::from_millis(2));
            }
            let first = Instant::now();
            let moment = Duration::from_secs_f64(f64::from(chance.uniform(50..=1000)) / 1000.0 * LONGEST);
            let killed = self.wait_for(moment, &over).and_then(|checkpoint| {
                if over.load(Ordering::SeqCst) {
                    return Ok(None);
                }
                victim.kill()?;
                Ok(Some(Killed { after: first.elapsed(), checkpoint }))
            });
            // The server is gone, or was not killed: in both cases the driver must end.
            enough.ask();
            let result = match driver.join() {
                Ok(result) => result,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let (result, killed) = (result?, killed?);
            match killed {
                Some(killed) => Ok((result, killed)),
                None => Err(TpccError::Victim {
                    what: "killed under load",
                    reason: format!("the load ended before: {:?}", result.ending),
                    remedy: "see whether the same load runs: hardmeter tpcc run --mode closed --clients 8"
                        .into(),
                }),
            }
        })
    }

    /// Waits until the time of the kill; for some kills, also until the server is in a checkpoint. Returns the log
    /// position before the checkpoint.
    fn wait_for(&self, moment: Duration, over: &AtomicBool) -> Result<Option<LogPosition>, TpccError> {
        let begin = Instant::now();
        while begin.elapsed() < moment {
            if self.stop.asked() || over.load(Ordering::SeqCst) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2).min(moment));
        }
        if self.stop.asked() {
            let what = format!("kill {}", self.number);
            return Err(hardmeter_session::SessionError::Interrupted { what }.into());
        }
        if self.number.is_multiple_of(CHECKPOINT_EVERY) {
            self.enter_checkpoint().map(Some)
        } else {
            Ok(None)
        }
    }

    /// Requests a checkpoint and returns when the server is in it, with the log position before.
    fn enter_checkpoint(&self) -> Result<LogPosition, TpccError> {
        let mut onlooker = Session::open(self.target, self.stop)?;
        let position =
            onlooker.query("reading where the log stands", "SELECT pg_current_wal_insert_lsn()")?;
        let position = position.single().and_then(LogPosition::parse).ok_or_else(|| {
            TpccError::StrangeRow { what: "the log's position".into(), found: format!("{:?}", position.rows) }
        })?;
        let mut asker = Session::open(self.target, self.stop)?;
        let backend = asker.backend();
        // The thread ends when the server does.
        std::thread::spawn(move || asker.execute("writing a checkpoint", "CHECKPOINT"));
        let sql = format!(
            "SELECT wait_event = 'CheckpointDone' FROM pg_stat_activity WHERE pid = {backend} AND state = 'active'"
        );
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            match onlooker.query("looking for the checkpoint", &sql)?.single() {
                Some("t") => break,
                // Not begun yet, or already finished: the log shows which.
                _ => std::thread::sleep(Duration::from_micros(200)),
            }
        }
        Ok(position)
    }
}

/// Whether the first line behind the header is there.
fn has_acknowledged(path: &Path) -> bool {
    std::fs::read_to_string(path).is_ok_and(|text| text.lines().any(|line| !line.starts_with('#')))
}

/// The driver's own progress is not shown here.
struct Silent;

impl Progress for Silent {
    fn phase(&self, _what: &str, _units: u64) {}
    fn advance(&self, _units: u64) {}
}

//! The measurements of a block: counters of the server, read at its two ends.
//!
//! * Execution time per call, by pg_stat_statements, with the mix of statements fixed to that of the first
//!   part: a statement that becomes faster is called more often, so a mean over all calls would compare
//!   different work.
//! * CPU per transaction: of all processes of the server, from the kernel. Processes that ended within the
//!   block are included in the postmaster's reaped children, so none is missed or counted twice.
//! * Transactions a second.
//! * The log written per transaction, where the remedy is one of the log.

use super::control::{literal, Control};
use super::load::Running;
use super::pause::pause;
use super::TryError;
use crate::look::disk::parent;
use crate::look::views::quoted;
use crate::Task;
use hardmeter_evidence::{Direction, Metric, Role};
use hardmeter_session::Stop;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// A metric of a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Execution time per call.
    Latency,
    /// CPU time of the server per transaction.
    Cpu,
    /// Transactions a second.
    Throughput,
    /// The log written per transaction; only where it decides.
    Log,
}

impl Measure {
    /// The metrics of each trial.
    pub const ALL: [Measure; 3] = [Measure::Latency, Measure::Cpu, Measure::Throughput];

    /// The metrics of a server that counts its statements, or whose processes can be seen.
    pub(super) fn known(statements: bool, processes: bool) -> Vec<Measure> {
        let is_known = |measure: &Measure| match measure {
            Measure::Latency => statements,
            Measure::Cpu => processes,
            Measure::Throughput => true,
            Measure::Log => false,
        };
        Measure::ALL.into_iter().filter(is_known).collect()
    }

    /// The metric that shows this remedy's gain: chosen before the trial, by the cost of the fault.
    pub fn of_remedy(remedy: &str) -> Measure {
        match remedy {
            "unused-indexes" | "duplicate-indexes" | "huge-pages" | "prepared-statements" => Measure::Cpu,
            // Waits between statements, and other statements than before, are not execution time per call.
            // A sync takes its time for few bytes, too: the log is what more room between checkpoints saves.
            "checkpoints" => Measure::Log,
            "slow-sync" | "connections" | "hot-row" | "sleeping-holder" | "many-small-queries" => {
                Measure::Throughput
            }
            _ => Measure::Latency,
        }
    }

    /// Its printed name.
    pub fn name(self) -> &'static str {
        match self {
            Measure::Latency => "execution time per call",
            Measure::Cpu => "CPU per transaction",
            Measure::Throughput => "transactions a second",
            Measure::Log => "log per transaction",
        }
    }

    /// Its unit.
    pub fn unit(self) -> &'static str {
        match self {
            Measure::Latency | Measure::Cpu => "ms",
            Measure::Throughput => "/s",
            Measure::Log => "kB",
        }
    }

    /// The direction of improvement.
    pub fn direction(self) -> Direction {
        match self {
            Measure::Latency | Measure::Cpu | Measure::Log => Direction::Less,
            Measure::Throughput => Direction::More,
        }
    }

    /// As a metric of a trial in which `primary` decides and the others guard.
    pub(super) fn metric(self, primary: Measure, minimum: f64) -> Metric {
        let role = if self == primary { Role::Decides } else { Role::Guards };
        // Noise of a guard must not hide a gain: its loss must exceed the required gain of the primary
        // metric.
        let minimum_effect = if self == primary { minimum } else { minimum.max(0.05) };
        Metric { role, ..Metric::new(self.name(), self.direction(), minimum_effect) }
    }
}

/// How the server is measured.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// The schema of pg_stat_statements, if it is installed.
    schema: Option<String>,
    /// The postmaster, if its processes are visible.
    postmaster: Option<i32>,
    /// The position of the log may be read: servers of some providers refuse it.
    log: bool,
}

/// Counters at one moment.
#[derive(Clone, Debug)]
pub(super) struct Counters {
    at: Instant,
    commits: f64,
    rollbacks: f64,
    own: f64,
    /// Other sessions that run a statement now.
    active: f64,
    cpu: Option<f64>,
    /// Bytes of the log so far; `None` in recovery, which writes none.
    log: Option<f64>,
    /// Calls and milliseconds by statement.
    statements: BTreeMap<String, (f64, f64)>,
}

/// The change of the counters in a block.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Block {
    pub(super) seconds: f64,
    /// Sessions that ran a statement at its end.
    pub(super) active: f64,
    /// Transactions of other sessions since the statistics are counted.
    pub(super) total: f64,
    pub(super) transactions: f64,
    pub(super) rollbacks: f64,
    /// CPU of the server, in milliseconds.
    pub(super) cpu_ms: Option<f64>,
    /// Bytes of the log.
    pub(super) log_bytes: Option<f64>,
    /// Calls and milliseconds of each statement that was called.
    pub(super) statements: BTreeMap<String, (f64, f64)>,
}

/// A block, and the failure of its load.
pub(super) type Ran = (Block, Option<TryError>);

impl Block {
    /// The same as one transaction: a run of the load, of `seconds`. The server reports the few transactions of a run
    /// up to a second late.
    pub(super) fn of_run(self, seconds: f64) -> Block {
        Block { seconds, transactions: 1.0, rollbacks: 0.0, ..self }
    }
}

impl Source {
    pub(super) fn find(control: &mut Control) -> Result<Source, TryError> {
        const SCHEMA: &str = "SELECT n.nspname FROM pg_catalog.pg_extension e \
            JOIN pg_catalog.pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'pg_stat_statements' \
            AND current_setting('shared_preload_libraries') LIKE '%pg_stat_statements%'";
        let schema = control.value("looking for pg_stat_statements", SCHEMA)?;
        let backend = control.backend();
        let postmaster = Task::read(backend).and_then(|_| parent(backend)).filter(|pid| *pid > 1);
        const LOG: &str =
            "SELECT has_function_privilege('pg_catalog.pg_current_wal_insert_lsn()', 'EXECUTE')";
        let log = control.value("asking for rights", LOG)?.as_deref() == Some("t");
        Ok(Source { schema, postmaster, log })
    }

    /// The server's first process, if its processes are visible: it runs on this machine.
    pub(super) fn postmaster(&self) -> Option<i32> {
        self.postmaster
    }

    /// The metrics that are available here.
    pub(super) fn measures(&self) -> Vec<Measure> {
        let mut known = Measure::known(self.schema.is_some(), self.postmaster.is_some());
        known.push(Measure::Log);
        known
    }

    pub(super) fn read(&self, control: &mut Control) -> Result<Counters, TryError> {
        let mut statements = BTreeMap::new();
        if let Some(schema) = &self.schema {
            let sql = format!(
                "SELECT queryid, sum(calls), sum(total_exec_time) FROM {}.pg_stat_statements(false) \
                 WHERE queryid IS NOT NULL AND dbid = (SELECT oid FROM pg_catalog.pg_database \
                 WHERE datname = current_database()) GROUP BY queryid",
                quoted(schema)
            );
            for row in control.rows("reading pg_stat_statements", &sql)? {
                if let [Some(id), Some(calls), Some(ms)] = &row[..] {
                    let number = |text: &str| text.parse().unwrap_or(0.0);
                    statements.insert(id.clone(), (number(calls), number(ms)));
                }
            }
        }
        let log = match self.log {
            true => "CASE WHEN NOT pg_is_in_recovery() THEN pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0') END",
            false => "NULL::numeric",
        };
        let database = format!("SELECT xact_commit, xact_rollback, \
            (SELECT count(*) FROM pg_catalog.pg_stat_activity a WHERE a.state = 'active' AND a.datid = d.datid \
             AND a.backend_type = 'client backend' AND a.pid <> pg_backend_pid()), {log} \
            FROM pg_catalog.pg_stat_database d WHERE datname = current_database()");
        let row = control.row("reading pg_stat_database", &database)?.unwrap_or_default();
        let known = |at: usize| row.get(at).cloned().flatten().and_then(|text| text.parse::<f64>().ok());
        let number = |at: usize| known(at).unwrap_or(0.0);
        Ok(Counters {
            at: Instant::now(),
            commits: number(0),
            rollbacks: number(1),
            own: control.queries() as f64,
            active: number(2),
            cpu: self.postmaster.and_then(server_cpu_ms),
            log: known(3),
            statements,
        })
    }

    /// Runs the command of a block, and measures it.
    ///
    /// # Errors
    /// If the server does not answer, or `stop` was requested.
    pub(super) fn run(&self, control: &mut Control, load: &Running, stop: &Stop) -> Result<Ran, TryError> {
        let before = self.read(control)?;
        let (seconds, failure) = load.run_block(stop)?;
        // Sessions that have just ended report their counters a moment later.
        pause(0.1, stop, None)?;
        Ok((self.read(control)?.since(&before).of_run(seconds), failure))
    }

    /// The texts of statements.
    pub(super) fn texts(
        &self,
        control: &mut Control,
        ids: &[String],
    ) -> Result<BTreeMap<String, String>, TryError> {
        let Some(schema) = self.schema.as_ref().filter(|_| !ids.is_empty()) else {
            return Ok(BTreeMap::new());
        };
        let ids: Vec<String> = ids.iter().map(|id| literal(id)).collect();
        let sql = format!(
            "SELECT queryid, min(left(query, 2000)) FROM {}.pg_stat_statements(true) \
             WHERE queryid IN ({}) GROUP BY queryid",
            quoted(schema),
            ids.join(", ")
        );
        let rows = control.rows("reading texts of statements", &sql)?;
        Ok(rows
            .into_iter()
            .filter_map(|row| {
                let mut row = row.into_iter();
                Some((row.next()??, row.next()??))
            })
            .collect())
    }
}

impl Counters {
    /// The change since an earlier moment. Counters that decreased were reset: the block then does not
    /// include them.
    pub(super) fn since(&self, before: &Counters) -> Block {
        let own = self.own - before.own;
        let statements = self.statements.iter().filter_map(|(id, (calls, ms))| {
            let (calls_before, ms_before) = before.statements.get(id).copied().unwrap_or_default();
            let (calls, ms) = (calls - calls_before, ms - ms_before);
            (calls > 0.0 && ms >= 0.0).then(|| (id.clone(), (calls, ms)))
        });
        let rollbacks = (self.rollbacks - before.rollbacks).max(0.0);
        let commits = (self.commits - before.commits - own).max(0.0);
        Block {
            seconds: self.at.duration_since(before.at).as_secs_f64(),
            active: self.active,
            total: self.commits + self.rollbacks - self.own,
            transactions: commits + rollbacks,
            rollbacks,
            cpu_ms: self.cpu.zip(before.cpu).map(|(now, then)| now - then).filter(|ms| *ms >= 0.0),
            log_bytes: self.log.zip(before.log).map(|(now, then)| now - then),
            statements: statements.collect(),
        }
    }
}

/// True if blocks had no load. The server counts the trial's own transactions up to a second late, so without
/// pg_stat_statements a few of them look like a load.
pub(super) fn is_idle(blocks: &[Block], mix: &Mix) -> bool {
    const OWN: f64 = 20.0;
    let total = |block: Option<&Block>| block.map_or(0.0, |block| block.total);
    let transactions = total(blocks.last()) - total(blocks.first());
    mix.0.is_empty() && transactions < OWN && blocks.iter().all(|block| block.active == 0.0)
}

/// The mix of statements in the first part of a trial: calls and milliseconds of each.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Mix(pub(super) BTreeMap<String, (f64, f64)>);

impl Mix {
    pub(super) fn of(blocks: &[Block]) -> Mix {
        let mut mix = BTreeMap::new();
        for (id, (calls, ms)) in blocks.iter().flat_map(|block| &block.statements) {
            let sum: &mut (f64, f64) = mix.entry(id.clone()).or_default();
            *sum = (sum.0 + calls, sum.1 + ms);
        }
        Mix(mix)
    }

    /// Removes the trial's own statements, by their texts.
    pub(super) fn without_own(
        mut self,
        texts: &BTreeMap<String, String>,
        is_own: impl Fn(&str) -> bool,
    ) -> Mix {
        self.0.retain(|id, _| texts.get(id).is_none_or(|text| !is_own(text)));
        self
    }

    /// Milliseconds a call of a block, each statement weighted by its calls in the mix. A statement that was
    /// not called in the block counts with its time in the mix.
    fn latency(&self, block: &Block) -> f64 {
        let calls: f64 = self.0.values().map(|(calls, _)| calls).sum();
        let called = self.0.keys().any(|id| block.statements.contains_key(id));
        if !called {
            return f64::NAN;
        }
        let weighted = |(id, (calls, ms)): (&String, &(f64, f64))| match block.statements.get(id) {
            Some((of_block, ms)) => calls * ms / of_block,
            None => *ms,
        };
        self.0.iter().map(weighted).sum::<f64>() / calls
    }

    /// A block's value of a metric; NaN if it has none.
    pub(super) fn value(&self, block: &Block, measure: Measure) -> f64 {
        match measure {
            Measure::Latency => self.latency(block),
            Measure::Cpu if block.transactions > 0.0 => {
                block.cpu_ms.map_or(f64::NAN, |cpu| cpu / block.transactions)
            }
            Measure::Log if block.transactions > 0.0 => {
                block.log_bytes.map_or(f64::NAN, |bytes| bytes / 1e3 / block.transactions)
            }
            Measure::Cpu | Measure::Log => f64::NAN,
            Measure::Throughput => block.transactions / block.seconds,
        }
    }

    /// Statements with at least this part of the time.
    pub(super) fn heavy(&self, least: f64) -> Vec<String> {
        let total: f64 = self.0.values().map(|(_, ms)| ms).sum();
        self.0.iter().filter(|(_, (_, ms))| *ms >= least * total).map(|(id, _)| id.clone()).collect()
    }
}

/// True for a statement that this program sent, or may have sent: the ends of transactions cost nothing that
/// is compared.
pub(super) fn is_own(text: &str) -> bool {
    const BEGINS: [&str; 9] = [
        "alter system",
        "alter database",
        "begin",
        "commit",
        "create index",
        "create schema hardmeter",
        "drop index",
        "drop schema hardmeter",
        "set ",
    ];
    const PARTS: [&str; 8] = [
        "current_setting(",
        "hardmeter_",
        "pg_advisory",
        "pg_catalog.pg_",
        "pg_reload_conf(",
        "pg_stat_statements(",
        "pg_try_advisory",
        "set_config(",
    ];
    let text = text.trim_start().to_lowercase();
    BEGINS.iter().any(|begin| text.starts_with(begin)) || PARTS.iter().any(|part| text.contains(part))
}

/// CPU time of all processes of a server so far, in milliseconds: the postmaster, its children, and the children that it
/// has reaped.
fn server_cpu_ms(postmaster: i32) -> Option<f64> {
    // SAFETY: sysconf has no preconditions.
    let tick_ms = 1e3 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64;
    let stat = fs::read_to_string(format!("/proc/{postmaster}/stat")).ok()?;
    let (_, fields) = stat.rsplit_once(") ")?;
    let ticks = |at: usize| fields.split_whitespace().nth(at)?.parse::<f64>().ok();
    let reaped = ticks(13)? + ticks(14)?;
    let entries = fs::read_dir("/proc").ok()?.flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let children = pids.filter(|pid| *pid == postmaster || parent(*pid) == Some(postmaster));
    let running: u64 = children.filter_map(Task::read).map(|task| task.run_ns).sum();
    Some(reaped * tick_ms + running as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(statements: &[(&str, f64, f64)]) -> Block {
        let statements = statements.iter().map(|(id, calls, ms)| ((*id).to_owned(), (*calls, *ms))).collect();
        Block {
            seconds: 2.0,
            transactions: 10.0,
            cpu_ms: Some(30.0),
            log_bytes: Some(5e4),
            statements,
            ..Block::default()
        }
    }

    /// The slow statement takes half the time and is called twice as often: the mean over all calls would not
    /// change.
    #[test]
    fn latency_holds_the_mix() {
        let mix = Mix::of(&[block(&[("fast", 90.0, 90.0), ("slow", 10.0, 910.0)])]);
        assert_eq!(mix.value(&block(&[("fast", 90.0, 90.0), ("slow", 10.0, 910.0)]), Measure::Latency), 10.0);
        // 90 calls of 1 ms and 10 of 45.5 ms: 545 ms of 100 calls.
        let after = block(&[("fast", 80.0, 80.0), ("slow", 20.0, 910.0)]);
        assert_eq!(mix.value(&after, Measure::Latency), 5.45);
        // Statements that were not called count as before: (90 x 2 + 910) / 100.
        assert_eq!(mix.value(&block(&[("fast", 10.0, 20.0)]), Measure::Latency), 10.9);
        assert!(mix.value(&block(&[]), Measure::Latency).is_nan());
        assert_eq!(mix.value(&after, Measure::Cpu), 3.0);
        assert_eq!(mix.value(&after, Measure::Throughput), 5.0);
        // 50,000 bytes of 10 transactions.
        assert_eq!(mix.value(&after, Measure::Log), 5.0);
        assert!(mix.value(&Block { transactions: 1.0, ..Block::default() }, Measure::Log).is_nan());
        assert_eq!(mix.heavy(0.5), ["slow"]);
    }

    #[test]
    fn own_statements_are_left_out() {
        assert!(
            is_own("ALTER SYSTEM SET jit = 'off'")
                && is_own("SELECT x FROM public.pg_stat_statements(false)")
        );
        assert!(!is_own("SELECT id FROM orders") && !is_own("UPDATE settings SET a = $1"));
        let mix = Mix::of(&[block(&[("1", 1.0, 1.0), ("2", 1.0, 1.0)])]);
        let texts = [("1".to_owned(), "SELECT pg_reload_conf()".to_owned())].into();
        assert_eq!(mix.without_own(&texts, is_own).0.keys().collect::<Vec<_>>(), ["2"]);
    }

    #[test]
    fn blocks_are_differences_without_the_trial_itself() {
        let counters = |commits, own, calls, ms| Counters {
            at: Instant::now(),
            commits,
            rollbacks: 2.0,
            own,
            active: 1.0,
            cpu: Some(ms),
            log: Some(commits * 1e3),
            statements: [("1".to_owned(), (calls, ms))].into(),
        };
        let block = counters(110.0, 13.0, 5.0, 50.0).since(&counters(100.0, 10.0, 3.0, 20.0));
        assert_eq!((block.transactions, block.rollbacks, block.cpu_ms), (7.0, 0.0, Some(30.0)));
        assert_eq!((block.log_bytes, block.statements["1"]), (Some(10_000.0), (2.0, 30.0)));
        let reset = counters(1.0, 13.0, 0.0, 0.0).since(&counters(100.0, 10.0, 3.0, 20.0));
        assert_eq!((reset.transactions, reset.cpu_ms, reset.statements.len()), (0.0, None, 0));
    }

    #[test]
    fn a_few_transactions_of_the_trial_are_no_load() {
        let few = Block { total: 1003.0, ..Block::default() };
        let (idle, mix) = (vec![Block { total: 1000.0, ..few.clone() }, few.clone()], Mix::default());
        assert!(is_idle(&idle, &mix));
        assert!(!is_idle(&[Block { active: 1.0, ..few.clone() }], &mix), "a long statement");
        assert!(!is_idle(&[few.clone(), Block { total: 1090.0, ..few }], &mix));
        assert!(!is_idle(&idle, &Mix::of(&[block(&[("1", 1.0, 1.0)])])));
    }
}

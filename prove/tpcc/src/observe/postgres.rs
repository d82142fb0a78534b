//! Observes a PostgreSQL server during a run.

use super::processes::Process;
use super::server::{shown, Look, Server};
use crate::error::TpccError;
use hardmeter_session::{Session, Stop, Target};
use std::collections::BTreeMap;
use std::time::Duration;

/// PostgreSQL, over one connection.
pub struct Postgres {
    target: Target,
    stop: Stop,
    session: Session,
    first_process: Option<Process>,
    look: String,
}

impl Postgres {
    /// Connects. A request to `stop` cancels the running statement.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept the connection.
    pub fn open(target: &Target, stop: &Stop) -> Result<Postgres, TpccError> {
        let target = target.clone().named("hardmeter tpcc observer");
        let mut session = Session::open(&target, stop)?;
        session.leave_cpu();
        let version = session.query("asking for the version", "SHOW server_version_num")?;
        let version = version.single().and_then(|text| text.parse().ok()).unwrap_or(0);
        let first_process = first_process(&mut session)?;
        Ok(Postgres { target, stop: stop.clone(), session, first_process, look: look_statement(version) })
    }
}

impl Server for Postgres {
    fn first_process(&self) -> Option<Process> {
        self.first_process
    }

    fn settings(&mut self) -> Result<BTreeMap<String, String>, TpccError> {
        // Settings of this session, and those that the server derived ("override"), were not chosen.
        let sql = "SELECT name, current_setting(name) FROM pg_settings \
                   WHERE source NOT IN ('default', 'override', 'client', 'session') ORDER BY name";
        let answer = self.session.query("asking for settings", sql)?;
        let pair = |row: Vec<Option<String>>| match row.as_slice() {
            [Some(name), Some(value)] => Some((name.clone(), shown(name, value))),
            _ => None,
        };
        Ok(answer.rows.into_iter().filter_map(pair).collect())
    }

    fn database_bytes(&mut self) -> Result<u64, TpccError> {
        let sql = "SELECT pg_database_size(current_database())";
        let answer = self.session.query("asking for the size of the database", sql)?;
        Ok(answer.single().and_then(|bytes| bytes.parse().ok()).unwrap_or(0))
    }

    fn look(&mut self) -> Result<Look, TpccError> {
        let answer = self.session.query("asking for checkpoints", &self.look)?;
        let text =
            |column: usize| answer.rows.first().and_then(|row| row.get(column)?.clone()).unwrap_or_default();
        Ok(Look { last_checkpoint: text(0), requested: text(1).parse().unwrap_or(0), start: text(2) })
    }

    fn checkpoint(&mut self) -> Result<(), TpccError> {
        Ok(self.session.execute("writing a checkpoint", "CHECKPOINT")?)
    }

    fn reconnect(&mut self) -> Result<(), TpccError> {
        self.session = Session::open(&self.target, &self.stop)?;
        self.session.leave_cpu();
        self.first_process = first_process(&mut self.session)?;
        Ok(())
    }
}

/// The control file's redo position changes at the end of a checkpoint. The counters (in another view since version
/// 17) change at its start, but show who requested it.
fn look_statement(version: u32) -> String {
    let requested = match version {
        170_000.. => "(SELECT num_requested FROM pg_stat_checkpointer)",
        _ => "(SELECT checkpoints_req FROM pg_stat_bgwriter)",
    };
    format!("SELECT checkpoint_lsn, {requested}, pg_postmaster_start_time() FROM pg_control_checkpoint()")
}

/// The postmaster, if this session's backend runs on this machine. The server may be behind a tunnel or in a
/// container, where the same pid is another process here: its name and start time must match, too.
fn first_process(session: &mut Session) -> Result<Option<Process>, TpccError> {
    let sql = "SELECT extract(epoch FROM backend_start) FROM pg_stat_activity WHERE pid = pg_backend_pid()";
    let answer = session.query("asking for the backend's start", sql)?;
    let started =
        answer.single().and_then(|seconds| seconds.parse::<f64>().ok()).map(Duration::from_secs_f64);
    let backend = Process::of(session.backend().unsigned_abs());
    let (Some(started), Some(backend)) = (started, backend) else { return Ok(None) };
    let seen = backend.started_at().map(Duration::from_micros);
    // The kernel's boot time is exact only to a second, and the server's clock is read after the fork.
    let same_time = seen.is_some_and(|seen| seen.abs_diff(started) < Duration::from_secs(5));
    let named = ["postgres", "valgrind"].iter().any(|name| backend.title().contains(name));
    Ok(if same_time && named { backend.parent() } else { None })
}

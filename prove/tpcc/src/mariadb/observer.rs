//! Observes a MariaDB server during a run.

use super::load::{size, Mark};
use super::session::Session;
use super::sites::Sites;
use super::target::Target;
use crate::error::TpccError;
use crate::observe::{shown, Look, Process, Server};
use hardmeter_session::Stop;
use std::collections::BTreeMap;
use std::fs;

/// MariaDB over one connection; with several servers, the head.
pub struct Observer {
    target: Target,
    stop: Stop,
    session: Session,
    first_process: Option<Process>,
}

impl Observer {
    /// Connects. A request to `stop` cancels the running statement.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept the connection.
    pub fn open(target: &Target, stop: &Stop) -> Result<Observer, TpccError> {
        let mut session = Session::open(target, stop)?;
        let first_process = first_process(&mut session)?;
        Ok(Observer { target: target.clone(), stop: stop.clone(), session, first_process })
    }
}

impl Server for Observer {
    fn first_process(&self) -> Option<Process> {
        self.first_process
    }

    fn settings(&mut self) -> Result<BTreeMap<String, String>, TpccError> {
        let sql = "SELECT lower(variable_name), global_value FROM information_schema.system_variables \
                   WHERE global_value_origin NOT IN ('COMPILE-TIME', 'AUTO', 'ENVIRONMENT') ORDER BY 1";
        let rows = self.session.rows("asking for settings", sql)?;
        let pair = |row: Vec<Option<String>>| match row.as_slice() {
            [Some(name), Some(value)] => Some((name.clone(), shown(name, value))),
            _ => None,
        };
        Ok(rows.into_iter().filter_map(pair).collect())
    }

    /// InnoDB's own estimate, which lags by a few seconds.
    fn database_bytes(&mut self) -> Result<u64, TpccError> {
        let servers = Mark::of(&mut self.session)?.map_or(0, |mark| mark.layout.servers());
        let sites = Sites::of(&self.target, &mut self.session, servers)?;
        let mut sessions = sites.sessions(&self.stop);
        let mut bytes = 0;
        for site in sites.all() {
            bytes += size(sessions.at(site)?)?;
        }
        Ok(bytes)
    }

    /// InnoDB's checkpoints are fuzzy: it writes pages continuously, and the checkpoint's position advances with
    /// them. Who requested one is unknown.
    fn look(&mut self) -> Result<Look, TpccError> {
        let sql = "SELECT variable_value FROM information_schema.global_status \
                   WHERE variable_name = 'INNODB_LSN_LAST_CHECKPOINT'";
        let last_checkpoint = self.session.single("asking for checkpoints", sql)?.unwrap_or_default();
        // Compare processes, not start times, which are rounded to a second.
        let start = self.first_process.map_or_else(String::new, |process| format!("{process:?}"));
        Ok(Look { last_checkpoint, requested: 0, start })
    }

    fn checkpoint(&mut self) -> Result<(), TpccError> {
        self.session.execute("writing a checkpoint", "SET GLOBAL innodb_log_checkpoint_now = ON")
    }

    fn reconnect(&mut self) -> Result<(), TpccError> {
        self.session = Session::open(&self.target, &self.stop)?;
        self.first_process = first_process(&mut self.session)?;
        Ok(())
    }
}

/// The server's process, if it is on this machine: its pid file is readable, and the process has the expected name
/// and age.
fn first_process(session: &mut Session) -> Result<Option<Process>, TpccError> {
    let Some(file) = session.single("asking for the server's process", "SELECT @@pid_file")? else {
        return Ok(None);
    };
    let sql = "SELECT unix_timestamp() - variable_value FROM information_schema.global_status \
               WHERE variable_name = 'UPTIME'";
    let started = session.single("asking for the server's start", sql)?;
    let started: Option<f64> = started.and_then(|seconds| seconds.parse().ok());
    let pid = fs::read_to_string(file).ok().and_then(|text| text.trim().parse().ok());
    let (Some(started), Some(process)) = (started, pid.and_then(Process::of)) else { return Ok(None) };
    let named = ["mariadbd", "mysqld", "valgrind"].iter().any(|name| process.title().contains(name));
    // The server counts from when it is ready, which a recovery delays.
    let seen = process.started_at().map(|micros| micros as f64 / 1e6);
    let same_time = seen.is_some_and(|seen| seen < started + 5.0);
    Ok((named && same_time).then_some(process))
}

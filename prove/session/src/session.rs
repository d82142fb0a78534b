//! One connection to a server, one backend.

use crate::error::{connect_error, statement_error, SessionError};
use crate::password::{from_file, without_password, Wanted};
use crate::stop::Stop;
use postgres::error::SqlState;
use postgres::{Client, Config, NoTls, SimpleQueryMessage};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The server and its database.
#[derive(Clone, Debug)]
pub struct Target {
    config: Config,
    described: String,
    /// By the connection string or the environment; otherwise the password file is read.
    password_given: bool,
}

impl Target {
    /// The target of a connection string in libpq's syntax.
    ///
    /// # Errors
    ///
    /// [`SessionError::BadTarget`] if libpq would not accept the text.
    pub fn parse(text: &str) -> Result<Target, SessionError> {
        let config: Config = text.parse().map_err(|error: postgres::Error| {
            use std::error::Error as _;
            let reason = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            SessionError::BadTarget { target: without_password(text), reason }
        })?;
        let password_given = config.get_password().is_some();
        let mut target = Target { config, described: String::new(), password_given };
        if target.config.get_hosts().is_empty() && target.config.get_hostaddrs().is_empty() {
            target.config.host_path("/var/run/postgresql");
        }
        if target.config.get_user().is_none() {
            if let Ok(user) = std::env::var("PGUSER").or_else(|_| std::env::var("USER")) {
                target.config.user(&user);
            }
        }
        if let (false, Ok(password)) = (target.password_given, std::env::var("PGPASSWORD")) {
            target.config.password(password);
            target.password_given = true;
        }
        target.complete();
        Ok(target)
    }

    /// The target behind a unix socket.
    pub fn socket(folder: &Path, port: u16, user: &str, database: &str) -> Target {
        let mut config = Config::new();
        config.host_path(folder).port(port).user(user).dbname(database);
        // Throwaway servers accept their owner.
        let mut target = Target { config, described: String::new(), password_given: true };
        target.complete();
        target
    }

    /// The same server, another database.
    pub fn with_database(&self, database: &str) -> Target {
        let mut target = self.clone();
        target.config.dbname(database);
        target.complete();
        target
    }

    /// Sets the application name of its sessions: pg_stat_activity.application_name.
    pub fn named(mut self, application: &str) -> Target {
        self.config.application_name(application);
        self
    }

    /// Adds startup options to its sessions, as PGOPTIONS does: `-c work_mem=64MB`. Later ones win.
    pub fn with_options(&self, options: &str) -> Target {
        let mut target = self.clone();
        match target.config.get_options().map(str::to_owned) {
            Some(before) => target.config.options(&format!("{before} {options}")),
            None => target.config.options(options),
        };
        target
    }

    /// The connection parameters, for own implementations of the protocol. They contain the password: never print
    /// them.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The database's name.
    pub fn database(&self) -> &str {
        self.config.get_dbname().or(self.config.get_user()).unwrap_or("postgres")
    }

    /// The same for programs with libpq: environment variables, without the password.
    pub fn environment(&self) -> Vec<(String, OsString)> {
        use postgres::config::Host;
        let mut variables = vec![("PGDATABASE".to_owned(), self.database().into())];
        let mut add = |name: &str, value: OsString| variables.push((name.to_owned(), value));
        if let Some(user) = self.config.get_user() {
            add("PGUSER", user.into());
        }
        if let Some(port) = self.config.get_ports().first() {
            add("PGPORT", port.to_string().into());
        }
        match self.config.get_hosts().first() {
            Some(Host::Unix(path)) => add("PGHOST", path.into()),
            Some(Host::Tcp(name)) => add("PGHOST", name.into()),
            None => {}
        }
        variables
    }

    /// The database and the server, as text.
    pub fn description(&self) -> &str {
        &self.described
    }

    /// Fills in the description, and the password from the password file.
    fn complete(&mut self) {
        use postgres::config::Host;
        let host = match self.config.get_hosts().first() {
            Some(Host::Unix(path)) => path.display().to_string(),
            Some(Host::Tcp(name)) => name.clone(),
            None => "the server".into(),
        };
        self.described = format!("{} at {host}", self.database());
        if !self.password_given {
            let port = self.config.get_ports().first().copied().unwrap_or(5432);
            let user = self.config.get_user().unwrap_or("postgres");
            let wanted = Wanted { host: &host, port, database: self.database(), user };
            if let Some(password) = from_file(wanted) {
                self.config.password(password);
            }
        }
    }
}

/// The result of a statement: its rows, as the server's texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Column by column; `None` is NULL.
    pub rows: Vec<Vec<Option<String>>>,
}

impl Answer {
    /// A fingerprint: SHA-256 of rows ended by a line feed, of columns ended by a tab, NULL as `\N`.
    pub fn digest(&self) -> String {
        let mut hash = Sha256::new();
        for row in &self.rows {
            for column in row {
                hash.update(column.as_deref().unwrap_or("\\N").as_bytes());
                hash.update(b"\t");
            }
            hash.update(b"\n");
        }
        hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The one value of the one row.
    pub fn single(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

/// The cost of one execution of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Time from sending it to the end of its answer.
    pub wall: Duration,
    /// CPU time of the backend; `None` if the server's processes are not visible from here.
    pub cpu: Option<Duration>,
}

/// One connection, one backend.
pub struct Session {
    client: Client,
    backend: i32,
    number: u64,
    stop: Stop,
    timeout: Option<Duration>,
    cpu_wanted: bool,
}

impl Session {
    /// Connects.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server does not accept the connection.
    pub fn open(target: &Target, stop: &Stop) -> Result<Session, SessionError> {
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let mut config = target.config.clone();
        config.connect_timeout(Duration::from_secs(20));
        if config.get_application_name().is_none() {
            config.application_name("hardmeter");
        }
        let client = config.connect(NoTls).map_err(|error| connect_error(&target.described, &error))?;
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let mut session =
            Session { client, backend: 0, number, stop: stop.clone(), timeout: None, cpu_wanted: true };
        // Answers are compared as texts: these settings affect them, and a role may have changed them.
        session.execute(
            "preparing the session",
            "SET client_encoding = 'UTF8'; SET DateStyle = 'ISO, YMD'; SET extra_float_digits = 1; \
             SET search_path = public, pg_catalog",
        )?;
        let pid = session.query("asking for the backend", "SELECT pg_catalog.pg_backend_pid()")?;
        session.backend = pid.single().and_then(|pid| pid.parse().ok()).unwrap_or_default();
        Ok(session)
    }

    /// Limits the time of each statement.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server refuses the statement, the connection is lost, or `stop` was requested.
    pub fn set_timeout(&mut self, timeout: Duration) -> Result<(), SessionError> {
        self.execute(
            "setting the time limit",
            &format!("SET statement_timeout = {}", timeout.as_millis().max(1)),
        )?;
        self.timeout = Some(timeout);
        Ok(())
    }

    /// Runs statements and discards their rows. `what` describes them in messages: "loading orders".
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server refuses the statement, the connection is lost, or `stop` was requested.
    pub fn execute(&mut self, what: &str, sql: &str) -> Result<(), SessionError> {
        let stop = self.stop.clone();
        let guard = stop.begin(self.number, self.client.cancel_token());
        if guard.is_none() {
            return Err(SessionError::Interrupted { what: what.to_owned() });
        }
        let result = self.client.batch_execute(sql);
        drop(guard);
        result.map_err(|error| self.explain(what, &error))
    }

    /// Runs statements, each in a message of its own. Citus refuses some of its functions, and changes of distributed
    /// tables, in a message of several statements.
    ///
    /// # Errors
    ///
    /// [`SessionError`] as [`Session::execute`]; the statements after the refused one are not sent.
    pub fn execute_each<S: AsRef<str>>(
        &mut self,
        what: &str,
        statements: impl IntoIterator<Item = S>,
    ) -> Result<(), SessionError> {
        statements.into_iter().try_for_each(|sql| self.execute(what, sql.as_ref()))
    }

    /// Runs one statement by the simple protocol.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server refuses the statement, the connection is lost, or `stop` was requested.
    pub fn query(&mut self, what: &str, sql: &str) -> Result<Answer, SessionError> {
        self.measured(what, sql).map(|(answer, _)| answer)
    }

    /// Runs one statement and measures it.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server refuses the statement, the connection is lost, or `stop` was requested.
    pub fn measured(&mut self, what: &str, sql: &str) -> Result<(Answer, Cost), SessionError> {
        let stop = self.stop.clone();
        let guard = stop.begin(self.number, self.client.cancel_token());
        if guard.is_none() {
            return Err(SessionError::Interrupted { what: what.to_owned() });
        }
        let before = self.cpu();
        let begin = Instant::now();
        let result = self.client.simple_query(sql);
        let wall = begin.elapsed();
        drop(guard);
        let messages = result.map_err(|error| self.explain(what, &error))?;
        let cpu = before.and_then(|before| self.cpu()?.checked_sub(before));
        let mut answer = Answer::default();
        for message in messages {
            if let SimpleQueryMessage::Row(row) = message {
                answer.rows.push((0..row.len()).map(|at| row.get(at).map(String::from)).collect());
            }
        }
        Ok((answer, Cost { wall, cpu }))
    }

    /// Copies rows into a table. `next` appends rows in the statement's COPY format, and returns true while there
    /// may be more.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the server refuses the statement, the connection is lost, or `stop` was requested.
    pub fn copy_in(
        &mut self,
        what: &str,
        sql: &str,
        next: &mut dyn FnMut(&mut Vec<u8>) -> bool,
    ) -> Result<u64, SessionError> {
        let interrupted = || SessionError::Interrupted { what: what.to_owned() };
        let stop = self.stop.clone();
        let guard = stop.begin(self.number, self.client.cancel_token());
        if guard.is_none() {
            return Err(interrupted());
        }
        let copied = (|| {
            let mut writer = self.client.copy_in(sql)?;
            let mut buffer = Vec::with_capacity(1 << 16);
            let mut more = true;
            while more && !stop.asked() {
                buffer.clear();
                more = next(&mut buffer);
                if writer.write_all(&buffer).is_err() {
                    break; // the error is reported at the end
                }
            }
            // An unfinished copy is aborted when the writer is dropped.
            if stop.asked() {
                Ok(None)
            } else {
                writer.finish().map(Some)
            }
        })();
        drop(guard);
        match copied {
            Ok(Some(rows)) => Ok(rows),
            Ok(None) => Err(interrupted()),
            Err(error) => Err(self.explain(what, &error)),
        }
    }

    /// CPU time of the backend so far, once it is idle: it has cleanup work after its answer. `None` if its process
    /// is not visible: a server on another machine, or in another namespace.
    pub fn cpu(&self) -> Option<Duration> {
        const PATIENCE: Duration = Duration::from_millis(100);
        if !self.cpu_wanted {
            return None;
        }
        let begin = Instant::now();
        let mut last = schedule_time(self.backend)?;
        loop {
            std::thread::sleep(Duration::from_micros(200));
            let now = schedule_time(self.backend)?;
            if now == last || begin.elapsed() > PATIENCE {
                return Some(now);
            }
            last = now;
        }
    }

    /// Stops recording CPU time.
    pub fn leave_cpu(&mut self) {
        self.cpu_wanted = false;
    }

    /// The backend's process.
    pub fn backend(&self) -> i32 {
        self.backend
    }

    fn explain(&self, what: &str, error: &postgres::Error) -> SessionError {
        if error.code() == Some(&SqlState::QUERY_CANCELED) {
            let what = what.to_owned();
            return match self.timeout {
                _ if self.stop.asked() => SessionError::Interrupted { what },
                Some(timeout) => SessionError::TimedOut { what, seconds: timeout.as_secs() },
                None => statement_error(&what, error),
            };
        }
        statement_error(what, error)
    }
}

/// Creates the database if it does not exist; returns true if it did.
///
/// # Errors
///
/// [`SessionError`] if the server does not accept the connection, or refuses to create the database.
pub fn ensure_database(target: &Target, stop: &Stop) -> Result<bool, SessionError> {
    let refused = match Session::open(target, stop) {
        Ok(_) => return Ok(false),
        Err(error) => error,
    };
    // If the usual database refuses too, report the error of the intended one.
    let Ok(mut session) = Session::open(&target.with_database("postgres"), stop) else { return Err(refused) };
    let name = target.database();
    let sql = format!("SELECT 1 FROM pg_database WHERE datname = '{}'", name.replace('\'', "''"));
    if session.query("looking for the database", &sql)?.single().is_some() {
        return Err(refused);
    }
    let sql = format!("CREATE DATABASE \"{}\"", name.replace('"', "\"\""));
    session.execute(&format!("making the database {name}"), &sql)?;
    Ok(true)
}

/// CPU time of a process so far: the first number of `/proc/PID/schedstat`, in nanoseconds. Only for a process
/// named as PostgreSQL's are: the number may belong to another process here if the server is in another namespace.
fn schedule_time(pid: i32) -> Option<Duration> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    if !name.contains("postgres") && !name.contains("memcheck") && !name.contains("valgrind") {
        return None;
    }
    parse_schedule(&fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?)
}

fn parse_schedule(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_described_without_secrets() {
        let target = Target::parse("host=/tmp/socket user=me password=secret dbname=tpch").unwrap();
        assert_eq!(target.described, "tpch at /tmp/socket");
        assert_eq!(target.with_database("other").described, "other at /tmp/socket");
        assert_eq!(Target::socket(Path::new("/s"), 5433, "postgres", "db").described, "db at /s");
        let variables = Target::socket(Path::new("/s"), 5433, "postgres", "db").environment();
        let expected = [("PGDATABASE", "db"), ("PGUSER", "postgres"), ("PGPORT", "5433"), ("PGHOST", "/s")];
        assert_eq!(variables, expected.map(|(name, value)| (name.to_owned(), OsString::from(value))));
        let error = Target::parse("host=/tmp nonsense=1").unwrap_err();
        assert!(error.to_string().contains("nonsense"), "{error}");
    }

    #[test]
    fn nobody_listening_is_told_with_a_remedy() {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::socket(folder.path(), 5432, "postgres", "postgres");
        let error = Session::open(&target, &Stop::new()).err().expect("no server there");
        assert!(error.to_string().starts_with("cannot connect to postgres at "), "{error}");
        assert!(error.remedy().contains("runs and listens"), "{}", error.remedy());
    }

    #[test]
    fn schedule_times_are_nanoseconds() {
        assert_eq!(parse_schedule("1500000000 22 33\n"), Some(Duration::from_millis(1500)));
        assert_eq!(parse_schedule(""), None);
        assert_eq!(schedule_time(std::process::id() as i32), None, "this test is not a backend");
    }

    #[test]
    fn digests_tell_null_from_empty_and_columns_apart() {
        let answer = |columns: &[Option<&str>]| Answer {
            rows: vec![columns.iter().map(|column| column.map(String::from)).collect()],
        };
        let all =
            [answer(&[None]), answer(&[Some("")]), answer(&[Some("ab")]), answer(&[Some("a"), Some("b")])];
        let mut digests: Vec<String> = all.iter().map(Answer::digest).collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), 4);
    }
}

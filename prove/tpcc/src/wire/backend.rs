//! P connections of one thread of the driver.

use super::connect::open;
use super::connection::{lost, Connection};
use super::failure::MORE_FILES;
use super::poll::Poll;
use super::script::{Script, Scripts};
use super::socket::cancel;
use crate::backend::{Backend, Backends};
use crate::error::TpccError;
use crate::settings::Settings;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Failure, Outcome, Work};
use hardmeter_session::{SessionError, Target};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Time limits for opening a connection: at the start, and for reconnecting, when others wait meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);
const PATIENCE_AGAIN: Duration = Duration::from_secs(5);

/// A PostgreSQL, and how its transactions are written.
pub struct PostgresBackends {
    target: Target,
    scripts: Arc<dyn Scripts>,
    settings: Arc<Settings>,
    /// server_version, set by the first connection.
    version: Arc<OnceLock<String>>,
}

impl PostgresBackends {
    /// Opens no connection yet.
    pub fn new(target: Target, scripts: impl Scripts + 'static) -> PostgresBackends {
        let (settings, version) = Default::default();
        PostgresBackends { target, scripts: Arc::new(scripts), settings, version }
    }

    /// The same, with settings of its connections; they replace Hardmeter's own of the same name.
    pub fn with_settings(self, settings: &Settings) -> PostgresBackends {
        PostgresBackends { target: settings.on(&self.target), settings: Arc::new(settings.clone()), ..self }
    }
}

impl Backends for PostgresBackends {
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        let mut backend = PostgresBackend {
            target: self.target.clone(),
            scripts: self.scripts.clone(),
            settings: self.settings.clone(),
            poll: Poll::new().map_err(|error| cannot_wait(&self.target, error))?,
            slots: Vec::with_capacity(connections as usize),
            early: Vec::new(),
            clock,
        };
        for _ in 0..connections {
            let version = backend.add()?;
            self.version.get_or_init(|| version);
        }
        Ok(Box::new(backend))
    }

    fn description(&self) -> String {
        let host = self.target.description();
        let host = host.split_once(" at ").map_or(host, |(_, host)| host);
        // "15.20 (Debian 15.20-0+deb12u1)"
        let version = self.version.get().and_then(|version| version.split_whitespace().next());
        let version = version.map_or_else(String::new, |version| format!(" {version}"));
        format!("PostgreSQL{version} at {host}, {}", self.scripts.description())
    }
}

/// A connection, or why it was lost, with its script.
struct Slot {
    connection: Result<Connection, Failure>,
    script: Box<dyn Script>,
    /// The backend process of the latest connection.
    process: i32,
    /// Whether the poll reports when it is writable.
    watched: bool,
}

/// See [`PostgresBackends`].
struct PostgresBackend {
    target: Target,
    scripts: Arc<dyn Scripts>,
    settings: Arc<Settings>,
    poll: Poll,
    slots: Vec<Slot>,
    /// Completions before the first wait.
    early: Vec<Completion>,
    clock: Clock,
}

impl PostgresBackend {
    /// Opens another connection; returns the server's version.
    fn add(&mut self) -> Result<String, TpccError> {
        let opened = open(&self.target, &*self.scripts, &self.settings, PATIENCE)?;
        let (version, process) = (opened.version.clone(), opened.process);
        let connection = Connection::new(opened);
        self.watch(&connection, self.slots.len())?;
        let script = self.scripts.new_script();
        self.slots.push(Slot { connection: Ok(connection), script, process, watched: false });
        Ok(version)
    }

    fn watch(&self, connection: &Connection, number: usize) -> Result<(), TpccError> {
        self.poll.add(connection.socket(), number).map_err(|error| cannot_wait(&self.target, error))
    }

    /// A connection is lost: reports its work; later requests fail at once.
    fn lose(&mut self, number: usize, failure: Failure, done: &mut Vec<Completion>) {
        let slot = &mut self.slots[number];
        // Closing its socket removes it from the poll.
        if let Ok(mut connection) = std::mem::replace(&mut slot.connection, Err(failure.clone())) {
            done.extend(connection.lost(ConnectionId(number as u32), failure, self.clock.now()));
        }
        slot.watched = false;
    }

    /// Makes the poll report a clogged connection when it becomes writable, and only then.
    fn watch_writing(&mut self, number: usize) -> Result<(), Failure> {
        let slot = &mut self.slots[number];
        let Ok(connection) = &slot.connection else { return Ok(()) };
        if connection.is_clogged() != slot.watched {
            slot.watched = connection.is_clogged();
            self.poll
                .watch_writing(connection.socket(), number, slot.watched)
                .map_err(|error| lost(error.to_string()))?;
        }
        Ok(())
    }

    /// Processes an event of a connection.
    fn go_on(&mut self, ready: super::poll::Ready, done: &mut Vec<Completion>) -> Result<(), Failure> {
        let slot = &mut self.slots[ready.number];
        // An event of a connection that was lost since.
        let Ok(connection) = &mut slot.connection else { return Ok(()) };
        if ready.writable {
            connection.send()?;
        }
        if ready.readable {
            let number = ConnectionId(ready.number as u32);
            connection.receive(ready.closed, number, &self.clock, &mut *slot.script, done)?;
        }
        self.watch_writing(ready.number)
    }
}

impl Backend for PostgresBackend {
    fn connections(&self) -> u32 {
        self.slots.len() as u32
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        let number = connection.0 as usize;
        let slot = &mut self.slots[number];
        let begun = match &mut slot.connection {
            Ok(open) => open.begin(work, now, &mut *slot.script),
            Err(failure) => {
                let outcome = Outcome::Failed(failure.clone());
                self.early.push(Completion { connection, work, dispatched: now, answered: now, outcome });
                return;
            }
        };
        if let Err(failure) = begun.and_then(|()| self.watch_writing(number)) {
            let mut done = std::mem::take(&mut self.early);
            self.lose(number, failure, &mut done);
            self.early = done;
        }
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let time = if self.early.is_empty() {
            until.map(|until| until.saturating_sub(self.clock.now()))
        } else {
            done.append(&mut self.early);
            Some(Micros::ZERO)
        };
        self.poll.wait(time).map_err(|error| cannot_wait(&self.target, error))?;
        let mut place = 0;
        while let Some(ready) = self.poll.ready(place) {
            place += 1;
            if let Err(failure) = self.go_on(ready, done) {
                self.lose(ready.number, failure, done);
            }
        }
        Ok(())
    }

    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError> {
        let number = connection.0 as usize;
        let opened = open(&self.target, &*self.scripts, &self.settings, PATIENCE_AGAIN)?;
        let process = opened.process;
        let connection = Connection::new(opened);
        self.watch(&connection, number)?;
        let slot = &mut self.slots[number];
        debug_assert!(
            !matches!(&slot.connection, Ok(old) if old.is_busy()),
            "only what is free or lost is opened again"
        );
        if let Ok(mut old) = std::mem::replace(&mut slot.connection, Ok(connection)) {
            old.terminate();
        }
        (slot.process, slot.watched) = (process, false);
        Ok(())
    }

    fn server_processes(&self) -> Vec<u32> {
        let local = |slot: &Slot| slot.connection.as_ref().map_or(true, |open| open.place.is_local());
        let processes: Vec<u32> = self.slots.iter().map(|slot| slot.process as u32).collect();
        // A socket may belong to another PID namespace, where the numbers mean other processes.
        let seen = |process: &u32| Path::new(&format!("/proc/{process}")).exists();
        if self.slots.iter().all(local) && processes.iter().any(seen) {
            processes
        } else {
            Vec::new()
        }
    }
}

impl Drop for PostgresBackend {
    /// Running statements are cancelled, so that the server does not continue them; idle connections get a
    /// Terminate message.
    fn drop(&mut self) {
        // A server that does not accept one cancel request is going down; skip the others.
        let mut heard = true;
        for connection in self.slots.iter_mut().filter_map(|slot| slot.connection.as_mut().ok()) {
            if connection.is_busy() && heard {
                let config = self.target.config();
                heard = cancel(&connection.place, config, connection.process, connection.key).is_ok();
            }
            connection.terminate();
        }
    }
}

/// The kernel refused a resource that every connection needs, usually because of too many open files.
fn cannot_wait(target: &Target, error: rustix::io::Errno) -> TpccError {
    SessionError::Connect {
        target: target.description().to_owned(),
        reason: format!("its connections cannot be waited for: {error}"),
        remedy: MORE_FILES.into(),
    }
    .into()
}

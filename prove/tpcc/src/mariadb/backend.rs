//! MariaDB as a [`Backend`]: a thread for each connection, which blocks on its answers.
//!
//! MariaDB's protocol allows one outstanding statement, and its client crate blocks. So threads replace the event
//! loop that PostgreSQL has; the bars on the driver's cost apply to PostgreSQL only.

use super::client::{self, Trouble};
use super::load::Mark;
use super::session::Session;
use super::signed::SignedConnection;
use super::target::Target;
use super::{fault, procedures};
use crate::backend::{Backend, Backends, Style};
use crate::error::TpccError;
use crate::origin::Origin;
use crate::settings::Settings;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Failure, FailureKind, Input, Kind, Outcome, Work};
use hardmeter_session::{SessionError, Stop};
use mysql::prelude::Queryable;
use mysql::{Conn, Error};
use std::sync::mpsc::{channel, Receiver, Sender};
use std::thread::JoinHandle;

/// A database of TPC-C in MariaDB, and how the transactions on it are written.
#[derive(Clone, Debug)]
pub struct Mariadb {
    target: Target,
    style: Style,
    spread: bool,
    description: String,
    /// The comment after the statements of each transaction, in the order of [`Kind::ALL`].
    comments: [String; 5],
    /// The settings of its connections that the user chose, as a statement; empty without any.
    chosen: String,
}

impl Mariadb {
    /// The database that `hardmeter tpcc load` filled. Installs the procedures if `style` needs them.
    ///
    /// # Errors
    ///
    /// [`TpccError`] if the server does not accept the connection, or refuses the procedures.
    pub fn new(target: &Target, style: Style, stop: &Stop) -> Result<Mariadb, TpccError> {
        let mut session = Session::open(target, stop)?;
        let servers = Mark::of(&mut session)?.map_or(0, |mark| mark.layout.servers());
        if style == Style::Procedures {
            procedures::install(&mut session)?;
        }
        let version = session.single("asking for the version", "SELECT version()")?.unwrap_or_default();
        // "10.11.19-MariaDB-0+deb12u1": what follows is the packager's.
        let version = version.split('-').next().unwrap_or_default();
        let spread = match servers {
            0 => String::new(),
            servers => format!(" over {servers} servers by Spider"),
        };
        let written = match style {
            Style::Procedures => "procedures",
            Style::Client => "client SQL",
        };
        let description = format!("MariaDB {version}{spread}, {}, {written}", target.description());
        let comments = Default::default();
        let (target, chosen) = (target.clone(), String::new());
        Ok(Mariadb { target, style, spread: servers > 0, description, comments, chosen })
    }

    /// The same, with statements that carry their origin in a comment.
    pub fn signed(mut self, origin: Option<Origin>) -> Mariadb {
        self.comments = Kind::ALL.map(|kind| origin.map_or_else(String::new, |origin| origin.comment(kind)));
        self
    }

    /// The same, with settings of its connections.
    ///
    /// # Errors
    ///
    /// [`TpccError::Setting`] if a session of this server cannot have them.
    pub fn with_settings(mut self, settings: &Settings) -> Result<Mariadb, TpccError> {
        let statement = |(name, value): (&str, &str)| {
            // Numbers and keywords are written as they are; MariaDB does not take '4194304' for a number.
            let plain = !value.is_empty() && value.chars().all(|c| c.is_ascii_alphanumeric() || c == '.');
            let quoted = || format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"));
            format!("SESSION {name} = {}", if plain { value.to_owned() } else { quoted() })
        };
        let all: Vec<String> = settings.iter().map(statement).collect();
        if all.is_empty() {
            return Ok(self);
        }
        self.chosen = format!("SET {}", all.join(", "));
        self.target.connect()?.query_drop(&self.chosen).map_err(|error| TpccError::Setting {
            reason: fault::plain(&error),
            remedy: "use a value that SET SESSION NAME = VALUE accepts; a variable of the whole server is set there (SET \
                     GLOBAL NAME = VALUE, or its option file), and left out here"
                .into(),
        })?;
        Ok(self)
    }

    fn connect(&self) -> Result<Conn, TpccError> {
        let mut connection = self.target.connect()?;
        let mut settings = "SET SESSION autocommit = 0".to_owned();
        if self.spread {
            // A transaction over several servers is committed by two-phase commit, or on none.
            settings += ", SESSION spider_internal_xa = 1";
        }
        for settings in [&settings, &self.chosen].into_iter().filter(|settings| !settings.is_empty()) {
            connection
                .query_drop(settings)
                .map_err(|error| fault::running("preparing a connection", &error))?;
        }
        Ok(connection)
    }
}

impl Backends for Mariadb {
    fn open(&self, connections: u32, clock: Clock) -> Result<Box<dyn Backend>, TpccError> {
        Ok(Box::new(Pool::open(self, connections, clock)?))
    }

    fn description(&self) -> String {
        self.description.clone()
    }
}

/// A message to a thread. Nearly always work: boxing it would cost more than the memory.
#[allow(clippy::large_enum_variant)]
enum Order {
    Work(Work, Micros),
    Reconnect(Sender<Result<(), TpccError>>),
}

/// A connection's thread, and the way to it.
struct Worker {
    orders: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
    busy: bool,
}

/// The connections of one thread of the driver.
struct Pool {
    workers: Vec<Worker>,
    done: Receiver<Completion>,
    /// Work that could not be sent to its thread.
    refused: Vec<Completion>,
    clock: Clock,
}

impl Pool {
    fn open(database: &Mariadb, connections: u32, clock: Clock) -> Result<Pool, TpccError> {
        let (completions, done) = channel();
        let mut workers = Vec::with_capacity(connections as usize);
        for number in 0..connections {
            let mut line = Line {
                database: database.clone(),
                id: ConnectionId(number),
                connection: Some(database.connect()?),
                clock,
            };
            let (orders, taken) = channel();
            let completions = completions.clone();
            let thread = std::thread::Builder::new()
                .name(format!("mariadb-{number}"))
                .spawn(move || line.serve(&taken, &completions))
                .map_err(|error| fault::running("starting a connection's thread", &Error::IoError(error)))?;
            workers.push(Worker { orders: Some(orders), thread: Some(thread), busy: false });
        }
        Ok(Pool { workers, done, refused: Vec::new(), clock })
    }

    fn take(&mut self, completion: Completion, done: &mut Vec<Completion>) {
        self.workers[completion.connection.0 as usize].busy = false;
        done.push(completion);
    }
}

impl Backend for Pool {
    fn connections(&self) -> u32 {
        self.workers.len() as u32
    }

    fn submit(&mut self, connection: ConnectionId, work: Work, now: Micros) {
        let worker = &mut self.workers[connection.0 as usize];
        debug_assert!(!worker.busy, "a connection has one piece of work at a time");
        worker.busy = true;
        let Some(orders) = &worker.orders else { return };
        if let Err(returned) = orders.send(Order::Work(work, now)) {
            // Only a thread that panicked hangs up.
            if let Order::Work(work, now) = returned.0 {
                let outcome = Outcome::Failed(lost("the connection's thread has ended"));
                self.refused.push(Completion { connection, work, dispatched: now, answered: now, outcome });
            }
        }
    }

    fn wait(&mut self, until: Option<Micros>, done: &mut Vec<Completion>) -> Result<(), TpccError> {
        let had = done.len();
        for completion in std::mem::take(&mut self.refused) {
            self.take(completion, done);
        }
        if done.len() == had {
            let first = match until {
                // No work is outstanding: a wait without time limit would not end.
                None if self.workers.iter().all(|worker| !worker.busy) => return Ok(()),
                None => self.done.recv().ok(),
                Some(until) => {
                    let left = until.saturating_sub(self.clock.now());
                    self.done.recv_timeout(left.into()).ok()
                }
            };
            if let Some(completion) = first {
                self.take(completion, done);
            }
        }
        while let Ok(completion) = self.done.try_recv() {
            self.take(completion, done);
        }
        Ok(())
    }

    fn reconnect(&mut self, connection: ConnectionId) -> Result<(), TpccError> {
        let ended = || SessionError::ServerGone { what: "connecting again".into() }.into();
        let (answer, answered) = channel();
        let worker = &self.workers[connection.0 as usize];
        let Some(orders) = &worker.orders else { return Err(ended()) };
        orders.send(Order::Reconnect(answer)).map_err(|_| ended())?;
        answered.recv().map_err(|_| ended())?
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for worker in &mut self.workers {
            worker.orders = None;
            // One that still waits for the server ends when the server answers.
            if !worker.busy {
                if let Some(thread) = worker.thread.take() {
                    let _ = thread.join();
                }
            }
        }
    }
}

/// A connection with its thread.
struct Line {
    database: Mariadb,
    id: ConnectionId,
    connection: Option<Conn>,
    clock: Clock,
}

impl Line {
    fn serve(&mut self, orders: &Receiver<Order>, completions: &Sender<Completion>) {
        while let Ok(order) = orders.recv() {
            match order {
                Order::Reconnect(answer) => {
                    self.connection = None;
                    let connected = self.database.connect().map(|connection| {
                        self.connection = Some(connection);
                    });
                    // The caller may have left.
                    let _ = answer.send(connected);
                }
                Order::Work(work, dispatched) => {
                    let outcome = self.transact(&work.input);
                    let answered = self.clock.now();
                    let connection = self.id;
                    let done = Completion { connection, work, dispatched, answered, outcome };
                    if completions.send(done).is_err() {
                        return;
                    }
                }
            }
        }
    }

    fn transact(&mut self, input: &Input) -> Outcome {
        let Some(connection) = &mut self.connection else {
            return Outcome::Failed(lost("the connection is not open"));
        };
        let comment = &self.database.comments[input.kind().index()];
        let mut signed = SignedConnection { connection, comment };
        let result = match self.database.style {
            Style::Client => client::transact(&mut signed, input),
            Style::Procedures => procedures::transact(&mut signed, input),
        };
        match result {
            Ok(outcome) => outcome,
            Err(trouble) => Outcome::Failed(self.clear_up(&trouble)),
        }
    }

    /// Rolls back a failed transaction, so that the connection can be used again; after a lock wait timeout MariaDB
    /// has rolled back one statement only.
    fn clear_up(&mut self, trouble: &Trouble) -> Failure {
        let mut failure = trouble.failure();
        let rolled_back =
            self.connection.as_mut().is_some_and(|connection| connection.query_drop("ROLLBACK").is_ok());
        if failure.kind != FailureKind::ConnectionLost && !rolled_back {
            failure.kind = FailureKind::ConnectionLost;
        }
        if failure.kind == FailureKind::ConnectionLost {
            self.connection = None;
        }
        failure
    }
}

fn lost(message: &str) -> Failure {
    Failure { kind: FailureKind::ConnectionLost, code: String::new(), message: message.to_owned() }
}

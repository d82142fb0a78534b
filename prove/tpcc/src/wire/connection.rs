//! An open connection: sends and receives bytes, and runs the script of a transaction.

use super::answer::{Answer, BadAnswer, Status};
use super::connect::Opened;
use super::replies::Replies;
use super::requests::Requests;
use super::script::{Script, Step};
use super::socket::Place;
use crate::time::{Clock, Micros};
use crate::work::{Completion, ConnectionId, Failure, FailureKind, Outcome, Work};
use postgres_protocol::message::backend::READY_FOR_QUERY_TAG;
use rustix::fd::OwnedFd;
use rustix::io::Errno;

/// Sync, and Terminate: a tag and their length.
const SYNC: [u8; 5] = [b'S', 0, 0, 0, 4];
const TERMINATE: [u8; 5] = [b'X', 0, 0, 0, 4];

/// Work in progress on a connection.
#[derive(Debug)]
struct Task {
    work: Work,
    dispatched: Micros,
    /// Its outcome, while the transaction block that it left open is rolled back.
    ended: Option<Outcome>,
}

/// See the module.
pub(super) struct Connection {
    socket: OwnedFd,
    pub place: Place,
    pub process: i32,
    pub key: i32,
    answer: Answer,
    out: Vec<u8>,
    /// Bytes of `out` that were sent.
    sent: usize,
    task: Option<Task>,
}

impl Connection {
    pub fn new(opened: Opened) -> Connection {
        Connection {
            socket: opened.socket,
            place: opened.place,
            process: opened.process,
            key: opened.key,
            answer: opened.answer,
            out: Vec::with_capacity(4096),
            sent: 0,
            task: None,
        }
    }

    pub fn socket(&self) -> &OwnedFd {
        &self.socket
    }

    /// Whether it has unfinished work.
    pub fn is_busy(&self) -> bool {
        self.task.is_some()
    }

    /// Whether unsent bytes wait for the socket to become writable.
    pub fn is_clogged(&self) -> bool {
        self.sent < self.out.len()
    }

    /// Starts work, and sends the first round trip. `Err`: the connection is lost, with the reason;
    /// [`Connection::lost`] returns its work.
    pub fn begin(&mut self, work: Work, dispatched: Micros, script: &mut dyn Script) -> Result<(), Failure> {
        debug_assert!(self.task.is_none(), "a connection does one thing at a time");
        self.out.clear();
        self.sent = 0;
        script.begin(&work.input, &mut Requests::new(&mut self.out));
        self.task = Some(Task { work, dispatched, ended: None });
        self.out.extend_from_slice(&SYNC);
        self.send()
    }

    /// Sends pending bytes, as many as the socket takes.
    pub fn send(&mut self) -> Result<(), Failure> {
        while self.is_clogged() {
            match rustix::net::send(&self.socket, &self.out[self.sent..], rustix::net::SendFlags::NOSIGNAL) {
                Ok(bytes) => self.sent += bytes,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(error) => return Err(self.farewell(error)),
            }
        }
        Ok(())
    }

    /// Reads received bytes, continues the work, and appends its completion. `closed`: the other side has closed
    /// the connection, so read to its end.
    pub fn receive(
        &mut self,
        closed: bool,
        number: ConnectionId,
        clock: &Clock,
        script: &mut dyn Script,
        done: &mut Vec<Completion>,
    ) -> Result<(), Failure> {
        loop {
            let space = self.answer.space();
            let room = space.len();
            let bytes = match rustix::io::read(&self.socket, space) {
                Ok(0) => return Err(self.last_words(Errno::CONNRESET)),
                Ok(bytes) => bytes,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(self.last_words(error)),
            };
            self.answer.came(bytes);
            while let Some(status) = self.scan()? {
                if let Some((task, outcome)) = self.answered(status, script)? {
                    let Task { work, dispatched, .. } = task;
                    let answered = clock.now();
                    done.push(Completion { connection: number, work, dispatched, answered, outcome });
                }
            }
            let drained = bytes < room;
            if drained && self.task.is_none() {
                // Asynchronous messages: notices, changed settings.
                self.answer.next();
            }
            // A short read has emptied the socket; only an end can follow.
            if drained && !closed {
                return Ok(());
            }
        }
    }

    /// The work that was lost with the connection, if any.
    pub fn lost(&mut self, number: ConnectionId, failure: Failure, answered: Micros) -> Option<Completion> {
        let Task { work, dispatched, .. } = self.task.take()?;
        Some(Completion { connection: number, work, dispatched, answered, outcome: Outcome::Failed(failure) })
    }

    /// Sends Terminate, unless a message is half sent.
    pub fn terminate(&mut self) {
        if !self.is_clogged() {
            // If the server does not receive it, it detects the end of the connection.
            let _ = rustix::net::send(&self.socket, &TERMINATE, rustix::net::SendFlags::NOSIGNAL);
        }
    }

    /// Processes received bytes up to ReadyForQuery.
    fn scan(&mut self) -> Result<Option<Status>, Failure> {
        let status = self.answer.scan().map_err(|error| lost(told(&error)))?;
        match self.answer.refusal() {
            // The server ends the session with it, without a ReadyForQuery.
            Some(refusal) if refusal.ends_session() => Err(refusal.failure()),
            _ => Ok(status),
        }
    }

    /// A round trip has been answered. Gives the work when it is over.
    fn answered(
        &mut self,
        status: Status,
        script: &mut dyn Script,
    ) -> Result<Option<(Task, Outcome)>, Failure> {
        let Some(task) = &mut self.task else {
            return Err(lost(told(&BadAnswer::Message(READY_FOR_QUERY_TAG))));
        };
        if let Some(outcome) = task.ended.take() {
            // This was the rollback of a transaction that is over.
            self.answer.next();
            if status != Status::Idle {
                return Err(lost("a transaction could not be rolled back".into()));
            }
            return Ok(self.task.take().map(|task| (task, outcome)));
        }
        self.out.clear();
        self.sent = 0;
        let mut requests = Requests::new(&mut self.out);
        let step = match self.answer.refusal() {
            Some(refusal) => {
                let outcome = script.refused(&task.work.input, refusal);
                Step::Done(outcome.unwrap_or_else(|| Outcome::Failed(refusal.failure())))
            }
            None => match script.reply(&task.work.input, &Replies::new(&self.answer), &mut requests) {
                Ok(step) => step,
                Err(unexpected) => Step::Done(lasting(unexpected.to_string())),
            },
        };
        self.answer.next();
        match step {
            Step::More => {}
            Step::Done(outcome) if status == Status::Idle => {
                self.out.clear();
                return Ok(self.task.take().map(|task| (task, outcome)));
            }
            Step::Done(outcome) => {
                // A transaction that is rolled back here was not committed, even if the script assumed so.
                let outcome = match outcome {
                    Outcome::Failed(_) | Outcome::RolledBack => outcome,
                    _ => lasting("the transaction was left open at its end, and was rolled back".into()),
                };
                task.ended = Some(outcome);
                self.out.clear();
                Requests::new(&mut self.out).rollback();
            }
        }
        self.out.extend_from_slice(&SYNC);
        self.send()?;
        Ok(None)
    }

    /// A message could not be sent. The server may have sent the reason before it closed the connection.
    fn farewell(&mut self, error: Errno) -> Failure {
        while let Ok(bytes @ 1..) = rustix::io::read(&self.socket, self.answer.space()) {
            self.answer.came(bytes);
            if let Err(failure) = self.scan() {
                return failure;
            }
        }
        self.last_words(error)
    }

    /// The server's last refusal, if any; else this error.
    fn last_words(&self, error: Errno) -> Failure {
        let told = self.answer.last_words().map(|refusal| refusal.failure());
        let failure = told.unwrap_or_else(|| match error {
            Errno::PIPE | Errno::CONNRESET => lost("the server closed the connection".into()),
            error => lost(error.to_string()),
        });
        Failure { kind: FailureKind::ConnectionLost, ..failure }
    }
}

/// The failure of a lost connection.
pub(super) fn lost(message: String) -> Failure {
    Failure { kind: FailureKind::ConnectionLost, code: String::new(), message }
}

fn lasting(message: String) -> Outcome {
    Outcome::Failed(Failure { kind: FailureKind::Lasting, code: String::new(), message })
}

fn told(error: &BadAnswer) -> String {
    error.to_string()
}

//! Concurrent sessions, each on a thread of its own so that one can wait for another; and an observer that queries
//! the server which session waits for which.

use crate::error::TpccError;
use hardmeter_session::{Session, SessionError, Stop, Target};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Longer than any step that is not blocked for good; a session's own limit is lower, so that the server's error
/// comes first.
const PATIENCE: Duration = Duration::from_secs(90);
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);

type Task = Box<dyn FnOnce(&mut Session) + Send>;

/// A session with the thread that reads its answers. Its transaction is rolled back on drop.
pub(super) struct Player {
    /// The server's process.
    pub(super) backend: i32,
    tasks: Sender<Task>,
}

impl Player {
    /// Connects, and sets the session's name: T1, T2 ...
    pub(super) fn enter(
        name: &str,
        target: &Target,
        settings: &str,
        stop: &Stop,
    ) -> Result<Player, TpccError> {
        let mut session = Session::open(&target.clone().named(&format!("hardmeter acid {name}")), stop)?;
        session.leave_cpu();
        session.execute("preparing the session", settings)?;
        session.set_timeout(STATEMENT_LIMIT)?;
        let backend = session.backend();
        let (tasks, todo) = channel::<Task>();
        std::thread::spawn(move || {
            for task in todo {
                task(&mut session);
            }
        });
        Ok(Player { backend, tasks })
    }

    /// Starts an action without waiting for it.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Session) -> Result<T, TpccError> + Send + 'static,
    ) -> Act<T> {
        let (answers, answer) = channel();
        let task: Task = Box::new(move |session| {
            // The caller may have returned after an error of another session.
            let _ = answers.send(what(session));
        });
        // If the thread has ended, the other end of the answer is dropped as well, which `Act` reports.
        let _ = self.tasks.send(task);
        Act { answer, done: None }
    }

    /// Runs an action and waits for it.
    pub(super) fn act<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Session) -> Result<T, TpccError> + Send + 'static,
    ) -> Result<T, TpccError> {
        self.begin(what).end()
    }

    /// Runs statements and discards their rows.
    pub(super) fn say(&self, what: &'static str, sql: impl Into<String>) -> Result<(), TpccError> {
        let sql = sql.into();
        self.act(move |session| Ok(session.execute(what, &sql)?))
    }
}

/// An action in progress in another session.
pub(super) struct Act<T> {
    answer: Receiver<Result<T, TpccError>>,
    done: Option<Result<T, TpccError>>,
}

impl<T> Act<T> {
    /// Waits for its end, and keeps the result.
    pub(super) fn wait(&mut self) -> Result<(), TpccError> {
        if self.done.is_none() {
            match self.answer.recv_timeout(PATIENCE) {
                Ok(done) => self.done = Some(done),
                Err(RecvTimeoutError::Timeout) => return Err(stuck()),
                Err(RecvTimeoutError::Disconnected) => return Err(gone()),
            }
        }
        Ok(())
    }

    /// Waits for its end and returns the result.
    pub(super) fn end(mut self) -> Result<T, TpccError> {
        self.wait()?;
        self.done.unwrap_or_else(|| Err(gone()))
    }

    fn has_ended(&mut self) -> bool {
        if self.done.is_none() {
            self.done = match self.answer.try_recv() {
                Ok(done) => Some(done),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(gone())),
            };
        }
        self.done.is_some()
    }
}

fn stuck() -> TpccError {
    let what = "a step of a scenario".to_owned();
    TpccError::Session(SessionError::TimedOut { what, seconds: PATIENCE.as_secs() })
}

/// A thread without an answer has panicked; its message is on standard error.
fn gone() -> TpccError {
    TpccError::Session(SessionError::ServerGone { what: "a session of a scenario was at work".into() })
}

/// The state of an action in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has ended without waiting for the other.
    Ended,
    /// It waits for the other; the server's name of the lock.
    Waits(String),
}

/// The statement that names the lock for which a process waits while another one holds it. On Citus both are
/// processes of the coordinator, and those that wait for each other are on the nodes.
fn who_waits(distributed: bool, waiting: i32, holding: i32) -> String {
    if distributed {
        return format!(
            "SELECT 'a lock of a node' FROM citus_lock_waits \
             WHERE citus_pid_for_gpid(waiting_gpid) = {waiting} AND citus_pid_for_gpid(blocking_gpid) = {holding}"
        );
    }
    format!(
        "SELECT wait_event FROM pg_stat_activity WHERE pid = {waiting} AND state = 'active' \
         AND wait_event_type = 'Lock' AND {holding} = ANY (pg_blocking_pids(pid))"
    )
}

/// Polls until an action has ended or waits for a lock that `other` holds.
pub(super) fn watch<T>(
    onlooker: &mut Session,
    distributed: bool,
    act: &mut Act<T>,
    who: &Player,
    other: &Player,
) -> Result<Fate, TpccError> {
    let sql = who_waits(distributed, who.backend, other.backend);
    let begin = Instant::now();
    loop {
        if act.has_ended() {
            return Ok(Fate::Ended);
        }
        let answer = onlooker.query("looking who waits", &sql)?;
        if let Some(lock) = answer.single() {
            return Ok(Fate::Waits(lock.to_owned()));
        }
        if begin.elapsed() > PATIENCE {
            return Err(stuck());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

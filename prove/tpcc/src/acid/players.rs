//! Sessions that act side by side: each on a thread of its own, so that one may wait for another; and an onlooker who asks
//! the server which of them waits, and for whom.

use crate::error::TpccError;
use hardmeter_session::{Session, SessionError, Stop, Target};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender, TryRecvError};
use std::time::{Duration, Instant};

/// Longer than any step takes that is not held up for good; a session's own limit is below it, so that the server's word
/// comes first.
const PATIENCE: Duration = Duration::from_secs(90);
const STATEMENT_LIMIT: Duration = Duration::from_secs(60);

type Task = Box<dyn FnOnce(&mut Session) + Send>;

/// A session, and the thread that waits for its answers. When it goes, its transaction is rolled back.
pub(super) struct Player {
    /// The server's process.
    pub(super) backend: i32,
    tasks: Sender<Task>,
}

impl Player {
    /// Connects, and tells the server its name: T1, T2 ...
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

    /// Begins something, and does not wait for it.
    pub(super) fn begin<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Session) -> Result<T, TpccError> + Send + 'static,
    ) -> Act<T> {
        let (answers, answer) = channel();
        let task: Task = Box::new(move |session| {
            // The caller may have gone: after an error of another player.
            let _ = answers.send(what(session));
        });
        // A thread that is gone drops the other end of the answer as well, which the act notices.
        let _ = self.tasks.send(task);
        Act { answer, done: None }
    }

    /// Does something, and waits for it.
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

/// Something that a player has begun.
pub(super) struct Act<T> {
    answer: Receiver<Result<T, TpccError>>,
    done: Option<Result<T, TpccError>>,
}

impl<T> Act<T> {
    /// Waits for its end, and keeps what it gave.
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

    /// Waits for its end; gives what it gave.
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

/// A thread ends before its answer only by a panic, whose message is on standard error.
fn gone() -> TpccError {
    TpccError::Session(SessionError::ServerGone { what: "a session of a scenario was at work".into() })
}

/// What becomes of something that was begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It has ended without waiting for the other.
    Ended,
    /// It waits for the other: the lock that it waits for, as the server calls it.
    Waits(String),
}

/// Looks until something that was begun has ended or waits for a lock that `other` holds.
pub(super) fn watch<T>(
    onlooker: &mut Session,
    act: &mut Act<T>,
    who: &Player,
    other: &Player,
) -> Result<Fate, TpccError> {
    let sql = format!(
        "SELECT wait_event FROM pg_stat_activity WHERE pid = {} AND state = 'active' AND wait_event_type = 'Lock' \
         AND {} = ANY (pg_blocking_pids(pid))",
        who.backend, other.backend
    );
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

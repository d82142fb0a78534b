//! Several sessions that share a list of tasks.

use crate::{Session, SessionError, Stop, Target};
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// Runs tasks in several sessions; each takes the next task when it has finished one. After an error no session
/// takes another task, and the first error is returned. Returns the duration in seconds.
///
/// # Errors
///
/// The first error of `run`, or that of a connection.
pub fn side_by_side<T: Send, E: From<SessionError> + Send>(
    target: &Target,
    jobs: usize,
    stop: &Stop,
    tasks: impl IntoIterator<Item = T>,
    run: impl Fn(&mut Session, T) -> Result<(), E> + Sync,
) -> Result<f64, E> {
    side_by_side_over(jobs, || Ok(Session::open(target, stop)?), tasks, run)
}

/// As [`side_by_side`], over sessions of any type.
///
/// # Errors
///
/// The first error of `open` or `run`.
pub fn side_by_side_over<S, T: Send, E: Send>(
    jobs: usize,
    open: impl Fn() -> Result<S, E> + Sync,
    tasks: impl IntoIterator<Item = T>,
    run: impl Fn(&mut S, T) -> Result<(), E> + Sync,
) -> Result<f64, E> {
    let begin = Instant::now();
    let tasks: Mutex<VecDeque<T>> = Mutex::new(tasks.into_iter().collect());
    let failed: Mutex<Option<E>> = Mutex::new(None);
    let next = || tasks.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || -> Result<(), E> {
        let mut session = open()?;
        while failed.lock().unwrap_or_else(PoisonError::into_inner).is_none() {
            let Some(task) = next() else { break };
            run(&mut session, task)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(|| {
                if let Err(error) = work() {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            });
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(error) => Err(error),
        None => Ok(begin.elapsed().as_secs_f64()),
    }
}

/// Default number of loading sessions on this machine: the server parses rows and builds indexes in one process per
/// session. More than four bring no gain, since most rows are of one table.
pub fn usual_jobs() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().clamp(1, 4))
}

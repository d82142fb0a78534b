//! Waiting within a block of a trial.

use super::guard::Guards;
use super::TryError;
use hardmeter_session::Stop;
use std::time::{Duration, Instant};

/// Waits for some seconds. If the server is on this machine, `guards` has the minimum of free memory, which
/// is checked once a second.
///
/// # Errors
/// [`TryError::Interrupted`] as soon as `stop` is requested; [`TryError::Guard`] if memory is short.
pub(super) fn pause(seconds: f64, stop: &Stop, guards: Option<&Guards>) -> Result<(), TryError> {
    let end = Instant::now() + Duration::from_secs_f64(seconds.max(0.0));
    let mut read = Instant::now();
    while Instant::now() < end {
        check(stop)?;
        if let Some(guards) = guards.filter(|_| read.elapsed() >= Duration::from_secs(1)) {
            guards.memory()?;
            read = Instant::now();
        }
        std::thread::sleep(Duration::from_millis(20).min(end.saturating_duration_since(Instant::now())));
    }
    Ok(())
}

/// # Errors
/// [`TryError::Interrupted`] if `stop` was requested.
pub(super) fn check(stop: &Stop) -> Result<(), TryError> {
    match stop.asked() {
        true => Err(TryError::Interrupted),
        false => Ok(()),
    }
}

//! A dead man's switch: a separate process that undoes a trial's changes when the tuner dies.
//!
//! ```text
//!   tuner                               watchdog (own session, this program started again)
//!   start() ── spawn ─────────────────> watch(): "ready" on its standard output
//!   changes the server, A, B, A, ...    waits for its standard input to end
//!   done() ── "done", end of input ───> ends
//!   (killed) ── end of input ─────────> undoes the entry, with retries while the server restarts, then ends
//! ```
//!
//! Invariants:
//! 1. The tuner changes nothing before the watchdog has printed "ready"; by then it knows the server's
//!    address.
//! 2. Only the tuner has the pipe's write end: it is closed when a command is started, so that a load that
//!    outlives the tuner does not keep the watchdog waiting.
//! 3. The watchdog terminates only backends that the entry names, and only while they hold the trial's locks.
//! 4. It ignores SIGINT, SIGTERM and SIGHUP: at such a request, there may be something to undo.

use super::control::Lock;
use super::copy::close_abandoned;
use super::ledger::Ledger;
use super::restart::{reach, restart_lock};
use super::undo::{close, system_identifier};
use super::TryError;
use hardmeter_session::Target;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The tuner's side.
#[derive(Debug)]
pub struct Watchdog(Child);

/// The longest time for a watchdog to start.
const START: Duration = Duration::from_secs(30);

impl Watchdog {
    /// Starts a watchdog, and waits until it is ready.
    ///
    /// # Errors
    /// If the command cannot be started, or ends before it is ready.
    pub fn start(mut command: Command) -> Result<Watchdog, TryError> {
        let failed = |reason: String| TryError::Watchdog { reason };
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // SAFETY: one system call, safe between fork and exec; a child of fork leads no group, so it succeeds.
        unsafe {
            command.pre_exec(|| {
                libc::setsid();
                Ok(())
            });
        }
        let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
        let output = child.stdout.take();
        let (send, receive) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            if let Some(output) = output {
                let _ = BufReader::new(output).read_line(&mut line);
            }
            let _ = send.send(line);
        });
        let line = receive.recv_timeout(START).unwrap_or_default();
        if line.trim() == "ready" {
            return Ok(Watchdog(child));
        }
        let _ = child.kill();
        let mut said = String::new();
        if let Some(errors) = &mut child.stderr {
            let _ = errors.read_to_string(&mut said);
        }
        let _ = child.wait();
        Err(failed(if said.trim().is_empty() {
            "it did not report that it is ready".into()
        } else {
            said.trim().into()
        }))
    }

    /// True if it is still running.
    pub(super) fn watches(&mut self) -> bool {
        matches!(self.0.try_wait(), Ok(None))
    }

    /// Releases it: there is nothing to undo.
    pub(super) fn done(mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"done\n");
        }
        let _ = self.0.wait();
    }
}

/// The watchdog's side: waits for the end of `input`, and undoes the trial's entry unless "done" was
/// received. The caller has checked that the target is known; the line "ready" is written to `output`.
///
/// # Errors
/// If the entry could not be undone within `patience`; it stays open.
pub fn watch(
    target: &Target,
    ledger: &Ledger,
    token: &str,
    (input, output): (&mut dyn Read, &mut dyn Write),
    patience: Duration,
) -> Result<(), TryError> {
    watch_by(&|| undo(target, ledger, token), (input, output), patience)
}

/// The same with another way to undo.
pub(super) fn watch_by(
    undo: &dyn Fn() -> Result<(), TryError>,
    (input, output): (&mut dyn Read, &mut dyn Write),
    patience: Duration,
) -> Result<(), TryError> {
    ignore_signals();
    let _ = output.write_all(b"ready\n").and_then(|()| output.flush());
    let mut said = Vec::new();
    let _ = input.read_to_end(&mut said);
    if said.ends_with(b"done\n") {
        return Ok(());
    }
    let end = Instant::now() + patience;
    loop {
        match undo() {
            Ok(()) => return Ok(()),
            Err(error) if Instant::now() >= end => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(300)),
        }
    }
}

fn undo(target: &Target, ledger: &Ledger, token: &str) -> Result<(), TryError> {
    // A trial without an entry has changed nothing.
    let open = || Ok::<_, TryError>(ledger.entry_of(token)?.filter(|entry| entry.closed.is_none()));
    let Some(entry) = open()? else { return Ok(()) };
    if entry.begin.copy().is_some() {
        // The server was not changed: only its copy is removed, which needs no session.
        const WHY: &str = "removed by the watchdog: the tuner had died";
        close_abandoned(ledger, Some(token), Duration::from_secs(60), WHY)?;
        return match open()? {
            Some(entry) => Err(TryError::NoEntry { entry: entry.begin.entry }),
            None => Ok(()),
        };
    }
    let restarts = match entry.begin.restart() {
        Some(_) => restart_lock(ledger, Duration::from_secs(60))?,
        None => None,
    };
    if entry.begin.restart().is_some() && restarts.is_none() {
        return open()?.map_or(Ok(()), |entry| Err(TryError::NoEntry { entry: entry.begin.entry }));
    }
    // A server that does not start with the change is started as it was before.
    let (mut control, _) = reach(target, (ledger, Some(token)), restarts.as_ref())?;
    if system_identifier(&mut control)? != entry.begin.server {
        return Err(TryError::NoEntry { entry: entry.begin.entry });
    }
    control.end_holders(&entry.begin.backends)?;
    control.lock_within(Lock::Trial, Duration::from_secs(3))?;
    control.lock_within(Lock::Build, Duration::from_secs(3))?;
    // A new trial or a user may have closed it during the wait for the locks.
    let Some(entry) = open()? else { return Ok(()) };
    close(&mut control, target, ledger, &entry, "undone by the watchdog: the tuner was killed").map(drop)
}

fn ignore_signals() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_is_not_ready_is_an_error_with_its_words() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such server >&2; exit 1"]);
        let error = Watchdog::start(command).unwrap_err();
        assert_eq!(error.to_string(), "the watchdog cannot be started: no such server");
    }

    #[test]
    fn one_that_is_ready_hears_that_it_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("said");
        let mut command = Command::new("sh");
        command.args(["-c", &format!("echo ready; cat > {}", file.display())]);
        let mut watchdog = Watchdog::start(command).unwrap();
        assert!(watchdog.watches());
        watchdog.done();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "done\n");
    }

    #[test]
    fn a_watchdog_that_heard_done_asks_no_server() {
        let target = Target::socket(std::path::Path::new("/nowhere"), 1, "nobody", "none");
        let ledger = Ledger::at("/nowhere/ledger.jsonl".into());
        let mut output = Vec::new();
        let (mut input, out): (&[u8], &mut dyn Write) = (b"done\n", &mut output);
        watch(&target, &ledger, "1-1", (&mut input, out), Duration::ZERO).unwrap();
        assert_eq!(output, b"ready\n");
    }
}

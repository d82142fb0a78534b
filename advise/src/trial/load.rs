//! The load of a trial: the server's own traffic, or a command.
//!
//! ```text
//!   Traffic      nothing is started
//!   Throughout   start() ──> runs, and again whenever it ends ──────────> ended with the value
//!   PerBlock     run() in each block: start ──> its end is the block's ──> next block
//! ```
//!
//! Invariants:
//! 1. A command is the leader of a process group, which is terminated as a whole: no part of it outlives the
//!    trial.
//! 2. Its output goes to one file, which is truncated at its first start.

use super::TryError;
use hardmeter_session::Stop;
use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The source of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// The server's own traffic.
    Traffic,
    /// A command that runs from the first to the last block, restarted whenever it ends.
    Throughout(LoadCommand),
    /// A command that is one block: the same work each time.
    PerBlock(LoadCommand),
}

impl Load {
    /// The same load for another server.
    pub(super) fn at(&self, target: &hardmeter_session::Target) -> Load {
        let there = |command: &LoadCommand| LoadCommand {
            words: command.words.clone(),
            environment: target.environment(),
        };
        match self {
            Load::Traffic => Load::Traffic,
            Load::Throughout(command) => Load::Throughout(there(command)),
            Load::PerBlock(command) => Load::PerBlock(there(command)),
        }
    }

    /// Whether a block ends when its command does.
    pub(super) fn is_per_block(&self) -> bool {
        matches!(self, Load::PerBlock(_))
    }
}

/// A command that works on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadCommand {
    /// The program and its arguments.
    pub words: Vec<OsString>,
    /// Environment variables that are added for it: the server's address.
    pub environment: Vec<(String, OsString)>,
}

const PAUSE: Duration = Duration::from_millis(20);

/// A running load.
pub struct Running(Kind);

enum Kind {
    Traffic,
    Throughout(Repeated),
    PerBlock { command: LoadCommand, log: PathBuf },
}

/// A command that is restarted whenever it ends.
struct Repeated {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    log: PathBuf,
}

#[derive(Default)]
struct Shared {
    ends: AtomicBool,
    failures: AtomicU64,
    status: Mutex<String>,
}

impl Running {
    /// Starts a load; its output goes to `log`.
    ///
    /// # Errors
    /// If the command cannot be started, or the file cannot be written.
    pub fn start(load: &Load, log: PathBuf) -> Result<Running, TryError> {
        if let Some(folder) = log.parent() {
            let _ = std::fs::create_dir_all(folder); // opening the file reports the error
        }
        let kind = match load {
            Load::Traffic => Kind::Traffic,
            Load::PerBlock(command) => {
                File::create(&log).map_err(|error| failed(&error.to_string(), &log))?;
                Kind::PerBlock { command: command.clone(), log }
            }
            Load::Throughout(command) => {
                File::create(&log).map_err(|error| failed(&error.to_string(), &log))?;
                let first = Group::start(command, &log).map_err(|error| failed(&error.to_string(), &log))?;
                let shared = Arc::new(Shared::default());
                let thread = std::thread::spawn({
                    let (shared, command, log) = (shared.clone(), command.clone(), log.clone());
                    move || repeat(first, &command, &log, &shared)
                });
                Kind::Throughout(Repeated { shared, thread: Some(thread), log })
            }
        };
        Ok(Running(kind))
    }

    /// True if a block ends with its command.
    pub(super) fn is_per_block(&self) -> bool {
        matches!(self.0, Kind::PerBlock { .. })
    }

    /// Runs the command of a block to its end; returns its seconds, and its failure.
    ///
    /// # Errors
    /// If it could not be started; [`TryError::Interrupted`] if `stop` was requested.
    pub(super) fn run_block(&self, stop: &Stop) -> Result<(f64, Option<TryError>), TryError> {
        let Kind::PerBlock { command, log } = &self.0 else { return Ok((0.0, None)) };
        let begun = Instant::now();
        let mut group = Group::start(command, log).map_err(|error| failed(&error.to_string(), log))?;
        loop {
            match group.0.try_wait() {
                Ok(Some(status)) => {
                    let failure = (!status.success()).then(|| self.failure());
                    return Ok((begun.elapsed().as_secs_f64(), failure));
                }
                Ok(None) if stop.asked() => return Err(TryError::Interrupted),
                Ok(None) => std::thread::sleep(PAUSE),
                Err(error) => return Err(failed(&error.to_string(), log)),
            }
        }
    }

    /// The number of failures so far of the command that runs throughout.
    pub(super) fn failures(&self) -> u64 {
        match &self.0 {
            Kind::Throughout(repeated) => repeated.shared.failures.load(Ordering::SeqCst),
            _ => 0,
        }
    }

    /// # Errors
    /// If the command that runs throughout has failed.
    pub fn still_works(&self) -> Result<(), TryError> {
        match self.failures() {
            0 => Ok(()),
            _ => Err(self.failure()),
        }
    }

    /// The error of a command that failed.
    pub(super) fn failure(&self) -> TryError {
        match &self.0 {
            Kind::Throughout(repeated) => {
                let status = repeated.shared.status.lock().unwrap_or_else(PoisonError::into_inner);
                failed(&status, &repeated.log)
            }
            Kind::PerBlock { log, .. } => failed("it ended with an error", log),
            Kind::Traffic => failed("there is none", Path::new("")),
        }
    }
}

fn failed(status: &str, log: &Path) -> TryError {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let last = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing");
    TryError::LoadFailed { status: status.into(), log: format!("\"{last}\" at last ({})", log.display()) }
}

/// Repeats the command until it must end. If it fails at once, restarts are delayed.
fn repeat(first: Group, command: &LoadCommand, log: &Path, shared: &Shared) {
    let mut group = Some(first);
    while !shared.ends.load(Ordering::SeqCst) {
        let status = match &mut group {
            Some(running) => match running.0.try_wait() {
                Ok(None) => {
                    std::thread::sleep(PAUSE);
                    continue;
                }
                Ok(Some(status)) => said(status),
                Err(error) => Some(error.to_string()),
            },
            None => None,
        };
        if let Some(status) = status {
            *shared.status.lock().unwrap_or_else(PoisonError::into_inner) = status;
            shared.failures.fetch_add(1, Ordering::SeqCst);
            std::thread::sleep(Duration::from_millis(200));
        }
        match Group::start(command, log) {
            Ok(next) => group = Some(next),
            Err(error) => {
                *shared.status.lock().unwrap_or_else(PoisonError::into_inner) = error.to_string();
                shared.failures.fetch_add(1, Ordering::SeqCst);
                group = None;
                std::thread::sleep(Duration::from_millis(200));
            }
        }
    }
}

/// A description of an unsuccessful exit status.
fn said(status: ExitStatus) -> Option<String> {
    (!status.success()).then(|| status.to_string())
}

impl Drop for Repeated {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Resets the signal mask that a child inherits: this program blocks signals that one of its threads waits
/// for, and a command with this mask would ignore SIGTERM. Safe between fork and exec.
pub(super) fn unblock_signals() {
    // SAFETY: a sigset_t of zeroes is a value, and the pointers are to it or null.
    unsafe {
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
}

/// A command and its process group.
struct Group(Child);

impl Group {
    fn start(load: &LoadCommand, log: &Path) -> io::Result<Group> {
        let Some((program, arguments)) = load.words.split_first() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "no command"));
        };
        let output = OpenOptions::new().create(true).append(true).open(log)?;
        let errors = output.try_clone()?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .envs(load.environment.iter().cloned())
            .stdin(Stdio::null())
            .stdout(output)
            .stderr(errors)
            .process_group(0);
        // SAFETY: system calls alone, safe between fork and exec: the command is ended when the trial dies.
        unsafe {
            command.pre_exec(|| {
                unblock_signals();
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM);
                Ok(())
            });
        }
        command.spawn().map(Group)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let Ok(pid) = i32::try_from(self.0.id()) else { return };
        // SAFETY: signals a group of this program's own child, which is not reaped before `wait`, or has been
        // reaped while the rest of its group still exists; for an empty group the call fails, which is
        // ignored.
        unsafe { libc::kill(-pid, libc::SIGTERM) };
        for _ in 0..100 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        // SAFETY: as above; the child still exists.
        unsafe { libc::kill(-pid, libc::SIGKILL) };
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> LoadCommand {
        let words = ["sh", "-c", script].map(OsString::from).to_vec();
        LoadCommand { words, environment: vec![("LOAD_WORD".into(), "no such table".into())] }
    }

    #[test]
    fn a_command_of_blocks_tells_how_it_ended() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("load.log");
        let of = |script| Running::start(&Load::PerBlock(shell(script)), log.clone()).unwrap();
        let failure = |script| of(script).run_block(&Stop::new()).unwrap().1;
        assert!(failure("true").is_none());
        let bad = failure("echo $LOAD_WORD; false").unwrap();
        assert!(bad.to_string().contains("\"no such table\" at last"), "{bad}");
        let stop = Stop::new();
        stop.ask();
        assert!(matches!(of("sleep 60").run_block(&stop), Err(TryError::Interrupted)));
    }

    #[test]
    fn a_command_has_no_blocked_signals() {
        // SAFETY: a mask of this thread alone, whose value lives.
        unsafe {
            let mut term: libc::sigset_t = std::mem::zeroed();
            libc::sigemptyset(&mut term);
            libc::sigaddset(&mut term, libc::SIGTERM);
            libc::pthread_sigmask(libc::SIG_BLOCK, &term, std::ptr::null_mut());
        }
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("load.log");
        let running =
            Running::start(&Load::PerBlock(shell("exec cat /proc/self/status")), log.clone()).unwrap();
        assert!(running.run_block(&Stop::new()).unwrap().1.is_none());
        let status = std::fs::read_to_string(log).unwrap();
        assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    }

    #[test]
    fn a_command_that_runs_throughout_is_started_again_and_ended_as_a_group() {
        let folder = tempfile::tempdir().unwrap();
        let (log, count) = (folder.path().join("load.log"), folder.path().join("count"));
        let script = format!("echo x >> {}; sleep 0.01", count.display());
        let running = Running::start(&Load::Throughout(shell(&script)), log.clone()).unwrap();
        let runs = || std::fs::read_to_string(&count).map_or(0, |text| text.lines().count());
        for _ in 0..6000 {
            if runs() >= 3 {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        assert!(runs() >= 3);
        assert_eq!(running.failures(), 0);
        drop(running);

        let pid = folder.path().join("pid");
        let script = format!("sleep 60 & echo $! > {}; wait", pid.display());
        let running = Running::start(&Load::Throughout(shell(&script)), log).unwrap();
        let started = || std::fs::read_to_string(&pid).ok().and_then(|text| text.trim().parse::<i32>().ok());
        while started().is_none() {
            std::thread::sleep(PAUSE);
        }
        drop(running);
        // The group was signalled, but only its leader is this program's child.
        let stat = format!("/proc/{}/stat", started().unwrap());
        let is_gone = || std::fs::read_to_string(&stat).map_or(true, |stat| stat.contains(") Z"));
        for _ in 0..3000 {
            if is_gone() {
                break;
            }
            std::thread::sleep(PAUSE);
        }
        assert!(is_gone(), "the sleep is gone");
    }
}

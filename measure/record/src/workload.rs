//! The profiled command: forked, but stopped before its exec until everything is ready.
//!
//! ```text
//! parent                                child
//!   fork  ------------------------------> waits at the gate (a pipe)
//!   opens events on the child's pid
//!   drops its rights, writes the file's head
//!   opens the gate ---------------------> drops to the invoking user, execs
//!   reads the result of the exec <------- closes the result pipe by exec, or writes errno into it
//! ```
//! `std::process::Command` cannot do this: its `spawn` returns only after the exec.

use crate::privileges::Identity;
use std::ffi::{CString, OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// The reason why a command could not be run.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No process for it.
    #[error("cannot start a process for {command:?}: {source}")]
    Fork {
        /// The command.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The program cannot be executed.
    #[error("cannot execute {command:?}: {source}")]
    Exec {
        /// The command.
        command: String,
        /// The system's reason.
        source: io::Error,
    },
    /// An argument holds a zero byte.
    #[error("the command {0:?} holds a zero byte")]
    ZeroByte(String),
    /// The command is empty.
    #[error("there is no command to run")]
    Empty,
}

impl WorkloadError {
    /// The remedy.
    pub fn remedy(&self) -> &'static str {
        match self {
            WorkloadError::Exec { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "check the spelling, or give the whole path after `--`"
            }
            WorkloadError::Exec { .. } => "check that the file is a program and that you may execute it",
            WorkloadError::Fork { .. } => "end other processes, or raise `ulimit -u`",
            WorkloadError::Empty => "give one after `--`",
            WorkloadError::ZeroByte(_) => "remove it",
        }
    }
}

/// A child process of the recorder.
#[derive(Debug)]
pub struct Workload {
    command: String,
    pid: libc::pid_t,
    /// Readable when the child has ended; `None` on kernels before 5.3.
    pidfd: Option<OwnedFd>,
    gate: Option<OwnedFd>,
    exec_result: Option<OwnedFd>,
    status: Option<ExitStatus>,
}

impl Workload {
    /// Forks a child that will execute `command` when released, as `user` if given.
    ///
    /// # Errors
    ///
    /// [`WorkloadError`] if the command is empty, contains a zero byte, or the fork fails.
    pub fn prepare(command: &[OsString], user: Option<&Identity>) -> Result<Workload, WorkloadError> {
        let program = command.first().ok_or(WorkloadError::Empty)?;
        Self::fork(program, &command[1..], None, user)
    }

    /// As [`Workload::prepare`], for a prepared command with its environment.
    ///
    /// # Errors
    ///
    /// [`WorkloadError`] if the command contains a zero byte, or the fork fails.
    pub fn prepare_command(
        command: &std::process::Command,
        user: Option<&Identity>,
    ) -> Result<Workload, WorkloadError> {
        let mut environment: std::collections::BTreeMap<OsString, OsString> = std::env::vars_os().collect();
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => environment.insert(name.to_os_string(), value.to_os_string()),
                None => environment.remove(name),
            };
        }
        let arguments: Vec<OsString> = command.get_args().map(OsStr::to_os_string).collect();
        Self::fork(command.get_program(), &arguments, Some(environment), user)
    }

    fn fork(
        program: &OsStr,
        arguments: &[OsString],
        environment: Option<std::collections::BTreeMap<OsString, OsString>>,
        user: Option<&Identity>,
    ) -> Result<Workload, WorkloadError> {
        let shown = program.to_string_lossy().into_owned();
        let text = |word: &OsStr| {
            CString::new(word.as_bytes())
                .map_err(|_| WorkloadError::ZeroByte(word.to_string_lossy().into_owned()))
        };
        // All allocations happen before the fork: the child may only make system calls.
        let mut words = vec![text(program)?];
        for argument in arguments {
            words.push(text(argument)?);
        }
        let pairs = environment
            .unwrap_or_else(|| std::env::vars_os().collect())
            .into_iter()
            .map(|(name, value)| {
                text(&OsString::from_vec([name.as_bytes(), b"=", value.as_bytes()].concat()))
            })
            .collect::<Result<Vec<CString>, WorkloadError>>()?;
        let pointers = |texts: &[CString]| -> Vec<*const libc::c_char> {
            texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
        };
        let (argv, envp) = (pointers(&words), pointers(&pairs));

        let failed = |source| WorkloadError::Fork { command: shown.clone(), source };
        let (gate_read, gate_write) = pipe().map_err(failed)?;
        let (result_read, result_write) = pipe().map_err(failed)?;
        // SAFETY: the child calls only async-signal-safe functions before it execs or exits.
        match unsafe { libc::fork() } {
            -1 => Err(failed(io::Error::last_os_error())),
            0 => unsafe {
                libc::close(gate_write.as_raw_fd());
                become_command(gate_read.as_raw_fd(), result_write.as_raw_fd(), &argv, &envp, user)
            },
            pid => {
                // SAFETY: a system call without memory arguments; the descriptor is new.
                let pidfd = unsafe {
                    match libc::syscall(libc::SYS_pidfd_open, pid, 0) {
                        fd if fd >= 0 => Some(OwnedFd::from_raw_fd(fd as libc::c_int)),
                        _ => None,
                    }
                };
                Ok(Workload {
                    command: shown,
                    pid,
                    pidfd,
                    gate: Some(gate_write),
                    exec_result: Some(result_read),
                    status: None,
                })
            }
        }
    }

    /// The child's process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The name that the kernel gives the process at its exec: the program's file name, 15 bytes at most.
    pub fn process_name(&self) -> String {
        let file = self.command.rsplit('/').next().unwrap_or_default();
        let mut end = file.len().min(15);
        while !file.is_char_boundary(end) {
            end -= 1;
        }
        file[..end].to_string()
    }

    /// Readable when the child has ended.
    pub fn pidfd(&self) -> Option<BorrowedFd<'_>> {
        self.pidfd.as_ref().map(AsFd::as_fd)
    }

    /// Makes the child execute its program; returns after the exec, or with its error.
    ///
    /// # Errors
    ///
    /// [`WorkloadError::Exec`] with the reason for which the program could not be executed.
    pub fn release(&mut self) -> Result<(), WorkloadError> {
        let (Some(gate), Some(result)) = (self.gate.take(), self.exec_result.take()) else { return Ok(()) };
        let exec_error = |source| WorkloadError::Exec { command: self.command.clone(), source };
        std::fs::File::from(gate).write_all(b"!").map_err(exec_error)?;
        let mut errno = Vec::new();
        std::fs::File::from(result).read_to_end(&mut errno).map_err(exec_error)?;
        match <[u8; 4]>::try_from(errno.as_slice()) {
            Ok(bytes) => {
                let error = exec_error(io::Error::from_raw_os_error(i32::from_ne_bytes(bytes)));
                self.wait();
                Err(error)
            }
            Err(_) => Ok(()), // closed without data: the exec succeeded
        }
    }

    /// Its exit status, if it has ended.
    pub fn try_wait(&mut self) -> Option<ExitStatus> {
        self.reap(libc::WNOHANG)
    }

    /// Waits until it has ended.
    pub fn wait(&mut self) -> Option<ExitStatus> {
        self.reap(0)
    }

    fn reap(&mut self, options: libc::c_int) -> Option<ExitStatus> {
        if self.status.is_none() {
            let mut status = 0;
            // SAFETY: our own child, not yet waited for.
            let reaped = loop {
                match unsafe { libc::waitpid(self.pid, &mut status, options) } {
                    -1 if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => continue,
                    pid => break pid,
                }
            };
            if reaped == self.pid {
                self.status = Some(ExitStatus::from_raw(status));
            }
        }
        self.status
    }

    /// Sends it SIGTERM.
    pub fn terminate(&mut self) {
        if self.try_wait().is_none() {
            // SAFETY: not yet waited for, so the pid is still its own.
            unsafe { libc::kill(self.pid, libc::SIGTERM) };
        }
    }
}

impl Drop for Workload {
    fn drop(&mut self) {
        // A child still waiting reads the end of the pipe and exits; wait for it to avoid a zombie.
        if self.gate.take().is_some() {
            self.wait();
        }
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut fds = [0; 2];
    // SAFETY: the array holds two descriptors, which are new and owned here.
    unsafe {
        if libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])))
    }
}

/// The child's side of the fork; never returns.
///
/// SAFETY: the pointer lists end with null and outlive the call; only async-signal-safe calls are made.
unsafe fn become_command(
    gate: libc::c_int,
    result: libc::c_int,
    argv: &[*const libc::c_char],
    envp: &[*const libc::c_char],
    user: Option<&Identity>,
) -> ! {
    unsafe {
        // The recorder blocks signals for its own use, and Rust ignores SIGPIPE; restore both for the program.
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut byte = 0u8;
        loop {
            match libc::read(gate, std::ptr::from_mut(&mut byte).cast(), 1) {
                1 => break,
                -1 if *libc::__errno_location() == libc::EINTR => continue,
                _ => libc::_exit(127), // the recorder gave up
            }
        }
        let allowed = user.is_none_or(|user| user.assume());
        if allowed {
            libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr());
        }
        let errno = *libc::__errno_location();
        let bytes = errno.to_ne_bytes();
        libc::write(result, bytes.as_ptr().cast(), bytes.len());
        libc::_exit(127)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(command: &[&str]) -> Vec<OsString> {
        command.iter().map(OsString::from).collect()
    }

    #[test]
    fn a_command_runs_only_after_its_release() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("mark");
        let script = format!("echo done > {}", mark.display());
        let mut workload = Workload::prepare(&words(&["sh", "-c", &script]), None).expect("forks");
        assert!(workload.try_wait().is_none());
        assert!(!mark.exists());
        workload.release().expect("execs");
        assert_eq!(workload.wait().and_then(|status| status.code()), Some(0));
        assert!(mark.exists());
    }

    #[test]
    fn the_exit_status_and_a_failed_exec_are_told() {
        let mut workload = Workload::prepare(&words(&["sh", "-c", "exit 7"]), None).expect("forks");
        workload.release().expect("execs");
        assert_eq!(workload.wait().and_then(|status| status.code()), Some(7));
        let mut missing = Workload::prepare(&words(&["/nonexistent/program"]), None).expect("forks");
        let error = missing.release().expect_err("nothing to execute");
        assert!(error.to_string().contains("/nonexistent/program"), "{error}");
        assert!(matches!(Workload::prepare(&[], None), Err(WorkloadError::Empty)));
        assert!(matches!(Workload::prepare(&words(&["a\0b"]), None), Err(WorkloadError::ZeroByte(_))));
    }

    #[test]
    fn the_process_name_is_the_one_that_the_kernel_gives() {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["short", "a-name-of-more-than-fifteen-bytes", "fourteen-bytesé"] {
            let program = folder.path().join(name);
            std::fs::copy("/bin/cat", &program).expect("copied");
            let command = [program.into_os_string(), "/proc/self/comm".into()];
            let workload = Workload::prepare(&command, None).expect("forks");
            let said = workload.process_name();
            assert!(!said.is_empty() && name.starts_with(&said), "{said} of {name}");
            let output = std::process::Command::new(&command[0]).arg(&command[1]).output().expect("runs");
            assert!(output.stdout.starts_with(said.as_bytes()), "{said}: {output:?}");
            assert!(output.stdout.len() <= said.len() + 2, "one byte of a letter at most: {output:?}");
        }
    }

    #[test]
    fn a_workload_never_released_leaves_no_process() {
        let workload = Workload::prepare(&words(&["true"]), None).expect("forks");
        let pid = workload.pid();
        drop(workload);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }

    #[test]
    fn the_environment_of_a_prepared_command_reaches_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let mark = folder.path().join("mark");
        let mut command = std::process::Command::new("sh");
        command.args(["-c", "echo $HARDMETER_TEST > $MARK"]).env("HARDMETER_TEST", "seen").env("MARK", &mark);
        let mut workload = Workload::prepare_command(&command, None).expect("forks");
        workload.release().expect("execs");
        workload.wait();
        assert_eq!(std::fs::read_to_string(mark).expect("written"), "seen\n");
    }
}

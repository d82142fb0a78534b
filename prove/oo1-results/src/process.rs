//! Runs one OO1 program to its end: returns its JSON, or the reason for none.

use crate::error::Oo1Error;
use crate::memory::MemoryGroup;
use crate::stop::Stop;
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// The exit status of a program that this machine cannot run, as in automake's tests.
const SKIPPED: i32 = 77;
/// Maximum length of a program's error output that is reported.
const COMPLAINT_BYTES: usize = 4000;

/// Parameters for running programs.
#[derive(Clone)]
pub(crate) struct Runner {
    pub(crate) stop: Stop,
    pub(crate) timeout: Duration,
}

impl Runner {
    /// A program's standard output. `what` names the run in messages.
    pub(crate) fn run(
        &self,
        program: &Path,
        arguments: &[OsString],
        what: &str,
    ) -> Result<serde_json::Value, Oo1Error> {
        self.run_within(None, program, arguments, what)
    }

    /// The same, within a limit of memory.
    pub(crate) fn run_within(
        &self,
        group: Option<&MemoryGroup>,
        program: &Path,
        arguments: &[OsString],
        what: &str,
    ) -> Result<serde_json::Value, Oo1Error> {
        let interrupted = || Oo1Error::Interrupted { what: what.to_owned() };
        if self.stop.asked() {
            return Err(interrupted());
        }
        let mut command = match group {
            None => Command::new(program),
            Some(group) => {
                let mut shell = Command::new("/bin/sh");
                shell.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(group.door()).arg(program);
                shell
            }
        };
        // In its own process group: Ctrl-C is handled by this program.
        let child = command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|source| Oo1Error::Io { action: "run", path: program.into(), source })?;
        let ended = self.wait(child);
        if self.stop.asked() {
            return Err(interrupted());
        }
        let Some((status, output, complaint)) = ended else {
            return Err(Oo1Error::TimedOut { what: what.to_owned(), seconds: self.timeout.as_secs() });
        };
        check(status, &complaint, what)?;
        serde_json::from_slice(&output)
            .map_err(|error| Oo1Error::BadOutput { what: what.to_owned(), reason: error.to_string() })
    }

    /// Waits for a program and reads its output; `None` if it exceeded the time limit.
    fn wait(&self, mut child: Child) -> Option<(ExitStatus, Vec<u8>, String)> {
        let group = child.id() as libc::pid_t;
        let go_on = self.stop.begin(group);
        let (mut stdout, mut stderr) = (child.stdout.take()?, child.stderr.take()?);
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let mut output = Vec::new();
            let _ = stdout.read_to_end(&mut output);
            let _ = sender.send(output);
        });
        let complaint = std::thread::spawn(move || {
            let mut complaint = Vec::new();
            let _ = stderr.read_to_end(&mut complaint);
            String::from_utf8_lossy(&complaint).trim().to_owned()
        });
        if !go_on {
            self.stop.end_running();
        }
        let output = receiver.recv_timeout(self.timeout);
        if output.is_err() {
            self.stop.end_running();
        }
        // The process keeps its number until here, dead or alive; after this it must not get signals any more.
        wait_without_reaping(group);
        self.stop.end();
        let status = child.wait();
        Some((status.ok()?, output.ok()?, complaint.join().unwrap_or_default()))
    }
}

fn wait_without_reaping(process: libc::pid_t) {
    loop {
        // SAFETY: the structure is the kernel's to fill; zeros are a valid one.
        let result = unsafe {
            let mut information: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, process as libc::id_t, &mut information, libc::WEXITED | libc::WNOWAIT)
        };
        if result == 0 || std::io::Error::last_os_error().kind() != std::io::ErrorKind::Interrupted {
            return;
        }
    }
}

fn check(status: ExitStatus, complaint: &str, what: &str) -> Result<(), Oo1Error> {
    let what = what.to_owned();
    if let Some(signal) = status.signal() {
        return Err(Oo1Error::Killed { what, signal });
    }
    let (reason, remedy) = said(complaint);
    match status.code() {
        Some(0) => Ok(()),
        Some(SKIPPED) => Err(Oo1Error::CannotHere { reason, remedy }),
        Some(code) if reason.is_empty() => {
            Err(Oo1Error::Failed { what, reason: format!("exit status {code}, and not a word"), remedy })
        }
        _ => Err(Oo1Error::Failed { what, reason, remedy }),
    }
}

/// A program's error message, and the remedy in it.
fn said(complaint: &str) -> (String, String) {
    let mut end = complaint.len().min(COMPLAINT_BYTES);
    while !complaint.is_char_boundary(end) {
        end -= 1;
    }
    let complaint = &complaint[..end];
    match complaint.split_once("\n  remedy: ") {
        Some((reason, remedy)) => (reason.trim().to_owned(), remedy.trim().to_owned()),
        None => (complaint.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn shell(script: &str, timeout: u64, stop: &Stop) -> Result<serde_json::Value, Oo1Error> {
        let runner = Runner { stop: stop.clone(), timeout: Duration::from_secs(timeout) };
        runner.run(Path::new("/bin/sh"), &["-c".into(), script.into()], "the script")
    }

    #[test]
    fn a_program_prints_json_or_says_why_not() {
        let stop = Stop::new();
        assert_eq!(shell("echo '{\"a\": 1}'", 60, &stop).unwrap()["a"], 1);
        let failed = shell("echo 'no room\n  remedy: make some' >&2; exit 1", 60, &stop).unwrap_err();
        assert_eq!(failed.to_string(), "the script failed: no room");
        assert_eq!(failed.remedy(), "make some");
        assert!(matches!(shell("echo no >&2; exit 77", 60, &stop), Err(Oo1Error::CannotHere { .. })));
        assert!(matches!(shell("kill -9 $$", 60, &stop), Err(Oo1Error::Killed { signal: 9, .. })));
        assert!(matches!(shell("echo what?", 60, &stop), Err(Oo1Error::BadOutput { .. })));
        assert!(shell("exit 3", 60, &stop).unwrap_err().to_string().contains("exit status 3"));
    }

    #[test]
    fn what_takes_too_long_is_killed_with_its_children() {
        let began = Instant::now();
        let error = shell("trap '' TERM; sleep 600 & wait; wait", 1, &Stop::new()).unwrap_err();
        assert!(matches!(error, Oo1Error::TimedOut { seconds: 1, .. }), "{error}");
        assert!(began.elapsed() < Duration::from_secs(300), "the sleep did not keep the pipe");
    }

    #[test]
    fn whoever_asks_ends_what_runs() {
        let stop = Stop::new();
        let asked = stop.clone();
        let folder = tempfile::tempdir().unwrap();
        let sign = folder.path().join("began");
        let script = format!("touch {}; sleep 600", sign.display());
        let asker = std::thread::spawn(move || {
            while !sign.exists() {
                std::thread::yield_now();
            }
            asked.ask();
        });
        assert!(matches!(shell(&script, 600, &stop), Err(Oo1Error::Interrupted { .. })));
        asker.join().unwrap();
        assert!(matches!(shell("echo '{}'", 60, &stop), Err(Oo1Error::Interrupted { .. })), "nothing begins");
    }
}

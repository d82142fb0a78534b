//! The program `hardmeter-ghost`: its path, its start, and its report.

use crate::softpmu::tool_folders;
use hardmeter_samples::model::{GhostNotes, MemoryEvent, Pid};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};

/// The reason why nothing can be followed.
#[derive(Debug, thiserror::Error)]
pub enum GhostError {
    /// The program is not there.
    #[error("hardmeter-ghost was not found (looked in {})", searched.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", "))]
    Missing {
        /// The searched folders.
        searched: Vec<PathBuf>,
    },
    /// The processor is not one that the emulator knows.
    #[error("ghosts execute x86-64 programs only, and this machine is {0}")]
    Architecture(&'static str),
    /// It could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The file.
        program: PathBuf,
        /// The system's reason.
        source: std::io::Error,
    },
    /// The process has several threads.
    #[error("process {pid} has {threads} threads, and ghosts follow processes with one only")]
    Threads {
        /// The process.
        pid: Pid,
        /// Its threads.
        threads: usize,
    },
    /// It may not follow; its message.
    #[error("{cause}")]
    Refused {
        /// Its message.
        cause: String,
        /// The remedy that it names.
        remedy: String,
    },
}

impl GhostError {
    /// The remedy.
    pub fn remedy(&self) -> &str {
        match self {
            GhostError::Missing { .. } => {
                "install valgrind, then `make build` in the source tree: it is built beside the software PMU"
            }
            GhostError::Architecture(_) | GhostError::Threads { .. } => {
                "leave --ghosts out: --source live shows its waits"
            }
            GhostError::Start { .. } => "check the file's rights, or install Hardmeter again",
            GhostError::Refused { remedy, .. } => remedy,
        }
    }
}

/// The report at its end; numbers of events in the order of the simulator's.
#[derive(Debug, Deserialize)]
pub(super) struct Report {
    #[serde(flatten)]
    pub(super) notes: GhostNotes,
    #[serde(default)]
    scaled: Vec<u64>,
}

impl Report {
    /// Number of occurrences of each event, scaled to all of the CPU time. Branches are not simulated.
    pub(super) fn scaled(&self) -> BTreeMap<MemoryEvent, u64> {
        let counted = |event: MemoryEvent| Some((event, *self.scaled.get(event as usize)?));
        let all = MemoryEvent::ALL.into_iter().filter(|event| *event != MemoryEvent::BranchesMispredicted);
        all.filter_map(counted).collect()
    }
}

/// A running follower.
pub(super) struct Follower {
    child: Child,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
    ended: bool,
    said: String,
}

impl Follower {
    /// Starts it on the segment behind `segment`.
    pub(super) fn start(processes: &[Pid], segment: BorrowedFd<'_>) -> Result<Follower, GhostError> {
        let program = find()?;
        let descriptor = segment.as_raw_fd();
        let mut command = command(&program, processes);
        command
            .args(["--descendants", "--lanes", &super::lanes().to_string(), "--segment"])
            .arg(format!("/proc/self/fd/{descriptor}"));
        // SAFETY: one system call on a descriptor that stays open until the child runs.
        unsafe {
            command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
                -1 => Err(std::io::Error::last_os_error()),
                _ => Ok(()),
            });
        }
        let mut child = command.spawn().map_err(|source| GhostError::Start { program, source })?;
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        Ok(Follower { child, stdout, stderr, ended: false, said: String::new() })
    }

    /// Whether it has ended; it is then waited for.
    pub(super) fn has_ended(&mut self) -> bool {
        self.ended = self.ended || !matches!(self.child.try_wait(), Ok(None));
        self.ended
    }

    /// The same without waiting for it.
    pub(super) fn is_known_to_have_ended(&self) -> bool {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap_or_default();
        let state = stat.rsplit_once(')').and_then(|(_, rest)| rest.trim_start().chars().next());
        self.ended || matches!(state, None | Some('Z' | 'X'))
    }

    /// Its report, once it has ended.
    pub(super) fn report(&mut self) -> Option<Report> {
        if !self.has_ended() {
            return None;
        }
        let mut text = String::new();
        self.stdout.take()?.read_to_string(&mut text).ok()?;
        self.stderr.take()?.read_to_string(&mut self.said).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Its messages on standard error.
    pub(super) fn complaint(&self) -> Option<String> {
        let said = self.said.trim();
        (!said.is_empty()).then(|| said.split_whitespace().collect::<Vec<_>>().join(" "))
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        if !self.has_ended() {
            // If the process gave up its rights, the signal is refused; the follower ends when the recorder
            // has ended.
            let _ = self.child.kill();
            let _ = self.child.try_wait();
        }
    }
}

fn command(program: &Path, processes: &[Pid]) -> Command {
    let named: Vec<String> = processes.iter().map(Pid::to_string).collect();
    let mut command = Command::new(program);
    command.args(["--quiet", "--report", "/dev/stdout", "-p"]).arg(named.join(","));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The program, beside the software PMU.
fn find() -> Result<PathBuf, GhostError> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(GhostError::Architecture(std::env::consts::ARCH));
    }
    let searched: Vec<PathBuf> =
        tool_folders().iter().filter_map(|folder| Some(folder.parent()?.to_path_buf())).collect();
    let found = searched.iter().map(|folder| folder.join("hardmeter-ghost")).find(|path| path.is_file());
    found.ok_or(GhostError::Missing { searched })
}

/// Follows a program of this user for a moment; returns the result in words.
///
/// # Errors
/// [`GhostError`] if the follower is missing, or may not follow, with the remedy.
pub fn self_test() -> Result<String, GhostError> {
    let program = find()?;
    let start = |source| GhostError::Start { program: program.clone(), source };
    let mut followed = Command::new("dd")
        .args(["if=/dev/zero", "of=/dev/null", "bs=1"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(start)?;
    let output = command(&program, &[Pid(followed.id() as i32)])
        .args(["-s", "10", "--enough", "40", "--share", "20"])
        .output();
    let _ = followed.kill();
    let _ = followed.wait();
    let output = output.map_err(start)?;
    let report: Option<Report> = serde_json::from_slice(&output.stdout).ok();
    match report.map(|report| report.notes) {
        Some(notes) if output.status.success() && notes.stretches.checked() > 0 => Ok(format!(
            "{} of {} stretches of a test program ended as in the program, which was stopped for at most {:.2} ms",
            notes.stretches.same,
            notes.stretches.checked(),
            notes.pauses.max_ns as f64 / 1e6
        )),
        _ => Err(refusal(&String::from_utf8_lossy(&output.stderr))),
    }
}

/// Parses the follower's message: a cause, and a remedy on separate lines.
fn refusal(said: &str) -> GhostError {
    let joined = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (cause, remedy) = said.split_once("remedy:").unwrap_or((said, ""));
    let cause = joined(cause.trim_start_matches("hardmeter-ghost: "));
    let cause = if cause.is_empty() { "the test program could not be followed".to_string() } else { cause };
    GhostError::Refused { cause, remedy: joined(remedy) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_the_follower_writes_it() {
        let text = r#"{"rounds":2,"ns_followed":0.9,"ns_alone":0.25,
            "windows":3,"idle_windows":1,"refused_windows":0,"watchdog":0,"stretches":{"same":40,"unchecked":1,
            "other_call":2,"other_registers":0,"died":1,"unsupported":0,"signal":0,"unfinished":1},
            "pauses":{"n":44,"p50_ns":100,"p99_ns":300,"max_ns":400,"sum_ns":5000},"kept_ns":100,"stood_for_ns":20000,
            "scaled":[7,0,3,0,0,0,1,30,20,100,0,0,0],"real_time":true,"hot_pages":10,"instructions":1000}"#;
        let report: Report = serde_json::from_str(text).expect("readable");
        assert_eq!(report.notes.stretches.checked(), 43);
        assert_eq!((report.notes.windows, report.notes.real_time), (3, true));
        assert_eq!((report.notes.rounds, report.notes.ns_alone), (2, 0.25));
        assert_eq!(report.notes.followed_share(), 0.005);
        let scaled = report.scaled();
        assert_eq!(scaled.get(&MemoryEvent::L1dMiss), Some(&7));
        assert_eq!(scaled.get(&MemoryEvent::Instructions), Some(&100));
        assert!(!scaled.contains_key(&MemoryEvent::BranchesMispredicted));
    }

    #[test]
    fn a_refusal_has_its_remedy() {
        let said = "hardmeter-ghost: process 7 cannot be followed: Yama lets a process trace its own\n  children only\n  \
                    remedy: sudo, or sysctl\n  kernel.yama.ptrace_scope=0\n";
        let error = refusal(said);
        assert_eq!(
            error.to_string(),
            "process 7 cannot be followed: Yama lets a process trace its own children only"
        );
        assert_eq!(error.remedy(), "sudo, or sysctl kernel.yama.ptrace_scope=0");
        assert_eq!(refusal("").to_string(), "the test program could not be followed");
    }
}

//! Processes by `/proc`: identity, start time, children; waiting for their end.

use hardmeter_samples::model::Pid;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::{Duration, Instant};

/// A process, distinguishable from a later one with the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    /// Its number.
    pub pid: Pid,
    /// When it started, in clock ticks since the machine did.
    started: u64,
    /// The boot id of the machine.
    boot: String,
}

/// The needed fields of `/proc/PID/stat`.
struct Stat {
    state: u8,
    parent: Pid,
    session: Pid,
    started: u64,
}

impl ProcessIdentity {
    /// The process that has this number now.
    pub fn of(pid: Pid) -> Option<ProcessIdentity> {
        let stat = stat(pid)?;
        Some(ProcessIdentity { pid, started: stat.started, boot: boot_id() })
    }

    /// Whether it runs. A zombie does not count.
    pub fn is_alive(&self) -> bool {
        stat(self.pid).is_some_and(|stat| {
            stat.started == self.started && !matches!(stat.state, b'Z' | b'X') && self.boot == boot_id()
        })
    }

    /// Sends a signal; it is not an error if the process has ended.
    pub fn signal(&self, signal: libc::c_int) {
        if self.is_alive() {
            // SAFETY: kill takes plain numbers.
            unsafe { libc::kill(self.pid.0, signal) };
        }
    }

    /// Waits for its end, for at most `patience`; returns whether it has ended.
    pub fn wait_until_gone(&self, patience: Duration) -> bool {
        let end = Instant::now() + patience;
        let mut pause = Duration::from_millis(2);
        loop {
            // Reap it if it is a child of this process; otherwise the call fails harmlessly. SAFETY: a null status
            // pointer is allowed.
            unsafe { libc::waitpid(self.pid.0, std::ptr::null_mut(), libc::WNOHANG) };
            if !self.is_alive() {
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
        }
    }
}

/// The children of a process, in the order of their numbers.
pub fn children(parent: Pid) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
    let mut found: Vec<Pid> = numbers
        .filter(|&pid| stat(pid).is_some_and(|stat| stat.parent == parent && stat.state != b'Z'))
        .collect();
    found.sort();
    found
}

impl ProcessIdentity {
    /// The remaining processes of its session, if the process itself has ended. The kernel does not reuse the
    /// session's number while one of them exists.
    pub fn orphans(&self) -> Vec<Pid> {
        if self.boot != boot_id() || stat(self.pid).is_some_and(|stat| stat.started != self.started) {
            return Vec::new();
        }
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok().map(Pid));
        let of_session = |pid: &Pid| {
            stat(*pid).is_some_and(|stat| stat.session == self.pid && !matches!(stat.state, b'Z' | b'X'))
        };
        numbers.filter(of_session).collect()
    }
}

/// Makes a command outlive its caller: a session of its own, so that Ctrl-C on the terminal does not reach it, and
/// only the standard descriptors, so that it holds no inherited lock, pipe or terminal.
pub(crate) fn detach(command: &mut Command) {
    // SAFETY: both are single system calls, which are safe between fork and exec. setsid fails only for a group's
    // leader, which a child is not. The descriptors are marked, not closed: the standard library reports a failed
    // exec through one of them.
    unsafe {
        command.pre_exec(|| {
            libc::setsid();
            let first: libc::c_uint = 3;
            libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
            Ok(())
        });
    }
}

fn stat(pid: Pid) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 2 is the name in brackets, which may itself contain blanks and brackets: count from the last closing one.
fn parse_stat(line: &str) -> Option<Stat> {
    let mut fields = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    let parent = Pid(fields.next()?.parse().ok()?);
    let session = Pid(fields.nth(1)?.parse().ok()?); // field 6; `nth` counts from field 5
    let started = fields.nth(15)?.parse().ok()?; // field 22, counted from field 7
    Some(Stat { state, parent, session, started })
}

fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn the_fields_are_counted_from_the_last_bracket() {
        let line = "4711 (a ) b) S 17 4711 4711 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 987654 1 2 3";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.state, stat.parent, stat.started), (b'S', Pid(17), 987654));
        assert!(parse_stat("4711 (cut off").is_none());
        assert!(parse_stat("4711 (cut off) S 1 2").is_none());
    }

    #[test]
    fn a_detached_child_has_no_descriptor_of_its_parent() {
        let path = std::env::current_exe().unwrap();
        let held = fs::File::open(&path).unwrap();
        // As a shell passes them to a job: not closed at exec. SAFETY: the descriptor is open as long as `held`
        // lives.
        assert_eq!(unsafe { libc::fcntl(held.as_raw_fd(), libc::F_SETFD, 0) }, 0);
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "for fd in /proc/$$/fd/*; do readlink $fd; done"]);
        let lists = |command: &mut Command| {
            let output = command.stdin(std::process::Stdio::null()).output().unwrap();
            String::from_utf8(output.stdout)
                .unwrap()
                .lines()
                .filter(|line| **line == *path.to_string_lossy())
                .count()
        };
        assert_eq!(lists(&mut command), 1);
        detach(&mut command);
        assert_eq!(lists(&mut command), 0);
    }

    #[test]
    fn a_child_is_seen_until_it_is_gone_and_its_number_proves_nothing_after() {
        let mut child = Command::new("/bin/sleep").arg("60").spawn().unwrap();
        let pid = Pid(child.id() as i32);
        let identity = ProcessIdentity::of(pid).unwrap();
        assert!(identity.is_alive());
        assert!(children(Pid(std::process::id() as i32)).contains(&pid));
        let other = ProcessIdentity { started: identity.started + 1, ..identity.clone() };
        assert!(!other.is_alive(), "same number, other start: somebody else");
        let earlier = ProcessIdentity { boot: "another run".into(), ..identity.clone() };
        assert!(!earlier.is_alive(), "same number, other run of the machine: somebody else");
        child.kill().unwrap();
        assert!(identity.wait_until_gone(Duration::from_secs(30)));
        assert!(!identity.is_alive());
        let _ = child.wait(); // reaped above; for clippy
    }
}

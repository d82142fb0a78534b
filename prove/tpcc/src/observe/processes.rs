//! A server's processes from `/proc`: the process tree and its CPU time.

use std::fs;

/// A process, distinguishable from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Process {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since the machine did.
    pub started: u64,
}

/// The needed fields of `/proc/PID/stat`. Times are in clock ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stat {
    parent: u32,
    /// CPU time of the process.
    own: u64,
    /// CPU time of its ended children, and of their children.
    ended: u64,
    started: u64,
}

impl Process {
    /// The process that has this number now.
    pub fn of(pid: u32) -> Option<Process> {
        Some(Process { pid, started: stat(pid)?.started })
    }

    /// Its parent, if it is still there itself.
    pub fn parent(self) -> Option<Process> {
        let stat = stat(self.pid).filter(|stat| stat.started == self.started)?;
        Process::of(stat.parent)
    }

    /// Whether it is still there.
    pub fn is_there(self) -> bool {
        Process::of(self.pid) == Some(self)
    }

    /// Its title: "postgres: walwriter ". Empty if it has ended.
    pub fn title(self) -> String {
        let bytes = fs::read(format!("/proc/{}/cmdline", self.pid)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned()
    }

    /// When it started, in microseconds since 1970 by the calendar of now.
    pub fn started_at(self) -> Option<u64> {
        let text = fs::read_to_string("/proc/stat").ok()?;
        let boot: u64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
        Some(boot * 1_000_000 + (self.started as f64 * 1e6 / ticks_per_second()) as u64)
    }

    /// Its children, created by any of its threads.
    pub fn children(self) -> Vec<Process> {
        let threads = fs::read_dir(format!("/proc/{}/task", self.pid)).into_iter().flatten().flatten();
        let lists: Option<Vec<String>> =
            threads.map(|thread| fs::read_to_string(thread.path().join("children")).ok()).collect();
        let pids: Vec<u32> = match &lists {
            Some(lists) => lists
                .iter()
                .flat_map(|text| text.split_whitespace())
                .filter_map(|pid| pid.parse().ok())
                .collect(),
            // The thread has just ended, or the kernel lacks these lists: check every process's parent.
            None => {
                everybody().filter(|&pid| stat(pid).is_some_and(|stat| stat.parent == self.pid)).collect()
            }
        };
        pids.into_iter().filter_map(Process::of).collect()
    }

    /// The process with all its descendants.
    pub fn tree(self) -> Vec<Process> {
        let mut found = vec![self];
        let mut at = 0;
        while at < found.len() {
            found.extend(found[at].children());
            at += 1;
        }
        found
    }

    /// CPU seconds of the process and its descendants, including ended ones; `None` if it has ended.
    ///
    /// A child's time is added to its parent's when the parent reaps it. If that happens during the summation, the
    /// time could be counted twice or not at all: then the summation is repeated.
    pub fn tree_cpu_seconds(self) -> Option<f64> {
        let ended = || stat(self.pid).filter(|stat| stat.started == self.started).map(|stat| stat.ended);
        let mut sum = 0;
        for _ in 0..5 {
            let before = ended()?;
            sum = self
                .tree()
                .into_iter()
                .filter_map(|one| stat(one.pid))
                .map(|stat| stat.own + stat.ended)
                .sum();
            if ended()? == before {
                break;
            }
        }
        Some(sum as f64 / ticks_per_second())
    }
}

fn everybody() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

fn ticks_per_second() -> f64 {
    rustix::param::clock_ticks_per_second() as f64
}

fn stat(pid: u32) -> Option<Stat> {
    parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Field 2 is the name in brackets, which may itself contain blanks and brackets: count from the last closing one.
fn parse(line: &str) -> Option<Stat> {
    let fields: Vec<&str> = line.get(line.rfind(')')? + 1..)?.split_ascii_whitespace().collect();
    // proc(5) counts from 1, and field 3 is the first after the name.
    let number = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    Some(Stat {
        parent: number(4)? as u32,
        own: number(14)? + number(15)?,
        // Signed in the kernel, never negative in fact.
        ended: number(16)? + number(17)?,
        started: number(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn the_fields_are_counted_from_the_last_bracket() {
        let line = "4711 (a ) b) S 17 4711 4711 0 -1 4194560 1 2 3 4 50 6 70 8 20 0 1 0 987654 1 2 3";
        assert_eq!(parse(line), Some(Stat { parent: 17, own: 56, ended: 78, started: 987_654 }));
        assert_eq!(parse("4711 (cut off) S 1 2"), None);
    }

    #[test]
    fn a_child_is_in_the_tree_and_its_time_stays_when_it_has_ended() {
        // A shell that computes in a child, waits for it, prints a line, and stays.
        let script = "(i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done); echo done; read line";
        let mut shell = Command::new("/bin/sh")
            .args(["-c", script])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let process = Process::of(shell.id()).unwrap();
        assert!(Process::of(std::process::id()).unwrap().tree().contains(&process));
        assert_eq!(process.parent().unwrap().pid, std::process::id());
        let mut said = [0; 5];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut said).unwrap();
        assert_eq!(process.tree(), [process], "the child has ended");
        let stat = stat(process.pid).unwrap();
        assert!(stat.ended > 0, "150,000 rounds of a shell take longer than a tick");
        assert_eq!(process.tree_cpu_seconds().unwrap(), (stat.own + stat.ended) as f64 / ticks_per_second());
        assert!(process.title().starts_with("/bin/sh -c"));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
        assert!(now.abs_diff(process.started_at().unwrap() / 1_000_000) < 3600);
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(!process.is_there());
        assert_eq!(process.tree_cpu_seconds(), None);
    }
}

//! Selects a target's records from those of the whole system.
//!
//! An event of a thread is set up and torn down at each context switch. For the timer that means programming a
//! hardware timer each time; a server that switches twice per query then spends a quarter of its time on it
//! (measured: pgbench -S on a virtual machine, 28 % more CPU time). An event of a CPU runs continuously. So the
//! timer samples all CPUs where that is allowed, and this module drops the records of other processes.

use crate::cgroup::Cgroup;
use hardmeter_samples::model::Pid;
use hardmeter_samples::perf_data::abi::record_type;
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// The processes of a target: the initial ones, and their descendants; or those of a cgroup.
pub struct Members {
    known: HashMap<i32, bool>,
    /// Cache of processes that are in no fork read so far and no longer exist. Samples come in bursts, and the
    /// query costs more than all other work for a record.
    gone: HashSet<i32>,
    /// Members found by querying the system, not by a fork record, since the last [`Members::take_found`].
    found: Vec<Pid>,
    /// Members that have ended. Their samples may still come from another CPU's ring.
    ended: HashSet<i32>,
    roots: Vec<Pid>,
    /// The cgroup whose processes are the target, with or without a common ancestor.
    cgroup: Option<Cgroup>,
    /// When the cgroup's processes were listed.
    listed: Instant,
}

/// Time between two lists of a cgroup's processes: one may enter it without a fork, or leave it.
const LIST_INTERVAL: Duration = Duration::from_secs(1);

impl Members {
    /// A target of these processes.
    pub fn new(roots: impl IntoIterator<Item = Pid>) -> Members {
        Members::of(roots, None)
    }

    /// The processes of a cgroup, which are `present` now; `None` for the descendants of these processes.
    pub fn of(present: impl IntoIterator<Item = Pid>, cgroup: Option<Cgroup>) -> Members {
        let roots: Vec<Pid> = present.into_iter().collect();
        Members {
            cgroup,
            listed: Instant::now(),
            known: roots.iter().map(|pid| (pid.0, true)).collect(),
            gone: HashSet::new(),
            found: Vec::new(),
            ended: HashSet::new(),
            roots,
        }
    }

    /// Whether a record is the target's; `None` if its process has ended before its fork was read, which may still
    /// be in another ring. Forks extend the target.
    pub fn accept(&mut self, record: &[u8]) -> Option<bool> {
        let half = |at: usize| {
            record.get(at..at + 4).map(|bytes| i32::from_ne_bytes(bytes.try_into().expect("four bytes")))
        };
        let process = match half(0).map(|kind| kind as u32) {
            // After the header come IDENTIFIER and IP, then the process: the layout of the recorder's attributes.
            Some(record_type::SAMPLE) => half(24),
            Some(record_type::MMAP | record_type::MMAP2 | record_type::COMM) => half(8),
            Some(record_type::EXIT) => {
                // A process ends with its first thread; records of other threads change nothing.
                if let Some(process) = half(8).filter(|process| half(16) == Some(*process)) {
                    if self.is_member(process) == Some(true) {
                        self.ended.insert(process);
                    }
                }
                half(8)
            }
            Some(record_type::FORK) => {
                if let (Some(child), Some(parent)) = (half(8), half(12)) {
                    // A number may be reused for a process outside the target.
                    let member = self.is_member(parent).unwrap_or(false);
                    match member || self.cgroup.is_none() {
                        true => drop(self.known.insert(child, member)),
                        // It may enter the cgroup, as a service's first process does.
                        false => drop(self.known.remove(&child)),
                    }
                    self.gone.remove(&child);
                    // A thread's record has its process twice.
                    if child != parent {
                        self.ended.remove(&child);
                    }
                }
                half(8)
            }
            _ => return Some(true), // losses, throttling
        };
        match process {
            // A sample of a process that has just given back its number: whose it was cannot be said.
            Some(-1) if half(0) == Some(record_type::SAMPLE as i32) => Some(false),
            None | Some(-1) => Some(true),
            Some(pid) => self.is_member(pid),
        }
    }

    fn is_member(&mut self, pid: i32) -> Option<bool> {
        if let Some(member) = self.known.get(&pid) {
            return Some(*member);
        }
        if self.gone.contains(&pid) {
            return None;
        }
        if let Some(cgroup) = &self.cgroup {
            let member = cgroup.holds(Pid(pid));
            if !member && !crate::target::runs(Pid(pid)) {
                self.gone.insert(pid);
                return None;
            }
            self.known.insert(pid, member);
            self.found.extend(member.then_some(Pid(pid)));
            return Some(member);
        }
        // Its fork may be in another CPU's ring: query its parent, if it still runs.
        let Some(parent) = crate::target::parent(Pid(pid)) else {
            self.gone.insert(pid);
            return None;
        };
        let member = parent.0 > 0 && self.is_member(parent.0).unwrap_or(false);
        self.known.insert(pid, member);
        if member {
            self.found.push(Pid(pid));
        }
        Some(member)
    }

    /// Lists the processes of a cgroup again, if it is time: those that entered it belong to the target, those that left
    /// it no longer do.
    pub fn list_again(&mut self) {
        let Some(cgroup) = self.cgroup.as_ref().filter(|_| self.listed.elapsed() >= LIST_INTERVAL) else {
            return;
        };
        self.listed = Instant::now();
        let Ok(present) = cgroup.processes() else { return }; // it is being removed
        for (pid, member) in &mut self.known {
            // Samples of one that has ended may still come.
            *member &= present.contains(&Pid(*pid)) || !crate::target::runs(Pid(*pid));
        }
        for pid in present {
            if self.known.insert(pid.0, true) != Some(true) {
                self.gone.remove(&pid.0);
                self.ended.remove(&pid.0);
                self.found.push(pid);
            }
        }
    }

    /// Members found by querying the system: the kernel may never report their names and mappings.
    pub fn take_found(&mut self) -> Vec<Pid> {
        std::mem::take(&mut self.found)
    }

    /// The processes that are known to be the target's and not to have ended.
    pub fn processes(&self) -> impl Iterator<Item = Pid> + '_ {
        let living = |pid: &i32, member: bool| member && !self.ended.contains(pid);
        self.known.iter().filter(move |(pid, member)| living(pid, **member)).map(|(pid, _)| Pid(*pid))
    }

    /// Forgets all that may be asked for again, and the processes that have ended: their number grows for days.
    pub fn forget_ended(&mut self) {
        let roots: HashSet<i32> = self.roots.iter().map(|pid| pid.0).collect();
        let lives = |pid: &i32| roots.contains(pid) || crate::target::runs(Pid(*pid));
        self.known.retain(|pid, member| *member && lives(pid));
        self.ended.retain(|pid| roots.contains(pid));
        self.gone.clear();
    }

    /// Whether all processes of the beginning have ended.
    pub fn have_ended(&self) -> bool {
        if let Some(cgroup) = &self.cgroup {
            return !cgroup.exists(); // its processes come and go
        }
        !self.roots.iter().any(|pid| crate::target::runs(*pid))
    }
}

/// Drops the samples of some events that are not the target's, where all other events sample only the target.
pub struct ProbeMembers {
    /// The events' ids, in order.
    ids: Vec<u64>,
    members: Members,
}

impl ProbeMembers {
    /// For the events with these ids.
    pub fn new(mut ids: Vec<u64>, roots: impl IntoIterator<Item = Pid>) -> ProbeMembers {
        ids.sort_unstable();
        ProbeMembers { ids, members: Members::new(roots) }
    }

    /// Whether to keep a record, as [`Members::accept`].
    pub fn accept(&mut self, record: &[u8]) -> Option<bool> {
        let kind = record.first_chunk::<4>().map(|kind| u32::from_ne_bytes(*kind));
        let id = record.get(8..16).map(|id| u64::from_ne_bytes(id.try_into().expect("eight bytes")));
        let sample_of_others =
            kind == Some(record_type::SAMPLE) && id.is_none_or(|id| self.ids.binary_search(&id).is_err());
        match sample_of_others {
            true => Some(true),
            false => match (self.members.accept(record), kind) {
                (verdict, Some(record_type::SAMPLE)) => verdict,
                _ => Some(true), // kept for its forks
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(kind: u32, halves: &[i32]) -> Vec<u8> {
        let mut bytes = kind.to_ne_bytes().to_vec();
        bytes.extend([0, 0]);
        bytes.extend(((8 + halves.len() * 4) as u16).to_ne_bytes());
        bytes.extend(halves.iter().flat_map(|half| half.to_ne_bytes()));
        bytes
    }

    fn sample(pid: i32) -> Vec<u8> {
        record(record_type::SAMPLE, &[1, 0, 0x1000, 0, pid, pid])
    }

    #[test]
    fn children_belong_to_the_target_and_strangers_do_not() {
        // Numbers beyond pid_max, which do not exist in the running system.
        let (root, child, grandchild, stranger) = (1 << 28, (1 << 28) + 1, (1 << 28) + 2, (1 << 28) + 3);
        let mut members = Members::new([Pid(root)]);
        assert_eq!(members.accept(&sample(root)), Some(true));
        assert_eq!(members.accept(&sample(stranger)), None);
        assert_eq!(members.accept(&record(record_type::FORK, &[stranger + 1, stranger, 0, 0])), Some(false));
        assert_eq!(members.accept(&record(record_type::FORK, &[child, root, 0, 0])), Some(true));
        assert_eq!(members.accept(&record(record_type::FORK, &[grandchild, child, 0, 0])), Some(true));
        assert_eq!(members.accept(&sample(grandchild)), Some(true));
        assert_eq!(members.accept(&record(record_type::COMM, &[child, child])), Some(true));
        assert_eq!(members.accept(&record(record_type::COMM, &[stranger, stranger])), None);
        assert_eq!(members.accept(&record(record_type::MMAP, &[-1, 0])), Some(true)); // the kernel's
        assert_eq!(members.accept(&sample(-1)), Some(false)); // of a process that has just ended
        assert_eq!(members.accept(&record(record_type::LOST, &[1, 0, 5, 0])), Some(true));
        // The other process's number is reused for a child.
        assert_eq!(members.accept(&record(record_type::FORK, &[stranger, root, 0, 0])), Some(true));
        assert_eq!(members.accept(&sample(stranger)), Some(true));
        assert!(members.have_ended());
    }

    #[test]
    fn ended_processes_are_not_listed_and_then_forgotten() {
        let (root, child) = (1 << 28, (1 << 28) + 1);
        let mut members = Members::new([Pid(root)]);
        let listed = |members: &Members| {
            let mut listed: Vec<i32> = members.processes().map(|pid| pid.0).collect();
            listed.sort_unstable();
            listed
        };
        members.accept(&record(record_type::FORK, &[child, root, child, root]));
        assert_eq!(listed(&members), [root, child]);
        // A thread that ends is not the process.
        members.accept(&record(record_type::EXIT, &[child, child, child + 5, child + 5]));
        assert_eq!(listed(&members), [root, child]);
        members.accept(&record(record_type::EXIT, &[child, root, child, root]));
        assert_eq!(listed(&members), [root]);
        assert_eq!(members.accept(&sample(child)), Some(true), "its last samples are in another ring");
        members.forget_ended();
        assert_eq!((members.known.len(), members.ended.len()), (1, 0));
        members.accept(&record(record_type::FORK, &[child, root, child, root]));
        assert_eq!(listed(&members), [root, child], "the number is used again");
    }

    #[test]
    fn a_process_that_has_ended_is_asked_for_once_and_may_be_told_of_later() {
        let (root, child) = (1 << 28, (1 << 28) + 1);
        let mut members = Members::new([Pid(root)]);
        assert_eq!(members.accept(&sample(child)), None);
        assert_eq!(members.gone.len(), 1);
        assert_eq!(members.accept(&sample(child)), None);
        assert_eq!(members.accept(&record(record_type::FORK, &[child, root, 0, 0])), Some(true));
        assert_eq!(members.accept(&sample(child)), Some(true));
        assert!(members.gone.is_empty());
    }

    #[test]
    fn a_grandchild_whose_fork_was_not_reported_is_found_by_its_ancestors() {
        let mut shell = std::process::Command::new("sh")
            .args(["-c", "sleep 100 & echo $!; wait"])
            .stdout(std::process::Stdio::piped())
            .spawn()
            .expect("starts");
        let mut line = String::new();
        let output = shell.stdout.as_mut().expect("a pipe");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(output), &mut line).expect("a line");
        let grandchild: i32 = line.trim().parse().expect("a number");
        let mut members = Members::new([Pid(std::process::id() as i32)]);
        assert_eq!(members.accept(&sample(grandchild)), Some(true));
        assert_eq!(members.take_found(), [Pid(shell.id() as i32), Pid(grandchild)]);
        assert!(members.take_found().is_empty());
        assert_eq!(members.accept(&sample(1)), Some(false));
        // SAFETY: no preconditions; both processes are this test's.
        unsafe { libc::kill(grandchild, libc::SIGKILL) };
        shell.wait().expect("ends");
    }

    #[test]
    fn only_the_samples_of_probes_are_looked_at() {
        let (root, child, stranger) = (1 << 28, (1 << 28) + 1, (1 << 28) + 3);
        let mut members = ProbeMembers::new(vec![9, 1], [Pid(root)]);
        let of_event = |id: i32, pid: i32| record(record_type::SAMPLE, &[id, 0, 0x1000, 0, pid, pid]);
        assert_eq!(members.accept(&of_event(5, stranger)), Some(true));
        assert_eq!(members.accept(&of_event(9, root)), Some(true));
        assert_eq!(members.accept(&of_event(9, child)), None);
        assert_eq!(members.accept(&record(record_type::FORK, &[child, root, 0, 0])), Some(true));
        assert_eq!(members.accept(&of_event(1, child)), Some(true));
        assert_eq!(members.accept(&record(record_type::FORK, &[stranger, stranger + 1, 0, 0])), Some(true));
        assert_eq!(members.accept(&of_event(9, stranger)), Some(false));
    }
}

//! The processors of the server's machine, and who uses them: the kernel's counts at both ends of a look.
//!
//! Backends wait in the run queue for each other and for programs that are not the server's. Only the first
//! wait is the server's fault, so the CPU time of both separates the two.

use super::activity::ActivitySample;
use super::shares::ratio;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Programs that are named.
const MOST_NAMED: usize = 3;
/// Programs that used fewer CPUs are not named.
const LEAST_CPUS: f64 = 0.05;

/// A program that is not the server's.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Program {
    /// The name of its processes.
    pub name: String,
    /// CPUs that they used, on average.
    pub cpus: f64,
    /// Those that still ran at the end.
    pub pids: Vec<i32>,
    /// Sessions of the server have this name: it is a client.
    pub client: bool,
}

/// The use of the machine's CPUs during a look, each on average: 2 of 2 are all.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Machine {
    /// Used by the server's processes.
    pub server: f64,
    /// Used by all others, the load's client included if it runs here.
    pub others: f64,
    /// Given to other machines by the hypervisor while something wanted to run here.
    pub stolen: f64,
    /// The other programs that used most, the first most, at most three.
    pub programs: Vec<Program>,
    /// All processes of the machine can be seen: this is not a container with processes of its own.
    pub all_visible: bool,
    /// The server may use all CPUs, all of the time, as far as cgroups and its own mask tell.
    pub unlimited: bool,
}

impl Machine {
    /// Marks the programs that have sessions.
    pub(super) fn mark_clients(&mut self, samples: &[ActivitySample]) {
        for program in &mut self.programs {
            let mut sessions = samples.iter().flat_map(|sample| &sample.backends);
            // The kernel cuts names of programs at 15 bytes.
            program.client = sessions.any(|session| {
                let name = session.application.as_bytes();
                !name.is_empty() && name[..name.len().min(15)] == *program.name.as_bytes()
            });
        }
    }

    /// CPUs used by others that are not named: most of them ended before the look did.
    pub fn unnamed(&self) -> f64 {
        let named: f64 = self.programs.iter().map(|program| program.cpus).sum();
        (self.others - named).max(0.0)
    }

    /// The part of the used CPU time that others used, 0 to 1.
    pub fn of_others(&self) -> f64 {
        ratio(self.others, self.others + self.server)
    }
}

/// The kernel's counts so far, in clock ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct MachineCounts {
    used: f64,
    stolen: f64,
    server: f64,
    /// Processes of others, by number and time of their start: a number may be used again.
    others: BTreeMap<(i32, u64), (String, f64)>,
    all_visible: bool,
    unlimited: bool,
}

/// The kernel's number of the first PID namespace (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The fields of `/proc/PID/stat` that are used; times in clock ticks.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Process {
    name: String,
    pub(super) parent: i32,
    own: f64,
    /// Of children that have ended and were waited for.
    of_children: f64,
    start: u64,
}

impl Process {
    pub(super) fn read(pid: i32) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Process> {
        // A name may hold blanks and parentheses.
        let (head, fields) = stat.rsplit_once(") ")?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<f64>().ok();
        Some(Process {
            name: head.split_once('(')?.1.to_owned(),
            parent: fields.get(1)?.parse().ok()?,
            own: number(11)? + number(12)?,
            of_children: number(13)? + number(14)?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

impl MachineCounts {
    /// The counts now, for the server that has this backend; `None` if its processes are not visible.
    pub(super) fn read(backend: i32) -> Option<MachineCounts> {
        let first = Process::read(backend)?.parent;
        let mut counts = MachineCounts::of_all(&fs::read_to_string("/proc/stat").ok()?)?;
        let namespace = fs::read_link("/proc/self/ns/pid");
        counts.all_visible = namespace.is_ok_and(|name| name.as_os_str() == FIRST_NAMESPACE);
        counts.unlimited = may_use_all(backend);
        let entries = fs::read_dir("/proc").ok()?.flatten();
        for pid in entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok()) {
            if let Some(process) = Process::read(pid) {
                counts.add(pid, process, first);
            }
        }
        Some(counts)
    }

    fn of_all(stat: &str) -> Option<MachineCounts> {
        let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<f64> = line.split_whitespace().map_while(|field| field.parse().ok()).collect();
        // user, nice, system, idle, I/O wait, interrupts, soft interrupts, stolen
        let [user, nice, system, _, _, hard, soft, stolen] = ticks.get(..8)?.try_into().ok()?;
        Some(MachineCounts { used: user + nice + system + hard + soft, stolen, ..MachineCounts::default() })
    }

    /// Counts a process; `first` is the server's first one. It waits for its children, so the time of a session
    /// that ended is in its count.
    fn add(&mut self, pid: i32, process: Process, first: i32) {
        if pid == first {
            self.server += process.own + process.of_children;
        } else if process.parent == first {
            self.server += process.own;
        } else {
            self.others.insert((pid, process.start), (process.name, process.own));
        }
    }

    /// The use between an earlier moment and this one, in this many clock ticks of one CPU.
    pub(super) fn since(self, earlier: &MachineCounts, ticks: f64) -> Machine {
        let cpus = |ticks_used: f64| ratio(ticks_used, ticks).max(0.0);
        let mut by_name: BTreeMap<String, (f64, Vec<i32>)> = BTreeMap::new();
        for (process, (name, own)) in self.others {
            let before = earlier.others.get(&process).map_or(0.0, |(_, before)| *before);
            let (sum, pids) = by_name.entry(name).or_default();
            *sum += cpus(own - before);
            pids.extend((own > before).then_some(process.0));
        }
        let programs =
            by_name.into_iter().map(|(name, (cpus, pids))| Program { name, cpus, pids, client: false });
        let mut programs: Vec<Program> = programs.filter(|program| program.cpus >= LEAST_CPUS).collect();
        programs.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
        programs.truncate(MOST_NAMED);
        let server = cpus(self.server - earlier.server);
        Machine {
            server,
            others: (cpus(self.used - earlier.used) - server).max(0.0),
            stolen: cpus(self.stolen - earlier.stolen),
            programs,
            all_visible: self.all_visible,
            unlimited: self.unlimited,
        }
    }
}

/// Whether a process may use all CPUs, all of the time: its mask has as many as are online, and no cgroup above it
/// has a quota. Unreadable limits count as none.
fn may_use_all(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:")).unwrap_or_default();
    let allowed: u32 = mask.chars().filter_map(|digit| digit.to_digit(16)).map(u32::count_ones).sum();
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let is_cpu = |line: &&str| line.starts_with("cpu") && !line.starts_with("cpu ");
    let online = stat.lines().filter(is_cpu).count();
    if (allowed as usize) < online {
        return false;
    }
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
    let path = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
    let quotas = Path::new(path.trim_start_matches('/')).ancestors().map(|group| {
        fs::read_to_string(Path::new("/sys/fs/cgroup").join(group).join("cpu.max")).unwrap_or_default()
    });
    quotas.into_iter().all(|quota| quota.is_empty() || quota.starts_with("max"))
}

/// Clock ticks of `seconds`.
pub(super) fn ticks(seconds: f64) -> f64 {
    // SAFETY: no preconditions.
    let a_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    seconds * a_second.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BackendSample;

    fn process(name: &str, parent: i32, own: f64, of_children: f64) -> Process {
        Process { name: name.into(), parent, own, of_children, start: 7 }
    }

    #[test]
    fn a_process_is_read_whatever_its_name() {
        let stat = "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 30 12 5 3 20 0 1 0 999 1000";
        let read = Process::parse(stat).unwrap();
        assert_eq!(read, Process { start: 999, ..process("a) b (c", 7, 42.0, 8.0) });
        assert_eq!(Process::parse("42 (a) S 7"), None);
        // SAFETY: no preconditions.
        let parent = unsafe { libc::getppid() };
        assert_eq!(Process::read(std::process::id() as i32).map(|own| own.parent), Some(parent));
    }

    #[test]
    fn the_time_of_others_is_what_the_server_did_not_use() {
        let mut before = MachineCounts::of_all("cpu  100 20 30 500 60 5 5 40 0 0\ncpu0 1").unwrap();
        assert_eq!((before.used, before.stolen), (160.0, 40.0));
        let mut after = MachineCounts { used: 360.0, stolen: 50.0, ..MachineCounts::default() };
        for (counts, first, session, compiler) in
            [(&mut before, (2.0, 10.0), 30.0, 50.0), (&mut after, (3.0, 45.0), 0.0, 170.0)]
        {
            counts.add(10, process("postgres", 1, first.0, first.1), 10);
            // This session ends: its 30 ticks, and 5 more, are then the first process's.
            if session > 0.0 {
                counts.add(11, process("postgres", 10, session, 0.0), 10);
            }
            counts.add(20, process("rustc", 1, compiler, 0.0), 10);
        }
        // A short program that began meanwhile.
        after.add(21, process("backup", 1, 15.0, 0.0), 10);
        let machine = after.since(&before, 100.0);
        assert_eq!(machine.server, 0.06);
        assert_eq!(machine.others, 1.94, "200 ticks of 2 CPUs were used, 6 by the server");
        assert_eq!(machine.stolen, 0.1);
        let named: Vec<(&str, f64)> = machine.programs.iter().map(|one| (&*one.name, one.cpus)).collect();
        assert_eq!(named, [("rustc", 1.2), ("backup", 0.15)]);
        assert_eq!(machine.programs[0].pids, [20]);
        assert!((machine.of_others() - 0.97).abs() < 1e-9);
        assert!((machine.unnamed() - (1.94 - 1.35)).abs() < 1e-9);
        assert_eq!(Machine::default().of_others(), 0.0);
    }

    #[test]
    fn a_client_is_known_by_the_first_bytes_of_its_name() {
        let session =
            |application: &str| BackendSample { application: application.into(), ..Default::default() };
        let backends = vec![session(""), session("a-service-with-a-long-name")];
        let sample = ActivitySample { backends, ..ActivitySample::default() };
        let program = |name: &str| Program { name: name.into(), ..Program::default() };
        let programs = vec![program("a-service-with-"), program("a-service"), program("rustc")];
        let mut machine = Machine { programs, ..Machine::default() };
        machine.mark_clients(&[sample]);
        let clients: Vec<bool> = machine.programs.iter().map(|program| program.client).collect();
        assert_eq!(clients, [true, false, false]);
    }

    #[test]
    fn a_mask_is_a_limit() {
        // SAFETY: the set is initialised; this thread's mask alone changes, and the thread ends.
        let limited = std::thread::spawn(|| unsafe {
            let mut one: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut one);
            libc::sched_setaffinity(0, size_of_val(&one), &one);
            may_use_all(libc::syscall(libc::SYS_gettid) as i32)
        });
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        assert!(!limited.join().expect("ends") || cpus == 1);
    }
}

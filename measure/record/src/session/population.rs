//! The names and mappings of the processes that live, for captures that follow one another: each begins with them, so
//! that it can be read without the earlier ones.
//!
//! Nothing is read from the system: root may have been given up, and mappings of other users' processes are then not
//! readable. Everything is taken from the records of the earlier captures.
//!
//! ```text
//!   see ──> pending, with times ──end_round──> processes: in the order of time
//!                   └───────── records ─────────────┘
//! ```
//! Each CPU has its own ring, so that a child's exec may be read before its fork, or its end before its beginning. As
//! readers do, this waits with a record until a later round has brought all that may be older.
//!
//! Invariants:
//! 1. Changes are applied in the order of their times. What the next round may still precede is not applied, and is in
//!    the next capture's beginning with its own time.
//! 2. A process that has ended is not in the next capture's beginning, once its end was applied; or, if its end was
//!    lost, once two captures in a row began without it.
//! 3. Of mappings that overlap, the later one comes last; one that is covered whole by a later one is dropped. The number
//!    kept for a process is bounded by that and by [`MOST_MAPPINGS`].

use hardmeter_samples::model::{Comm, Exit, Fork, Mmap, Pid, Record, Tid, Timestamp};
use hardmeter_samples::perf_data::abi::PerfEventAttr;
use hardmeter_samples::perf_data::{decode_record, EventAttributes, RecordEncoder};
use std::collections::{BTreeMap, BTreeSet};

/// Limit of a process's mappings. The kernel reports no unmapping; addresses are reused long before this.
const MOST_MAPPINGS: usize = 20_000;

/// One process.
#[derive(Debug, Default, Clone)]
struct Process {
    /// Names of its threads.
    names: BTreeMap<Tid, Comm>,
    /// In the order in which they were made.
    mappings: Vec<Mmap>,
}

/// What a record changes.
enum Change {
    Map(Mmap),
    Name(Comm),
    Fork(Fork),
    Exit(Exit),
}

impl Change {
    /// `None` for records that change nothing here.
    fn of(record: Record<'_>) -> Option<Change> {
        match record {
            Record::Mmap(mapping) => Some(Change::Map(mapping)),
            Record::Comm(comm) => Some(Change::Name(comm)),
            Record::Fork(fork) => Some(Change::Fork(fork)),
            Record::Exit(exit) => Some(Change::Exit(exit)),
            _ => None,
        }
    }

    fn time(&mut self) -> &mut Option<Timestamp> {
        match self {
            Change::Map(mapping) => &mut mapping.time,
            Change::Name(comm) => &mut comm.time,
            Change::Fork(fork) => &mut fork.time,
            Change::Exit(exit) => &mut exit.time,
        }
    }

    fn encode(&self, encoder: &RecordEncoder) -> Vec<u8> {
        match self {
            Change::Map(mapping) => encoder.mmap(mapping),
            Change::Name(comm) => encoder.comm(comm),
            Change::Fork(fork) => encoder.fork(fork),
            Change::Exit(exit) => encoder.exit(exit),
        }
    }
}

/// The processes that live.
pub(super) struct Population {
    attr: PerfEventAttr,
    encoder: RecordEncoder,
    processes: BTreeMap<Pid, Process>,
    /// Changes of the last two rounds, with their times.
    pending: Vec<(Timestamp, Change)>,
    /// The newest time of all changes, and that of the rounds before this one: no later record is older.
    newest: Timestamp,
    settled: Timestamp,
    /// Processes that did not exist when the last capture began.
    missing: BTreeSet<Pid>,
}

impl Population {
    /// Ready for the records of these events; `None` without an event.
    pub(super) fn new(events: &[EventAttributes]) -> Option<Population> {
        let first = events.first()?;
        let encoder = RecordEncoder::new(first);
        Some(Population {
            attr: first.attr,
            encoder,
            processes: BTreeMap::new(),
            pending: Vec::new(),
            newest: Timestamp(0),
            settled: Timestamp(0),
            missing: BTreeSet::new(),
        })
    }

    /// Takes a record of the time before the first round.
    pub(super) fn begin(&mut self, record: &[u8]) {
        if let Some(change) = decode_record(&self.attr, record).and_then(Change::of) {
            self.apply(change);
        }
    }

    /// Takes a record of the current round. One without a time says what is so now.
    pub(super) fn see(&mut self, record: &[u8]) {
        let Some(mut change) = decode_record(&self.attr, record).and_then(Change::of) else { return };
        let time = change.time().filter(|time| time.0 != 0).unwrap_or_else(now);
        *change.time() = Some(time);
        self.newest = self.newest.max(time);
        self.pending.push((time, change));
    }

    /// All rings have been read once since the last call: applies what no later record can precede.
    pub(super) fn end_round(&mut self) {
        self.pending.sort_by_key(|(time, _)| *time);
        let certain = self.pending.partition_point(|(time, _)| *time <= self.settled);
        for (_, change) in self.pending.drain(..certain).collect::<Vec<_>>() {
            self.apply(change);
        }
        self.settled = self.newest;
    }

    /// Forgets the processes that did not exist at the last call and do not exist now: the records of their ends were
    /// lost, as when a ring is full. Samples of one that has just ended may still come.
    fn forget_missing(&mut self) {
        // Not by /proc, which may hide other users' processes.
        // SAFETY: no memory; signal 0 sends nothing.
        let is_missing = |pid: &Pid| unsafe { libc::kill(pid.0, 0) } != 0 && no_such_process();
        let missing: BTreeSet<Pid> =
            self.processes.keys().filter(|pid| pid.0 > 0 && is_missing(pid)).copied().collect();
        self.processes.retain(|pid, _| !(missing.contains(pid) && self.missing.contains(pid)));
        self.missing = missing;
    }

    /// The records with which the next capture begins, which begins now.
    pub(super) fn next_capture(&mut self) -> Vec<u8> {
        self.forget_missing();
        self.records()
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Map(mapping) => self.map(mapping),
            Change::Name(comm) => self.name(comm),
            Change::Fork(fork) => self.fork(&fork),
            Change::Exit(exit) => self.exit(&exit),
        }
    }

    fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for process in self.processes.values() {
            process.names.values().for_each(|name| records.extend(self.encoder.comm(name)));
            process.mappings.iter().for_each(|mapping| records.extend(self.encoder.mmap(mapping)));
        }
        self.pending.iter().for_each(|(_, change)| records.extend(change.encode(&self.encoder)));
        records
    }

    fn map(&mut self, mapping: Mmap) {
        let mapping = Mmap { time: None, ..mapping };
        let mappings = &mut self.processes.entry(mapping.pid).or_default().mappings;
        let end = |mapping: &Mmap| mapping.start.0.saturating_add(mapping.length);
        // The kernel's own mappings are named by symbols, and may overlap.
        if mapping.pid.0 >= 0 {
            mappings.retain(|old| old.start.0 < mapping.start.0 || end(old) > end(&mapping));
        }
        if mappings.len() >= MOST_MAPPINGS {
            mappings.remove(0);
        }
        mappings.push(mapping);
    }

    fn name(&mut self, comm: Comm) {
        let process = self.processes.entry(comm.pid).or_default();
        if comm.exec {
            *process = Process::default();
        }
        // The mappings that follow are those of the program that it runs now: there is no exec for readers.
        process.names.insert(comm.tid, Comm { exec: false, time: None, ..comm });
    }

    fn fork(&mut self, fork: &Fork) {
        if fork.pid == fork.parent_pid {
            return; // a thread, which has its process's mappings
        }
        let parent = self.processes.get(&fork.parent_pid).cloned().unwrap_or_default();
        let of_child = |mapping: Mmap| Mmap { pid: fork.pid, tid: fork.tid, ..mapping };
        let name = parent.names.get(&fork.parent_tid).or_else(|| parent.names.values().next()).cloned();
        let name = name.map(|name| (fork.tid, Comm { pid: fork.pid, tid: fork.tid, ..name }));
        let mappings = parent.mappings.into_iter().map(of_child).collect();
        self.processes.insert(fork.pid, Process { names: name.into_iter().collect(), mappings });
    }

    fn exit(&mut self, exit: &Exit) {
        match exit.tid.0 == exit.pid.0 {
            true => drop(self.processes.remove(&exit.pid)),
            false => {
                if let Some(process) = self.processes.get_mut(&exit.pid) {
                    process.names.remove(&exit.tid);
                }
            }
        }
    }
}

/// The clock of samples: CLOCK_MONOTONIC.
fn now() -> Timestamp {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the structure that it is given.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    Timestamp(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

/// Whether the last call failed for this reason.
fn no_such_process() -> bool {
    std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pmu::latecomers::each_record;
    use hardmeter_samples::model::VirtualAddress;
    use hardmeter_samples::perf_data::abi::{attr_flag, sample_type};

    fn population() -> (Population, RecordEncoder) {
        let mut attr = PerfEventAttr::new(1, 0);
        attr.sample_type = sample_type::IDENTIFIER | sample_type::TID | sample_type::TIME;
        attr.flags |= attr_flag::SAMPLE_ID_ALL;
        let events = [EventAttributes { name: "cpu-clock".into(), attr, ids: vec![5] }];
        (Population::new(&events).expect("an event"), RecordEncoder::new(&events[0]))
    }

    fn code(pid: i32, start: u64, length: u64, path: &str) -> Mmap {
        Mmap::code(Pid(pid), VirtualAddress(start), length, path)
    }

    fn comm(pid: i32, tid: i32, name: &str, exec: bool) -> Comm {
        Comm { pid: Pid(pid), tid: Tid(tid), name: name.into(), exec, time: None }
    }

    fn fork(parent: i32, child: i32) -> Fork {
        let (pid, tid) = (Pid(child), Tid(child));
        Fork { pid, tid, parent_pid: Pid(parent), parent_tid: Tid(parent), time: None }
    }

    /// Process, name or path, and start of each record.
    fn shown(population: &Population) -> Vec<(i32, String, u64)> {
        let records = population.records();
        each_record(&records)
            .map(|record| match decode_record(&population.attr, record) {
                Some(Record::Mmap(mapping)) => (mapping.pid.0, mapping.path, mapping.start.0),
                Some(Record::Comm(comm)) => {
                    assert!(!comm.exec);
                    (comm.pid.0, comm.name, 0)
                }
                other => panic!("{other:?}"),
            })
            .collect()
    }

    #[test]
    fn a_child_has_its_parent_s_mappings_and_an_ended_process_none() {
        let (mut population, encoder) = population();
        population.begin(&encoder.comm(&comm(17, 17, "postgres", false)));
        population.begin(&encoder.mmap(&code(17, 0x1000, 0x1000, "/bin/postgres")));
        population.begin(&encoder.fork(&fork(17, 18)));
        population.begin(&encoder.mmap(&code(18, 0x8000, 0x1000, "/lib/jit.so")));
        let parent = [(17, "postgres".to_string(), 0), (17, "/bin/postgres".to_string(), 0x1000)];
        let child = [
            (18, "postgres".to_string(), 0),
            (18, "/bin/postgres".to_string(), 0x1000),
            (18, "/lib/jit.so".to_string(), 0x8000),
        ];
        assert_eq!(shown(&population), [&parent[..], &child[..]].concat());
        population.begin(&encoder.exit(&Exit { pid: Pid(17), tid: Tid(17), time: None }));
        assert_eq!(shown(&population), child);
    }

    #[test]
    fn exec_and_new_mappings_replace_what_was_there() {
        let (mut population, encoder) = population();
        population.begin(&encoder.comm(&comm(17, 17, "sh", false)));
        population.begin(&encoder.mmap(&code(17, 0x1000, 0x1000, "/bin/sh")));
        population.begin(&encoder.comm(&comm(17, 17, "pgbench", true)));
        population.begin(&encoder.mmap(&code(17, 0x5000, 0x3000, "/bin/pgbench")));
        population.begin(&encoder.mmap(&code(17, 0x6000, 0x1000, "/lib/part.so")));
        population.begin(&encoder.mmap(&code(17, 0x6000, 0x2000, "/lib/covers.so")));
        population.begin(&encoder.comm(&comm(17, 19, "worker", false)));
        population.begin(&encoder.exit(&Exit { pid: Pid(17), tid: Tid(19), time: None }));
        let expected = [
            (17, "pgbench".to_string(), 0),
            (17, "/bin/pgbench".to_string(), 0x5000),
            (17, "/lib/covers.so".to_string(), 0x6000),
        ];
        assert_eq!(shown(&population), expected);
    }

    /// One round of these records.
    fn round(population: &mut Population, records: &[Vec<u8>]) {
        records.iter().for_each(|record| population.see(record));
        population.end_round();
    }

    fn at(time: u64) -> Option<Timestamp> {
        Some(Timestamp(time))
    }

    #[test]
    fn a_fork_that_is_read_last_does_not_undo_the_child_s_exec_or_end() {
        let (mut population, encoder) = self::population();
        population.begin(&encoder.comm(&comm(17, 17, "sh", false)));
        population.begin(&encoder.mmap(&code(17, 0x1000, 0x1000, "/bin/sh")));
        let exec = encoder.comm(&Comm { time: at(20), ..comm(18, 18, "pgbench", true) });
        let mapped = encoder.mmap(&Mmap { time: at(21), ..code(18, 0x5000, 0x1000, "/bin/pgbench") });
        let ended = encoder.exit(&Exit { pid: Pid(19), tid: Tid(19), time: at(23) });
        let forks = [
            encoder.fork(&Fork { time: at(10), ..fork(17, 18) }),
            encoder.fork(&Fork { time: at(22), ..fork(17, 19) }),
        ];
        let parent = [(17, "sh".to_string(), 0), (17, "/bin/sh".to_string(), 0x1000)];
        let child = [(18, "pgbench".to_string(), 0), (18, "/bin/pgbench".to_string(), 0x5000)];
        let both = [&parent[..], &child[..]].concat();
        let processes = population.processes.clone();
        let first = [exec, mapped, ended];
        let all = [&first[..], &forks[..]].concat();
        // In one round, and the forks in the next one.
        for rounds in [vec![&all[..]], vec![&first[..], &forks[..]]] {
            let mut population = Population { processes: processes.clone(), ..self::population().0 };
            rounds.iter().for_each(|records| round(&mut population, records));
            round(&mut population, &[]);
            assert_eq!(shown(&population), both, "{} rounds", rounds.len());
            assert!(population.pending.is_empty(), "{} rounds", rounds.len());
        }
    }

    #[test]
    fn what_may_still_change_is_in_the_next_capture_with_its_time() {
        let (mut population, encoder) = population();
        population.begin(&encoder.comm(&comm(17, 17, "sh", false)));
        let exec = encoder.comm(&Comm { time: at(20), ..comm(18, 18, "pgbench", true) });
        round(&mut population, std::slice::from_ref(&exec));
        let records = population.records();
        assert_eq!(each_record(&records).last(), Some(&exec[..]));
        // A record without a time is newer than all that the rings hold.
        round(&mut population, &[encoder.comm(&comm(18, 18, "entered", false))]);
        round(&mut population, &[encoder.fork(&Fork { time: at(30), ..fork(17, 18) })]);
        let names = [(17, "sh".to_string(), 0), (18, "entered".to_string(), 0)];
        assert_eq!(shown(&population), names);
    }

    #[test]
    fn a_process_whose_end_was_lost_is_forgotten_at_the_second_capture() {
        let (mut population, encoder) = population();
        let (own, ended) = (std::process::id() as i32, 1 << 28); // beyond pid_max
        population.begin(&encoder.comm(&comm(own, own, "alive", false)));
        population.begin(&encoder.comm(&comm(ended, ended, "lost", false)));
        population.begin(&encoder.mmap(&code(-1, 0x9000, 0x1000, "[kernel.kallsyms]_text")));
        population.forget_missing();
        assert_eq!(population.processes.len(), 3);
        population.forget_missing();
        let pids: Vec<i32> = population.processes.keys().map(|pid| pid.0).collect();
        assert_eq!(pids, [-1, own]);
    }
}

//! The names and mappings of the processes that live, for captures that follow one another: each begins with them, so
//! that it can be read without the earlier ones.
//!
//! Nothing is read from the system: root may have been given up, and mappings of other users' processes are then not
//! readable. Everything is taken from the records of the earlier captures.
//!
//! Invariants:
//! 1. A process that has ended is not in the next capture's beginning.
//! 2. Of mappings that overlap, the later one comes last; one that is covered whole by a later one is dropped. The number
//!    kept for a process is bounded by that and by [`MOST_MAPPINGS`].

use hardmeter_samples::model::{Comm, Exit, Fork, Mmap, Pid, Record, Tid};
use hardmeter_samples::perf_data::abi::PerfEventAttr;
use hardmeter_samples::perf_data::{decode_record, EventAttributes, RecordEncoder};
use std::collections::BTreeMap;

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

/// The processes that live.
pub(super) struct Population {
    attr: PerfEventAttr,
    encoder: RecordEncoder,
    processes: BTreeMap<Pid, Process>,
}

impl Population {
    /// Ready for the records of these events; `None` without an event.
    pub(super) fn new(events: &[EventAttributes]) -> Option<Population> {
        let first = events.first()?;
        let encoder = RecordEncoder::new(first);
        Some(Population { attr: first.attr, encoder, processes: BTreeMap::new() })
    }

    /// Looks at a record that goes into a capture.
    pub(super) fn see(&mut self, record: &[u8]) {
        match decode_record(&self.attr, record) {
            Some(Record::Mmap(mapping)) => self.map(mapping),
            Some(Record::Comm(comm)) => self.name(comm),
            Some(Record::Fork(fork)) => self.fork(&fork),
            Some(Record::Exit(exit)) => self.exit(&exit),
            _ => {}
        }
    }

    /// The records with which the next capture begins.
    pub(super) fn records(&self) -> Vec<u8> {
        let mut records = Vec::new();
        for process in self.processes.values() {
            process.names.values().for_each(|name| records.extend(self.encoder.comm(name)));
            process.mappings.iter().for_each(|mapping| records.extend(self.encoder.mmap(mapping)));
        }
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
        population.see(&encoder.comm(&comm(17, 17, "postgres", false)));
        population.see(&encoder.mmap(&code(17, 0x1000, 0x1000, "/bin/postgres")));
        population.see(&encoder.fork(&fork(17, 18)));
        population.see(&encoder.mmap(&code(18, 0x8000, 0x1000, "/lib/jit.so")));
        let parent = [(17, "postgres".to_string(), 0), (17, "/bin/postgres".to_string(), 0x1000)];
        let child = [
            (18, "postgres".to_string(), 0),
            (18, "/bin/postgres".to_string(), 0x1000),
            (18, "/lib/jit.so".to_string(), 0x8000),
        ];
        assert_eq!(shown(&population), [&parent[..], &child[..]].concat());
        population.see(&encoder.exit(&Exit { pid: Pid(17), tid: Tid(17), time: None }));
        assert_eq!(shown(&population), child);
    }

    #[test]
    fn exec_and_new_mappings_replace_what_was_there() {
        let (mut population, encoder) = population();
        population.see(&encoder.comm(&comm(17, 17, "sh", false)));
        population.see(&encoder.mmap(&code(17, 0x1000, 0x1000, "/bin/sh")));
        population.see(&encoder.comm(&comm(17, 17, "pgbench", true)));
        population.see(&encoder.mmap(&code(17, 0x5000, 0x3000, "/bin/pgbench")));
        population.see(&encoder.mmap(&code(17, 0x6000, 0x1000, "/lib/part.so")));
        population.see(&encoder.mmap(&code(17, 0x6000, 0x2000, "/lib/covers.so")));
        population.see(&encoder.comm(&comm(17, 19, "worker", false)));
        population.see(&encoder.exit(&Exit { pid: Pid(17), tid: Tid(19), time: None }));
        let expected = [
            (17, "pgbench".to_string(), 0),
            (17, "/bin/pgbench".to_string(), 0x5000),
            (17, "/lib/covers.so".to_string(), 0x6000),
        ];
        assert_eq!(shown(&population), expected);
    }
}

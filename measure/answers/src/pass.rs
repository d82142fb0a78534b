//! One walk over a capture's records: tracks process names, applies the filter, places each sample.

use crate::code::{CodeMap, Place};
use crate::filter::Filter;
use crate::objects::{DataMap, Object, ObjectIndex};
use crate::statements::Statements;
use crate::totals::Totals;
use hardmeter_samples::model::{CpuMode, Pid, Record, Sample, Tid, VirtualAddress};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Number of a process name within one pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessNameId(pub u32);

/// The context of a sample at its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Located {
    /// The instruction's place; `None` without an instruction pointer, or if places are not requested.
    pub place: Option<Place>,
    /// The thread's name; `None` if the capture does not have it.
    pub process: Option<ProcessNameId>,
    /// The object at the data address; `None` until a view has called [`Pass::object`].
    pub object: Option<Object>,
}

/// One walk over a capture, in order of time.
pub struct Pass<M> {
    map: M,
    filter: Filter,
    with_places: bool,
    totals: Totals,
    threads: FxHashMap<Tid, ProcessNameId>,
    names: Vec<Arc<str>>,
    name_ids: FxHashMap<Arc<str>, ProcessNameId>,
    objects: ObjectIndex,
    statements: Statements,
}

impl<M: CodeMap> Pass<M> {
    /// Starts a pass that names code through `map` and drops what `filter` does not admit.
    pub fn new(map: M, filter: Filter) -> Self {
        let mut pass = Pass {
            map,
            filter,
            with_places: true,
            totals: Totals::default(),
            threads: FxHashMap::default(),
            names: Vec::new(),
            name_ids: FxHashMap::default(),
            objects: ObjectIndex::new(None),
            statements: Statements::default(),
        };
        // The idle task has no name record; perf's tools call it "swapper".
        let idle = pass.name_id("swapper");
        pass.threads.insert(Tid(0), idle);
        pass
    }

    /// Does not place samples: no image is opened if no view needs code.
    pub fn without_places(mut self) -> Self {
        self.with_places = false;
        self
    }

    /// Names data by the side file on objects, then by symbols and mappings.
    pub fn with_objects(mut self, objects: ObjectIndex) -> Self {
        self.objects = objects;
        self
    }

    /// Sets the texts of statements.
    pub fn with_statements(mut self, statements: Statements) -> Self {
        self.statements = statements;
        self
    }

    /// Processes a record. Returns the context of a sample that passes the filter.
    pub fn see(&mut self, record: &Record<'_>) -> Option<Located> {
        self.totals.see(record);
        match record {
            Record::Sample(sample) => return self.locate(sample),
            Record::Comm(comm) => {
                let id = self.name_id(&comm.name);
                self.threads.insert(comm.tid, id);
            }
            // A new thread has its creator's name until it sets its own.
            Record::Fork(fork) => {
                if let Some(id) = self.threads.get(&fork.parent_tid).copied() {
                    self.threads.insert(fork.tid, id);
                }
            }
            _ => {}
        }
        self.map.observe(record);
        self.objects.observe(record);
        self.statements.observe(record);
        None
    }

    fn locate(&mut self, sample: &Sample<'_>) -> Option<Located> {
        if !self.filter.admits(sample) {
            return None;
        }
        let process = self.process_of(sample);
        if !self.filter.processes.is_empty() {
            let name = &self.names[process?.0 as usize];
            if !self.filter.processes.iter().any(|wanted| **wanted == **name) {
                return None;
            }
        }
        let ip = sample.ip.filter(|_| self.with_places);
        let place = ip.map(|ip| self.map.place(sample.pid, ip, sample.mode));
        Some(Located { place, process, object: None })
    }

    fn process_of(&self, sample: &Sample<'_>) -> Option<ProcessNameId> {
        let by_thread = sample.tid.and_then(|tid| self.threads.get(&tid));
        by_thread.or_else(|| sample.pid.and_then(|pid| self.threads.get(&Tid(pid.0)))).copied()
    }

    fn name_id(&mut self, name: &str) -> ProcessNameId {
        if let Some(id) = self.name_ids.get(name) {
            return *id;
        }
        let id = ProcessNameId(self.names.len() as u32);
        let name: Arc<str> = name.into();
        self.names.push(name.clone());
        self.name_ids.insert(name, id);
        id
    }

    /// A process name by its number.
    pub fn process_name(&self, id: ProcessNameId) -> Arc<str> {
        self.names[id.0 as usize].clone()
    }

    /// The current name of a process.
    pub fn name_of(&self, pid: Pid) -> Option<Arc<str>> {
        self.threads.get(&Tid(pid.0)).map(|id| self.process_name(*id))
    }

    /// The place of an address in the sample's process: for the frames of its call chain.
    pub fn place(&mut self, pid: Option<Pid>, address: VirtualAddress, mode: CpuMode) -> Place {
        self.map.place(pid, address, mode)
    }

    /// The object at a sample's data address; `None` without an address. Call it during the visit: later
    /// records may change the mapping.
    pub fn object(&mut self, sample: &Sample<'_>) -> Option<Object>
    where
        M: DataMap,
    {
        self.objects.of_sample(sample, &mut self.map)
    }

    /// The statements executed by processes, and their texts.
    pub fn statements(&self) -> &Statements {
        &self.statements
    }

    /// The names of objects, and of the server's processes.
    pub fn objects(&mut self) -> &mut ObjectIndex {
        &mut self.objects
    }

    /// Counts so far, independent of the filter.
    pub fn totals(&self) -> &Totals {
        &self.totals
    }

    /// The names of code.
    pub fn map(&mut self) -> &mut M {
        &mut self.map
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{comm, fork, sample, FakeMap};
    use hardmeter_samples::model::Cycles;

    #[test]
    fn a_forked_thread_bears_its_parents_name_until_it_takes_its_own() {
        let mut pass = Pass::new(FakeMap::default(), Filter::default());
        pass.see(&comm(10, "postgres"));
        pass.see(&fork(10, 11));
        let located = pass.see(&Record::Sample(sample(0, 11, 0x1000))).unwrap();
        assert_eq!(&*pass.process_name(located.process.unwrap()), "postgres");
        pass.see(&comm(11, "walwriter"));
        let located = pass.see(&Record::Sample(sample(0, 11, 0x1000))).unwrap();
        assert_eq!(&*pass.process_name(located.process.unwrap()), "walwriter");
        let located = pass.see(&Record::Sample(sample(0, 12, 0x1000))).unwrap();
        assert_eq!(located.process, None, "nobody told the name of 12");
    }

    #[test]
    fn the_filter_drops_samples_and_the_totals_still_count_them() {
        let filter = Filter {
            processes: vec!["postgres".into()],
            min_latency: Some(Cycles(100)),
            ..Filter::default()
        };
        let mut pass = Pass::new(FakeMap::default(), filter);
        pass.see(&comm(10, "postgres"));
        pass.see(&comm(20, "pgbench"));
        let mut slow = sample(0, 10, 0x1000);
        slow.weight.as_mut().unwrap().latency = Cycles(100);
        let mut other = slow.clone();
        other.tid = Some(Tid(20));
        other.pid = Some(Pid(20));
        assert!(pass.see(&Record::Sample(slow)).is_some());
        assert!(pass.see(&Record::Sample(other)).is_none());
        assert!(pass.see(&Record::Sample(sample(0, 10, 0x1000))).is_none(), "latency 10");
        assert_eq!(pass.totals().samples(), 3);
    }
}

//! Connects the recorder with the crates for the objects and the code of the profiled server, which are independent
//! of it.
//!
//! ```text
//!   record: Attach, SampleObserver  <── this file ──>  objects: attach, ServerObjects
//!   record: LoadFinder              <── this file ──>  symbols: StallFinder
//! ```

use hardmeter_objects::process_memory::MemoryError;
use hardmeter_objects::program::ProgramError;
use hardmeter_objects::{Access, AttachError, ServerObjects};
use hardmeter_record::live::{Finding, LoadFinder};
use hardmeter_record::session::{Attach, Attached, Observations, ObservedAccess, SampleObserver};
use hardmeter_samples::model::{Landing, Pid, Record, Registers, StateRule, Timestamp, VirtualAddress};
use hardmeter_symbols::{NoAddress, NoBlame, StallFinder};

/// The callback with which a recording observes its server.
pub(super) fn attach() -> Attach {
    Box::new(|pid| match hardmeter_objects::attach(pid) {
        Ok(objects) => Attached::Observer(Box::new(Observer(objects))),
        Err(AttachError::Program(ProgramError::NotThis { .. })) => Attached::NotAServer,
        // A command that ended immediately was not a load, either.
        Err(AttachError::Memory(MemoryError::Gone { .. })) => Attached::NotAServer,
        // A starting server has not entered its data folder at first, nor laid out its memory.
        Err(
            error @ (AttachError::NotReady { .. }
            | AttachError::RuntimeNotReady { .. }
            | AttachError::Version { .. }
            | AttachError::SelfTest { .. }),
        ) => Attached::NotReady(error.to_string()),
        Err(error) => Attached::Refused(error.to_string()),
    })
}

/// The finder of loads for a live recording.
pub(super) fn load_finder() -> Box<dyn LoadFinder> {
    Box::new(Loads(StallFinder::new()))
}

/// Adapts `StallFinder` to the recorder's interface.
struct Loads(StallFinder);

impl LoadFinder for Loads {
    fn observe(&mut self, record: &Record<'_>) {
        self.0.observe(record);
    }

    fn open_images(&mut self) {
        self.0.open_images();
    }

    fn find(&mut self, pid: Pid, ip: VirtualAddress, registers: &Registers<'_>, landing: Landing) -> Finding {
        match self.0.find(pid, ip, registers, landing) {
            Ok(Some(load)) => match load.address {
                Ok(address) => Finding::Load(load.instruction, address),
                Err(NoAddress::Overwritten) => Finding::Overwritten(load.instruction),
                Err(NoAddress::Segment) => Finding::Segment(load.instruction),
                Err(NoAddress::Several) => Finding::Several(load.instruction),
            },
            Ok(None) => Finding::NoLoad,
            Err(NoBlame::NoCode) => Finding::NoCode,
            Err(NoBlame::NoFunction) => Finding::NoFunction,
            Err(NoBlame::Entry) => Finding::Entry,
            Err(NoBlame::Join) => Finding::Join,
        }
    }
}

/// A server's objects as an observer of samples.
struct Observer(Box<dyn ServerObjects>);

impl SampleObserver for Observer {
    fn state_rules(&self) -> Vec<StateRule> {
        self.0.state_rules()
    }

    fn see(&mut self, accesses: &[ObservedAccess]) {
        let accesses: Vec<Access> = accesses
            .iter()
            .map(|access| Access {
                pid: access.pid,
                address: access.address,
                time: access.time,
                stack_pointer: access.stack_pointer,
                states: access.states.clone(),
            })
            .collect();
        self.0.see(&accesses);
    }

    fn tick(&mut self, now: Timestamp) {
        self.0.look_again(now);
    }

    fn finish(mut self: Box<Self>, now: Timestamp) -> Observations {
        // Backends' memory is read while they exist; their counters are complete after they have ended.
        self.0.look_again(now);
        let counted = self.0.counted();
        let notes = self.0.finish(now);
        let mut remarks = notes.remarks.clone();
        remarks.extend(counted.trouble);
        Observations {
            notes: Some(notes),
            remarks,
            workload: counted.figures.into_iter().map(|(name, count)| (name, count as f64)).collect(),
            workload_databases: counted.databases,
            workload_limits: counted.limits,
        }
    }
}

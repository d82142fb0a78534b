//! Introduces the recorder to whoever knows the objects of the profiled server: neither knows the other.
//!
//! ```text
//!   capture: Attach, SampleObserver  <── this file ──>  objects: attach, ServerObjects
//! ```

use hardmeter_capture::session::{Attach, Attached, Observations, ObservedAccess, SampleObserver};
use hardmeter_objects::program::ProgramError;
use hardmeter_objects::{Access, AttachError, ServerObjects};
use hardmeter_samples::model::{StateRule, Timestamp};

/// What a recording calls to have its server looked into.
pub(super) fn attach() -> Attach {
    Box::new(|pid| match interim::attach(pid) {
        Ok(objects) => Attached::Observer(Box::new(Observer { objects })),
        Err(AttachError::Program(ProgramError::NotThis { .. })) => Attached::NotAServer,
        Err(error @ AttachError::NotReady { .. }) => Attached::NotReady(error.to_string()),
        Err(error) => Attached::Refused(error.to_string()),
    })
}

/// A server's objects as an observer of samples.
struct Observer {
    objects: Box<dyn ServerObjects>,
}

impl SampleObserver for Observer {
    fn state_rules(&self) -> Vec<StateRule> {
        self.objects.state_rules()
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
        self.objects.see(&accesses);
    }

    fn tick(&mut self, now: Timestamp) {
        self.objects.look_again(now);
    }

    fn finish(self: Box<Self>, now: Timestamp) -> Observations {
        let notes = self.objects.finish(now);
        Observations { remarks: notes.remarks.clone(), notes: Some(notes), workload: Vec::new() }
    }
}

/// TEMPORARY until hardmeter_objects::attach is there.
mod interim {
    use super::*;
    use hardmeter_objects::process_memory::ProcessMemory;
    use hardmeter_objects::program::Program;
    use hardmeter_samples::model::Pid;
    use hardmeter_samples::object_notes::ObjectNotes;

    struct Statements(hardmeter_samples::model::VirtualAddress);

    impl ServerObjects for Statements {
        fn describe(&self) -> String {
            "PostgreSQL".into()
        }
        fn state_rules(&self) -> Vec<StateRule> {
            vec![StateRule::Statement { pointer: self.0 }]
        }
        fn see(&mut self, _accesses: &[Access]) {}
        fn look_again(&mut self, _now: Timestamp) {}
        fn finish(self: Box<Self>, _now: Timestamp) -> ObjectNotes {
            ObjectNotes::new("PostgreSQL")
        }
    }

    pub(super) fn attach(pid: Pid) -> Result<Box<dyn ServerObjects>, AttachError> {
        let memory = ProcessMemory::open(pid)?;
        let program =
            Program::find(&memory, &memory.mappings()?, "PostgreSQL server", &["debug_query_string"])?;
        let address = program.address("debug_query_string").ok_or(AttachError::NotReady { pid })?;
        Ok(Box::new(Statements(address)))
    }
}

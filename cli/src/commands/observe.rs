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
    Box::new(|pid| match hardmeter_objects::attach(pid) {
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
